//! Serde shapes of the request and stream vocabulary.

use offshoot_model::{
    CallConfig, Chunk, ContentBlock, Dimensions, Failure, FileAttachment, FinishReason,
    ImageAttachment, Message, MessageSource, RawJson, ReplayState, Role, ToolSpec, Usage,
};
use serde::{Serialize, de::DeserializeOwned};

fn parse<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap()
}

fn both_ways<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(text: &str, value: T) {
    assert_eq!(serde_json::to_string(&value).unwrap(), text);
    assert_eq!(parse::<T>(text), value);
}

#[test]
fn every_known_block_has_the_shape_of_the_log() {
    both_ways(r#"{"type":"text","text":"a"}"#, ContentBlock::text("a"));
    both_ways(
        r#"{"type":"reasoning","text":"a"}"#,
        ContentBlock::Reasoning { text: "a".into() },
    );
    both_ways(
        r#"{"type":"tool-call","id":"c1","name":"ls","arguments":"{"}"#,
        ContentBlock::ToolCall {
            id: "c1".into(),
            name: "ls".into(),
            arguments: "{".into(),
        },
    );
    both_ways(
        r#"{"type":"tool-addition","toolName":"ls"}"#,
        ContentBlock::ToolAddition {
            tool_name: "ls".into(),
        },
    );
    both_ways(
        r#"{"type":"tool-removal","toolName":"ls"}"#,
        ContentBlock::ToolRemoval {
            tool_name: "ls".into(),
        },
    );
    both_ways(
        r#"{"type":"file","attachment":{"attachmentId":"sha256:00","name":"a.txt","bytes":3}}"#,
        ContentBlock::File {
            attachment: FileAttachment {
                attachment_id: "sha256:00".into(),
                name: "a.txt".into(),
                bytes: 3,
            },
        },
    );
    let picture = |offloaded| ContentBlock::Image {
        attachment: ImageAttachment {
            attachment_id: "sha256:00".into(),
            media_type: "image/png".into(),
            bytes: 9,
            width: 2,
            height: 1,
            name: Some("a.png".into()),
            original_dimensions: Some(Dimensions {
                width: 20,
                height: 10,
            }),
        },
        offloaded,
    };
    let attachment = r#"{"attachmentId":"sha256:00","mediaType":"image/png","bytes":9,"width":2,"height":1,"name":"a.png","originalDimensions":{"width":20,"height":10}}"#;
    both_ways(
        &format!(r#"{{"type":"image","attachment":{attachment}}}"#),
        picture(false),
    );
    both_ways(
        &format!(r#"{{"type":"image","attachment":{attachment},"offloaded":true}}"#),
        picture(true),
    );
}

#[test]
fn an_unknown_block_keeps_its_exact_text() {
    let text = r#"{ "b":1.0, "type":"plugin:chart" ,"a":[1e2,"é"] }"#;
    let block = parse::<ContentBlock>(text);
    assert_eq!(block, ContentBlock::Unknown(RawJson::parse(text).unwrap()));
    assert_eq!(block.block_type(), "plugin:chart");
    assert_eq!(
        serde_json::to_string(&[block]).unwrap(),
        format!("[{text}]")
    );
}

#[test]
fn an_unknown_block_may_be_nested_deeper_than_the_parser_recurses() {
    let text = format!(
        r#"{{"type":"deep","data":{}{}}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    assert_eq!(
        serde_json::to_string(&parse::<ContentBlock>(&text)).unwrap(),
        text
    );
}

#[test]
fn a_known_block_without_its_members_is_refused() {
    let error = serde_json::from_str::<ContentBlock>(r#"{"type":"text"}"#).unwrap_err();
    assert_eq!(error.to_string(), "missing field `text`");
}

#[test]
fn messages_have_the_shape_of_the_log_and_unknown_members_are_ignored() {
    both_ways(
        r#"{"id":"m-1","role":"user","content":[{"type":"text","text":"hi"}],"source":{"kind":"user"}}"#,
        Message::text("m-1", Role::User, "hi", MessageSource::user()),
    );
    both_ways(
        r#"{"id":"r-1","role":"tool","content":[],"toolCallId":"c1","source":{"kind":"tool","callId":"c1"}}"#,
        Message::tool_result("r-1", "c1", vec![]),
    );
    let stored = r#"{"role":"tool","source":{"kind":"tool","callId":"c1"},"toolCallId":"c1","content":[{"type":"text","text":"x","later":1}],"isError":true,"id":"r-1","later":{}}"#;
    let mut expected = Message::tool_result("r-1", "c1", vec![ContentBlock::text("x")]);
    expected.is_error = Some(true);
    assert_eq!(parse::<Message>(stored), expected);
}

#[test]
fn sources_keep_what_is_not_read() {
    let state = ReplayState::new(RawJson::parse(r#"{"response":{"n":1.0}}"#).unwrap());
    both_ways(
        r#"{"kind":"model","provider":"p","model":"m","replayState":{"response":{"n":1.0}}}"#,
        MessageSource::Model {
            provider: "p".into(),
            model: "m".into(),
            replay_state: Some(state),
        },
    );
    let goal = r#"{"goalId":"g","kind":"goal","revision":1}"#;
    let source = parse::<MessageSource>(goal);
    assert_eq!(source.kind(), "goal");
    both_ways(goal, source);
}

#[test]
fn call_config_has_the_members_and_the_order_of_the_header() {
    both_ways(
        r#"{"provider":"p","model":"m","reasoningEffort":"high","temperature":1,"maxTokens":256000,"stop":["\n"]}"#,
        CallConfig {
            provider: "p".into(),
            model: "m".into(),
            reasoning_effort: Some("high".into()),
            temperature: Some(1.0),
            max_tokens: Some(256_000),
            stop: Some(vec!["\n".into()]),
        },
    );
    both_ways(
        r#"{"provider":"p","model":"m","temperature":0.3}"#,
        CallConfig {
            provider: "p".into(),
            model: "m".into(),
            temperature: Some(0.3),
            ..CallConfig::default()
        },
    );
    let not_finite = CallConfig {
        temperature: Some(f64::NAN),
        ..CallConfig::default()
    };
    assert_eq!(
        serde_json::to_string(&not_finite).unwrap(),
        r#"{"provider":"","model":""}"#
    );
}

#[test]
fn tools_keep_their_schema_verbatim() {
    both_ways(
        r#"{"name":"ls","description":"list","parameters":{ "type" : "object" },"deferLoading":true}"#,
        ToolSpec {
            name: "ls".into(),
            description: "list".into(),
            parameters: RawJson::parse(r#"{ "type" : "object" }"#).unwrap(),
            defer_loading: Some(true),
        },
    );
}

#[test]
fn every_chunk_has_the_shape_of_the_log() {
    both_ways(
        r#"{"type":"block-start","index":0,"blockType":"text"}"#,
        Chunk::BlockStart {
            index: 0,
            block_type: "text".into(),
        },
    );
    both_ways(
        r#"{"type":"text-delta","index":0,"text":"a"}"#,
        Chunk::TextDelta {
            index: 0,
            text: "a".into(),
        },
    );
    both_ways(
        r#"{"type":"reasoning-delta","index":0,"text":"a"}"#,
        Chunk::ReasoningDelta {
            index: 0,
            text: "a".into(),
        },
    );
    both_ways(
        r#"{"type":"tool-call-delta","index":1,"id":"c1","name":"ls","argumentsDelta":"{"}"#,
        Chunk::ToolCallDelta {
            index: 1,
            id: "c1".into(),
            name: Some("ls".into()),
            arguments_delta: "{".into(),
        },
    );
    both_ways(
        r#"{"type":"block-end","index":0,"block":{"type":"text","text":"a"}}"#,
        Chunk::BlockEnd {
            index: 0,
            block: ContentBlock::text("a"),
        },
    );
    both_ways(
        r#"{"type":"usage","usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3,"cacheReadTokens":4,"cacheWriteTokens":5,"reasoningTokens":6}}"#,
        Chunk::Usage {
            usage: Usage {
                input_tokens: 1,
                output_tokens: 2,
                total_tokens: Some(3),
                cache_read_tokens: Some(4),
                cache_write_tokens: Some(5),
                reasoning_tokens: Some(6),
            },
        },
    );
    both_ways(
        r#"{"type":"finish","reason":{"kind":"max-tokens"},"replayState":{"response":null,"blocks":[]}}"#,
        Chunk::Finish {
            reason: FinishReason::MaxTokens,
            replay_state: Some(ReplayState::new(
                RawJson::parse(r#"{"response":null,"blocks":[]}"#).unwrap(),
            )),
        },
    );
    both_ways(
        r#"{"type":"finish","reason":{"kind":"tool-calls"}}"#,
        Chunk::finish(FinishReason::ToolCalls),
    );
}

#[test]
fn failures_have_the_shape_of_the_log() {
    let failure = Failure {
        message: "later".into(),
        code: "RATE_LIMIT".into(),
        status: Some(429),
        provider_retry_after_ms: Some(1_500),
        request_id: Some("r".into()),
        offload_images: Some(3),
    };
    both_ways(
        r#"{"type":"finish","reason":{"kind":"error","failure":{"message":"later","code":"RATE_LIMIT","status":429,"providerRetryAfterMs":1500,"requestId":"r","offloadImages":3}}}"#,
        Chunk::failed(failure),
    );
    both_ways(
        r#"{"type":"finish","reason":{"kind":"aborted","failure":{"message":"the model call was cancelled","code":"ABORTED"}}}"#,
        Chunk::aborted(),
    );
    let fraction = r#"{"message":"m","code":"SERVER","providerRetryAfterMs":0.2,"later":{}}"#;
    let expected = Failure {
        provider_retry_after_ms: Some(1),
        ..Failure::new("SERVER", "m")
    };
    assert_eq!(parse::<Failure>(fraction), expected);
}

#[test]
fn an_unknown_or_incomplete_chunk_is_refused() {
    for (text, expected) in [
        (
            r#"{"type":"later","index":0}"#,
            "unknown chunk type `later`",
        ),
        (
            r#"{"type":"text-delta","text":""}"#,
            "missing field `index`",
        ),
        (
            r#"{"type":"tool-call-delta","index":0,"argumentsDelta":""}"#,
            "missing field `id`",
        ),
    ] {
        assert_eq!(
            serde_json::from_str::<Chunk>(text).unwrap_err().to_string(),
            expected
        );
    }
}
