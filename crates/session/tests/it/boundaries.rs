//! The cut that is taken when nobody names one: two rules, each with its owner (§6.4, §6.5).

use offshoot_session::{
    EventLog, ForkError, ForkSource, Session, SessionStore, latest_completed_boundary,
};
use serde_json::json;

use crate::support::{Script, at, header, seq, two_calls, user};

/// What the log remembers, after checking that a scan says the same.
fn boundary(log: &EventLog) -> Option<u64> {
    let scanned = latest_completed_boundary(log.events().map(|event| &**event));
    assert_eq!(log.latest_completed_boundary(), scanned);
    scanned.map(|seq| seq.get())
}

/// One completed turn, events 0 and 1.
fn completed() -> Script {
    let mut script = Script::new();
    script.turn(1);
    script.end_turn(1, "completed");
    script
}

fn queued(script: &mut Script) {
    script.log(
        "agent/inbox/spliced",
        &json!({"target": "next-turn", "start": 0, "inserted": [user("q", "later")]}),
    );
}

#[test]
fn a_store_forks_at_the_last_event_and_everybody_else_at_the_last_completed_turn() {
    let mut script = completed();
    script.log(
        "session/title",
        &json!({"title": "t", "messageSeqs": [], "source": {"kind": "user"}}),
    );
    script.turn(2);
    script.step(2, 1);
    assert_eq!(
        boundary(&script.log),
        Some(2),
        "the turn's end and its independent tail"
    );

    let store = SessionStore::new();
    let parent = Session::restored(header("parent"), script.log, at(0), 50).unwrap();
    let parent = store.enter(store.adopt(parent).unwrap()).unwrap();
    let last = parent.log().end().last();
    let child = store
        .fork(ForkSource::Live(&parent), None, "child".into(), 60)
        .unwrap();
    assert_eq!(last, Some(seq(5)));
    assert_eq!(child.lock().inherited_event_count(), at(6));
    assert_eq!(boundary(&parent.log()), Some(2));
}

/// A message about being a side session.
fn says(script: &mut Script, act: &str) {
    script.append(
        "user/message",
        &json!({
            "id": "m", "role": "user", "content": [{"type": "text", "text": "t"}],
            "source": {"kind": "sidechat", "act": act}
        }),
    );
}

#[test]
fn what_a_session_is_told_of_being_a_side_session_belongs_to_the_independent_tail() {
    let marked = |act: &str| {
        let mut script = completed();
        says(&mut script, act);
        script.log(
            "session/title",
            &json!({"title": "t", "messageSeqs": [], "source": {"kind": "user"}}),
        );
        boundary(&script.log)
    };
    assert_eq!(marked("framing"), Some(3));
    assert_eq!(marked("promote"), Some(3));
    assert_eq!(marked("handback"), Some(1), "it is input of a turn");
}

#[test]
fn and_is_never_left_out_whatever_waits_ahead_of_it() {
    for act in ["framing", "promote"] {
        let mut script = completed();
        queued(&mut script);
        assert_eq!(boundary(&script.log), Some(1));
        says(&mut script, act);
        assert_eq!(boundary(&script.log), Some(3), "{act}");
        queued(&mut script);
        assert_eq!(boundary(&script.log), Some(3), "{act}");
        // Within a turn it is the turn's.
        script.turn(2);
        script.step(2, 1);
        says(&mut script, act);
        assert_eq!(boundary(&script.log), Some(3), "{act}");
    }
    let mut script = Script::new();
    says(&mut script, "framing");
    assert_eq!(boundary(&script.log), None, "no turn has ended");
}

#[test]
fn the_independent_tail_goes_on_over_facts_that_belong_to_no_turn() {
    let mut script = completed();
    script.log("feedback/record", &json!({"text": "good"}));
    script
        .attempt(
            "plugin:fact",
            &json!(1),
            r#","surfaceOp":"append","ignorable":true"#,
        )
        .unwrap();
    script.log("session/end-seed", &json!({}));
    assert_eq!(boundary(&script.log), Some(4));
}

#[test]
fn the_tail_stops_at_the_start_of_a_turn() {
    let mut script = completed();
    script.turn(2);
    script.log("feedback/record", &json!({"text": "good"}));
    assert_eq!(boundary(&script.log), Some(1));
}

#[test]
fn the_tail_stops_at_an_appended_user_message() {
    let mut script = completed();
    script.user("next");
    script.log("feedback/record", &json!({"text": "good"}));
    assert_eq!(boundary(&script.log), Some(1));
}

#[test]
fn the_tail_stops_at_queued_input() {
    let mut script = completed();
    script.log("feedback/record", &json!({"text": "good"}));
    queued(&mut script);
    script.log("feedback/record", &json!({"text": "better"}));
    assert_eq!(boundary(&script.log), Some(2));
}

#[test]
fn a_user_message_in_the_place_of_older_ones_does_not_stop_the_tail() {
    let mut script = Script::new();
    let first = script.user("first");
    script.turn(1);
    script.end_turn(1, "completed");
    script.compact(first, first);
    script.log(
        "compaction/end",
        &json!({"compactionId": "k", "turn": null}),
    );
    assert_eq!(boundary(&script.log), Some(4));
}

#[test]
fn any_reason_completes_a_turn_and_the_last_one_counts() {
    for reason in [
        "completed",
        "blocked",
        "max-tokens",
        "interrupted",
        "forked",
        "aborted",
        "own",
    ] {
        let mut script = completed();
        queued(&mut script);
        script.turn(2);
        script.end_turn(2, reason);
        assert_eq!(boundary(&script.log), Some(4), "{reason}");
    }
}

#[test]
fn without_a_turn_that_ended_there_is_no_such_cut() {
    assert_eq!(boundary(&EventLog::new()), None);
    assert_eq!(boundary(&two_calls(15)), None);
    let mut script = Script::new();
    script.log("feedback/record", &json!({"text": "good"}));
    assert_eq!(boundary(&script.log), None);
    let error = ForkError::ForkUnavailable("s".into());
    assert_eq!(
        (error.code(), error.to_string()),
        (
            "FORK_UNAVAILABLE",
            "no turn of session `s` has ended, so there is no cut to fork at by default".to_owned()
        )
    );
}
