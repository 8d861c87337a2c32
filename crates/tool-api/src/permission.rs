//! The vocabulary of permission: what a session's tools may do unasked, and asking for more.
//!
//! Who asks, and how, is the driver's matter. The limits of a session are a [`SandboxMode`] and the directories that count
//! as its workspace. Inside them a call runs unasked; a call that wants more says so ([`Tool::escalation`]), and then a
//! rule or a person decides.
//!
//! [`Tool::escalation`]: crate::Tool::escalation

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How far tools may reach, from the narrowest to the widest. The serialised names are those of `sandbox/mode`
/// (`reference/persistence.md` §3.5).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Nothing may be changed: files can be read, commands run without write access and without the network.
    ReadOnly,
    /// Files in the workspace and in the directory for temporary files may be changed.
    #[default]
    WorkspaceWrite,
    /// No limits but those of the person's own account.
    DangerFullAccess,
}

impl SandboxMode {
    /// The name under which it is logged and configured.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::DangerFullAccess => "danger-full-access",
        }
    }
}

/// What a call may do unasked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// How far it may reach.
    pub mode: SandboxMode,
    /// Absolute directories that may be changed in [`SandboxMode::WorkspaceWrite`], usually the session's one.
    pub workspace: Vec<PathBuf>,
}

impl Limits {
    /// No limits: what an allowed escalation gets, and only that call.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            mode: SandboxMode::DangerFullAccess,
            workspace: Vec::new(),
        }
    }
}

/// That a call wants to go beyond its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Escalation {
    /// What for, in words for the person who is asked.
    pub reason: String,
}

/// Whether anybody is asked. The serialised names are those of `approval/policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalPolicy {
    /// A person decides.
    #[default]
    Ask,
    /// What would have to be asked is rejected.
    Never,
}

/// What a person is asked before a call runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionQuestion {
    /// The name of the question, which its answer has too.
    pub id: String,
    /// The call in question.
    pub call_id: String,
    /// The tool it would run.
    pub tool_name: String,
    /// Its arguments as the model wrote them.
    pub arguments: String,
    /// Why permission is needed, in words for that person.
    pub reason: Option<String>,
    /// What [`PermissionAnswer::AllowedForSession`] would allow besides this call, in words for that person.
    pub covers: String,
}

/// How a question ended.
///
/// Only the two that allow let the call run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionAnswer {
    /// Yes, for this call only.
    AllowedOnce,
    /// Yes, and the same for like calls of this session.
    AllowedForSession,
    /// No.
    Rejected,
    /// The question was withdrawn, for example because the turn was aborted.
    Cancelled,
    /// Nobody was there to answer.
    Unavailable,
}

impl PermissionAnswer {
    /// The outcome of `approval/decided` (`reference/persistence.md` §3.5): the format knows no answer for a session.
    #[must_use]
    pub const fn outcome(self) -> &'static str {
        match self {
            Self::AllowedOnce | Self::AllowedForSession => "allowed-once",
            Self::Rejected => "rejected",
            Self::Cancelled => "cancelled",
            Self::Unavailable => "unavailable",
        }
    }
}
