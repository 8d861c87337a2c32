//! A failed command: what went wrong, its stable code, and what to do next.

use std::fmt;

use offshoot_agent::{AgentError, ReplayError, RequestError};
use offshoot_store::StoreError;

/// What a command says when it fails.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// Whether the output was closed by whoever read it: nothing to complain about.
    pub(crate) broken_pipe: bool,
}

impl Failure {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            broken_pipe: false,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self {
            hint: error.hint(),
            ..Self::new(error.code(), error.to_string())
        }
    }
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        Self {
            hint: error.hint(),
            ..Self::new(error.code(), error.to_string())
        }
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        AgentError::from(error).into()
    }
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        Self::new("REPLAY_UNAVAILABLE", error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let broken_pipe = error.kind() == std::io::ErrorKind::BrokenPipe;
        Self {
            broken_pipe,
            ..Self::new("IO_ERROR", format!("could not write the output: {error}"))
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        match error.io_error_kind() {
            Some(kind) => std::io::Error::from(kind).into(),
            None => Self::new("INTERNAL", error.to_string()),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new("FAILED", format!("{error:#}"))
    }
}
