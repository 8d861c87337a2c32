//! What is generally known of models, for what configuration does not say.
//!
//! Providers rename and replace models faster than programs are released, so this list is short, an unknown model is no
//! error, and a setting always goes before it.

use crate::providers::ProviderKind;

/// What is known of one model, or of all whose names begin so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownModel {
    /// The name without a date or another suffix.
    name: &'static str,
    /// In tokens.
    pub(crate) context_window: u64,
    /// What an answer is limited to where nobody says otherwise, in tokens.
    pub(crate) max_tokens: Option<u64>,
    pub(crate) images: bool,
    pub(crate) efforts: Efforts,
    /// Only of Claude.
    thinking: Thinking,
}

/// Which efforts a model has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Efforts {
    /// Those of its dialect, this one if nobody asks for another.
    OfDialect { default: Option<&'static str> },
    /// Only these.
    Only(&'static [&'static str]),
}

/// How a Claude model is told to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thinking {
    /// By a word; the model decides how long.
    Adaptive,
    /// By a budget of tokens.
    Budget,
    /// It does not.
    None,
}

/// The limit of an answer where Messages demands one and nobody knows the model, in tokens.
const UNKNOWN_MAX_TOKENS: u64 = 32_000;

const CLAUDE: [KnownModel; 14] = [
    claude("claude-3-haiku", 200_000, 4_096, Thinking::None),
    claude("claude-3-opus", 200_000, 4_096, Thinking::None),
    claude("claude-3-5-haiku", 200_000, 8_192, Thinking::None),
    claude("claude-3-5-sonnet", 200_000, 8_192, Thinking::None),
    claude("claude-3-7-sonnet", 200_000, 32_000, Thinking::Budget),
    claude("claude-sonnet-4", 200_000, 32_000, Thinking::Budget),
    claude("claude-opus-4", 200_000, 32_000, Thinking::Budget),
    claude("claude-opus-4-1", 200_000, 32_000, Thinking::Budget),
    claude("claude-sonnet-4-5", 200_000, 32_000, Thinking::Budget),
    claude("claude-haiku-4-5", 200_000, 32_000, Thinking::Budget),
    claude("claude-opus-4-5", 200_000, 32_000, Thinking::Budget),
    claude("claude-sonnet-4-6", 1_000_000, 32_000, Thinking::Adaptive),
    claude("claude-opus-4-6", 1_000_000, 32_000, Thinking::Adaptive),
    claude("claude-opus-4-7", 1_000_000, 32_000, Thinking::Adaptive),
];

const HIGH: Option<&str> = Some("high");

const GPT: [KnownModel; 12] = [
    gpt("gpt-4o", 128_000, &[]),
    gpt("gpt-4.1", 1_047_576, &[]),
    gpt("o3", 200_000, &["low", "medium", "high"]),
    KnownModel {
        images: false,
        ..gpt("o3-mini", 200_000, &["low", "medium", "high"])
    },
    gpt("o4-mini", 200_000, &["low", "medium", "high"]),
    gpt("gpt-5", 400_000, &["minimal", "low", "medium", "high"]),
    gpt("gpt-5-codex", 400_000, &["low", "medium", "high"]),
    gpt("gpt-5.1", 400_000, &["none", "low", "medium", "high"]),
    gpt("gpt-5.1-codex", 400_000, &["low", "medium", "high"]),
    gpt(
        "gpt-5.1-codex-max",
        400_000,
        &["none", "low", "medium", "high", "xhigh"],
    ),
    gpt(
        "gpt-5.2",
        400_000,
        &["none", "low", "medium", "high", "xhigh"],
    ),
    gpt(
        "gpt-5.2-codex",
        400_000,
        &["low", "medium", "high", "xhigh"],
    ),
];

const DEEPSEEK: [KnownModel; 6] = [
    deepseek("deepseek-chat", 131_072, None, None),
    deepseek("deepseek-reasoner", 131_072, None, None),
    deepseek("deepseek-flash", 1_000_000, Some(256_000), HIGH),
    deepseek("deepseek-v4-flash", 1_000_000, Some(256_000), HIGH),
    deepseek("deepseek-v4-pro", 1_000_000, Some(256_000), HIGH),
    KnownModel {
        images: true,
        ..deepseek(
            "deepseek-v4-flash-vision-exp",
            1_000_000,
            Some(256_000),
            HIGH,
        )
    },
];

const fn claude(
    name: &'static str,
    context_window: u64,
    max_tokens: u64,
    thinking: Thinking,
) -> KnownModel {
    let default = match thinking {
        Thinking::Adaptive => HIGH,
        Thinking::Budget => Some("medium"),
        Thinking::None => None,
    };
    KnownModel {
        name,
        context_window,
        max_tokens: Some(max_tokens),
        images: true,
        efforts: Efforts::OfDialect { default },
        thinking,
    }
}

const fn gpt(
    name: &'static str,
    context_window: u64,
    efforts: &'static [&'static str],
) -> KnownModel {
    KnownModel {
        name,
        context_window,
        max_tokens: None,
        images: true,
        efforts: Efforts::Only(efforts),
        thinking: Thinking::None,
    }
}

const fn deepseek(
    name: &'static str,
    context_window: u64,
    max_tokens: Option<u64>,
    effort: Option<&'static str>,
) -> KnownModel {
    KnownModel {
        name,
        context_window,
        max_tokens,
        images: false,
        efforts: Efforts::OfDialect { default: effort },
        thinking: Thinking::None,
    }
}

/// What is known of a provider's model.
pub(crate) fn known(kind: ProviderKind, model: &str) -> Option<KnownModel> {
    match kind {
        ProviderKind::OpenAi => find(&GPT, model),
        ProviderKind::DeepSeek => find(&DEEPSEEK, model),
        ProviderKind::Anthropic => find(&CLAUDE, model),
        // It names the maker before the model; what an answer may be and how it is asked for is its own affair.
        ProviderKind::OpenRouter => {
            let (maker, model) = model.split_once('/')?;
            let model = model.split(':').next().unwrap_or(model);
            let known = match maker {
                "openai" => find(&GPT, model),
                "deepseek" => find(&DEEPSEEK, model),
                "anthropic" => find(&CLAUDE, &model.replace('.', "-")),
                _ => None,
            };
            known.map(|known| KnownModel {
                max_tokens: None,
                efforts: Efforts::OfDialect { default: None },
                ..known
            })
        }
        // What a server at hand has set aside for a model is not what the model could do.
        ProviderKind::Ollama
        | ProviderKind::Vllm
        | ProviderKind::LlamaCpp
        | ProviderKind::Compatible => None,
    }
}

/// How a Claude model thinks; `None` if nobody knows it.
pub(crate) fn claude_thinking(model: &str) -> Option<Thinking> {
    find(&CLAUDE, model).map(|known| known.thinking)
}

/// The limit of an answer of Messages where the request has none, in tokens.
pub(crate) fn max_tokens(model: &str) -> u64 {
    known(ProviderKind::Anthropic, model)
        .and_then(|known| known.max_tokens)
        .unwrap_or(UNKNOWN_MAX_TOKENS)
}

fn find(models: &[KnownModel], model: &str) -> Option<KnownModel> {
    let named = models.iter().filter(|known| is_named(known.name, model));
    named.max_by_key(|known| known.name.len()).copied()
}

/// Whether `model` is `name`, or one of its editions: `gpt-5-mini` is a `gpt-5`, and `gpt-5.1` and `claude-opus-4-8` are
/// neither that nor a `claude-opus-4`.
fn is_named(name: &str, model: &str) -> bool {
    let Some(rest) = model.strip_prefix(name) else {
        return false;
    };
    let Some(edition) = rest.strip_prefix('-') else {
        return rest.is_empty() || rest.starts_with(['@', ':']);
    };
    let word = edition.split(['-', '@', ':']).next().unwrap_or_default();
    let is_version = word.len() <= 2 && word.bytes().all(|byte| byte.is_ascii_digit());
    !is_version
}
