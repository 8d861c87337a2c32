//! The failure codes that this crate produces or tells apart. `reference/agent.md` §2.5.
//!
//! Codes are open: `HTTP_<status>` and upper-cased codes of a provider occur too.

/// The credential was refused.
pub const AUTH: &str = "AUTH";
/// The account has no budget left; waiting does not help.
pub const QUOTA: &str = "QUOTA";
/// Too many requests; waiting helps.
pub const RATE_LIMIT: &str = "RATE_LIMIT";
/// The request does not fit into the model's context.
pub const CONTEXT_WINDOW_EXCEEDED: &str = "CONTEXT_WINDOW_EXCEEDED";
/// The provider refused the request as such.
pub const INVALID_REQUEST: &str = "INVALID_REQUEST";
/// The provider failed.
pub const SERVER: &str = "SERVER";
/// The connection could not be made, or broke.
pub const TRANSPORT: &str = "TRANSPORT";
/// The provider was silent for too long.
pub const TIMEOUT: &str = "TIMEOUT";
/// The caller cancelled.
pub const ABORTED: &str = "ABORTED";
/// The stream ended before it said that it was complete.
pub const STREAM_CLOSED: &str = "STREAM_CLOSED";
/// The answer is not what the protocol allows.
pub const MALFORMED_RESPONSE: &str = "MALFORMED_RESPONSE";
/// The answer is well formed and has nothing in it.
pub const EMPTY_RESPONSE: &str = "EMPTY_RESPONSE";
/// Nothing more is known.
pub const UNKNOWN: &str = "UNKNOWN";
/// A [`crate::ScriptModel`] was asked more often than its script has answers.
pub const SCRIPT_EXHAUSTED: &str = "SCRIPT_EXHAUSTED";
