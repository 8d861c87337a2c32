//! From what a provider says about a failure to a [`Failure`]. `reference/agent.md` §2.5.
//!
//! Providers agree on statuses and on little else, so what a 400 or a 429 means is read from its text. The wordings are
//! those of the providers that Offshoot knows and of the servers that people run themselves.

use serde_json::Value;

use crate::codes;
use crate::stream::Failure;

/// Longer messages are cut; a provider may echo the whole request.
const MAX_MESSAGE_CHARS: usize = 2_000;

/// The failure that an HTTP answer with an error status stands for; `body` may be anything.
#[cfg_attr(
    not(any(feature = "http", test)),
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
    failure.request_id = said.request_id;
    failure
}

/// The failure that an error object inside a stream stands for: the object itself, or one that has it as its `error`.
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
    failure.request_id = said.request_id;
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
        402 => codes::QUOTA,
        413 => codes::INVALID_REQUEST,
        400..=499 if speaks_of_quota(text) => codes::QUOTA,
        429 => codes::RATE_LIMIT,
        400 | 422 if speaks_of_context(text) => codes::CONTEXT_WINDOW_EXCEEDED,
        400 => codes::INVALID_REQUEST,
        // Servers that run one model answer so when the prompt is longer than what they have set aside for it.
        500 if speaks_of_context(text) => codes::CONTEXT_WINDOW_EXCEEDED,
        500.. => codes::SERVER,
        other => return format!("HTTP_{other}"),
    };
    code.to_owned()
}

/// What a word in place of a status means. Anthropic's words end in `_error`, others' do not.
fn named_code(code: &str) -> String {
    const WORDS: [(&str, &str); 17] = [
        ("rate_limit", codes::RATE_LIMIT),
        ("too_many_requests", codes::RATE_LIMIT),
        ("resource_exhausted", codes::RATE_LIMIT),
        ("billing", codes::QUOTA),
        ("overloaded", codes::SERVER),
        ("unavailable", codes::SERVER),
        ("server_error", codes::SERVER),
        ("internal_error", codes::SERVER),
        ("api_error", codes::SERVER),
        ("timeout", codes::TIMEOUT),
        ("authentication", codes::AUTH),
        ("invalid_api_key", codes::AUTH),
        ("permission", codes::AUTH),
        ("unauthorized", codes::AUTH),
        ("model_not_found", codes::UNKNOWN_MODEL),
        ("request_too_large", codes::INVALID_REQUEST),
        ("invalid_request", codes::INVALID_REQUEST),
    ];
    let lower = code.to_lowercase();
    let known = WORDS.iter().find(|(word, _)| lower.contains(word));
    known.map_or_else(|| upper_cased(code), |(_, code)| (*code).to_owned())
}

fn speaks_of_quota(text: &str) -> bool {
    const WORDS: [&str; 7] = [
        "insufficient_quota",
        "exceeded your current quota",
        "insufficient balance",
        "insufficient credits",
        "insufficient funds",
        "credit balance is too low",
        "quota exceeded",
    ];
    mentions_any(text, &WORDS)
}

fn speaks_of_context(text: &str) -> bool {
    const WORDS: [&str; 18] = [
        // OpenAI, DeepSeek, vLLM, OpenRouter, Mistral and most others.
        "context_length",
        "context length",
        "maximum context",
        "context window",
        // llama.cpp.
        "context size",
        "exceed_context_size",
        // Anthropic; the second one is of the days before it had a stop reason for it.
        "prompt is too long",
        "exceed context limit",
        // Ollama and llama.cpp of other versions.
        "prompt too long",
        // vLLM, when the prompt alone is too long.
        "longer than the maximum model length",
        // xAI.
        "maximum prompt length",
        // Groq.
        "reduce the length of the messages",
        // Bedrock.
        "input is too long",
        // Gemini.
        "exceeds the maximum number of tokens",
        // Moonshot.
        "exceeded model token limit",
        // Text Generation Inference.
        "tokens + `max_new_tokens` must be",
        // Gateways in front of any of these.
        "too many tokens",
        "token limit exceeded",
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
    request_id: Option<String>,
}

impl Said {
    fn new(value: &Value) -> Self {
        let request_id = value.get("request_id").and_then(text);
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
        Self {
            message,
            code,
            request_id,
        }
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_providers_wording_of_a_full_context_is_known() {
        let wordings = [
            "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens",
            "prompt is too long: 210000 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
            "Your input exceeds the context window of this model.",
            "the request exceeds the available context size (4096 tokens), try increasing it",
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
            "the input length exceeds the context length",
            "This endpoint's maximum context length is 128000 tokens.",
            "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
            "Please reduce the length of the messages or completion.",
            "Input is too long for requested model.",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "Invalid request: Your request exceeded model token limit: 262144",
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096.",
            "invalid params, context window exceeds limit",
        ];
        for wording in wordings {
            let body = serde_json::json!({ "error": { "message": wording } }).to_string();
            assert_eq!(
                from_status(400, &body).code,
                codes::CONTEXT_WINDOW_EXCEEDED,
                "{wording}"
            );
        }
    }

    #[test]
    fn a_rate_is_not_mistaken_for_a_context_nor_an_empty_account_for_a_rate() {
        let table = [
            (
                429,
                "Too many tokens, please wait before trying again.",
                codes::RATE_LIMIT,
            ),
            (
                429,
                "This request would exceed the rate limit of 30000 input tokens",
                codes::RATE_LIMIT,
            ),
            (
                429,
                "You exceeded your current quota, please check your plan",
                codes::QUOTA,
            ),
            (
                400,
                "Your credit balance is too low to access the API.",
                codes::QUOTA,
            ),
            (402, "Payment required", codes::QUOTA),
            (
                400,
                "max_tokens: 9 > 8, which is the maximum allowed",
                codes::INVALID_REQUEST,
            ),
            (
                422,
                "context length exceeded",
                codes::CONTEXT_WINDOW_EXCEEDED,
            ),
            (413, "request too large", codes::INVALID_REQUEST),
            (529, "Overloaded", codes::SERVER),
            (
                500,
                "the prompt exceeds the context size",
                codes::CONTEXT_WINDOW_EXCEEDED,
            ),
            (408, "late", "HTTP_408"),
            (422, "no such member", "HTTP_422"),
        ];
        for (status, message, code) in table {
            assert_eq!(
                from_status(status, message).code,
                code,
                "{status} {message}"
            );
        }
    }
}
