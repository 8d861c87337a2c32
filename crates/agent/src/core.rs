//! What a driver and the handle on it share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use offshoot_model::{CallConfig, Model};
use offshoot_session::LiveSession;

use crate::env::Env;
use crate::live::LiveStream;
use crate::notices::{AgentObserver, Notice};
use crate::recorder::Recorder;
use crate::service::Live;

pub(crate) struct Core {
    pub(crate) session: LiveSession,
    /// Ahead of `live`: a session is live for as long as its file lags behind.
    pub(crate) recorder: Recorder,
    /// Takes the session out of the store when the agent goes.
    live: Live,
    pub(crate) env: Env,
    observer: Option<Arc<dyn AgentObserver>>,
    pub(crate) stream: LiveStream,
    route: Mutex<Route>,
}

/// Which model is called from the next request on, and how.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) call: CallConfig,
}

impl Core {
    pub(crate) fn new(
        recorder: Recorder,
        live: Live,
        env: Env,
        observer: Option<Arc<dyn AgentObserver>>,
        route: Route,
    ) -> Self {
        let session = live.session.clone();
        let stream = LiveStream::new(session.id().clone());
        Self {
            session,
            recorder,
            live,
            env,
            observer,
            stream,
            route: Mutex::new(route),
        }
    }

    pub(crate) fn notify(&self, notice: &Notice<'_>) {
        if let Some(observer) = &self.observer {
            // Whoever watches must not be able to break what they watch.
            let _panic = catch_unwind(AssertUnwindSafe(|| observer.notice(notice)));
        }
    }

    pub(crate) fn route(&self) -> Route {
        let route = self.route.lock().unwrap_or_else(PoisonError::into_inner);
        route.clone()
    }

    pub(crate) fn set_route(&self, route: Route) {
        *self.route.lock().unwrap_or_else(PoisonError::into_inner) = route;
    }
}

impl Drop for Core {
    /// Stores what is queued, and leaves word of it. What cannot be stored is tried once more, and told, when the recorder
    /// goes.
    fn drop(&mut self) {
        if !self.session.log().is_empty() && self.recorder.flush_blocking().is_ok() {
            self.live.note(&self.recorder.shareable());
        }
    }
}
