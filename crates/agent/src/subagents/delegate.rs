//! The tool `delegate`.

use async_trait::async_trait;
use offshoot_session::SessionId;
use offshoot_tool_api::{
    Concurrency, Effects, JsonSchema, Tool, ToolArguments, ToolContext, ToolError, ToolOutput,
    ToolSpec, schemars,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::SubagentError;
use super::order::{Entered, Order};
use super::request::{Delegation, Mode, Provider, Started};
use super::service::Subagents;
use crate::events::row_text;

const DESCRIPTION: &str = "\
Hands a task to a subagent: another agent with the same tools that works on its own and answers with its result. Use it for \
work that would fill this conversation with detail, or for independent parts of a task: several calls in one answer run at the \
same time.

- A subagent with \"fresh\" context knows nothing but the prompt: say everything that it needs. One with \"conversation\" \
context knows this conversation up to the message that you are answering now, but not that message and what followed.
- It cannot ask anybody anything. Ask for exactly what you need back: you see its last message and nothing else of its work.
- It works on the same files as you.";

/// The tool, bound to the session that delegates with it.
#[derive(Debug)]
pub(super) struct Delegate {
    spec: ToolSpec,
    subagents: Subagents,
    caller: SessionId,
    order: Order,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The task, complete: what to do, what is known already, and what to answer.
    prompt: String,
    /// Three to eight words that say what the subagent is for. A person sees them.
    label: Option<String>,
    /// What it knows besides the prompt: nothing if `fresh`, this conversation if `conversation`.
    #[serde(default)]
    context: Context,
    /// `one-shot` ends with its answer; `continuable` runs in the background and can be sent more with send_message.
    #[serde(default)]
    mode: Life,
    /// Whether to go on at once and be told when it has finished; false if absent, then the call waits for its answer.
    #[serde(default)]
    run_in_background: bool,
    /// The only tools that it may use, as names or patterns such as `web_*`; if absent, those that you may use.
    tools: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Context {
    #[default]
    Fresh,
    Conversation,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Life {
    #[default]
    OneShot,
    Continuable,
}

impl Delegate {
    pub(super) fn new(subagents: Subagents, caller: SessionId) -> Self {
        Self {
            spec: ToolSpec::typed::<Arguments>("delegate", DESCRIPTION),
            subagents,
            caller,
            order: Order::default(),
        }
    }

    async fn started(
        &self,
        request: Delegation,
        entered: Option<Entered>,
    ) -> Result<Started, SubagentError> {
        let (slot, passes) = match entered {
            Some(entered) => {
                let (slot, passes) = entered.turn().await;
                (slot, Some(passes))
            }
            None => (self.subagents.take_slot(&self.caller), None),
        };
        let parent = self.subagents.service().agent(&self.caller);
        let unavailable = || SubagentError::ParentUnavailable(self.caller.clone());
        let parent = parent.ok_or_else(unavailable)?;
        let child = self.subagents.create(&parent, &request, slot).await?;
        drop(passes);
        // Whoever has the last handle on it may let it go, and ends the call with it.
        drop(parent);
        Ok(self.subagents.run(child, request).await)
    }
}

#[async_trait]
impl Tool for Delegate {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self) -> Effects {
        Effects::Delegating
    }

    fn concurrency(&self, _arguments: &ToolArguments) -> Concurrency {
        Concurrency::Parallel
    }

    fn will_run(&self, cx: &ToolContext) {
        let slot = || self.subagents.reserve_slot(&self.caller, &cx.cancel);
        self.order.line_up(cx, slot);
    }

    async fn execute(
        &self,
        arguments: ToolArguments,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let entered = self.order.enter(&cx.call_id);
        let arguments: Arguments = arguments.parse()?;
        let request = Delegation {
            prompt: arguments.prompt,
            label: arguments.label,
            provider: match arguments.context {
                Context::Fresh => Provider::Spawn,
                Context::Conversation => Provider::Fork,
            },
            mode: match arguments.mode {
                Life::OneShot => Mode::OneShot,
                Life::Continuable => Mode::Continuable,
            },
            background: arguments.run_in_background,
            tools: arguments.tools,
            call_id: Some(cx.call_id.clone()),
            cancel: cx.cancel.clone(),
        };
        let started = self.started(request, entered).await?;
        let meta = meta(&started);
        match told(&started) {
            Ok(text) => Ok(ToolOutput::text(text).with_meta(meta)),
            Err(error) => Err(error.with_meta(meta)),
        }
    }
}

fn told(started: &Started) -> Result<String, ToolError> {
    let Some(end) = &started.end else {
        let id = &started.session;
        return Ok(format!(
            "started subagent {id}; you will be told when it has finished"
        ));
    };
    let told = end.told();
    match (&started.unclosed, told) {
        (None, told) => told,
        (Some(unclosed), Ok(_)) => {
            let why =
                format!("the subagent finished, but its session could not be stored: {unclosed}");
            let error = ToolError::new("SubagentError", "ACTIVATION_TEARDOWN_FAILED", why);
            Err(error.with_details(&format!("\nIts answer:\n\n{}", end.text)))
        }
        (Some(unclosed), Err(error)) => {
            Err(error.with_details(&format!("\nIts session could not be stored: {unclosed}")))
        }
    }
}

/// Which child it was, for front ends and for replays, also when the call has failed.
fn meta(started: &Started) -> Box<RawValue> {
    #[derive(Serialize)]
    struct Meta<'a> {
        subagent: Subagent<'a>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Subagent<'a> {
        session_id: &'a str,
        provider: Provider,
        mode: Mode,
        #[serde(skip_serializing_if = "Option::is_none")]
        stop_reason: Option<&'static str>,
    }
    row_text(&Meta {
        subagent: Subagent {
            session_id: started.session.as_str(),
            provider: started.provider,
            mode: started.mode,
            stop_reason: started.end.as_ref().map(|end| end.stop.as_str()),
        },
    })
}
