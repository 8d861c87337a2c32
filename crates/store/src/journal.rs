//! The journal of an attempt: what a model has streamed and no event holds yet.
//!
//! An answer becomes an event when it is complete. Until then its chunks lie in `attempt.journal` beside the log, so that a
//! killed process loses no more of it than one window. The file begins with one line that says which attempt of which
//! session it is and what the log held; each further line is one chunk. It is written by whoever writes the session, and
//! removed once an event has settled the attempt.
//!
//! Whoever finds one settles it: makes the event that the attempt amounts to. The store knows nothing of models, so a
//! [`Settle`] does that, from the journal and the log alone: a reader, who keeps the event in memory, and whoever opens the
//! session next, who stores it, come to the same bytes. A journal that does not belong to the log, or cannot be read, is
//! never used and never deleted: it is reported, and moved out of the way when the session is opened.

mod file;
mod found;

use std::fmt;
use std::path::PathBuf;

use offshoot_session::{EventDraft, EventLog, StepRef};

pub(crate) use file::{Journal, NAME};
pub(crate) use found::{Beside, Found, Outcome, move_aside};

/// Which attempt a journal is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptStart {
    /// The turn and step.
    pub at: StepRef,
    /// Which attempt of the step it is, from 1.
    pub attempt: u64,
    /// The provider's name.
    pub provider: String,
    /// The model's name.
    pub model: String,
}

/// Makes of a journal the event that settles its attempt.
pub trait Settle: Send + Sync + fmt::Debug {
    /// The event that `chunks`, each a line as it was handed to [`WriteBehind::delta`](crate::WriteBehind::delta), amount
    /// to at the end of `log`, in which the attempt's step is open; `None` if they amount to nothing. Same arguments, same
    /// event: time and names follow from them.
    ///
    /// # Errors
    /// Why the lines are not what this program has written.
    fn settle(
        &self,
        attempt: &AttemptStart,
        chunks: &[&str],
        log: &EventLog,
    ) -> Result<Option<Settlement>, String>;
}

/// An event that settles an attempt.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// The event.
    pub draft: EventDraft,
    /// Its time: when the last chunk came, in ms since the epoch.
    pub time: i64,
}

/// A journal that was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrayJournal {
    /// Where it is.
    pub path: PathBuf,
    /// Why it was not used.
    pub reason: String,
}

impl fmt::Display for StrayJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, reason } = self;
        write!(
            f,
            "`{}`, the stream of an answer, was not used: {reason}",
            path.display()
        )
    }
}
