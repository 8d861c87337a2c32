//! Tool results: from a block inside of a user message to a message of their own role (`reference/persistence.md` §2.6).

use offshoot_session::TOOL_NOT_STARTED;

use crate::json::{Members, Node, quote};
use crate::record::{Record, Refusal};
use crate::stages::messages::{Rewritten, member};

/// Up to V3 only a repair wrote results for calls that nobody started (§5.4). V4 accepts those of a fork as well, but a V3
/// log cannot have one.
pub(super) fn check_not_started(record: &Record) -> Result<(), Refusal> {
    let data = record.node();
    let error = data.get("error");
    if !error.is_some_and(|error| error.names("code", TOOL_NOT_STARTED)) {
        return Ok(());
    }
    let id = data
        .get("message")
        .and_then(|message| message.get("id")?.text());
    match id.filter(|id| id.starts_with("forked-tool-result-")) {
        Some(id) => Err(record.malformed(format!(
            "expected the not-started result of a repair, found `{id}`, which only V4 has"
        ))),
        None => Ok(()),
    }
}

/// The payload with its message lifted.
pub(super) fn lift(record: &Record) -> Rewritten {
    member(record.node(), "message", |message| {
        lift_message(record, message).map(Some)
    })
}

fn lift_message(record: &Record, message: Node<'_>) -> Result<String, Refusal> {
    let malformed = |reason: &str| record.malformed(reason);
    let outer = Members::of(message).ok_or_else(|| malformed("`message` must be an object"))?;
    if !outer.get("role").is_some_and(|role| role.is("user")) {
        return Err(malformed("`message.role` must be \"user\", as V3 has it"));
    }
    let blocks = outer
        .get("content")
        .map_or_else(Vec::new, |content| content.items());
    let [wrapper] = blocks[..] else {
        return Err(malformed(
            "`message.content` must be exactly one `tool-result` block",
        ));
    };
    let inner = Members::of(wrapper).filter(|_| wrapper.names("type", "tool-result"));
    let inner = inner
        .ok_or_else(|| malformed("`message.content` must be exactly one `tool-result` block"))?;
    let mut lifted = Members::default();
    for (key, value) in outer.iter() {
        let name = Node::new(key);
        match name.text() {
            Some(known) if known == "role" => lifted.push("role", r#""tool""#),
            Some(known) if known == "content" => lift_block(&inner, &mut lifted),
            Some(known) if known == "id" || known == "source" => {
                lifted.push(&known, value.json().to_owned());
            }
            _ => lifted.push_raw(escaped(key, "plugin:message:"), value.json().to_owned()),
        }
    }
    Ok(lifted.render())
}

fn lift_block(inner: &Members<'_>, lifted: &mut Members<'_>) {
    for (key, value) in inner.iter() {
        let name = Node::new(key).text();
        match name.as_deref() {
            Some("type") => {}
            Some(known @ ("toolCallId" | "content" | "isError")) => {
                lifted.push(known, value.json().to_owned());
            }
            _ => lifted.push_raw(escaped(key, "plugin:result:"), value.json().to_owned()),
        }
    }
}

/// A member's name, given as JSON text, with a prefix.
fn escaped(key: &str, prefix: &str) -> String {
    let prefix = quote(prefix);
    format!("{}{}", &prefix[..prefix.len() - 1], &key[1..])
}
