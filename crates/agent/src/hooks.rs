//! Where others may join in: before a step and a request, around a tool, when a turn would end.
//!
//! A hook is asked in the order in which it was given; whoever comes later sees what earlier ones have decided. A hook
//! that fails is an error of its step: the driver does not guess what it would have said.

use std::fmt;

use async_trait::async_trait;
use offshoot_model::{CallConfig, Failure};
use offshoot_session::{LiveSession, StepRef};
use offshoot_tool_api::{Effects, ToolError, ToolOutput};
use tokio_util::sync::CancellationToken;

use crate::input::Input;

/// Something that joins in a turn. Every question has an answer by default: nothing is changed.
#[async_trait]
pub trait AgentHook: Send + Sync + fmt::Debug {
    /// Before a step: which messages enter it. `entering` is what was claimed, then what has changed of the project's
    /// instructions and of the runtime context.
    ///
    /// # Errors
    /// The turn ends with this error.
    async fn pre_step(
        &self,
        _cx: &StepContext<'_>,
        entering: Vec<Input>,
    ) -> Result<PreStep, HookError> {
        Ok(PreStep::Enter {
            messages: entering,
            starts_series: false,
        })
    }

    /// Before a request: with which configuration the model is called.
    ///
    /// # Errors
    /// The turn ends with this error.
    async fn request(
        &self,
        _cx: &StepContext<'_>,
        config: CallConfig,
    ) -> Result<CallConfig, HookError> {
        Ok(config)
    }

    /// An attempt has failed, and no compaction has made it worth another one. Asked before the provider's own policy is:
    /// what a hook wants tried again is tried at once, and uses up none of the policy's retries.
    ///
    /// # Errors
    /// The turn ends with this error.
    async fn request_failed(
        &self,
        _cx: &StepContext<'_>,
        _failure: &Failure,
    ) -> Result<Recovery, HookError> {
        Ok(Recovery::GiveUp)
    }

    /// Before a call runs: whether it may. It is only tightened: a hook cannot allow what the rules ask about or deny.
    ///
    /// # Errors
    /// The call fails with this error; the turn goes on.
    async fn pre_execute(
        &self,
        _cx: &StepContext<'_>,
        _call: &ProposedCall<'_>,
    ) -> Result<Gate, HookError> {
        Ok(Gate::Allow)
    }

    /// After a call, also one that was denied: what of its outcome the model is told.
    ///
    /// # Errors
    /// The call fails with this error; the turn goes on.
    async fn post_execute(
        &self,
        _cx: &StepContext<'_>,
        _call: &ProposedCall<'_>,
        _outcome: &Result<ToolOutput, ToolError>,
    ) -> Result<PostExecute, HookError> {
        Ok(PostExecute::default())
    }

    /// The turn would end now. Whoever has more to say steers it (returns messages): then there is another step.
    ///
    /// # Errors
    /// The turn ends with this error.
    async fn turn_stopping(&self, _cx: &StepContext<'_>) -> Result<Vec<Input>, HookError> {
        Ok(Vec::new())
    }
}

/// What surrounds a question to a hook.
#[derive(Debug)]
pub struct StepContext<'a> {
    /// The session. Hooks look at its log; what they want said goes through their answers.
    pub session: &'a LiveSession,
    /// The turn and the step; before the step of that number has begun in [`AgentHook::pre_step`].
    pub at: StepRef,
    /// Cancelled with the turn.
    pub cancel: &'a CancellationToken,
}

/// Whether a step begins.
#[derive(Clone, Debug)]
pub enum PreStep {
    /// With these messages. A first step without messages does not begin.
    Enter {
        /// What joins the conversation, in this order.
        messages: Vec<Input>,
        /// Whether the requests from here on are a new series, so that nobody expects the last one as their prefix.
        starts_series: bool,
    },
    /// It does not, and the turn ends as blocked. What was claimed is gone, except for messages that are kept.
    Reject,
}

/// What becomes of a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The turn ends with the failure.
    GiveUp,
    /// It is made again, in the same step.
    Retry,
}

/// A call before it runs.
#[derive(Clone, Copy, Debug)]
pub struct ProposedCall<'a> {
    /// The id that the model gave it.
    pub call_id: &'a str,
    /// The tool.
    pub tool_name: &'a str,
    /// Its arguments as the model wrote them.
    pub arguments: &'a str,
    /// What the tool can do; `None` if there is no such tool.
    pub effects: Option<Effects>,
}

/// Whether a call may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It may.
    Allow,
    /// It may not.
    Deny {
        /// Why not, for the model.
        reason: String,
    },
    /// A person decides.
    Ask {
        /// Why, for that person.
        reason: Option<String>,
    },
}

/// What a hook makes of an outcome.
#[derive(Clone, Debug, Default)]
pub struct PostExecute {
    /// If there is something here, the call counts as failed and this is what the model is told instead. What the tool
    /// itself wanted said besides is dropped.
    pub block: Option<String>,
    /// What the model is told besides, before the next step.
    pub contexts: Vec<Input>,
}

/// A hook that could not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HookError {
    /// What went wrong.
    pub message: String,
    /// The stable machine code.
    pub code: String,
}
