//! The thread, and what it shares with the queues' handles.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use offshoot_session::Event;

use super::queue::{Queue, Write};
use super::{Clock, Closed, Completion, Stored, Unstored, WriteListener};
use crate::journal::AttemptStart;
use crate::persistence::SessionWriter;
use crate::{Prefix, StoreError};

/// Names an attached session.
pub(super) type Key = u64;

pub(super) struct Shared {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Something is to be looked at.
    work: Condvar,
}

#[derive(Default)]
struct State {
    slots: BTreeMap<Key, Slot>,
    next_key: Key,
    /// The thread, while it runs.
    thread: Option<ThreadId>,
}

/// An attached session.
struct Slot {
    queue: Queue,
    /// Not here while a batch is being written, and after closing.
    writer: Option<Box<dyn SessionWriter>>,
    /// What a fork could share when the writer was last here.
    shareable: Prefix,
    listener: Arc<dyn WriteListener>,
    life: Life,
    /// The journal of the attempt that is coming in could not be written: it has a gap.
    stream_lost: bool,
    /// Nobody has a handle any more.
    abandoned: bool,
}

enum Life {
    Open,
    Closing {
        completion: Completion,
        retried: bool,
    },
    Closed(Completion),
}

/// A batch on its way.
struct Job {
    key: Key,
    writer: Box<dyn SessionWriter>,
    writes: Vec<Write>,
    listener: Arc<dyn WriteListener>,
    stream_lost: bool,
}

/// What became of it.
struct Done {
    key: Key,
    writer: Box<dyn SessionWriter>,
    stream_lost: bool,
    failed: Option<(Arc<StoreError>, Vec<Write>)>,
}

/// What is to be told once nothing is locked.
#[derive(Default)]
struct News {
    reached: Vec<(Completion, Stored)>,
    failures: Vec<(Arc<dyn WriteListener>, Arc<StoreError>)>,
    /// To be dropped ahead of that: whoever is told finds the session unlocked.
    released: Vec<Box<dyn SessionWriter>>,
}

impl Shared {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            state: Mutex::default(),
            work: Condvar::new(),
        })
    }

    pub(super) fn attach(
        &self,
        writer: Box<dyn SessionWriter>,
        listener: Arc<dyn WriteListener>,
    ) -> Key {
        let mut state = self.lock();
        let key = state.next_key;
        state.next_key += 1;
        let slot = Slot {
            queue: Queue::default(),
            shareable: writer.shareable(),
            writer: Some(writer),
            listener,
            life: Life::Open,
            stream_lost: false,
            abandoned: false,
        };
        state.slots.insert(key, slot);
        key
    }

    /// What a fork of the session can share of what is durable.
    pub(super) fn shareable(&self, key: Key) -> Prefix {
        let state = self.lock();
        let slot = state.slots.get(&key);
        slot.map(|slot| slot.shareable.clone()).unwrap_or_default()
    }

    pub(super) fn look(&self) {
        self.work.notify_one();
    }

    pub(super) fn enqueue(self: &Arc<Self>, key: Key, event: Arc<Event>) -> Result<(), Closed> {
        let now = self.clock.now();
        self.change(key, |slot| slot.queue.push_event(event, now))
            .ok_or(Closed)
    }

    pub(super) fn begin_attempt(self: &Arc<Self>, key: Key, start: AttemptStart) {
        let _nothing_to_say_if_closed = self.change(key, |slot| slot.queue.begin(start));
    }

    pub(super) fn delta(self: &Arc<Self>, key: Key, line: Arc<str>) {
        let now = self.clock.now();
        let _nothing_to_say_if_closed = self.change(key, |slot| slot.queue.push_chunk(line, now));
    }

    pub(super) fn end_attempt(self: &Arc<Self>, key: Key) {
        let now = self.clock.now();
        let _nothing_to_say_if_closed = self.change(key, |slot| slot.queue.end(now));
    }

    pub(super) fn flush(self: &Arc<Self>, key: Key) -> Completion {
        let now = self.clock.now();
        let flushed = self.change(key, |slot| slot.queue.flush(now));
        flushed.unwrap_or_else(|| self.close(key))
    }

    pub(super) fn close(self: &Arc<Self>, key: Key) -> Completion {
        let now = self.clock.now();
        let mut state = self.lock();
        let slot = state
            .slots
            .get_mut(&key)
            .expect("BUG: a session with a handle is attached");
        let completion = match &slot.life {
            Life::Closing { completion, .. } | Life::Closed(completion) => {
                return completion.clone();
            }
            Life::Open => Completion::new(),
        };
        slot.life = Life::Closing {
            completion: completion.clone(),
            retried: false,
        };
        let _closing_tells = slot.queue.flush(now);
        self.wake(state);
        completion
    }

    /// The last handle is gone. Waits until the session is closed.
    pub(super) fn abandon(self: &Arc<Self>, key: Key) {
        let (listener, was_open) = {
            let mut state = self.lock();
            let slot = state
                .slots
                .get_mut(&key)
                .expect("BUG: a session with a handle is attached");
            slot.abandoned = true;
            (Arc::clone(&slot.listener), matches!(slot.life, Life::Open))
        };
        let closed = self.close(key);
        let mut state = self.lock();
        let is_writer_thread = state.thread == Some(thread::current().id());
        let is_closed = |slot: &Slot| matches!(slot.life, Life::Closed(_));
        if state.slots.get(&key).is_some_and(is_closed) {
            state.slots.remove(&key);
        }
        self.wake(state);
        let report = move |stored: Stored| {
            if let Err(error) = stored
                && was_open
            {
                tell(|| listener.failed(Unstored::Events, &error));
            }
        };
        if is_writer_thread {
            // It would wait for itself. It closes the session when it gets to it.
            closed.on_done(report);
        } else {
            report(closed.wait());
        }
    }

    /// Changes a session's queue and lets the thread look at it; `None` if the session is closed.
    fn change<T>(self: &Arc<Self>, key: Key, change: impl FnOnce(&mut Slot) -> T) -> Option<T> {
        let mut state = self.lock();
        let slot = state.slots.get_mut(&key)?;
        if matches!(slot.life, Life::Closed(_)) {
            return None;
        }
        let changed = change(slot);
        self.wake(state);
        Some(changed)
    }

    /// Wakes the thread, or starts it if there is something to do.
    fn wake(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if state.thread.is_some() {
            drop(state);
            self.work.notify_one();
            return;
        }
        if state.slots.values().all(|slot| slot.queue.due().is_none()) {
            return;
        }
        let shared = Arc::clone(self);
        let started = thread::Builder::new()
            .name("offshoot-writer".to_owned())
            .spawn(move || shared.work());
        match started {
            Ok(handle) => state.thread = Some(handle.thread().id()),
            Err(error) => {
                let error = Arc::new(StoreError::WriterThread(error.to_string()));
                let news = state.give_up(&error, self.clock.now());
                drop(state);
                news.tell();
            }
        }
    }

    /// What the thread does.
    fn work(&self) {
        while let Some(job) = self.next_job() {
            let done = job.carry_out();
            let news = self.lock().finish(done, self.clock.now());
            news.tell();
        }
    }

    /// Waits until a batch is due; `None` once no session is attached.
    fn next_job(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.slots.is_empty() {
                state.thread = None;
                return None;
            }
            let now = self.clock.now();
            let next = state.next_due();
            state = match next {
                Some((due, key)) if due <= now => return state.take(key),
                Some((due, _)) => {
                    let waited = self.work.wait_timeout(state, due - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let waited = self.work.wait(state);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here calls anybody else while it is locked, so it is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The session that has been due for the longest.
    fn next_due(&self) -> Option<(std::time::Duration, Key)> {
        let due = |(key, slot): (&Key, &Slot)| Some((slot.queue.due()?, *key));
        self.slots.iter().filter_map(due).min()
    }

    fn take(&mut self, key: Key) -> Option<Job> {
        let slot = self.slots.get_mut(&key)?;
        let writer = slot.writer.take()?;
        Some(Job {
            key,
            writer,
            writes: slot.queue.take(),
            listener: Arc::clone(&slot.listener),
            stream_lost: slot.stream_lost,
        })
    }

    fn finish(&mut self, done: Done, now: std::time::Duration) -> News {
        let mut news = News::default();
        let slot = self
            .slots
            .get_mut(&done.key)
            .expect("BUG: a session is attached while it is written");
        slot.shareable = done.writer.shareable();
        slot.writer = Some(done.writer);
        slot.stream_lost = done.stream_lost;
        let stored = match done.failed {
            None => match slot.queue.succeeded(now) {
                None => return news,
                Some(reached) => {
                    news.reached.push((reached, Ok(())));
                    Ok(())
                }
            },
            Some((error, left)) => {
                match slot.queue.failed(left, now) {
                    Some(missed) => news.reached.push((missed, Err(Arc::clone(&error)))),
                    None => news
                        .failures
                        .push((Arc::clone(&slot.listener), Arc::clone(&error))),
                }
                Err(error)
            }
        };
        slot.go_on_closing(stored, now, &mut news);
        if slot.abandoned && matches!(slot.life, Life::Closed(_)) {
            self.slots.remove(&done.key);
        }
        news
    }

    /// No thread can be had: whoever waits is told so, and everything stays queued.
    fn give_up(&mut self, error: &Arc<StoreError>, now: std::time::Duration) -> News {
        let mut news = News::default();
        for slot in self.slots.values_mut() {
            if slot.queue.due().is_none() {
                continue;
            }
            match slot.queue.failed(Vec::new(), now) {
                Some(missed) => news.reached.push((missed, Err(Arc::clone(error)))),
                None => news
                    .failures
                    .push((Arc::clone(&slot.listener), Arc::clone(error))),
            }
            if let Life::Closing { retried, .. } = &mut slot.life {
                *retried = true;
            }
            slot.go_on_closing(Err(Arc::clone(error)), now, &mut news);
        }
        self.slots
            .retain(|_, slot| !(slot.abandoned && matches!(slot.life, Life::Closed(_))));
        news
    }
}

impl Slot {
    /// Nothing is queued any more, or a batch failed: closes the session if it is being closed.
    fn go_on_closing(&mut self, stored: Stored, now: std::time::Duration, news: &mut News) {
        let Life::Closing {
            completion,
            retried,
        } = &mut self.life
        else {
            return;
        };
        if stored.is_err() && !*retried {
            *retried = true;
            let _closing_tells = self.queue.flush(now);
            return;
        }
        let completion = completion.clone();
        news.released.extend(self.writer.take());
        news.reached.push((completion.clone(), stored));
        self.life = Life::Closed(completion);
    }
}

impl Job {
    fn carry_out(self) -> Done {
        let Self {
            key,
            mut writer,
            writes,
            listener,
            mut stream_lost,
        } = self;
        let mut failed = None;
        let mut writes = writes.into_iter();
        while let Some(write) = writes.next() {
            let streamed = match write {
                Write::Append(events) => {
                    match guarded(|| writer.append(&events)) {
                        Ok(()) if events.is_empty() => {}
                        Ok(()) => tell(|| listener.durable(&events)),
                        Err(error) => {
                            let left = [Write::Append(events)].into_iter().chain(writes);
                            failed = Some((Arc::new(error), left.collect()));
                            break;
                        }
                    }
                    continue;
                }
                Write::Begin(start) => {
                    stream_lost = false;
                    guarded(|| writer.begin_attempt(&start))
                }
                Write::Chunks(_) if stream_lost => continue,
                Write::Chunks(lines) => guarded(|| writer.journal(&lines)),
                Write::End => {
                    tell(|| writer.end_attempt());
                    continue;
                }
            };
            if let Err(error) = streamed {
                stream_lost = true;
                let error = Arc::new(error);
                tell(|| listener.failed(Unstored::Stream, &error));
            }
        }
        Done {
            key,
            writer,
            stream_lost,
            failed,
        }
    }
}

impl News {
    fn tell(self) {
        drop(self.released);
        for (listener, error) in self.failures {
            tell(|| listener.failed(Unstored::Events, &error));
        }
        for (completion, stored) in self.reached {
            tell(|| completion.complete(stored));
        }
    }
}

/// Calls somebody else. If he panics, that must not take the other sessions' thread down; he has been told.
fn tell(call: impl FnOnce()) {
    let _panicked = catch_unwind(AssertUnwindSafe(call));
}

/// A writer that panics has failed.
fn guarded(write: impl FnOnce() -> Result<(), StoreError>) -> Result<(), StoreError> {
    catch_unwind(AssertUnwindSafe(write))
        .unwrap_or_else(|panic| Err(StoreError::WriterThread(words(&*panic))))
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it panicked").to_owned()
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterThread")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
