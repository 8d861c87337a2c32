//! Any event of any log is a cut: the seed of a fork is a valid file, and what the model sees there can go on.

use offshoot_format::StoredSession;
use offshoot_model::{Dialect, Message, encode_messages};
use offshoot_session::{
    EventKind, EventLog, ForkSeed, LogOffset, Seq, SessionHeader, build_fork_seed,
};
use offshoot_test_support::transcript::{Rules, SystemMessages, Violation, validate_with};
use serde_json::{Value, json};

use crate::support::{BOTH, FIXTURES, encode, rows, stored};

/// What trying cuts came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tried {
    pub(crate) cuts: usize,
    /// Cuts of forks made at those cuts.
    pub(crate) nested: usize,
    /// Cuts whose seed carries a finding, so that it cannot go on.
    pub(crate) refused: usize,
}

/// Tries every event of a session as a cut, and for every `nested`-th of them every own event of the child as well.
pub(crate) fn every_cut(name: &str, parent: &StoredSession, nested: usize) -> Tried {
    let mut tried = Tried::default();
    for cut in (0..parent.log.end().get()).map(Seq::new) {
        let place = format!("{name} at {cut}");
        let (header, child) = one_cut(&place, &parent.header, &parent.log, cut, &mut tried);
        tried.cuts += 1;
        if !cut.get().is_multiple_of(nested as u64) {
            continue;
        }
        for cut in (cut.get()..child.end().get()).map(Seq::new) {
            one_cut(
                &format!("{place}, then {cut}"),
                &header,
                &child,
                cut,
                &mut tried,
            );
            tried.nested += 1;
        }
    }
    tried
}

/// Forks a log at `cut`, and gives the child back.
pub(crate) fn one_cut(
    place: &str,
    parent: &SessionHeader,
    log: &EventLog,
    cut: Seq,
    tried: &mut Tried,
) -> (SessionHeader, EventLog) {
    let seed = build_fork_seed(log, cut).unwrap();
    let header = parent.forked("child".into(), 9_000);
    for container in BOTH {
        let bytes = encode(container, &header, seed.log(), 7);
        let child = stored(container, &bytes);
        assert_eq!(child.header, header, "{place}");
        assert_eq!(child.inherited, cut.after(), "{place}");
        assert_eq!(rows(&child.log), rows(seed.log()), "{place}");
        assert_eq!((&child.tail, child.closers()), (&None, vec![]), "{place}");
        inherits_and_closes(place, &child, log, &seed);
        reopening_adds_the_resume_marker_once(place, child);
    }
    match seed.log().continuable() {
        Ok(()) => assert_eq!(violations(seed.log()), [], "{place}"),
        Err(_) => tried.refused += 1,
    }
    (header, seed.log().clone())
}

fn inherits_and_closes(place: &str, child: &StoredSession, parent: &EventLog, seed: &ForkSeed) {
    let inherited = child.inherited.get() as usize;
    let own = &rows(&child.log)[inherited..];
    assert_eq!(
        rows(&child.log)[..inherited],
        rows(parent)[..inherited],
        "{place}"
    );
    let built: Vec<&str> = seed.closers().map(|event| event.text()).collect();
    assert_eq!(own, built, "{place}");
}

fn reopening_adds_the_resume_marker_once(place: &str, child: StoredSession) {
    let before = child.log.end();
    let ends_in_a_marker = before.get() == child.inherited.get() + 1;
    let session = child.balanced(9_001).unwrap();
    let added: Vec<&str> = session
        .log()
        .events_from(before)
        .map(|event| event.data())
        .collect();
    let expected: &[&str] = if ends_in_a_marker { &[] } else { &["{}"] };
    assert_eq!(added, expected, "{place}");

    let bytes = encode(BOTH[0], session.header(), session.log(), usize::MAX);
    let again = stored(BOTH[0], &bytes).balanced(9_002).unwrap();
    assert_eq!(rows(again.log()), rows(session.log()), "{place}");
}

/// What a provider would say to the conversation, if a person added a word to it.
fn violations(log: &EventLog) -> Vec<Violation> {
    let messages: Vec<Message> = log
        .messages()
        .map(|message| serde_json::from_str(&message.text).unwrap())
        .collect();
    let mut wire: Value =
        serde_json::from_slice(&encode_messages(&messages, &Dialect::compatible())).unwrap();
    let list = wire.as_array_mut().unwrap();
    list.push(json!({"role": "user", "content": "Go on."}));
    let late =
        |kind: &EventKind| matches!(kind, EventKind::SystemMessage | EventKind::DeveloperMessage);
    let mut kinds = log.messages().map(|message| message.kind);
    let rules = Rules {
        system_messages: match kinds.by_ref().skip(1).any(late) {
            true => SystemMessages::Anywhere,
            false => SystemMessages::AtTheHead,
        },
    };
    validate_with(&wire, rules)
}

#[test]
fn every_event_of_every_fixture_is_a_cut_also_of_a_fork() {
    let tried: Vec<(&str, Tried)> = FIXTURES
        .iter()
        .map(|(name, text)| {
            let parent = stored(BOTH[0], text.as_bytes());
            (*name, every_cut(name, &parent, 1))
        })
        .collect();
    let refused: Vec<(&str, usize)> = tried
        .iter()
        .filter(|(_, tried)| tried.refused > 0)
        .map(|(name, tried)| (*name, tried.refused))
        .collect();
    // From the `step/end` that comes too early, at event 8 of 16, and of the forks at it.
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].0, "closed-step");
    let parent = stored(BOTH[0], crate::support::fixture("closed-step").as_bytes());
    assert_eq!(every_cut("closed-step", &parent, usize::MAX).refused, 8);
}

#[test]
fn a_fork_of_an_empty_session_is_a_marker() {
    let parent = stored(BOTH[0], crate::support::fixture("header-only").as_bytes());
    let header = parent.header.forked("child".into(), 9_000);
    let session = offshoot_session::Session::from_seed(header, ForkSeed::default(), 9_000).unwrap();
    for container in BOTH {
        let bytes = encode(container, session.header(), session.log(), 1);
        let child = stored(container, &bytes);
        assert_eq!(child.inherited, LogOffset::START);
        assert_eq!(
            rows(&child.log),
            [r#"{"type":"session/end-seed","seq":0,"time":9000,"data":{"inherited":true}}"#]
        );
    }
}
