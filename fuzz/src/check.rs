//! The invariants that several targets assert.

use std::sync::Arc;

use offshoot_format::{Container, FormatError, StoredSession, decode_as};
use offshoot_session::{
    CloseCause, Event, EventLog, ForkSeed, Seq, SessionHeader, build_fork_seed, open_turn_closers,
};

/// A refusal tells a person what is wrong and what to do.
pub(crate) fn explains(error: &FormatError) {
    assert!(!error.to_string().is_empty());
    assert!(!error.hint().is_empty() && !error.code().is_empty());
    // Lines of a file count from 1, and line 1 is the header.
    assert!(error.place().is_none_or(|place| place.line > 1));
}

/// What is true of everything that was read from a file of `size` bytes.
pub(crate) fn is_sound(stored: &StoredSession, size: usize) {
    if let Some(tail) = &stored.tail {
        assert_eq!(tail.keep, tail.place.byte);
        assert_eq!(tail.keep + tail.bytes, size as u64);
        assert!(tail.recovered <= stored.log.end().get());
        assert!(!tail.reason.is_empty());
    }
    assert!(stored.inherited <= stored.log.end());
    let marker = stored.log.inherited_marker();
    assert_eq!(stored.header.is_seeded, marker.is_some());
    assert_eq!(marker.map_or(0, Seq::get), stored.inherited.get());
}

/// Writes a log and reads it again as itself.
pub(crate) fn reads_back(
    container: Container,
    header: &SessionHeader,
    log: &EventLog,
) -> StoredSession {
    let bytes = encoded(container, header, log);
    let stored = decode_as(container, &bytes).unwrap_or_else(|error| {
        panic!(
            "what was written is not read: {error}\n{}",
            texts(log).join("\n")
        )
    });
    is_sound(&stored, bytes.len());
    assert_eq!(&stored.header, header);
    assert_eq!(texts(&stored.log), texts(log));
    assert_eq!(stored.tail, None);
    stored
}

/// A file as the crate writes it, in batches of a few events.
pub(crate) fn encoded(container: Container, header: &SessionHeader, log: &EventLog) -> Vec<u8> {
    const BATCH: usize = 5;
    let events: Vec<&Event> = log.events().map(Arc::as_ref).collect();
    let mut bytes = container
        .header(header)
        .expect("the header of a valid session can be written");
    for batch in events.chunks(BATCH) {
        bytes.extend(container.batch(batch.iter().copied()));
    }
    bytes
}

/// Forks a log at an event, and reads the child as its file would hold it.
pub(crate) fn forks(
    container: Container,
    header: &SessionHeader,
    log: &EventLog,
    cut: Seq,
) -> StoredSession {
    let seed = seed(log, cut);
    assert_eq!(
        texts(seed.log()),
        texts(self::seed(log, cut).log()),
        "the same cut"
    );
    assert_eq!(seed.inherited_event_count(), cut.after());
    let inherited = cut.after().get() as usize;
    assert_eq!(texts(seed.log())[..inherited], texts(log)[..inherited]);
    let time = log.get(cut).map(|event| event.time());
    for closer in seed.closers() {
        assert_eq!(Some(closer.time()), time, "closers are dated by the cut");
    }
    let child = reads_back(container, &header.forked("child".into(), 9), seed.log());
    assert_eq!(child.inherited, cut.after());
    assert!(child.closers().is_empty(), "the child has nothing open");
    child
}

fn seed(log: &EventLog, cut: Seq) -> ForkSeed {
    build_fork_seed(log, cut).expect("any event is a cut")
}

/// Closes a log that a crash left behind, also when the repair itself is cut off after any number of closers, and reads
/// it as its file would hold it.
pub(crate) fn repairs(
    container: Container,
    header: &SessionHeader,
    log: &EventLog,
) -> StoredSession {
    let closers = log.interrupted_closers();
    let shown: Vec<&str> = closers.iter().map(Event::text).collect();
    let events = || log.events().map(Arc::as_ref);
    let again = open_turn_closers(events(), CloseCause::Interrupted);
    assert_eq!(shown, again.iter().map(Event::text).collect::<Vec<_>>());
    assert_eq!(closers.is_empty(), log.open_tail().turn().is_none());
    let mut closed = log.clone();
    for (done, text) in shown.iter().enumerate() {
        let missing = closed.interrupted_closers();
        let missing: Vec<&str> = missing.iter().map(Event::text).collect();
        assert_eq!(missing, shown[done..], "after {done} closers");
        let closer = Event::from_row(*text).expect("a closer is a row");
        closed.push(closer).expect("a closer fits its log");
    }
    let stored = reads_back(container, header, &closed);
    assert!(stored.closers().is_empty());
    stored
}

pub(crate) fn texts(log: &EventLog) -> Vec<&str> {
    log.events().map(|event| event.text()).collect()
}
