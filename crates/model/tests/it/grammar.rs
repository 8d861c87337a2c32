//! Each rule of a stream, broken.

use offshoot_model::{
    Chunk, ContentBlock, Decoder, Failure, FinishReason, GrammarError, MessagesDecoder,
    StreamGrammar, Usage,
};
use proptest::prelude::*;

fn start(index: u64, block_type: &str) -> Chunk {
    Chunk::BlockStart {
        index,
        block_type: block_type.into(),
    }
}

fn text(index: u64) -> Chunk {
    Chunk::TextDelta {
        index,
        text: "a".into(),
    }
}

fn end(index: u64) -> Chunk {
    Chunk::BlockEnd {
        index,
        block: ContentBlock::text("a"),
    }
}

fn usage() -> Chunk {
    Chunk::Usage {
        usage: Usage::default(),
    }
}

fn stop() -> Chunk {
    Chunk::finish(FinishReason::Stop)
}

fn verdict(chunks: &[Chunk]) -> Result<(), GrammarError> {
    let mut grammar = StreamGrammar::new();
    for chunk in chunks {
        grammar.check(chunk)?;
    }
    grammar.end()
}

#[test]
fn a_stream_that_keeps_the_rules_passes() {
    let chunks = [
        start(0, "text"),
        start(3, "reasoning"),
        text(0),
        end(0),
        Chunk::ReasoningDelta {
            index: 3,
            text: "b".into(),
        },
        Chunk::BlockEnd {
            index: 3,
            block: ContentBlock::Reasoning { text: "b".into() },
        },
        usage(),
        stop(),
    ];
    assert_eq!(verdict(&chunks), Ok(()));
}

#[test]
fn each_rule_can_be_broken() {
    let wrong_type = |found: &str| GrammarError::WrongType {
        index: 0,
        expected: "reasoning".into(),
        found: found.into(),
    };
    let call = Chunk::ToolCallDelta {
        index: 0,
        id: "c".into(),
        name: None,
        arguments_delta: String::new(),
    };
    let cases = [
        (
            vec![start(0, "text"), start(0, "text")],
            GrammarError::OpenedTwice { index: 0 },
        ),
        (
            vec![start(0, "text"), end(0), start(0, "text")],
            GrammarError::OpenedTwice { index: 0 },
        ),
        (vec![text(0)], GrammarError::NotOpen { index: 0 }),
        (
            vec![start(0, "text"), end(0), text(0)],
            GrammarError::NotOpen { index: 0 },
        ),
        (
            vec![start(0, "text"), end(0), end(0)],
            GrammarError::NotOpen { index: 0 },
        ),
        (vec![start(0, "reasoning"), text(0)], wrong_type("text")),
        (vec![start(0, "reasoning"), call], wrong_type("tool-call")),
        (vec![start(0, "reasoning"), end(0)], wrong_type("text")),
        (vec![usage(), usage()], GrammarError::SecondUsage),
        (vec![stop(), usage()], GrammarError::AfterFinish),
        (
            vec![start(0, "text"), stop()],
            GrammarError::LeftOpen { index: 0 },
        ),
        (vec![usage()], GrammarError::NoFinish),
    ];
    for (chunks, expected) in cases {
        assert_eq!(verdict(&chunks), Err(expected), "{chunks:?}");
    }
}

#[test]
fn only_an_answer_that_failed_may_leave_blocks_open() {
    for failure in ["SERVER", "ABORTED"] {
        let failed = Chunk::failed(Failure::new(failure, ""));
        assert_eq!(verdict(&[start(0, "text"), failed]), Ok(()));
    }
}

/// Events of chat completions, sound and broken.
const CHAT: [&str; 12] = [
    r#"{"choices":[{"delta":{"content":"a"}}]}"#,
    r#"{"choices":[{"delta":{"reasoning":"b","reasoning_details":[{"type":"reasoning.text","text":"b"}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"ls","arguments":"{"}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"id":"d","function":{"name":"ls"}}]}}]}"#,
    r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#,
    r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#,
    r#"{"error":{"message":"broken","code":500}}"#,
    r#"{"choices":"none"}"#,
    "{",
    "[DONE]",
];

/// Events of Messages, sound and broken.
const MESSAGES: [&str; 16] = [
    r#"{"type":"message_start","message":{"usage":{"input_tokens":1}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":"a"}}"#,
    r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","name":"ls","input":{}}}"#,
    r#"{"type":"content_block_start","index":3,"content_block":{"type":"redacted_thinking","data":"d"}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"signature_delta","signature":"s"}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{"}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"content_block_stop","index":1}"#,
    r#"{"type":"content_block_stop","index":2}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":2}}"#,
    r#"{"type":"something_new","index":"x"}"#,
    r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
    r#"{"type":"message_stop"}"#,
    "{",
];

proptest! {
    #[test]
    fn whatever_a_provider_sends_the_chunks_keep_the_rules(
        chat in prop::collection::vec(prop::sample::select(CHAT.to_vec()), 0..12),
        messages in prop::collection::vec(prop::sample::select(MESSAGES.to_vec()), 0..16),
    ) {
        let mut chunks = Vec::new();
        let mut decoder = Decoder::new();
        chat.iter().for_each(|event| decoder.push(event, &mut chunks));
        decoder.close(&mut chunks);
        prop_assert_eq!(verdict(&chunks), Ok(()));

        let mut chunks = Vec::new();
        let mut decoder = MessagesDecoder::new();
        messages.iter().for_each(|event| decoder.push(event, &mut chunks));
        decoder.close(&mut chunks);
        prop_assert_eq!(verdict(&chunks), Ok(()));
    }
}
