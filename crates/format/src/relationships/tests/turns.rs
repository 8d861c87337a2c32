//! Turns, steps and the calls in them.

use offshoot_session::Finding;

use super::{CLOSE, OPEN, accepts, refuses};

const ASKED: &str = r#"
    assistant/message {"turn":1,"step":1,"message":{"id":"a","role":"assistant","source":{"kind":"model","provider":"p","model":"m"},"content":[{"type":"tool-call","id":"c1","name":"ls","arguments":"{}"},{"type":"text","text":"and"},{"type":"tool-call","id":"c2","name":"stat","arguments":"{\"a\":1}"}]},"stream":[]}
"#;
const STARTED: &str = r#"tool/call {"turn":1,"step":1,"callId":"c1","name":"ls","arguments":"{}"}"#;
const ANSWER: &str = r#"tool/result {"turn":1,"step":1,"message":{"id":"r","role":"tool","toolCallId":"c1","source":{"kind":"tool","callId":"c1"},"content":[]}}"#;
const REPAIR: &str = r#"tool/result {"turn":1,"step":1,"message":{"id":"interrupted-tool-result-c1-6","role":"tool","toolCallId":"c1","isError":true,"source":{"kind":"tool","callId":"c1"},"content":[{"type":"text","text":"The tool call was interrupted before the Harness recorded it as started. Retry it if it is still needed."}]},"error":{"name":"ToolNotStartedError","code":"TOOL_NOT_STARTED"}}"#;

#[test]
fn turns_and_steps_nest_and_count_from_one() {
    accepts(&[
        OPEN,
        CLOSE,
        r#"
        turn/start {"turn":2}
        step/start {"turn":2,"step":1}
        step/end {"turn":2,"step":1}
        step/start {"turn":2,"step":2}
        step/end {"turn":2,"step":2}
        turn/end {"turn":2,"reason":{"kind":"whatever"}}
        turn/start {"turn":3}
        turn/end {"turn":3,"reason":{"kind":"blocked"}}"#,
    ]);
    for (rows, reason) in [
        (
            r#"turn/start {"turn":0}"#,
            "0: expected turn 1 to start, found turn 0",
        ),
        (
            r#"turn/start {"turn":2}"#,
            "0: expected turn 1 to start, found turn 2",
        ),
        (
            r#"turn/end {"turn":1,"reason":{"kind":"completed"}}"#,
            "0: names turn 1, but no turn is open",
        ),
        (
            r#"step/start {"turn":1,"step":1}"#,
            "0: names turn 1, but no turn is open",
        ),
    ] {
        refuses(&[rows], reason);
    }
    for (rows, reason) in [
        (
            r#"turn/start {"turn":1}"#,
            "7: expected turn 2 to start, found turn 1",
        ),
        (
            r#"turn/start {"turn":3}"#,
            "7: expected turn 2 to start, found turn 3",
        ),
    ] {
        refuses(&[OPEN, CLOSE, rows], reason);
    }
    for (rows, reason) in [
        (
            r#"turn/start {"turn":2}"#,
            "5: turn 2 starts although turn 1 is open",
        ),
        (
            r#"turn/end {"turn":1,"reason":{"kind":"completed"}}"#,
            "5: turn 1 ends although its step 1 is open",
        ),
        (
            r#"turn/end {"turn":2,"reason":{"kind":"completed"}}"#,
            "5: names turn 2, but turn 1 is open",
        ),
        (
            r#"step/start {"turn":1,"step":2}"#,
            "5: step 2 starts although step 1 is open",
        ),
        (
            r#"step/end {"turn":1,"step":2}"#,
            "5: names step 2 of turn 1, but step 1 is open",
        ),
        (
            r#"step/end {"turn":2,"step":1}"#,
            "5: names turn 2, but turn 1 is open",
        ),
    ] {
        refuses(&[OPEN, rows], reason);
    }
    for (rows, reason) in [
        (
            r#"step/start {"turn":1,"step":1}"#,
            "6: expected step 2 of turn 1 to start, found step 1",
        ),
        (
            r#"step/start {"turn":1,"step":3}"#,
            "6: expected step 2 of turn 1 to start, found step 3",
        ),
        (
            r#"step/start {"turn":2,"step":2}"#,
            "6: names turn 2, but turn 1 is open",
        ),
        (
            r#"step/end {"turn":1,"step":1}"#,
            "6: names step 1 of turn 1, but no step is open",
        ),
    ] {
        refuses(
            &[OPEN, r#"step/end {"turn":1,"step":1}"#, "\n", rows],
            reason,
        );
    }
}

#[test]
fn what_belongs_to_a_step_names_the_open_one() {
    for row in [
        r#"system/message {"turn":T,"step":S,"message":{"id":"s2","role":"system","source":{"kind":"system-prompt"},"content":[]}}"#,
        r#"developer/message {"turn":T,"step":S,"message":{"id":"d","role":"developer","source":{"kind":"x"},"content":[]}}"#,
        r#"assistant/message {"turn":T,"step":S,"message":{"id":"a","role":"assistant","source":{"kind":"model","provider":"p","model":"m"},"content":[]},"stream":[]}"#,
        r#"assistant/attempt {"turn":T,"step":S,"stream":[]}"#,
        r#"tool/call {"turn":T,"step":S,"callId":"c1","name":"ls","arguments":"{}"}"#,
        r#"tool/result {"turn":T,"step":S,"message":{"id":"r","role":"tool","toolCallId":"c1","source":{"kind":"tool","callId":"c1"},"content":[]}}"#,
    ] {
        let at = |turn: &str, step: &str| row.replace('T', turn).replace('S', step);
        if !row.starts_with("tool/") {
            accepts(&[OPEN, &at("1", "1")]);
        }
        refuses(
            &[OPEN, &at("1", "2")],
            "5: names step 2 of turn 1, but step 1 is open",
        );
        refuses(
            &[OPEN, &at("2", "1")],
            "5: names turn 2, but turn 1 is open",
        );
        refuses(
            &[OPEN, r#"step/end {"turn":1,"step":1}"#, "\n", &at("1", "1")],
            "6: names step 1 of turn 1, but no step is open",
        );
        refuses(
            &[OPEN, CLOSE, &at("1", "1")],
            "7: names turn 1, but no turn is open",
        );
    }
}

#[test]
fn what_belongs_to_a_turn_stands_in_one() {
    for row in [
        r#"request/header {"header":{"config":{"provider":"p","model":"m"}},"reason":"change"}"#,
        r#"request/context {"provider":"p","model":"m"}"#,
        r#"tool/ptc-dispatch-start {"rootCallId":"c","parentCallId":"c","subCallId":"d","name":"ls"}"#,
    ] {
        accepts(&[OPEN, row]);
        accepts(&[OPEN, r#"step/end {"turn":1,"step":1}"#, "\n", row]);
        refuses(&[OPEN, CLOSE, row], "7: stands outside of any turn");
    }
    accepts(&[
        OPEN,
        CLOSE,
        r#"user/message {"id":"u2","role":"user","source":{"kind":"user"},"content":[]}"#,
    ]);
}

#[test]
fn a_call_is_asked_for_started_and_answered_once() {
    accepts(&[OPEN, ASKED, STARTED, "\n", ANSWER]);
    refuses(
        &[OPEN, STARTED],
        "5: starts the call `c1`, which no message of the open step asks for or which has its result",
    );
    refuses(
        &[OPEN, ANSWER],
        "5: answers the call `c1`, which no message of the open step asks for or which has its result",
    );
    refuses(
        &[OPEN, ASKED, STARTED, "\n", STARTED],
        "7: starts the call `c1`, which event 6 started",
    );
    refuses(
        &[OPEN, ASKED, STARTED, "\n", ANSWER, "\n", ANSWER],
        "8: answers the call `c1`, which no message of the open step asks for or which has its result",
    );
    refuses(
        &[OPEN, ASKED, STARTED, "\n", ANSWER, "\n", STARTED],
        "8: starts the call `c1`, which no message of the open step asks for or which has its result",
    );
    refuses(
        &[OPEN, ASKED, &STARTED.replace("ls", "cat")],
        "6: starts the call `c1` with the tool `cat`, but event 5 asks for `ls`",
    );
    refuses(
        &[OPEN, ASKED, &STARTED.replace("{}", "{ }")],
        "6: starts the call `c1` with other arguments than event 5 asks for",
    );
    refuses(
        &[OPEN, ASKED, &STARTED.replace("c1", "c2")],
        "6: starts the call `c2` with the tool `ls`, but event 5 asks for `stat`",
    );
}

#[test]
fn a_call_id_may_be_used_again_once_its_call_is_answered() {
    accepts(&[
        OPEN,
        ASKED,
        STARTED,
        "\n",
        ANSWER,
        &ASKED.replace("c2", "c3").replace("stat", "ls"),
    ]);
    accepts(&[
        OPEN,
        ASKED,
        r#"step/end {"turn":1,"step":1}
        step/start {"turn":1,"step":2}"#,
        &ASKED.replace(r#""step":1"#, r#""step":2"#),
    ]);
    refuses(
        &[OPEN, ASKED, ASKED],
        "6: asks for the call `c1`, which event 5 asked for and which has no result yet",
    );
    refuses(
        &[OPEN, &ASKED.replace("c2", "c1")],
        "5: asks for the call `c1`, which event 5 asked for and which has no result yet",
    );
}

#[test]
fn a_step_that_leaves_calls_unanswered_is_a_finding_and_no_error() {
    let log = accepts(&[
        OPEN,
        ASKED,
        STARTED,
        "\n",
        ANSWER,
        CLOSE,
        r#"turn/start {"turn":2}"#,
    ]);
    assert!(
        matches!(log.findings().next(), Some(Finding::UnansweredCalls { seq, .. }) if seq.get() == 8)
    );
    refuses(
        &[
            OPEN,
            ASKED,
            STARTED,
            r#"
        step/end {"turn":1,"step":1}
        step/start {"turn":1,"step":2}"#,
            "\n",
            &ANSWER.replace(r#""step":1"#, r#""step":2"#),
        ],
        "9: answers the call `c1`, which no message of the open step asks for or which has its result",
    );
}

#[test]
fn a_started_call_takes_any_result() {
    accepts(&[OPEN, ASKED, STARTED, "\n", REPAIR]);
    accepts(&[
        OPEN,
        ASKED,
        STARTED,
        "\n",
        &REPAIR
            .replace("TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN")
            .replace("interrupted-tool-result-c1-6", "anything"),
    ]);
}

#[test]
fn a_call_that_was_never_started_takes_only_the_exact_repair() {
    accepts(&[OPEN, ASKED, REPAIR]);
    // Migrations move events; the id keeps the seq that the result was written with.
    accepts(&[OPEN, ASKED, &REPAIR.replace("c1-6", "c1-0")]);
    let never = "6: answers the call `c1`, which was never started: ";
    refuses(
        &[OPEN, ASKED, ANSWER],
        &format!("{never}its error code is not TOOL_NOT_STARTED"),
    );
    let id = |found: &str| {
        format!(
            "its id must be `interrupted-tool-result-c1-` or `forked-tool-result-c1-` and a number, found `{found}`"
        )
    };
    for (from, to, reason) in [
        (
            "TOOL_NOT_STARTED",
            "TOOL_OUTCOME_UNKNOWN",
            "its error code is not TOOL_NOT_STARTED".to_owned(),
        ),
        (
            "ToolNotStartedError",
            "ToolError",
            "its error name must be ToolNotStartedError, found `ToolError`".to_owned(),
        ),
        ("interrupted-tool-result-c1-6", "r", id("r")),
        (
            "interrupted-tool-result-c1-6",
            "interrupted-tool-result-c1-06",
            id("interrupted-tool-result-c1-06"),
        ),
        (
            "interrupted-tool-result-c1-6",
            "interrupted-tool-result-c2-6",
            id("interrupted-tool-result-c2-6"),
        ),
        (
            "Retry it",
            "Repeat it",
            "its content must be exactly the text of a repair".to_owned(),
        ),
        (
            r#"needed."}]"#,
            r#"needed."},{"type":"text","text":""}]"#,
            "its content must be exactly the text of a repair".to_owned(),
        ),
        (
            r#"{"type":"text""#,
            r#"{"type":"reasoning""#,
            "its content must be exactly the text of a repair".to_owned(),
        ),
    ] {
        refuses(
            &[OPEN, ASKED, &REPAIR.replace(from, to)],
            &format!("{never}{reason}"),
        );
    }
    let cites = format!(r#"{REPAIR} | "surfaceOp":"append","sourceEventSeqs":[5]"#);
    refuses(
        &[OPEN, ASKED, &cites],
        &format!("{never}it must not have `sourceEventSeqs`"),
    );
}

#[test]
fn a_forks_result_closes_a_call_that_was_never_started() {
    let forked = REPAIR
        .replace("interrupted", "forked")
        .replace("Retry it if it is still needed.", "Own words.");
    accepts(&[OPEN, ASKED, &forked]);
    refuses(
        &[OPEN, ASKED, &forked.replace("c1-6", "c1-5")],
        "row 6: not a valid not-started result of a fork: its id ends with 5, but it is event 6",
    );
    let pruned = forked.replace("Own words.", "[pruned]")
        + r#" | "surfaceOp":{"op":"replace","startSeq":6,"endSeq":6},"sourceEventSeqs":[6]"#;
    accepts(&[OPEN, ASKED, &forked, "\n", &pruned]);
}

#[test]
fn a_rewritten_result_needs_an_open_turn_and_no_open_step() {
    let rewritten = ANSWER.replace(
        r#""content":[]"#,
        r#""content":[{"type":"text","text":"cut"}]"#,
    ) + r#" | "surfaceOp":{"op":"replace","startSeq":7,"endSeq":7},"sourceEventSeqs":[7]"#;
    let answered = [OPEN, ASKED, STARTED, "\n", ANSWER].concat();
    accepts(&[&answered, "\n", &rewritten]);
    accepts(&[
        &answered,
        "\n",
        r#"step/end {"turn":1,"step":1}"#,
        "\n",
        &rewritten,
    ]);
    refuses(
        &[&answered, CLOSE, &rewritten],
        "10: stands outside of any turn",
    );
}
