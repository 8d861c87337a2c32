//! What a provider makes of a configuration before it is called (`reference/agent.md` §2.4).

use crate::message::CallConfig;
use crate::retry::RetryPolicy;

/// A configuration with the provider's own defaults in it, and what the driver has to know of the route.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedCall {
    /// What goes into the header and the request.
    pub config: CallConfig,
    /// Which parts of it are the provider's and not the caller's.
    pub adapter_defaults: AdapterDefaults,
    /// What the model can do.
    pub info: ModelInfo,
    /// How failed attempts are tried again.
    pub retry: RetryPolicy,
}

impl PreparedCall {
    /// A configuration as it is, of a model of which nothing is known.
    #[must_use]
    pub fn plain(config: CallConfig) -> Self {
        Self {
            config,
            adapter_defaults: AdapterDefaults::default(),
            info: ModelInfo::default(),
            retry: RetryPolicy::default(),
        }
    }
}

/// Which parts of a configuration nobody asked for: the provider filled them in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdapterDefaults {
    /// `reasoningEffort` is the provider's.
    pub reasoning_effort: bool,
    /// `maxTokens` is the provider's.
    pub max_tokens: bool,
}

/// What is known of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelInfo {
    /// How many tokens it can see.
    pub context_window: Option<u64>,
    /// How many tokens it may answer with, if nothing else is asked for.
    pub max_tokens: Option<u64>,
    /// Whether it can look at pictures. Those of a model that cannot are replaced by a text that says so.
    pub images: bool,
    /// Whether a changed system prompt is another message in the history instead of a new head.
    pub system_prompt_in_history: bool,
    /// Whether changed tools can be told in the middle of a conversation.
    pub tool_updates: bool,
}
