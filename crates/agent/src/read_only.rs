//! An agent that may only look.

use async_trait::async_trait;
use offshoot_tool_api::Effects;

use crate::hooks::{AgentHook, Gate, HookError, ProposedCall, StepContext};

/// Denies every call that can change something, or that hands work to an agent which might: only what is read-only passes.
///
/// The tools stay in sight of the model, so that an agent that goes on with the conversation of another one sends the same
/// beginning of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOnlyGate;

#[async_trait]
impl AgentHook for ReadOnlyGate {
    async fn pre_execute(
        &self,
        _cx: &StepContext<'_>,
        call: &ProposedCall<'_>,
    ) -> Result<Gate, HookError> {
        let does = match call.effects {
            // A tool that does not exist does nothing, and the model is told so.
            None | Some(Effects::ReadOnly) => return Ok(Gate::Allow),
            Some(Effects::Mutating) => "can change things",
            Some(Effects::Delegating) => "hands work to another agent",
        };
        let tool = call.tool_name;
        Ok(Gate::Deny {
            reason: format!("tool \"{tool}\" {does}, and this agent may only look"),
        })
    }
}
