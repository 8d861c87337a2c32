//! How a provider is spoken to, by what the settings say of it.

use offshoot_model::{
    Dialect, EffortStyle, LateInstructions, MessagesDialect, Protocol, ProviderKind,
    ReasoningPassback, TokenLimitName,
};

use super::Origin;
use crate::failure::Failure;

/// Keys that say how chat completions are written.
const OPTIONS: [&str; 4] = [
    "reasoning_passback",
    "effort_style",
    "token_limit",
    "late_instructions",
];

/// The protocol of a provider; `said` gives the texts that are set for it.
pub(super) fn protocol<'a>(
    provider: &str,
    kind: ProviderKind,
    said: impl Fn(&str) -> Option<(&'a str, &'a Origin)>,
) -> Result<Protocol, Failure> {
    let text = |key: &str| said(key).map(|(text, _)| text);
    let like = text("dialect").and_then(ProviderKind::parse);
    let usual = like.unwrap_or(kind).protocol();
    let is_messages = match text("protocol") {
        Some(name) => name == "messages",
        None => matches!(usual, Protocol::Messages(_)),
    };
    if !is_messages {
        let dialect = match usual {
            Protocol::ChatCompletions(dialect) => dialect,
            _ => Dialect::compatible(),
        };
        return Ok(Protocol::ChatCompletions(with_options(dialect, text)));
    }
    let misplaced = OPTIONS
        .iter()
        .find_map(|option| Some((option, said(option)?.1)));
    if let Some((option, origin)) = misplaced {
        let message = format!(
            "`providers.{provider}.{option}` is about chat completions, and this provider speaks Messages"
        );
        let failure = Failure::new("INVALID_CONFIG", message);
        return Err(failure.hint(format!("take it out; it is set in `{origin}`")));
    }
    Ok(Protocol::Messages(match like.unwrap_or(kind) {
        ProviderKind::DeepSeek => MessagesDialect::deepseek(),
        _ => MessagesDialect::anthropic(),
    }))
}

fn with_options<'a>(mut dialect: Dialect, text: impl Fn(&str) -> Option<&'a str>) -> Dialect {
    dialect.reasoning = match text("reasoning_passback") {
        Some("reasoning-content") => ReasoningPassback::ReasoningContent,
        Some("reasoning") => ReasoningPassback::Reasoning,
        Some("details") => ReasoningPassback::Details,
        Some("omit") => ReasoningPassback::Omit,
        _ => dialect.reasoning,
    };
    dialect.effort = match text("effort_style") {
        Some("plain") => EffortStyle::Plain,
        Some("thinking") => EffortStyle::Thinking,
        Some("object") => EffortStyle::Object,
        Some("template") => EffortStyle::Template,
        _ => dialect.effort,
    };
    dialect.token_limit = match text("token_limit") {
        Some("max_tokens") => TokenLimitName::MaxTokens,
        Some("max_completion_tokens") => TokenLimitName::MaxCompletionTokens,
        _ => dialect.token_limit,
    };
    dialect.late_instructions = match text("late_instructions") {
        Some("system") => LateInstructions::System,
        Some("user") => LateInstructions::User,
        _ => dialect.late_instructions,
    };
    dialect
}
