//! Dispatches, retries, titles and commands.

use super::{CLOSE, OPEN, accepts, refuses};

const DISPATCH: &str = r#"{"rootCallId":"c","parentCallId":"c","subCallId":"d","name":"ls","arguments":{"a":1,"b":[true,null]}}"#;

fn start(data: &str) -> String {
    format!("\ntool/ptc-dispatch-start {data}\n")
}

fn settle(data: &str) -> String {
    format!("\ntool/ptc-dispatch {data}\n")
}

#[test]
fn a_dispatch_belongs_to_a_root_and_is_settled_once() {
    let nested = DISPATCH.replace(
        r#""parentCallId":"c","subCallId":"d""#,
        r#""parentCallId":"d","subCallId":"e""#,
    );
    accepts(&[
        OPEN,
        &start(DISPATCH),
        &start(&nested),
        &settle(&nested),
        &settle(DISPATCH),
    ]);
    accepts(&[OPEN, &start(DISPATCH), &settle(DISPATCH), &start(&nested)]);
    refuses(
        &[OPEN, &settle(DISPATCH)],
        "5: settles the dispatch `d`, which was not started",
    );
    refuses(
        &[OPEN, &start(DISPATCH), &start(DISPATCH)],
        "6: event 5 started a dispatch `d` already",
    );
    refuses(
        &[OPEN, &start(DISPATCH), &settle(DISPATCH), &settle(DISPATCH)],
        "7: settles the dispatch `d`, which event 6 settled",
    );
    refuses(
        &[OPEN, &start(&nested)],
        "5: the parent of dispatch `e`, `d`, is neither its root `c` nor a dispatch",
    );
    let elsewhere = nested.replace(r#""rootCallId":"c""#, r#""rootCallId":"x""#);
    refuses(
        &[OPEN, &start(DISPATCH), &start(&elsewhere)],
        "6: dispatch `e` has the root `x`, but its parent `d` has `c`",
    );
}

#[test]
fn a_dispatch_is_settled_as_it_was_started() {
    for (from, to, reason) in [
        (
            r#""rootCallId":"c""#,
            r#""rootCallId":"x""#,
            "with the rootCallId `c`, found `x`",
        ),
        (
            r#""parentCallId":"c""#,
            r#""parentCallId":"x""#,
            "with the parentCallId `c`, found `x`",
        ),
        (
            r#""name":"ls""#,
            r#""name":"cat""#,
            "with the name `ls`, found `cat`",
        ),
        (r#""a":1"#, r#""a":2"#, "with other arguments"),
        (r#""a":1,"#, "", "with other arguments"),
        ("true,null", "null,true", "with other arguments"),
        (
            r#""arguments":{"a":1,"b":[true,null]}"#,
            r#""arguments":[]"#,
            "with other arguments",
        ),
    ] {
        refuses(
            &[OPEN, &start(DISPATCH), &settle(&DISPATCH.replace(from, to))],
            &format!("6: dispatch `d` was started by event 5 {reason}"),
        );
    }
    let reordered = DISPATCH.replace(
        r#"{"a":1,"b":[true,null]}"#,
        r#"{ "b":[true,null], "a":1.0 }"#,
    );
    accepts(&[OPEN, &start(DISPATCH), &settle(&reordered)]);
}

#[test]
fn deeply_nested_arguments_are_compared_without_giving_up() {
    let nested = |depth: usize| {
        let arguments = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        DISPATCH.replace(r#"{"a":1,"b":[true,null]}"#, &arguments)
    };
    accepts(&[OPEN, &start(&nested(100_000)), &settle(&nested(100_000))]);
    refuses(
        &[OPEN, &start(&nested(100)), &settle(&nested(100_000))],
        "6: dispatch `d` was started by event 5 with other arguments",
    );
    accepts(&[OPEN, &start(&nested(100_000)), &settle(&nested(99_999))]);
}

const RETRY: &str =
    r#"llm/retry {"retryId":"r","turn":1,"step":1,"provider":"p","policyKey":"k","retry":1}"#;
const RETRIED: &str = r#"llm/retry-started {"retryId":"r","turn":1,"step":1,"retry":1}"#;

#[test]
fn retries_count_from_one_under_one_id() {
    let second = RETRY.replace(r#""retry":1"#, r#""retry":2"#);
    let other = RETRY.replace(r#""policyKey":"k""#, r#""policyKey":"other""#);
    accepts(&[
        OPEN,
        RETRY,
        "\n",
        RETRIED,
        "\n",
        &second,
        "\n",
        &other.replace(r#""r""#, r#""r2""#),
    ]);
    accepts(&[OPEN, RETRY, "\n", &second, "\n", RETRIED]);
    refuses(&[OPEN, &second], "5: expected retry 1 of `r`, found 2");
    refuses(
        &[OPEN, RETRY, "\n", RETRY],
        "6: expected retry 2 of `r`, found 1",
    );
    refuses(
        &[
            OPEN,
            RETRY,
            "\n",
            &second.replace(r#""retry":2"#, r#""retry":3"#),
        ],
        "6: expected retry 2 of `r`, found 3",
    );
    refuses(
        &[OPEN, RETRY, "\n", &second.replace(r#""r""#, r#""r2""#)],
        "6: expected the retry id `r` of its sequence, found `r2`",
    );
    refuses(
        &[OPEN, RETRY, "\n", &other],
        "6: the retry id `r` belongs to another sequence, of turn 1 step 1",
    );
    let next_turn = RETRY.replace(r#""turn":1"#, r#""turn":2"#);
    let later =
        format!("{CLOSE}\nturn/start {{\"turn\":2}}\nstep/start {{\"turn\":2,\"step\":1}}\n");
    refuses(
        &[OPEN, RETRY, &later, &next_turn],
        "10: the retry id `r` belongs to another sequence, of turn 1 step 1",
    );
    accepts(&[OPEN, RETRY, &later, &next_turn.replace(r#""r""#, r#""r2""#)]);
}

#[test]
fn a_retry_names_the_step_that_failed_and_the_provider_of_the_last_header() {
    let ended = r#"step/end {"turn":1,"step":1}"#;
    accepts(&[OPEN, ended, "\n", RETRY]);
    let at = |turn: u64, step: u64| {
        RETRY.replace(
            r#""turn":1,"step":1"#,
            &format!(r#""turn":{turn},"step":{step}"#),
        )
    };
    refuses(&[OPEN, &at(2, 1)], "5: names turn 2, but turn 1 is open");
    refuses(
        &[OPEN, CLOSE, RETRY],
        "7: names turn 1, but no turn is open",
    );
    refuses(
        &[OPEN, &at(1, 2)],
        "5: names step 2 of turn 1; the open step is 1, the last ended one none",
    );
    refuses(
        &[OPEN, &at(1, 0)],
        "5: names step 0 of turn 1; the open step is 1, the last ended one none",
    );
    refuses(
        &[OPEN, ended, "\n", &at(1, 2)],
        "6: names step 2 of turn 1; the open step is none, the last ended one 1",
    );
    refuses(
        &[OPEN, &RETRY.replace(r#""p""#, r#""q""#)],
        "5: retries at the provider `q`, but the last request/header names `p`",
    );
    let header =
        r#"request/header {"header":{"config":{"provider":"q","model":"m"}},"reason":"change"}"#;
    refuses(
        &[OPEN, header, "\n", RETRY],
        "6: retries at the provider `p`, but the last request/header names `q`",
    );
    refuses(
        &[
            "turn/start {\"turn\":1}\nstep/start {\"turn\":1,\"step\":1}\n",
            RETRY,
        ],
        "2: retries at the provider `p`, but the last request/header names none",
    );
}

#[test]
fn a_retry_starts_once_where_it_was_scheduled() {
    let with = |from: &str, to: &str| RETRIED.replace(from, to);
    refuses(
        &[OPEN, RETRIED],
        "5: starts retry 1 of `r`, which was not scheduled",
    );
    refuses(
        &[OPEN, RETRY, "\n", &with(r#""retry":1"#, r#""retry":2"#)],
        "6: starts retry 2 of `r`, which was not scheduled",
    );
    refuses(
        &[OPEN, RETRY, "\n", &with(r#""retry":1"#, r#""retry":0"#)],
        "6: starts retry 0 of `r`, which was not scheduled",
    );
    refuses(
        &[OPEN, RETRY, "\n", &with(r#""r""#, r#""x""#)],
        "6: starts retry 1 of `x`, which was not scheduled",
    );
    refuses(
        &[OPEN, RETRY, "\n", &with(r#""step":1"#, r#""step":2"#)],
        "6: starts retry 1 of `r` in turn 1 step 2, but it was scheduled in turn 1 step 1",
    );
    refuses(
        &[OPEN, RETRY, "\n", RETRIED, "\n", RETRIED],
        "7: starts retry 1 of `r` a second time",
    );
    refuses(
        &[
            OPEN,
            r#"llm/retry {"retryId":"r","turn":1,"step":1,"provider":"p","retry":1}"#,
        ],
        "5: `llm/retry`: missing field `policyKey` (byte 58)",
    );
}

#[test]
fn titles_come_from_what_a_person_wrote() {
    let title = |seqs: &str, kind: &str| {
        format!(
            r#"session/title {{"title":"t","messageSeqs":{seqs},"source":{{"kind":"{kind}"}}}}"#
        )
    };
    let machine =
        r#"user/message {"id":"w","role":"user","source":{"kind":"webhook"},"content":[]}"#;
    accepts(&[OPEN, &title("[3]", "fallback")]);
    accepts(&[OPEN, &title("[]", "user")]);
    accepts(&[OPEN, &title("[3]", "provider")]);
    for (row, reason) in [
        (
            title("[]", "fallback"),
            "6: a title from `fallback` needs `messageSeqs`",
        ),
        (
            title("[3]", "user"),
            "6: a title that a person wrote has no `messageSeqs`, found 1",
        ),
        (
            title("[3,3]", "fallback"),
            "6: `messageSeqs` names event 3 twice",
        ),
        (
            title("[9]", "fallback"),
            "6: `messageSeqs` names event 9, which is not earlier",
        ),
        (
            title("[6]", "fallback"),
            "6: `messageSeqs` names event 6, which is not earlier",
        ),
        (
            title("[2]", "fallback"),
            "6: `messageSeqs` names event 2, which is `system/message` and no user/message",
        ),
        (
            title("[3,5]", "fallback"),
            "6: `messageSeqs` names event 5, a message from `webhook` and not from a person",
        ),
    ] {
        refuses(&[OPEN, machine, "\n", &row], reason);
    }
}

#[test]
fn a_title_is_asked_for_with_one_message_of_one_text() {
    const REQUEST: &str = r#"session/title-llm-request {"titleProvider":"x","messageSeqs":[3],"messages":[{"id":"t","role":"user","source":{"kind":"dsh-session-title-llm"},"content":[{"type":"text","text":"t"}]}]}"#;
    accepts(&[OPEN, REQUEST]);
    let one = r#"{"id":"t","role":"user","source":{"kind":"dsh-session-title-llm"},"content":[{"type":"text","text":"t"}]}"#;
    for (from, to, reason) in [
        ("[3]", "[]", "`messageSeqs` must not be empty"),
        (
            "[3]",
            "[2]",
            "`messageSeqs` names event 2, which is `system/message` and no user/message",
        ),
        (one, "", "`messages` must be exactly one, found 0"),
        (
            one,
            &format!("{one},{one}"),
            "`messages` must be exactly one, found 2",
        ),
        (
            r#""role":"user""#,
            r#""role":"system""#,
            "expected a user message of kind `dsh-session-title-llm`, found role `system` and kind `dsh-session-title-llm`",
        ),
        (
            "dsh-session-title-llm",
            "user",
            "expected a user message of kind `dsh-session-title-llm`, found role `user` and kind `user`",
        ),
        (
            r#"[{"type":"text","text":"t"}]"#,
            "[]",
            "the message must be exactly one text block",
        ),
        (
            r#"{"type":"text","#,
            r#"{"type":"image","#,
            "the message must be exactly one text block",
        ),
    ] {
        refuses(&[OPEN, &REQUEST.replace(from, to)], &format!("5: {reason}"));
    }
}

#[test]
fn a_command_ends_after_it_was_run() {
    const RUN: &str = r#"command/run {"commandId":"k","name":"n","source":{"kind":"user"}}"#;
    let done = |members: &str| format!(r#"command/done {{"commandId":"k",{members}}}"#);
    accepts(&[
        OPEN,
        RUN,
        "\n",
        &done(r#""kind":"success","sourceEventSeq":3"#),
    ]);
    accepts(&[RUN, "\n", &done(r#""kind":"error","text":"no""#)]);
    refuses(
        &[&done(r#""kind":"success""#)],
        "0: the command `k` was not run",
    );
    refuses(&[RUN, "\n", RUN], "1: the command id `k` was used before");
    for (members, reason) in [
        (
            r#""kind":"error","sourceEventSeq":3"#,
            "`sourceEventSeq` stands on a command that was no success",
        ),
        (
            r#""kind":"success","sourceEventSeq":6"#,
            "`sourceEventSeq` names event 6, which is not earlier",
        ),
        (
            r#""kind":"success","sourceEventSeq":5"#,
            "`sourceEventSeq` names event 5, which is a command event itself",
        ),
    ] {
        refuses(&[OPEN, RUN, "\n", &done(members)], &format!("6: {reason}"));
    }
}
