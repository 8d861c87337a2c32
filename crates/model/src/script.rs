//! A model that answers from a script: for tests, demonstrations and replays.
//!
//! `reference/agent.md` §8.1, without its file formats: how a script is derived from a log is its user's business.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::stream::{self, BoxStream, StreamExt as _};
use tokio_util::sync::CancellationToken;

use crate::client::Model;
use crate::codes;
use crate::message::{CallConfig, ModelRequest};
use crate::prepared::PreparedCall;
use crate::retry::RetryPolicy;
use crate::stream::{Chunk, Failure};

/// The answer to one call.
#[derive(Clone, Debug, PartialEq)]
pub enum Attempt {
    /// Gives these chunks as they are; the last one should be a finish.
    Chunks(Vec<Chunk>),
    /// Gives these chunks and then fails.
    Throw {
        /// What comes before the failure.
        chunks: Vec<Chunk>,
        /// The failure's message.
        message: String,
        /// The failure's code.
        code: String,
    },
    /// Gives these chunks and then waits until it is cancelled.
    Hang {
        /// What comes before the wait.
        chunks: Vec<Chunk>,
    },
}

/// Answers calls from a list of attempts, first in, first out, and remembers what it was asked.
#[derive(Debug)]
pub struct ScriptModel {
    provider: String,
    context_window: Option<u64>,
    retry: RetryPolicy,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    script_length: usize,
    attempts: VecDeque<Attempt>,
    requests: Vec<Arc<ModelRequest>>,
}

impl ScriptModel {
    /// A model that answers its first call with the first attempt, and so on.
    #[must_use]
    pub fn new(provider: impl Into<String>, attempts: Vec<Attempt>) -> Self {
        Self {
            provider: provider.into(),
            context_window: None,
            // What a script says is meant: nobody asks it the same again.
            retry: RetryPolicy::never(),
            state: Mutex::new(State {
                script_length: attempts.len(),
                attempts: attempts.into(),
                requests: Vec::new(),
            }),
        }
    }

    /// Reports `tokens` as the context window of every model.
    #[must_use]
    pub fn with_context_window(mut self, tokens: u64) -> Self {
        self.context_window = Some(tokens);
        self
    }

    /// Has failed attempts made again by this policy instead of never.
    #[must_use]
    pub fn with_retries(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Appends an attempt to the script.
    pub fn push(&self, attempt: Attempt) {
        let mut state = self.state();
        state.script_length += 1;
        state.attempts.push_back(attempt);
    }

    /// How many attempts nobody has asked for yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.state().attempts.len()
    }

    /// The requests so far, oldest first, those after the end of the script included.
    #[must_use]
    pub fn requests(&self) -> Vec<Arc<ModelRequest>> {
        self.state().requests.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics between two changes of the state, so that a poisoned one is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Model for ScriptModel {
    fn provider(&self) -> &str {
        &self.provider
    }

    fn prepare(&self, config: &CallConfig) -> Result<PreparedCall, Failure> {
        let mut prepared = PreparedCall::plain(config.clone());
        prepared.info.context_window = self.context_window;
        prepared.retry = self.retry.clone();
        Ok(prepared)
    }

    fn stream(
        &self,
        request: Arc<ModelRequest>,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Chunk> {
        let mut state = self.state();
        state.requests.push(request);
        let call = state.requests.len();
        let length = state.script_length;
        let (chunks, end) = match state.attempts.pop_front() {
            Some(Attempt::Chunks(chunks)) => (chunks, End::Nothing),
            Some(Attempt::Throw {
                chunks,
                message,
                code,
            }) => (
                chunks,
                End::Chunk(Chunk::failed(Failure::new(code, message))),
            ),
            Some(Attempt::Hang { chunks }) => (chunks, End::Hang),
            None => (
                Vec::new(),
                End::Chunk(Chunk::failed(exhausted(call, length))),
            ),
        };
        drop(state);
        play(chunks.into(), end, cancel)
    }
}

fn exhausted(call: usize, length: usize) -> Failure {
    Failure::new(
        codes::SCRIPT_EXHAUSTED,
        format!("session asked for model call #{call} but its script has only {length}"),
    )
}

#[derive(Debug)]
enum End {
    Nothing,
    Chunk(Chunk),
    Hang,
}

fn play(chunks: VecDeque<Chunk>, end: End, cancel: CancellationToken) -> BoxStream<'static, Chunk> {
    stream::unfold((chunks, end), move |(mut chunks, end)| {
        let cancel = cancel.clone();
        async move {
            if chunks.is_empty() && matches!(end, End::Nothing) {
                return None;
            }
            if cancel.is_cancelled() {
                return Some((Chunk::aborted(), (VecDeque::new(), End::Nothing)));
            }
            if let Some(chunk) = chunks.pop_front() {
                return Some((chunk, (chunks, end)));
            }
            let last = match end {
                End::Nothing => return None,
                End::Chunk(chunk) => chunk,
                End::Hang => {
                    cancel.cancelled().await;
                    Chunk::aborted()
                }
            };
            Some((last, (VecDeque::new(), End::Nothing)))
        }
    })
    .boxed()
}
