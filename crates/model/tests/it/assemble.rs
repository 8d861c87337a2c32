//! What a stream amounts to.

use offshoot_model::{
    Assembled, Assembler, Chunk, ContentBlock, Failure, FinishReason, RawJson, ReplayState, Usage,
};

fn assembler(chunks: &[Chunk]) -> Assembler {
    let mut assembler = Assembler::new();
    for chunk in chunks {
        assembler.push(chunk);
    }
    assembler
}

fn content(chunks: &[Chunk]) -> Vec<ContentBlock> {
    assembler(chunks).finish().content
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

fn tool(id: &str, arguments: &str) -> ContentBlock {
    ContentBlock::ToolCall {
        id: id.into(),
        name: "ls".into(),
        arguments: arguments.into(),
    }
}

fn state(text: &str) -> ReplayState {
    ReplayState::new(RawJson::parse(text).unwrap())
}

#[test]
fn blocks_keep_the_order_in_which_their_indexes_were_first_seen() {
    let chunks = [
        start(4, "reasoning"),
        start(1, "text"),
        text(1, "b"),
        reasoning(4, "a"),
        call(0, "c1", Some("ls"), "{"),
        call(0, "c1", None, "}"),
    ];
    assert_eq!(
        content(&chunks),
        [
            ContentBlock::Reasoning { text: "a".into() },
            ContentBlock::text("b"),
            tool("c1", "{}"),
        ]
    );
}

#[test]
fn a_block_end_replaces_the_deltas_and_only_the_first_counts() {
    let chunks = [
        text(0, "draft"),
        end(0, ContentBlock::text("final")),
        text(0, " straggler"),
        end(0, ContentBlock::text("too late")),
    ];
    assert_eq!(content(&chunks), [ContentBlock::text("final")]);
}

#[test]
fn a_delta_that_does_not_fit_its_block_is_dropped() {
    let chunks = [
        start(0, "text"),
        reasoning(0, "x"),
        call(0, "c", None, "x"),
        text(0, "kept"),
    ];
    assert_eq!(content(&chunks), [ContentBlock::text("kept")]);
}

#[test]
fn a_block_of_an_unknown_type_has_only_the_content_of_its_end() {
    let block = ContentBlock::Unknown(RawJson::parse(r#"{"type":"chart"}"#).unwrap());
    let chunks = [start(0, "chart"), start(1, "chart"), end(1, block.clone())];
    assert_eq!(content(&chunks), [block]);
}

#[test]
fn an_empty_stream_stops_with_nothing() {
    assert_eq!(
        Assembler::new().finish(),
        Assembled {
            content: vec![],
            finish: FinishReason::Stop,
            usage: None,
            replay_state: None,
            truncated_call: None,
        }
    );
}

#[test]
fn nothing_after_the_finish_counts() {
    let usage = Usage {
        input_tokens: 1,
        output_tokens: 2,
        ..Usage::default()
    };
    let chunks = [
        text(0, "a"),
        Chunk::Usage { usage },
        Chunk::finish(FinishReason::ToolCalls),
        text(0, "b"),
        Chunk::Usage {
            usage: Usage::default(),
        },
        Chunk::finish(FinishReason::Stop),
    ];
    let expected = Assembled {
        content: vec![ContentBlock::text("a")],
        finish: FinishReason::ToolCalls,
        usage: Some(usage),
        replay_state: None,
        truncated_call: None,
    };
    assert_eq!(assembler(&chunks).finish(), expected);
}

#[test]
fn a_tool_call_without_id_is_named_after_its_index() {
    let chunks = [call(3, "", Some("ls"), "{}"), end(5, tool("", "{}"))];
    assert_eq!(
        content(&chunks),
        [tool("call-3", "{}"), tool("call-5", "{}")]
    );
}

#[test]
fn an_id_and_a_name_may_come_late_and_more_than_once() {
    let chunks = [
        call(0, "", None, "{"),
        call(0, "c1", Some("ls"), ""),
        call(0, "c1", Some("ls"), "}"),
    ];
    assert_eq!(content(&chunks), [tool("c1", "{}")]);
}

#[test]
fn the_token_limit_drops_tool_calls_and_their_replay_entries() {
    let finish = |envelope: &str| Chunk::Finish {
        reason: FinishReason::MaxTokens,
        replay_state: Some(state(envelope)),
    };
    let with = |envelope: &str| {
        let chunks = [
            text(0, "a"),
            end(1, tool("c1", "{}")),
            text(2, "b"),
            call(3, "c2", Some("ls"), "{"),
            finish(envelope),
        ];
        assembler(&chunks).finish()
    };
    let truncated = Failure::new(
        "TRUNCATED_TOOL_CALL",
        "the answer hit the token limit inside a call of the tool `ls`",
    );
    let expected = |replay_state: Option<&str>| Assembled {
        content: vec![ContentBlock::text("a"), ContentBlock::text("b")],
        finish: FinishReason::MaxTokens,
        usage: None,
        replay_state: replay_state.map(state),
        truncated_call: Some(truncated.clone()),
    };
    assert_eq!(
        with(r#"{"response":{"n":1.0},"blocks":[0,1,2,3]}"#),
        expected(Some(r#"{"response":{"n":1.0},"blocks":[0,2]}"#))
    );
    assert_eq!(
        with(r#"{"response":1,"blocks":[0,1]}"#),
        expected(None),
        "entries do not match"
    );
    assert_eq!(
        with(r#"{ "response":1 }"#),
        expected(Some(r#"{ "response":1 }"#)),
        "no entries"
    );
}

#[test]
fn only_a_tool_call_that_the_token_limit_has_cut_is_a_failure() {
    let truncated = |call: Chunk, reason: FinishReason| {
        let chunks = [call, Chunk::finish(reason)];
        assembler(&chunks).finish().truncated_call.is_some()
    };
    let cases = [
        (end(0, tool("c", "{}")), FinishReason::MaxTokens, false),
        (end(0, tool("c", r#"{"a"#)), FinishReason::MaxTokens, true),
        (end(0, tool("c", "")), FinishReason::MaxTokens, true),
        (
            call(0, "c", Some("ls"), "{}"),
            FinishReason::MaxTokens,
            true,
        ),
        (end(0, tool("c", r#"{"a"#)), FinishReason::ToolCalls, false),
        (text(0, "{"), FinishReason::MaxTokens, false),
    ];
    for (chunk, reason, expected) in cases {
        assert_eq!(truncated(chunk.clone(), reason), expected, "{chunk:?}");
    }
}

#[test]
fn an_interrupted_stream_keeps_visible_text_and_reasoning_only() {
    let chunks = [
        reasoning(0, "because"),
        text(1, " \n\t"),
        call(2, "c1", Some("ls"), "{}"),
        end(3, ContentBlock::text("closed")),
        text(4, "open"),
    ];
    assert_eq!(
        assembler(&chunks).interrupted_blocks(),
        [
            ContentBlock::Reasoning {
                text: "because".into()
            },
            ContentBlock::text("closed"),
            ContentBlock::text("open"),
        ]
    );
}
