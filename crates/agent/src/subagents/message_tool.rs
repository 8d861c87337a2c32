//! The tool `send_message`.

use async_trait::async_trait;
use offshoot_session::SessionId;
use offshoot_tool_api::schemars::{self, JsonSchema};
use offshoot_tool_api::{
    Effects, Tool, ToolArguments, ToolContext, ToolError, ToolOutput, ToolSpec,
};
use serde::{Deserialize, Serialize};

use super::message::{Delivery, Sent};
use super::service::Subagents;
use crate::events::row_text;

const DESCRIPTION: &str = "\
Sends a message to a subagent of yours that was started with mode \"continuable\", or to the agent that has delegated to you. \
One that works reads it at its next step, one that has finished works again. The call does not wait for an answer: you are told \
when the subagent has finished.";

/// What a child calls the agent that has delegated to it.
const PARENT: &str = "parent";

/// The tool, bound to the session that sends with it. Its calls run alone, so that messages arrive in the order in which the
/// model has asked for them.
#[derive(Debug)]
pub(super) struct SendMessage {
    spec: ToolSpec,
    subagents: Subagents,
    caller: SessionId,
}

/// What the model says.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The id of the subagent, or "parent" for the agent that has delegated to you.
    subagent_id: String,
    /// What to tell it.
    message: String,
}

impl SendMessage {
    pub(super) fn new(subagents: Subagents, caller: SessionId) -> Self {
        Self {
            spec: ToolSpec::typed::<Arguments>("send_message", DESCRIPTION),
            subagents,
            caller,
        }
    }
}

#[async_trait]
impl Tool for SendMessage {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self) -> Effects {
        Effects::Delegating
    }

    async fn execute(
        &self,
        arguments: ToolArguments,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let Arguments {
            subagent_id: to,
            message,
        } = arguments.parse()?;
        let caller = self.subagents.caller(&self.caller)?;
        let (sent, whom) = if to == PARENT {
            let sent = self.subagents.report(&caller, &message)?;
            (sent, "the agent that has delegated to you".to_owned())
        } else {
            let child = SessionId::new(to.clone());
            let sent = self.subagents.send(&caller, &child, &message, &cx.cancel);
            (sent.await?, format!("subagent {to}"))
        };
        Ok(ToolOutput::text(told(&sent, &whom)).with_meta(meta(&sent, &to)))
    }
}

fn told(sent: &Sent, whom: &str) -> String {
    let id = &sent.message;
    match sent.delivery {
        Delivery::AtWork => {
            format!("Message {id} was sent to {whom}, which works and will read it.")
        }
        Delivery::Woken => format!("Message {id} was sent to {whom}, which works again."),
        Delivery::Waiting => format!("Message {id} waits for {whom}, which was stopped."),
    }
}

/// Which message it was, for front ends.
fn meta(sent: &Sent, to: &str) -> Box<serde_json::value::RawValue> {
    #[derive(Serialize)]
    struct Meta<'a> {
        message: Message<'a>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Message<'a> {
        message_id: &'a str,
        to: &'a str,
    }
    row_text(&Meta {
        message: Message {
            message_id: &sent.message,
            to,
        },
    })
}
