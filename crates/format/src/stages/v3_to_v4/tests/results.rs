//! Results get a role of their own.

use offshoot_session::INTERRUPTED_NOT_STARTED as WIRE;

use super::*;

/// A result of V3 with more members of its message and of the block in it.
fn wrapped(outer: &str, inner: &str) -> String {
    format!(
        r#"{{"turn":1,"step":1,"message":{{"id":"r","role":"user","source":{{"kind":"tool","callId":"c"}},"content":[{{"type":"tool-result","toolCallId":"c",{inner}"content":[{{"type":"text","text":"t"}}]}}]{outer}}}}}"#
    )
}

#[test]
fn a_result_has_the_role_of_a_tool_and_its_content_for_itself() {
    let lifted = |inner: &str, outer: &str| {
        format!(
            r#"{{"turn":1,"step":1,"message":{{"id":"r","role":"tool","source":{{"kind":"tool","callId":"c"}},"toolCallId":"c",{inner}"content":[{{"type":"text","text":"t"}}]{outer}}}}}"#
        )
    };
    for ((outer, inner), (expected_outer, expected_inner)) in [
        (("", ""), ("", "")),
        (("", r#""isError":true,"#), ("", r#""isError":true,"#)),
        (("", r#""isError":false,"#), ("", r#""isError":false,"#)),
        (
            (r#","note":[1.0],"isError":1,"toolCallId":"x""#, ""),
            (
                r#","plugin:message:note":[1.0],"plugin:message:isError":1,"plugin:message:toolCallId":"x""#,
                "",
            ),
        ),
        (
            ("", r#""id":"i","role":null,"source":{ },"#),
            (
                "",
                r#""plugin:result:id":"i","plugin:result:role":null,"plugin:result:source":{ },"#,
            ),
        ),
        (
            (r#","n\u006fte \ud800":1"#, r#""\"":2,"__proto__":3,"#),
            (
                r#","plugin:message:n\u006fte \ud800":1"#,
                r#""plugin:result:\"":2,"plugin:result:__proto__":3,"#,
            ),
        ),
    ] {
        assert_becomes(
            "tool/result",
            &wrapped(outer, inner),
            &lifted(expected_inner, expected_outer),
        );
    }
}

#[test]
fn what_stands_beside_the_message_of_a_result_stays() {
    let beside = r#"},"error":{"name":"E","code":"X","reason":"r"},"meta":{"a":[ ]}}"#;
    let lower = wrapped("", r#""isError":true,"#).replace("]}}", &format!("]{beside}"));
    let upper = r#"{"turn":1,"step":1,"message":{"id":"r","role":"tool","source":{"kind":"tool","callId":"c"},"toolCallId":"c","isError":true,"content":[{"type":"text","text":"t"}]"#;
    assert_becomes("tool/result", &lower, &format!("{upper}{beside}"));
}

#[test]
fn a_result_that_v3_did_not_have_is_damage() {
    const ONE: &str = "`message.content` must be exactly one `tool-result` block";
    let plain = wrapped("", "");
    let block = r#"{"type":"tool-result","toolCallId":"c","content":[]}"#;
    for (data, reason) in [
        (
            plain.replace(r#""role":"user""#, r#""role":"tool""#),
            r#"`message.role` must be "user", as V3 has it"#,
        ),
        (
            plain.replace(r#""role":"user","#, ""),
            r#"`message.role` must be "user", as V3 has it"#,
        ),
        (r#"{"message":[]}"#.into(), "`message` must be an object"),
        (plain.replace("tool-result", "text"), ONE),
        (r#"{"message":{"role":"user","content":[]}}"#.into(), ONE),
        (r#"{"message":{"role":"user"}}"#.into(), ONE),
        (
            format!(r#"{{"message":{{"role":"user","content":[{block},{block}]}}}}"#),
            ONE,
        ),
    ] {
        assert_eq!(
            damaged(row("tool/result", &data)),
            format!("`tool/result`: {reason}"),
            "{data}"
        );
    }
}

#[test]
fn a_result_inside_of_a_result_is_refused() {
    let data = wrapped("", "").replace(
        r#"{"type":"text","text":"t"}"#,
        r#"{"type":"tool-result","toolCallId":"d","content":[]}"#,
    );
    assert_eq!(
        unsupported(row("tool/result", &data)),
        "`tool/result`: a `tool-result` block stands where no result belongs"
    );
}

/// A file with a turn in which nobody started the call, and the result of it.
fn not_started(version: u64, id: &str, text: &str) -> String {
    let [system_source, result] = match version {
        3 => [
            r#"{"kind":"plugin","plugin":"@deepseek-ai/dsh-system-prompt"}"#.to_owned(),
            format!(
                r#""role":"user","content":[{{"type":"tool-result","toolCallId":"c","isError":true,"content":[{{"type":"text","text":"{text}"}}]}}]"#
            ),
        ],
        _ => [
            r#"{"kind":"system-prompt"}"#.to_owned(),
            format!(
                r#""role":"tool","toolCallId":"c","isError":true,"content":[{{"type":"text","text":"{text}"}}]"#
            ),
        ],
    };
    let rows = [
        turn(0, 100, 1),
        at(1, 101, "step/start", r#"{"turn":1,"step":1}"#),
        with(
            &at(
                2,
                102,
                "system/message",
                &format!(
                    r#"{{"turn":1,"step":1,"message":{{"id":"h","role":"system","source":{system_source},"content":[]}}}}"#
                ),
            ),
            APPEND,
        ),
        with(
            &at(
                3,
                103,
                "assistant/message",
                r#"{"turn":1,"step":1,"message":{"id":"a","role":"assistant","content":[{"type":"tool-call","id":"c","name":"ls","arguments":"{}"}],"source":{"kind":"model","provider":"p","model":"m"}},"stream":[]}"#,
            ),
            APPEND,
        ),
        with(
            &at(
                4,
                104,
                "tool/result",
                &format!(
                    r#"{{"turn":1,"step":1,"message":{{"id":"{id}","source":{{"kind":"tool","callId":"c"}},{result}}},"error":{{"name":"ToolNotStartedError","code":"TOOL_NOT_STARTED"}}}}"#
                ),
            ),
            APPEND,
        ),
        at(5, 105, "step/end", r#"{"turn":1,"step":1}"#),
        at(
            6,
            106,
            "turn/end",
            r#"{"turn":1,"reason":{"kind":"interrupted"}}"#,
        ),
    ];
    file(version, &rows)
}

#[test]
fn the_result_of_a_fork_for_a_call_not_started_came_with_v4() {
    let forked = "forked-tool-result-c-4";
    assert_eq!(
        load(&not_started(3, forked, "own words")).unwrap_err(),
        FormatError::Damaged {
            place: Place {
                line: 6,
                seq: LogOffset::new(4),
                byte: not_started(3, forked, "own words")
                    .find(r#"{"type":"tool/result""#)
                    .unwrap() as u64,
            },
            reason: format!(
                "`tool/result`: expected the not-started result of a repair, found `{forked}`, which only V4 has"
            ),
        }
    );
    let text = not_started(4, forked, "own words");
    let stored = load(&text).unwrap();
    assert_eq!(written(&stored), text, "id and text survive");
    assert_eq!(written(&load(&written(&stored)).unwrap()), text);
}

#[test]
fn the_result_of_a_repair_keeps_its_id_and_its_words() {
    // The suffix is that of the event in the version that it was written with.
    for suffix in [0, 3, 4, 70] {
        let id = format!("interrupted-tool-result-c-{suffix}");
        let stored = load(&not_started(3, &id, WIRE)).unwrap();
        assert_eq!(written(&stored), not_started(4, &id, WIRE));
    }
    for (id, text) in [
        ("interrupted-tool-result-c-04", WIRE),
        ("interrupted-tool-result-d-4", WIRE),
        ("r", WIRE),
        ("interrupted-tool-result-c-4", "own words"),
    ] {
        let refused = load(&not_started(3, id, text)).unwrap_err();
        assert!(
            matches!(refused, FormatError::Damaged { .. }),
            "{id}: {refused}"
        );
    }
}
