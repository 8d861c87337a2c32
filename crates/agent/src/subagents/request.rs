//! What is delegated, and what came of it.

use std::sync::Arc;

use offshoot_session::SessionId;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::collapse::RunEnd;
use crate::AgentError;

/// What a child knows when it begins. The names are those of `subagent/descriptor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Its task and nothing else.
    #[default]
    Spawn,
    /// The conversation of its parent through the last completed turn. Where no turn is completed it begins like a spawned
    /// one.
    Fork,
}

impl Provider {
    /// The name under which it is logged.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spawn => "spawn",
            Self::Fork => "fork",
        }
    }
}

/// How long a child lives. The names are those of `subagent/descriptor` and `subagent/catalog`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// For one task.
    #[default]
    OneShot,
    /// It can be sent more.
    Continuable,
}

impl Mode {
    /// The name under which it is logged.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OneShot => "one-shot",
            Self::Continuable => "continuable",
        }
    }
}

/// A task for a new child.
#[derive(Clone, Debug)]
pub struct Delegation {
    /// The task: the child's first message, word for word.
    pub prompt: String,
    /// What people see the child called.
    pub label: Option<String>,
    /// What the child knows.
    pub provider: Provider,
    /// How long it lives.
    pub mode: Mode,
    /// Whether it runs on by itself, and its parent is told when it has come to rest.
    pub background: bool,
    /// Which tools it may use, as names or patterns of names. `None`: those that its parent may use.
    pub tools: Option<Vec<String>>,
    /// The call that wants it.
    pub call_id: Option<String>,
    /// Ends a child that is waited for.
    pub cancel: CancellationToken,
}

impl Delegation {
    /// A task for a spawned one-shot child that is waited for.
    #[must_use]
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            label: None,
            provider: Provider::default(),
            mode: Mode::default(),
            background: false,
            tools: None,
            call_id: None,
            cancel: CancellationToken::new(),
        }
    }
}

/// A child that was created.
#[derive(Clone, Debug)]
pub struct Started {
    /// Its session.
    pub session: SessionId,
    /// What it knew.
    pub provider: Provider,
    /// How long it lives.
    pub mode: Mode,
    /// How its run came out; `None` if it goes on.
    pub end: Option<RunEnd>,
    /// Why its session could not be closed behind its run: what could not be stored of it is lost.
    pub unclosed: Option<Arc<AgentError>>,
}
