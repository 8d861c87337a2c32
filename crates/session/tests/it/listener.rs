//! A listener of a store that writes down what it hears.

use std::sync::{Arc, Mutex, Weak};

use offshoot_session::{
    Event, EventDraft, EventKind, LiveSession, SessionId, SessionStore, StoreListener,
};
use serde_json::json;

/// Writes down what it hears, and does what it was told.
#[derive(Default)]
pub(crate) struct Listener {
    pub(crate) name: &'static str,
    pub(crate) heard: Arc<Mutex<Vec<String>>>,
    pub(crate) veto: bool,
    pub(crate) fail_events: bool,
    pub(crate) flush: Option<Result<bool, String>>,
    /// Detaches the session while being told of this.
    pub(crate) detach_on: Option<(&'static str, Weak<SessionStore>)>,
}

impl Listener {
    fn hear(&self, what: String) {
        self.heard
            .lock()
            .unwrap()
            .push(format!("{}{what}", self.name));
    }

    fn detach(&self, moment: &str, id: &SessionId) {
        if let Some((on, store)) = &self.detach_on
            && *on == moment
        {
            let store = store.upgrade().unwrap();
            let session = store.get(id).unwrap();
            self.hear(format!("detach {}", store.detach(&session)));
        }
    }
}

impl StoreListener for Listener {
    fn created(&self, session: &LiveSession) -> Result<(), String> {
        self.hear(format!(
            "created {} of {}",
            session.id(),
            session.log().end()
        ));
        self.detach("created", session.id());
        if self.veto {
            Err("not here".to_owned())
        } else {
            Ok(())
        }
    }

    fn disposed(&self, id: &SessionId) {
        self.hear(format!("disposed {id}"));
    }

    fn event(&self, id: &SessionId, event: &Arc<Event>) -> Result<(), String> {
        self.hear(format!("event {id} {}", event.seq()));
        self.detach("event", id);
        if self.fail_events {
            Err(format!("{}full", self.name))
        } else {
            Ok(())
        }
    }

    fn flush(&self, session: &LiveSession) -> Result<bool, String> {
        self.hear(format!("flush {}", session.id()));
        self.flush.clone().unwrap_or(Ok(false))
    }
}

pub(crate) fn listening(listeners: Vec<Listener>) -> (Arc<SessionStore>, Arc<Mutex<Vec<String>>>) {
    let store = Arc::new(SessionStore::new());
    let heard = Arc::new(Mutex::new(Vec::new()));
    for listener in listeners {
        store.listen(Arc::new(Listener {
            heard: Arc::clone(&heard),
            ..listener
        }));
    }
    (store, heard)
}

pub(crate) fn take(heard: &Mutex<Vec<String>>) -> Vec<String> {
    std::mem::take(&mut heard.lock().unwrap())
}

pub(crate) fn fact() -> EventDraft {
    EventDraft::log_only(EventKind::FeedbackRecord, &json!({"text": "fact"})).unwrap()
}

pub(crate) fn ids(store: &SessionStore) -> Vec<String> {
    store
        .list()
        .iter()
        .map(|session| session.id().to_string())
        .collect()
}
