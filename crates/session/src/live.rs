//! The in-memory store of live sessions (`reference/persistence.md` §8.1).
//!
//! A session is prepared, enters the store, and is announced: three moments, so that whoever builds an agent around it can
//! fail between them and leave no trace. [`SessionStore::create`] is all three.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::event::EventDraft;
use crate::fork::{ForkError, ForkSeed};
use crate::log::LogError;
use crate::session::{SeedError, Session, SessionObserver};
use crate::{Event, EventLog, Seq, SessionHeader, SessionId};

/// Why the store refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The id is taken by a live session.
    #[error("session `{0}` exists already")]
    SessionAlreadyExists(SessionId),
    /// The handle is of a session that this store does not hold, or no longer.
    #[error("session `{0}` is not live in this store")]
    SessionNotLive(SessionId),
    /// A session is announced once.
    #[error("session `{0}` was announced already")]
    AlreadyAnnounced(SessionId),
    /// Header and seed do not fit.
    #[error("session `{id}`: {source}")]
    Seed {
        /// The session that was to be.
        id: SessionId,
        /// What does not fit.
        source: SeedError,
    },
    /// A listener refused the new session.
    #[error("session `{id}` was refused: {reason}")]
    Vetoed {
        /// The session that was to be.
        id: SessionId,
        /// What the listener said.
        reason: String,
    },
    /// A listener could not flush.
    #[error("session `{id}` could not be flushed: {reason}")]
    Flush {
        /// The session.
        id: SessionId,
        /// What the listener said.
        reason: String,
    },
}

impl StoreError {
    /// The stable machine code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::SessionAlreadyExists(_) => "SESSION_ALREADY_EXISTS",
            Self::SessionNotLive(_) => "SESSION_NOT_LIVE",
            Self::AlreadyAnnounced(_) => "SESSION_ALREADY_ANNOUNCED",
            Self::Seed { .. } => "INVALID_SEED",
            Self::Vetoed { .. } => "SESSION_VETOED",
            Self::Flush { .. } => "FLUSH_FAILED",
        }
    }
}

/// Somebody who follows the sessions of a store.
pub trait StoreListener: Send + Sync {
    /// A session was announced. An error vetoes it: it is taken out again and everybody hears [`StoreListener::disposed`].
    ///
    /// # Errors
    /// The reason of the veto.
    fn created(&self, session: &LiveSession) -> Result<(), String> {
        let _ = session;
        Ok(())
    }

    /// An announced session has left the store.
    fn disposed(&self, id: &SessionId) {
        let _ = id;
    }

    /// An event was appended to an announced session, which is held meanwhile: do not call back into it.
    ///
    /// # Errors
    /// Kept in [`Session::take_observer_failures`]; the event stays.
    fn event(&self, id: &SessionId, event: &Arc<Event>) -> Result<(), String> {
        let _ = (id, event);
        Ok(())
    }

    /// Everything appended so far shall be durable on return. `Ok(false)` if this listener keeps nothing.
    ///
    /// # Errors
    /// Why it is not.
    fn flush(&self, session: &LiveSession) -> Result<bool, String> {
        let _ = session;
        Ok(false)
    }
}

/// A session that is built but not in the store. Dropping it leaves no trace.
#[must_use = "a prepared session is in no store until it enters one"]
#[derive(Debug)]
pub struct PreparedSession(Session);

/// A handle of a session that is, or was, in a store. Clones are the same session.
#[derive(Clone)]
pub struct LiveSession {
    id: SessionId,
    session: Arc<Mutex<Session>>,
}

impl LiveSession {
    /// The session's id.
    #[must_use]
    pub const fn id(&self) -> &SessionId {
        &self.id
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> SessionHeader {
        self.lock().header().clone()
    }

    /// An immutable observation of the log as it is now. Costs the same however long the log is.
    #[must_use]
    pub fn log(&self) -> EventLog {
        self.lock().log().clone()
    }

    /// Appends an event; see [`Session::append`].
    ///
    /// # Errors
    /// As [`Session::append`].
    pub fn append(&self, draft: EventDraft, time: i64) -> Result<Arc<Event>, LogError> {
        self.lock().append(draft, time)
    }

    /// Holds the session for a look or a change that must be one.
    pub fn lock(&self) -> MutexGuard<'_, Session> {
        // A panic of an observer leaves the log as valid as it was: every append is whole before anybody hears of it.
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.session, &other.session)
    }
}

impl fmt::Debug for LiveSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveSession").field(&self.id).finish()
    }
}

/// The source of a fork.
#[derive(Clone, Copy, Debug)]
pub enum ForkSource<'a> {
    /// The live session with this id.
    Id(&'a SessionId),
    /// Exactly this session.
    Live(&'a LiveSession),
}

/// What the store and the observers of its sessions share. An observer may outlive the store.
#[derive(Default)]
struct Shared {
    inner: Mutex<Inner>,
    listeners: Mutex<Vec<Arc<dyn StoreListener>>>,
}

#[derive(Default)]
struct Inner {
    entries: Vec<Entry>,
    entered: u64,
    minted: u64,
}

struct Entry {
    session: LiveSession,
    number: u64,
    announced: bool,
    /// How many announcements and events of the session are being told to listeners right now.
    dispatches: usize,
    /// Detached while something was being told; leaves when that is over.
    leaving: bool,
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listeners(&self) -> Vec<Arc<dyn StoreListener>> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Keeps a session in the store while listeners are told about it. `None` when it has left.
    fn dispatch(&self, number: u64) -> Option<Dispatch<'_>> {
        let mut inner = self.inner();
        inner.numbered(number)?.dispatches += 1;
        Some(Dispatch {
            shared: self,
            number,
        })
    }

    /// Takes a session out now, or, while something is being told about it, as soon as that is over.
    fn leave(&self, number: u64) {
        if let Some(entry) = self.inner().numbered(number) {
            entry.leaving = true;
        }
        self.settle(number);
    }

    fn settle(&self, number: u64) {
        let left = {
            let mut inner = self.inner();
            let leaves =
                |entry: &Entry| entry.number == number && entry.leaving && entry.dispatches == 0;
            let at = inner.entries.iter().position(leaves);
            at.map(|at| inner.entries.remove(at))
        };
        if let Some(Entry {
            session,
            announced: true,
            ..
        }) = left
        {
            for listener in self.listeners() {
                listener.disposed(&session.id);
            }
        }
    }
}

/// Something is being told about a session. Every listener hears it before any hears that the session is gone.
struct Dispatch<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Drop for Dispatch<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.shared.inner().numbered(self.number) {
            entry.dispatches -= 1;
        }
        self.shared.settle(self.number);
    }
}

impl Inner {
    fn entry(&mut self, session: &LiveSession) -> Option<&mut Entry> {
        self.entries
            .iter_mut()
            .find(|entry| entry.session.is(session))
    }

    fn numbered(&mut self, number: u64) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.number == number)
    }

    fn live(&self, id: &SessionId) -> Option<&LiveSession> {
        self.entries
            .iter()
            .map(|entry| &entry.session)
            .find(|session| session.id == *id)
    }
}

/// The live sessions of a process, in the order in which they entered.
#[derive(Default)]
pub struct SessionStore {
    shared: Arc<Shared>,
}

impl SessionStore {
    /// A store without sessions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a listener for what happens from now on, also to the sessions that are there already.
    pub fn listen(&self, listener: Arc<dyn StoreListener>) {
        self.shared
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(listener);
    }

    /// Prepares, enters and announces a session at once. `now` is in ms since the epoch.
    ///
    /// # Errors
    /// [`StoreError`]; then the store is as it was.
    pub fn create(
        &self,
        header: SessionHeader,
        seed: Option<ForkSeed>,
        now: i64,
    ) -> Result<LiveSession, StoreError> {
        let session = self.enter(self.prepare(header, seed, now)?)?;
        self.announce(&session)?;
        Ok(session)
    }

    /// Builds a session without putting it into the store.
    ///
    /// # Errors
    /// A taken id, or a header and seed that do not fit.
    pub fn prepare(
        &self,
        header: SessionHeader,
        seed: Option<ForkSeed>,
        now: i64,
    ) -> Result<PreparedSession, StoreError> {
        let id = header.id.clone();
        self.check_free(&id)?;
        let session = match seed {
            None => Session::new(header),
            Some(seed) => Session::from_seed(header, seed, now),
        };
        session
            .map(PreparedSession)
            .map_err(|source| StoreError::Seed { id, source })
    }

    /// Takes a session that was restored elsewhere as a prepared one.
    ///
    /// # Errors
    /// A taken id.
    pub fn adopt(&self, session: Session) -> Result<PreparedSession, StoreError> {
        self.check_free(&session.header().id)?;
        Ok(PreparedSession(session))
    }

    /// Puts a prepared session into the store. It can be found from now on; nobody has been told yet.
    ///
    /// # Errors
    /// An id that was taken meanwhile.
    pub fn enter(&self, prepared: PreparedSession) -> Result<LiveSession, StoreError> {
        let id = prepared.0.header().id.clone();
        let mut inner = self.inner();
        if inner.live(&id).is_some() {
            return Err(StoreError::SessionAlreadyExists(id));
        }
        let session = LiveSession {
            id,
            session: Arc::new(Mutex::new(prepared.0)),
        };
        inner.entered += 1;
        let number = inner.entered;
        inner.entries.push(Entry {
            session: session.clone(),
            number,
            announced: false,
            dispatches: 0,
            leaving: false,
        });
        Ok(session)
    }

    /// Tells the listeners of a session that has entered. Once.
    ///
    /// # Errors
    /// A stale handle, a second announcement, or the first veto, after which the session is out of the store again.
    pub fn announce(&self, session: &LiveSession) -> Result<(), StoreError> {
        let dispatch = match self.inner().entry(session) {
            None => return Err(StoreError::SessionNotLive(session.id.clone())),
            Some(entry) if entry.announced => {
                return Err(StoreError::AlreadyAnnounced(session.id.clone()));
            }
            Some(entry) => {
                entry.announced = true;
                entry.dispatches += 1;
                Dispatch {
                    shared: &self.shared,
                    number: entry.number,
                }
            }
        };
        session.lock().observe(Box::new(Forward {
            id: session.id.clone(),
            number: dispatch.number,
            store: Arc::downgrade(&self.shared),
        }));
        for listener in self.shared.listeners() {
            if let Err(reason) = listener.created(session) {
                self.shared.leave(dispatch.number);
                drop(dispatch);
                return Err(StoreError::Vetoed {
                    id: session.id.clone(),
                    reason,
                });
            }
        }
        Ok(())
    }

    /// Takes a session out of the store; its handles stay readable, and nobody hears of what they append. Returns whether
    /// it was in.
    ///
    /// Called by a listener that is just being told about the session, it takes effect when all have been told.
    pub fn detach(&self, session: &LiveSession) -> bool {
        let number = match self.inner().entry(session) {
            Some(entry) if !entry.leaving => entry.number,
            _ => return false,
        };
        self.shared.leave(number);
        true
    }

    /// The live session with this id.
    #[must_use]
    pub fn get(&self, id: &SessionId) -> Option<LiveSession> {
        self.inner().live(id).cloned()
    }

    /// All live sessions in the order in which they entered.
    #[must_use]
    pub fn list(&self) -> Vec<LiveSession> {
        self.inner()
            .entries
            .iter()
            .map(|entry| entry.session.clone())
            .collect()
    }

    /// Forks a live session. `boundary` is the last inherited event; `None` takes the **last event**, also inside a turn,
    /// and an empty source gives an empty child. The child takes working directory and parent, nothing else.
    ///
    /// # Errors
    /// A taken child id (checked first), an unknown or stale source, a boundary that is no event of the source.
    pub fn fork(
        &self,
        source: ForkSource<'_>,
        boundary: Option<Seq>,
        child: SessionId,
        now: u64,
    ) -> Result<LiveSession, ForkError> {
        if self.inner().live(&child).is_some() {
            return Err(ForkError::SessionAlreadyExists(child));
        }
        let source = match source {
            ForkSource::Id(id) => self
                .get(id)
                .ok_or_else(|| ForkError::SessionNotFound(id.clone()))?,
            ForkSource::Live(session) => match self.get(&session.id) {
                None => return Err(ForkError::SessionNotFound(session.id.clone())),
                Some(live) if live.is(session) => live,
                Some(_) => return Err(ForkError::SessionNotLive(session.id.clone())),
            },
        };
        let (header, seed) = {
            let source = source.lock();
            (
                source.header().forked(child, now),
                source.fork_seed(boundary)?,
            )
        };
        let time = i64::try_from(now).unwrap_or(i64::MAX);
        self.create(header, Some(seed), time)
            .map_err(|error| match error {
                StoreError::SessionAlreadyExists(id) => ForkError::SessionAlreadyExists(id),
                other => ForkError::Refused {
                    session: source.id.clone(),
                    reason: other.to_string(),
                },
            })
    }

    /// Makes everything appended so far durable, as far as anybody listens. Returns whether anybody did.
    ///
    /// # Errors
    /// A stale handle, or the first failure; every listener was asked all the same.
    pub fn flush(&self, session: &LiveSession) -> Result<bool, StoreError> {
        if self.inner().entry(session).is_none() {
            return Err(StoreError::SessionNotLive(session.id.clone()));
        }
        let mut failure = None;
        let mut listened = false;
        for listener in self.shared.listeners() {
            match listener.flush(session) {
                Ok(kept) => listened |= kept,
                Err(reason) => {
                    failure.get_or_insert(reason);
                }
            }
        }
        match failure {
            None => Ok(listened),
            Some(reason) => Err(StoreError::Flush {
                id: session.id.clone(),
                reason,
            }),
        }
    }

    /// A free id of the form `session-<n>`.
    #[must_use]
    pub fn mint_id(&self) -> SessionId {
        let mut inner = self.inner();
        loop {
            inner.minted += 1;
            let id = SessionId::new(format!("session-{}", inner.minted));
            if inner.live(&id).is_none() {
                return id;
            }
        }
    }

    fn check_free(&self, id: &SessionId) -> Result<(), StoreError> {
        match self.inner().live(id) {
            None => Ok(()),
            Some(_) => Err(StoreError::SessionAlreadyExists(id.clone())),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.shared.inner()
    }
}

impl fmt::Debug for SessionStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionStore")
            .field("sessions", &self.list())
            .finish_non_exhaustive()
    }
}

/// Carries a session's events to the listeners of its store, while it is in it.
struct Forward {
    id: SessionId,
    number: u64,
    store: Weak<Shared>,
}

impl SessionObserver for Forward {
    fn event(&mut self, event: &Arc<Event>) -> Result<(), String> {
        let Some(store) = self.store.upgrade() else {
            return Ok(());
        };
        let Some(_dispatch) = store.dispatch(self.number) else {
            return Ok(());
        };
        let mut failures = Vec::new();
        for listener in store.listeners() {
            failures.extend(listener.event(&self.id, event).err());
        }
        if failures.is_empty() {
            Ok(())
        } else {
            Err(failures.join("; "))
        }
    }
}
