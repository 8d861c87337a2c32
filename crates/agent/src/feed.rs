//! Who is told of what, and in which order.
//!
//! A notice is put here at the moment at which it becomes true, usually while something is locked, and is told when nothing
//! is: the observer by whoever is about to leave ([`Feed::deliver`]), subscribers when they ask. There is one order, and it
//! is the same for everybody.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_model::Chunk;
use offshoot_session::{EventKind, LiveSession, Seq, SessionId, StepRef};
use offshoot_tool_api::PermissionQuestion;
use tokio::sync::Notify;

use crate::live::{LiveAnswer, LiveStream, StreamFrame};
use crate::notices::{AgentObserver, AgentStatus, Notice};
use crate::subscription::Snapshot;

pub(crate) struct Feed {
    state: Mutex<State>,
    /// Woken when there is nothing left to tell.
    pub(crate) changed: Notify,
}

struct State {
    status: AgentStatus,
    stream: LiveStream,
    questions: Vec<Arc<PermissionQuestion>>,
    observer: Option<Arc<dyn AgentObserver>>,
    /// What the observer has not been told yet.
    untold: VecDeque<Notice>,
    /// Somebody is telling the observer something, and will go on with the rest.
    telling: bool,
    readers: BTreeMap<u64, Reader>,
    joined: u64,
    closed: bool,
}

/// What a subscriber has not taken yet.
struct Reader {
    queue: VecDeque<Notice>,
    capacity: usize,
    /// It was too slow: what it has missed is not kept for it.
    lagged: bool,
    news: Arc<Notify>,
}

/// What there is for a subscriber.
pub(crate) enum News {
    Notice(Notice),
    Lagged(Box<Snapshot>),
    /// Nothing yet.
    None,
    /// Nothing ever.
    Over,
}

impl Feed {
    pub(crate) fn new(session: SessionId, observer: Option<Arc<dyn AgentObserver>>) -> Self {
        let state = State {
            status: AgentStatus::Idle,
            stream: LiveStream::new(session),
            questions: Vec::new(),
            observer,
            untold: VecDeque::new(),
            telling: false,
            readers: BTreeMap::new(),
            joined: 0,
            closed: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    /// Tells of something that has happened just now, with nothing locked.
    pub(crate) fn notify(&self, notice: Notice) {
        self.push(notice);
        self.deliver();
    }

    /// Notes what has happened. Whoever holds a lock calls [`Self::deliver`] when it does not any more.
    pub(crate) fn push(&self, notice: Notice) {
        self.state().push(notice);
    }

    /// A model is called.
    pub(crate) fn start_answer(&self, at: StepRef) {
        self.frame(|stream| Some(stream.start(at)));
    }

    /// A part of its answer came in.
    pub(crate) fn chunk(&self, time: i64, chunk: &Chunk) {
        self.frame(|stream| stream.chunk(time, chunk));
    }

    /// The answer is over: what it became, if it became an event. Does nothing if none was coming in.
    pub(crate) fn end_answer(&self, committed: Option<(EventKind, Seq)>) {
        self.frame(|stream| stream.end(committed));
    }

    /// Makes a frame and notes it at once: whoever joins has it or gets it, and never both.
    fn frame(&self, make: impl FnOnce(&mut LiveStream) -> Option<Arc<StreamFrame>>) {
        {
            let mut state = self.state();
            let Some(frame) = make(&mut state.stream) else {
                return;
            };
            state.push(Notice::Stream(frame));
        }
        self.deliver();
    }

    /// The answer that is coming in, if one is.
    pub(crate) fn answer(&self) -> Option<LiveAnswer> {
        self.state().stream.answer().cloned()
    }

    /// Tells the observer everything that it has not heard. Nothing may be locked. If somebody else is telling it something
    /// right now, also further up this very thread, that one goes on with the rest.
    pub(crate) fn deliver(&self) {
        loop {
            let (observer, notice) = {
                let mut state = self.state();
                if state.telling {
                    return;
                }
                let Some(observer) = state.observer.clone() else {
                    return;
                };
                let Some(notice) = state.untold.pop_front() else {
                    break;
                };
                state.telling = true;
                (observer, notice)
            };
            // Whoever watches must not be able to break what they watch.
            let _panic = catch_unwind(AssertUnwindSafe(|| observer.notice(&notice)));
            self.state().telling = false;
        }
        self.changed.notify_waiters();
    }

    /// Whether the observer has heard everything.
    pub(crate) fn is_quiet(&self) -> bool {
        let state = self.state();
        !state.telling && state.untold.is_empty()
    }

    /// A new subscriber, with what it joins at.
    pub(crate) fn subscribe(
        &self,
        session: &LiveSession,
        capacity: NonZeroUsize,
    ) -> (u64, Arc<Notify>, Snapshot) {
        let session = session.lock();
        let mut state = self.state();
        state.joined += 1;
        let (id, news) = (state.joined, Arc::<Notify>::default());
        let reader = Reader {
            queue: VecDeque::new(),
            capacity: capacity.get(),
            lagged: false,
            news: Arc::clone(&news),
        };
        if !state.closed {
            state.readers.insert(id, reader);
        }
        (id, news, state.snapshot(session.log().clone()))
    }

    pub(crate) fn unsubscribe(&self, id: u64) {
        self.state().readers.remove(&id);
    }

    /// The next thing for a subscriber.
    pub(crate) fn next(&self, id: u64, session: &LiveSession) -> News {
        {
            let mut state = self.state();
            let closed = state.closed;
            let Some(reader) = state.readers.get_mut(&id) else {
                return News::Over;
            };
            if !reader.lagged {
                return match reader.queue.pop_front() {
                    Some(notice) => News::Notice(notice),
                    None if closed => News::Over,
                    None => News::None,
                };
            }
        }
        // The session first, as everywhere.
        let session = session.lock();
        let mut state = self.state();
        if let Some(reader) = state.readers.get_mut(&id) {
            reader.lagged = false;
            reader.queue.clear();
        }
        News::Lagged(Box::new(state.snapshot(session.log().clone())))
    }

    /// There will be no more. The observer, which may hold a handle on the agent, is let go.
    pub(crate) fn close(&self) {
        self.deliver();
        let observer = {
            let mut state = self.state();
            state.closed = true;
            state.readers.values().for_each(|reader| {
                reader.news.notify_one();
            });
            state.observer.take()
        };
        drop(observer);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics between two changes of the state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, notice: Notice) {
        match &notice {
            Notice::Status(status) => {
                self.status = *status;
                // No question outlives its turn, also if the log took no answer to it.
                self.questions.clear();
            }
            Notice::Asked(question) => self.questions.push(Arc::clone(question)),
            Notice::Decided { id, .. } => self.questions.retain(|question| *question.id != **id),
            _ => {}
        }
        for reader in self.readers.values_mut() {
            reader.push(&notice);
        }
        if self.observer.is_some() {
            self.untold.push_back(notice);
        }
    }

    fn snapshot(&self, log: offshoot_session::EventLog) -> Snapshot {
        Snapshot {
            log,
            status: self.status,
            answer: self.stream.answer().cloned(),
            revision: self.stream.revision(),
            questions: self.questions.clone(),
        }
    }
}

impl Reader {
    fn push(&mut self, notice: &Notice) {
        if self.lagged {
            return;
        }
        if self.queue.len() < self.capacity {
            self.queue.push_back(notice.clone());
        } else {
            self.lagged = true;
            self.queue = VecDeque::new();
        }
        self.news.notify_one();
    }
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed")
            .field("quiet", &self.is_quiet())
            .finish_non_exhaustive()
    }
}
