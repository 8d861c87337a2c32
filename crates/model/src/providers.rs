//! The kinds of providers that Offshoot knows by name.

use crate::anthropic::thinking::MessagesDialect;
use crate::openai::dialect::Dialect;
use crate::protocol::Protocol;

/// What a provider is: where it is by default, and how it is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProviderKind {
    /// Anthropic.
    Anthropic,
    /// DeepSeek.
    DeepSeek,
    /// OpenAI.
    OpenAi,
    /// OpenRouter.
    OpenRouter,
    /// Ollama, on this machine unless configured otherwise.
    Ollama,
    /// vLLM, on this machine unless configured otherwise.
    Vllm,
    /// The server of llama.cpp, on this machine unless configured otherwise.
    LlamaCpp,
    /// Anything else that speaks chat completions.
    #[default]
    Compatible,
}

impl ProviderKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Anthropic,
        Self::DeepSeek,
        Self::OpenAi,
        Self::OpenRouter,
        Self::Ollama,
        Self::Vllm,
        Self::LlamaCpp,
        Self::Compatible,
    ];

    /// The kind of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Its name in configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::DeepSeek => "deepseek",
            Self::OpenAi => "openai",
            Self::OpenRouter => "openrouter",
            Self::Ollama => "ollama",
            Self::Vllm => "vllm",
            Self::LlamaCpp => "llama-cpp",
            Self::Compatible => "compatible",
        }
    }

    /// Where it is, if nothing else is configured.
    #[must_use]
    pub const fn base_url(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("https://api.anthropic.com/v1"),
            Self::DeepSeek => Some("https://api.deepseek.com"),
            Self::OpenAi => Some("https://api.openai.com/v1"),
            Self::OpenRouter => Some("https://openrouter.ai/api/v1"),
            Self::Ollama => Some("http://127.0.0.1:11434/v1"),
            Self::Vllm => Some("http://127.0.0.1:8000/v1"),
            Self::LlamaCpp => Some("http://127.0.0.1:8080/v1"),
            Self::Compatible => None,
        }
    }

    /// The environment variable that people keep its key in; `None` if it needs none by default.
    #[must_use]
    pub const fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::DeepSeek => Some("DEEPSEEK_API_KEY"),
            Self::OpenAi => Some("OPENAI_API_KEY"),
            Self::OpenRouter => Some("OPENROUTER_API_KEY"),
            Self::Ollama | Self::Vllm | Self::LlamaCpp | Self::Compatible => None,
        }
    }

    /// How it is spoken to.
    #[must_use]
    pub const fn protocol(self) -> Protocol {
        Protocol::ChatCompletions(match self {
            Self::Anthropic => return Protocol::Messages(MessagesDialect::anthropic()),
            Self::DeepSeek => Dialect::deepseek(),
            Self::OpenAi => Dialect::openai(),
            Self::OpenRouter => Dialect::openrouter(),
            Self::Ollama => Dialect::ollama(),
            Self::Vllm => Dialect::vllm(),
            Self::LlamaCpp => Dialect::llama_cpp(),
            Self::Compatible => Dialect::compatible(),
        })
    }
}
