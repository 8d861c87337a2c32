//! What makes a request acceptable to Anthropic's Messages.
//!
//! Unlike chat completions, where a list of messages can be judged by itself, here tools, thinking and cache marks of the
//! whole body belong together, so the whole body is judged.

mod blocks;
mod settings;

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use thiserror::Error;

/// How many places may be marked for the cache.
const MOST_MARKS: usize = 4;

/// One thing that is wrong. `index` counts messages from 0, `block` the blocks of a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(
    missing_docs,
    reason = "the message of each variant says what it means"
)]
#[non_exhaustive]
pub enum Violation {
    #[error("the body is not an object")]
    NotAnObject,
    #[error("`{path}` does not belong there")]
    UnknownMember { path: String },
    #[error("`{path}` is null instead of absent")]
    NullMember { path: String },
    #[error("`{member}` must be {expected}")]
    WrongSetting {
        member: &'static str,
        expected: &'static str,
    },
    #[error("`{first}` and `{second}` do not go together")]
    Conflict {
        first: &'static str,
        second: &'static str,
    },
    #[error("block {block} of the system prompt is not a text with something in it")]
    WrongSystem { block: usize },
    #[error("tool {tool}: {problem}")]
    WrongTool { tool: usize, problem: &'static str },
    #[error("tool {tool}: there is another one named `{name}`")]
    DuplicateTool { tool: usize, name: String },
    #[error("{count} places are marked for the cache, more than 4")]
    TooManyMarks { count: usize },
    #[error("`{path}` is not a mark for the cache")]
    WrongMark { path: String },
    #[error("`messages` is not a list with something in it")]
    NoMessages,
    #[error("message {index}: it is not an object")]
    WrongMessage { index: usize },
    #[error("message {index}: the role is neither `user` nor `assistant`")]
    WrongRole { index: usize },
    #[error("message {index}: the conversation starts with the assistant")]
    FirstIsNotUser { index: usize },
    #[error("message {index}: it has the role of the message before it")]
    SameRole { index: usize },
    #[error("message {index}: the content is not a list of blocks with something in it")]
    NoContent { index: usize },
    #[error("message {index}, block {block}: {problem}")]
    WrongBlock {
        index: usize,
        block: usize,
        problem: &'static str,
    },
    #[error("message {index}, block {block}: a text without anything but white space")]
    EmptyText { index: usize, block: usize },
    #[error("message {index}, block {block}: a `{kind}` may not be said by this side")]
    WrongSide {
        index: usize,
        block: usize,
        kind: String,
    },
    #[error("message {index}: the call id `{id}` was used before")]
    DuplicateCallId { index: usize, id: String },
    #[error("message {index}: the call `{id}` has no result in the next message")]
    UnansweredCall { index: usize, id: String },
    #[error("message {index}: a result for `{id}`, which the message before has not called")]
    OrphanResult { index: usize, id: String },
    #[error("message {index}: a second result for the call `{id}`")]
    DuplicateResult { index: usize, id: String },
    #[error("message {index}, block {block}: a result stands behind something else")]
    LateResult { index: usize, block: usize },
    #[error("message {index}: thinking stands at the end")]
    ThinkingLast { index: usize },
    #[error(
        "message {index}: tools were asked for without thinking, so the answer cannot go on with a budget for it"
    )]
    GoesOnWithoutThinking { index: usize },
    #[error("message {index}: the request ends with the assistant, so there is nothing to answer")]
    NothingToAnswer { index: usize },
}

/// Everything that is wrong with the body of a request.
pub fn validate(body: &Value) -> Vec<Violation> {
    let Some(body) = body.as_object() else {
        return vec![Violation::NotAnObject];
    };
    let mut validator = Validator::default();
    validator.members("", body, settings::MEMBERS);
    validator.settings(body);
    validator.system(body.get("system"));
    validator.tools(body.get("tools"));
    match body.get("messages").and_then(Value::as_array) {
        Some(messages) if !messages.is_empty() => {
            validator.messages(messages);
            if settings::has_budget(body) {
                validator.thinking_goes_on(messages);
            }
        }
        _ => validator.report(Violation::NoMessages),
    }
    if validator.marks > MOST_MARKS {
        let count = validator.marks;
        validator.report(Violation::TooManyMarks { count });
    }
    validator.violations
}

#[derive(Default)]
struct Validator {
    violations: Vec<Violation>,
    marks: usize,
    /// The ids of all calls so far.
    calls: BTreeSet<String>,
    /// Those of the message before, in their order.
    open: Vec<String>,
}

impl Validator {
    fn report(&mut self, violation: Violation) {
        self.violations.push(violation);
    }

    /// Reports what is not among `known`, and what is null.
    fn members(&mut self, path: &str, object: &Map<String, Value>, known: &[&str]) {
        for (member, value) in object {
            let path = if path.is_empty() {
                member.clone()
            } else {
                format!("{path}.{member}")
            };
            if value.is_null() {
                self.report(Violation::NullMember { path });
            } else if !known.contains(&member.as_str()) {
                self.report(Violation::UnknownMember { path });
            }
        }
    }

    /// Counts a mark, if there is one.
    fn mark(&mut self, path: &str, object: &Map<String, Value>) {
        let Some(mark) = object.get("cache_control") else {
            return;
        };
        self.marks += 1;
        let is_mark = mark["type"] == "ephemeral"
            && mark.as_object().is_some_and(|members| {
                let mut names = members.keys();
                names.all(|name| ["type", "ttl"].contains(&name.as_str()))
            });
        if !is_mark {
            let path = format!("{path}.cache_control");
            self.report(Violation::WrongMark { path });
        }
    }

    fn messages(&mut self, messages: &[Value]) {
        let mut before = None;
        for (index, message) in messages.iter().enumerate() {
            let Some(object) = message.as_object() else {
                self.report(Violation::WrongMessage { index });
                continue;
            };
            self.members(&format!("messages[{index}]"), object, &["role", "content"]);
            let role = object.get("role").and_then(Value::as_str);
            let Some(role @ ("user" | "assistant")) = role else {
                self.report(Violation::WrongRole { index });
                continue;
            };
            match before {
                None if role == "assistant" => self.report(Violation::FirstIsNotUser { index }),
                Some(before) if before == role => self.report(Violation::SameRole { index }),
                _ => {}
            }
            before = Some(role);
            self.message(index, role, object.get("content"));
        }
        let index = messages.len() - 1;
        for id in std::mem::take(&mut self.open) {
            self.report(Violation::UnansweredCall { index, id });
        }
        if before == Some("assistant") {
            self.report(Violation::NothingToAnswer { index });
        }
    }

    fn message(&mut self, index: usize, role: &str, content: Option<&Value>) {
        let asked = std::mem::take(&mut self.open);
        let blocks = match content {
            Some(Value::Array(blocks)) if !blocks.is_empty() => blocks.as_slice(),
            Some(Value::String(text)) if !text.trim().is_empty() => &[],
            _ => {
                self.report(Violation::NoContent { index });
                &[]
            }
        };
        let mut answered = BTreeSet::new();
        let mut is_behind = false;
        for (block, value) in blocks.iter().enumerate() {
            let kind = self.block(index, block, role, value);
            if kind != Some("tool_result") {
                is_behind = true;
                continue;
            }
            if is_behind {
                self.report(Violation::LateResult { index, block });
            }
            let Some(id) = value["tool_use_id"].as_str().map(str::to_owned) else {
                continue;
            };
            if !asked.contains(&id) {
                self.report(Violation::OrphanResult { index, id });
            } else if !answered.insert(id.clone()) {
                self.report(Violation::DuplicateResult { index, id });
            }
        }
        for id in asked {
            if !answered.contains(&id) {
                let index = index.saturating_sub(1);
                self.report(Violation::UnansweredCall { index, id });
            }
        }
        if role == "assistant" && blocks.last().is_some_and(blocks::is_thinking) {
            self.report(Violation::ThinkingLast { index });
        }
    }

    /// What a budget asks of a request that goes on from the results of tools.
    fn thinking_goes_on(&mut self, messages: &[Value]) {
        let [.., asked, answered] = messages else {
            return;
        };
        let has_results = answered["content"]
            .as_array()
            .is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_result"));
        if has_results && !blocks::is_thinking(&asked["content"][0]) {
            let index = messages.len() - 2;
            self.report(Violation::GoesOnWithoutThinking { index });
        }
    }
}
