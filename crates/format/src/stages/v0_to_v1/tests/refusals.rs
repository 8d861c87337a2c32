//! What the step has no answer for.

use super::*;

#[test]
fn types_that_were_never_released_are_refused_even_if_they_may_be_ignored() {
    let expected = "expected an event type that V0 was released with";
    for kind in [
        "request/header-delta",
        "mode/set",
        "slots/dispatch",
        "assistant/attempt",
        "system/message",
        "feedback/message-put",
    ] {
        assert_eq!(unsupported(kind, "{}"), expected, "{kind}");
        let row = event(0, kind, "{}");
        let row = format!(r#"{},"ignorable":true}}"#, row.strip_suffix('}').unwrap());
        let Err(FormatError::UnsupportedMigration { reason, .. }) = risen("", &[row]) else {
            panic!("{kind}");
        };
        assert_eq!(reason, format!("`{kind}`: {expected}"));
    }
}

#[test]
fn every_payload_is_an_object() {
    for kind in [
        "turn/start",
        "session/end-seed",
        "steering/message",
        "vendor/own",
    ] {
        for data in ["null", "[]", "1", r#""{}""#] {
            assert_eq!(unsupported(kind, data), "expected an object as the payload");
        }
    }
}

#[test]
fn payloads_have_the_members_of_their_type() {
    for (kind, data, expected) in [
        (
            "turn/start",
            r#"{"turn":1,"why":"?"}"#,
            r#"`data` has the member "why", which V1 does not have"#,
        ),
        (
            "step/end",
            r#"{"turn":1}"#,
            "`data` lacks the member `step`",
        ),
        (
            "session/end-seed",
            r#"{"inherited":true}"#,
            r#"`data` has the member "inherited", which V1 does not have"#,
        ),
        (
            "subagent/descriptor",
            r#"{"mode":"one-shot","version":2,"provider":"p"}"#,
            "`data.version` must be 3, found 2",
        ),
        (
            "request/header",
            r#"{"header":{"config":{"provider":"p","model":"m"}},"reason":"fallback"}"#,
            "the reason `fallback` has no successor in V1",
        ),
        (
            "tool/call",
            r#"{"turn":1,"step":1,"callId":"c","name":"n","arguments":{}}"#,
            "`data.arguments` must be a string, found {}",
        ),
        (
            "assistant/chunk",
            r#"{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0}}"#,
            "`data.chunk` lacks the member `text`",
        ),
    ] {
        assert_eq!(unsupported(kind, data), expected);
    }
}

#[test]
fn early_ways_of_writing_are_known_exactly() {
    let steering = "expected `turn` and `message`, or `turn`, `content` and `source`";
    let error = "the reason `error` must have `error`, or `step` and `failure`, or `step`, `message` and perhaps `code`";
    for (kind, data, expected) in [
        (
            "turn/start",
            r#"{"turn":1,"trigger":{}}"#,
            "`trigger` must have a `kind`",
        ),
        (
            "turn/start",
            r#"{"turn":1,"trigger":{"kind":""}}"#,
            "`trigger` must have a `kind`",
        ),
        (
            "turn/start",
            r#"{"turn":1,"trigger":null}"#,
            "`trigger` must have a `kind`",
        ),
        (
            "turn/start",
            r#"{"turn":0,"trigger":{"kind":"user"}}"#,
            "`turn` must be from 1 on, because it has a `trigger`",
        ),
        ("steering/message", r#"{"turn":1}"#, steering),
        (
            "steering/message",
            r#"{"turn":1,"message":{},"content":[]}"#,
            steering,
        ),
        (
            "steering/message",
            r#"{"turn":1,"role":"user","content":[],"source":{"kind":"user"}}"#,
            steering,
        ),
        (
            "steering/message",
            r#"{"content":[],"source":{"kind":"user"}}"#,
            "`turn` must be a count",
        ),
        (
            "turn/end",
            r#"{"turn":1,"reason":{"kind":"disposed","by":"x"}}"#,
            "the reason `disposed` has no other members",
        ),
        (
            "turn/end",
            r#"{"turn":1,"reason":{"kind":"aborted","by":"x"}}"#,
            r#"`data.reason` has the member "by", which V1 does not have"#,
        ),
        ("turn/end", r#"{"turn":1,"reason":{"kind":"error"}}"#, error),
        (
            "turn/end",
            r#"{"turn":1,"reason":{"kind":"error","message":"m"}}"#,
            error,
        ),
        (
            "turn/end",
            r#"{"turn":1,"reason":{"kind":"error","step":1,"message":"m","status":500}}"#,
            error,
        ),
        (
            "turn/end",
            r#"{"turn":1,"reason":{"kind":"error","step":1,"failure":{"message":"m","code":"C"},"code":"C"}}"#,
            error,
        ),
        (
            "turn/end",
            r#"{"turn":1,"reason":{"kind":"error","step":1,"failure":{"message":"m"}}}"#,
            "`data.reason.error` lacks the member `code`",
        ),
        (
            "assistant/message",
            r#"{"turn":1,"step":1,"content":[]}"#,
            r#"`data` has the member "content", which V1 does not have"#,
        ),
        (
            "assistant/message",
            r#"{"turn":1,"step":1,"content":[],"provenance":{"provider":"p"}}"#,
            "`data.message.source` lacks the member `model`",
        ),
        (
            "assistant/message",
            r#"{"turn":1,"step":1,"provenance":{"provider":"p","model":"m"}}"#,
            "`data.message.content` must be a list, found null",
        ),
        (
            "tool/result",
            r#"{"turn":1,"step":1,"callId":"c"}"#,
            "`data.message.content[0]` lacks the member `content`",
        ),
        (
            "tool/result",
            r#"{"turn":1,"step":1,"callId":"c","content":[],"name":"ls"}"#,
            r#"`data` has the member "name", which V1 does not have"#,
        ),
    ] {
        assert_eq!(unsupported(kind, data), expected, "{data}");
    }
}
