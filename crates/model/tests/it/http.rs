//! Whole calls against a server on the loopback interface.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use offshoot_model::{
    ApiKey, CallConfig, Chunk, ContentBlock, Dialect, Failure, FinishReason, Message,
    MessageSource, Model, ModelRequest, ModelSettings, ProviderConfig, ProviderKind, ProviderModel,
    Role, SetupError, encode_request,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

const KEY: &str = "sk-very-secret";

/// What the server does after it wrote its answer.
enum Then {
    Close,
    Stall,
}

/// Answers one request with `answer`. Gives the base URL, and the request once it has been read.
async fn server(answer: String, then: Then) -> (String, oneshot::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let (seen, request) = oneshot::channel();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        while !is_whole(&bytes) {
            assert_ne!(
                socket.read_buf(&mut bytes).await.unwrap(),
                0,
                "the request was cut"
            );
        }
        socket.write_all(answer.as_bytes()).await.unwrap();
        let _unread = seen.send(String::from_utf8(bytes).unwrap());
        if matches!(then, Then::Stall) {
            // Until the client goes away.
            let _gone = socket.read_buf(&mut Vec::new()).await;
        }
    });
    (base, request)
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| {
            line.to_lowercase()
                .strip_prefix("content-length: ")?
                .parse()
                .ok()
        })
        .unwrap_or(0);
    body.len() >= length
}

fn events(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nx-request-id: req-1\r\nconnection: close\r\n\r\n{body}"
    )
}

fn config(base_url: String) -> ProviderConfig {
    ProviderConfig {
        api_key: Some(ApiKey::new(KEY)),
        ..ProviderConfig::new(ProviderKind::Compatible, "demo", base_url)
    }
}

fn request() -> Arc<ModelRequest> {
    Arc::new(ModelRequest {
        config: CallConfig {
            provider: "demo".into(),
            model: "demo-1".into(),
            ..CallConfig::default()
        },
        messages: vec![Message::text("m-1", Role::User, "hi", MessageSource::user()).into()],
        ..ModelRequest::default()
    })
}

async fn call(config: ProviderConfig) -> Vec<Chunk> {
    let model = ProviderModel::new(config).unwrap();
    model
        .stream(request(), CancellationToken::new())
        .collect()
        .await
}

/// The chunks of a call that the server answers with `answer`.
async fn answered(answer: String) -> Vec<Chunk> {
    let (base, _) = server(answer, Then::Close).await;
    call(config(base)).await
}

fn of_text(text: &str) -> [Chunk; 2] {
    [
        Chunk::BlockStart {
            index: 0,
            block_type: "text".into(),
        },
        Chunk::TextDelta {
            index: 0,
            text: text.into(),
        },
    ]
}

fn failed(code: &str, message: &str) -> Chunk {
    Chunk::failed(Failure {
        request_id: Some("req-1".into()),
        ..Failure::new(code, message)
    })
}

const HELLO: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n\n";

#[tokio::test]
async fn a_call_sends_the_encoded_request_and_streams_the_answer() {
    let body = format!(": hi\n\n{HELLO}data: [DONE]\n\n");
    let (base, seen) = server(events(&body), Then::Stall).await;
    let chunks = call(config(base)).await;
    let mut expected = of_text("hello").to_vec();
    expected.push(Chunk::BlockEnd {
        index: 0,
        block: ContentBlock::text("hello"),
    });
    expected.push(Chunk::finish(FinishReason::Stop));
    assert_eq!(chunks, expected);

    let seen = seen.await.unwrap();
    let (head, body) = seen.split_once("\r\n\r\n").unwrap();
    assert_eq!(
        body.as_bytes(),
        encode_request(&request(), &Dialect::compatible())
    );
    let mut lines: Vec<_> = head
        .lines()
        .filter(|line| !line.starts_with("host: "))
        .collect();
    lines.sort_unstable();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        lines,
        [
            "POST /v1/chat/completions HTTP/1.1",
            "accept: text/event-stream",
            &format!("authorization: Bearer {KEY}"),
            &format!("content-length: {}", body.len()),
            "content-type: application/json",
            &format!("user-agent: offshoot/{version}"),
        ]
    );
}

#[tokio::test]
async fn an_end_marker_without_a_blank_line_still_counts() {
    let chunks = answered(events(&format!("{HELLO}data: [DONE]"))).await;
    assert_eq!(chunks.last(), Some(&Chunk::finish(FinishReason::Stop)));
}

#[tokio::test]
async fn a_stream_that_ends_early_is_reported_as_closed() {
    let chunks = answered(events(HELLO)).await;
    let failure = failed(
        "STREAM_CLOSED",
        "the provider closed the stream before the answer was complete",
    );
    assert_eq!(chunks, [of_text("hello").as_slice(), &[failure]].concat());
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_transport_failure() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 1000\r\n\r\n";
    let chunks = answered(format!("{head}{HELLO}")).await;
    assert_eq!(chunks[..2], of_text("hello"));
    assert_eq!(code(&chunks), "TRANSPORT");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_transport_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let chunks = call(config(base)).await;
    assert_eq!((chunks.len(), code(&chunks)), (1, "TRANSPORT"));
}

#[tokio::test]
async fn an_error_event_ends_the_stream() {
    let body = format!("{HELLO}event: error\ndata: {{\"message\":\"busy\",\"code\":503}}\n\n");
    let chunks = answered(events(&body)).await;
    let failure = Failure {
        status: Some(503),
        request_id: Some("req-1".into()),
        ..Failure::new("SERVER", "busy")
    };
    assert_eq!(
        chunks,
        [of_text("hello").as_slice(), &[Chunk::failed(failure)]].concat()
    );
}

#[tokio::test]
async fn error_statuses_are_mapped() {
    let cases = [
        (401, r#"{"error":{"message":"bad key"}}"#, "AUTH", "bad key"),
        (403, r#"{"message":"no"}"#, "AUTH", "no"),
        (
            402,
            r#"{"error":{"message":"Insufficient Balance"}}"#,
            "QUOTA",
            "Insufficient Balance",
        ),
        (
            429,
            r#"{"error":{"message":"x","code":"insufficient_quota"}}"#,
            "QUOTA",
            "x",
        ),
        (429, r#"{"error":"slow down"}"#, "RATE_LIMIT", "slow down"),
        (
            400,
            r#"{"error":{"message":"maximum context length is 5"}}"#,
            "CONTEXT_WINDOW_EXCEEDED",
            "maximum context length is 5",
        ),
        (
            400,
            r#"{"detail":"no such field"}"#,
            "INVALID_REQUEST",
            "no such field",
        ),
        (413, "too large", "INVALID_REQUEST", "too large"),
        (
            500,
            "",
            "SERVER",
            "the provider answered with HTTP status 500",
        ),
        (503, "<html>", "SERVER", "<html>"),
        (404, "nothing here", "HTTP_404", "nothing here"),
        (302, "elsewhere", "HTTP_302", "elsewhere"),
    ];
    for (status, body, code, message) in cases {
        let answer = format!(
            "HTTP/1.1 {status} X\r\nlocation: /elsewhere\r\nx-deepseek-request-id: req-1\r\nretry-after: 2\r\nconnection: close\r\n\r\n{body}"
        );
        let failure = Failure {
            message: message.into(),
            code: code.into(),
            status: Some(status),
            provider_retry_after_ms: Some(2_000),
            request_id: Some("req-1".into()),
            offload_images: None,
        };
        assert_eq!(
            answered(answer).await,
            [Chunk::failed(failure)],
            "{status} {body}"
        );
    }
}

#[tokio::test]
async fn a_wrong_content_type_is_malformed() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{\"ok\":1}\n";
    let failure = Failure {
        status: Some(200),
        ..Failure::new(
            "MALFORMED_RESPONSE",
            "the provider answered with the content type `application/json` instead of an event stream: {\"ok\":1}",
        )
    };
    assert_eq!(answered(answer.into()).await, [Chunk::failed(failure)]);
}

#[tokio::test]
async fn a_silent_server_is_a_timeout() {
    let (base, _) = server(String::new(), Then::Stall).await;
    let chunks = call(ProviderConfig {
        idle_timeout: Duration::from_millis(50),
        ..config(base)
    })
    .await;
    let failure = Failure::new("TIMEOUT", "the provider was silent for 0.05 s");
    assert_eq!(chunks, [Chunk::failed(failure)]);
}

#[tokio::test]
async fn cancelling_ends_a_stalled_answer() {
    let (base, _) = server(events(HELLO), Then::Stall).await;
    let cancel = CancellationToken::new();
    let model = ProviderModel::new(config(base)).unwrap();
    let mut stream = model.stream(request(), cancel.clone());
    assert_eq!(stream.next().await, Some(of_text("hello")[0].clone()));
    cancel.cancel();
    let failure = failed("ABORTED", "the model call was cancelled");
    assert_eq!(stream.collect::<Vec<_>>().await, [failure]);
}

#[tokio::test]
async fn a_call_that_is_cancelled_before_it_begins_connects_to_nothing() {
    let cancel = CancellationToken::new();
    cancel.cancel();
    let model = ProviderModel::new(config("http://127.0.0.1:1".into())).unwrap();
    let chunks: Vec<_> = model.stream(request(), cancel).collect().await;
    assert_eq!(chunks, [Chunk::aborted()]);
}

#[tokio::test]
async fn the_key_is_in_no_message_and_in_no_debug_output() {
    let answer = format!(
        "HTTP/1.1 401 X\r\nconnection: close\r\n\r\n{{\"error\":{{\"message\":\"wrong key {KEY}\"}}}}"
    );
    let chunks = answered(answer).await;
    let failure = Failure {
        status: Some(401),
        ..Failure::new("AUTH", "wrong key [API key]")
    };
    assert_eq!(chunks, [Chunk::failed(failure)]);
    let config = config("http://127.0.0.1:1".into());
    assert!(!format!("{config:?}").contains(KEY));
    assert!(!format!("{:?}", ProviderModel::new(config).unwrap()).contains(KEY));
}

#[test]
fn a_model_that_cannot_be_set_up_says_why() {
    let refused = |config| ProviderModel::new(config).unwrap_err();
    let url = refused(config("not a url".into()));
    assert!(matches!(&url, SetupError::InvalidBaseUrl { provider } if provider == "demo"));
    let credentials = refused(config("https://me:pass@localhost".into()));
    assert!(matches!(credentials, SetupError::CredentialsInUrl { .. }));
    let key = ProviderConfig {
        api_key: Some(ApiKey::new("two\nlines")),
        ..config("https://localhost".into())
    };
    assert!(matches!(refused(key), SetupError::InvalidApiKey));
}

#[test]
fn context_windows_are_those_of_the_configuration() {
    let window = ModelSettings {
        context_window: Some(64_000),
        ..ModelSettings::default()
    };
    let model = ProviderModel::new(ProviderConfig {
        models: [("demo-1".to_owned(), window)].into(),
        ..config("https://localhost".into())
    })
    .unwrap();
    assert_eq!(model.provider(), "demo");
    let window = |id: &str| {
        let config = CallConfig {
            model: id.into(),
            ..CallConfig::default()
        };
        model.prepare(&config).unwrap().info.context_window
    };
    assert_eq!((window("demo-1"), window("other")), (Some(64_000), None));
}

fn code(chunks: &[Chunk]) -> &str {
    match chunks.last() {
        Some(Chunk::Finish {
            reason: FinishReason::Error { failure },
            ..
        }) => &failure.code,
        other => panic!("not a failure: {other:?}"),
    }
}
