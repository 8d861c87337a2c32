//! A log whose closed step has unanswered calls is admitted, named, and not continued (§5.5).

use offshoot_session::{EventLog, Finding, NotContinuable, build_fork_seed};

use crate::support::{Script, seq};

/// Turn 1: a step closed at 6 although `b` has no result.
fn unanswered() -> Script {
    let mut script = Script::new();
    script.user("u");
    script.turn(1);
    script.step(1, 1);
    script.assistant(1, 1, &["a", "b"]);
    script.call(1, 1, "a");
    script.result(1, 1, "a");
    script.end_step(1, 1);
    script.end_turn(1, "error");
    script
}

fn refusal(log: &EventLog) -> NotContinuable {
    log.continuable().unwrap_err()
}

#[test]
fn a_closed_step_with_unanswered_calls_is_admitted_with_a_finding() {
    let script = unanswered();
    let findings: Vec<&Finding> = script.log.findings().collect();
    assert_eq!(
        findings,
        [&Finding::UnansweredCalls {
            seq: seq(6),
            calls: [("b".into(), seq(3))].into()
        }]
    );
    assert_eq!(
        (findings[0].code(), findings[0].seq()),
        ("UNANSWERED_CALLS", seq(6))
    );
}

#[test]
fn going_on_is_refused_with_the_event_and_the_nearest_cut_that_works() {
    let script = unanswered();
    let refused = refusal(&script.log);
    assert_eq!(
        refused,
        NotContinuable {
            seq: seq(6),
            calls: vec!["b".to_owned()],
            nearest_cut: Some(seq(5))
        }
    );
    assert_eq!(
        (refused.code(), refused.to_string()),
        ("NOT_CONTINUABLE", "event 6 closed a step although the tool call `b` had no result; a provider refuses such a conversation".to_owned())
    );
    let child = build_fork_seed(&script.log, seq(5)).unwrap();
    assert_eq!(child.log().continuable(), Ok(()));
    assert_eq!(child.log().findings().count(), 0);
    let no_better = build_fork_seed(&script.log, seq(6)).unwrap();
    assert_eq!(refusal(no_better.log()).nearest_cut, Some(seq(5)));
}

#[test]
fn several_calls_are_all_named() {
    let mut script = Script::new();
    script.turn(1);
    script.step(1, 1);
    script.assistant(1, 1, &["a", "b"]);
    script.end_step(1, 1);
    assert_eq!(
        refusal(&script.log).to_string(),
        "event 3 closed a step although the tool calls `a`, `b` had no result; a provider refuses such a conversation"
    );
}

#[test]
fn a_compaction_that_hides_the_step_makes_the_log_continuable_again() {
    let mut script = unanswered();
    script.compact(seq(0), seq(0));
    assert_eq!(refusal(&script.log).seq, seq(6), "the step is still seen");
    script.compact(seq(3), seq(5));
    assert_eq!(script.log.continuable(), Ok(()));
    assert_eq!(script.log.findings().count(), 1, "history is not rewritten");
}

#[test]
fn the_nearest_cut_does_not_bring_back_an_earlier_step_that_a_compaction_hides_later() {
    let mut script = unanswered();
    script.turn(2);
    script.step(2, 1);
    script.assistant(2, 1, &["c"]);
    script.end_step(2, 1);
    script.compact(seq(3), seq(5));
    let refused = refusal(&script.log);
    assert_eq!((refused.seq, refused.nearest_cut), (seq(11), Some(seq(5))));
    let child = build_fork_seed(&script.log, seq(5)).unwrap();
    assert_eq!(child.log().continuable(), Ok(()));
}

#[test]
fn calls_lost_by_a_turn_that_ended_or_began_over_an_open_step_are_found_too() {
    for begin in [false, true] {
        let mut script = Script::new();
        script.turn(1);
        script.step(1, 1);
        script.assistant(1, 1, &["a"]);
        if begin {
            script.turn(2);
        } else {
            script.end_turn(1, "error");
        }
        let refused = refusal(&script.log);
        assert_eq!((refused.seq, refused.nearest_cut), (seq(3), Some(seq(2))));
        let child = build_fork_seed(&script.log, seq(2)).unwrap();
        assert_eq!(child.log().continuable(), Ok(()));
    }
}

#[test]
fn an_open_step_is_no_finding() {
    let mut script = Script::new();
    script.turn(1);
    script.step(1, 1);
    script.assistant(1, 1, &["a"]);
    assert_eq!(
        (script.log.findings().count(), script.log.continuable()),
        (0, Ok(()))
    );
}
