//! What V2 may hold: types, sources and blocks that the step knows.

use super::*;

const SOURCES: [&str; 15] = [
    "user",
    "plugin",
    "model",
    "tool",
    "agent-instructions",
    "session-reference",
    "team-message",
    "goal",
    "skill-invocation",
    "skill-catalog",
    "coordinator",
    "subagent-report",
    "subagent-settled",
    "webhook",
    "agent-message",
];

const BLOCKS: [&str; 6] = [
    "text",
    "reasoning",
    "image",
    "file",
    "tool-call",
    "tool-result",
];

/// The rows behind an open step.
fn behind(row: String) -> Vec<String> {
    [opened(), vec![row]].concat()
}

/// The row at seq 2, on the surface if its type is.
fn row(kind: &str, data: &str) -> String {
    let row = at(2, 102, kind, data);
    match Version::V2.is_surface(kind) {
        true => with(&row, APPEND),
        false => row,
    }
}

/// Every payload that holds a message, with `MESSAGE` in its place.
const MESSAGES: [(&str, &str); 5] = [
    ("user/message", "MESSAGE"),
    ("assistant/message", r#"{"message":MESSAGE,"stream":[]}"#),
    ("tool/result", r#"{"message":MESSAGE}"#),
    (
        "agent/inbox/spliced",
        r#"{"inserted":[{"id":"x","content":[]},MESSAGE]}"#,
    ),
    ("session/title-llm-request", r#"{"messages":[MESSAGE]}"#),
];

#[test]
fn only_types_that_v2_was_released_with_are_known() {
    for kind in [
        "feedback/message-put",
        "feedback/message-delete",
        "assistant/attempt",
    ] {
        assert!(upper(&behind(row(kind, "{}"))).is_ok(), "{kind}");
    }
    for kind in [
        "gadget/blinked",
        "system/message",
        "tool/ptc-dispatch",
        "subagent/catalog",
        "image/offload",
        "assistant/chunk",
    ] {
        for members in [r#""surfaceOp":"append""#, r#""ignorable":true"#] {
            assert_eq!(
                unsupported(&behind(with(&at(2, 102, kind, "{}"), members))),
                format!("4: `{kind}`: expected an event type that V2 was released with")
            );
        }
    }
}

#[test]
fn only_sources_with_a_successor_are_known() {
    for (kind, data) in MESSAGES {
        let source = |source: &str| {
            let message = user_data(&format!(r#"{{"kind":{source}}}"#), "[]");
            behind(row(kind, &data.replace("MESSAGE", &message)))
        };
        for known in SOURCES {
            let rows = source(&format!(r#""{known}""#));
            assert!(upper(&rows).is_ok(), "{kind}: {known}");
        }
        for other in [r#""gadget""#, r#""compact-checkpoint""#, r#""""#, "7"] {
            assert_eq!(
                unsupported(&source(other)),
                format!("4: `{kind}`: the source kind {other} has no successor in V3")
            );
        }
    }
}

/// Every payload that holds content blocks, with `BLOCK` in their place.
fn contents() -> Vec<(&'static str, String)> {
    let message = user_data(USER, r#"[{"type":"text","text":"t"},BLOCK]"#);
    let nested = user_data(
        USER,
        r#"[{"type":"tool-result","toolCallId":"c","content":[BLOCK]}]"#,
    );
    let messages = [message, nested]
        .into_iter()
        .flat_map(|message| MESSAGES.map(|(kind, data)| (kind, data.replace("MESSAGE", &message))));
    let chunk = |chunk: &str| {
        format!(
            r#"{{"stream":[{{"type":"text-chunks"}},{{"type":"chunk","time":1,"chunk":{chunk}}}]}}"#
        )
    };
    let streams = ["assistant/message", "assistant/attempt"]
        .into_iter()
        .flat_map(|kind| {
            let end = chunk(r#"{"type":"block-end","index":0,"block":BLOCK}"#);
            [(kind, end)]
        });
    let others = [
        ("compaction/summary", r#"{"summary":[BLOCK]}"#),
        (
            "compaction/summary",
            r#"{"summary":[],"rawOutput":[BLOCK]}"#,
        ),
        ("tool/code-dispatch", r#"{"content":[BLOCK]}"#),
        ("team/message/queued", r#"{"message":{"content":[BLOCK]}}"#),
    ];
    let others = others.map(|(kind, data)| (kind, data.to_owned()));
    messages.chain(streams).chain(others).collect()
}

#[test]
fn only_blocks_with_a_successor_are_known() {
    for (kind, data) in contents() {
        let block = |name: &str| {
            let data = data.replace("BLOCK", &format!(r#"{{"type":{name}}}"#));
            behind(row(kind, &data))
        };
        for known in BLOCKS {
            let rows = block(&format!(r#""{known}""#));
            assert!(upper(&rows).is_ok(), "{kind}: {known}");
        }
        for other in [r#""audio""#, r#""tool-addition""#, r#""""#, "null"] {
            assert_eq!(
                unsupported(&block(other)),
                format!("4: `{kind}`: the content block type {other} has no successor in V3"),
                "{data}"
            );
        }
    }
}

#[test]
fn a_block_that_a_stream_begins_has_a_successor_as_well() {
    for kind in ["assistant/message", "assistant/attempt"] {
        let start = |block: &str| {
            let data = format!(
                r#"{{"stream":[{{"type":"chunk","time":1,"chunk":{{"type":"block-start","index":0,"blockType":{block}}}}}]}}"#
            );
            behind(row(kind, &data))
        };
        for known in BLOCKS {
            let rows = start(&format!(r#""{known}""#));
            assert!(upper(&rows).is_ok(), "{kind}: {known}");
        }
        assert_eq!(
            unsupported(&start(r#""audio""#)),
            format!(r#"4: `{kind}`: the content block type "audio" has no successor in V3"#)
        );
    }
}

#[test]
fn a_message_that_is_no_object_is_damage() {
    for (kind, data, place) in [
        ("user/message", "[]", "data"),
        ("assistant/message", r#"{"message":1}"#, "message"),
        ("tool/result", r#"{"message":"m"}"#, "message"),
        ("agent/inbox/spliced", r#"{"inserted":[null]}"#, "inserted"),
        (
            "session/title-llm-request",
            r#"{"messages":[[]]}"#,
            "messages",
        ),
    ] {
        assert_eq!(
            damaged(&behind(row(kind, data))),
            format!("4: `{kind}`: `{place}` must hold a message")
        );
    }
}

#[test]
fn a_result_for_a_call_that_nobody_started_is_that_of_a_repair() {
    let result = |id: &str, code: &str| {
        let message = format!(
            r#"{{"id":"{id}","role":"user","source":{{"kind":"tool","callId":"c-1"}},"content":[{{"type":"tool-result","toolCallId":"c-1","isError":true,"content":[]}}]}}"#
        );
        let error = format!(r#"{{"name":"ToolNotStartedError","code":"{code}"}}"#);
        behind(row(
            "tool/result",
            &format!(r#"{{"turn":1,"step":1,"message":{message},"error":{error}}}"#),
        ))
    };
    for suffix in ["0", "2", "7", "9007199254740991"] {
        let id = format!("interrupted-tool-result-c-1-{suffix}");
        assert!(upper(&result(&id, "TOOL_NOT_STARTED")).is_ok(), "{id}");
    }
    for id in [
        "",
        "r",
        "forked-tool-result-c-1-2",
        "interrupted-tool-result-c-2",
        "interrupted-tool-result-c-2-2",
        "interrupted-tool-result-c-1-",
        "interrupted-tool-result-c-1-02",
        "interrupted-tool-result-c-1--2",
        "interrupted-tool-result-c-1-2.0",
        "interrupted-tool-result-c-1- 2",
        "interrupted-tool-result-c-1-9007199254740992",
    ] {
        assert_eq!(
            unsupported(&result(id, "TOOL_NOT_STARTED")),
            format!(
                "4: `tool/result`: expected `interrupted-tool-result-c-1-` and a number as the id of a result for a \
                 call that was not started, found `{id}`"
            )
        );
        assert!(upper(&result(id, "TOOL_OUTCOME_UNKNOWN")).is_ok(), "{id}");
    }
}

#[test]
fn a_log_cannot_have_been_delivered_as_the_version_above() {
    let delivered = |version: &str| {
        let data = format!(r#"{{"sessionId":"s","throughSeq":1{version}}}"#);
        behind(row("session-log-deepseek/delivery-accepted", &data))
    };
    for version in [
        "",
        r#","sessionFormatVersion":0"#,
        r#","sessionFormatVersion":2"#,
    ] {
        assert!(upper(&delivered(version)).is_ok(), "{version}");
    }
    assert_eq!(
        unsupported(&delivered(r#","sessionFormatVersion":3"#)),
        "4: `session-log-deepseek/delivery-accepted`: a V2 log cannot have been delivered as V3"
    );
}
