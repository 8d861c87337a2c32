//! Which children are at work in the background, whose they are, and what was decided about them.
//!
//! A child has one place, and whoever holds it is the only one to make or end its agent:
//!
//! ```text
//!   (none) ── enter ──► being opened ── fill ──► at work ── empty ──► being told of ── drop ──► (none)
//! ```
//!
//! **Invariant:** the table is the last lock that is taken: nothing is called, and no handle on an agent goes, while it is held.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_session::SessionId;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::request::Mode;
use crate::agent::{Agent, Queue};
use crate::events::CancelCause;

/// The children that are at work in the background.
#[derive(Clone, Default)]
pub(super) struct Places(Arc<Shared>);

#[derive(Default)]
struct Shared {
    table: Mutex<Table>,
    changed: Notify,
}

#[derive(Default)]
struct Table {
    places: BTreeMap<SessionId, Place>,
    /// Sessions below which nothing begins any more. Each goes with the agent that was on it then.
    closing: BTreeMap<SessionId, CancellationToken>,
    entered: u64,
}

/// A child at work.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Unlike that of any other place, also a later one of the same child.
    pub(super) number: u64,
    /// Whose child it is, whose child that is, and so on, as far as they are live.
    pub(super) ancestors: Vec<SessionId>,
    pub(super) mode: Mode,
    pub(super) label: Option<String>,
    pub(super) is: Is,
    stop: Option<Stop>,
    /// Cancelled when it is to be closed.
    closing: CancellationToken,
}

/// What a child in its place is.
#[derive(Clone, Debug)]
pub(super) enum Is {
    /// Its agent is being made.
    BeingOpened,
    /// It has an agent.
    AtWork(Agent),
    /// It has come to rest, and its parent is being told.
    BeingToldOf,
}

/// Why a child stops that was not asked to by its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Somebody has stopped everything below a session. Its end wakes nobody; more input does wake it.
    Hushed(CancelCause),
    /// A session above it goes. What waits for it stays in its log.
    Closing,
}

impl Stop {
    /// Ends what an agent is doing.
    pub(super) fn apply(&self, agent: &Agent) {
        let (cause, queue) = match self {
            Self::Hushed(cause) => (cause.clone(), Queue::Clear),
            Self::Closing => (CancelCause::Disposed, Queue::Keep),
        };
        // What could not be taken off its queue waits there until somebody wakes it.
        let _unclear = agent.cancel(cause, queue);
    }
}

/// Why a child cannot have a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// It has one already.
    Taken,
    /// Its parent is gone or being closed, or was stopped.
    Stopped,
}

impl Table {
    fn stop_of(&self, id: &SessionId) -> Option<Stop> {
        let closing = self.closing.get(id);
        if closing.is_some_and(|agent| !agent.is_cancelled()) {
            return Some(Stop::Closing);
        }
        self.places.get(id).and_then(|place| place.stop.clone())
    }

    fn has_none_below(&self, id: &SessionId) -> bool {
        !self.places.values().any(|place| place.is_below(id))
    }
}

impl Place {
    pub(super) fn is_below(&self, id: &SessionId) -> bool {
        self.ancestors.contains(id)
    }

    /// Notes that it is stopped. `false`: it is being closed, and nothing else can become of it.
    fn takes(&mut self, stop: &Stop) -> bool {
        let takes = self.stop != Some(Stop::Closing);
        if takes {
            self.stop = Some(stop.clone());
        }
        takes
    }

    fn stop(&self, stop: &Stop) {
        if let Is::AtWork(agent) = &self.is {
            stop.apply(agent);
        }
        if *stop == Stop::Closing {
            self.closing.cancel();
        }
    }

    pub(super) const fn is_being_opened(&self) -> bool {
        matches!(self.is, Is::BeingOpened)
    }
}

impl Places {
    /// Takes the place of a child of `parent`; the first of `ancestors` is the session of that.
    pub(super) fn enter(
        &self,
        parent: &Agent,
        child: &SessionId,
        ancestors: Vec<SessionId>,
        mode: Mode,
        label: Option<String>,
    ) -> Result<Held, NoPlace> {
        let parent_gone = parent.disposal();
        let mut table = self.table();
        if table.places.contains_key(child) {
            return Err(NoPlace::Taken);
        }
        if parent_gone.is_cancelled() || table.stop_of(parent.session().id()).is_some() {
            return Err(NoPlace::Stopped);
        }
        table.entered += 1;
        let place = Place {
            number: table.entered,
            ancestors,
            mode,
            label,
            is: Is::BeingOpened,
            stop: None,
            closing: CancellationToken::new(),
        };
        let closing = place.closing.clone();
        table.places.insert(child.clone(), place);
        Ok(Held {
            places: self.clone(),
            child: child.clone(),
            closing,
        })
    }

    pub(super) fn get(&self, child: &SessionId) -> Option<Place> {
        self.table().places.get(child).cloned()
    }

    /// All that are below a session, those that are higher up first.
    pub(super) fn below(&self, id: &SessionId) -> Vec<(SessionId, Place)> {
        let mut below: Vec<_> = {
            let table = self.table();
            let all = table.places.iter();
            all.filter(|(_, place)| place.is_below(id))
                .map(|(child, place)| (child.clone(), place.clone()))
                .collect()
        };
        below.sort_by_key(|(_, place)| (place.ancestors.len(), place.number));
        below
    }

    pub(super) fn has_none_below(&self, id: &SessionId) -> bool {
        self.table().has_none_below(id)
    }

    /// Waits until nothing is below a session.
    pub(super) async fn none_below(&self, id: &SessionId) {
        self.until(|table| table.has_none_below(id)).await;
    }

    /// Waits until something has become of this place: its child has an agent, or the place is free or another's.
    pub(super) async fn changed(&self, child: &SessionId, then: &Place) {
        let waits = |now: &Place| {
            now.number == then.number && (now.is_being_opened() || !then.is_being_opened())
        };
        self.until(|table| !table.places.get(child).is_some_and(waits))
            .await;
    }

    /// Whether a session was stopped or is being closed: nothing wakes it by itself.
    pub(super) fn is_stopped(&self, id: &SessionId) -> bool {
        self.table().stop_of(id).is_some()
    }

    /// Stops the agent of a child again that was stopped, if it was.
    pub(super) fn stop_again(&self, child: &SessionId, agent: &Agent) {
        let stop = {
            let table = self.table();
            let place = table.places.get(child);
            place.and_then(|place| place.stop.clone())
        };
        if let Some(stop) = stop {
            stop.apply(agent);
        }
    }

    /// Somebody has more for a child that was stopped. `false`: it is being closed, and nobody has.
    pub(super) fn rouse(&self, child: &SessionId) -> bool {
        let mut table = self.table();
        let Some(place) = table.places.get_mut(child) else {
            return true;
        };
        if place.stop == Some(Stop::Closing) {
            return false;
        }
        place.stop = None;
        true
    }

    /// Stops all that are below a session. What is being opened is stopped when it has an agent.
    pub(super) fn stop_below(&self, id: &SessionId, stop: &Stop) {
        let mut stopped: Vec<Place> = {
            let mut table = self.table();
            let below = table.places.values_mut();
            below
                .filter(|place| place.is_below(id))
                .filter_map(|place| place.takes(stop).then(|| place.clone()))
                .collect()
        };
        // Whoever could begin something goes first.
        stopped.sort_by_key(|place| place.ancestors.len());
        for place in &stopped {
            place.stop(stop);
        }
    }

    /// Lets nothing begin any more below a session, for as long as its present agent exists, and closes what is there.
    pub(super) fn close_below(&self, id: &SessionId, agent: Option<&Agent>) {
        let disposal = agent.map(Agent::disposal);
        {
            let mut table = self.table();
            table.closing.retain(|_, agent| !agent.is_cancelled());
            if let Some(disposal) = disposal {
                table.closing.insert(id.clone(), disposal);
            }
        }
        self.stop_below(id, &Stop::Closing);
    }

    async fn until(&self, is_so: impl Fn(&Table) -> bool) {
        loop {
            let mut changed = pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if is_so(&self.table()) {
                return;
            }
            changed.await;
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing panics between two changes of the table.
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, child: &SessionId, is: Is) -> Option<Stop> {
        let (old, stop) = {
            let mut table = self.table();
            let place = table.places.get_mut(child);
            let place =
                place.expect("BUG: the place of a child is there for as long as it is held");
            (std::mem::replace(&mut place.is, is), place.stop.clone())
        };
        // A handle may be the last one, and takes other locks when it goes.
        drop(old);
        self.0.changed.notify_waiters();
        stop
    }
}

/// The place of a child. It is free when this goes.
pub(super) struct Held {
    places: Places,
    child: SessionId,
    closing: CancellationToken,
}

impl Held {
    /// The child has an agent, and is stopped if somebody has wanted that meanwhile.
    pub(super) fn fill(&self, agent: &Agent) {
        if let Some(stop) = self.places.change(&self.child, Is::AtWork(agent.clone())) {
            stop.apply(agent);
        }
    }

    /// The child has none any more.
    pub(super) fn empty(&self) {
        let _stopped = self.places.change(&self.child, Is::BeingToldOf);
    }

    /// Whether it was stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.places.is_stopped(&self.child)
    }

    /// Cancelled when it is to be closed.
    pub(super) const fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Stops it for good, and everything below it.
    pub(super) fn close(&self) {
        let place = {
            let mut table = self.places.table();
            let place = table.places.get_mut(&self.child);
            place.and_then(|place| place.takes(&Stop::Closing).then(|| place.clone()))
        };
        if let Some(place) = place {
            place.stop(&Stop::Closing);
        }
        self.places.stop_below(&self.child, &Stop::Closing);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let gone = self.places.table().places.remove(&self.child);
        drop(gone);
        self.places.0.changed.notify_waiters();
    }
}

impl fmt::Debug for Places {
    /// Without what is in it: an agent takes locks to say how it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let children: Vec<_> = self.table().places.keys().cloned().collect();
        f.debug_tuple("Places").field(&children).finish()
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.child).finish()
    }
}
