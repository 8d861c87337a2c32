//! The tool `interrupt_agent`.

use async_trait::async_trait;
use offshoot_session::SessionId;
use offshoot_tool_api::schemars::{self, JsonSchema};
use offshoot_tool_api::{
    Effects, Tool, ToolArguments, ToolContext, ToolError, ToolOutput, ToolSpec,
};
use serde::Deserialize;

use super::message::Interrupted;
use super::service::Subagents;

const DESCRIPTION: &str = "\
Stops what a subagent is doing, and what it has delegated itself. Messages that it has not read are dropped. It is not gone: one \
that was started with mode \"continuable\" can be sent more with send_message. You are told when it has stopped.";

/// The tool, bound to the session that stops others with it.
#[derive(Debug)]
pub(super) struct InterruptAgent {
    spec: ToolSpec,
    subagents: Subagents,
    caller: SessionId,
}

/// What the model says.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The id of the subagent.
    agent_id: String,
}

impl InterruptAgent {
    pub(super) fn new(subagents: Subagents, caller: SessionId) -> Self {
        Self {
            spec: ToolSpec::typed::<Arguments>("interrupt_agent", DESCRIPTION),
            subagents,
            caller,
        }
    }
}

#[async_trait]
impl Tool for InterruptAgent {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self) -> Effects {
        Effects::Delegating
    }

    async fn execute(
        &self,
        arguments: ToolArguments,
        _cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let Arguments { agent_id } = arguments.parse()?;
        let caller = self.subagents.caller(&self.caller)?;
        let session = SessionId::new(agent_id.clone());
        let text = match self.subagents.interrupt(&caller, &session).await? {
            Interrupted::Stopping => format!("Subagent {agent_id} is being stopped."),
            Interrupted::AtRest => {
                format!("Subagent {agent_id} was not at work; there was nothing to stop.")
            }
        };
        Ok(ToolOutput::text(text))
    }
}
