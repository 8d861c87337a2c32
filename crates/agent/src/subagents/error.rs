//! Why there is no child, or why one cannot be reached.

use offshoot_session::SessionId;
use offshoot_tool_api::{RegistryError, ToolError};

use super::setup::SetupError;
use crate::{AgentError, RuleError};

/// Why a task could not be delegated, or a message not be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubagentError {
    /// A task without words.
    #[error("the prompt is empty; say in it what the subagent is to do")]
    EmptyPrompt,
    /// Delegations lie above each other only so deep.
    #[error(
        "a subagent of this session would be at depth {depth}, and the limit is {max}; do the work here instead"
    )]
    TooDeep {
        /// How deep it would be.
        depth: u64,
        /// How deep it may be.
        max: u64,
    },
    /// A caller may have only so many at work.
    #[error(
        "subagents of this session at work: {running}, and the limit is {max}; wait for one of them, or do the work here"
    )]
    TooMany {
        /// How many work.
        running: usize,
        /// How many may.
        max: usize,
    },
    /// A side session only looks.
    #[error("a side session may only look, and a subagent could do more")]
    SideSession,
    /// There is no agent on the session that delegates.
    #[error("session `{0}` has no agent here that could delegate")]
    ParentUnavailable(SessionId),
    /// Whoever wanted it does not want it any more. There is no child.
    #[error("the delegation was cancelled before there was a subagent")]
    Cancelled,
    /// A filter that is none.
    #[error("`{}` is neither the name of a tool nor a pattern of names", .0.tool)]
    InvalidTools(#[from] RuleError),
    /// A filter for a tool that there is not.
    #[error("there is no tool `{0}` to give to a subagent; name tools that you have")]
    UnknownTool(String),
    /// Nobody who is named so is a child of the session that asks. Whether there is such a session at all is not its business.
    #[error("this session has no subagent `{0}`; list_agents says which it has")]
    NotYours(SessionId),
    /// The child was for one task.
    #[error(
        "subagent `{0}` was started for one task and takes no messages; delegate a new one, with mode \"continuable\" if it is \
         to be sent more"
    )]
    NotResumable(SessionId),
    /// The session that asks is nobody's child.
    #[error("no agent has delegated to this session, so there is none to send a message to")]
    NoParent,
    /// Whoever has delegated is not live in this process.
    #[error("the agent that has delegated to this session is not running")]
    ParentAway,
    /// The session that asks is being closed, or somebody has stopped everything below it.
    #[error("nothing begins below this session now: it is being stopped")]
    Closing,
    /// Whoever sends it does not want to any more. Nobody has got it.
    #[error("the message was not sent: the call was cancelled first")]
    NotSent,
    /// The program could not make its agent.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The tools that every agent gets cannot be added to those that it has.
    #[error(transparent)]
    Equip(#[from] RegistryError),
    /// Session, log or storage failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
}

impl SubagentError {
    /// The stable machine code.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::EmptyPrompt => "EMPTY_PROMPT",
            Self::TooDeep { .. } => "DEPTH_EXCEEDED",
            Self::TooMany { .. } => "CAPACITY_EXCEEDED",
            Self::SideSession => "SIDE_SESSION",
            Self::ParentUnavailable(_) => "PARENT_UNAVAILABLE",
            Self::Cancelled | Self::NotSent => "CANCELLED",
            Self::NotYours(_) | Self::NoParent => "UNAUTHORIZED",
            Self::NotResumable(_) => "NOT_RESUMABLE",
            Self::ParentAway => "PARENT_UNAVAILABLE",
            Self::Closing => "ACTIVATION_CLOSING",
            Self::InvalidTools(_) => "INVALID_TOOL_FILTER",
            Self::UnknownTool(_) => "UNKNOWN_TOOL",
            Self::Setup(error) => &error.code,
            Self::Equip(_) => "TOOL_NAME_TAKEN",
            Self::Agent(error) => error.code(),
        }
    }

    /// The name of its class, as `tool/result` records it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::TooDeep { .. } => "SubagentDepthError",
            _ => "SubagentError",
        }
    }
}

impl From<SubagentError> for ToolError {
    fn from(error: SubagentError) -> Self {
        if let SubagentError::Cancelled = error {
            return Self::aborted();
        }
        Self::new(error.name(), error.code().to_owned(), error.to_string())
    }
}
