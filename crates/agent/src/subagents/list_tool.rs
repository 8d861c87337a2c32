//! The tool `list_agents`.

use async_trait::async_trait;
use offshoot_session::SessionId;
use offshoot_tool_api::schemars::{self, JsonSchema};
use offshoot_tool_api::{
    Concurrency, Effects, Tool, ToolArguments, ToolContext, ToolError, ToolOutput, ToolSpec,
};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::service::Subagents;
use super::status::{Known, SubagentState, children};
use crate::AgentError;
use crate::events::row_text;

const DESCRIPTION: &str = "\
Lists your subagents in the order in which you have started them, with their ids, what they were started for, and whether they \
work or have finished. Also those of earlier runs of the program. You need not wait with it: you are told when one has finished.";

/// The tool, bound to the session whose children it lists.
#[derive(Debug)]
pub(super) struct ListAgents {
    spec: ToolSpec,
    subagents: Subagents,
    caller: SessionId,
}

/// The model says nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

impl ListAgents {
    pub(super) fn new(subagents: Subagents, caller: SessionId) -> Self {
        Self {
            spec: ToolSpec::typed::<Arguments>("list_agents", DESCRIPTION),
            subagents,
            caller,
        }
    }
}

#[async_trait]
impl Tool for ListAgents {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self) -> Effects {
        Effects::ReadOnly
    }

    fn concurrency(&self, _arguments: &ToolArguments) -> Concurrency {
        Concurrency::Parallel
    }

    async fn execute(
        &self,
        arguments: ToolArguments,
        _cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let Arguments {} = arguments.parse()?;
        let children = children(self.subagents.caller(&self.caller)?.session());
        let subagents = self.subagents.clone();
        let looked = spawn_blocking(move || {
            let state = |known: Known| {
                let state = subagents.state_of(&known.session);
                (known, state)
            };
            children.into_iter().map(state).collect::<Vec<_>>()
        });
        let listed = looked.await.map_err(|error| {
            let error = AgentError::Worker(error.to_string());
            ToolError::new("SubagentError", error.code(), error.to_string())
        })?;
        Ok(ToolOutput::text(told(&listed)).with_meta(meta(&listed)))
    }
}

fn told(listed: &[(Known, SubagentState)]) -> String {
    if listed.is_empty() {
        return "You have no subagents.".to_owned();
    }
    let lines = listed.iter().map(|(known, state)| {
        let label = known.label.as_deref();
        let label = label.map(|label| format!(" ({label})")).unwrap_or_default();
        let mode = known.mode.map_or("unknown mode", |mode| mode.as_str());
        format!("{}{label}, {mode}: {state}", known.session)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The same for front ends.
fn meta(listed: &[(Known, SubagentState)]) -> Box<serde_json::value::RawValue> {
    #[derive(Serialize)]
    struct Meta<'a> {
        subagents: Vec<Listed<'a>>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Listed<'a> {
        session_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        mode: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        label: Option<&'a str>,
        state: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        stop_reason: Option<&'static str>,
    }
    let listed = listed.iter().map(|(known, state)| Listed {
        session_id: known.session.as_str(),
        mode: known.mode.map(|mode| mode.as_str()),
        label: known.label.as_deref(),
        state: state.as_str(),
        stop_reason: match state {
            SubagentState::Settled(stop) => Some(stop.as_str()),
            _ => None,
        },
    });
    row_text(&Meta {
        subagents: listed.collect(),
    })
}
