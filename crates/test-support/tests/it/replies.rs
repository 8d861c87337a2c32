use offshoot_test_support::{Reply, Usage};
use serde_json::{Value, json};

/// The data of each event; `[DONE]` as a string.
fn data(reply: &Reply) -> Vec<Value> {
    reply
        .chunks()
        .iter()
        .map(|chunk| {
            let line = std::str::from_utf8(chunk).unwrap();
            let data = line
                .strip_prefix("data: ")
                .and_then(|l| l.strip_suffix("\n\n"))
                .unwrap();
            serde_json::from_str(data).unwrap_or_else(|_| data.into())
        })
        .collect()
}

/// What the choices of each event say, the usage, and `[DONE]`.
fn gist(reply: &Reply) -> Vec<Value> {
    data(reply)
        .into_iter()
        .map(|event| match (&event["choices"][0], &event["usage"]) {
            (Value::Null, Value::Null) => event,
            (Value::Null, usage) => usage.clone(),
            (choice, _) if choice["finish_reason"].is_null() => choice["delta"].clone(),
            (choice, _) => choice["finish_reason"].clone(),
        })
        .collect()
}

fn default_usage() -> Value {
    json!({
        "prompt_tokens": 17,
        "completion_tokens": 5,
        "total_tokens": 22,
        "prompt_tokens_details": { "cached_tokens": 3 },
        "completion_tokens_details": { "reasoning_tokens": 2 },
    })
}

#[test]
fn an_event_is_a_whole_completion_chunk() {
    assert_eq!(
        data(&Reply::text("Hi"))[1],
        json!({
            "id": "scripted",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": "scripted-model",
            "choices": [{ "index": 0, "delta": { "content": "Hi" }, "finish_reason": null }],
        })
    );
}

#[test]
fn text_comes_word_by_word() {
    assert_eq!(
        gist(&Reply::text("Hello big world")),
        [
            json!({ "role": "assistant", "content": "" }),
            json!({ "content": "Hello " }),
            json!({ "content": "big " }),
            json!({ "content": "world" }),
            json!("stop"),
            default_usage(),
            json!("[DONE]"),
        ]
    );
}

#[test]
fn reasoning_comes_before_text() {
    assert_eq!(
        gist(&Reply::reasoning_then_text("Well then", "Yes")),
        [
            json!({ "role": "assistant", "content": "" }),
            json!({ "reasoning_content": "Well " }),
            json!({ "reasoning_content": "then" }),
            json!({ "content": "Yes" }),
            json!("stop"),
            default_usage(),
            json!("[DONE]"),
        ]
    );
}

#[test]
fn tool_calls_come_in_pieces_cut_between_characters() {
    let reply = Reply::text_then_tool_calls("So", [("a", "read", "éé"), ("b", "list", "")])
        .usage(None)
        .without_done();
    assert_eq!(
        gist(&reply),
        [
            json!({ "role": "assistant", "content": "" }),
            json!({ "content": "So" }),
            json!({ "tool_calls": [{ "index": 0, "id": "a", "type": "function", "function": { "name": "read", "arguments": "" } }] }),
            json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "é" } }] }),
            json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "é" } }] }),
            json!({ "tool_calls": [{ "index": 1, "id": "b", "type": "function", "function": { "name": "list", "arguments": "" } }] }),
            json!("tool_calls"),
        ]
    );
}

#[test]
fn finish_reason_and_usage_can_be_chosen() {
    let usage = Usage {
        prompt_tokens: 100,
        completion_tokens: 20,
        cached_tokens: 60,
        reasoning_tokens: 0,
        ..Usage::default()
    };
    let reply = Reply::empty_completion()
        .finish_reason("length")
        .usage(usage);
    assert_eq!(
        gist(&reply),
        [
            json!({ "role": "assistant", "content": "" }),
            json!("length"),
            json!({
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "total_tokens": 120,
                "prompt_tokens_details": { "cached_tokens": 60 },
                "completion_tokens_details": { "reasoning_tokens": 0 },
            }),
            json!("[DONE]"),
        ]
    );
}
