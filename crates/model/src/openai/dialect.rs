//! How one provider's chat completions differ from the common ground. `reference/agent.md` §2.8.

/// How one provider's chat completions differ from the common ground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dialect {
    /// Whether the model's earlier reasoning is sent back.
    pub reasoning: ReasoningPassback,
    /// How the reasoning effort is said.
    pub effort: EffortStyle,
    /// What the token limit is called.
    pub token_limit: TokenLimitName,
    /// What becomes of instructions that stand behind other messages.
    pub late_instructions: LateInstructions,
}

/// Whether the model's earlier reasoning is sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReasoningPassback {
    /// As `reasoning_content` of every assistant message that had reasoning.
    ReasoningContent,
    /// As `reasoning` of every assistant message that had reasoning.
    Reasoning,
    /// As the `reasoning_details` that came with it, to the letter, where it is the provider's own; else as `reasoning`.
    Details,
    /// Never, for servers that refuse the member.
    Omit,
}

/// How the reasoning effort is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EffortStyle {
    /// `reasoning_effort` with the configured word.
    Plain,
    /// `thinking` is enabled or, for the effort `off`, disabled; other efforts go into `reasoning_effort`.
    Thinking,
    /// `reasoning: {"effort": …}` with the configured word.
    Object,
    /// As arguments of the server's chat template: `enable_thinking` and, unless the effort is `off`, `reasoning_effort`.
    /// Templates ignore what they do not know.
    Template,
}

/// What the token limit is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenLimitName {
    /// `max_tokens`, which nearly every server knows.
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI's reasoning models demand.
    MaxCompletionTokens,
}

/// What becomes of instructions that stand behind other messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LateInstructions {
    /// They are system messages where they stand.
    System,
    /// They are user messages that say what they are: many chat templates refuse a system message that is not the first.
    User,
}

impl Dialect {
    /// The common ground of compatible servers.
    #[must_use]
    pub const fn compatible() -> Self {
        Self {
            reasoning: ReasoningPassback::ReasoningContent,
            effort: EffortStyle::Plain,
            token_limit: TokenLimitName::MaxTokens,
            late_instructions: LateInstructions::System,
        }
    }

    /// DeepSeek.
    #[must_use]
    pub const fn deepseek() -> Self {
        Self {
            effort: EffortStyle::Thinking,
            ..Self::compatible()
        }
    }

    /// OpenAI itself.
    #[must_use]
    pub const fn openai() -> Self {
        Self {
            reasoning: ReasoningPassback::Omit,
            token_limit: TokenLimitName::MaxCompletionTokens,
            ..Self::compatible()
        }
    }

    /// OpenRouter.
    #[must_use]
    pub const fn openrouter() -> Self {
        Self {
            reasoning: ReasoningPassback::Details,
            effort: EffortStyle::Object,
            ..Self::compatible()
        }
    }

    /// Ollama.
    #[must_use]
    pub const fn ollama() -> Self {
        Self {
            reasoning: ReasoningPassback::Reasoning,
            late_instructions: LateInstructions::User,
            ..Self::compatible()
        }
    }

    /// vLLM.
    #[must_use]
    pub const fn vllm() -> Self {
        Self {
            reasoning: ReasoningPassback::Reasoning,
            ..Self::llama_cpp()
        }
    }

    /// The server of llama.cpp.
    #[must_use]
    pub const fn llama_cpp() -> Self {
        Self {
            effort: EffortStyle::Template,
            late_instructions: LateInstructions::User,
            ..Self::compatible()
        }
    }

    /// The efforts that can be said at all; `None` if that is up to the model.
    pub(crate) const fn efforts(self) -> Option<&'static [&'static str]> {
        match self.effort {
            EffortStyle::Thinking => Some(&["off", "low", "high", "max"]),
            EffortStyle::Object => Some(&["none", "minimal", "low", "medium", "high", "xhigh"]),
            EffortStyle::Plain | EffortStyle::Template => None,
        }
    }
}

impl Default for Dialect {
    fn default() -> Self {
        Self::compatible()
    }
}
