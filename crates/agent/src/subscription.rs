//! Watching an agent at one's own pace.
//!
//! A subscriber gets a [`Snapshot`] and then everything that happens behind it, without a gap and without a repetition. Only
//! so much is kept for one that does not keep up: then it is told so and gets a new snapshot, and goes on behind that. It
//! never holds up the agent, nor keeps it alive.

use std::num::NonZeroUsize;
use std::sync::Arc;

use offshoot_session::{EventLog, LiveSession};
use offshoot_tool_api::PermissionQuestion;
use tokio::sync::Notify;

use crate::core::Core;
use crate::feed::{Feed, News};
use crate::live::LiveAnswer;
use crate::notices::{AgentStatus, Notice};

/// What there is at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The log. Its later events are read from the session; a notice says when to look.
    pub log: EventLog,
    /// Whether a turn is running.
    pub status: AgentStatus,
    /// The answer that is coming in. Its event may be in the log already: then the next frame says so.
    pub answer: Option<LiveAnswer>,
    /// The number of the last frame. The next one that is told of is one more.
    pub revision: u64,
    /// What a person is being asked.
    pub questions: Vec<Arc<PermissionQuestion>>,
}

/// What a subscriber gets.
#[derive(Debug)]
pub enum Update {
    /// Something that happened behind the snapshot.
    Notice(Notice),
    /// The subscriber was too slow, and what it has missed is gone. This is how things stand now.
    Lagged(Box<Snapshot>),
}

/// A place in what happens. Ends with the agent.
#[derive(Debug)]
pub struct Subscription {
    id: u64,
    feed: Arc<Feed>,
    session: LiveSession,
    news: Arc<Notify>,
}

impl Subscription {
    pub(crate) fn new(core: &Core, capacity: NonZeroUsize) -> (Snapshot, Self) {
        let (id, news, snapshot) = core.feed.subscribe(&core.session, capacity);
        let subscription = Self {
            id,
            feed: Arc::clone(&core.feed),
            session: core.session.clone(),
            news,
        };
        (snapshot, subscription)
    }

    /// Waits for the next thing; `None` once the agent is gone and everything was taken. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Update> {
        loop {
            match self.feed.next(self.id, &self.session) {
                News::Notice(notice) => return Some(Update::Notice(notice)),
                News::Lagged(snapshot) => return Some(Update::Lagged(snapshot)),
                News::Over => return None,
                // A permit is kept for whoever comes late: this is the only one to wait.
                News::None => self.news.notified().await,
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.feed.unsubscribe(self.id);
    }
}
