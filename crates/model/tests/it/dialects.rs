//! Where providers of chat completions differ.

use offshoot_model::{
    CallConfig, Chunk, ContentBlock, Decoder, Dialect, FinishReason, Message, MessageSource,
    ModelRequest, Pictures, Protocol, RawJson, ReplayState, Role, Usage, encode_messages,
};

fn body(effort: &str, dialect: Dialect) -> String {
    let request = ModelRequest {
        config: CallConfig {
            reasoning_effort: Some(effort.into()),
            ..CallConfig::default()
        },
        ..ModelRequest::default()
    };
    let body = Protocol::ChatCompletions(dialect)
        .encode(&request, Pictures::Named)
        .unwrap();
    let body = String::from_utf8(body).unwrap();
    let rest = body.strip_prefix(r#"{"model":"","messages":[]"#).unwrap();
    let end = r#","stream":true,"stream_options":{"include_usage":true}}"#;
    rest.strip_suffix(end).unwrap().to_owned()
}

fn messages(messages: &[Message], dialect: Dialect) -> String {
    String::from_utf8(encode_messages(messages, &dialect)).unwrap()
}

fn reasoned(source: MessageSource) -> Message {
    Message {
        content: vec![
            ContentBlock::Reasoning { text: "hm".into() },
            ContentBlock::text("so"),
        ],
        ..Message::text("a", Role::Assistant, "", source)
    }
}

#[test]
fn each_dialect_says_efforts_in_its_own_way() {
    let table = [
        (
            Dialect::compatible(),
            "high",
            r#","reasoning_effort":"high""#,
        ),
        (Dialect::openai(), "none", r#","reasoning_effort":"none""#),
        (
            Dialect::deepseek(),
            "low",
            r#","reasoning_effort":"low","thinking":{"type":"enabled"}"#,
        ),
        (
            Dialect::deepseek(),
            "off",
            r#","thinking":{"type":"disabled"}"#,
        ),
        (
            Dialect::openrouter(),
            "xhigh",
            r#","reasoning":{"effort":"xhigh"}"#,
        ),
        (Dialect::ollama(), "low", r#","reasoning_effort":"low""#),
        (
            Dialect::vllm(),
            "off",
            r#","chat_template_kwargs":{"enable_thinking":false}"#,
        ),
        (
            Dialect::llama_cpp(),
            "high",
            r#","chat_template_kwargs":{"enable_thinking":true,"reasoning_effort":"high"}"#,
        ),
    ];
    for (dialect, effort, expected) in table {
        assert_eq!(body(effort, dialect), expected);
    }
}

#[test]
fn each_dialect_passes_reasoning_back_in_its_own_way() {
    let turn = [reasoned(MessageSource::model("p", "m"))];
    let with = |member: &str| format!(r#"[{{"role":"assistant","content":"so"{member}}}]"#);
    let content = r#","reasoning_content":"hm""#;
    let plain = r#","reasoning":"hm""#;
    let table = [
        (Dialect::compatible(), content),
        (Dialect::deepseek(), content),
        (Dialect::llama_cpp(), content),
        (Dialect::ollama(), plain),
        (Dialect::vllm(), plain),
        (Dialect::openrouter(), plain),
        (Dialect::openai(), ""),
    ];
    for (dialect, member) in table {
        assert_eq!(messages(&turn, dialect), with(member));
    }
}

#[test]
fn late_instructions_are_a_users_where_templates_demand_it() {
    let said = |role, text: &str| Message::text("m", role, text, MessageSource::user());
    let history = [
        said(Role::System, "be brief"),
        said(Role::User, "hi"),
        said(Role::Developer, "be briefer"),
    ];
    assert_eq!(
        messages(&history, Dialect::llama_cpp()),
        concat!(
            r#"[{"role":"system","content":"be brief"},{"role":"user","content":"hi"},"#,
            r#"{"role":"user","content":"<system-message>\nbe briefer\n</system-message>"}]"#,
        )
    );
    assert!(
        messages(&history, Dialect::openrouter())
            .ends_with(r#"{"role":"system","content":"be briefer"}]"#)
    );
}

/// The replay state that a stream with these details gives.
fn details(deltas: &[&str]) -> Option<ReplayState> {
    let mut decoder = Decoder::new();
    let mut chunks = Vec::new();
    for delta in deltas {
        let event = format!(r#"{{"choices":[{{"delta":{delta}}}]}}"#);
        decoder.push(&event, &mut chunks);
    }
    decoder.push("[DONE]", &mut chunks);
    match chunks.pop() {
        Some(Chunk::Finish {
            reason: FinishReason::Stop,
            replay_state,
        }) => replay_state,
        other => panic!("not a finish: {other:?}"),
    }
}

const DETAILS: &str = concat!(
    r#"[{"type":"reasoning.text","text":"let me see","index":0,"format":"f","signature":"s"},"#,
    r#"{"type":"reasoning.encrypted","data":"xy","index":1}]"#,
);

#[test]
fn details_of_reasoning_are_put_together_and_go_back_to_their_provider_alone() {
    let state = details(&[
        r#"{"reasoning":"let me ","reasoning_details":[{"type":"reasoning.text","text":"let me ","index":0,"format":"f"}]}"#,
        r#"{"reasoning":"see","reasoning_details":[{"type":"reasoning.text","text":"see","index":0,"signature":"s"}]}"#,
        r#"{"reasoning_details":[{"type":"reasoning.encrypted","data":"x","index":1},{"type":"reasoning.encrypted","data":"y","index":1}]}"#,
        r#"{"content":"so"}"#,
    ])
    .unwrap();
    assert_eq!(
        state.get(),
        format!(
            r#"{{"response":{{"adapter":"chat-completions","version":1,"reasoning_details":{DETAILS}}}}}"#
        )
    );

    let sent_to = |provider: &str, dialect: Dialect| {
        let source = MessageSource::Model {
            provider: "router".into(),
            model: "m".into(),
            replay_state: Some(state.clone()),
        };
        let request = ModelRequest {
            config: CallConfig {
                provider: provider.into(),
                ..CallConfig::default()
            },
            messages: vec![reasoned(source).into()],
            ..ModelRequest::default()
        };
        let body = Protocol::ChatCompletions(dialect).encode(&request, Pictures::Named);
        String::from_utf8(body.unwrap()).unwrap()
    };
    let own = sent_to("router", Dialect::openrouter());
    assert!(own.contains(&format!(
        r#"{{"role":"assistant","content":"so","reasoning_details":{DETAILS}}}"#
    )));
    let others = sent_to("elsewhere", Dialect::openrouter());
    assert!(others.contains(r#"{"role":"assistant","content":"so","reasoning":"hm"}"#));
    let openai = sent_to("router", Dialect::openai());
    assert!(openai.contains(r#"[{"role":"assistant","content":"so"}]"#));
}

#[test]
fn another_adapters_state_is_not_read_as_details() {
    let state = r#"{"response":{"adapter":"anthropic-messages","version":1,"reasoning_details":[]},"blocks":[null,null]}"#;
    let source = MessageSource::Model {
        provider: "router".into(),
        model: "m".into(),
        replay_state: Some(ReplayState::new(RawJson::parse(state).unwrap())),
    };
    let request = ModelRequest {
        config: CallConfig {
            provider: "router".into(),
            ..CallConfig::default()
        },
        messages: vec![reasoned(source).into()],
        ..ModelRequest::default()
    };
    let body = Protocol::ChatCompletions(Dialect::openrouter())
        .encode(&request, Pictures::Named)
        .unwrap();
    assert!(
        String::from_utf8(body)
            .unwrap()
            .contains(r#"{"role":"assistant","content":"so","reasoning":"hm"}"#)
    );
}

#[test]
fn details_without_a_text_beside_them_are_shown() {
    let mut decoder = Decoder::new();
    let mut chunks = Vec::new();
    decoder.push(
        r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.summary","summary":"hm"}]}}]}"#,
        &mut chunks,
    );
    assert_eq!(
        chunks.last(),
        Some(&Chunk::ReasoningDelta {
            index: 0,
            text: "hm".into()
        })
    );
}

#[test]
fn tokens_written_to_a_cache_are_counted_once() {
    let mut decoder = Decoder::new();
    let mut chunks = Vec::new();
    decoder.push(
        r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":10,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":3,"cache_write_tokens":4}}}"#,
        &mut chunks,
    );
    decoder.push("[DONE]", &mut chunks);
    let usage = Usage {
        input_tokens: 3,
        output_tokens: 1,
        cache_read_tokens: Some(3),
        cache_write_tokens: Some(4),
        ..Usage::default()
    };
    assert!(chunks.contains(&Chunk::Usage { usage }));
}
