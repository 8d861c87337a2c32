//! What makes a list of chat messages acceptable to providers.
//!
//! Providers differ in what they forgive; this is what none of them refuses. The messages are those of a Chat
//! Completions request, with the additions of `reference/agent.md` §2.8 (`reasoning_content`, never a null).

pub mod messages;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use thiserror::Error;

/// Where system messages may stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SystemMessages {
    /// Only before everything else.
    #[default]
    AtTheHead,
    /// Also later, for models that take updates of their instructions in the history.
    Anywhere,
}

/// What a transcript is judged by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Where system messages may stand.
    pub system_messages: SystemMessages,
}

/// One thing that is wrong. `index` counts messages from 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(
    missing_docs,
    reason = "the message of each variant says what it means"
)]
#[non_exhaustive]
pub enum Violation {
    #[error("`messages` is not a list")]
    NotAList,
    #[error("there are no messages")]
    NoMessages,
    #[error("message {index}: it is not an object")]
    NotAnObject { index: usize },
    #[error("message {index}: it has no role")]
    NoRole { index: usize },
    #[error("message {index}: the role `{role}` is unknown")]
    UnknownRole { index: usize, role: String },
    #[error("message {index}: the member `{member}` does not belong there")]
    UnknownMember { index: usize, member: String },
    #[error("message {index}: the member `{member}` is null instead of absent")]
    NullMember { index: usize, member: String },
    #[error("message {index}: a system message stands behind other messages")]
    LateSystem { index: usize },
    #[error("message {index}: the conversation starts with role `{role}` instead of `user`")]
    FirstIsNotUser { index: usize, role: String },
    #[error("message {index}: the content is missing")]
    NoContent { index: usize },
    #[error("message {index}: the content must be {expected}")]
    WrongContent {
        index: usize,
        expected: &'static str,
    },
    #[error("message {index}: the content is empty")]
    EmptyContent { index: usize },
    #[error("message {index}: part {part} of the content is not a known part: {problem}")]
    WrongPart {
        index: usize,
        part: usize,
        problem: &'static str,
    },
    #[error("message {index}: the assistant neither says anything nor calls a tool")]
    SilentAssistant { index: usize },
    #[error("message {index}: reasoning is not a string, or its details are no list")]
    WrongReasoning { index: usize },
    #[error("message {index}: `tool_calls` is not a list with something in it")]
    WrongToolCalls { index: usize },
    #[error("message {index}: tool call {call} is malformed: {problem}")]
    WrongToolCall {
        index: usize,
        call: usize,
        problem: &'static str,
    },
    #[error("message {index}: it has two tool calls with the id `{id}`")]
    DuplicateCallId { index: usize, id: String },
    #[error(
        "message {index}: the call id `{id}` is still waiting for its result in message {pending}"
    )]
    CallIdStillPending {
        index: usize,
        id: String,
        pending: usize,
    },
    #[error("message {index}: the tool call `{id}` has no result before the next message")]
    UnansweredCall { index: usize, id: String },
    #[error("message {index}: a tool result without a string `tool_call_id`")]
    ResultWithoutId { index: usize },
    #[error("message {index}: a result for `{id}`, which nobody called")]
    OrphanResult { index: usize, id: String },
    #[error("message {index}: a second result for the tool call `{id}`")]
    DuplicateResult { index: usize, id: String },
    #[error("message {index}: a result for `{id}`, which belongs to an earlier assistant message")]
    MisplacedResult { index: usize, id: String },
    #[error("message {index}: the request ends with role `{role}`, so there is nothing to answer")]
    NothingToAnswer { index: usize, role: String },
}

/// Everything that is wrong with `messages` by the default rules, in order of appearance.
pub fn validate(messages: &Value) -> Vec<Violation> {
    validate_with(messages, Rules::default())
}

/// Everything that is wrong with `messages` by these rules, in order of appearance.
pub fn validate_with(messages: &Value, rules: Rules) -> Vec<Violation> {
    let Some(messages) = messages.as_array() else {
        return vec![Violation::NotAList];
    };
    if messages.is_empty() {
        return vec![Violation::NoMessages];
    }
    let mut validator = Validator {
        rules,
        ..Validator::default()
    };
    for (index, message) in messages.iter().enumerate() {
        validator.message(index, message);
    }
    validator.end(messages);
    validator.violations
}

#[derive(Default)]
struct Validator {
    rules: Rules,
    violations: Vec<Violation>,
    /// Whether something other than a system message was seen.
    begun: bool,
    /// The assistant message whose results may follow.
    open: Option<OpenCalls>,
    /// The ids of all assistant messages before the open one.
    earlier: BTreeSet<String>,
    /// Those of them that have had no result until now, with their message.
    overdue: BTreeMap<String, usize>,
}

struct OpenCalls {
    index: usize,
    /// In call order, each once.
    ids: Vec<String>,
    answered: BTreeSet<String>,
}

impl Validator {
    fn report(&mut self, violation: Violation) {
        self.violations.push(violation);
    }

    fn message(&mut self, index: usize, message: &Value) {
        let Some(message) = message.as_object() else {
            return self.report(Violation::NotAnObject { index });
        };
        let Some(role) = message.get("role").and_then(Value::as_str) else {
            return self.report(Violation::NoRole { index });
        };
        let known: &[&str] = match role {
            "system" | "user" => &["role", "content", "name"],
            "assistant" => &[
                "role",
                "content",
                "name",
                "reasoning_content",
                "reasoning",
                "reasoning_details",
                "tool_calls",
            ],
            "tool" => &["role", "content", "tool_call_id"],
            _ => {
                return self.report(Violation::UnknownRole {
                    index,
                    role: role.to_owned(),
                });
            }
        };
        self.members(index, message, known);
        self.order(index, role);
        match role {
            "system" => self.text_content(index, message),
            "user" => self.user(index, message),
            "assistant" => self.assistant(index, message),
            _ => self.tool(index, message),
        }
    }

    fn members(&mut self, index: usize, message: &Map<String, Value>, known: &[&str]) {
        for (member, value) in message {
            if !known.contains(&member.as_str()) {
                self.report(Violation::UnknownMember {
                    index,
                    member: member.clone(),
                });
            }
            // Details go back as they came, whatever is in them.
            if member != "reasoning_details" || value.is_null() {
                self.nulls(index, member, value);
            }
        }
    }

    fn nulls(&mut self, index: usize, path: &str, value: &Value) {
        match value {
            Value::Null => {
                self.report(Violation::NullMember {
                    index,
                    member: path.to_owned(),
                });
            }
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.nulls(index, &format!("{path}[{at}]"), item);
                }
            }
            Value::Object(members) => {
                for (member, value) in members {
                    self.nulls(index, &format!("{path}.{member}"), value);
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn order(&mut self, index: usize, role: &str) {
        if role != "tool" {
            self.close_calls();
        }
        if role == "system" {
            if self.begun && self.rules.system_messages == SystemMessages::AtTheHead {
                self.report(Violation::LateSystem { index });
            }
            return;
        }
        if !self.begun && role != "user" {
            self.report(Violation::FirstIsNotUser {
                index,
                role: role.to_owned(),
            });
        }
        self.begun = true;
    }

    /// A message that is no tool result ends the time for results.
    fn close_calls(&mut self) {
        let Some(OpenCalls {
            index,
            ids,
            answered,
        }) = self.open.take()
        else {
            return;
        };
        for id in ids {
            if !answered.contains(&id) {
                self.report(Violation::UnansweredCall {
                    index,
                    id: id.clone(),
                });
                self.overdue.insert(id.clone(), index);
            }
            self.earlier.insert(id);
        }
    }

    fn text_content(&mut self, index: usize, message: &Map<String, Value>) {
        match message.get("content") {
            None => self.report(Violation::NoContent { index }),
            // Already reported as a null.
            Some(Value::Null) => {}
            Some(Value::String(text)) if text.is_empty() && message["role"] != "tool" => {
                self.report(Violation::EmptyContent { index });
            }
            Some(Value::String(_)) => {}
            Some(_) => self.report(Violation::WrongContent {
                index,
                expected: "a string",
            }),
        }
    }

    fn user(&mut self, index: usize, message: &Map<String, Value>) {
        match message.get("content") {
            Some(Value::Array(parts)) if parts.is_empty() => {
                self.report(Violation::EmptyContent { index });
            }
            Some(Value::Array(parts)) => {
                for (part, value) in parts.iter().enumerate() {
                    if let Err(problem) = check_part(value) {
                        self.report(Violation::WrongPart {
                            index,
                            part,
                            problem,
                        });
                    }
                }
            }
            Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
                self.report(Violation::WrongContent {
                    index,
                    expected: "a string or a list of parts",
                });
            }
            _ => self.text_content(index, message),
        }
    }

    fn assistant(&mut self, index: usize, message: &Map<String, Value>) {
        let text = match message.get("content") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.as_str()),
            Some(_) => {
                self.report(Violation::WrongContent {
                    index,
                    expected: "a string",
                });
                Some("wrong")
            }
        };
        let given = |member| {
            message
                .get(member)
                .filter(|value: &&Value| !value.is_null())
        };
        let (content, plain) = (given("reasoning_content"), given("reasoning"));
        let details = given("reasoning_details");
        let is_wrong = [content, plain]
            .into_iter()
            .flatten()
            .any(|value| !value.is_string())
            || details.is_some_and(|value| !value.is_array());
        if is_wrong {
            self.report(Violation::WrongReasoning { index });
        }
        let reasoning = content.or(plain).or(details);
        let calls = message.get("tool_calls").filter(|value| !value.is_null());
        // Reasoning alone counts only beside a content string, even an empty one.
        let speaks = text.is_some_and(|text| !text.is_empty() || reasoning.is_some());
        if !speaks && calls.is_none() && message.get("content") != Some(&Value::Null) {
            self.report(Violation::SilentAssistant { index });
        }
        let ids = calls
            .map(|calls| self.tool_calls(index, calls))
            .unwrap_or_default();
        self.open = Some(OpenCalls {
            index,
            ids,
            answered: BTreeSet::new(),
        });
    }

    /// Checks the calls of one message and returns their ids, each once.
    fn tool_calls(&mut self, index: usize, calls: &Value) -> Vec<String> {
        let calls = match calls.as_array() {
            Some(calls) if !calls.is_empty() => calls,
            _ => {
                self.report(Violation::WrongToolCalls { index });
                return Vec::new();
            }
        };
        let mut ids: Vec<String> = Vec::new();
        for (call, value) in calls.iter().enumerate() {
            for problem in call_problems(value) {
                self.report(Violation::WrongToolCall {
                    index,
                    call,
                    problem,
                });
            }
            for member in unknown_call_members(value) {
                let member = format!("tool_calls[{call}].{member}");
                self.report(Violation::UnknownMember { index, member });
            }
            let Some(id) = value["id"].as_str().filter(|id| !id.is_empty()) else {
                continue;
            };
            if ids.iter().any(|other| other == id) {
                self.report(Violation::DuplicateCallId {
                    index,
                    id: id.to_owned(),
                });
                continue;
            }
            // An id may come again in a later step, since some providers number the calls of each answer from 0. But
            // never while it is pending.
            if let Some(pending) = self.overdue.get(id).copied() {
                self.report(Violation::CallIdStillPending {
                    index,
                    id: id.to_owned(),
                    pending,
                });
            }
            ids.push(id.to_owned());
        }
        ids
    }

    fn tool(&mut self, index: usize, message: &Map<String, Value>) {
        self.text_content(index, message);
        let Some(id) = message.get("tool_call_id").and_then(Value::as_str) else {
            return self.report(Violation::ResultWithoutId { index });
        };
        let id = id.to_owned();
        if let Some(open) = &mut self.open
            && open.ids.contains(&id)
        {
            if !open.answered.insert(id.clone()) {
                self.report(Violation::DuplicateResult { index, id });
            }
        } else if self.earlier.contains(&id) {
            self.overdue.remove(&id);
            self.report(Violation::MisplacedResult { index, id });
        } else {
            self.report(Violation::OrphanResult { index, id });
        }
    }

    fn end(&mut self, messages: &[Value]) {
        self.close_calls();
        let index = messages.len() - 1;
        let role = messages[index]["role"].as_str().unwrap_or_default();
        if matches!(role, "assistant" | "system") {
            self.report(Violation::NothingToAnswer {
                index,
                role: role.to_owned(),
            });
        }
    }
}

fn check_part(part: &Value) -> Result<(), &'static str> {
    let Some(members) = part.as_object() else {
        return Err("it is not an object");
    };
    let (member, right) = match members.get("type").and_then(Value::as_str) {
        Some("text") => (
            "text",
            part["text"].as_str().is_some_and(|text| !text.is_empty()),
        ),
        Some("image_url") => (
            "image_url",
            part["image_url"]["url"]
                .as_str()
                .is_some_and(|url| !url.is_empty()),
        ),
        Some(_) => return Err("its type is unknown"),
        None => return Err("it has no type"),
    };
    if !right {
        return Err("it has nothing in it");
    }
    if members.keys().any(|name| name != "type" && name != member) {
        return Err("it has a member of another type");
    }
    Ok(())
}

fn call_problems(call: &Value) -> Vec<&'static str> {
    if !call.is_object() {
        return vec!["it is not an object"];
    }
    let mut problems = Vec::new();
    if call["id"].as_str().is_none_or(str::is_empty) {
        problems.push("it has no id");
    }
    if call["type"] != "function" {
        problems.push("its type is not `function`");
    }
    let function = &call["function"];
    if function["name"].as_str().is_none_or(str::is_empty) {
        problems.push("its function has no name");
    }
    if !function["arguments"].is_string() {
        problems.push("its arguments are not a string");
    }
    problems
}

fn unknown_call_members(call: &Value) -> Vec<String> {
    let names = |value: &Value| -> Vec<String> {
        value
            .as_object()
            .map(|members| members.keys().cloned().collect())
            .unwrap_or_default()
    };
    let outer = names(call)
        .into_iter()
        .filter(|name| !["id", "type", "function"].contains(&name.as_str()));
    let inner = names(&call["function"])
        .into_iter()
        .filter(|name| !["name", "arguments"].contains(&name.as_str()))
        .map(|name| format!("function.{name}"));
    outer.chain(inner).collect()
}
