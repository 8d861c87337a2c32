//! What stands around the messages: settings, the system prompt, tools.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::blocks::{has_text, is_name};
use super::{Validator, Violation};

pub(super) const MEMBERS: &[&str] = &[
    "model",
    "max_tokens",
    "system",
    "messages",
    "tools",
    "temperature",
    "stop_sequences",
    "thinking",
    "output_config",
    "stream",
];

/// The smallest budget for thinking, in tokens.
const LEAST_BUDGET: u64 = 1_024;

/// Whether the model is to think within a budget.
pub(super) fn has_budget(body: &Map<String, Value>) -> bool {
    budget(body).is_some()
}

fn budget(body: &Map<String, Value>) -> Option<u64> {
    body.get("thinking")?.get("budget_tokens")?.as_u64()
}

impl Validator {
    pub(super) fn settings(&mut self, body: &Map<String, Value>) {
        let max_tokens = body.get("max_tokens").and_then(Value::as_u64);
        let temperature = body.get("temperature");
        let is_stream = body.get("stream").is_none_or(Value::is_boolean);
        let has_limit = max_tokens.is_some_and(|tokens| tokens > 0);
        let is_temperature = temperature.is_none_or(|value| {
            let number = value.as_f64();
            number.is_some_and(|number| (0.0..=1.0).contains(&number))
        });
        let are_sequences = body.get("stop_sequences").is_none_or(|value| {
            let is_text =
                |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
            let sequences = value.as_array();
            sequences.is_some_and(|sequences| sequences.iter().all(is_text))
        });
        self.demand(has_text(body, "model"), "model", "a name");
        self.demand(has_limit, "max_tokens", "a number of at least 1");
        self.demand(is_stream, "stream", "true or false");
        self.demand(is_temperature, "temperature", "a number from 0 to 1");
        self.demand(
            are_sequences,
            "stop_sequences",
            "a list of texts, none of white space alone",
        );
        self.thinking(body, max_tokens);
    }

    fn thinking(&mut self, body: &Map<String, Value>, max_tokens: Option<u64>) {
        let Some(thinking) = body.get("thinking") else {
            return;
        };
        let kind = thinking["type"].as_str().unwrap_or_default();
        let is_known = ["enabled", "disabled", "adaptive"].contains(&kind);
        self.demand(is_known, "thinking", "enabled, disabled or adaptive");
        let budget = budget(body);
        self.demand(
            budget.is_none_or(|budget| budget >= LEAST_BUDGET),
            "thinking.budget_tokens",
            "a number of at least 1024",
        );
        if budget.is_some() && budget >= max_tokens {
            self.report(Violation::Conflict {
                first: "thinking.budget_tokens",
                second: "max_tokens",
            });
        }
        let temperature = body.get("temperature");
        if kind != "disabled" && temperature.is_some_and(|value| value.as_f64() != Some(1.0)) {
            self.report(Violation::Conflict {
                first: "thinking",
                second: "temperature",
            });
        }
    }

    fn demand(&mut self, is_right: bool, member: &'static str, expected: &'static str) {
        if !is_right {
            self.report(Violation::WrongSetting { member, expected });
        }
    }

    pub(super) fn system(&mut self, system: Option<&Value>) {
        let blocks = match system {
            None => return,
            Some(Value::Array(blocks)) => blocks.as_slice(),
            Some(Value::String(text)) if !text.trim().is_empty() => return,
            Some(_) => return self.report(Violation::WrongSystem { block: 0 }),
        };
        for (block, value) in blocks.iter().enumerate() {
            let Some(object) = value
                .as_object()
                .filter(|object| value["type"] == "text" && has_text(object, "text"))
            else {
                self.report(Violation::WrongSystem { block });
                continue;
            };
            let path = format!("system[{block}]");
            self.members(&path, object, &["type", "text", "cache_control"]);
            self.mark(&path, object);
        }
    }

    pub(super) fn tools(&mut self, tools: Option<&Value>) {
        let tools = match tools {
            None => return,
            Some(Value::Array(tools)) => tools,
            Some(_) => return self.demand(false, "tools", "a list"),
        };
        let mut names = BTreeSet::new();
        for (tool, value) in tools.iter().enumerate() {
            let Some(object) = value.as_object() else {
                let problem = "it is not an object";
                self.report(Violation::WrongTool { tool, problem });
                continue;
            };
            let path = format!("tools[{tool}]");
            let known = ["name", "description", "input_schema", "cache_control"];
            self.members(&path, object, &known);
            self.mark(&path, object);
            let name = value["name"].as_str().unwrap_or_default();
            if !is_name(name) {
                let problem = "its name is not made of up to 128 letters, digits, `_` and `-`";
                self.report(Violation::WrongTool { tool, problem });
            } else if !names.insert(name) {
                let name = name.to_owned();
                self.report(Violation::DuplicateTool { tool, name });
            }
            if value["input_schema"]["type"] != "object" {
                let problem = "its schema is not one of an object";
                self.report(Violation::WrongTool { tool, problem });
            }
        }
    }
}
