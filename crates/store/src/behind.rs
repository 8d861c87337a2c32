//! Write-behind: appending to a session never waits for the disk, and what is appended gets there soon all the same
//! (`reference/persistence.md` §1.9).
//!
//! A [`WriterThread`] serves any number of sessions. Each has a queue, the [`WriteBehind`]: an event that is put there is
//! written together with all that come within [`WINDOW`](queue) of the first, as one batch: one frame, one sync. Whoever
//! must know that it is stored asks for a flush, which writes at once and goes on until nothing is queued.
//!
//! A batch that fails stays at the front of its queue, in order; then the timer rests until the next flush or close, which
//! tries again. The session whose batch has been due for the longest is written first, so a slow one delays the others by
//! one batch and no more.
//!
//! A model's answer goes the same way while it streams: its chunks are put into the session's journal in the same windows,
//! see [`journal`](crate::journal).

mod clock;
mod completion;
mod queue;
mod thread;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use offshoot_session::Event;

pub use clock::Clock;
pub use completion::{Completion, Stored};

use crate::journal::AttemptStart;
use crate::persistence::SessionWriter;
use crate::{Prefix, StoreError};
use clock::SystemClock;
use thread::{Key, Shared};

/// Hears of what becomes of a session's queue, on the writer thread. It must not wait for a flush there, and should be
/// quick: no session is written meanwhile.
pub trait WriteListener: Send + Sync {
    /// These events, which follow those of the call before, are durable.
    fn durable(&self, _events: &[Arc<Event>]) {}

    /// Something could not be written, and nobody waits who would be told.
    fn failed(&self, _what: Unstored, _error: &Arc<StoreError>) {}
}

/// Hears nothing.
impl WriteListener for () {}

/// What could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unstored {
    /// Events. They stay queued, and the next flush tries again; when the session was being closed, they are lost.
    Events,
    /// The stream of the answer that is coming in. It is not tried again: the answer itself will be an event.
    Stream,
}

/// The session is closed: nothing more can be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session's file is closed")]
pub struct Closed;

/// One thread that writes for any number of sessions. It runs while one of them is open. Clones are the same thread.
#[derive(Clone, Debug)]
pub struct WriterThread(Arc<Shared>);

impl WriterThread {
    /// A thread that goes by the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::by(Arc::new(SystemClock::new()))
    }

    /// A thread that goes by another clock. After that was moved, the thread must be [told](Self::look).
    #[must_use]
    pub fn by(clock: Arc<dyn Clock>) -> Self {
        Self(Shared::new(clock))
    }

    /// Puts a session's writer behind a queue.
    #[must_use]
    pub fn attach(
        &self,
        writer: Box<dyn SessionWriter>,
        listener: Arc<dyn WriteListener>,
    ) -> WriteBehind {
        let key = self.0.attach(writer, listener);
        let shared = Arc::clone(&self.0);
        WriteBehind(Arc::new(Handle { shared, key }))
    }

    /// Lets the thread look at its clock: for clocks that somebody moves.
    pub fn look(&self) {
        self.0.look();
    }

    /// How long an event waits for others, at most.
    #[must_use]
    pub const fn window() -> Duration {
        queue::WINDOW
    }
}

impl Default for WriterThread {
    fn default() -> Self {
        Self::new()
    }
}

/// A session that is open for writing, behind its queue. Clones are the same queue; with the last one the session is
/// closed, and whoever drops that waits until everything is written.
#[derive(Clone, Debug)]
pub struct WriteBehind(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    key: Key,
}

impl WriteBehind {
    /// Queues an event behind those that are queued or stored. Never waits for the disk.
    ///
    /// # Errors
    /// The session is closed.
    pub fn enqueue(&self, event: Arc<Event>) -> Result<(), Closed> {
        self.0.shared.enqueue(self.0.key, event)
    }

    /// A way to queue events that does not keep the session open.
    #[must_use]
    pub fn inlet(&self) -> Inlet {
        Inlet {
            shared: Arc::clone(&self.0.shared),
            key: self.0.key,
        }
    }

    /// Notes that a model is asked. What it streams goes to the session's journal, behind the events queued so far.
    pub fn begin_attempt(&self, start: AttemptStart) {
        self.0.shared.begin_attempt(self.0.key, start);
    }

    /// Queues a chunk of the answer, as one line of JSON text. Never waits for the disk.
    pub fn delta(&self, line: Arc<str>) {
        self.0.shared.delta(self.0.key, line);
    }

    /// Notes that an event which is queued or stored has settled the attempt: its journal is of no use behind that.
    pub fn end_attempt(&self) {
        self.0.shared.end_attempt(self.0.key);
    }

    /// Writes at once, and whatever is queued meanwhile too, until nothing is. Calls that overlap are one flush. A new
    /// session exists afterwards, also without events.
    ///
    /// The completion fails as soon as a batch does; that stays queued. On a closed session it is how the closing came out.
    #[must_use = "only the completion says whether anything is stored"]
    pub fn flush(&self) -> Completion {
        self.0.shared.flush(self.0.key)
    }

    /// What a fork of the session can share of what is durable: all of it right behind a flush. Does not wait.
    #[must_use]
    pub fn shareable(&self) -> Prefix {
        self.0.shared.shareable(self.0.key)
    }

    /// Writes everything, trying a batch that fails a second time, and gives up the writer, and with it the session's
    /// lock, whether that worked or not. Closing again changes nothing.
    pub fn close(&self) -> Completion {
        self.0.shared.close(self.0.key)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.abandon(self.key);
    }
}

/// Queues a session's events and does not keep it open.
#[derive(Clone, Debug)]
pub struct Inlet {
    shared: Arc<Shared>,
    key: Key,
}

impl Inlet {
    /// See [`WriteBehind::enqueue`].
    ///
    /// # Errors
    /// The session is closed.
    pub fn enqueue(&self, event: Arc<Event>) -> Result<(), Closed> {
        self.shared.enqueue(self.key, event)
    }
}

impl fmt::Debug for dyn WriteListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WriteListener")
    }
}
