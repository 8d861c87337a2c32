//! From a provider's events to chunks.

use offshoot_model::{Chunk, ContentBlock, Decoder, Failure, FinishReason, Usage};

fn decode(events: &[&str]) -> Vec<Chunk> {
    let mut decoder = Decoder::new();
    let mut chunks = Vec::new();
    for event in events {
        decoder.push(event, &mut chunks);
    }
    decoder.close(&mut chunks);
    assert!(decoder.is_finished());
    chunks
}

/// An event with this delta.
fn delta(delta: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}],"usage":null}}"#)
}

/// An event with this finish reason.
fn finish(reason: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
}

/// A whole answer with these deltas.
fn answer(deltas: &[&str], reason: &str) -> Vec<Chunk> {
    let mut events: Vec<_> = deltas.iter().map(|of| delta(of)).collect();
    events.extend([finish(reason), "[DONE]".into()]);
    decode(&events.iter().map(String::as_str).collect::<Vec<_>>())
}

fn last(chunks: &[Chunk]) -> &Chunk {
    chunks.last().unwrap()
}

fn start(index: u64, block_type: &str) -> Chunk {
    Chunk::BlockStart {
        index,
        block_type: block_type.into(),
    }
}

fn text(index: u64, text: &str) -> Chunk {
    Chunk::TextDelta {
        index,
        text: text.into(),
    }
}

fn reasoning(index: u64, text: &str) -> Chunk {
    Chunk::ReasoningDelta {
        index,
        text: text.into(),
    }
}

fn call(index: u64, id: &str, name: Option<&str>, more: &str) -> Chunk {
    Chunk::ToolCallDelta {
        index,
        id: id.into(),
        name: name.map(str::to_owned),
        arguments_delta: more.into(),
    }
}

fn end(index: u64, block: ContentBlock) -> Chunk {
    Chunk::BlockEnd { index, block }
}

fn tool(id: &str, name: &str, arguments: &str) -> ContentBlock {
    ContentBlock::ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    }
}

/// The block ends of an answer.
fn ends(chunks: Vec<Chunk>) -> Vec<ContentBlock> {
    let ends = chunks.into_iter().filter_map(|chunk| match chunk {
        Chunk::BlockEnd { block, .. } => Some(block),
        _ => None,
    });
    ends.collect()
}

#[test]
fn reasoning_text_and_a_tool_call_become_three_blocks_that_end_together() {
    let chunks = decode(&[
        &delta(r#"{"role":"assistant","content":"","reasoning_content":""}"#),
        &delta(r#"{"content":null,"reasoning_content":"hm"}"#),
        &delta(r#"{"content":"I "}"#),
        &delta(r#"{"content":"look."}"#),
        &delta(
            r#"{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"ls","arguments":""}}]}"#,
        ),
        &delta(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}"#),
        &finish("tool_calls"),
        r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":8},"completion_tokens_details":{"reasoning_tokens":1}}}"#,
        "[DONE]",
    ]);
    let usage = Usage {
        input_tokens: 2,
        output_tokens: 4,
        cache_read_tokens: Some(8),
        reasoning_tokens: Some(1),
        ..Usage::default()
    };
    assert_eq!(
        chunks,
        [
            start(0, "reasoning"),
            reasoning(0, "hm"),
            start(1, "text"),
            text(1, "I "),
            text(1, "look."),
            start(2, "tool-call"),
            call(2, "c1", Some("ls"), ""),
            call(2, "c1", Some("ls"), "{}"),
            end(0, ContentBlock::Reasoning { text: "hm".into() }),
            end(1, ContentBlock::text("I look.")),
            end(2, tool("c1", "ls", "{}")),
            Chunk::Usage { usage },
            Chunk::finish(FinishReason::ToolCalls),
        ]
    );
}

#[test]
fn usage_may_come_with_the_finish_or_later_and_the_latest_wins() {
    let usage_of = |events: &[&str]| {
        decode(events).into_iter().find_map(|chunk| match chunk {
            Chunk::Usage { usage } => Some(usage),
            _ => None,
        })
    };
    let with_finish = r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1,"prompt_cache_hit_tokens":3}}"#;
    let later = r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#;
    assert_eq!(
        usage_of(&[with_finish, "[DONE]"]),
        Some(Usage {
            input_tokens: 2,
            output_tokens: 1,
            cache_read_tokens: Some(3),
            ..Usage::default()
        })
    );
    assert_eq!(
        usage_of(&[with_finish, later, "[DONE]"]),
        Some(Usage {
            input_tokens: 7,
            output_tokens: 2,
            ..Usage::default()
        })
    );
}

#[test]
fn reasoning_is_read_under_either_name_but_only_once() {
    let either = answer(&[r#"{"reasoning":"a","reasoning_details":[]}"#], "stop");
    let both = answer(&[r#"{"reasoning":"a","reasoning_content":"a"}"#], "stop");
    assert_eq!(ends(either), [ContentBlock::Reasoning { text: "a".into() }]);
    assert_eq!(ends(both), [ContentBlock::Reasoning { text: "a".into() }]);
}

#[test]
fn parallel_calls_are_kept_apart_by_their_index() {
    let chunks = answer(
        &[
            r#"{"tool_calls":[{"index":1,"id":"b","function":{"name":"two","arguments":"{"}},{"index":0,"id":"a","function":{"name":"one","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"1"}}]}"#,
            r#"{"tool_calls":[{"index":1,"function":{"arguments":"}"}}]}"#,
        ],
        "tool_calls",
    );
    assert_eq!(
        ends(chunks),
        [tool("b", "two", "{}"), tool("a", "one", "1")]
    );
}

#[test]
fn ids_and_names_may_come_late_or_with_every_delta() {
    let chunks = answer(
        &[
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"c1","function":{"name":"ls","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"c1","function":{"name":"ls","arguments":"}"}}]}"#,
        ],
        "tool_calls",
    );
    assert_eq!(
        chunks[..4],
        [
            start(0, "tool-call"),
            call(0, "", None, "{"),
            call(0, "c1", Some("ls"), ""),
            call(0, "c1", Some("ls"), "}"),
        ]
    );
    assert_eq!(ends(chunks), [tool("c1", "ls", "{}")]);
}

#[test]
fn servers_that_number_every_call_zero_or_not_at_all_are_understood() {
    for index in [r#""index":0,"#, ""] {
        let one = format!(
            r#"{{"tool_calls":[{{{index}"id":"a","function":{{"name":"one","arguments":"1"}}}}]}}"#
        );
        let two = format!(
            r#"{{"tool_calls":[{{{index}"id":"b","function":{{"name":"two","arguments":"2"}}}}]}}"#
        );
        let more = format!(r#"{{"tool_calls":[{{{index}"function":{{"arguments":"3"}}}}]}}"#);
        let chunks = answer(&[&one, &two, &more], "tool_calls");
        assert_eq!(
            ends(chunks),
            [tool("a", "one", "1"), tool("b", "two", "23")],
            "{index}"
        );
    }
}

#[test]
fn a_call_without_id_is_named_after_its_block() {
    let chunks = answer(
        &[
            r#"{"content":"a"}"#,
            r#"{"tool_calls":[{"index":0,"function":{"name":"ls","arguments":{"a":1}}}]}"#,
        ],
        "tool_calls",
    );
    assert_eq!(
        ends(chunks),
        [ContentBlock::text("a"), tool("call-1", "ls", r#"{"a":1}"#)]
    );
}

#[test]
fn finish_reasons_are_mapped_and_the_blocks_have_the_last_word() {
    let said = r#"{"content":"a"}"#;
    let called =
        r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"ls","arguments":"{}"}}]}"#;
    for (delta, reason, expected) in [
        (said, "stop", FinishReason::Stop),
        (said, "tool_calls", FinishReason::Stop),
        (called, "tool_calls", FinishReason::ToolCalls),
        (called, "stop", FinishReason::ToolCalls),
        (called, "length", FinishReason::MaxTokens),
    ] {
        assert_eq!(
            *last(&answer(&[delta], reason)),
            Chunk::finish(expected),
            "{delta} {reason}"
        );
    }
    let failure = Failure::new(
        "CONTENT_FILTER",
        "the provider ended its answer with the reason `content_filter`",
    );
    assert_eq!(
        answer(&[said], "content_filter"),
        [start(0, "text"), text(0, "a"), Chunk::failed(failure)]
    );
    assert_eq!(
        *last(&decode(&[&delta(said), "[DONE]"])),
        Chunk::finish(FinishReason::Stop)
    );
}

#[test]
fn an_answer_with_nothing_in_it_is_a_failure() {
    let failure = Failure::new("EMPTY_RESPONSE", "the provider's answer has nothing in it");
    let chunks = answer(
        &[r#"{"role":"assistant","content":"","reasoning_content":""}"#],
        "stop",
    );
    assert_eq!(chunks, [Chunk::failed(failure)]);
}

#[test]
fn an_end_before_the_marker_is_a_failure_that_leaves_blocks_open_and_keeps_usage() {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    let failure = Failure::new(
        "STREAM_CLOSED",
        "the provider closed the stream before the answer was complete",
    );
    assert_eq!(
        decode(&[&delta(r#"{"content":"a"}"#), &finish("stop"), usage]),
        [
            start(0, "text"),
            text(0, "a"),
            Chunk::Usage {
                usage: Usage {
                    input_tokens: 1,
                    output_tokens: 1,
                    ..Usage::default()
                }
            },
            Chunk::failed(failure),
        ]
    );
}

#[test]
fn an_unreadable_event_is_a_failure_and_the_rest_is_ignored() {
    let chunks = decode(&[
        &delta(r#"{"content":"a"}"#),
        "{oops",
        &delta(r#"{"content":"b"}"#),
        "[DONE]",
    ]);
    let failure = Failure::new(
        "MALFORMED_RESPONSE",
        "the provider sent an event that cannot be read: key must be a string at line 1 column 2",
    );
    assert_eq!(
        chunks,
        [start(0, "text"), text(0, "a"), Chunk::failed(failure)]
    );
}

#[test]
fn a_call_of_a_nameless_tool_is_malformed() {
    let chunks = answer(&[r#"{"tool_calls":[{"index":0,"id":"c"}]}"#], "tool_calls");
    let failure = Failure::new(
        "MALFORMED_RESPONSE",
        "the provider's answer calls a tool without naming it",
    );
    assert_eq!(*last(&chunks), Chunk::failed(failure));
}

#[test]
fn an_error_within_the_stream_is_classified() {
    let cases = [
        (
            r#"{"message":"slow down","code":429}"#,
            "RATE_LIMIT",
            "slow down",
            Some(429),
        ),
        (
            r#"{"message":"no money","code":"insufficient_quota"}"#,
            "QUOTA",
            "no money",
            None,
        ),
        (
            r#"{"message":"x","code":"context_length_exceeded"}"#,
            "CONTEXT_WINDOW_EXCEEDED",
            "x",
            None,
        ),
        (
            r#"{"message":"x","type":"overloaded_error"}"#,
            "SERVER",
            "x",
            None,
        ),
        (
            r#"{"message":"x","code":"odd_thing"}"#,
            "ODD_THING",
            "x",
            None,
        ),
        (r#""plain words""#, "UNKNOWN", "plain words", None),
        ("{}", "UNKNOWN", "the provider reported an error", None),
    ];
    for (error, code, message, status) in cases {
        let chunks = decode(&[&format!(r#"{{"error":{error}}}"#), "[DONE]"]);
        let failure = Failure {
            status,
            ..Failure::new(code, message)
        };
        assert_eq!(chunks, [Chunk::failed(failure)], "{error}");
    }
}

#[test]
fn events_without_choices_and_other_choices_are_passed_over() {
    let other = r#"{"choices":[{"index":1,"delta":{"content":"other"}}]}"#;
    let chunks = decode(&[
        "{}",
        r#"{"choices":null}"#,
        other,
        &delta(r#"{"content":"a"}"#),
        "[DONE]",
    ]);
    assert_eq!(ends(chunks), [ContentBlock::text("a")]);
}
