//! Sessions to store: a recorded turn, whole or in part, and what follows from it.

use std::sync::Arc;

use offshoot_session::{
    Event, EventLog, ForkSeed, LogOffset, Seq, SessionHeader, SessionId, build_fork_seed,
};

use crate::{Persistence, Query, StoreError};

/// A whole turn as rows of a log: a step with two parallel calls (events 1 to 11), then a step that answers.
pub const TWO_CALLS: &str = include_str!("two_calls.jsonl");

/// A time behind all those in [`TWO_CALLS`], in ms since the epoch.
pub const NOW: i64 = 9_000;

/// The first `len` events of [`TWO_CALLS`], of which there are 16.
#[must_use]
pub fn events(len: usize) -> Vec<Arc<Event>> {
    TWO_CALLS.lines().take(len).map(event).collect()
}

/// An event of a row.
///
/// # Panics
/// If the row is not one.
#[must_use]
pub fn event(row: &str) -> Arc<Event> {
    Arc::new(Event::from_row(row).unwrap_or_else(|error| panic!("{error}: {row}")))
}

/// A log of events.
///
/// # Panics
/// If they do not make one.
#[must_use]
pub fn log(events: &[Arc<Event>]) -> EventLog {
    let mut log = EventLog::new();
    for event in events {
        log.push(Arc::clone(event)).unwrap();
    }
    log
}

/// The header of a session in `/work/demo`.
#[must_use]
pub fn header(id: &str) -> SessionHeader {
    SessionHeader {
        cwd: Some("/work/demo".into()),
        ..SessionHeader::new(id.into(), 1)
    }
}

/// The rows as they are stored.
pub fn texts<'a>(events: impl IntoIterator<Item = &'a Arc<Event>>) -> Vec<String> {
    events
        .into_iter()
        .map(|event| event.text().to_owned())
        .collect()
}

/// A header for a child of the session that `parent` is the header of, and the events that it begins with if it is
/// forked at `cut`.
///
/// # Panics
/// If there is no such event.
#[must_use]
pub fn seeded_child(
    parent: &SessionHeader,
    log: &EventLog,
    cut: Seq,
    child: &str,
) -> (SessionHeader, ForkSeed) {
    let seed = build_fork_seed(log, cut).unwrap();
    (parent.forked(child.into(), 2), seed)
}

/// Stores a session with one batch of events, and lets go of it.
pub(super) fn put(store: &dyn Persistence, header: &SessionHeader, events: &[Arc<Event>]) {
    let mut writer = store.create(header).unwrap();
    writer.append(events).unwrap();
    assert_eq!(writer.stored(), LogOffset::new(events.len() as u64));
}

/// The rows that a session has.
pub(super) fn rows(store: &dyn Persistence, id: &str) -> Vec<String> {
    texts(store.read(&id.into()).unwrap().stored.log.events())
}

/// The code of what has to fail.
pub(super) fn code<T>(result: Result<T, StoreError>) -> &'static str {
    match result {
        Ok(_) => "no error",
        Err(error) => error.code(),
    }
}

/// The ids that a store lists.
pub(super) fn ids(store: &dyn Persistence) -> Vec<SessionId> {
    let listed = store.list(&Query::default()).unwrap().rows.into_iter();
    let mut ids: Vec<SessionId> = listed.map(|listed| listed.id).collect();
    ids.sort();
    ids
}
