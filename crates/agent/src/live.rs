//! The answer that is coming in, as frames that a client can join in the middle (`reference/agent.md` §1.5, V2 and later).
//!
//! Frames live in this process only. Every frame has a revision, one more than the frame before it; whoever joins takes
//! [`LiveAnswer`], which has all chunks up to a revision, and goes on with the frames behind that one.

use std::sync::{Mutex, PoisonError};

use offshoot_model::Chunk;
use offshoot_session::{EventKind, Seq, SessionId, StepRef};

/// One frame.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamFrame {
    /// Its number in this process, from 1. It never falls while the session stays open.
    pub revision: u64,
    /// `<session>:<n>`, the same for all frames of an attempt.
    pub attempt: String,
    /// What it says.
    pub body: FrameBody,
}

/// What a frame says.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameBody {
    /// A model is called.
    Start {
        /// For which step.
        at: StepRef,
    },
    /// A part of the answer came in.
    Chunk {
        /// Its place in the answer, from 0.
        index: u64,
        /// When, in milliseconds since the Unix epoch.
        time: i64,
        /// What.
        chunk: Chunk,
    },
    /// The answer is an event of the log now.
    Committed {
        /// Its type.
        event: EventKind,
        /// Its seq.
        seq: Seq,
    },
    /// Nothing came of it.
    Abandoned,
}

/// The answer that is coming in, as far as it has come.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveAnswer {
    /// The last frame that is in here.
    pub revision: u64,
    /// Which attempt.
    pub attempt: String,
    /// For which step.
    pub at: StepRef,
    /// The chunks with their times.
    pub chunks: Vec<(i64, Chunk)>,
}

/// The frames of a session.
#[derive(Debug)]
pub(crate) struct LiveStream {
    session: SessionId,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    revision: u64,
    attempts: u64,
    answer: Option<LiveAnswer>,
}

impl LiveStream {
    pub(crate) fn new(session: SessionId) -> Self {
        Self {
            session,
            state: Mutex::default(),
        }
    }

    /// The answer that is coming in, if one is.
    pub(crate) fn answer(&self) -> Option<LiveAnswer> {
        self.with(|state| state.answer.clone())
    }

    pub(crate) fn start(&self, at: StepRef) -> StreamFrame {
        self.with(|state| {
            state.attempts += 1;
            state.revision += 1;
            let attempt = format!("{}:{}", self.session, state.attempts);
            state.answer = Some(LiveAnswer {
                revision: state.revision,
                attempt: attempt.clone(),
                at,
                chunks: Vec::new(),
            });
            StreamFrame {
                revision: state.revision,
                attempt,
                body: FrameBody::Start { at },
            }
        })
    }

    /// `None` if no answer is coming in.
    pub(crate) fn chunk(&self, time: i64, chunk: &Chunk) -> Option<StreamFrame> {
        self.with(|state| {
            let answer = state.answer.as_mut()?;
            state.revision += 1;
            answer.revision = state.revision;
            let index = answer.chunks.len() as u64;
            answer.chunks.push((time, chunk.clone()));
            Some(StreamFrame {
                revision: state.revision,
                attempt: answer.attempt.clone(),
                body: FrameBody::Chunk {
                    index,
                    time,
                    chunk: chunk.clone(),
                },
            })
        })
    }

    /// The end of the answer: the event that it became, if it did. `None` if no answer was coming in.
    pub(crate) fn end(&self, committed: Option<(EventKind, Seq)>) -> Option<StreamFrame> {
        self.with(|state| {
            let answer = state.answer.take()?;
            state.revision += 1;
            Some(StreamFrame {
                revision: state.revision,
                attempt: answer.attempt,
                body: committed.map_or(FrameBody::Abandoned, |(event, seq)| FrameBody::Committed {
                    event,
                    seq,
                }),
            })
        })
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        // Nothing panics between two changes of the state.
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
