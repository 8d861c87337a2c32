//! Tool errors: answers to the model, with a name and a code for machines.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::value::RawValue;
use thiserror::Error;

/// A call that did not work.
///
/// The name and the code are logged beside the result (`reference/agent.md` §3.2); the model reads the message.
#[derive(Clone, Debug, Error)]
#[error("{message}")]
pub struct ToolError {
    name: Cow<'static, str>,
    code: Cow<'static, str>,
    message: String,
    meta: Option<Box<RawValue>>,
}

impl ToolError {
    /// An error with a tool's own name and code.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            code: code.into(),
            message: message.into(),
            meta: None,
        }
    }

    /// `UNKNOWN_TOOL`: no tool of that name is registered.
    pub fn unknown_tool(tool: &str) -> Self {
        Self::new(
            "ToolNotFoundError",
            "UNKNOWN_TOOL",
            format!("there is no tool named `{tool}`"),
        )
    }

    /// `INVALID_ARGS`: the model's arguments do not fit the tool's schema.
    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        Self::new("ToolArgsError", "INVALID_ARGS", message)
    }

    /// `INVALID_TOOL_OUTPUT`: the tool answered something that it must not answer.
    pub fn invalid_output(message: impl Into<String>) -> Self {
        Self::new("ToolOutputError", "INVALID_TOOL_OUTPUT", message)
    }

    /// `ABORTED`: the call was cancelled while it ran.
    pub fn aborted() -> Self {
        Self::new("AbortError", "ABORTED", "tool call aborted")
    }

    /// `ABORTED_BEFORE_DISPATCH`: the turn was cancelled before the call began.
    pub fn aborted_before_dispatch() -> Self {
        Self::new(
            "AbortError",
            "ABORTED_BEFORE_DISPATCH",
            "tool call aborted before dispatch",
        )
    }

    /// `TOOL_TIMEOUT`: the call took longer than the tool allows.
    pub fn timed_out(limit: Duration) -> Self {
        Self::new(
            "ToolTimeoutError",
            "TOOL_TIMEOUT",
            format!("tool call timed out after {}ms", limit.as_millis()),
        )
    }

    /// The call was not allowed to run. Such an error has neither a name nor a code (`reference/agent.md` §3.2).
    pub fn denied(reason: impl Into<String>) -> Self {
        Self::new("", "", reason)
    }

    /// Whether it is [`ToolError::denied`].
    pub fn is_denial(&self) -> bool {
        self.code.is_empty()
    }

    /// The same error with more for the model to read, below the message.
    #[must_use]
    pub fn with_details(mut self, details: &str) -> Self {
        self.message.push('\n');
        self.message.push_str(details);
        self
    }

    /// The same error with facts for front ends, as [`ToolOutput::meta`](crate::ToolOutput::meta) has them.
    #[must_use]
    pub fn with_meta(self, meta: Box<RawValue>) -> Self {
        Self {
            meta: Some(meta),
            ..self
        }
    }

    /// Facts for front ends, kept in the log with the result and never sent to the model.
    pub fn meta(&self) -> Option<&RawValue> {
        self.meta.as_deref()
    }

    /// The class of the error, as in `ToolArgsError`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The stable machine code, as in `INVALID_ARGS`.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// What went wrong, in words.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The text of the result that the model reads: the message behind the prefix that marks errors.
    pub fn model_text(&self) -> String {
        format!("Error: {}", self.message)
    }
}

impl PartialEq for ToolError {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.code == other.code
            && self.message == other.message
            && self.meta().map(RawValue::get) == other.meta().map(RawValue::get)
    }
}

impl Eq for ToolError {}
