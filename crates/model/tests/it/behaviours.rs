//! How each behaviour of a provider ends, in either protocol. `reference/agent.md` §2.9.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use offshoot_model::{
    ApiKey, Assembled, Assembler, Attachments, CallConfig, Chunk, ContentBlock, Failure,
    FinishReason, Message, MessageSource, Model, ModelRequest, PictureLimits, Pictures,
    ProviderConfig, ProviderKind, ProviderModel, ReplayState, Role, StreamGrammar, Usage,
};
use offshoot_test_support::{Behaviour, ClosedPort, Endpoint, Reply, ScriptedModelServer};
use tokio_util::sync::CancellationToken;

const ENDPOINTS: [Endpoint; 2] = [Endpoint::ChatCompletions, Endpoint::Messages];

fn config(endpoint: Endpoint, base_url: String) -> ProviderConfig {
    let kind = match endpoint {
        Endpoint::ChatCompletions => ProviderKind::Compatible,
        Endpoint::Messages => ProviderKind::Anthropic,
    };
    ProviderConfig {
        api_key: Some(ApiKey::new("sk-secret")),
        ..ProviderConfig::new(kind, "p", base_url)
    }
}

fn request() -> Arc<ModelRequest> {
    let question = Message::text("m-1", Role::User, "count", MessageSource::user());
    Arc::new(ModelRequest {
        config: CallConfig {
            provider: "p".into(),
            model: "m".into(),
            max_tokens: Some(100),
            ..CallConfig::default()
        },
        messages: vec![question.into()],
        ..ModelRequest::default()
    })
}

/// What a call amounts to. Its stream keeps the grammar, whatever the provider did.
async fn call(config: ProviderConfig) -> Assembled {
    let model = ProviderModel::new(config).unwrap();
    let chunks: Vec<Chunk> = model
        .stream(request(), CancellationToken::new())
        .collect()
        .await;
    let (mut grammar, mut assembler) = (StreamGrammar::new(), Assembler::new());
    for chunk in &chunks {
        assert_eq!(grammar.check(chunk), Ok(()), "{chunk:?}");
        assembler.push(chunk);
    }
    assert_eq!(grammar.end(), Ok(()));
    assembler.finish()
}

async fn behaving(behaviour: Behaviour, endpoint: Endpoint) -> Assembled {
    if behaviour == Behaviour::ConnectionRefused {
        let port = ClosedPort::new();
        return call(config(endpoint, port.base_url())).await;
    }
    let server = ScriptedModelServer::start([behaviour.reply(endpoint)]);
    let mut config = config(endpoint, server.base_url());
    if behaviour == Behaviour::Stall {
        config.idle_timeout = Duration::from_secs(1);
    }
    let assembled = call(config).await;
    assert_eq!(server.requests().len(), 1);
    server.finish();
    assembled
}

fn failure(assembled: &Assembled) -> &Failure {
    match &assembled.finish {
        FinishReason::Error { failure } => failure,
        other => panic!("not a failure: {other:?}"),
    }
}

fn text_of(assembled: &Assembled) -> String {
    let texts = assembled.content.iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// The code, the status, the wait, and what had been said.
type Ending = (&'static str, Option<u16>, Option<u64>, &'static str);

fn documented(behaviour: Behaviour) -> Option<Ending> {
    let plain = |code| Some((code, None, None, ""));
    let partial = |code| Some((code, None, None, "One "));
    let status = |code, status| Some((code, Some(status), None, ""));
    match behaviour {
        Behaviour::ConnectionRefused | Behaviour::ConnectionReset | Behaviour::StreamDisconnect => {
            plain("TRANSPORT")
        }
        Behaviour::PartialDisconnect => partial("TRANSPORT"),
        Behaviour::Stall => partial("TIMEOUT"),
        Behaviour::Empty => plain("EMPTY_RESPONSE"),
        Behaviour::EmptyBody | Behaviour::StreamEof => plain("STREAM_CLOSED"),
        Behaviour::PartialEof => partial("STREAM_CLOSED"),
        Behaviour::MalformedJson | Behaviour::MalformedEvent => plain("MALFORMED_RESPONSE"),
        Behaviour::RateLimit => Some(("RATE_LIMIT", Some(429), Some(1_000), "")),
        Behaviour::ServerError => status("SERVER", 500),
        Behaviour::ServiceUnavailable => status("SERVER", 503),
        Behaviour::AuthError => status("AUTH", 401),
        Behaviour::InvalidRequest => status("INVALID_REQUEST", 400),
        Behaviour::ContextOverflow => status("CONTEXT_WINDOW_EXCEEDED", 400),
        Behaviour::WrongContentType => status("MALFORMED_RESPONSE", 200),
        // Which status it is depends on the provider.
        Behaviour::QuotaExceeded
        | Behaviour::Success
        | Behaviour::SlowSuccess
        | Behaviour::ReasoningSuccess
        | Behaviour::ToolCallSuccess
        | Behaviour::MaxTokens => None,
    }
}

#[tokio::test]
async fn every_failure_ends_as_documented() {
    for endpoint in ENDPOINTS {
        for behaviour in Behaviour::ALL {
            let Some((code, status, wait, said)) = documented(behaviour) else {
                continue;
            };
            let assembled = behaving(behaviour, endpoint).await;
            let failure = failure(&assembled);
            assert_eq!(
                (
                    failure.code.as_str(),
                    failure.status,
                    failure.provider_retry_after_ms,
                    text_of(&assembled).as_str(),
                ),
                (code, status, wait, said),
                "{behaviour:?} {endpoint:?}: {}",
                failure.message
            );
        }
    }
}

#[tokio::test]
async fn an_empty_account_is_no_matter_of_waiting() {
    for (endpoint, status) in [(Endpoint::ChatCompletions, 402), (Endpoint::Messages, 400)] {
        let assembled = behaving(Behaviour::QuotaExceeded, endpoint).await;
        let failure = failure(&assembled);
        assert_eq!(
            (failure.code.as_str(), failure.status),
            ("QUOTA", Some(status))
        );
    }
}

#[tokio::test]
async fn answers_arrive_whole() {
    let text = ContentBlock::text("One two three.");
    for endpoint in ENDPOINTS {
        for behaviour in [Behaviour::Success, Behaviour::SlowSuccess] {
            let assembled = behaving(behaviour, endpoint).await;
            assert_eq!(
                (assembled.content, assembled.finish),
                (vec![text.clone()], FinishReason::Stop)
            );
        }
        let assembled = behaving(Behaviour::ReasoningSuccess, endpoint).await;
        let reasoning = ContentBlock::Reasoning {
            text: "Let me count.".into(),
        };
        assert_eq!(assembled.content, [reasoning, text.clone()]);
        let assembled = behaving(Behaviour::ToolCallSuccess, endpoint).await;
        let call = ContentBlock::ToolCall {
            id: "call_1".into(),
            name: "read".into(),
            arguments: r#"{"file_path":"a.txt"}"#.into(),
        };
        assert_eq!(
            (assembled.content, assembled.finish),
            (vec![call], FinishReason::ToolCalls)
        );
        let assembled = behaving(Behaviour::MaxTokens, endpoint).await;
        assert_eq!(
            (assembled.content, assembled.finish),
            (vec![text.clone()], FinishReason::MaxTokens)
        );
    }
}

#[tokio::test]
async fn usage_counts_cached_tokens_apart_in_either_protocol() {
    let usage = |input_tokens, cache_write_tokens, reasoning_tokens| Usage {
        input_tokens,
        output_tokens: 5,
        cache_read_tokens: Some(3),
        cache_write_tokens,
        reasoning_tokens,
        ..Usage::default()
    };
    let chat = behaving(Behaviour::Success, Endpoint::ChatCompletions).await;
    assert_eq!(chat.usage, Some(usage(14, None, Some(2))));
    let messages = behaving(Behaviour::Success, Endpoint::Messages).await;
    assert_eq!(messages.usage, Some(usage(10, Some(4), None)));
}

#[tokio::test]
async fn an_overloaded_provider_is_one_that_failed() {
    for endpoint in ENDPOINTS {
        let server = ScriptedModelServer::start([Reply::overloaded()]);
        let assembled = call(config(endpoint, server.base_url())).await;
        let failure = failure(&assembled);
        assert_eq!(
            (failure.code.as_str(), failure.status),
            ("SERVER", Some(529))
        );
    }
}

#[tokio::test]
async fn messages_carry_their_headers_and_exactly_the_encoded_bytes() {
    let server = ScriptedModelServer::start([Reply::text("hi"), Reply::text("hi")]);
    let config = config(Endpoint::Messages, server.base_url());
    let protocol = config.protocol;
    let model = ProviderModel::new(config).unwrap();
    let mut thinking = request();
    let asked = &mut Arc::make_mut(&mut thinking).config;
    asked.model = "claude-opus-4-5".into();
    asked.reasoning_effort = Some("low".into());
    asked.max_tokens = Some(32_000);
    for request in [request(), Arc::clone(&thinking)] {
        let stream = model.stream(request, CancellationToken::new());
        assert!(stream.count().await > 0);
    }
    let [plain, with_budget] = &server.requests()[..] else {
        panic!("there are two requests");
    };
    let encoded = protocol.encode(&request(), Pictures::Named).unwrap();
    assert_eq!(
        (plain.path.as_str(), &plain.body[..]),
        ("/v1/messages", &encoded[..])
    );
    assert_eq!(plain.header("x-api-key"), Some("sk-secret"));
    assert_eq!(plain.header("authorization"), None);
    assert_eq!(plain.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(plain.header("anthropic-beta"), None);
    assert_eq!(
        with_budget.header("anthropic-beta"),
        Some("interleaved-thinking-2025-05-14")
    );
}

#[tokio::test]
async fn thinking_makes_its_way_back_with_its_signature() {
    let first = Reply::reasoning_then_text("Let me count.", "One.")
        .signature("c2ln")
        .redacted_thinking("cmVk");
    let server = ScriptedModelServer::start([first, Reply::text("Two.")]);
    let model = ProviderModel::new(config(Endpoint::Messages, server.base_url())).unwrap();
    let mut assembler = Assembler::new();
    let mut stream = model.stream(request(), CancellationToken::new());
    while let Some(chunk) = stream.next().await {
        assembler.push(&chunk);
    }
    let answer = assembler.finish();
    let source = MessageSource::Model {
        provider: "p".into(),
        model: "m".into(),
        replay_state: answer.replay_state,
    };
    let mut next = request();
    Arc::make_mut(&mut next).messages.extend([
        Message {
            content: answer.content,
            ..Message::text("m-2", Role::Assistant, "", source)
        }
        .into(),
        Message::text("m-3", Role::User, "go on", MessageSource::user()).into(),
    ]);
    let stream = model.stream(next, CancellationToken::new());
    assert!(stream.count().await > 0);
    let turns = server.requests()[1].messages();
    assert_eq!(
        turns[1]["content"],
        serde_json::json!([
            { "type": "thinking", "thinking": "Let me count.", "signature": "c2ln" },
            { "type": "redacted_thinking", "data": "cmVk" },
            { "type": "text", "text": "One." },
        ])
    );
}

#[tokio::test]
async fn a_stalled_answer_of_messages_can_be_cancelled() {
    let (reply, gate) = Reply::text("One two.")
        .at(Endpoint::Messages)
        .stall_after(4);
    let server = ScriptedModelServer::start([reply]);
    let model = ProviderModel::new(config(Endpoint::Messages, server.base_url())).unwrap();
    let cancel = CancellationToken::new();
    let stream = model.stream(request(), cancel.clone());
    let (chunks, ()) = futures_util::future::join(stream.collect::<Vec<_>>(), async {
        gate.reached().await;
        cancel.cancel();
    })
    .await;
    assert_eq!(chunks.last(), Some(&Chunk::aborted()));
}

#[tokio::test]
async fn the_providers_id_of_a_request_is_taken_from_headers_or_the_error() {
    let refused = |reply: Reply| async {
        let server = ScriptedModelServer::start([reply]);
        let assembled = call(config(Endpoint::Messages, server.base_url())).await;
        failure(&assembled).request_id.clone()
    };
    assert_eq!(
        refused(Reply::server_error()).await.as_deref(),
        Some("req_scripted")
    );
    let named = Reply::server_error().header("request-id", "req_header");
    assert_eq!(refused(named).await.as_deref(), Some("req_header"));
}

/// A picture for every id.
#[derive(Debug)]
struct OnePicture;

impl Attachments for OnePicture {
    fn bytes(&self, _id: &str) -> std::io::Result<Vec<u8>> {
        Ok(b"picture".to_vec())
    }
}

/// A question with so many pictures, for a model that can look at them.
fn with_pictures(count: usize) -> Arc<ModelRequest> {
    let image: ContentBlock =
        serde_json::from_value(serde_json::json!({ "type": "image", "attachment": {
            "attachmentId": "sha256:01", "mediaType": "image/png", "bytes": 7, "width": 1, "height": 1,
        } }))
        .unwrap();
    let mut request = request();
    let asked = Arc::make_mut(&mut request);
    asked.config.model = "claude-opus-4-6".into();
    Arc::make_mut(&mut asked.messages[0])
        .content
        .extend(vec![image; count]);
    request
}

#[tokio::test]
async fn pictures_are_sent_as_they_are_encoded() {
    let server = ScriptedModelServer::start([Reply::text("A picture.")]);
    let config = ProviderConfig {
        attachments: Arc::new(OnePicture),
        ..config(Endpoint::Messages, server.base_url())
    };
    let encoded = config.encode(&with_pictures(1)).unwrap();
    let model = ProviderModel::new(config).unwrap();
    let stream = model.stream(with_pictures(1), CancellationToken::new());
    assert!(stream.count().await > 0);
    assert_eq!(server.requests()[0].body, encoded);
    assert!(String::from_utf8(encoded).unwrap().contains("cGljdHVyZQ=="));
}

#[tokio::test]
async fn too_many_pictures_are_a_failure_and_nothing_is_sent() {
    let server = ScriptedModelServer::start([]);
    let config = ProviderConfig {
        attachments: Arc::new(OnePicture),
        picture_limits: PictureLimits {
            count: 4,
            bytes: 99,
        },
        ..config(Endpoint::Messages, server.base_url())
    };
    let model = ProviderModel::new(config).unwrap();
    let stream = model.stream(with_pictures(5), CancellationToken::new());
    let expected = Failure {
        offload_images: Some(2),
        ..Failure::new(
            "IMAGE_OFFLOAD_REQUIRED",
            "the history has 5 images of 35 bytes, more than the 4 of 99 bytes that one request may have",
        )
    };
    assert_eq!(stream.collect::<Vec<_>>().await, [Chunk::failed(expected)]);
    assert_eq!(server.requests(), []);
}

#[tokio::test]
async fn an_answer_keeps_what_has_to_go_back() {
    let assembled = behaving(Behaviour::ReasoningSuccess, Endpoint::Messages).await;
    let state = assembled.replay_state.as_ref().map(ReplayState::get);
    assert_eq!(
        state,
        Some(
            r#"{"response":{"adapter":"anthropic-messages","version":1},"blocks":[{"type":"thinking","signature":"c2NyaXB0ZWQ="},null]}"#
        )
    );
}
