//! Why a compaction came to nothing.

use offshoot_session::SessionId;

use crate::AgentError;

/// Why a compaction came to nothing (`reference/agent.md` §6.3).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// A turn, or another compaction, is going on.
    #[error("session `{0}` is busy: it can be compacted between turns")]
    Busy(SessionId),
    /// Somebody cancelled it.
    #[error("the compaction was cancelled")]
    Cancelled,
    /// The history that was summarised has changed meanwhile.
    #[error("the conversation changed while it was summarised")]
    Changed,
    /// No model gave a summary that could be used.
    #[error("there is no summary: {0}")]
    Summary(String),
    /// The log refused it.
    #[error("the compaction could not be logged: {0}")]
    Commit(#[source] AgentError),
    /// Storage failed. If the summary was there already, it stands, and is stored with the next flush.
    #[error("the compaction could not be stored: {0}")]
    Persistence(#[source] AgentError),
    /// There is no agent to do it.
    #[error(transparent)]
    Agent(AgentError),
}

impl CompactionError {
    /// The stable machine code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Busy(_) => "busy",
            Self::Cancelled => "cancelled",
            Self::Changed => "changed",
            Self::Summary(_) => "summary",
            Self::Commit(_) => "commit",
            Self::Persistence(_) => "persistence",
            Self::Agent(error) => error.code(),
        }
    }

    /// Why there was no summary, if that is what this text of a `compaction/end` says; else the text.
    pub(crate) fn cause_of_no_summary(text: &str) -> &str {
        let prefix = Self::Summary(String::new()).to_string();
        text.strip_prefix(&*prefix).unwrap_or(text)
    }

    /// What a person can do about it, if there is something.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Busy(_) => Some("wait until it is idle, or cancel what is running".into()),
            Self::Changed => Some("try again".into()),
            Self::Commit(error) | Self::Persistence(error) | Self::Agent(error) => error.hint(),
            Self::Cancelled | Self::Summary(_) => None,
        }
    }
}

impl From<AgentError> for CompactionError {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Busy(session) => Self::Busy(session),
            error => Self::Agent(error),
        }
    }
}
