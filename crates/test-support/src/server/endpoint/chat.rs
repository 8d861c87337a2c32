//! Chat completions.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::reply::Usage;
use super::{Completion, Refusal, halves};

pub(super) fn chunks(completion: &Completion) -> Vec<Bytes> {
    let mut chunks = vec![delta(json!({ "role": "assistant", "content": "" }))];
    for piece in completion.reasoning.split_inclusive(' ') {
        chunks.push(delta(json!({ "reasoning_content": piece })));
    }
    for piece in completion.text.split_inclusive(' ') {
        chunks.push(delta(json!({ "content": piece })));
    }
    for (index, call) in completion.tool_calls.iter().enumerate() {
        chunks.push(delta(json!({ "tool_calls": [{
            "index": index,
            "id": call.id,
            "type": "function",
            "function": { "name": call.name, "arguments": "" },
        }] })));
        for piece in halves(&call.arguments) {
            chunks.push(delta(json!({ "tool_calls": [{
                "index": index,
                "function": { "arguments": piece },
            }] })));
        }
    }
    chunks.push(chunk(json!([
        { "index": 0, "delta": {}, "finish_reason": completion.finish_reason }
    ])));
    if let Some(usage) = completion.usage {
        chunks.push(usage_chunk(usage));
    }
    if completion.done {
        chunks.push(event("[DONE]"));
    }
    chunks
}

pub(super) fn refusal(refusal: Refusal) -> (u16, Value) {
    let (status, code, message) = match refusal {
        Refusal::RateLimit => (429, "rate_limit_error", "Too many requests, slow down."),
        Refusal::Server => (500, "server_error", "Something broke on this side."),
        Refusal::Unavailable => (503, "service_unavailable", "Overloaded, try again later."),
        Refusal::Overloaded => (529, "overloaded", "Overloaded, try again later."),
        Refusal::Unauthorized => (401, "authentication_error", "The API key is not valid."),
        Refusal::Invalid => (400, "invalid_request_error", "The request makes no sense."),
        Refusal::ContextOverflow => (
            400,
            "context_length_exceeded",
            "This model's maximum context length is 1000 tokens, but the messages have 1001 tokens.",
        ),
        Refusal::Quota => (
            402,
            "insufficient_quota",
            "Insufficient balance: the quota is used up.",
        ),
    };
    let body = json!({ "error": { "message": message, "type": code, "code": code } });
    (status, body)
}

/// An event with this data.
pub(in super::super) fn event(data: &str) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

fn delta(delta: Value) -> Bytes {
    chunk(json!([{ "index": 0, "delta": delta, "finish_reason": null }]))
}

fn chunk(choices: Value) -> Bytes {
    event(&envelope(choices).to_string())
}

fn usage_chunk(usage: Usage) -> Bytes {
    let mut body = envelope(json!([]));
    body["usage"] = json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": { "cached_tokens": usage.cached_tokens },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning_tokens },
    });
    event(&body.to_string())
}

fn envelope(choices: Value) -> Value {
    json!({
        "id": "scripted",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "scripted-model",
        "choices": choices,
    })
}
