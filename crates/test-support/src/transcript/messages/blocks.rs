//! One block of a message.

use serde_json::{Map, Value};

use super::{Validator, Violation};

/// Which members a block may have, by its type.
fn members(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "text" => &["type", "text", "cache_control"],
        "image" => &["type", "source", "cache_control"],
        "tool_use" => &["type", "id", "name", "input", "cache_control"],
        "tool_result" => &[
            "type",
            "tool_use_id",
            "content",
            "is_error",
            "cache_control",
        ],
        "thinking" => &["type", "thinking", "signature"],
        "redacted_thinking" => &["type", "data"],
        _ => return None,
    })
}

pub(super) fn is_thinking(block: &Value) -> bool {
    ["thinking", "redacted_thinking"]
        .iter()
        .any(|kind| block["type"] == *kind)
}

impl Validator {
    /// Checks a block and gives its type.
    pub(super) fn block<'a>(
        &mut self,
        index: usize,
        block: usize,
        role: &str,
        value: &'a Value,
    ) -> Option<&'a str> {
        let wrong = |problem| Violation::WrongBlock {
            index,
            block,
            problem,
        };
        let Some(object) = value.as_object() else {
            self.report(wrong("it is not an object"));
            return None;
        };
        let kind = object.get("type").and_then(Value::as_str);
        let Some((kind, known)) = kind.and_then(|kind| Some((kind, members(kind)?))) else {
            self.report(wrong("its type is missing or unknown"));
            return None;
        };
        let path = format!("messages[{index}].content[{block}]");
        self.members(&path, object, known);
        self.mark(&path, object);
        let side = match kind {
            "image" | "tool_result" => "user",
            "tool_use" | "thinking" | "redacted_thinking" => "assistant",
            _ => role,
        };
        if side != role {
            let kind = kind.to_owned();
            self.report(Violation::WrongSide { index, block, kind });
        }
        match kind {
            "text" => self.text(index, block, object),
            "image" => {
                if let Err(problem) = check_image(object) {
                    self.report(wrong(problem));
                }
            }
            "tool_use" => self.call(index, block, object),
            "tool_result" => self.result(index, block, object),
            "thinking" => {
                let is_said = object.get("thinking").is_some_and(Value::is_string);
                if !has_text(object, "signature") || !is_said {
                    self.report(wrong("thinking without a signature, or without a text"));
                }
            }
            _ => {
                if !has_text(object, "data") {
                    self.report(wrong("thinking that cannot be read and has no data"));
                }
            }
        }
        Some(kind)
    }

    fn text(&mut self, index: usize, block: usize, object: &Map<String, Value>) {
        if !has_text(object, "text") {
            self.report(Violation::EmptyText { index, block });
        }
    }

    fn call(&mut self, index: usize, block: usize, object: &Map<String, Value>) {
        let word = |member: &str| {
            object
                .get(member)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (id, name) = (word("id"), word("name"));
        let problem = if !is_word(id) {
            Some("its id is not made of letters, digits, `_` and `-`")
        } else if !is_name(name) {
            Some("its name is not made of up to 128 letters, digits, `_` and `-`")
        } else if !object.get("input").is_some_and(Value::is_object) {
            Some("its input is not an object")
        } else {
            None
        };
        if let Some(problem) = problem {
            self.report(Violation::WrongBlock {
                index,
                block,
                problem,
            });
        }
        let id = id.to_owned();
        if !self.calls.insert(id.clone()) {
            self.report(Violation::DuplicateCallId {
                index,
                id: id.clone(),
            });
        }
        self.open.push(id);
    }

    fn result(&mut self, index: usize, block: usize, object: &Map<String, Value>) {
        let wrong = |problem| Violation::WrongBlock {
            index,
            block,
            problem,
        };
        if !has_text(object, "tool_use_id") {
            self.report(wrong("it names no call"));
        }
        if !object.get("is_error").is_none_or(Value::is_boolean) {
            self.report(wrong("`is_error` is neither true nor false"));
        }
        let inner = match object.get("content") {
            None | Some(Value::String(_)) => return,
            Some(Value::Array(inner)) => inner,
            Some(_) => return self.report(wrong("its content is no list of blocks")),
        };
        for value in inner {
            match value["type"].as_str() {
                Some("text" | "image") => {
                    self.block(index, block, "user", value);
                }
                _ => self.report(wrong(
                    "a result holds something else than text and pictures",
                )),
            }
        }
    }
}

fn check_image(object: &Map<String, Value>) -> Result<(), &'static str> {
    const TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "image/gif"];
    let source = object.get("source").unwrap_or(&Value::Null);
    if source["type"] != "base64" {
        return Err("the picture is not in base64");
    }
    if !TYPES.iter().any(|kind| source["media_type"] == *kind) {
        return Err("the picture is of a type that is not shown");
    }
    let data = source["data"].as_str().unwrap_or_default();
    let is_base64 = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/' | b'=');
    if data.is_empty() || !data.len().is_multiple_of(4) || !data.bytes().all(is_base64) {
        return Err("the data of the picture is not base64");
    }
    Ok(())
}

/// Whether the member is a text with something in it.
pub(super) fn has_text(object: &Map<String, Value>, member: &str) -> bool {
    let text = object.get(member).and_then(Value::as_str);
    text.is_some_and(|text| !text.trim().is_empty())
}

/// Whether it can be the name of a tool.
pub(super) fn is_name(text: &str) -> bool {
    text.len() <= 128 && is_word(text)
}

fn is_word(text: &str) -> bool {
    let is_fine = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
    !text.is_empty() && text.bytes().all(is_fine)
}
