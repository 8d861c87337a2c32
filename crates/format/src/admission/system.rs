//! Rule 4: what a system message may hold. The model obeys it, so its blocks are checked more closely than others.

use offshoot_session::{Body, Event};

use super::positive;
use crate::json::Node;

pub(super) fn check(event: &Event) -> Result<(), String> {
    if let Body::SystemMessage(at, _) = event.body() {
        positive(*at)?;
    }
    let content = Node::new(event.message().unwrap_or_default()).get("content");
    let blocks = content.map_or_else(Vec::new, |content| content.items());
    blocks.iter().enumerate().try_for_each(|(at, block)| {
        check_block(block)
            .map_err(|reason| format!("content block {at} of the system message {reason}"))
    })
}

/// Only the known types have a shape to keep: the union of blocks is open (§3.6).
fn check_block(block: &Node<'_>) -> Result<(), String> {
    let kind = block.get("type").and_then(|kind| kind.text());
    let kind = kind.unwrap_or_default();
    let strings: &[&str] = match &*kind {
        "tool-result" => return Err("is a retired `tool-result` block".into()),
        "text" | "reasoning" => &["text"],
        "tool-call" => &["id", "name", "arguments"],
        "image" | "file" => return check_attachment(block, &kind),
        _ => &[],
    };
    let missing = |member: &&&str| !block.get(member).is_some_and(|node| node.is_string());
    match strings.iter().find(missing) {
        Some(member) => Err(format!("is `{kind}` and needs a string `{member}`")),
        None => Ok(()),
    }
}

fn check_attachment(block: &Node<'_>, kind: &str) -> Result<(), String> {
    let attachment = block.get("attachment").filter(Node::is_object);
    let attachment =
        attachment.ok_or_else(|| format!("is `{kind}` and needs an object `attachment`"))?;
    let (string, counts): (_, &[&str]) = match kind {
        "image" => ("mediaType", &["bytes", "width", "height"]),
        _ => ("name", &["bytes"]),
    };
    for member in ["attachmentId", string] {
        if !attachment.get(member).is_some_and(|node| node.is_string()) {
            return Err(format!(
                "is `{kind}` and its attachment needs a string `{member}`"
            ));
        }
    }
    match counts.iter().find(|member| !attachment.counts(member)) {
        Some(member) => Err(format!(
            "is `{kind}` and its attachment needs a count `{member}`"
        )),
        None => Ok(()),
    }
}
