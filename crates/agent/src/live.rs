//! The answer that is coming in, as frames that a client can join in the middle (`reference/agent.md` §1.5, V2 and later).
//!
//! Frames live in this process only. Every frame has a revision, one more than the frame before it; whoever joins takes
//! [`LiveAnswer`], which has all chunks up to a revision, and goes on with the frames behind that one. A frame is made once
//! and shared by everybody who sees it, so that neither a long answer nor many clients copy what has come in.

use std::fmt;
use std::sync::Arc;

use offshoot_model::Chunk;
use offshoot_session::{EventKind, Seq, SessionId, SharedVec, StepRef};

/// One frame.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamFrame {
    /// Its number in this process, from 1. It never falls while the session stays open.
    pub revision: u64,
    /// `<session>:<n>`, the same for all frames of an attempt.
    pub attempt: Arc<str>,
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

/// The answer that is coming in, as far as it has come. Cloning it copies no chunk.
#[derive(Clone)]
pub struct LiveAnswer {
    /// The last frame that is in here.
    pub revision: u64,
    /// Which attempt.
    pub attempt: Arc<str>,
    /// For which step.
    pub at: StepRef,
    frames: SharedVec<Arc<StreamFrame>>,
}

impl LiveAnswer {
    /// The chunks that have come in, in order, each with its time in milliseconds since the Unix epoch.
    pub fn chunks(&self) -> impl Iterator<Item = (i64, &Chunk)> {
        let frames = (0..self.frames.len()).filter_map(|at| self.frames.get(at));
        frames.filter_map(|frame| match &frame.body {
            FrameBody::Chunk { time, chunk, .. } => Some((*time, chunk)),
            _ => None,
        })
    }
}

impl PartialEq for LiveAnswer {
    fn eq(&self, other: &Self) -> bool {
        self.revision == other.revision
            && self.attempt == other.attempt
            && self.at == other.at
            && self.chunks().eq(other.chunks())
    }
}

impl fmt::Debug for LiveAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveAnswer")
            .field("revision", &self.revision)
            .field("attempt", &self.attempt)
            .field("at", &self.at)
            .field("chunks", &self.frames.len())
            .finish()
    }
}

/// The frames of a session: makes each, and remembers those of the answer that is coming in.
#[derive(Debug)]
pub(crate) struct LiveStream {
    session: SessionId,
    revision: u64,
    attempts: u64,
    answer: Option<LiveAnswer>,
}

impl LiveStream {
    pub(crate) const fn new(session: SessionId) -> Self {
        Self {
            session,
            revision: 0,
            attempts: 0,
            answer: None,
        }
    }

    /// The number of the last frame.
    pub(crate) const fn revision(&self) -> u64 {
        self.revision
    }

    /// The answer that is coming in, if one is.
    pub(crate) const fn answer(&self) -> Option<&LiveAnswer> {
        self.answer.as_ref()
    }

    pub(crate) fn start(&mut self, at: StepRef) -> Arc<StreamFrame> {
        self.attempts += 1;
        let attempt: Arc<str> = format!("{}:{}", self.session, self.attempts).into();
        let frame = self.frame(Arc::clone(&attempt), FrameBody::Start { at });
        self.answer = Some(LiveAnswer {
            revision: frame.revision,
            attempt,
            at,
            frames: SharedVec::default(),
        });
        frame
    }

    /// `None` if no answer is coming in.
    pub(crate) fn chunk(&mut self, time: i64, chunk: &Chunk) -> Option<Arc<StreamFrame>> {
        let answer = self.answer.as_ref()?;
        let (attempt, index) = (Arc::clone(&answer.attempt), answer.frames.len() as u64);
        let chunk = chunk.clone();
        let frame = self.frame(attempt, FrameBody::Chunk { index, time, chunk });
        let answer = self.answer.as_mut()?;
        answer.revision = frame.revision;
        answer.frames.push(Arc::clone(&frame));
        Some(frame)
    }

    /// The end of the answer: the event that it became, if it did. `None` if no answer was coming in.
    pub(crate) fn end(&mut self, committed: Option<(EventKind, Seq)>) -> Option<Arc<StreamFrame>> {
        let answer = self.answer.take()?;
        let body = committed.map_or(FrameBody::Abandoned, |(event, seq)| FrameBody::Committed {
            event,
            seq,
        });
        Some(self.frame(answer.attempt, body))
    }

    fn frame(&mut self, attempt: Arc<str>, body: FrameBody) -> Arc<StreamFrame> {
        self.revision += 1;
        Arc::new(StreamFrame {
            revision: self.revision,
            attempt,
            body,
        })
    }
}
