//! Cutting a log: the seed of a fork, and the two rules for an omitted cut (`reference/persistence.md` §6.3–§6.5).

use std::borrow::Borrow;
use std::sync::Arc;

use serde::Serialize;

use crate::closers::{CloseCause, OpenTail};
use crate::event::{EventDraft, RowError, RowOrder};
use crate::fold::{CompletedPrefix, Finding};
use crate::{Event, EventKind, EventLog, LogOffset, Seq};

/// Why a fork is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// The child's id is taken. Checked before everything else.
    #[error("session `{0}` exists already")]
    SessionAlreadyExists(crate::SessionId),
    /// No live session has this id.
    #[error("session `{0}` is not live in this store")]
    SessionNotFound(crate::SessionId),
    /// Another session with the same id is live.
    #[error("this handle of session `{0}` is not the live one")]
    SessionNotLive(crate::SessionId),
    /// The cut is not an event of the source.
    #[error("{}", invalid_boundary(*boundary, *end))]
    InvalidBoundary {
        /// The cut that was asked for.
        boundary: Seq,
        /// The length of the source.
        end: LogOffset,
    },
    /// No cut was named, and no turn has ended that could be one.
    #[error("no turn of session `{0}` has ended, so there is no cut to fork at by default")]
    ForkUnavailable(crate::SessionId),
    /// A listener of the store refused the child.
    #[error("the fork of session `{session}` was refused: {reason}")]
    Refused {
        /// The source.
        session: crate::SessionId,
        /// What the listener or the store said.
        reason: String,
    },
}

fn invalid_boundary(boundary: Seq, end: LogOffset) -> String {
    match end.last() {
        None => format!("event {boundary} does not exist: the session has no events"),
        Some(last) => format!("event {boundary} does not exist: the last one is {last}"),
    }
}

impl ForkError {
    /// The stable machine code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::SessionAlreadyExists(_) => "SESSION_ALREADY_EXISTS",
            Self::SessionNotFound(_) => "SESSION_NOT_FOUND",
            Self::SessionNotLive(_) => "SESSION_NOT_LIVE",
            Self::InvalidBoundary { .. } => "INVALID_BOUNDARY",
            Self::ForkUnavailable(_) => "FORK_UNAVAILABLE",
            Self::Refused { .. } => "FORK_REFUSED",
        }
    }
}

/// The log that a fork starts with: the inherited prefix, the marker, and what closes an open turn.
#[derive(Clone, Debug, Default)]
pub struct ForkSeed {
    pub(crate) log: EventLog,
    pub(crate) inherited: LogOffset,
}

impl ForkSeed {
    /// A seed that was made elsewhere, of which the first `inherited` events are another session's; 0 for a replay.
    /// [`crate::Session::from_seed`] checks that it is one.
    #[must_use]
    pub const fn new(log: EventLog, inherited: LogOffset) -> Self {
        Self { log, inherited }
    }

    /// The whole seed.
    #[must_use]
    pub const fn log(&self) -> &EventLog {
        &self.log
    }

    /// How many events are the parent's. The marker and the closers are the child's own.
    #[must_use]
    pub const fn inherited_event_count(&self) -> LogOffset {
        self.inherited
    }

    /// The marker and the closing events.
    pub fn closers(&self) -> impl Iterator<Item = &Arc<Event>> + '_ {
        self.log.events_from(self.inherited)
    }
}

#[derive(Serialize)]
pub(crate) struct EndSeedData {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) inherited: bool,
}

/// Fails only for a time beyond ±(2^53 − 1).
pub(crate) fn end_seed(at: LogOffset, time: i64, inherited: bool) -> Result<Event, RowError> {
    EventDraft::log_only(EventKind::EndSeed, &EndSeedData { inherited })
        .and_then(|draft| draft.into_event(at.seq(), time, RowOrder::Append))
}

/// The seed of a fork whose last inherited event is `boundary`; any event may be.
///
/// The prefix is shared, not copied and not validated again. Marker and closers carry the time of the boundary event, so
/// the same cut always gives the same seed.
///
/// # Errors
/// [`ForkError::InvalidBoundary`] when there is no such event.
pub fn build_fork_seed(log: &EventLog, boundary: Seq) -> Result<ForkSeed, ForkError> {
    let Some(last) = log.get(boundary) else {
        return Err(ForkError::InvalidBoundary {
            boundary,
            end: log.end(),
        });
    };
    let inherited = boundary.after();
    let mut seed = log.prefix(inherited);
    for event in fork_closers(seed.open_tail(), last) {
        seed.push(event)
            .expect("BUG: marker and closers fit the prefix they were made for");
    }
    Ok(ForkSeed {
        log: seed,
        inherited,
    })
}

/// What a fork adds behind its last inherited event, at which this is open: the marker, and what closes an open turn.
#[must_use]
pub fn fork_closers(open: &OpenTail, last: &Event) -> Vec<Event> {
    let (inherited, time) = (last.seq().after(), last.time());
    let marker = end_seed(inherited, time, true)
        .expect("BUG: the time of an event of a log is a valid time");
    let closers = open.closers(marker.seq().after(), time, CloseCause::Forked);
    std::iter::once(marker).chain(closers).collect()
}

impl EventLog {
    /// What closes this log's open turn after a crash; nothing when no turn is open. The same algorithm as for a fork.
    #[must_use]
    pub fn interrupted_closers(&self) -> Vec<Event> {
        let last = self.last().map(|event| event.time());
        last.map_or_else(Vec::new, |time| {
            self.open_tail()
                .closers(self.end(), time, CloseCause::Interrupted)
        })
    }

    /// The cut for whoever names none and talks to a person: [`latest_completed_boundary`], remembered.
    #[must_use]
    pub fn latest_completed_boundary(&self) -> Option<Seq> {
        self.folds().completed.boundary
    }

    /// Whether a provider would accept this conversation going on.
    ///
    /// # Errors
    /// [`NotContinuable`] when a closed step whose messages the model still sees has calls without results.
    pub fn continuable(&self) -> Result<(), NotContinuable> {
        let Some((seq, calls)) = self.first_unanswered() else {
            return Ok(());
        };
        // A cut may undo the replacement that hid an earlier such step, so each is tried.
        let mut cut = self.prefix(seq.before());
        while let Some((seq, _)) = cut.first_unanswered() {
            cut = cut.prefix(seq.before());
        }
        Err(NotContinuable {
            seq,
            calls,
            nearest_cut: cut.end().last(),
        })
    }

    /// The first closed step with unanswered calls that the model still sees, and those calls.
    fn first_unanswered(&self) -> Option<(Seq, Vec<String>)> {
        self.findings().find_map(|finding| match finding {
            Finding::UnansweredCalls { seq, calls } => {
                let seen = calls.iter().filter(|(_, at)| self.surface().contains(*at));
                let seen: Vec<String> = seen.map(|(id, _)| id.to_string()).collect();
                (!seen.is_empty()).then_some((*seq, seen))
            }
        })
    }
}

/// A conversation that no provider would accept as it stands. It can be read, shown and forked, not continued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "event {seq} closed a step although {} had no result; a provider refuses such a conversation",
    named(calls)
)]
pub struct NotContinuable {
    /// The event that closed the step too early.
    pub seq: Seq,
    /// The calls that were never answered.
    pub calls: Vec<String>,
    /// The nearest earlier cut that can be continued: there the step is still open, and a fork answers its calls.
    pub nearest_cut: Option<Seq>,
}

impl NotContinuable {
    /// The stable machine code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "NOT_CONTINUABLE"
    }
}

fn named(calls: &[String]) -> String {
    let list: Vec<String> = calls.iter().map(|call| format!("`{call}`")).collect();
    format!(
        "the tool {} {}",
        if list.len() == 1 { "call" } else { "calls" },
        list.join(", ")
    )
}

/// The last `turn/end` together with its independent tail: the events behind it up to the first `turn/start`, appended
/// `user/message` or `agent/inbox/spliced`. `None` when no turn has ended.
///
/// A message between turns that makes the session a side session, or an ordinary one again ([`crate::SideMark`]), belongs to
/// the tail with all that stands ahead of it: a fork is what its original is.
///
/// The rule for everything that a person or a host calls. [`crate::SessionStore::fork`] takes the last event instead.
#[must_use]
pub fn latest_completed_boundary<E: Borrow<Event>>(
    events: impl IntoIterator<Item = E>,
) -> Option<Seq> {
    let mut completed = CompletedPrefix::default();
    for event in events {
        completed.apply(event.borrow());
    }
    completed.boundary
}
