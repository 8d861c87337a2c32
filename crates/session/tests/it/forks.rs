//! The seed of a fork (§6.3, example §11.6).

use std::sync::Arc;

use offshoot_session::{EventLog, ForkError, Session, build_fork_seed};
use serde_json::json;

use crate::support::{
    Script, TWO_CALLS, at, event, header, replay, rows, rows_from, seeded, seq, two_calls, user,
};

fn fork(log: &EventLog, boundary: u64) -> EventLog {
    build_fork_seed(log, seq(boundary)).unwrap().log().clone()
}

fn marker(seq: u64, time: i64) -> String {
    format!(
        r#"{{"type":"session/end-seed","seq":{seq},"time":{time},"data":{{"inherited":true}}}}"#
    )
}

/// The types of the events behind the inherited prefix, with the error code of results.
fn behind(log: &EventLog, inherited: u64) -> Vec<String> {
    log.events_from(at(inherited))
        .map(|event| match event.body() {
            offshoot_session::Body::ToolResult {
                error: Some(error),
                call_id,
                ..
            } => {
                format!("{} {call_id} {}", event.kind(), error.code)
            }
            _ => event.kind().to_string(),
        })
        .collect()
}

#[test]
fn a_cut_behind_a_completed_turn_adds_the_marker_alone() {
    let child = fork(&two_calls(16), 15);
    let mut expected: Vec<String> = TWO_CALLS.lines().map(str::to_owned).collect();
    expected.push(marker(16, 132));
    assert_eq!(rows(&child), expected);
}

#[test]
fn a_cut_inside_a_step_adds_marker_and_closers_numbered_behind_it() {
    let child = fork(&two_calls(16), 7);
    let ids: Vec<String> = child
        .messages()
        .filter(|message| message.seq >= seq(8))
        .map(|message| {
            let value: serde_json::Value = serde_json::from_str(&message.text).unwrap();
            format!("{} {}", message.seq, value["id"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        ids,
        [
            "9 forked-tool-result-left-9",
            "10 forked-tool-result-right-10"
        ]
    );
    assert_eq!(
        behind(&child, 8),
        [
            "session/end-seed",
            "tool/result left TOOL_OUTCOME_UNKNOWN",
            "tool/result right TOOL_NOT_STARTED",
            "step/end",
            "turn/end"
        ]
    );
    let times: Vec<i64> = child.events_from(at(8)).map(|event| event.time()).collect();
    assert_eq!(times, [111; 5], "all carry the time of the boundary event");
    let last = rows_from(&child, 8);
    assert_eq!(last[0], marker(8, 111));
    assert_eq!(
        last[4],
        r#"{"type":"turn/end","seq":12,"time":111,"data":{"turn":1,"reason":{"kind":"forked"}}}"#
    );
}

#[test]
fn every_event_is_a_legal_cut() {
    let parent = two_calls(16);
    let open_step = ["session/end-seed", "step/end", "turn/end"];
    let open_turn = ["session/end-seed", "turn/end"];
    let asked = [
        "session/end-seed",
        "tool/result left TOOL_NOT_STARTED",
        "tool/result right TOOL_NOT_STARTED",
        "step/end",
        "turn/end",
    ];
    let started = [
        "session/end-seed",
        "tool/result left TOOL_OUTCOME_UNKNOWN",
        "tool/result right TOOL_OUTCOME_UNKNOWN",
        "step/end",
        "turn/end",
    ];
    let half = [
        "session/end-seed",
        "tool/result right TOOL_OUTCOME_UNKNOWN",
        "step/end",
        "turn/end",
    ];
    for (boundary, expected) in [
        (0, &open_turn[..]),
        (1, &open_step[..]),
        (2, &open_step[..]),
        (3, &open_step[..]),
        (4, &open_step[..]),
        (5, &open_step[..]),
        (6, &asked[..]),
        (8, &started[..]),
        (9, &half[..]),
        (10, &open_step[..]),
        (11, &open_turn[..]),
        (12, &open_step[..]),
        (14, &open_turn[..]),
        (15, &["session/end-seed"][..]),
    ] {
        let seed = build_fork_seed(&parent, seq(boundary)).unwrap();
        assert_eq!(seed.inherited_event_count(), at(boundary + 1));
        assert_eq!(
            behind(seed.log(), boundary + 1),
            expected,
            "cut at {boundary}"
        );
        assert_eq!(seed.closers().count(), expected.len());
        assert_eq!(seed.log().open_tail().turn(), None);
        assert_eq!(seed.log().inherited_marker(), Some(seq(boundary + 1)));
    }
    assert_eq!(
        rows(&parent),
        TWO_CALLS.lines().collect::<Vec<_>>(),
        "the parent is as it was"
    );
}

#[test]
fn the_inherited_events_are_shared_and_not_copied() {
    let parent = two_calls(16);
    let child = fork(&parent, 9);
    for n in 0..10 {
        assert!(Arc::ptr_eq(
            parent.get(seq(n)).unwrap(),
            child.get(seq(n)).unwrap()
        ));
    }
}

#[test]
fn a_seed_reads_back_as_the_log_it_is() {
    let parent = two_calls(16);
    for boundary in 0..16 {
        let child = fork(&parent, boundary);
        let again = replay(rows(&child).iter().map(|row| event(row)));
        assert_eq!(rows(&again), rows(&child));
        assert_eq!(again.continuable(), Ok(()));
    }
}

#[test]
fn a_cut_that_does_not_exist_is_refused_with_the_last_one_that_does() {
    let error = build_fork_seed(&two_calls(16), seq(16)).unwrap_err();
    assert_eq!(
        error,
        ForkError::InvalidBoundary {
            boundary: seq(16),
            end: at(16)
        }
    );
    assert_eq!(
        (error.code(), error.to_string()),
        (
            "INVALID_BOUNDARY",
            "event 16 does not exist: the last one is 15".to_owned()
        )
    );
    assert_eq!(
        build_fork_seed(&EventLog::new(), seq(0))
            .unwrap_err()
            .to_string(),
        "event 0 does not exist: the session has no events"
    );
}

#[test]
fn a_nested_fork_keeps_the_ancestors_marker_and_adds_its_own() {
    let child = fork(&two_calls(16), 7);
    let grandchild = build_fork_seed(&child, seq(9)).unwrap();
    assert_eq!(
        behind(grandchild.log(), 8),
        [
            "session/end-seed",
            "tool/result left TOOL_OUTCOME_UNKNOWN",
            "session/end-seed",
            "tool/result right TOOL_NOT_STARTED",
            "step/end",
            "turn/end"
        ]
    );
    assert_eq!(rows(grandchild.log())[..10], rows(&child)[..10]);
    assert_eq!(
        (
            grandchild.inherited_event_count(),
            grandchild.log().inherited_marker()
        ),
        (at(10), Some(seq(10)))
    );
}

#[test]
fn a_cut_on_a_marker_makes_two_markers_in_a_row() {
    let child = fork(&two_calls(16), 15);
    let grandchild = fork(&child, 16);
    assert_eq!(
        rows_from(&grandchild, 16),
        [marker(16, 132), marker(17, 132)]
    );
    let session =
        Session::from_seed(seeded("g"), build_fork_seed(&child, seq(16)).unwrap(), 9).unwrap();
    assert_eq!(
        (session.inherited_event_count(), session.log().end()),
        (at(17), at(18))
    );
}

#[test]
fn a_fork_leaves_the_parents_queued_input_behind_and_a_restart_does_not() {
    let mut script = Script::new();
    let splice = |start: u64, message: &str| json!({"target": "next-turn", "start": start, "inserted": [user(message, "later")]});
    script.log("agent/inbox/spliced", &splice(0, "q-1"));
    script.log("agent/inbox/spliced", &splice(0, "q-0"));
    script.log(
        "agent/inbox/spliced",
        &json!({"target": "next-step", "start": 0, "inserted": [user("n", "now")]}),
    );
    script.log(
        "agent/inbox/spliced",
        &json!({"target": "next-step", "start": 0, "removedCount": 1, "inserted": []}),
    );
    let waiting = |log: &EventLog| -> Vec<String> {
        log.pending_input()
            .next_turn()
            .iter()
            .map(|text| text.to_string())
            .collect()
    };
    let expected = ["q-0", "q-1"].map(|id| user(id, "later").to_string());
    assert_eq!(waiting(&script.log), expected);
    assert!(script.log.pending_input().next_step().is_empty());

    let restarted = Session::restored(header("s"), script.log.clone(), at(0), 50).unwrap();
    assert_eq!(waiting(restarted.log()), expected);
    assert!(fork(&script.log, 3).pending_input().is_empty());
}

#[test]
fn a_splice_that_does_not_fit_is_named_and_the_rest_is_not_trusted() {
    for bad in [
        json!({"target": "next-turn", "start": 1, "inserted": []}),
        json!({"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}),
        json!({"target": "someday", "start": 0, "inserted": []}),
        json!({"target": "next-turn", "start": 0}),
    ] {
        let mut script = Script::new();
        script.log("feedback/record", &json!({"text": "x"}));
        script.log("agent/inbox/spliced", &bad);
        script.log(
            "agent/inbox/spliced",
            &json!({"target": "next-turn", "start": 0, "inserted": [user("q", "later")]}),
        );
        let input = script.log.pending_input();
        assert_eq!(
            (input.damage(), input.is_empty()),
            (Some(seq(1)), true),
            "{bad}"
        );
        assert_eq!(fork(&script.log, 2).pending_input().damage(), None);
    }
}
