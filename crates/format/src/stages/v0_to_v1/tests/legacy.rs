//! What becomes of the early ways of writing things.

use super::*;

#[test]
fn what_made_a_turn_start_is_dropped() {
    let after = ["turn/start", r#"{"turn":2}"#];
    assert_becomes(
        ["turn/start", r#"{"turn":2,"trigger":{"kind":"user"}}"#],
        after,
    );
    let more = r#"{"trigger":{"kind":"job","id":4},"turn":2}"#;
    assert_becomes(["turn/start", more], after);
}

#[test]
fn early_reasons_for_the_end_of_a_turn_are_told_as_later_ones() {
    for (before, after) in [
        (
            r#"{"kind":"aborted"}"#,
            r#"{"kind":"aborted","reason":{"kind":"legacy"}}"#,
        ),
        (
            r#"{"kind":"disposed"}"#,
            r#"{"kind":"aborted","reason":{"kind":"disposed"}}"#,
        ),
        (
            r#"{"kind":"error","step":1,"failure":{"message":"m","code":"C","status":500}}"#,
            r#"{"kind":"error","error":{"message":"m","code":"C","status":500}}"#,
        ),
        (
            r#"{"kind":"error","step":1,"message":"m","code":"C"}"#,
            r#"{"kind":"error","error":{"message":"m","code":"C"}}"#,
        ),
        (
            r#"{"kind":"error","step":1,"message":"m"}"#,
            r#"{"kind":"error","error":{"message":"m","code":"UNKNOWN"}}"#,
        ),
    ] {
        let end = |reason: &str| format!(r#"{{"turn":1,"reason":{reason}}}"#);
        assert_becomes(["turn/end", &end(before)], ["turn/end", &end(after)]);
    }
    for reason in [
        r#"{"kind":"aborted","reason":{"kind":"user"}}"#,
        r#"{"kind":"error","error":{"message":"m","code":"C"}}"#,
    ] {
        assert_stays("turn/end", &format!(r#"{{"turn":1,"reason":{reason}}}"#));
    }
}

#[test]
fn a_message_within_a_step_becomes_a_message_of_the_user() {
    let whole = r#"{"id":"m","role":"user","content":[],"source":{"kind":"user"}}"#;
    let wrapped = |message: &str| format!(r#"{{"turn":1,"message":{message}}}"#);
    assert_becomes(
        ["steering/message", &wrapped(whole)],
        ["user/message", whole],
    );

    let minted =
        r#"{"content":[],"source":{"kind":"user"},"role":"user","id":"legacy-message:s:7"}"#;
    let nameless = r#"{"content":[],"source":{"kind":"user"},"role":"user"}"#;
    assert_becomes(
        ["steering/message", &wrapped(nameless)],
        ["user/message", minted],
    );
    let flat = r#"{"turn":1,"content":[],"source":{"kind":"user"}}"#;
    assert_becomes(["steering/message", flat], ["user/message", minted]);
}

#[test]
fn a_message_without_an_id_gets_one_that_follows_from_its_place() {
    assert_becomes(
        ["user/message", r#"{"content":[],"source":{"kind":"user"}}"#],
        [
            "user/message",
            r#"{"content":[],"source":{"kind":"user"},"role":"user","id":"legacy-message:s:7"}"#,
        ],
    );
    let model = r#"{"kind":"model","provider":"p","model":"m"}"#;
    let assistant = |id: &str| {
        format!(
            r#"{{"turn":1,"step":1,"message":{{"role":"assistant","content":[],"source":{model}{id}}}}}"#
        )
    };
    assert_becomes(
        ["assistant/message", &assistant("")],
        [
            "assistant/message",
            &assistant(r#","id":"legacy-message:s:7""#),
        ],
    );
    let result = |id: &str| {
        let block = r#"{"type":"tool-result","toolCallId":"c","content":[]}"#;
        let source = r#"{"kind":"tool","callId":"c"}"#;
        format!(
            r#"{{"turn":1,"step":1,"message":{{"role":"user","source":{source},"content":[{block}]{id}}}}}"#
        )
    };
    assert_becomes(
        ["tool/result", &result("")],
        ["tool/result", &result(r#","id":"legacy-message:s:7""#)],
    );
}

#[test]
fn the_provenance_of_an_answer_becomes_its_source() {
    assert_becomes(
        [
            "assistant/message",
            r#"{"turn":1,"step":2,"content":[{"type":"text","text":"a"}],"provenance":{"provider":"p","model":"m"},"usage":{"inputTokens":1,"outputTokens":2}}"#,
        ],
        [
            "assistant/message",
            r#"{"turn":1,"step":2,"message":{"role":"assistant","content":[{"type":"text","text":"a"}],"source":{"kind":"model","provider":"p","model":"m"},"id":"legacy-message:s:7"},"usage":{"inputTokens":1,"outputTokens":2}}"#,
        ],
    );
}

#[test]
fn a_provenance_stands_beside_or_within_the_message() {
    let answer = |within: &str, beside: &str| {
        format!(
            r#"{{"turn":1,"step":2,"message":{{"role":"assistant","content":[]{within}}}{beside}}}"#
        )
    };
    let provenance = r#","provenance":{"provider":"p","model":"m"}"#;
    let source = r#","source":{"kind":"model","provider":"p","model":"m"}"#;
    let after = answer(&format!(r#"{source},"id":"legacy-message:s:7""#), "");
    for before in [answer(provenance, ""), answer("", provenance)] {
        assert_becomes(
            ["assistant/message", &before],
            ["assistant/message", &after],
        );
    }
    for both in [
        answer(&format!("{source}{provenance}"), ""),
        answer(source, provenance),
    ] {
        let expected = "has both a `source` and a `provenance`";
        assert_eq!(unsupported("assistant/message", &both), expected);
    }
}

fn flat_result(call: &str, rest: &str) -> String {
    format!(r#"{{"turn":1,"step":1,"callId":"{call}","content":[],"isError":true{rest}}}"#)
}

fn wrapped_result(call: &str, id: &str, rest: &str) -> String {
    format!(
        r#"{{"turn":1,"step":1,"message":{{"source":{{"kind":"tool","callId":"{call}"}},"content":[{{"type":"tool-result","toolCallId":"{call}","content":[],"isError":true}}],"role":"user","id":"{id}"}}{rest}}}"#
    )
}

#[test]
fn a_flat_result_is_wrapped() {
    let rest = r#","error":{"name":"E","code":"C"},"meta":[1]"#;
    assert_becomes(
        ["tool/result", &flat_result("c", rest)],
        [
            "tool/result",
            &wrapped_result("c", "legacy-message:s:7", rest),
        ],
    );
}

#[test]
fn a_result_that_replaces_another_is_the_same_message() {
    let replacing = |seq: u64, replaced: u64, data: &str| {
        let op = format!(r#"{{"op":"replace","start":{replaced},"end":{replaced}}}"#);
        let row = event(seq, "tool/result", data).replace(r#","surfaceOp":"append""#, "");
        let row = row.strip_suffix('}').unwrap();
        format!(r#"{row},"sourceEventSeqs":[{replaced}],"surfaceOp":{op}}}"#)
    };
    let named = wrapped_result("d", "own", "");
    let rows = [
        event(0, "tool/result", &flat_result("c", "")),
        event(1, "tool/result", &named),
        replacing(2, 0, &flat_result("c", "")),
        replacing(3, 1, &flat_result("d", "")),
        replacing(4, 2, &flat_result("c", "")),
    ];
    let expected = [
        event(
            0,
            "tool/result",
            &wrapped_result("c", "legacy-message:s:0", ""),
        ),
        event(1, "tool/result", &named),
        replacing(2, 0, &wrapped_result("c", "legacy-message:s:0", "")),
        replacing(3, 1, &wrapped_result("d", "own", "")),
        replacing(4, 2, &wrapped_result("c", "legacy-message:s:0", "")),
    ];
    assert_eq!(risen("", &rows), Ok(expected.to_vec()));
}

#[test]
fn the_retries_of_one_request_get_one_id() {
    let retry = |seq: u64, id: &str, [turn, step, retry]: [u64; 3], policy: &str| {
        let data = format!(
            r#"{{{id}"turn":{turn},"step":{step},"provider":"p","mode":"always","policyKey":"{policy}","retry":{retry},"delayMs":1,"failure":{{"message":"m","code":"C"}}}}"#
        );
        event(seq, "llm/retry", &data)
    };
    let started = |seq: u64, id: &str, [turn, step, retry]: [u64; 3]| {
        let data = format!(r#"{{{id}"turn":{turn},"step":{step},"retry":{retry}}}"#);
        event(seq, "llm/retry-started", &data)
    };
    let log = |ids: [&str; 4]| {
        let [first, second, third, own] = ids;
        vec![
            retry(0, first, [1, 1, 1], "a"),
            started(1, first, [1, 1, 1]),
            retry(2, first, [1, 1, 2], "a"),
            started(3, first, [1, 1, 2]),
            retry(4, second, [1, 1, 1], "b"),
            started(5, second, [1, 1, 1]),
            retry(6, third, [1, 2, 1], "a"),
            started(7, third, [1, 2, 1]),
            retry(8, own, [2, 1, 1], "a"),
            started(9, own, [2, 1, 1]),
        ]
    };
    let own = r#""retryId":"own","#;
    let minted = [0, 4, 6].map(|seq| format!(r#""retryId":"legacy-retry:s:{seq}","#));
    let [first, second, third] = &minted;
    assert_eq!(
        risen("", &log(["", "", "", own])),
        Ok(log([first, second, third, own]))
    );
}

#[test]
fn what_was_started_for_a_retry_with_an_id_has_that_id() {
    let scheduled = event(
        0,
        "llm/retry",
        r#"{"retryId":"own","turn":1,"step":1,"provider":"p","mode":"always","policyKey":"a","retry":1,"delayMs":1,"failure":{"message":"m","code":"C"}}"#,
    );
    let started = |id: &str| {
        let data = format!(r#"{{{id}"turn":1,"step":1,"retry":1}}"#);
        event(1, "llm/retry-started", &data)
    };
    assert_eq!(
        risen("", &[scheduled.clone(), started("")]),
        Ok(vec![scheduled, started(r#""retryId":"own","#)])
    );
}

const SUMMARY: &str = r#""summary":[],"shadowedRange":{"start":0,"end":0},"shadowedSeqs":[0],"shadowedTokenCount":1,"provider":"p","model":"m""#;

#[test]
fn compactions_have_their_later_name_and_an_id_for_each() {
    let group = |prefix: &str, seq: u64, has_id: bool| {
        let kind = |name: &str| format!("{prefix}/{name}");
        let id = format!(r#""compactionId":"legacy-compaction:s:{seq}""#);
        let [ahead, behind] = match has_id {
            true => [format!("{id},"), format!(",{id}")],
            false => [String::new(), String::new()],
        };
        let source = format!(r#"{{"kind":"plugin","plugin":"compact"{behind}}}"#);
        let checkpoint = format!(r#"{{"id":"m","role":"user","content":[],"source":{source}}}"#);
        vec![
            event(seq, &kind("start"), &format!(r#"{{{ahead}"turn":1}}"#)),
            event(seq + 1, &kind("summary"), &format!("{{{ahead}{SUMMARY}}}")),
            event(seq + 2, "user/message", &checkpoint),
            event(seq + 3, &kind("end"), &format!(r#"{{{ahead}"turn":1}}"#)),
        ]
    };
    let prune =
        r#"{"shadowedRange":{"start":0,"end":0},"shadowedSeqs":[0],"shadowedTokenCount":1}"#;
    let log = |prefix: &str, has_id: bool| {
        let mut log = group(prefix, 0, has_id);
        log.extend(group(prefix, 4, has_id));
        log.push(event(8, &format!("{prefix}/prune"), prune));
        log
    };
    let after = log("compaction", true);
    for before in [
        log("compact", false),
        log("compaction", false),
        log("compact", true),
        after.clone(),
    ] {
        assert_eq!(risen("", &before), Ok(after.clone()));
    }
}

#[test]
fn a_seed_ends_the_compaction_that_was_open() {
    let start = |id: &str| event(0, "compaction/start", &format!(r#"{{{id}"turn":null}}"#));
    let marker = event(1, "session/end-seed", "{}");
    let end = |id: &str| {
        event(
            2,
            "compaction/end",
            &format!(r#"{{{id}"turn":null,"error":1}}"#),
        )
    };
    let minted = |seq: u64| format!(r#""compactionId":"legacy-compaction:s:{seq}","#);
    assert_eq!(
        risen("", &[start(""), marker.clone(), end("")]),
        Ok(vec![start(&minted(0)), marker, end(&minted(2))])
    );
}

#[test]
fn a_prefix_of_the_request_is_dropped() {
    let header = |prefix: &str| {
        format!(
            r#"{{"header":{{"config":{{"provider":"p","model":"m"}},{prefix}"system":"s"}},"reason":"initial"}}"#
        )
    };
    assert_becomes(
        [
            "request/header",
            &header(r#""messagePrefix":[{"role":"user"}],"#),
        ],
        ["request/header", &header("")],
    );
    assert_stays("request/header", &header(""));
}

#[test]
fn a_delivery_of_this_generation_is_of_this_session_or_inherited() {
    let kind = "session-log-deepseek/delivery-accepted";
    let marker = |session: &str, rest: &str| {
        let data = format!(r#"{{"sessionId":"{session}","throughSeq":0{rest}}}"#);
        event(1, kind, &data)
    };
    let first = event(0, "feedback/record", r#"{"text":"t"}"#);
    let child = r#""parentSession":"p","seedLength":2,"#;
    for (header, session, rest) in [
        ("", "s", ""),
        ("", "s", r#","sessionFormatVersion":0"#),
        ("", "other", r#","sessionFormatVersion":1"#),
        (child, "p", ""),
        (child, "grandparent", r#","sessionFormatVersion":0"#),
    ] {
        let rows = vec![first.clone(), marker(session, rest)];
        assert_eq!(risen(header, &rows), Ok(rows), "{header} {session} {rest}");
    }
    for header in [
        "",
        r#""parentSession":"p","seedLength":1,"#,
        r#""seedLength":2,"#,
    ] {
        let rows = [first.clone(), marker("other", "")];
        let Err(FormatError::Damaged { place, reason }) = risen(header, &rows) else {
            panic!("{header}");
        };
        assert_eq!(
            (place.line, &*reason),
            (
                3,
                "`session-log-deepseek/delivery-accepted`: `sessionId` must be this session, `s`, found `other`"
            )
        );
    }
}
