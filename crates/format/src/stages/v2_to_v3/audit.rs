//! What a V2 log may hold to be brought up: nothing that the step does not know (`reference/persistence.md` §2.5).

use crate::json::Node;
use crate::record::{Record, Refusal};
use crate::stages::messages::{Rewritten, each, loose_content, messages, stream_blocks};
use crate::version::Version;

const SOURCES: &[&str] = &[
    "user",
    "plugin",
    "model",
    "tool",
    "agent-instructions",
    "session-reference",
    "team-message",
    "goal",
    "skill-invocation",
    "skill-catalog",
    "coordinator",
    "subagent-report",
    "subagent-settled",
    "webhook",
    "agent-message",
];
const BLOCKS: &[&str] = &[
    "text",
    "reasoning",
    "image",
    "file",
    "tool-call",
    "tool-result",
];

pub(super) fn check(record: &Record) -> Result<(), Refusal> {
    if !Version::V2.knows(&record.kind) {
        return Err(record.unsupported("expected an event type that V2 was released with"));
    }
    messages(record, |message| {
        let source = message.get("source").and_then(|source| source.get("kind"));
        if let Some(kind) = source.filter(|kind| !SOURCES.iter().any(|known| kind.is(known))) {
            return Err(record.unsupported(format!(
                "the source kind {} has no successor in V3",
                kind.json()
            )));
        }
        match message.get("content") {
            Some(content) => check_blocks(record, content),
            None => Ok(None),
        }
    })?;
    loose_content(record, |content| check_blocks(record, content))?;
    stream_blocks(
        record,
        |kind| check_block_type(record, kind),
        |block| check_block(record, block),
    )?;
    match &*record.kind {
        "tool/result" => check_not_started(record),
        "session-log-deepseek/delivery-accepted" => {
            let version = record.node().get("sessionFormatVersion");
            match version.and_then(|version| version.count()) {
                Some(3) => Err(record.unsupported("a V2 log cannot have been delivered as V3")),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn check_blocks(record: &Record, content: Node<'_>) -> Rewritten {
    each(content, |block| check_block(record, block))
}

fn check_block(record: &Record, block: Node<'_>) -> Rewritten {
    let Some(kind) = block.get("type") else {
        return Ok(None);
    };
    check_block_type(record, kind)?;
    // A result holds blocks itself. Those in a result that stands there are not looked at: the next step refuses it.
    if kind.is("tool-result")
        && let Some(content) = block.get("content")
    {
        each(content, |inner| {
            inner
                .get("type")
                .map_or(Ok(None), |kind| check_block_type(record, kind))
        })?;
    }
    Ok(None)
}

fn check_block_type(record: &Record, kind: Node<'_>) -> Rewritten {
    if BLOCKS.iter().any(|known| kind.is(known)) {
        return Ok(None);
    }
    Err(record.unsupported(format!(
        "the content block type {} has no successor in V3",
        kind.json()
    )))
}

/// A result for a call that nobody started must be one that a repair has written.
fn check_not_started(record: &Record) -> Result<(), Refusal> {
    let data = record.node();
    let error = data.get("error");
    if !error.is_some_and(|error| error.names("code", offshoot_session::TOOL_NOT_STARTED)) {
        return Ok(());
    }
    let message = data.get("message");
    let call = message.and_then(|message| message.get("source")?.get("callId")?.text());
    let id = message.and_then(|message| message.get("id")?.text());
    let suffix = id.as_deref().zip(call.as_deref()).and_then(|(id, call)| {
        id.strip_prefix("interrupted-tool-result-")?
            .strip_prefix(call)?
            .strip_prefix('-')
    });
    if suffix.is_some_and(|suffix| {
        Node::new(suffix)
            .count()
            .is_some_and(|n| n.to_string() == suffix)
    }) {
        return Ok(());
    }
    Err(record.unsupported(format!(
        "expected `interrupted-tool-result-{}-` and a number as the id of a result for a call that was not started, \
         found `{}`",
        call.unwrap_or_default(),
        id.unwrap_or_default()
    )))
}
