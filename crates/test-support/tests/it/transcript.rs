//! Transcripts that must pass.

use offshoot_test_support::transcript::{Rules, SystemMessages, validate, validate_with};
use serde_json::{Value, json};

pub(crate) fn call(id: &str) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": "read", "arguments": "{}" } })
}

pub(crate) fn calls(ids: &[&str]) -> Value {
    json!({ "role": "assistant", "content": "", "tool_calls": ids.iter().map(|id| call(id)).collect::<Vec<_>>() })
}

pub(crate) fn result(id: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": "done" })
}

pub(crate) fn says(role: &str, text: &str) -> Value {
    json!({ "role": role, "content": text })
}

#[test]
fn good_transcripts_have_no_violations() {
    let cases = [
        ("one question", json!([says("user", "hi")])),
        (
            "instructions first",
            json!([
                says("system", "be kind"),
                says("system", "be short"),
                says("user", "hi")
            ]),
        ),
        (
            "several users in a row, as after steering",
            json!([says("user", "hi"), says("user", "and")]),
        ),
        (
            "an answer and the next question",
            json!([says("user", "a"), says("assistant", "b"), says("user", "c")]),
        ),
        (
            "calls and their results, in any order",
            json!([
                says("user", "a"),
                calls(&["1", "2"]),
                result("2"),
                result("1")
            ]),
        ),
        (
            "two steps, the second with the ids of the first",
            json!([
                says("user", "a"),
                calls(&["1"]),
                result("1"),
                calls(&["1"]),
                result("1")
            ]),
        ),
        (
            "reasoning without text is passed back",
            json!([
                says("user", "a"),
                { "role": "assistant", "content": "", "reasoning_content": "hm" },
                says("user", "b"),
            ]),
        ),
        (
            "calls without a content member",
            json!([says("user", "a"), { "role": "assistant", "tool_calls": [call("1")] }, result("1")]),
        ),
        (
            "arguments that are no JSON, and an empty result",
            json!([
                says("user", "a"),
                { "role": "assistant", "content": "", "tool_calls": [
                    { "id": "1", "type": "function", "function": { "name": "read", "arguments": "{" } },
                ] },
                { "role": "tool", "tool_call_id": "1", "content": "" },
            ]),
        ),
        (
            "text and images of a user",
            json!([{ "role": "user", "name": "ann", "content": [
                { "type": "text", "text": "what is it?" },
                { "type": "image_url", "image_url": { "url": "data:image/png;base64,AA", "detail": "low" } },
            ] }]),
        ),
        (
            "images of a result follow it as a user message",
            json!([
                says("user", "a"),
                calls(&["1"]),
                result("1"),
                says("user", "the image"),
                says("assistant", "b"),
                says("user", "c")
            ]),
        ),
    ];
    for (name, transcript) in cases {
        assert_eq!(validate(&transcript), [], "{name}");
    }
}

#[test]
fn system_messages_may_come_later_if_declared() {
    let transcript = json!([says("user", "a"), says("system", "b"), says("user", "c")]);
    let anywhere = Rules {
        system_messages: SystemMessages::Anywhere,
    };
    assert_eq!(validate_with(&transcript, anywhere), []);
    assert_eq!(validate(&transcript).len(), 1);
}
