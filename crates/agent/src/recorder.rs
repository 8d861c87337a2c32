//! What is appended and not yet durable: a thin adapter over the store's write-behind, for a driver that awaits.

use std::fmt;
use std::sync::Arc;

use offshoot_model::{Chunk, StreamRecord};
use offshoot_session::{Event, SessionObserver};
use offshoot_store::{
    AttemptStart, Completion, Inlet, Prefix, SessionWriter, StoreError, Unstored, WriteBehind,
    WriteListener, WriterThread,
};
use tokio::sync::oneshot;

use crate::AgentError;
use crate::settle;

/// Told of every event once it is durable, in order, on the thread that stores it. It must not flush.
pub type DurableListener = Arc<dyn Fn(&Arc<Event>) + Send + Sync>;

/// Told of what could not be stored when nobody waits for it, on the thread that stores it. It must not flush.
pub type UnstoredListener = Arc<dyn Fn(Unstored, &StoreError) + Send + Sync>;

/// How sessions are written.
#[derive(Clone, Default)]
pub(crate) struct Recording {
    pub(crate) thread: WriterThread,
    pub(crate) on_unstored: Option<UnstoredListener>,
}

/// A session's events, and the answer that is coming in, on their way to its file.
#[derive(Clone)]
pub(crate) struct Recorder {
    behind: WriteBehind,
}

impl Recorder {
    /// `pending` are events of the session that the writer does not have yet.
    pub(crate) fn new(
        recording: &Recording,
        writer: Box<dyn SessionWriter>,
        pending: impl IntoIterator<Item = Arc<Event>>,
        on_durable: Option<DurableListener>,
    ) -> Self {
        let listener = Listener {
            on_durable,
            on_unstored: recording.on_unstored.clone(),
        };
        let behind = recording.thread.attach(writer, Arc::new(listener));
        for event in pending {
            behind
                .enqueue(event)
                .expect("BUG: a queue that nobody has closed is open");
        }
        Self { behind }
    }

    pub(crate) fn observer(&self) -> Box<dyn SessionObserver> {
        Box::new(Queue(self.behind.inlet()))
    }

    /// Makes everything queued so far durable.
    pub(crate) async fn flush(&self) -> Result<(), AgentError> {
        done(self.behind.flush()).await
    }

    /// Makes everything queued durable and gives up the file, whether that worked or not.
    pub(crate) async fn close(&self) -> Result<(), AgentError> {
        done(self.behind.close()).await
    }

    pub(crate) fn flush_blocking(&self) -> Result<(), AgentError> {
        Ok(self.behind.flush().wait()?)
    }

    /// What a fork can share of what is durable.
    pub(crate) fn shareable(&self) -> Prefix {
        self.behind.shareable()
    }

    pub(crate) fn begin_attempt(&self, start: AttemptStart) {
        self.behind.begin_attempt(start);
    }

    /// Takes a chunk of the answer as it came, at `now`.
    pub(crate) fn chunk(&self, now: i64, chunk: &Chunk) {
        let record = StreamRecord::Chunk {
            time: now,
            chunk: chunk.clone(),
        };
        self.behind.delta(settle::line(&record).into());
    }

    /// The answer is an event now.
    pub(crate) fn end_attempt(&self) {
        self.behind.end_attempt();
    }
}

async fn done(completion: Completion) -> Result<(), AgentError> {
    let (done, stored) = oneshot::channel();
    completion.on_done(|stored| {
        // Nobody listens when the turn was abandoned meanwhile.
        let _ignored = done.send(stored);
    });
    let stored = stored.await;
    Ok(stored.map_err(|error| AgentError::Worker(error.to_string()))??)
}

/// Has a way into the queue and not the writer: a session that stays in memory must not keep its file locked.
struct Queue(Inlet);

impl SessionObserver for Queue {
    fn event(&mut self, event: &Arc<Event>) -> Result<(), String> {
        self.0
            .enqueue(Arc::clone(event))
            .map_err(|closed| closed.to_string())
    }
}

struct Listener {
    on_durable: Option<DurableListener>,
    on_unstored: Option<UnstoredListener>,
}

impl WriteListener for Listener {
    fn durable(&self, events: &[Arc<Event>]) {
        if let Some(listener) = &self.on_durable {
            events.iter().for_each(|event| listener(event));
        }
    }

    fn failed(&self, what: Unstored, error: &Arc<StoreError>) {
        if let Some(listener) = &self.on_unstored {
            listener(what, error);
        }
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording")
            .field("thread", &self.thread)
            .finish_non_exhaustive()
    }
}
