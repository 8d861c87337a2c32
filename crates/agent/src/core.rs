//! What a driver and the handle on it share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_model::{CallConfig, Model};
use offshoot_session::{EventKind, LiveSession, LogOffset, SessionId, SessionStore};
use offshoot_store::ReadSession;

use crate::AgentError;
use crate::compaction::OpenCompaction;
use crate::env::Env;
use crate::events::{TurnStart, logged};
use crate::feed::Feed;
use crate::inbox::Said;
use crate::notices::{AgentObserver, Notice};
use crate::permission::ToolFilter;
use crate::recorder::Recorder;
use crate::service::Live;
use crate::titles::Titling;

pub(crate) struct Core {
    pub(crate) session: LiveSession,
    /// Ahead of `live`: a session is live for as long as its file lags behind.
    pub(crate) recorder: Recorder,
    /// Takes the session out of the store when the agent goes; `None` when that was done.
    live: Mutex<Option<Live>>,
    pub(crate) env: Env,
    pub(crate) feed: Arc<Feed>,
    pub(crate) titling: Titling,
    /// Which tools the agent may use.
    pub(crate) tool_filter: ToolFilter,
    route: Mutex<Route>,
    /// Taken with the session held.
    said: Mutex<Said>,
    pub(crate) compaction: OpenCompaction,
}

/// Which model is called from the next request on, and how.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) call: CallConfig,
    /// How often somebody has chosen before.
    pub(crate) choice: u64,
}

/// A turn whose start is in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenedTurn {
    pub(crate) turn: u64,
    /// Where its `turn/start` is.
    pub(crate) start: LogOffset,
}

impl Core {
    pub(crate) fn new(
        recorder: Recorder,
        live: Live,
        env: Env,
        observer: Option<Arc<dyn AgentObserver>>,
        tool_filter: ToolFilter,
        route: Route,
    ) -> Self {
        let session = live.session.clone();
        let feed = Feed::new(session.id().clone(), observer);
        Self {
            session,
            recorder,
            live: Mutex::new(Some(live)),
            env,
            feed: Arc::new(feed),
            titling: Titling::default(),
            tool_filter,
            route: Mutex::new(route),
            said: Mutex::default(),
            compaction: OpenCompaction::default(),
        }
    }

    pub(crate) fn notify(&self, notice: Notice) {
        self.feed.notify(notice);
    }

    pub(crate) fn route(&self) -> Route {
        let route = self.route.lock().unwrap_or_else(PoisonError::into_inner);
        route.clone()
    }

    pub(crate) fn set_route(&self, model: Arc<dyn Model>, call: CallConfig) {
        let mut route = self.route.lock().unwrap_or_else(PoisonError::into_inner);
        let choice = route.choice + 1;
        *route = Route {
            model,
            call,
            choice,
        };
    }

    /// A session as it is stored, if it can be read.
    pub(crate) fn read_stored(&self, id: &SessionId) -> Option<ReadSession> {
        self.live().as_ref()?.read(id)
    }

    /// Logs the start of the next turn. `None` if one is open that somebody has abandoned: that has to be closed first.
    pub(crate) fn open_turn(&self) -> Result<Option<OpenedTurn>, AgentError> {
        let mut session = self.session.lock();
        session.log().continuable()?;
        if session.log().open_tail().turn().is_some() {
            return Ok(None);
        }
        self.compaction.close(&mut session, self.env.now())?;
        let (turn, start) = (session.log().last_turn() + 1, session.log().end());
        let draft = logged(EventKind::TurnStart, &TurnStart { turn });
        session.append(draft, self.env.now())?;
        Ok(Some(OpenedTurn { turn, start }))
    }

    /// Whether input waits.
    pub(crate) fn has_input(&self) -> bool {
        !self.session.lock().log().pending_input().is_empty()
    }

    /// Makes everything durable, gives up the file, and takes the session out of the store. Nothing may be going on.
    pub(crate) async fn close(&self) -> Result<(), AgentError> {
        let stored = self.store_all().await;
        let closed = self.recorder.close().await;
        let live = self.live().take();
        drop(live);
        self.feed.close();
        stored.and(closed)
    }

    async fn store_all(&self) -> Result<(), AgentError> {
        // Nobody lists or forks a session in which nothing has happened.
        if self.session.lock().log().is_empty() {
            return Ok(());
        }
        self.recorder.flush().await?;
        if let Some(live) = &*self.live() {
            live.note(&self.recorder.shareable());
        }
        Ok(())
    }

    /// Whether the session is live in this store.
    pub(crate) fn is_in(&self, store: &Arc<SessionStore>) -> bool {
        self.live().as_ref().is_some_and(|live| live.is_in(store))
    }

    pub(crate) fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> MutexGuard<'_, Option<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Core {
    /// Stores what is queued, and leaves word of it. What cannot be stored is tried once more, and told, when the recorder
    /// goes.
    fn drop(&mut self) {
        if let Some(live) = &*self.live()
            && !self.session.lock().log().is_empty()
            && self.recorder.flush_blocking().is_ok()
        {
            live.note(&self.recorder.shareable());
        }
        self.feed.close();
    }
}
