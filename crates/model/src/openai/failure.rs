//! From what a provider says about a failure to a [`Failure`]. `reference/agent.md` §2.5.

use serde_json::Value;

use crate::codes;
use crate::stream::Failure;

/// Longer messages are cut; a provider may echo the whole request.
const MAX_MESSAGE_CHARS: usize = 2_000;

/// The failure that an HTTP answer with an error status stands for; `body` may be anything.
#[cfg_attr(
    not(feature = "http"),
    expect(dead_code, reason = "only the transport sees statuses")
)]
pub(crate) fn from_status(status: u16, body: &str) -> Failure {
    let parsed: Option<Value> = serde_json::from_str(body).ok();
    let said = parsed.as_ref().map(Said::new).unwrap_or_default();
    let message = match said.message {
        Some(message) => message,
        None if body.trim().is_empty() => {
            format!("the provider answered with HTTP status {status}")
        }
        None => body.trim().to_owned(),
    };
    let mut failure = Failure::new(status_code(status, body), bounded(message));
    failure.status = Some(status);
    failure
}

/// The failure that an error object inside a stream stands for; `error` is the value of its `error` member.
pub(crate) fn from_error_object(error: &Value) -> Failure {
    let said = Said::new(error);
    let status = said
        .code
        .as_deref()
        .and_then(|code| code.parse::<u16>().ok());
    let status = status.filter(|status| (400..=599).contains(status));
    let text = error.to_string();
    let code = match (&said.code, status) {
        (_, Some(status)) => status_code(status, &text),
        _ if speaks_of_quota(&text) => codes::QUOTA.to_owned(),
        _ if speaks_of_context(&text) => codes::CONTEXT_WINDOW_EXCEEDED.to_owned(),
        (Some(code), None) => named_code(code),
        (None, None) => codes::UNKNOWN.to_owned(),
    };
    let message = said
        .message
        .unwrap_or_else(|| "the provider reported an error".to_owned());
    let mut failure = Failure::new(code, bounded(message));
    failure.status = status;
    failure
}

/// Cuts a provider's text to a bearable length.
pub(crate) fn bounded(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE_CHARS) {
        message.truncate(end);
        message.push('…');
    }
    message
}

/// A provider's own word as a failure code.
pub(crate) fn upper_cased(word: &str) -> String {
    word.trim().to_uppercase()
}

fn status_code(status: u16, text: &str) -> String {
    let code = match status {
        401 | 403 => codes::AUTH,
        413 => codes::INVALID_REQUEST,
        400..=499 if speaks_of_quota(text) => codes::QUOTA,
        429 => codes::RATE_LIMIT,
        400 if speaks_of_context(text) => codes::CONTEXT_WINDOW_EXCEEDED,
        400 => codes::INVALID_REQUEST,
        500.. => codes::SERVER,
        other => return format!("HTTP_{other}"),
    };
    code.to_owned()
}

fn named_code(code: &str) -> String {
    let lower = code.to_lowercase();
    let mentions = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if mentions(&["rate_limit", "too_many_requests"]) {
        codes::RATE_LIMIT.to_owned()
    } else if mentions(&[
        "server_error",
        "internal_error",
        "overloaded",
        "unavailable",
    ]) {
        codes::SERVER.to_owned()
    } else if mentions(&["invalid_request"]) {
        codes::INVALID_REQUEST.to_owned()
    } else if mentions(&["authentication", "invalid_api_key", "permission"]) {
        codes::AUTH.to_owned()
    } else {
        upper_cased(code)
    }
}

fn speaks_of_quota(text: &str) -> bool {
    const WORDS: [&str; 4] = [
        "insufficient_quota",
        "exceeded your current quota",
        "insufficient balance",
        "quota exceeded",
    ];
    mentions_any(text, &WORDS)
}

fn speaks_of_context(text: &str) -> bool {
    const WORDS: [&str; 7] = [
        "context_length",
        "context length",
        "context window",
        "context size",
        "maximum context",
        "prompt is too long",
        "too many tokens",
    ];
    mentions_any(text, &WORDS)
}

fn mentions_any(text: &str, words: &[&str]) -> bool {
    let text = text.to_lowercase();
    words.iter().any(|word| text.contains(word))
}

/// What an error answer says, wherever it says it.
#[derive(Default)]
struct Said {
    message: Option<String>,
    code: Option<String>,
}

impl Said {
    fn new(value: &Value) -> Self {
        let value = value.get("error").unwrap_or(value);
        let message = match value {
            Value::String(message) => Some(message.clone()),
            other => ["message", "detail", "msg"]
                .iter()
                .find_map(|key| text(other.get(key)?)),
        };
        let code = ["code", "type"]
            .iter()
            .find_map(|key| text(value.get(key)?));
        Self { message, code }
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
