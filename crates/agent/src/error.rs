//! Why the driver could not go on. Failures of the model and of tools are not errors: they are in the log.

use std::sync::Arc;

use offshoot_session::{
    ForkError, LogError, NotContinuable, SeedError, Seq, SessionId, StoreError as LiveError,
};
use offshoot_store::StoreError;

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
    Live(#[from] LiveError),
    /// A fork is not possible.
    #[error(transparent)]
    Fork(#[from] ForkError),
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
    /// A message without text. No provider accepts one.
    #[error("a message needs text")]
    EmptyMessage,
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
            Self::Live(error) => error.code(),
            Self::Fork(error) => error.code(),
            Self::Seed(_) => "INVALID_SEED",
            Self::Request(error) => error.code(),
            Self::Inbox(_) => "INVALID_INBOX",
            Self::NotContinuable(error) => error.code(),
            Self::StillStreaming { .. } => "STILL_STREAMING",
            Self::Busy(_) => "BUSY",
            Self::EmptyMessage => "EMPTY_MESSAGE",
            Self::Worker(_) => "STORAGE_THREAD_FAILED",
        }
    }

    /// What a person can do about it, if there is something.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Request(error) => error.hint(),
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
