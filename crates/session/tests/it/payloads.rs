//! The core rules of the payloads (§5.1).

use offshoot_session::{Body, EventKind};

use crate::rows::refusal;
use crate::support::event;

fn payload(kind: &str, data: &str) -> String {
    let op = match EventKind::from_name(kind).is_surface() {
        true => r#","surfaceOp":"append""#,
        false => "",
    };
    format!(r#"{{"type":"{kind}","seq":9,"time":1,"data":{data}{op}}}"#)
}
fn message(role: &str, source: &str, content: &str, rest: &str) -> String {
    format!(r#"{{"id":"m","role":"{role}","source":{source},"content":{content}{rest}}}"#)
}

fn in_step(message: &str, rest: &str) -> String {
    format!(r#"{{"turn":1,"step":1,"message":{message}{rest}}}"#)
}

const MODEL: &str = r#"{"kind":"model","provider":"p","model":"m"}"#;
const TOOL: &str = r#"{"kind":"tool","callId":"c"}"#;
const STREAM: &str = r#","stream":[]"#;

#[test]
fn every_refusal_of_a_core_payload_says_what_is_wrong() {
    let user = |source: &str, content: &str| message("user", source, content, "");
    let said = |content: &str| in_step(&message("assistant", MODEL, content, ""), STREAM);
    let told = |content: &str, rest: &str| {
        in_step(
            &message("developer", r#"{"kind":"tool-updates"}"#, content, ""),
            rest,
        )
    };
    let done = |source: &str, rest: &str, outer: &str| {
        in_step(&message("tool", source, "[]", rest), outer)
    };
    let head = |header: &str, rest: &str| format!(r#"{{"header":{header}{rest}}}"#);
    let config = r#""config":{"provider":"p","model":"m"}"#;
    let initial = r#","reason":"initial""#;
    let cases: &[(&str, String, &str)] = &[
        (
            "turn/start",
            "[1]".into(),
            "invalid type: sequence, expected an object",
        ),
        ("turn/start", "{}".into(), "missing field `turn`"),
        (
            "turn/start",
            r#"{"turn":9007199254740992}"#.into(),
            "9007199254740992 is beyond 2^53 − 1",
        ),
        (
            "turn/start",
            r#"{"turn":-0}"#.into(),
            "invalid type: floating point `-0.0`, expected u64",
        ),
        ("turn/end", r#"{"turn":1}"#.into(), "missing field `reason`"),
        (
            "turn/end",
            r#"{"turn":1,"reason":{"kind":""}}"#.into(),
            "must not be an empty string",
        ),
        (
            "turn/end",
            r#"{"turn":1,"reason":["completed"]}"#.into(),
            "invalid type: sequence, expected an object",
        ),
        (
            "step/start",
            "[1,1]".into(),
            "invalid type: sequence, expected an object",
        ),
        ("step/end", r#"{"turn":1}"#.into(), "missing field `step`"),
        ("todo/write", "[]".into(), "`data` must be an object"),
        ("todo/write", "null".into(), "`data` must be an object"),
        (
            "session/end-seed",
            r#"{"inherited":false}"#.into(),
            "`inherited` may only be true",
        ),
        (
            "session/end-seed",
            r#"{"inherited":null}"#.into(),
            "invalid type: null, expected a boolean",
        ),
        (
            "session/end-seed",
            r#"{"note":1}"#.into(),
            "unknown field `note`, expected `inherited`",
        ),
        (
            "assistant/attempt",
            r#"{"turn":1,"step":1}"#.into(),
            "missing field `stream`",
        ),
        (
            "assistant/attempt",
            r#"{"turn":1,"step":1,"stream":{}}"#.into(),
            "`stream` must be a list",
        ),
        (
            "tool/call",
            r#"{"turn":1,"step":1,"callId":"","name":"n","arguments":"{}"}"#.into(),
            "must not be an empty string",
        ),
        (
            "tool/call",
            r#"{"turn":1,"step":1,"callId":"c","name":"n","arguments":{}}"#.into(),
            "invalid type: map, expected a string",
        ),
        (
            "image/offload",
            r#"{"targets":[[1,[0]]]}"#.into(),
            "invalid type: sequence, expected an object",
        ),
        (
            "user/message",
            r#"{"role":"user","content":[],"source":{"kind":"user"}}"#.into(),
            "message: missing field `id`",
        ),
        (
            "user/message",
            r#"{"id":"","role":"user","content":[],"source":{"kind":"user"}}"#.into(),
            "message: must not be an empty string",
        ),
        (
            "user/message",
            r#"["u","user",[],{"kind":"user"}]"#.into(),
            "message: invalid type: sequence, expected an object",
        ),
        (
            "user/message",
            user(r#"["user"]"#, "[]"),
            "message: invalid type: sequence, expected an object",
        ),
        (
            "user/message",
            user(r#"{"kind":""}"#, "[]"),
            "`source.kind` must not be empty",
        ),
        (
            "user/message",
            user(r#"{"kind":"user"}"#, "{}"),
            "message: invalid type: map, expected a sequence",
        ),
        (
            "user/message",
            user(r#"{"kind":"user"}"#, r#"[["text"]]"#),
            "message: invalid type: sequence, expected an object",
        ),
        (
            "user/message",
            user(r#"{"kind":"user"}"#, r#"[{"type":""}]"#),
            "a content block has an empty `type`",
        ),
        (
            "user/message",
            user(
                r#"{"kind":"user"}"#,
                r#"[{"type":"tool-removal","toolName":"t"}]"#,
            ),
            "a tool-removal block stands outside a developer/message",
        ),
        (
            "user/message",
            message("system", r#"{"kind":"user"}"#, "[]", ""),
            "role must be `user`, found `system`",
        ),
        (
            "system/message",
            in_step(
                &message("system", r#"{"kind":"runtime-context"}"#, "[]", ""),
                "",
            ),
            "source kind must be `system-prompt`, found `runtime-context`",
        ),
        (
            "system/message",
            message("system", r#"{"kind":"system-prompt"}"#, "[]", ""),
            "missing field `turn`",
        ),
        (
            "system/message",
            in_step(r#"["s"]"#, ""),
            "message: invalid type: sequence, expected an object",
        ),
        (
            "assistant/message",
            in_step(&message("assistant", MODEL, "[]", ""), ""),
            "`stream` must be a list",
        ),
        (
            "assistant/message",
            in_step(
                &message("assistant", r#"{"kind":"user"}"#, "[]", ""),
                STREAM,
            ),
            "source must be kind `model` with `provider` and `model`",
        ),
        (
            "assistant/message",
            in_step(
                &message(
                    "assistant",
                    r#"{"kind":"model","provider":"","model":"m"}"#,
                    "[]",
                    "",
                ),
                STREAM,
            ),
            "source must be kind `model` with `provider` and `model`",
        ),
        (
            "assistant/message",
            in_step(&message("user", MODEL, "[]", ""), STREAM),
            "role must be `assistant`, found `user`",
        ),
        (
            "assistant/message",
            said(r#"[{"type":"tool-call","id":"","name":"n","arguments":""}]"#),
            "tool-call block: `id` must be a non-empty string",
        ),
        (
            "assistant/message",
            said(r#"[{"type":"tool-call","id":"c","name":"n","arguments":{}}]"#),
            "tool-call block: `arguments` must be a string",
        ),
        (
            "assistant/message",
            said(r#"[{"type":"tool-call","id":"c","arguments":""}]"#),
            "tool-call block: `name` must be a string",
        ),
        (
            "developer/message",
            told(r#"[{"type":"tool-addition","toolName":"t"}]"#, ""),
            "`headerSeq` is missing although tools are added",
        ),
        (
            "developer/message",
            told(
                r#"[{"type":"tool-addition","toolName":"t"}]"#,
                r#","headerSeq":-1"#,
            ),
            "`headerSeq`: invalid value: integer `-1`, expected u64",
        ),
        (
            "developer/message",
            told(
                r#"[{"type":"tool-removal","toolName":"t"}]"#,
                r#","headerSeq":0"#,
            ),
            "`headerSeq` stands although no tool is added",
        ),
        (
            "developer/message",
            told(
                r#"[{"type":"tool-removal","toolName":"t"}]"#,
                r#","headerSeq":null"#,
            ),
            "`headerSeq` stands although no tool is added",
        ),
        (
            "developer/message",
            told(r#"[{"type":"tool-removal","toolName":""}]"#, ""),
            "tool-removal block: `toolName` must be a non-empty string",
        ),
        (
            "developer/message",
            told(
                r#"[{"type":"tool-addition","toolName":"t","tool":{}}]"#,
                r#","headerSeq":0"#,
            ),
            "a tool-addition block must not carry the tool itself",
        ),
        (
            "tool/result",
            done(r#"{"kind":"user"}"#, r#","toolCallId":"c""#, ""),
            "source kind must be `tool`, found `user`",
        ),
        (
            "tool/result",
            done(r#"{"kind":"tool"}"#, r#","toolCallId":"c""#, ""),
            "`source.callId` must be a non-empty string",
        ),
        (
            "tool/result",
            done(r#"{"kind":"tool","callId":""}"#, r#","toolCallId":"""#, ""),
            "`source.callId` must be a non-empty string",
        ),
        (
            "tool/result",
            done(TOOL, "", ""),
            "`toolCallId` differs from `source.callId`",
        ),
        (
            "tool/result",
            done(TOOL, r#","toolCallId":"d""#, ""),
            "`toolCallId` differs from `source.callId`",
        ),
        (
            "tool/result",
            done(TOOL, r#","toolCallId":"c","isError":null"#, ""),
            "`isError` must be true or false, found null",
        ),
        (
            "tool/result",
            done(
                TOOL,
                r#","toolCallId":"c""#,
                r#","error":{"name":"E","code":"C"}"#,
            ),
            "`error` stands on a result that is no error",
        ),
        (
            "tool/result",
            done(
                TOOL,
                r#","toolCallId":"c","isError":true"#,
                r#","error":["E","C"]"#,
            ),
            "`error`: invalid type: sequence, expected an object",
        ),
        (
            "request/header",
            head(&format!("{{{config}}}"), ""),
            "missing field `reason`",
        ),
        (
            "request/header",
            head(&format!("{{{config}}}"), r#","reason":"whim""#),
            "`reason` must be initial, resume, change or series, found \"whim\"",
        ),
        (
            "request/header",
            head(
                &format!("{{{config}}}"),
                r#","reason":"series","startsSeries":false"#,
            ),
            "`startsSeries` may only be true",
        ),
        (
            "request/header",
            head(r#"{"config":{"provider":"","model":"m"}}"#, initial),
            "must not be an empty string",
        ),
        (
            "request/header",
            head(r#"{"config":{"provider":"p"}}"#, initial),
            "missing field `model`",
        ),
        (
            "request/header",
            head(r#"{"config":["p","m",null,null]}"#, initial),
            "invalid type: sequence, expected an object",
        ),
        (
            "request/header",
            head(
                r#"{"config":{"provider":"p","model":"m","reasoningEffort":""}}"#,
                initial,
            ),
            "must not be an empty string",
        ),
        (
            "request/header",
            head(&format!(r#"{{{config},"system":"be brief"}}"#), initial),
            "`header.system` is retired: the prompt is a system/message",
        ),
        (
            "request/header",
            head(&format!("{{{config},\"tools\":[\t]}}"), initial),
            "an empty `tools` list must be left out",
        ),
        (
            "request/header",
            head(&format!(r#"{{{config},"tools":null}}"#), initial),
            "invalid type: null, expected a sequence",
        ),
        (
            "request/header",
            head(&format!(r#"{{{config},"adapterDefaults":{{}}}}"#), initial),
            "an empty `adapterDefaults` must be left out",
        ),
        (
            "request/header",
            head(
                &format!(r#"{{{config},"adapterDefaults":{{"maxTokens":false}}}}"#),
                initial,
            ),
            "`adapterDefaults.maxTokens` may only be true",
        ),
        (
            "request/header",
            head(
                &format!(r#"{{{config},"adapterDefaults":{{"maxTokens":true}}}}"#),
                initial,
            ),
            "`adapterDefaults.maxTokens` has no value in `config`",
        ),
        (
            "request/header",
            head(
                &format!(r#"{{{config},"adapterDefaults":{{"stop":true}}}}"#),
                initial,
            ),
            "unknown field `stop`, expected `reasoningEffort` or `maxTokens`",
        ),
    ];
    for (kind, data, reason) in cases {
        let row = payload(kind, data);
        assert_eq!(refusal(&row), format!("`{kind}`: {reason}"), "{row}");
    }
}

#[test]
fn members_that_no_rule_of_the_type_reads_may_be_anything() {
    for (kind, data) in [
        ("turn/start", r#"{"turn":1,"reason":7}"#.to_owned()),
        ("user/message", message("user", r#"{"kind":"user","callId":5,"provider":[]}"#, "[]", r#","toolCallId":{},"isError":"so""#)),
        ("assistant/message", in_step(&message("assistant", MODEL, r#"[{"type":"text","id":1,"name":[],"toolName":{}}]"#, ""), r#","stream":[],"error":"no","headerSeq":"x""#)),
        ("assistant/message", in_step(&message("assistant", MODEL, r#"[{"type":"tool-call","id":"c","name":"","arguments":"not JSON"}]"#, ""), STREAM)),
        ("developer/message", in_step(&message("developer", r#"{"kind":"k"}"#, r#"[{"type":"tool-removal","toolName":"t","tool":1}]"#, ""), "")),
        ("request/header", r#"{"header":{"config":{"provider":"p","model":"m"},"tools":[[]]},"reason":"series","startsSeries":true,"more":1}"#.to_owned()),
        ("todo/write", r#"{"__proto__":{"todos":1},"todos":"none"}"#.to_owned()),
    ] {
        let row = payload(kind, &data);
        assert_eq!(event(&row).data(), data);
    }
}

#[test]
fn nested_depth_and_lone_surrogates_in_messages_are_kept() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let content = format!(
        r#"[{{"type":"text","text":"half \ud800 pair"}},{{"type":"widget","deep":{deep}}},{{"type":"tool-call","id":"c","name":"n\udfff","arguments":"{{\"q\":\"\ud800\"}}"}}]"#
    );
    let text = message("assistant", MODEL, &content, &format!(r#","extra":{deep}"#));
    let row = payload("assistant/message", &in_step(&text, STREAM));
    let event = event(&row);
    assert_eq!((event.text(), event.message()), (&*row, Some(&*text)));
    let Body::AssistantMessage { calls, .. } = event.body() else {
        panic!("{:?}", event.body())
    };
    let replaced = calls[0].arguments.replace(char::REPLACEMENT_CHARACTER, "");
    assert_eq!((calls.len(), &*replaced), (1, r#"{"q":""}"#));

    let call = r#"{"turn":1,"step":1,"callId":"c","name":"n","arguments":"\ud800"}"#;
    assert_eq!(
        crate::support::event(&payload("tool/call", call)).data(),
        call
    );
}
