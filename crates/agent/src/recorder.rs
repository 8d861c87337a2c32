//! What is appended and not yet durable, and the writer that makes it so.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_session::{Event, SessionObserver};
use offshoot_store::SessionWriter;

use crate::AgentError;

/// Told of every event once it is durable, in order, on whatever thread stores it. It must not flush.
pub type DurableListener = Arc<dyn Fn(&Arc<Event>) + Send + Sync>;

/// Queues a session's events and stores them in order, a batch at a time.
///
/// A batch that fails stays at the front of the queue: the next flush tries it again.
#[derive(Clone)]
pub(crate) struct Recorder {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Arc<Mutex<Vec<Arc<Event>>>>,
    writer: Mutex<Box<dyn SessionWriter>>,
    listener: Option<DurableListener>,
}

impl Recorder {
    /// `pending` are events of the session that the writer does not have yet.
    pub(crate) fn new(
        writer: Box<dyn SessionWriter>,
        pending: Vec<Arc<Event>>,
        listener: Option<DurableListener>,
    ) -> Self {
        let shared = Shared {
            queue: Arc::new(Mutex::new(pending)),
            writer: Mutex::new(writer),
            listener,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    pub(crate) fn observer(&self) -> Box<dyn SessionObserver> {
        Box::new(Queue(Arc::clone(&self.shared.queue)))
    }

    /// Makes everything queued so far durable. The store is synchronous, so it works on a thread of its own.
    pub(crate) async fn flush(&self) -> Result<(), AgentError> {
        let shared = Arc::clone(&self.shared);
        let work = tokio::task::spawn_blocking(move || shared.flush());
        work.await
            .map_err(|error| AgentError::Worker(error.to_string()))?
    }

    pub(crate) fn flush_blocking(&self) -> Result<(), AgentError> {
        self.shared.flush()
    }
}

impl Shared {
    fn flush(&self) -> Result<(), AgentError> {
        let mut writer = lock(&self.writer);
        let batch = lock(&self.queue).clone();
        writer.append(&batch)?;
        lock(&self.queue).drain(..batch.len());
        if let Some(listener) = &self.listener {
            batch.iter().for_each(|event| listener(event));
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Both guarded values are whole between two calls, whatever a listener did.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the queue and not the writer: a session that stays in memory must not keep its file locked.
struct Queue(Arc<Mutex<Vec<Arc<Event>>>>);

impl SessionObserver for Queue {
    fn event(&mut self, event: &Arc<Event>) -> Result<(), String> {
        lock(&self.0).push(Arc::clone(event));
        Ok(())
    }
}
