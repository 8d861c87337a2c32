//! The failure codes of the model seam. `reference/agent.md` §2.5.
//!
//! Codes are open: `HTTP_<status>` and the upper-cased stop reasons of a provider occur too. So do, in logs that others have
//! written, the codes of programs whose adapters come and go while they run: `NO_ADAPTER`, `DUPLICATE_ADAPTER`,
//! `INVALID_ADAPTER`, `REGISTRATION_DISPOSED`, `INVALID_CATALOG`, `INVALID_MODEL_INFO`, `INVALID_PREPARED_CALL`,
//! `INVALID_DIRECTORY`, `DUPLICATE_DIRECTORY`, `INVALID_DISCOVERY`, `DUPLICATE_DISCOVERY`, `NO_DISCOVERY`,
//! `MISSING_CREDENTIAL`, `INVALID_REPLAY_STATE` and `REQUEST_EXTENSION`. Here nothing of this can fail: providers are fixed
//! at the start, and a replay state that cannot be read is left out. The words below are those that Offshoot uses itself.

// What the provider says, or does.

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
/// The answer hit the token limit in the middle of a tool call.
pub const TRUNCATED_TOOL_CALL: &str = "TRUNCATED_TOOL_CALL";
/// Nothing more is known.
pub const UNKNOWN: &str = "UNKNOWN";

// What is refused before anything is sent.

/// The credential cannot be sent.
pub const INVALID_CREDENTIAL: &str = "INVALID_CREDENTIAL";
/// The history has something in it that cannot be sent.
pub const UNSUPPORTED_CONTENT: &str = "UNSUPPORTED_CONTENT";
/// The provider or the model does not have this setting, or not together with another one.
pub const UNSUPPORTED_OPTION: &str = "UNSUPPORTED_OPTION";
/// The model does not have this reasoning effort.
pub const UNSUPPORTED_REASONING_EFFORT: &str = "UNSUPPORTED_REASONING_EFFORT";
/// There is no such model.
pub const UNKNOWN_MODEL: &str = "UNKNOWN_MODEL";
/// More or larger pictures than one request may have; [`crate::Failure::offload_images`] says how many have to go.
pub const IMAGE_OFFLOAD_REQUIRED: &str = "IMAGE_OFFLOAD_REQUIRED";
/// The context window that is configured for a model cannot be one.
pub const INVALID_MODEL_CONTEXT: &str = "INVALID_MODEL_CONTEXT";
/// The token limit that is configured for a model cannot be one.
pub const INVALID_MODEL_MAX_TOKENS: &str = "INVALID_MODEL_MAX_TOKENS";
/// The model does not have the reasoning effort that is configured for it.
pub const INVALID_MODEL_REASONING: &str = "INVALID_MODEL_REASONING";

/// A [`crate::ScriptModel`] was asked more often than its script has answers.
pub const SCRIPT_EXHAUSTED: &str = "SCRIPT_EXHAUSTED";
