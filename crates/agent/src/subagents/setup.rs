//! What a child is made of: the program's business.

use std::fmt;

use offshoot_model::CallConfig;
use offshoot_session::{LiveSession, SessionId};

use super::request::{Mode, Provider};
use crate::setup::AgentSetup;

/// Makes the parts of children.
pub trait SubagentSetup: Send + Sync + fmt::Debug {
    /// The parts of a child's agent, as for any other session: model, tools, hooks, what is configured.
    ///
    /// It is not [equipped](super::Subagents::equip) here; that, the limits, who may be asked and which tools it may use are
    /// [`Subagents`](super::Subagents)' business and are changed afterwards. A child has nobody to ask unless
    /// [`SubagentLimits::approvals`](super::SubagentLimits::approvals) says so; then the approver that is set here is asked.
    ///
    /// # Errors
    /// There can be no such agent. The model that delegates is told why.
    fn setup(&self, child: &NewSubagent<'_>) -> Result<AgentSetup, SetupError>;
}

/// A child whose session exists and whose agent does not yet.
#[derive(Debug)]
#[non_exhaustive]
pub struct NewSubagent<'a> {
    /// Its session. A fork has what it inherits in its log; nothing of its own is there yet.
    pub session: &'a LiveSession,
    /// Whose child it is.
    pub parent: &'a SessionId,
    /// The call that wants it, if one does.
    pub call_id: Option<&'a str>,
    /// What it knows.
    pub provider: Provider,
    /// How long it lives.
    pub mode: Mode,
    /// What it is called.
    pub label: Option<&'a str>,
    /// What the parent's latest request was made with, or else what its next one would be: the model of the child, unless the
    /// program wants another one.
    pub call: &'a CallConfig,
}

/// Why a child cannot have an agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SetupError {
    /// What is wrong.
    pub message: String,
    /// The stable machine code.
    pub code: String,
}
