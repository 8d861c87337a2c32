//! Why the driver could not go on. Failures of the model and of tools are not errors: they are in the log.

use std::sync::Arc;

use offshoot_model::Failure;
use offshoot_session::{
    ForkError, LogError, NotContinuable, SeedError, Seq, SessionId, StoreError as LiveError,
};
use offshoot_store::StoreError;

use crate::side::SideError;

/// Why the driver could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// An event was refused by its own log.
    #[error("the log refused an event: {0}")]
    Log(#[from] LogError),
    /// Storage failed. No model and no tool was called with work that is not durable.
    #[error(transparent)]
    Store(#[from] Arc<StoreError>),
    /// The session cannot be in memory.
    #[error(transparent)]
    InMemory(#[from] LiveError),
    /// A fork is not possible.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// Something about a side session is not possible.
    #[error(transparent)]
    Side(#[from] SideError),
    /// A seed does not make a session.
    #[error(transparent)]
    Seed(#[from] SeedError),
    /// A request cannot be built from the log.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The pending input that the log tells of cannot be right.
    #[error(
        "the pending input of the session is damaged: event {0} does not fit the list it changes"
    )]
    Inbox(Seq),
    /// The cut is an answer that is still coming in: the event that it becomes will be another one.
    #[error("event {seq} is an answer that is still coming in")]
    StillStreaming {
        /// The event as it would be if the writer ended now.
        seq: Seq,
        /// The last event that is stored.
        last: Seq,
    },
    /// No provider would accept the conversation going on. Nothing was written.
    #[error("the session cannot be continued: {0}")]
    NotContinuable(#[from] NotContinuable),
    /// Not a title.
    #[error("the session cannot be called that: {0}")]
    InvalidTitle(&'static str),
    /// A message without text. No provider accepts one.
    #[error("a message needs text")]
    EmptyMessage,
    /// A message that waits already.
    #[error("message `{0}` is already pending")]
    AlreadyPending(String),
    /// A message that was said already.
    #[error("message `{0}` is already part of the conversation")]
    AlreadySaid(String),
    /// The session is open here, so that nobody else may open it.
    #[error("session `{0}` is open in this process")]
    Live(SessionId),
    /// The agent was disposed of.
    #[error("the agent of `{0}` was disposed of")]
    Disposed(SessionId),
    /// Something that a turn calls ended in a panic.
    #[error("the turn ended unexpectedly: {0}")]
    Panicked(String),
    /// The model failed, and then the log refused what had come of its answer, or the end of the step.
    #[error("the model failed ({}), and then the log could not be completed: {refused}", .failure.message)]
    Unsettled {
        /// What the model failed of.
        failure: Box<Failure>,
        /// Why the log does not say so.
        refused: Box<Self>,
    },
    /// One thing went wrong, and then another while that was dealt with.
    #[error("{first}; then: {then}")]
    Both {
        /// What went wrong.
        first: Box<Self>,
        /// What went wrong because of it, or in spite of it.
        then: Box<Self>,
    },
    /// Work outside of turns was asked for while something else is going on.
    #[error("the agent of `{0}` already has active work")]
    Busy(SessionId),
    /// The storage thread ended without an answer.
    #[error("the storage thread failed: {0}")]
    Worker(String),
}

impl AgentError {
    /// The stable machine code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Log(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::InMemory(error) => error.code(),
            Self::Fork(error) => error.code(),
            Self::Side(error) => error.code(),
            Self::Seed(_) => "INVALID_SEED",
            Self::Request(error) => error.code(),
            Self::Inbox(_) => "INVALID_INBOX",
            Self::NotContinuable(error) => error.code(),
            Self::StillStreaming { .. } => "STILL_STREAMING",
            Self::AlreadyPending(_) => "MESSAGE_PENDING",
            Self::AlreadySaid(_) => "MESSAGE_SAID",
            Self::Live(_) => "SESSION_LIVE",
            Self::Disposed(_) => "AGENT_DISPOSED",
            Self::Panicked(_) => "PANICKED",
            Self::Unsettled { refused, .. } => refused.code(),
            Self::Both { first, .. } => first.code(),
            Self::Busy(_) => "BUSY",
            Self::InvalidTitle(_) => "INVALID_TITLE",
            Self::EmptyMessage => "EMPTY_MESSAGE",
            Self::Worker(_) => "STORAGE_THREAD_FAILED",
        }
    }

    /// This, and what went wrong after it.
    pub(crate) fn then(self, then: Option<Self>) -> Self {
        match then {
            None => self,
            Some(then) => Self::Both {
                first: Box::new(self),
                then: Box::new(then),
            },
        }
    }

    /// What a person can do about it, if there is something.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Unsettled { refused, .. } => refused.hint(),
            Self::Both { first, then } => first.hint().or_else(|| then.hint()),
            Self::Request(error) => error.hint(),
            Self::Side(error) => error.hint(),
            Self::StillStreaming { last, .. } => Some(format!(
                "fork it at {last}, or wait until the answer is there"
            )),
            Self::NotContinuable(error) => error.nearest_cut.map(|cut| {
                format!(
                    "fork it at {cut}: there the step is still open, and the fork answers its calls"
                )
            }),
            Self::Fork(ForkError::ForkUnavailable(_)) => {
                Some("name an event with `--at`; `offshoot show ID` lists them".into())
            }
            Self::Fork(ForkError::InvalidBoundary { .. }) => {
                Some("`offshoot show ID` lists the events and their seqs".into())
            }
            _ => None,
        }
    }
}

impl From<StoreError> for AgentError {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}

/// Why no request can be built from a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// Nothing says which model is meant.
    #[error("the log has no request/header before event {0}, so no request was made there")]
    NoHeader(Seq),
    /// A message that cannot be sent.
    #[error("event {seq} cannot be part of a request: {reason}")]
    Message {
        /// The event.
        seq: Seq,
        /// Why not.
        reason: String,
    },
    /// A request that was built is not the one that the log amounts to. It was not sent.
    #[error(
        "the request at event {seq} is not what the log says: byte {byte} of its JSON is the first to differ from the request \
         rebuilt from the log's text"
    )]
    Mismatch {
        /// The length of the log.
        seq: Seq,
        /// The first byte that differs, from 0.
        byte: usize,
    },
    /// There are fewer requests than that.
    #[error("the session made {made} requests; there is no request {asked}")]
    NoSuchRequest {
        /// The number that was asked for, from 1.
        asked: usize,
        /// How many there are.
        made: usize,
    },
}

impl RequestError {
    /// The stable machine code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoHeader(_) => "NO_REQUEST_HEADER",
            Self::Message { .. } => "UNSENDABLE_MESSAGE",
            Self::Mismatch { .. } => "REQUEST_MISMATCH",
            Self::NoSuchRequest { .. } => "NO_SUCH_REQUEST",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoSuchRequest { made, .. } if *made > 0 => {
                Some(format!("requests are numbered from 1 to {made}"))
            }
            _ => None,
        }
    }
}
