//! What a provider makes of a configuration before it is called (`reference/agent.md` §2.4).

use crate::anthropic::thinking::{Effort, LEAST_ANSWER, LEAST_BUDGET, MessagesDialect};
use crate::catalog::{self, Efforts, KnownModel};
use crate::codes;
use crate::message::CallConfig;
use crate::protocol::Protocol;
use crate::providers::ProviderKind;
use crate::retry::RetryPolicy;
use crate::stream::Failure;

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
    /// The reasoning efforts that it has; `None` if nobody knows, and any word is tried.
    pub efforts: Option<&'static [&'static str]>,
}

/// What configuration says of a model; it goes before what is generally known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelSettings {
    /// How many tokens it can see.
    pub context_window: Option<u64>,
    /// How many tokens it may answer with, if nothing else is asked for.
    pub max_tokens: Option<u64>,
    /// Whether it can look at pictures.
    pub images: Option<bool>,
    /// The reasoning effort, if nothing else is asked for.
    pub reasoning_effort: Option<String>,
}

/// A model of a provider, as far as it decides how requests look.
#[derive(Clone, Debug)]
pub struct Route<'a> {
    /// What the provider is.
    pub kind: ProviderKind,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// What configuration says of the model.
    pub settings: Option<&'a ModelSettings>,
}

impl Route<'_> {
    /// What is known of the model `model`.
    #[must_use]
    pub fn info(&self, model: &str) -> ModelInfo {
        let known = catalog::known(self.kind, model);
        let said = self.settings;
        let generally = |of: fn(&KnownModel) -> Option<u64>| known.as_ref().and_then(of);
        let context_window = said.and_then(|said| said.context_window);
        let max_tokens = said.and_then(|said| said.max_tokens);
        let needs_limit = matches!(self.protocol, Protocol::Messages(_));
        ModelInfo {
            context_window: context_window
                .or_else(|| generally(|known| Some(known.context_window))),
            max_tokens: max_tokens
                .or_else(|| generally(|known| known.max_tokens))
                .or_else(|| needs_limit.then(|| catalog::max_tokens(model))),
            images: said
                .and_then(|said| said.images)
                .unwrap_or(known.is_some_and(|known| known.images)),
            system_prompt_in_history: false,
            tool_updates: false,
            efforts: self.efforts(model, known),
        }
    }

    /// The configuration with what nobody asked for filled in.
    ///
    /// # Errors
    /// [`codes::UNSUPPORTED_REASONING_EFFORT`] or [`codes::UNSUPPORTED_OPTION`]: the model would refuse it. The message says
    /// what it would take. [`codes::INVALID_MODEL_CONTEXT`], [`codes::INVALID_MODEL_MAX_TOKENS`] or
    /// [`codes::INVALID_MODEL_REASONING`]: it is what is configured for the model that cannot be.
    pub fn prepare(&self, config: &CallConfig) -> Result<PreparedCall, Failure> {
        let mut prepared = PreparedCall::plain(config.clone());
        prepared.info = self.info(&config.model);
        self.check_settings(&config.model, prepared.info.efforts)?;
        let filled = &mut prepared.config;
        if filled.max_tokens.is_none() && prepared.info.max_tokens.is_some() {
            filled.max_tokens = prepared.info.max_tokens;
            prepared.adapter_defaults.max_tokens = true;
        }
        if let Some(effort) = &filled.reasoning_effort {
            check_effort(effort, &filled.model, prepared.info.efforts)?;
        } else if let Some(effort) = self.default_effort(&filled.model) {
            filled.reasoning_effort = Some(effort);
            // What is filled in must not be what makes the call impossible.
            if self.check(filled).is_ok() {
                prepared.adapter_defaults.reasoning_effort = true;
            } else {
                filled.reasoning_effort = None;
            }
        }
        self.check(filled)?;
        Ok(prepared)
    }

    fn efforts(&self, model: &str, known: Option<KnownModel>) -> Option<&'static [&'static str]> {
        if let Some(KnownModel {
            efforts: Efforts::Only(efforts),
            ..
        }) = known
        {
            return Some(efforts);
        }
        match self.protocol {
            Protocol::ChatCompletions(dialect) => dialect.efforts(),
            Protocol::Messages(dialect) => Some(dialect.efforts(model)),
        }
    }

    fn default_effort(&self, model: &str) -> Option<String> {
        let said = self.settings.and_then(|said| said.reasoning_effort.clone());
        said.or_else(|| match catalog::known(self.kind, model)?.efforts {
            Efforts::OfDialect { default } => default.map(str::to_owned),
            Efforts::Only(_) => None,
        })
    }

    fn check_settings(
        &self,
        model: &str,
        efforts: Option<&'static [&'static str]>,
    ) -> Result<(), Failure> {
        let Some(said) = self.settings else {
            return Ok(());
        };
        let zero = |code, what: &str| {
            let message = format!("{what} that is configured for the model `{model}` is 0");
            Err(Failure::new(code, message))
        };
        if said.context_window == Some(0) {
            return zero(codes::INVALID_MODEL_CONTEXT, "the context window");
        }
        if said.max_tokens == Some(0) {
            return zero(codes::INVALID_MODEL_MAX_TOKENS, "the token limit");
        }
        let Some(effort) = &said.reasoning_effort else {
            return Ok(());
        };
        check_effort(effort, model, efforts).map_err(|failure| Failure {
            code: codes::INVALID_MODEL_REASONING.to_owned(),
            ..failure
        })
    }

    /// What a protocol does not take together.
    fn check(&self, config: &CallConfig) -> Result<(), Failure> {
        match self.protocol {
            Protocol::ChatCompletions(_) => Ok(()),
            Protocol::Messages(dialect) => check_messages(dialect, config),
        }
    }
}

fn check_effort(
    effort: &str,
    model: &str,
    efforts: Option<&'static [&'static str]>,
) -> Result<(), Failure> {
    let message = match efforts {
        None => return Ok(()),
        Some(efforts) if efforts.contains(&effort) => return Ok(()),
        Some([]) => {
            format!("the model `{model}` has no reasoning efforts, so it cannot have `{effort}`")
        }
        Some(efforts) => format!(
            "the model `{model}` has no reasoning effort `{effort}`; it has {}",
            efforts.join(", ")
        ),
    };
    Err(Failure::new(codes::UNSUPPORTED_REASONING_EFFORT, message))
}

fn check_messages(dialect: MessagesDialect, config: &CallConfig) -> Result<(), Failure> {
    let refused = |message: String| Err(Failure::new(codes::UNSUPPORTED_OPTION, message));
    let max_tokens = config
        .max_tokens
        .unwrap_or_else(|| catalog::max_tokens(&config.model));
    let roomy = Effort::new(dialect, config, u64::MAX);
    if roomy.has_budget() && max_tokens < LEAST_BUDGET + LEAST_ANSWER {
        return refused(format!(
            "the model `{}` cannot think within {max_tokens} tokens: allow at least {}, or set the reasoning effort `off`",
            config.model,
            LEAST_BUDGET + LEAST_ANSWER
        ));
    }
    match config.temperature {
        #[expect(clippy::float_cmp, reason = "exactly 1 is what the provider takes")]
        Some(temperature) if roomy.is_claude_thinking() && temperature != 1.0 => refused(format!(
            "the model `{}` has no temperature while it thinks: leave it out, or set the reasoning effort `off`",
            config.model
        )),
        Some(temperature) if !(0.0..=1.0).contains(&temperature) => refused(format!(
            "the temperature {temperature} is not within 0 and 1, as Messages demands"
        )),
        _ => Ok(()),
    }
}
