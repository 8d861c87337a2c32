//! Messages from before they had an id, a source and a wrapper.

use std::borrow::Cow;

use crate::json::{Members, Node, quote};
use crate::record::{Record, Refusal};
use crate::stages::messages::Rewritten;

/// The id of a message that never had one: the same whenever the log is brought up.
fn legacy_id(record: &Record, session: &str) -> String {
    quote(&format!("legacy-message:{session}:{}", record.seq))
}

/// The message of the user that a message within a step was: first wrapped, then with the turn beside its members.
pub(super) fn steering(record: &Record) -> Result<String, Refusal> {
    let mut members = record.members()?;
    let turn = members.remove("turn");
    let mut found: Vec<_> = members.iter().map(|(name, _)| name).collect();
    found.sort_unstable();
    let is_wrapped = match found[..] {
        [r#""message""#] => true,
        [r#""content""#, r#""source""#] => false,
        _ => {
            return Err(record
                .unsupported("expected `turn` and `message`, or `turn`, `content` and `source`"));
        }
    };
    if turn.is_none_or(|turn| Node::new(&turn).count().is_none()) {
        return Err(record.unsupported("`turn` must be a count"));
    }
    let message = members.remove("message").filter(|_| is_wrapped);
    Ok(message.map_or_else(|| members.render(), Cow::into_owned))
}

pub(super) fn user(record: &Record, session: &str) -> Rewritten {
    let mut members = record.members()?;
    if members.get("id").is_some() {
        return Ok(None);
    }
    if members.get("role").is_none() {
        members.push("role", r#""user""#);
    }
    members.push("id", legacy_id(record, session));
    Ok(Some(members.render()))
}

pub(super) fn assistant(record: &Record, session: &str) -> Rewritten {
    let mut members = record.members()?;
    // Where an answer came from stood beside its content, or beside or within its message.
    let beside = members.remove("provenance");
    let flat = members.get("message").is_none();
    let wrapped = beside.as_ref().filter(|_| flat).map(|_| {
        let content = members.remove("content").unwrap_or(Cow::Borrowed("null"));
        format!(r#"{{"role":"assistant","content":{content}}}"#)
    });
    let message = wrapped.as_deref().map(Node::new);
    let Some(mut message) = message
        .or_else(|| members.get("message"))
        .and_then(Members::of)
    else {
        return Ok(None);
    };
    let provenance = beside.or_else(|| message.remove("provenance"));
    if provenance.is_none() && message.get("id").is_some() {
        return Ok(None);
    }
    if let Some(provenance) = provenance {
        if message.get("source").is_some() {
            return Err(record.unsupported("has both a `source` and a `provenance`"));
        }
        let mut source = Members::of(Node::new(&provenance)).unwrap_or_default();
        if source.get("kind").is_none() {
            source.insert_first("kind", r#""model""#);
        }
        message.push("source", source.render());
    }
    if message.get("id").is_none() {
        message.push("id", legacy_id(record, session));
    }
    let message = message.render();
    match flat {
        true => members.insert_after("step", "message", message),
        false => members.set("message", message),
    }
    Ok(Some(members.render()))
}

/// `replaced` is the id of the result that this one stands for.
pub(super) fn result(record: &Record, replaced: Option<&str>, session: &str) -> Rewritten {
    let id = || replaced.map_or_else(|| legacy_id(record, session), quote);
    let mut members = record.members()?;
    if let Some(message) = members.get("message") {
        return Ok(with_id(message, id).map(|message| {
            members.set("message", message);
            members.render()
        }));
    }
    let Some(call) = members.remove("callId") else {
        return Ok(None);
    };
    let mut block = format!(r#"{{"type":"tool-result","toolCallId":{call}"#);
    for name in ["content", "isError"] {
        if let Some(value) = members.remove(name) {
            block.push_str(&format!(r#","{name}":{value}"#));
        }
    }
    let message = format!(
        r#"{{"source":{{"kind":"tool","callId":{call}}},"content":[{block}}}],"role":"user","id":{}}}"#,
        id()
    );
    members.insert_after("step", "message", message);
    Ok(Some(members.render()))
}

/// The message with an id, if it has none.
fn with_id(message: Node<'_>, id: impl FnOnce() -> String) -> Option<String> {
    let mut members = Members::of(message).filter(|members| members.get("id").is_none())?;
    members.push("id", id());
    Some(members.render())
}
