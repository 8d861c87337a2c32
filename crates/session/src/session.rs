//! A session: a header, a log, and the numbers that say which part of the log is whose.

use std::fmt;
use std::sync::Arc;

use crate::body::Body;
use crate::closers::CloseCause;
use crate::event::{EventDraft, RowOrder};
use crate::fork::{ForkError, ForkSeed, build_fork_seed, end_seed};
use crate::log::LogError;
use crate::{Event, EventLog, LogOffset, Seq, SessionHeader};

/// Why a header and a seed do not make a session (`reference/persistence.md` §4.2).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeedError {
    /// A header member is out of its domain.
    #[error("{0}")]
    Header(String),
    /// A seeded header without a seed.
    #[error("the header says that the session is seeded, but no seed was given")]
    SeedMissing,
    /// Only seeded sessions inherit.
    #[error(
        "the header says that the session is not seeded, but {0} inherited events were counted"
    )]
    UnexpectedInheritance(LogOffset),
    /// The count is longer than the log.
    #[error("{inherited} inherited events were counted in a seed of {end}")]
    CountBeyondSeed {
        /// The count.
        inherited: LogOffset,
        /// The length of the seed.
        end: LogOffset,
    },
    /// The seed of a new child is the inherited prefix alone, or has the child's marker right behind it.
    #[error("event {0} of the seed must be the `session/end-seed` that ends the inherited prefix")]
    MarkerMissing(Seq),
    /// The marker cannot be dated.
    #[error("the time {0} is not within ±(2^53 − 1)")]
    Time(i64),
    /// The cut is where the last tagged marker is.
    #[error(
        "the inherited prefix was counted up to {inherited}, but a later marker stands at {marker}"
    )]
    LaterMarker {
        /// The count.
        inherited: LogOffset,
        /// The last tagged marker.
        marker: Seq,
    },
}

/// Somebody who wants to know about every appended event, such as a writer or a view.
///
/// Called while the session is held: it must not call back into the session.
pub trait SessionObserver: Send {
    /// Whether an event may become part of the log: asked before it does. Whoever is asked later may still refuse it.
    ///
    /// # Errors
    /// Why not. The event is then refused, see [`LogError::Refused`].
    fn admit(&mut self, event: &Event) -> Result<(), String> {
        let _ = event;
        Ok(())
    }

    /// Takes notice of an event that is in the log now.
    ///
    /// # Errors
    /// A failure is kept in [`Session::take_observer_failures`]; it changes nothing about the event.
    fn event(&mut self, event: &Arc<Event>) -> Result<(), String>;
}

/// An observer that failed, on which event and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObserverFailure {
    /// The event that is in the log all the same.
    pub seq: Seq,
    /// What the observer said.
    pub reason: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lifecycle {
    Fresh,
    Restored,
}

/// A conversation: its header and its append-only log.
pub struct Session {
    header: SessionHeader,
    log: EventLog,
    inherited: LogOffset,
    first_live: LogOffset,
    first_lifecycle: LogOffset,
    observers: Vec<Box<dyn SessionObserver>>,
    failures: Vec<ObserverFailure>,
}

impl Session {
    /// A new session without history.
    ///
    /// # Errors
    /// An invalid header, or one that says that the session is seeded.
    pub fn new(header: SessionHeader) -> Result<Self, SeedError> {
        header.check().map_err(SeedError::Header)?;
        if header.is_seeded {
            return Err(SeedError::SeedMissing);
        }
        Ok(Self::assemble(
            header,
            EventLog::new(),
            LogOffset::START,
            LogOffset::START,
        ))
    }

    /// A new session that starts from a seed: a fork if the header is seeded, else a replay of the seed as its own.
    ///
    /// A fork made from the bare prefix gets its tagged marker here, a replay the untagged one; both dated `now` (ms
    /// since the epoch). A seed of [`build_fork_seed`] has its marker already.
    ///
    /// # Errors
    /// [`SeedError`], in the order of `reference/persistence.md` §4.2.
    pub fn from_seed(header: SessionHeader, seed: ForkSeed, now: i64) -> Result<Self, SeedError> {
        Self::construct(header, seed, Lifecycle::Fresh, now)
    }

    /// A session as it was stored, complete with any closers that it needed.
    ///
    /// Gains the untagged resume marker, dated `now` (ms since the epoch), unless it already ends in a marker.
    ///
    /// # Errors
    /// [`SeedError`], in the order of `reference/persistence.md` §4.2.
    pub fn restored(
        header: SessionHeader,
        log: EventLog,
        inherited: LogOffset,
        now: i64,
    ) -> Result<Self, SeedError> {
        Self::construct(
            header,
            ForkSeed { log, inherited },
            Lifecycle::Restored,
            now,
        )
    }

    /// A fork of this session, not yet in any store. `boundary` is the last inherited event; `None` takes the last
    /// event, so that an empty session gives an empty child.
    ///
    /// # Errors
    /// [`ForkError::InvalidBoundary`].
    pub fn fork_seed(&self, boundary: Option<Seq>) -> Result<ForkSeed, ForkError> {
        match boundary.or(self.log.end().last()) {
            None => Ok(ForkSeed::default()),
            Some(boundary) => build_fork_seed(&self.log, boundary),
        }
    }

    fn construct(
        header: SessionHeader,
        seed: ForkSeed,
        lifecycle: Lifecycle,
        now: i64,
    ) -> Result<Self, SeedError> {
        let ForkSeed { mut log, inherited } = seed;
        let first_live = log.end();
        header.check().map_err(SeedError::Header)?;
        if !header.is_seeded && inherited != LogOffset::START {
            return Err(SeedError::UnexpectedInheritance(inherited));
        }
        if inherited > first_live {
            return Err(SeedError::CountBeyondSeed {
                inherited,
                end: first_live,
            });
        }
        let is_end_seed = |event: &Arc<Event>, tagged: bool| match event.body() {
            Body::EndSeed { inherited } => *inherited || !tagged,
            _ => false,
        };
        let marked = log
            .get(inherited.seq())
            .is_some_and(|event| is_end_seed(event, true));
        let fork = lifecycle == Lifecycle::Fresh && header.is_seeded;
        if fork && inherited != first_live && !marked {
            return Err(SeedError::MarkerMissing(inherited.seq()));
        }
        if let Some(marker) = log.inherited_marker()
            && marked
            && marker != inherited.seq()
        {
            return Err(SeedError::LaterMarker { inherited, marker });
        }
        let needs_marker = if fork {
            !marked
        } else {
            !log.last().is_some_and(|event| is_end_seed(event, false))
        };
        if needs_marker {
            let marker = end_seed(log.end(), now, fork).map_err(|_| SeedError::Time(now))?;
            log.push(marker).expect("BUG: a marker fits any log");
        }
        let first_lifecycle = if fork { inherited } else { first_live };
        let mut session = Self::assemble(header, log, inherited, first_live);
        session.first_lifecycle = first_lifecycle;
        Ok(session)
    }

    fn assemble(
        header: SessionHeader,
        log: EventLog,
        inherited: LogOffset,
        first_live: LogOffset,
    ) -> Self {
        Self {
            header,
            log,
            inherited,
            first_live,
            first_lifecycle: first_live,
            observers: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &SessionHeader {
        &self.header
    }

    /// The log. Clone it for an immutable observation: that copies no event.
    #[must_use]
    pub const fn log(&self) -> &EventLog {
        &self.log
    }

    /// How many events were inherited from the parent. Durable: the last tagged marker stands right behind them.
    #[must_use]
    pub const fn inherited_event_count(&self) -> LogOffset {
        self.inherited
    }

    /// The length of the log that this object was made from. Nothing before it was ever published by this object.
    #[must_use]
    pub const fn first_live_seq(&self) -> LogOffset {
        self.first_live
    }

    /// Where this lifecycle's own work starts: for a new fork at its marker, for a restored session behind all it
    /// was restored from.
    #[must_use]
    pub const fn first_lifecycle_seq(&self) -> LogOffset {
        self.first_lifecycle
    }

    /// Whether the event is the session's own and not inherited.
    #[must_use]
    pub fn is_own(&self, seq: Seq) -> bool {
        seq >= self.inherited.seq() && seq < self.log.end().seq()
    }

    /// What this lifecycle itself produced: a new fork yields its marker and closers too, a restored session neither.
    pub fn lifecycle_events(&self) -> impl Iterator<Item = &Arc<Event>> + '_ {
        self.log.events_from(self.first_lifecycle)
    }

    /// The events that a client has not seen yet, which has seen everything up to `cursor`.
    pub fn events_after(&self, cursor: Option<Seq>) -> impl Iterator<Item = &Arc<Event>> + '_ {
        self.log
            .events_from(cursor.map_or(LogOffset::START, Seq::after))
    }

    /// Adds an event: admit, validate, fold, push, notify. `time` is in ms since the epoch.
    ///
    /// # Errors
    /// [`LogError`]; then nothing has changed and nobody was notified.
    pub fn append(&mut self, draft: EventDraft, time: i64) -> Result<Arc<Event>, LogError> {
        let event = draft
            .into_event(self.log.end().seq(), time, RowOrder::Append)
            .map_err(|source| LogError::Row {
                seq: self.log.end(),
                source,
            })?;
        self.push(event)
    }

    /// Answers every call of the open step that has no result, as a repair would: for a driver that has to close a step
    /// it could not finish. Dated `time`, in ms since the epoch.
    ///
    /// # Errors
    /// Never for a log that is valid; the type is that of [`Session::append`].
    pub fn answer_pending(&mut self, time: i64) -> Result<Vec<Arc<Event>>, LogError> {
        let tail = self.log.open_tail();
        let results = tail.results(self.log.end(), time, CloseCause::Interrupted);
        results.into_iter().map(|event| self.push(event)).collect()
    }

    fn push(&mut self, event: Event) -> Result<Arc<Event>, LogError> {
        for observer in &mut self.observers {
            observer.admit(&event).map_err(|reason| LogError::Refused {
                seq: event.seq(),
                reason,
            })?;
        }
        let event = Arc::clone(self.log.push(event)?);
        for observer in &mut self.observers {
            if let Err(reason) = observer.event(&event) {
                self.failures.push(ObserverFailure {
                    seq: event.seq(),
                    reason,
                });
            }
        }
        Ok(event)
    }

    /// Adds an observer of the events to come.
    pub fn observe(&mut self, observer: Box<dyn SessionObserver>) {
        self.observers.push(observer);
    }

    /// The failures of observers since the last call, for the owner to report.
    pub fn take_observer_failures(&mut self) -> Vec<ObserverFailure> {
        std::mem::take(&mut self.failures)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("header", &self.header)
            .field("events", &self.log.end())
            .field("inherited", &self.inherited)
            .field("first_live", &self.first_live)
            .field("first_lifecycle", &self.first_lifecycle)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log in which `i` stands for a tagged marker, `e` for an untagged one, and `.` for anything else.
    fn shape(shape: &str) -> EventLog {
        let mut log = EventLog::new();
        for letter in shape.chars() {
            let n = log.end();
            let row = format!(r#"{{"type":"todo/write","seq":{n},"time":1,"data":{{"n":1}}}}"#);
            let event = match letter {
                'i' => end_seed(n, 1, true),
                'e' => end_seed(n, 1, false),
                _ => Event::from_row(row),
            };
            log.push(event.unwrap()).unwrap();
        }
        log
    }

    fn shape_of(log: &EventLog) -> String {
        let letter = |event: &Arc<Event>| match event.body() {
            Body::EndSeed { inherited: true } => 'i',
            Body::EndSeed { inherited: false } => 'e',
            _ => '.',
        };
        log.events().map(letter).collect()
    }

    /// The seeds that only the crate itself can make: [`build_fork_seed`] always adds the marker.
    #[test]
    fn a_new_session_takes_the_bare_prefix_or_one_that_is_marked_at_its_end() {
        let missing = |n| Err(SeedError::MarkerMissing(Seq::new(n)));
        let later = |inherited, marker| {
            Err(SeedError::LaterMarker {
                inherited: LogOffset::new(inherited),
                marker: Seq::new(marker),
            })
        };
        for (is_seeded, seed, inherited, expected) in [
            (true, "..", 2, Ok(("..i", 2, 2))),
            (true, "..i", 3, Ok(("..ii", 3, 3))),
            (true, "..i", 2, Ok(("..i", 3, 2))),
            (true, "..i..", 2, Ok(("..i..", 5, 2))),
            (true, ".ii", 2, Ok((".ii", 3, 2))),
            (true, "..", 1, missing(1)),
            (true, "..e", 2, missing(2)),
            (true, "..i", 1, missing(1)),
            (true, ".ii", 1, later(1, 2)),
            (true, ".i.i", 1, later(1, 3)),
            (false, "", 0, Ok(("e", 0, 0))),
            (false, "..", 0, Ok(("..e", 2, 2))),
            (false, "..e", 0, Ok(("..e", 3, 3))),
            (false, "..i", 0, Ok(("..i", 3, 3))),
            (false, "..i.", 0, Ok(("..i.e", 4, 4))),
        ] {
            let header = SessionHeader {
                is_seeded,
                ..SessionHeader::new("s".into(), 1)
            };
            let seed = ForkSeed {
                log: shape(seed),
                inherited: LogOffset::new(inherited),
            };
            let found = Session::from_seed(header, seed, 7).map(|session| {
                let (live, lifecycle) = (session.first_live_seq(), session.first_lifecycle_seq());
                (shape_of(session.log()), live.get(), lifecycle.get())
            });
            let expected: Result<_, SeedError> =
                expected.map(|(shape, live, lifecycle)| (shape.to_owned(), live, lifecycle));
            assert_eq!(found, expected);
        }
    }
}
