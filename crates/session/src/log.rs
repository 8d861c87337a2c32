//! A validated log, and its prefixes.
//!
//! Having an [`EventLog`] is the proof that its events keep the rules of the log: nobody validates them again. Events lie
//! in shared immutable leaves, and the folds are remembered every `CHECKPOINT` events, so that a prefix at any cut shares
//! both and costs the same wherever the cut is and however long the log.

use std::sync::Arc;

use crate::body::{Body, SideMark};
use crate::closers::OpenTail;
use crate::derive::DerivedMessage;
use crate::event::RowError;
use crate::fold::{Finding, Folds, PendingInput};
use crate::shared_vec::SharedVec;
use crate::surface::Surface;
use crate::{Event, EventKind, LogOffset, Seq, derive};

/// Events between two remembered folds: the most that a cut replays.
const CHECKPOINT: usize = 256;

/// Why an event does not fit at the end of a log. The log is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// Seqs are dense from 0.
    #[error("expected seq {expected}, found {found}")]
    SeqGap {
        /// The next seq of the log.
        expected: LogOffset,
        /// The seq that the event carries.
        found: Seq,
    },
    /// The log needs a reader that knows the type.
    #[error("event {seq} has the required type `{kind}`, which this version does not know")]
    UnknownRequiredEvent {
        /// The event's seq.
        seq: Seq,
        /// Its type.
        kind: String,
    },
    /// The row itself is malformed.
    #[error("event {seq}: {source}")]
    Row {
        /// The seq that the event would have had.
        seq: LogOffset,
        /// What is wrong.
        source: RowError,
    },
    /// The event does not fit the surface, or names an event that is not there or not what it should be.
    #[error("event {seq}: {reason}")]
    Surface {
        /// The event's seq.
        seq: Seq,
        /// What is wrong.
        reason: String,
    },
    /// An observer of the session did not admit the event.
    #[error("event {seq} was refused: {reason}")]
    Refused {
        /// The seq that the event would have had.
        seq: Seq,
        /// What the observer said.
        reason: String,
    },
}

impl LogError {
    /// The stable machine code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::SeqGap { .. } => "SEQ_GAP",
            Self::UnknownRequiredEvent { .. } => "UNKNOWN_REQUIRED_EVENT",
            Self::Row { .. } => "INVALID_EVENT",
            Self::Surface { .. } => "INVALID_SURFACE",
            Self::Refused { .. } => "EVENT_REFUSED",
        }
    }
}

/// An append-only sequence of events that keep the rules of the log, with everything derived from them.
///
/// Cloning is two pointers per part and shares every event.
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    events: SharedVec<Arc<Event>>,
    folds: Folds,
    checkpoints: SharedVec<Folds>,
}

impl EventLog {
    /// An empty log.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Validates an event against the log and adds it.
    ///
    /// # Errors
    /// [`LogError`]; the log is then unchanged.
    pub fn push(&mut self, event: impl Into<Arc<Event>>) -> Result<&Arc<Event>, LogError> {
        let event = event.into();
        self.check(&event)?;
        Ok(self.push_checked(event))
    }

    /// What [`EventLog::push`] would say, without doing it.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn check(&self, event: &Event) -> Result<(), LogError> {
        let seq = event.seq();
        if seq != self.end().seq() {
            return Err(LogError::SeqGap {
                expected: self.end(),
                found: seq,
            });
        }
        if !event.kind().is_known() && !event.ignorable() {
            return Err(LogError::UnknownRequiredEvent {
                seq,
                kind: event.kind().to_string(),
            });
        }
        let surface = |reason| LogError::Surface { seq, reason };
        self.folds.surface.plan(event, self).map_err(surface)?;
        self.check_references(event).map_err(surface)
    }

    /// The events that a payload names must be there, and be what it takes them for.
    fn check_references(&self, event: &Event) -> Result<(), String> {
        match event.body() {
            Body::ImageOffload(targets) => {
                match targets.iter().find(|target| target.seq >= event.seq()) {
                    None => Ok(()),
                    Some(target) => Err(format!(
                        "image/offload names event {}, which is not earlier",
                        target.seq
                    )),
                }
            }
            Body::DeveloperMessage {
                header: Some(header),
                ..
            } => match self.get(*header).map(|event| event.kind()) {
                Some(EventKind::RequestHeader) => Ok(()),
                _ => Err(format!(
                    "`headerSeq` names event {header}, which is no earlier request/header"
                )),
            },
            _ => Ok(()),
        }
    }

    fn push_checked(&mut self, event: Arc<Event>) -> &Arc<Event> {
        self.folds.apply(&event);
        self.events.push(event);
        if self.events.len().is_multiple_of(CHECKPOINT) {
            self.checkpoints.push(self.folds.clone());
        }
        self.events
            .last()
            .expect("BUG: an event was pushed just now")
    }

    /// The log's first `len` events as a log of its own, sharing them. Beyond the end it is the whole log.
    ///
    /// Costs at most the replay of `CHECKPOINT` events, wherever the cut is.
    #[must_use]
    pub fn prefix(&self, len: LogOffset) -> Self {
        if len >= self.end() {
            return self.clone();
        }
        let remembered = len.index() / CHECKPOINT;
        let mut folds = match remembered.checked_sub(1) {
            None => Folds::default(),
            Some(at) => self
                .checkpoints
                .get(at)
                .expect("BUG: every full span is remembered")
                .clone(),
        };
        for event in self
            .events
            .iter_from(remembered * CHECKPOINT)
            .take(len.index() % CHECKPOINT)
        {
            folds.apply(event);
        }
        let (mut events, mut checkpoints) = (self.events.clone(), self.checkpoints.clone());
        events.truncate(len.index());
        checkpoints.truncate(remembered);
        Self {
            events,
            folds,
            checkpoints,
        }
    }

    /// The length, as the offset behind the last event.
    #[must_use]
    pub fn end(&self) -> LogOffset {
        LogOffset::new(self.events.len() as u64)
    }

    /// Whether there are no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The event with this seq.
    #[must_use]
    pub fn get(&self, seq: Seq) -> Option<&Arc<Event>> {
        self.events.get(seq.index())
    }

    /// The last event.
    #[must_use]
    pub fn last(&self) -> Option<&Arc<Event>> {
        self.events.last()
    }

    /// All events in order.
    pub fn events(&self) -> impl Iterator<Item = &Arc<Event>> + '_ {
        self.events.iter()
    }

    /// The events from an offset to the end.
    pub fn events_from(&self, from: LogOffset) -> impl Iterator<Item = &Arc<Event>> + '_ {
        self.events.iter_from(from.index())
    }

    /// What the model sees, as a list of events.
    #[must_use]
    pub const fn surface(&self) -> &Surface {
        &self.folds.surface
    }

    /// What is open at the end.
    #[must_use]
    pub const fn open_tail(&self) -> &OpenTail {
        &self.folds.open
    }

    /// Input that no turn has claimed.
    #[must_use]
    pub const fn pending_input(&self) -> &PendingInput {
        &self.folds.input
    }

    /// What a person should know about the log, in the order of the events that show it.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> + '_ {
        self.folds.findings.iter()
    }

    /// The last `request/header`: configuration and tools of the requests that follow.
    #[must_use]
    pub fn request_header(&self) -> Option<&Arc<Event>> {
        self.folds.request_header.and_then(|seq| self.get(seq))
    }

    /// The last `request/context`.
    #[must_use]
    pub fn request_context(&self) -> Option<&Arc<Event>> {
        self.folds.request_context.and_then(|seq| self.get(seq))
    }

    /// The last `session/title`.
    #[must_use]
    pub fn title(&self) -> Option<&Arc<Event>> {
        self.folds.title.and_then(|seq| self.get(seq))
    }

    /// The number of the last turn that was started, 0 before the first. Counts through forks and restarts.
    #[must_use]
    pub const fn last_turn(&self) -> u64 {
        self.folds.last_turn
    }

    /// The last `session/end-seed` tagged `inherited`: its seq is the inherited cut.
    #[must_use]
    pub const fn inherited_marker(&self) -> Option<Seq> {
        self.folds.inherited_marker
    }

    /// The last message that makes the session a side session or an ordinary one again, inherited ones included.
    #[must_use]
    pub const fn side_mark(&self) -> Option<(Seq, SideMark)> {
        self.folds.side_mark
    }

    /// Whether it is a side session: the last such message is a framing.
    #[must_use]
    pub const fn is_side_session(&self) -> bool {
        matches!(self.folds.side_mark, Some((_, SideMark::Framing)))
    }

    /// The messages that the model sees, in surface order.
    ///
    /// Empty system, developer and assistant messages derive nothing, though their node keeps its place.
    pub fn messages(&self) -> impl Iterator<Item = DerivedMessage<'_>> + '_ {
        derive::messages(self, 0)
    }

    /// [`EventLog::messages`] of the nodes from a place of the surface on, counted from 0.
    pub fn messages_from(&self, place: usize) -> impl Iterator<Item = DerivedMessage<'_>> + '_ {
        derive::messages(self, place)
    }

    pub(crate) fn folds(&self) -> &Folds {
        &self.folds
    }
}
