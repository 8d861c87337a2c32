//! The vocabulary of asking somebody for permission. Who asks, and how, is the driver's matter.

use serde::{Deserialize, Serialize};

/// What a person is asked before a call runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionQuestion {
    /// The call in question.
    pub call_id: String,
    /// The tool it would run.
    pub tool_name: String,
    /// Why permission is needed, in words for that person.
    pub reason: Option<String>,
}

/// How a question ended; the serialised names are those of `approval/decided` (`reference/persistence.md` §3.5).
///
/// Only [`AllowedOnce`](Self::AllowedOnce) lets the call run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionAnswer {
    /// Yes, for this call only.
    AllowedOnce,
    /// No.
    Rejected,
    /// The question was withdrawn, for example because the turn was aborted.
    Cancelled,
    /// Nobody was there to answer.
    Unavailable,
}
