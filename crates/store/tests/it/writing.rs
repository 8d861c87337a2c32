//! A session that is written for as long as a test wants.

use std::sync::Arc;

use offshoot_session::{Event, EventDraft, EventKind, EventLog, Session};
use offshoot_store::{JsonlStore, Persistence as _, SessionWriter, StoreError};
use serde_json::json;

use crate::support::header;

/// A session with its writer. Its turns start and end, and nothing else happens in them.
#[derive(Debug)]
pub(crate) struct Writing {
    session: Session,
    writer: Box<dyn SessionWriter>,
}

impl Writing {
    pub(crate) fn new(session: Session, writer: Box<dyn SessionWriter>) -> Self {
        Self { session, writer }
    }

    /// Session `demo`, not stored yet.
    pub(crate) fn create(store: &JsonlStore) -> Self {
        let writer = store.create(&header("demo")).unwrap();
        Self::new(Session::new(header("demo")).unwrap(), writer)
    }

    /// The next events, not stored.
    pub(crate) fn next(&mut self, count: usize) -> Vec<Arc<Event>> {
        (0..count).map(|_| self.next_event()).collect()
    }

    /// Stores so many events in one batch.
    pub(crate) fn append(&mut self, count: usize) {
        let events = self.next(count);
        self.store(&events).unwrap();
    }

    pub(crate) fn store(&mut self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        self.writer.append(events)
    }

    pub(crate) fn log(&self) -> &EventLog {
        self.session.log()
    }

    fn next_event(&mut self) -> Arc<Event> {
        let log = self.session.log();
        let time = 1_000 + i64::try_from(log.end().get()).unwrap();
        let draft = match log.open_tail().turn() {
            Some(turn) => EventDraft::log_only(
                EventKind::TurnEnd,
                &json!({"turn": turn, "reason": {"kind": "completed"}}),
            ),
            None => {
                EventDraft::log_only(EventKind::TurnStart, &json!({"turn": log.last_turn() + 1}))
            }
        };
        self.session.append(draft.unwrap(), time).unwrap()
    }
}
