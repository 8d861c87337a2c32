//! An operation that ends on another thread.

use std::fmt;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::StoreError;

/// How it came out. Shared by everybody who waits for it.
pub type Stored = Result<(), Arc<StoreError>>;

type Callback = Box<dyn FnOnce(Stored) + Send>;

/// The end of a [`flush`](crate::WriteBehind::flush) or [`close`](crate::WriteBehind::close). Clones wait for the same.
#[derive(Clone)]
pub struct Completion(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    done: Condvar,
}

enum State {
    Open(Vec<Callback>),
    Done(Stored),
}

impl Completion {
    pub(super) fn new() -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(State::Open(Vec::new())),
            done: Condvar::new(),
        }))
    }

    /// Waits for it. Must not be called on the writer thread, which would wait for itself.
    ///
    /// # Errors
    /// Why storage failed.
    pub fn wait(&self) -> Stored {
        let mut state = self.lock();
        loop {
            match &*state {
                State::Done(stored) => return stored.clone(),
                State::Open(_) => {
                    state = self
                        .0
                        .done
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Calls `callback` once with how it came out: on the writer thread, or here and now if it is over already.
    pub fn on_done(&self, callback: impl FnOnce(Stored) + Send + 'static) {
        let stored = match &mut *self.lock() {
            State::Done(stored) => stored.clone(),
            State::Open(callbacks) => {
                callbacks.push(Box::new(callback));
                return;
            }
        };
        callback(stored);
    }

    /// The first outcome counts.
    pub(super) fn complete(&self, stored: Stored) {
        let callbacks = match &mut *self.lock() {
            State::Done(_) => return,
            state => match mem::replace(state, State::Done(stored.clone())) {
                State::Open(callbacks) => callbacks,
                State::Done(_) => Vec::new(),
            },
        };
        self.0.done.notify_all();
        for callback in callbacks {
            callback(stored.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole between any two operations, whatever a callback did.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.lock() {
            State::Open(_) => f.write_str("Completion(open)"),
            State::Done(stored) => f.debug_tuple("Completion").field(stored).finish(),
        }
    }
}
