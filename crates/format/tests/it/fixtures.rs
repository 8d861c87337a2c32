//! What each hand-written file is, so that the other tests stand on something known.

use offshoot_format::{Container, StoredSession};
use offshoot_session::{EventKind, LogOffset, Seq};

use crate::support::{FIXTURES, fixture, stored};

#[derive(Debug, PartialEq, Eq)]
struct Facts {
    name: &'static str,
    events: u64,
    inherited: u64,
    turns: u64,
    /// Events that a repair would add.
    closers: usize,
    /// Bytes of a torn tail.
    torn: u64,
    findings: usize,
}

fn facts(name: &'static str, stored: &StoredSession) -> Facts {
    Facts {
        name,
        events: stored.log.end().get(),
        inherited: stored.inherited.get(),
        turns: stored.log.last_turn(),
        closers: stored.closers().len(),
        torn: stored.tail.as_ref().map_or(0, |tail| tail.bytes),
        findings: stored.log.findings().count(),
    }
}

#[rustfmt::skip]
const EXPECTED: [Facts; 11] = [
    Facts { name: "closed-step", events: 16, inherited: 0, turns: 2, closers: 0, torn: 0, findings: 1 },
    Facts { name: "compaction", events: 28, inherited: 0, turns: 3, closers: 1, torn: 0, findings: 0 },
    Facts { name: "crash-in-call", events: 9, inherited: 0, turns: 1, closers: 4, torn: 31, findings: 0 },
    Facts { name: "fork-child", events: 23, inherited: 9, turns: 2, closers: 0, torn: 0, findings: 0 },
    Facts { name: "header-only", events: 0, inherited: 0, turns: 0, closers: 0, torn: 0, findings: 0 },
    Facts { name: "inbox-and-retries", events: 16, inherited: 0, turns: 1, closers: 0, torn: 0, findings: 0 },
    Facts { name: "nested-fork", events: 31, inherited: 19, turns: 3, closers: 0, torn: 0, findings: 0 },
    Facts { name: "opaque", events: 12, inherited: 0, turns: 1, closers: 0, torn: 0, findings: 0 },
    Facts { name: "repaired", events: 26, inherited: 0, turns: 2, closers: 0, torn: 0, findings: 0 },
    Facts { name: "tools-added", events: 19, inherited: 0, turns: 1, closers: 0, torn: 0, findings: 0 },
    Facts { name: "two-calls", events: 23, inherited: 0, turns: 2, closers: 0, torn: 0, findings: 0 },
];

#[test]
fn every_fixture_is_what_its_name_says() {
    let found: Vec<Facts> = FIXTURES
        .iter()
        .map(|(name, text)| facts(name, &stored(Container::Raw, text.as_bytes())))
        .collect();
    assert_eq!(found, EXPECTED);
}

#[test]
fn an_unknown_ignorable_event_stays_opaque_and_in_seq_space() {
    let stored = stored(Container::Raw, fixture("opaque").as_bytes());
    let unknown: Vec<_> = stored
        .log
        .events()
        .filter(|event| !event.kind().is_known())
        .map(|event| {
            (
                event.seq().get(),
                event.kind().as_str(),
                event.surface_op(),
                event.sources(),
            )
        })
        .collect();
    assert_eq!(
        unknown,
        [
            (0, "gadget/blinked", None, None),
            (7, "gadget/blinked", None, None),
            (11, "gadget/stopped", None, None),
        ]
    );
    let derived: Vec<&EventKind> = stored.log.messages().map(|message| message.kind).collect();
    assert_eq!(
        derived,
        [&EventKind::UserMessage, &EventKind::AssistantMessage]
    );
}

#[test]
fn a_nested_fork_counts_what_the_last_marker_ends_and_keeps_its_ancestors_marker() {
    let stored = stored(Container::Raw, fixture("nested-fork").as_bytes());
    let markers: Vec<(u64, &str)> = stored
        .log
        .events()
        .filter(|event| *event.kind() == EventKind::EndSeed)
        .map(|event| (event.seq().get(), event.data()))
        .collect();
    assert_eq!(
        markers,
        [
            (9, r#"{"inherited":true}"#),
            (19, r#"{"inherited":true}"#),
            (23, "{}")
        ]
    );
    assert_eq!(stored.inherited, LogOffset::new(19));
}

#[test]
fn a_closed_step_with_an_unanswered_call_is_read_and_names_the_cut_that_goes_on() {
    let stored = stored(Container::Raw, fixture("closed-step").as_bytes());
    let refusal = stored.log.continuable().unwrap_err();
    assert_eq!(refusal.seq, Seq::new(8));
    assert_eq!(refusal.calls, ["c2"]);
    assert_eq!(refusal.nearest_cut, Some(Seq::new(7)));
    assert_eq!(stored.closers(), [], "history is not rewritten");
}

#[test]
fn a_reader_sees_an_interrupted_session_closed_and_the_file_does_not_change_for_it() {
    let text = fixture("crash-in-call");
    let session = stored(Container::Raw, text.as_bytes())
        .balanced(9_000)
        .unwrap();
    let own: Vec<(u64, &str)> = session
        .lifecycle_events()
        .map(|event| (event.seq().get(), event.kind().as_str()))
        .collect();
    assert_eq!(own, [(13, "session/end-seed")]);
    let closed: Vec<&str> = session
        .log()
        .events_from(LogOffset::new(9))
        .map(|event| event.kind().as_str())
        .collect();
    assert_eq!(
        closed,
        [
            "tool/result",
            "tool/result",
            "step/end",
            "turn/end",
            "session/end-seed"
        ]
    );
}
