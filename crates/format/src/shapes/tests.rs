//! Type by type (`reference/persistence.md` §3.5–§3.7): what is accepted, and what the least change to it makes of it.

mod payloads;
mod rules;
mod unions;

use serde_json::{Value, json};

use super::check;
use crate::json::Node;
use crate::version::Version;

/// What `check` says of a payload in V2.
fn told(kind: &str, data: &Value) -> Result<(), String> {
    told_in(Version::V2, kind, data)
}

fn told_in(version: Version, kind: &str, data: &Value) -> Result<(), String> {
    check(kind, Node::new(&data.to_string()), version)
}

/// An object that is accepted, with every member that it can have; those that may be absent, and those that may be any
/// JSON.
struct Full {
    object: Value,
    absent: &'static [&'static str],
    any: &'static [&'static str],
}

fn full(object: Value) -> Full {
    let (absent, any) = (&[] as &[&str], &[] as &[&str]);
    Full {
        object,
        absent,
        any,
    }
}

impl Full {
    fn absent(self, absent: &'static [&'static str]) -> Self {
        Self { absent, ..self }
    }

    fn any(self, any: &'static [&'static str]) -> Self {
        Self { any, ..self }
    }

    /// The object is accepted where it stands; so is it without each member that may be absent. Without any other, with
    /// one more, and with a member of a wrong type it is refused.
    #[track_caller]
    fn holds(&self, kind: &str, place: impl Fn(&Value) -> Value) {
        let told = |object: &Value| told(kind, &place(object));
        assert_eq!(told(&self.object), Ok(()), "{kind}: {}", self.object);
        let members = self.object.as_object().unwrap();
        for name in members.keys() {
            let mut without = members.clone();
            without.remove(name);
            let found = told(&Value::Object(without));
            let may = self.absent.contains(&&**name);
            assert_eq!(found.is_ok(), may, "{kind} without {name}: {found:?}");

            let mut wrong = self.object.clone();
            wrong[name] = json!([[]]);
            let (found, may) = (told(&wrong), self.any.contains(&&**name));
            assert_eq!(found.is_ok(), may, "{kind} with another {name}: {found:?}");
        }
        let mut more = self.object.clone();
        more["more"] = json!(1);
        let found = told(&more).expect_err(kind);
        assert!(
            found.ends_with(r#" has the member "more", which V2 does not have"#),
            "{kind}: {found}"
        );
    }
}

fn user() -> Value {
    json!({"id": "m", "role": "user", "content": [text()], "source": {"kind": "user"}})
}

fn text() -> Value {
    json!({"type": "text", "text": "hello"})
}

fn usage() -> Value {
    json!({"inputTokens": 1, "outputTokens": 2, "totalTokens": 3, "cacheReadTokens": 4, "cacheWriteTokens": 5,
        "reasoningTokens": 6})
}

fn failure() -> Value {
    json!({"message": "m", "code": "C", "status": 429, "providerRetryAfterMs": 0.5, "requestId": "r"})
}

fn model_source() -> Value {
    json!({"kind": "model", "provider": "p", "model": "m", "replayState": {"response": null, "blocks": [1]}})
}

fn assistant() -> Value {
    json!({"turn": 1, "step": 1, "message": {"id": "m", "role": "assistant", "content": [], "source": model_source()},
        "usage": usage(), "interrupted": true, "stream": []})
}

fn result() -> Value {
    let block =
        json!({"type": "tool-result", "toolCallId": "c", "content": [text()], "isError": true});
    json!({"turn": 1, "step": 1, "message": {"id": "m", "role": "user", "source": {"kind": "tool", "callId": "c"},
        "content": [block]}, "error": {"name": "E", "code": "C"}, "meta": [[]]})
}

fn request() -> Value {
    json!({"header": {
        "config": {"provider": "p", "model": "m", "reasoningEffort": "high", "temperature": 0.5, "maxTokens": 9,
            "stop": ["."]},
        "adapterDefaults": {"reasoningEffort": true, "maxTokens": true},
        "tools": [{"name": "ls", "description": "d", "parameters": {"type": "object"}}],
        "system": "s"},
        "reason": "initial", "startsSeries": true})
}

fn retry() -> Value {
    json!({"retryId": "r", "turn": 1, "step": 1, "provider": "p", "mode": "normal", "policyKey": "k", "retry": 1,
        "delayMs": 0.5, "failure": failure(), "maxRetries": 1})
}

fn goal_change() -> Value {
    json!({"kind": "goal/change", "version": 1, "operation": "block", "goal": {"id": "g", "revision": 1,
        "objective": "o", "phase": "blocked", "maxGoalRounds": 1, "blockedReason": {"code": "c", "message": "m"}},
        "roundsStarted": 0, "createdAt": 1, "updatedAt": 2})
}

fn schedule() -> Value {
    json!({"version": 1, "operation": "create", "schedule": {"id": "s", "kind": "after", "afterSeconds": 1,
        "prompt": "p", "scheduledAt": "2026-01-31T23:59:59.000Z"}})
}

fn descriptor() -> Value {
    json!({"mode": "continuable", "version": 3, "provider": "p", "label": "l", "agentProvider": "a",
        "agentModel": "m", "agentReasoningEffort": "e", "persona": "x", "toolFilter": {"allow": [], "deny": ["ls"]}})
}

fn summary() -> Value {
    json!({"compactionId": "k", "summary": [text()], "shadowedRange": {"start": 0, "end": 1}, "shadowedSeqs": [0, 1],
        "shadowedTokenCount": 5, "provider": "p", "model": "m", "sourceCommandId": "c", "maxTokens": 9,
        "usage": usage(), "rawOutput": [text()], "llmStreamCall": true})
}

/// The value with what `pointer` points at replaced.
fn with(mut value: Value, pointer: &str, member: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match value.pointer_mut(parent).unwrap() {
        Value::Array(items) => items[name.parse::<usize>().unwrap()] = member,
        parent => parent[name] = member,
    }
    value
}

fn without(mut value: Value, pointer: &str) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    parent.remove(name).unwrap();
    value
}
