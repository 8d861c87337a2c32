//! The bracket around a compaction: its start and its end in the log.
//!
//! No turn may start or end inside of one, or the log is refused by every reader. So whoever opens a bracket closes it,
//! also when nobody waits for the compaction any more; and where the log refuses even that, it is closed before the next
//! turn starts or ends. A bracket that a crash or a fork has left open belongs to a lifecycle that is over: the
//! `session/end-seed` with which the next one begins says so.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_session::{EventKind, EventLog, LogError, Seq, Session};

use super::CompactionError;
use super::events::{End, Start};
use crate::AgentError;
use crate::core::Core;
use crate::events::logged;

/// The bracket that is open in an agent's log, if one is.
#[derive(Debug, Default)]
pub(crate) struct OpenCompaction(Mutex<Option<Open>>);

#[derive(Debug)]
struct Open {
    id: String,
    turn: Option<u64>,
    /// What its end says.
    error: Option<String>,
}

impl OpenCompaction {
    fn open(&self) -> MutexGuard<'_, Option<Open>> {
        // Nothing panics between two changes of it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs the end of the bracket, if one is open.
    pub(crate) fn close(&self, session: &mut Session, now: i64) -> Result<(), LogError> {
        let mut open = self.open();
        let Some(bracket) = &*open else {
            return Ok(());
        };
        let data = End {
            compaction_id: &bracket.id,
            turn: bracket.turn,
            error: bracket.error.as_deref(),
        };
        session.append(logged(EventKind::CompactionEnd, &data), now)?;
        *open = None;
        Ok(())
    }
}

impl Core {
    /// Closes the bracket that a compaction has left open, if one has.
    pub(crate) fn close_compaction(&self) -> Result<(), AgentError> {
        let mut session = self.session.lock();
        Ok(self.compaction.close(&mut session, self.env.now())?)
    }
}

/// A compaction whose start is in the log. Its end follows at the latest when this is dropped.
pub(super) struct Bracket {
    core: Arc<Core>,
    id: String,
    start: Seq,
}

impl Bracket {
    pub(super) fn open(core: &Arc<Core>, turn: Option<u64>) -> Result<Self, CompactionError> {
        let id = core.env.fresh_id();
        let data = Start {
            compaction_id: &id,
            turn,
        };
        let mut session = core.session.lock();
        let event = session
            .append(logged(EventKind::CompactionStart, &data), core.env.now())
            .map_err(|error| CompactionError::Commit(error.into()))?;
        *core.compaction.open() = Some(Open {
            id: id.clone(),
            turn,
            error: Some("the compaction was abandoned".to_owned()),
        });
        drop(session);
        Ok(Self {
            core: Arc::clone(core),
            id,
            start: event.seq(),
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) const fn start(&self) -> Seq {
        self.start
    }

    /// Logs its end, and why nothing came of it.
    pub(super) fn end(self, error: Option<&CompactionError>) -> Result<(), AgentError> {
        if let Some(open) = &mut *self.core.compaction.open() {
            open.error = error.map(ToString::to_string);
        }
        self.core.close_compaction()
    }
}

impl Drop for Bracket {
    fn drop(&mut self) {
        // Refused, it is closed later: see above.
        let _refused = self.core.close_compaction();
    }
}

/// Whether a bracket of this lifecycle is open: a start without an end, newer than the last `session/end-seed`.
pub(super) fn is_open(log: &EventLog) -> bool {
    let newest_first = std::iter::successors(log.end().last(), |seq| seq.before().last());
    let kinds = newest_first.filter_map(|seq| log.get(seq).map(|event| event.kind()));
    for kind in kinds {
        match kind {
            EventKind::CompactionStart => return true,
            EventKind::CompactionEnd | EventKind::EndSeed => return false,
            _ => {}
        }
    }
    false
}
