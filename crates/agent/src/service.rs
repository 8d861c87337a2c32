//! Sessions as a front end sees them: create, open, read, fork, list.
//!
//! One service for every front end. It owns what is live in this process and the store behind it.

use std::sync::Arc;

use offshoot_model::ScriptModel;
use offshoot_session::{
    EventLog, ForkError, ForkSeed, LiveSession, Seq, SessionHeader, SessionId, SessionStore,
    build_fork_seed,
};
use offshoot_store::{
    Page, Persistence, Prefix, Query, ReadSession, Repair, SessionWriter, StoreError, StoredFork,
    WriterThread,
};
use offshoot_tool_api::ToolRegistry;

use crate::AgentError;
use crate::agent::Agent;
use crate::changes::{ChangedFiles, changed_after};
use crate::context::ForkOrigin;
use crate::core::Core;
use crate::driver::Driver;
use crate::env::Env;
use crate::recorder::{Recording, UnstoredListener};
use crate::registry::{OnSession, Registry};
use crate::setup::{AgentConfig, AgentSetup};
use crate::titles;

/// A live session with its writer: what an agent is put on.
///
/// The session is live for as long as this, or the agent made of it, exists. Then the file is unlocked and can be opened
/// again.
#[derive(Debug)]
pub struct Attached {
    pub(crate) live: Live,
    pub(crate) writer: Box<dyn SessionWriter>,
    pub(crate) recording: Recording,
    pub(crate) registry: Arc<Registry>,
    pub(crate) origin: Box<ForkOrigin>,
}

/// Keeps a session in the store of live ones; it leaves with this.
#[derive(Debug)]
pub(crate) struct Live {
    store: Arc<SessionStore>,
    persistence: Arc<dyn Persistence>,
    pub(crate) session: LiveSession,
}

impl Live {
    /// Leaves word of what is stored, for lists and forks to come. Everything is, and the writer is there.
    pub(crate) fn note(&self, shareable: &Prefix) {
        self.persistence.note(&self.session.lock(), shareable);
    }

    /// A session of the same store, as it is stored.
    pub(crate) fn read(&self, id: &SessionId) -> Option<ReadSession> {
        self.persistence.read(id).ok()
    }

    pub(crate) fn is_in(&self, store: &Arc<SessionStore>) -> bool {
        Arc::ptr_eq(&self.store, store)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.store.detach(&self.session);
    }
}

impl Attached {
    /// The session.
    #[must_use]
    pub const fn session(&self) -> &LiveSession {
        &self.live.session
    }

    /// Stores what has happened in it so far.
    ///
    /// # Errors
    /// Storage failed; then none of it is stored.
    pub(crate) fn store(&mut self) -> Result<(), AgentError> {
        let log = self.live.session.log();
        let new: Vec<_> = log.events_from(self.writer.stored()).cloned().collect();
        self.writer.append(&new)?;
        self.live.note(&self.writer.shareable());
        Ok(())
    }
}

/// A session that was opened to go on with it.
#[derive(Debug)]
pub struct Opened {
    /// The session.
    pub attached: Attached,
    /// What had to be repaired.
    pub repair: Option<Repair>,
}

/// What is known of a session that somebody wants to go on with.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, and it is taken apart at once"
)]
pub enum Found {
    /// An agent of this process is on it.
    Agent(Agent),
    /// It was opened.
    Opened(Opened),
}

/// A fork, not stored yet.
#[derive(Clone, Debug)]
pub struct Fork {
    /// The child's header.
    pub header: SessionHeader,
    /// The last inherited event.
    pub cut: Seq,
    /// The child's log.
    pub seed: ForkSeed,
    /// What of it is stored already.
    pub shareable: Prefix,
    /// What the source has done to files behind the cut: the fork does not remember it and finds it all the same.
    pub changed: ChangedFiles,
}

/// The sessions of one home. Clones are the same service.
#[derive(Clone, Debug)]
pub struct SessionService {
    persistence: Arc<dyn Persistence>,
    live: Arc<SessionStore>,
    pub(crate) env: Env,
    recording: Recording,
    agents: Arc<Registry>,
}

impl SessionService {
    /// A service over a store.
    #[must_use]
    pub fn new(persistence: Arc<dyn Persistence>, env: Env) -> Self {
        Self {
            persistence,
            live: Arc::new(SessionStore::new()),
            env,
            recording: Recording::default(),
            agents: Arc::default(),
        }
    }

    /// Writes sessions on a thread that others may share. Without this the service has its own.
    #[must_use]
    pub fn writing_on(mut self, thread: WriterThread) -> Self {
        self.recording.thread = thread;
        self
    }

    /// Tells `listener` of what could not be stored when nobody waits for it. Without one, only the next flush says so.
    #[must_use]
    pub fn on_unstored(mut self, listener: UnstoredListener) -> Self {
        self.recording.on_unstored = Some(listener);
        self
    }

    /// A new session. Nothing is stored before something happens in it.
    ///
    /// # Errors
    /// A taken id, or one that cannot be stored.
    pub fn create(&self, cwd: Option<String>) -> Result<Attached, AgentError> {
        let header = SessionHeader::new(self.fresh_id(), self.created_now());
        self.create_as(SessionHeader { cwd, ..header })
    }

    /// A new session with a header that was made for it.
    pub(crate) fn create_as(&self, header: SessionHeader) -> Result<Attached, AgentError> {
        let writer = self.persistence.create(&header)?;
        let session = self.live.create(header, None, self.env.now())?;
        Ok(self.attach(session, writer))
    }

    /// Opens a stored session to go on with it, repairing what a crash has left.
    ///
    /// # Errors
    /// `SESSION_LIVE`: it is open in this process. See [`Persistence::open`] for others.
    pub fn open(&self, id: &SessionId) -> Result<Opened, AgentError> {
        self.check_not_live(id)?;
        let opened = self.persistence.open(id, self.env.now())?;
        let session = self.live.enter(self.live.adopt(opened.session)?)?;
        self.live.announce(&session)?;
        Ok(Opened {
            attached: self.attach(session, opened.writer),
            repair: opened.repair,
        })
    }

    pub(crate) fn check_not_live(&self, id: &SessionId) -> Result<(), AgentError> {
        match self.live.get(id) {
            None => Ok(()),
            Some(_) => Err(AgentError::Live(id.clone())),
        }
    }

    /// The agent that is on a session, or else the session, opened.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn find_or_open(&self, id: &SessionId) -> Result<Found, AgentError> {
        match self.agent(id) {
            Some(agent) => Ok(Found::Agent(agent)),
            None => self.open(id).map(Found::Opened),
        }
    }

    /// The agent that is on a session of this service, if one is.
    #[must_use]
    pub fn agent(&self, id: &SessionId) -> Option<Agent> {
        self.agents.get(id)
    }

    /// All agents on sessions of this service, in the order of their ids.
    #[must_use]
    pub fn agents(&self) -> Vec<Agent> {
        self.agents.list()
    }

    /// Calls a stored session what a person wants it called.
    ///
    /// # Errors
    /// As [`Self::open`] and [`titles::rename`]; storage that failed.
    pub fn rename(&self, id: &SessionId, title: &str) -> Result<(), AgentError> {
        if let Some(agent) = self.agent(id) {
            return agent.rename(title);
        }
        self.change_stored(id, |core| {
            titles::rename(&core.session, title, self.env.now()).map(drop)
        })
    }

    /// Opens a stored session, changes something about it, durably, and closes it. No turn can run meanwhile.
    pub(crate) fn change_stored<T>(
        &self,
        id: &SessionId,
        change: impl FnOnce(&Core) -> Result<T, AgentError>,
    ) -> Result<T, AgentError> {
        // Nobody calls this model: a driver that is not run only keeps what it was put on.
        let nobody = Arc::new(ScriptModel::new("none", Vec::new()));
        let config = AgentConfig::new("none", "none");
        let setup = AgentSetup::new(nobody, ToolRegistry::new(), config, self.env.clone());
        let driver = Driver::new(self.open(id)?.attached, setup);
        let changed = change(&driver.core)?;
        driver.flush()?;
        Ok(changed)
    }

    /// Reads a stored session. Writes nothing and takes no lock.
    ///
    /// # Errors
    /// See [`Persistence::read`].
    pub fn read(&self, id: &SessionId) -> Result<ReadSession, StoreError> {
        self.persistence.read(id)
    }

    /// What is stored, as it is known now. One bad file never hides another.
    ///
    /// # Errors
    /// See [`Persistence::list`].
    pub fn list(&self, query: &Query) -> Result<Page, StoreError> {
        self.persistence.list(&Query {
            now: self.env.now(),
            ..query.clone()
        })
    }

    /// Prepares a fork of a stored session. `at` is the last inherited event; without it the cut is the last completed
    /// turn with its independent tail.
    ///
    /// Closers that a reader adds in memory are nobody's history and no cut. What an answer had come to when its process ended
    /// is one: whoever goes on with the source stores that very event. The source is only read, so it may be running elsewhere
    /// meanwhile.
    ///
    /// # Errors
    /// A cut that is not an event of the source, or an answer that is still coming in; no completed turn to cut at.
    pub fn prepare_fork(
        &self,
        source: &ReadSession,
        at: Option<Seq>,
        child: Option<SessionId>,
    ) -> Result<Fork, AgentError> {
        let stored = &source.stored;
        if let Some(seq) = at.filter(|at| source.settled == Some(*at))
            && let Some(last) = seq.before().last()
            && self.persistence.is_being_written(&stored.header.id)
        {
            return Err(AgentError::StillStreaming { seq, last });
        }
        self.cut(&stored.header, &stored.log, &source.shareable, at, child)
    }

    /// Prepares a fork of a session that an agent of this process has open, at any event of it as it is now. What the cut
    /// inherits is made durable first, so that the fork can share it; the agent may go on meanwhile, also with an answer,
    /// which is no event before it is complete.
    ///
    /// # Errors
    /// As [`Self::prepare_fork`]; an agent that is not on a session of this service, or no longer; storage that failed.
    pub async fn prepare_fork_of<'a>(
        &self,
        source: impl Into<OnSession<'a>>,
        at: Option<Seq>,
        child: Option<SessionId>,
    ) -> Result<Fork, AgentError> {
        let (header, log, shareable) = self.as_stored(source.into()).await?;
        self.cut(&header, &log, &shareable, at, child)
    }

    /// A session that an agent has open, as it is now, with everything of it durable.
    pub(crate) async fn as_stored(
        &self,
        OnSession(core): OnSession<'_>,
    ) -> Result<(SessionHeader, EventLog, Prefix), AgentError> {
        if !core.is_in(&self.live) {
            return Err(ForkError::SessionNotLive(core.session.id().clone()).into());
        }
        let (header, log) = {
            let session = core.session.lock();
            (session.header().clone(), session.log().clone())
        };
        core.recorder.flush().await?;
        Ok((header, log, core.recorder.shareable()))
    }

    fn cut(
        &self,
        header: &SessionHeader,
        log: &EventLog,
        shareable: &Prefix,
        at: Option<Seq>,
        child: Option<SessionId>,
    ) -> Result<Fork, AgentError> {
        let Some(cut) = at.or_else(|| log.latest_completed_boundary()) else {
            return Err(ForkError::ForkUnavailable(header.id.clone()).into());
        };
        self.fork_at(header, log, shareable, cut, child)
    }

    pub(crate) fn fork_at(
        &self,
        header: &SessionHeader,
        log: &EventLog,
        shareable: &Prefix,
        cut: Seq,
        child: Option<SessionId>,
    ) -> Result<Fork, AgentError> {
        Ok(Fork {
            seed: build_fork_seed(log, cut)?,
            header: self.header_of_fork(header, child),
            cut,
            shareable: shareable.cut(cut.after()),
            changed: changed_after(log, cut, header.cwd.as_deref()),
        })
    }

    pub(crate) fn header_of_fork(
        &self,
        source: &SessionHeader,
        child: Option<SessionId>,
    ) -> SessionHeader {
        let child = child.unwrap_or_else(|| self.fresh_id());
        source.forked(child, self.created_now())
    }

    /// Forks a stored session without reading it, where that can be done; `None` leaves it to [`Self::prepare_fork`].
    ///
    /// # Errors
    /// See [`Persistence::fork_unread`].
    pub fn fork_unread(
        &self,
        source: &SessionId,
        at: Option<Seq>,
        child: Option<SessionId>,
    ) -> Result<Option<StoredFork>, StoreError> {
        let child = child.unwrap_or_else(|| self.fresh_id());
        self.persistence
            .fork_unread(source, at, &child, self.created_now())
    }

    /// Stores a fork: header, prefix, marker and closers appear together.
    ///
    /// # Errors
    /// A taken id, or storage that failed; then there is no child.
    pub fn store_fork(&self, fork: &Fork) -> Result<Attached, AgentError> {
        let session =
            self.live
                .create(fork.header.clone(), Some(fork.seed.clone()), self.env.now())?;
        // Leaves the store again if the file cannot be written.
        let live = self.keep(session);
        let writer = self
            .persistence
            .fork(&fork.header, &fork.seed, &fork.shareable)?;
        live.note(&writer.shareable());
        Ok(Attached {
            live,
            writer,
            recording: self.recording.clone(),
            registry: Arc::clone(&self.agents),
            origin: Box::new(ForkOrigin::Known {
                cut: fork.cut,
                changed: Arc::new(fork.changed.clone()),
            }),
        })
    }

    fn attach(&self, session: LiveSession, writer: Box<dyn SessionWriter>) -> Attached {
        let origin = Box::new(ForkOrigin::of(&session.header(), &session.log()));
        Attached {
            live: self.keep(session),
            writer,
            recording: self.recording.clone(),
            registry: Arc::clone(&self.agents),
            origin,
        }
    }

    fn keep(&self, session: LiveSession) -> Live {
        Live {
            store: Arc::clone(&self.live),
            persistence: Arc::clone(&self.persistence),
            session,
        }
    }

    /// The header of a new session below another one, from which it inherits no event.
    pub(crate) fn header_below(&self, parent: &SessionHeader) -> SessionHeader {
        SessionHeader {
            is_seeded: false,
            ..parent.forked(self.fresh_id(), self.created_now())
        }
    }

    /// Takes back a session that was created in vain.
    pub(crate) fn discard(&self, attached: Attached) {
        let id = attached.session().id().clone();
        drop(attached);
        // One without an event was never stored; one that cannot be taken away is harmless.
        let _remains = self.persistence.delete(&id, self.env.now());
    }

    fn created_now(&self) -> u64 {
        u64::try_from(self.env.now()).unwrap_or(0)
    }

    fn fresh_id(&self) -> SessionId {
        SessionId::new(format!("session-{}", self.env.fresh_id()))
    }
}
