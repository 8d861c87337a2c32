//! What makes a session: header, seed, and the numbers that must not be confused (§2.1, §4.2).

use offshoot_session::{
    EventLog, ForkSeed, LogOffset, SeedError, Seq, Session, SessionHeader, build_fork_seed,
};
use serde_json::json;

use crate::support::{Script, at, header, replay, rows, rows_from, seeded, seq, two_calls};

/// A log of plain facts, in which `i` stands for a tagged marker, `e` for an untagged one, and `.` for anything else.
fn shape(shape: &str) -> EventLog {
    let mut script = Script::new();
    for letter in shape.chars() {
        match letter {
            'i' => script.log("session/end-seed", &json!({"inherited": true})),
            'e' => script.log("session/end-seed", &json!({})),
            _ => script.log("feedback/record", &json!({"text": "fact"})),
        };
    }
    script.log
}

fn shape_of(log: &EventLog) -> String {
    log.events()
        .map(|event| match event.data() {
            r#"{"inherited":true}"# => 'i',
            "{}" => 'e',
            _ => '.',
        })
        .collect()
}

#[derive(Debug, PartialEq)]
struct Numbers {
    shape: String,
    inherited: u64,
    first_live: u64,
    first_lifecycle: u64,
}

fn numbers(session: &Session) -> Numbers {
    Numbers {
        shape: shape_of(session.log()),
        inherited: session.inherited_event_count().get(),
        first_live: session.first_live_seq().get(),
        first_lifecycle: session.first_lifecycle_seq().get(),
    }
}

#[test]
fn a_restored_session_keeps_its_cut_and_gains_at_most_a_resume_marker() {
    for (header, log, inherited, expected) in [
        (header("s"), "", 0, ("e", 0, 0)),
        (header("s"), "..", 0, ("..e", 2, 2)),
        (header("s"), "..e", 0, ("..e", 3, 3)),
        (header("s"), ".e.", 0, (".e.e", 3, 3)),
        (seeded("s"), "..i", 2, ("..i", 3, 3)),
        (seeded("s"), "..i.", 2, ("..i.e", 4, 4)),
        (seeded("s"), "..i.e", 2, ("..i.e", 5, 5)),
        (seeded("s"), ".ii.", 2, (".ii.e", 4, 4)),
        (seeded("s"), ".i.i.", 3, (".i.i.e", 5, 5)),
        (seeded("s"), "i", 0, ("i", 1, 1)),
    ] {
        let session = Session::restored(header, shape(log), at(inherited), 7).unwrap();
        assert_eq!(
            numbers(&session),
            Numbers {
                shape: expected.0.to_owned(),
                inherited,
                first_live: expected.1,
                first_lifecycle: expected.2
            },
            "{log}"
        );
    }
}

#[test]
fn every_seed_that_does_not_fit_its_header_is_refused() {
    let bad_path = SessionHeader {
        cwd: Some("work/here".to_owned()),
        ..seeded("s")
    };
    let cases = [
        (
            bad_path,
            "..",
            9,
            SeedError::Header(
                r#"header member `cwd` must be an absolute path, found "work/here""#.to_owned(),
            ),
        ),
        (
            header("s"),
            "..i",
            2,
            SeedError::UnexpectedInheritance(at(2)),
        ),
        (header("s"), "", 1, SeedError::UnexpectedInheritance(at(1))),
        (
            seeded("s"),
            "..",
            3,
            SeedError::CountBeyondSeed {
                inherited: at(3),
                end: at(2),
            },
        ),
        (
            seeded("s"),
            ".i.i.",
            1,
            SeedError::LaterMarker {
                inherited: at(1),
                marker: seq(3),
            },
        ),
    ];
    for (header, log, inherited, expected) in cases {
        let error = Session::restored(header, shape(log), at(inherited), 7).unwrap_err();
        assert_eq!(error, expected, "{log}");
    }
    assert_eq!(
        Session::new(seeded("s")).unwrap_err(),
        SeedError::SeedMissing
    );
    assert_eq!(
        Session::restored(header("s"), shape("."), at(0), i64::MAX).unwrap_err(),
        SeedError::Time(i64::MAX)
    );
}

#[test]
fn the_refusals_can_be_read() {
    for (error, text) in [
        (
            SeedError::SeedMissing,
            "the header says that the session is seeded, but no seed was given",
        ),
        (
            SeedError::UnexpectedInheritance(at(2)),
            "the header says that the session is not seeded, but 2 inherited events were counted",
        ),
        (
            SeedError::CountBeyondSeed {
                inherited: at(3),
                end: at(2),
            },
            "3 inherited events were counted in a seed of 2",
        ),
        (
            SeedError::MarkerMissing(seq(2)),
            "event 2 of the seed must be the `session/end-seed` that ends the inherited prefix",
        ),
        (
            SeedError::LaterMarker {
                inherited: at(1),
                marker: seq(3),
            },
            "the inherited prefix was counted up to 1, but a later marker stands at 3",
        ),
        (
            SeedError::Time(i64::MAX),
            "the time 9223372036854775807 is not within ±(2^53 − 1)",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn a_session_without_history_has_no_marker() {
    let session = Session::new(header("s")).unwrap();
    assert_eq!(
        numbers(&session),
        Numbers {
            shape: String::new(),
            inherited: 0,
            first_live: 0,
            first_lifecycle: 0
        }
    );
}

#[test]
fn an_empty_seed_is_a_seed() {
    let replayed = Session::from_seed(header("s"), ForkSeed::default(), 7).unwrap();
    assert_eq!(
        rows(replayed.log()),
        [r#"{"type":"session/end-seed","seq":0,"time":7,"data":{}}"#]
    );
    let child = Session::from_seed(seeded("c"), ForkSeed::default(), 7).unwrap();
    assert_eq!(
        rows(child.log()),
        [r#"{"type":"session/end-seed","seq":0,"time":7,"data":{"inherited":true}}"#]
    );
    for session in [replayed, child] {
        let own: Vec<u64> = session
            .lifecycle_events()
            .map(|event| event.seq().get())
            .collect();
        assert_eq!(
            (
                session.inherited_event_count(),
                session.first_live_seq(),
                own
            ),
            (at(0), at(0), vec![0])
        );
    }
}

#[test]
fn a_fork_of_an_empty_session_is_an_empty_child_with_its_marker_at_zero() {
    let parent = Session::new(header("p")).unwrap();
    let seed = parent.fork_seed(None).unwrap();
    let child = Session::from_seed(parent.header().forked("c".into(), 5), seed, 5).unwrap();
    assert!(child.header().is_seeded);
    assert_eq!(
        numbers(&child),
        Numbers {
            shape: "i".to_owned(),
            inherited: 0,
            first_live: 0,
            first_lifecycle: 0
        }
    );
}

#[test]
fn a_new_fork_begins_its_life_at_its_marker_and_a_restored_one_behind_all_it_had() {
    let seed = build_fork_seed(&two_calls(16), seq(7)).unwrap();
    let end = seed.log().end();
    let fresh = Session::from_seed(seeded("c"), seed, 999).unwrap();
    let own: Vec<String> = fresh
        .lifecycle_events()
        .map(|event| event.kind().to_string())
        .collect();
    assert_eq!(
        own,
        [
            "session/end-seed",
            "tool/result",
            "tool/result",
            "step/end",
            "turn/end"
        ]
    );
    assert_eq!(fresh.log().end(), end, "the seed had its marker already");
    assert_eq!(
        (
            fresh.inherited_event_count(),
            fresh.first_live_seq(),
            fresh.first_lifecycle_seq()
        ),
        (at(8), at(13), at(8))
    );

    let restored = Session::restored(seeded("c"), fresh.log().clone(), at(8), 999).unwrap();
    let own: Vec<&str> = restored
        .lifecycle_events()
        .map(|event| event.text())
        .collect();
    assert_eq!(
        own,
        [r#"{"type":"session/end-seed","seq":13,"time":999,"data":{}}"#]
    );
    assert_eq!(
        (
            restored.inherited_event_count(),
            restored.first_live_seq(),
            restored.first_lifecycle_seq()
        ),
        (at(8), at(13), at(13))
    );
}

#[test]
fn own_events_start_at_the_cut_and_end_with_the_log() {
    let seed = build_fork_seed(&two_calls(16), seq(7)).unwrap();
    let session = Session::from_seed(seeded("c"), seed, 999).unwrap();
    let own: Vec<u64> = (0..20).filter(|n| session.is_own(Seq::new(*n))).collect();
    assert_eq!(own, [8, 9, 10, 11, 12]);
}

#[test]
fn a_replay_of_a_whole_log_is_the_new_sessions_own() {
    let child = build_fork_seed(&shape(".."), seq(1)).unwrap();
    let refused = Session::from_seed(header("r"), child, 7).unwrap_err();
    assert_eq!(refused, SeedError::UnexpectedInheritance(at(2)));

    let session = Session::restored(header("r"), shape("..i."), LogOffset::START, 7).unwrap();
    assert_eq!(
        numbers(&session),
        Numbers {
            shape: "..i.e".to_owned(),
            inherited: 0,
            first_live: 4,
            first_lifecycle: 4
        }
    );
}

#[test]
fn a_cursor_is_the_last_event_that_was_seen() {
    let session = Session::restored(header("s"), shape("..e"), at(0), 7).unwrap();
    let after = |cursor: Option<u64>| -> Vec<u64> {
        session
            .events_after(cursor.map(Seq::new))
            .map(|event| event.seq().get())
            .collect()
    };
    assert_eq!(
        (after(None), after(Some(0)), after(Some(2))),
        (vec![0, 1, 2], vec![1, 2], vec![])
    );
}

#[test]
fn restoring_a_closed_log_keeps_every_stored_byte() {
    let mut log = two_calls(8);
    for closer in log.interrupted_closers() {
        log.push(closer).unwrap();
    }
    let stored = rows(&log);
    let session = Session::restored(header("s"), log, at(0), 999).unwrap();
    assert_eq!(rows(session.log())[..12], stored[..]);
    assert_eq!(
        rows_from(session.log(), 12),
        [r#"{"type":"session/end-seed","seq":12,"time":999,"data":{}}"#]
    );
    let reread = replay(
        rows(session.log())
            .iter()
            .map(|row| crate::support::event(row)),
    );
    let again = Session::restored(header("s"), reread, at(0), 1000).unwrap();
    assert_eq!(
        rows(again.log()),
        rows(session.log()),
        "a log that ends in a marker gains none"
    );
}

#[test]
fn a_header_names_what_is_out_of_its_domain() {
    let check = |change: fn(&mut SessionHeader)| {
        let mut header = header("s");
        change(&mut header);
        header.check()
    };
    assert_eq!(
        check(|header| header.created_at = 1 << 53),
        Err("header member `createdAt` is 9007199254740992, beyond 2^53 − 1".to_owned())
    );
    assert_eq!(
        check(|header| header.delegation_depth = u64::MAX),
        Err("header member `delegationDepth` is 18446744073709551615, beyond 2^53 − 1".to_owned())
    );
    for path in ["", "work", "./work", "C:", "C:work", "~"] {
        let bad = SessionHeader {
            cwd: Some(path.to_owned()),
            ..header("s")
        };
        assert!(bad.check().is_err(), "{path}");
    }
    for path in ["/", "/work", r"C:\work", "c:/work", r"\\host\share"] {
        let good = SessionHeader {
            cwd: Some(path.to_owned()),
            ..header("s")
        };
        assert_eq!(good.check(), Ok(()), "{path}");
    }
}
