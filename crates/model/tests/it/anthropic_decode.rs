//! From the events of Messages to chunks.

use offshoot_model::{
    Assembler, Chunk, ContentBlock, Failure, FinishReason, MessagesDecoder, RawJson, ReplayState,
    StreamGrammar, Usage,
};

/// The chunks of these events, which keep the grammar whatever the events are.
fn decode(events: &[&str]) -> Vec<Chunk> {
    let mut decoder = MessagesDecoder::new();
    let mut chunks = Vec::new();
    for event in events {
        decoder.push(event, &mut chunks);
    }
    decoder.close(&mut chunks);
    assert!(decoder.is_finished());
    let mut grammar = StreamGrammar::new();
    for chunk in &chunks {
        assert_eq!(grammar.check(chunk), Ok(()), "{chunk:?}");
    }
    assert_eq!(grammar.end(), Ok(()));
    chunks
}

const STOP: &str = r#"{"type":"message_stop"}"#;

fn begin(index: u64, block: &str) -> String {
    format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
}

fn delta(index: u64, kind: &str, member: &str, text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    format!(
        r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"{kind}","{member}":{text}}}}}"#
    )
}

fn end(index: u64) -> String {
    format!(r#"{{"type":"content_block_stop","index":{index}}}"#)
}

fn reason(reason: &str) -> String {
    format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}},"usage":{{"output_tokens":7}}}}"#
    )
}

fn text_block(index: u64, text: &str) -> [String; 3] {
    [
        begin(index, r#"{"type":"text","text":""}"#),
        delta(index, "text_delta", "text", text),
        end(index),
    ]
}

fn strs(events: &[String]) -> Vec<&str> {
    events.iter().map(String::as_str).collect()
}

/// How an answer of these events and this reason ends.
fn finish(events: &[String], why: &str) -> FinishReason {
    let mut events = events.to_vec();
    events.extend([reason(why), STOP.to_owned()]);
    match decode(&strs(&events)).pop() {
        Some(Chunk::Finish { reason, .. }) => reason,
        other => panic!("not a finish: {other:?}"),
    }
}

fn code(reason: FinishReason) -> String {
    match reason {
        FinishReason::Error { failure } => failure.code,
        other => panic!("not a failure: {other:?}"),
    }
}

fn state(text: &str) -> ReplayState {
    ReplayState::new(RawJson::parse(text).unwrap())
}

#[test]
fn thinking_text_and_a_call_come_in_their_order_with_what_has_to_go_back() {
    let start = r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":10,"cache_read_input_tokens":3,"cache_creation_input_tokens":4,"output_tokens":1}}}"#;
    let mut events = vec![start.to_owned(), r#"{"type":"ping"}"#.to_owned()];
    events.extend([
        begin(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
        delta(0, "thinking_delta", "thinking", "hm"),
        delta(0, "signature_delta", "signature", "s1"),
        end(0),
        begin(1, r#"{"type":"redacted_thinking","data":"d"}"#),
        end(1),
    ]);
    events.extend(text_block(2, "I look."));
    events.extend([
        begin(3, r#"{"type":"tool_use","id":"c1","name":"ls","input":{}}"#),
        delta(3, "input_json_delta", "partial_json", r#"{"path": "#),
        delta(3, "input_json_delta", "partial_json", r#""."}"#),
        end(3),
        reason("tool_use"),
        STOP.to_owned(),
    ]);
    let start = |index, kind: &str| Chunk::BlockStart {
        index,
        block_type: kind.into(),
    };
    let call = |more: &str| Chunk::ToolCallDelta {
        index: 3,
        id: "c1".into(),
        name: Some("ls".into()),
        arguments_delta: more.into(),
    };
    let end = |index, block| Chunk::BlockEnd { index, block };
    let reasoning = |text: &str| ContentBlock::Reasoning { text: text.into() };
    let expected = [
        start(0, "reasoning"),
        Chunk::ReasoningDelta {
            index: 0,
            text: "hm".into(),
        },
        end(0, reasoning("hm")),
        start(1, "reasoning"),
        end(1, reasoning("")),
        start(2, "text"),
        Chunk::TextDelta {
            index: 2,
            text: "I look.".into(),
        },
        end(2, ContentBlock::text("I look.")),
        start(3, "tool-call"),
        call(""),
        call(r#"{"path": "#),
        call(r#""."}"#),
        end(
            3,
            ContentBlock::ToolCall {
                id: "c1".into(),
                name: "ls".into(),
                arguments: r#"{"path": "."}"#.into(),
            },
        ),
        Chunk::Usage {
            usage: Usage {
                input_tokens: 10,
                output_tokens: 7,
                cache_read_tokens: Some(3),
                cache_write_tokens: Some(4),
                ..Usage::default()
            },
        },
        Chunk::Finish {
            reason: FinishReason::ToolCalls,
            replay_state: Some(state(concat!(
                r#"{"response":{"adapter":"anthropic-messages","version":1},"blocks":["#,
                r#"{"type":"thinking","signature":"s1"},{"type":"redacted_thinking","data":"d"},null,null]}"#,
            ))),
        },
    ];
    assert_eq!(decode(&strs(&events)), expected);
}

#[test]
fn an_answer_of_text_alone_has_nothing_to_go_back() {
    let mut events = text_block(0, "hi").to_vec();
    events.extend([reason("end_turn"), STOP.to_owned()]);
    let chunks = decode(&strs(&events));
    assert_eq!(chunks.last(), Some(&Chunk::finish(FinishReason::Stop)));
}

#[test]
fn thinking_that_is_not_shown_is_kept_for_its_signature_and_empty_blocks_are_not() {
    let mut events = vec![
        begin(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
        delta(0, "signature_delta", "signature", "s"),
        end(0),
        begin(1, r#"{"type":"text","text":""}"#),
        end(1),
        begin(
            2,
            r#"{"type":"server_tool_use","id":"s","name":"search","input":{}}"#,
        ),
        delta(2, "input_json_delta", "partial_json", "{}"),
        end(2),
    ];
    events.extend(text_block(3, "so"));
    events.extend([reason("end_turn"), STOP.to_owned()]);
    let mut assembler = Assembler::new();
    for chunk in decode(&strs(&events)) {
        assembler.push(&chunk);
    }
    let assembled = assembler.finish();
    assert_eq!(
        assembled.content,
        [
            ContentBlock::Reasoning {
                text: String::new()
            },
            ContentBlock::text("so"),
        ]
    );
    let expected = r#"{"response":{"adapter":"anthropic-messages","version":1},"blocks":[{"type":"thinking","signature":"s"},null]}"#;
    assert_eq!(assembled.replay_state, Some(state(expected)));
}

#[test]
fn a_call_that_is_cut_is_dropped_with_its_entry_and_said() {
    let events = [
        begin(0, r#"{"type":"thinking","thinking":"hm","signature":"s"}"#),
        end(0),
        begin(1, r#"{"type":"tool_use","id":"c","name":"ls","input":{}}"#),
        delta(1, "input_json_delta", "partial_json", r#"{"pa"#),
        end(1),
        reason("max_tokens"),
        STOP.to_owned(),
    ];
    let mut assembler = Assembler::new();
    for chunk in decode(&strs(&events)) {
        assembler.push(&chunk);
    }
    let assembled = assembler.finish();
    assert_eq!(assembled.finish, FinishReason::MaxTokens);
    assert_eq!(
        assembled.content,
        [ContentBlock::Reasoning { text: "hm".into() }]
    );
    let expected = r#"{"response":{"adapter":"anthropic-messages","version":1},"blocks":[{"type":"thinking","signature":"s"}]}"#;
    assert_eq!(assembled.replay_state, Some(state(expected)));
    let failure = assembled.truncated_call.unwrap();
    assert_eq!(failure.code, "TRUNCATED_TOOL_CALL");
}

#[test]
fn arguments_may_come_with_the_beginning_of_a_call_and_the_id_not_at_all() {
    let events = [
        begin(0, r#"{"type":"tool_use","name":"ls","input":{"a": 1.0}}"#),
        end(0),
        begin(1, r#"{"type":"tool_use","id":"c","name":"ls","input":{}}"#),
        end(1),
        reason("tool_use"),
        STOP.to_owned(),
    ];
    let mut assembler = Assembler::new();
    for chunk in decode(&strs(&events)) {
        assembler.push(&chunk);
    }
    let call = |id: &str, arguments: &str| ContentBlock::ToolCall {
        id: id.into(),
        name: "ls".into(),
        arguments: arguments.into(),
    };
    assert_eq!(
        assembler.finish().content,
        [call("call-0", r#"{"a": 1.0}"#), call("c", "{}")]
    );
}

#[test]
fn every_reason_to_stop_has_its_finish() {
    let text = text_block(0, "hi");
    for reason in ["end_turn", "stop_sequence"] {
        assert_eq!(finish(&text, reason), FinishReason::Stop, "{reason}");
    }
    assert_eq!(finish(&text, "max_tokens"), FinishReason::MaxTokens);
    assert_eq!(finish(&[], "max_tokens"), FinishReason::MaxTokens);
    let failures = [
        ("refusal", "REFUSAL"),
        ("pause_turn", "PAUSE_TURN"),
        ("model_context_window_exceeded", "CONTEXT_WINDOW_EXCEEDED"),
        ("something_new", "SOMETHING_NEW"),
    ];
    for (reason, expected) in failures {
        assert_eq!(code(finish(&text, reason)), expected);
    }
    assert_eq!(code(finish(&[], "end_turn")), "EMPTY_RESPONSE");
    let nameless = [
        begin(0, r#"{"type":"tool_use","id":"c","input":{}}"#),
        end(0),
    ];
    assert_eq!(code(finish(&nameless, "tool_use")), "MALFORMED_RESPONSE");
}

#[test]
fn errors_within_a_stream_are_told_apart() {
    let failure = |kind: &str, message: &str| {
        let event = format!(
            r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"r"}}"#
        );
        match decode(&[&event]).pop() {
            Some(Chunk::Finish {
                reason: FinishReason::Error { failure },
                ..
            }) => failure,
            other => panic!("not a failure: {other:?}"),
        }
    };
    assert_eq!(
        failure("overloaded_error", "Overloaded"),
        Failure {
            request_id: Some("r".into()),
            ..Failure::new("SERVER", "Overloaded")
        }
    );
    let table = [
        ("api_error", "x", "SERVER"),
        ("rate_limit_error", "x", "RATE_LIMIT"),
        ("authentication_error", "x", "AUTH"),
        ("permission_error", "x", "AUTH"),
        ("billing_error", "x", "QUOTA"),
        ("timeout_error", "x", "TIMEOUT"),
        ("request_too_large", "x", "INVALID_REQUEST"),
        ("invalid_request_error", "x", "INVALID_REQUEST"),
        (
            "invalid_request_error",
            "prompt is too long: 9 tokens > 8 maximum",
            "CONTEXT_WINDOW_EXCEEDED",
        ),
        (
            "invalid_request_error",
            "Your credit balance is too low",
            "QUOTA",
        ),
        ("not_found_error", "x", "NOT_FOUND_ERROR"),
    ];
    for (kind, message, expected) in table {
        assert_eq!(failure(kind, message).code, expected, "{kind} {message}");
    }
}

#[test]
fn events_that_do_not_fit_together_are_malformed() {
    let begun = begin(0, r#"{"type":"text","text":"a"}"#);
    let cases: [&[&str]; 8] = [
        &[r#"{"type":"#],
        &[r#"{"choices":"none"}"#],
        &[&begun, &begun],
        &[&end(0)],
        &[&delta(0, "text_delta", "text", "a")],
        &[&begun, &delta(0, "input_json_delta", "partial_json", "{")],
        &[&begun, &end(0), &delta(0, "text_delta", "text", "a")],
        &[r#"{"type":"content_block_start","index":0}"#],
    ];
    for events in cases {
        let chunks = decode(events);
        let Some(Chunk::Finish { reason, .. }) = chunks.last() else {
            panic!("no finish: {chunks:?}");
        };
        assert_eq!(code(reason.clone()), "MALFORMED_RESPONSE", "{events:?}");
    }
}

#[test]
fn what_is_new_is_ignored_and_what_follows_the_end_as_well() {
    let [begun, said, ended] = text_block(0, "hi");
    let events = [
        r#"{"type":"something_new","index":"x"}"#,
        &begun,
        &delta(0, "citations_delta", "citation", "c"),
        &said,
        &ended,
        &reason("end_turn"),
        STOP,
        STOP,
        r#"{"type":"#,
    ];
    let chunks = decode(&events);
    assert_eq!(chunks.last(), Some(&Chunk::finish(FinishReason::Stop)));
}

#[test]
fn a_stream_without_its_end_is_closed() {
    let chunks = decode(&strs(&text_block(0, "hi")));
    let Some(Chunk::Finish { reason, .. }) = chunks.last() else {
        panic!("no finish: {chunks:?}");
    };
    assert_eq!(code(reason.clone()), "STREAM_CLOSED");
}
