//! What closes an open turn, for both causes (§6.1, example §11.5).

use offshoot_session::{
    CloseCause, Event, EventLog, LogOffset, OpenTail, TOOL_NOT_STARTED, TOOL_OUTCOME_UNKNOWN,
    open_turn_closers,
};
use serde_json::json;

use crate::support::{Script, replay, result, rows, texts, two_calls};

/// On the wire: readers of every version compare this one for equality.
const NOT_STARTED: &str = "The tool call was interrupted before the Harness recorded it as started. Retry it if it is still needed.";
const UNKNOWN: &str = "This tool call was started, but it was interrupted before a result was recorded, so its outcome is unknown: it may have run fully, partly or not at all. Repeat it only if it reads without changing anything or can safely run twice. Otherwise check the current state first, or ask the user.";
const FORKED_UNKNOWN: &str = "This conversation was branched off while the tool call was running. The inherited history shows that the call was started, but not how it ended: the original conversation may have completed it after the branch point. Repeat it only if it reads without changing anything or can safely run twice. Otherwise check the current state first, or ask the user.";
const FORKED_NOT_STARTED: &str = "This conversation was branched off before the tool call was recorded as started. It did not run in this branch, but the original conversation may have run it after the branch point. Repeat it only if it reads without changing anything or can safely run twice. Otherwise check the current state first, or ask the user.";

const BOTH: [CloseCause; 2] = [CloseCause::Interrupted, CloseCause::Forked];

fn unknown(cause: &str, call: &str, seq: u64, time: i64, source: u64, text: &str) -> String {
    format!(
        r#"{{"type":"tool/result","seq":{seq},"time":{time},"data":{{"turn":1,"step":1,"message":{{"id":"{cause}-tool-result-{call}-{seq}","role":"tool","toolCallId":"{call}","isError":true,"source":{{"kind":"tool","callId":"{call}"}},"content":[{{"type":"text","text":"{text}"}}]}},"error":{{"name":"ToolOutcomeUnknownError","code":"TOOL_OUTCOME_UNKNOWN"}}}},"surfaceOp":"append","sourceEventSeqs":[{source}]}}"#
    )
}

fn not_started(cause: &str, call: &str, seq: u64, time: i64, text: &str) -> String {
    format!(
        r#"{{"type":"tool/result","seq":{seq},"time":{time},"data":{{"turn":1,"step":1,"message":{{"id":"{cause}-tool-result-{call}-{seq}","role":"tool","toolCallId":"{call}","isError":true,"source":{{"kind":"tool","callId":"{call}"}},"content":[{{"type":"text","text":"{text}"}}]}},"error":{{"name":"ToolNotStartedError","code":"TOOL_NOT_STARTED"}}}},"surfaceOp":"append"}}"#
    )
}

fn step_end(seq: u64, time: i64) -> String {
    format!(r#"{{"type":"step/end","seq":{seq},"time":{time},"data":{{"turn":1,"step":1}}}}"#)
}

fn turn_end(cause: &str, seq: u64, time: i64) -> String {
    format!(
        r#"{{"type":"turn/end","seq":{seq},"time":{time},"data":{{"turn":1,"reason":{{"kind":"{cause}"}}}}}}"#
    )
}

/// Closes a log by scanning it, after checking that its remembered state says the same.
fn closers(log: &EventLog, cause: CloseCause) -> Vec<Event> {
    let scanned = open_turn_closers(log.events().map(|event| &**event), cause);
    if let Some(last) = log.last() {
        assert_eq!(
            log.open_tail().closers(log.end(), last.time(), cause),
            scanned
        );
    }
    if cause == CloseCause::Interrupted {
        assert_eq!(log.interrupted_closers(), scanned);
    }
    scanned
}

#[test]
fn a_two_call_step_cut_at_its_first_call_gets_both_results_and_both_ends() {
    assert_eq!(
        texts(&closers(&two_calls(8), CloseCause::Interrupted)),
        [
            unknown("interrupted", "left", 8, 111, 7, UNKNOWN),
            not_started("interrupted", "right", 9, 111, NOT_STARTED),
            step_end(10, 111),
            turn_end("interrupted", 11, 111),
        ]
    );
    assert_eq!(
        texts(&closers(&two_calls(8), CloseCause::Forked)),
        [
            unknown("forked", "left", 8, 111, 7, FORKED_UNKNOWN),
            not_started("forked", "right", 9, 111, FORKED_NOT_STARTED),
            step_end(10, 111),
            turn_end("forked", 11, 111),
        ]
    );
}

#[test]
fn the_text_that_others_compare_is_the_one_of_the_format() {
    assert_eq!(
        NOT_STARTED.len(),
        104,
        "as many characters as the format says"
    );
    let all = [NOT_STARTED, UNKNOWN, FORKED_NOT_STARTED, FORKED_UNKNOWN];
    let distinct: std::collections::BTreeSet<&str> = all.into();
    assert_eq!(
        distinct.len(),
        4,
        "cause and progress each have their own wording"
    );
    assert_eq!(
        (TOOL_NOT_STARTED, TOOL_OUTCOME_UNKNOWN),
        ("TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN")
    );
}

#[test]
fn cut_before_the_first_call_no_call_was_started() {
    assert_eq!(
        texts(&closers(&two_calls(7), CloseCause::Forked)),
        [
            not_started("forked", "left", 7, 110, FORKED_NOT_STARTED),
            not_started("forked", "right", 8, 110, FORKED_NOT_STARTED),
            step_end(9, 110),
            turn_end("forked", 10, 110),
        ]
    );
}

#[test]
fn a_call_with_a_result_gets_no_second_one() {
    assert_eq!(
        texts(&closers(&two_calls(10), CloseCause::Interrupted)),
        [
            unknown("interrupted", "right", 10, 120, 8, UNKNOWN),
            step_end(11, 120),
            turn_end("interrupted", 12, 120),
        ]
    );
    assert_eq!(
        texts(&closers(&two_calls(11), CloseCause::Interrupted)),
        [step_end(11, 121), turn_end("interrupted", 12, 121)]
    );
}

#[test]
fn an_open_step_without_calls_is_ended_with_its_turn() {
    assert_eq!(
        texts(&closers(&two_calls(3), CloseCause::Forked)),
        [step_end(3, 102), turn_end("forked", 4, 102)]
    );
}

#[test]
fn an_open_turn_between_steps_gets_its_end_alone() {
    for (len, time) in [(1, 100), (12, 122)] {
        assert_eq!(
            texts(&closers(&two_calls(len), CloseCause::Interrupted)),
            [turn_end("interrupted", len as u64, time)]
        );
    }
}

#[test]
fn a_log_without_an_open_turn_needs_nothing() {
    for cause in BOTH {
        assert_eq!(closers(&EventLog::new(), cause), []);
        assert_eq!(closers(&two_calls(16), cause), []);
        let mut script = Script::new();
        script.user("between turns");
        assert_eq!(closers(&script.log, cause), []);
    }
}

#[test]
fn calls_of_a_closed_step_and_earlier_turns_stay_as_they_are() {
    let mut script = Script::new();
    script.turn(1);
    script.step(1, 1);
    script.assistant(1, 1, &["lost"]);
    script.end_step(1, 1);
    script.end_turn(1, "error");
    script.turn(2);
    script.step(2, 1);
    script.assistant(2, 1, &["kept"]);
    script.end_step(2, 1);
    let closers = closers(&script.log, CloseCause::Interrupted);
    assert_eq!(
        texts(&closers),
        [
            r#"{"type":"turn/end","seq":9,"time":80,"data":{"turn":2,"reason":{"kind":"interrupted"}}}"#
        ]
    );
}

#[test]
fn a_started_call_that_nobody_asked_for_is_passed_over() {
    let mut script = Script::new();
    script.turn(1);
    script.step(1, 1);
    script.call(1, 1, "orphan");
    assert_eq!(
        texts(&closers(&script.log, CloseCause::Forked)),
        [step_end(3, 20), turn_end("forked", 4, 20)]
    );
}

#[test]
fn a_rewritten_result_answers_no_call_even_if_one_of_the_same_name_is_pending() {
    let mut script = Script::new();
    script.turn(1);
    script.step(1, 1);
    script.assistant(1, 1, &["a"]);
    script.call(1, 1, "a");
    let old = script.result(1, 1, "a");
    script.end_step(1, 1);
    script.step(1, 2);
    script.assistant(1, 2, &["a"]);
    let pruned = result(
        "r-4",
        1,
        1,
        "a",
        &json!([{"type": "text", "text": "cut down"}]),
    );
    script
        .replace("tool/result", &pruned, (old, old), &[old])
        .unwrap();
    let closers = closers(&script.log, CloseCause::Forked);
    let kinds: Vec<&str> = closers.iter().map(|event| event.kind().as_str()).collect();
    assert_eq!(kinds, ["tool/result", "step/end", "turn/end"]);
}

#[test]
fn a_call_asked_for_again_keeps_its_place_and_is_not_started_any_more() {
    let mut script = Script::new();
    script.turn(1);
    script.step(1, 1);
    script.assistant(1, 1, &["a", "b"]);
    script.call(1, 1, "a");
    script.assistant(1, 1, &["a"]);
    assert_eq!(
        texts(&closers(&script.log, CloseCause::Interrupted)),
        [
            not_started("interrupted", "a", 5, 40, NOT_STARTED),
            not_started("interrupted", "b", 6, 40, NOT_STARTED),
            step_end(7, 40),
            turn_end("interrupted", 8, 40),
        ]
    );
}

#[test]
fn a_result_names_the_step_that_asked_and_the_end_the_step_that_is_open() {
    let mut script = Script::new();
    script.turn(1);
    script.step(1, 2);
    script.assistant(1, 2, &["a"]);
    script.step(1, 3);
    let closers = closers(&script.log, CloseCause::Forked);
    assert_eq!(
        texts(&closers),
        [
            not_started("forked", "a", 4, 30, FORKED_NOT_STARTED)
                .replace(r#""step":1"#, r#""step":2"#),
            step_end(5, 30).replace(r#""step":1"#, r#""step":3"#),
            turn_end("forked", 6, 30),
        ]
    );
}

#[test]
fn the_end_or_the_start_of_a_turn_leaves_nothing_of_the_one_before_open() {
    let mut script = Script::new();
    script.turn(1);
    script.step(1, 1);
    script.assistant(1, 1, &["a"]);
    let mut ended = script.clone();
    ended.end_turn(1, "error");
    assert_eq!(*ended.log.open_tail(), OpenTail::default());
    script.turn(2);
    let tail = script.log.open_tail();
    assert_eq!(
        (tail.turn(), tail.step(), tail.pending()),
        (Some(2), None, &[][..])
    );
}

#[test]
fn opaque_and_unrelated_events_change_nothing_but_number_and_time() {
    let mut script = Script::new();
    script.turn(1);
    script.step(1, 1);
    script.log("compaction/start", &json!({"compactionId": "k", "turn": 1}));
    script
        .attempt(
            "plugin:note",
            &json!({"turn": 9}),
            r#","surfaceOp":"append","ignorable":true"#,
        )
        .unwrap();
    assert_eq!(
        texts(&closers(&script.log, CloseCause::Forked)),
        [step_end(4, 30), turn_end("forked", 5, 30)]
    );
}

#[test]
fn the_same_log_always_gets_the_same_bytes() {
    for cause in BOTH {
        for len in 0..=16 {
            let (one, two) = (
                two_calls(len),
                two_calls(16).prefix(LogOffset::new(len as u64)),
            );
            assert_eq!(closers(&one, cause), closers(&two, cause));
        }
    }
}

#[test]
fn a_repair_that_was_torn_itself_comes_to_the_same_end() {
    for len in 1..16 {
        let torn = two_calls(len);
        let whole: Vec<Event> = closers(&torn, CloseCause::Interrupted);
        let mut repaired = torn.clone();
        for (written, closer) in whole.iter().enumerate() {
            let rest = closers(&repaired, CloseCause::Interrupted);
            assert_eq!(
                texts(&rest),
                texts(&whole[written..]),
                "cut at {len}, {written} written"
            );
            repaired
                .push(Event::from_row(closer.text()).unwrap())
                .unwrap();
        }
        assert_eq!(closers(&repaired, CloseCause::Interrupted), []);
        let reread = replay(
            rows(&repaired)
                .iter()
                .map(|row| Event::from_row(&**row).unwrap()),
        );
        assert_eq!(rows(&reread)[..len], rows(&torn)[..]);
    }
}

#[test]
fn any_well_formed_result_answers_its_call() {
    let mut script = Script::new();
    script.turn(1);
    script.step(1, 1);
    script.assistant(1, 1, &["a"]);
    script.call(1, 1, "a");
    let mut failed = result("whatever", 1, 1, "a", &json!([]));
    failed["message"]["isError"] = json!(true);
    failed["error"] = json!({"name": "AbortError", "code": "ABORTED", "reason": "by hand"});
    script.append("tool/result", &failed);
    assert_eq!(script.log.open_tail().pending(), []);
    assert_eq!(
        texts(&closers(&script.log, CloseCause::Interrupted)),
        [step_end(5, 40), turn_end("interrupted", 6, 40)]
    );
}
