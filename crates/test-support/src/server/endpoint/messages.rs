//! Anthropic's Messages.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::reply::Usage;
use super::{Completion, Refusal, halves};

pub(super) fn chunks(completion: &Completion) -> Vec<Bytes> {
    let mut stream = Stream::default();
    stream.event(json!({ "type": "message_start", "message": {
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": "scripted-model",
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": completion.usage.map_or(Value::Null, usage_at_start),
    } }));
    stream.event(json!({ "type": "ping" }));
    if !completion.reasoning.is_empty() {
        stream.begin(json!({ "type": "thinking", "thinking": "", "signature": "" }));
        for piece in completion.reasoning.split_inclusive(' ') {
            stream.delta(json!({ "type": "thinking_delta", "thinking": piece }));
        }
        stream.delta(json!({ "type": "signature_delta", "signature": completion.signature }));
        stream.end();
    }
    if let Some(data) = &completion.redacted {
        stream.begin(json!({ "type": "redacted_thinking", "data": data }));
        stream.end();
    }
    if !completion.text.is_empty() {
        stream.begin(json!({ "type": "text", "text": "" }));
        for piece in completion.text.split_inclusive(' ') {
            stream.delta(json!({ "type": "text_delta", "text": piece }));
        }
        stream.end();
    }
    for call in &completion.tool_calls {
        stream.begin(json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} }));
        for piece in halves(&call.arguments) {
            stream.delta(json!({ "type": "input_json_delta", "partial_json": piece }));
        }
        stream.end();
    }
    let mut last = json!({ "type": "message_delta", "delta": {
        "stop_reason": stop_reason(&completion.finish_reason),
        "stop_sequence": null,
    } });
    if let Some(usage) = completion.usage {
        last["usage"] = json!({ "output_tokens": usage.completion_tokens });
    }
    stream.event(last);
    if completion.done {
        stream.event(json!({ "type": "message_stop" }));
    }
    stream.events
}

pub(super) fn refusal(refusal: Refusal) -> (u16, Value) {
    let (status, kind, message) = match refusal {
        Refusal::RateLimit => (429, "rate_limit_error", "Too many requests, slow down."),
        Refusal::Server => (500, "api_error", "Something broke on this side."),
        Refusal::Unavailable => (503, "overloaded_error", "Overloaded, try again later."),
        Refusal::Overloaded => (529, "overloaded_error", "Overloaded"),
        Refusal::Unauthorized => (401, "authentication_error", "invalid x-api-key"),
        Refusal::Invalid => (400, "invalid_request_error", "The request makes no sense."),
        Refusal::ContextOverflow => (
            400,
            "invalid_request_error",
            "prompt is too long: 1001 tokens > 1000 maximum",
        ),
        Refusal::Quota => (
            400,
            "invalid_request_error",
            "Your credit balance is too low to make this request.",
        ),
    };
    let body = json!({
        "type": "error",
        "error": { "type": kind, "message": message },
        "request_id": "req_scripted",
    });
    (status, body)
}

fn stop_reason(word: &str) -> &str {
    match word {
        "stop" => "end_turn",
        "tool_calls" => "tool_use",
        "length" => "max_tokens",
        other => other,
    }
}

/// Here the counts are disjoint.
fn usage_at_start(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": 1,
    })
}

#[derive(Default)]
struct Stream {
    events: Vec<Bytes>,
    index: usize,
}

impl Stream {
    fn event(&mut self, event: Value) {
        let kind = event["type"].as_str().unwrap_or_default();
        self.events
            .push(Bytes::from(format!("event: {kind}\ndata: {event}\n\n")));
    }

    fn begin(&mut self, block: Value) {
        self.event(
            json!({ "type": "content_block_start", "index": self.index, "content_block": block }),
        );
    }

    fn delta(&mut self, delta: Value) {
        self.event(json!({ "type": "content_block_delta", "index": self.index, "delta": delta }));
    }

    fn end(&mut self) {
        self.event(json!({ "type": "content_block_stop", "index": self.index }));
        self.index += 1;
    }
}
