//! Where messages and content blocks stand in the payloads of V2 and V3, for the steps that rewrite or audit all of them.
//!
//! Every function says what the payload becomes, or nothing where it stays as it is.

use memchr::memmem;

use crate::json::{Members, Node, list};
use crate::record::{Record, Refusal};

/// What a piece of JSON becomes, if it does not stay.
pub(super) type Rewritten = Result<Option<String>, Refusal>;

/// Rewrites every message of the payload: the one that it carries, those that it puts into a queue, those of a request for
/// a title.
pub(super) fn messages(
    record: &Record,
    mut edit: impl FnMut(Members<'_>) -> Rewritten,
) -> Rewritten {
    let malformed = |place: &str| record.malformed(format!("`{place}` must hold a message"));
    let mut one = |place: &str, node: Node<'_>| match Members::of(node) {
        Some(message) => edit(message),
        None => Err(malformed(place)),
    };
    match &*record.kind {
        "user/message" => one("data", record.node()),
        "assistant/message" | "tool/result" | "system/message" => {
            member(record.node(), "message", |node| one("message", node))
        }
        "agent/inbox/spliced" => member(record.node(), "inserted", |node| {
            each(node, |node| one("inserted", node))
        }),
        "session/title-llm-request" => member(record.node(), "messages", |node| {
            each(node, |node| one("messages", node))
        }),
        _ => Ok(None),
    }
}

/// Rewrites every list of content blocks outside of messages: of summaries, of programmatic calls, of team messages.
pub(super) fn loose_content(
    record: &Record,
    mut edit: impl FnMut(Node<'_>) -> Rewritten,
) -> Rewritten {
    match &*record.kind {
        "compaction/summary" => {
            let first = member(record.node(), "summary", &mut edit)?;
            let node = Node::new(first.as_deref().unwrap_or(&record.data));
            let second = member(node, "rawOutput", edit)?;
            Ok(second.or(first))
        }
        "tool/code-dispatch" | "tool/ptc-dispatch" => member(record.node(), "content", edit),
        "team/message/queued" => member(record.node(), "message", |node| {
            member(node, "content", edit)
        }),
        _ => Ok(None),
    }
}

/// Rewrites what an embedded stream says about a block: the type with which it begins, and the block with which it ends.
pub(super) fn stream_blocks(
    record: &Record,
    mut begin: impl FnMut(Node<'_>) -> Rewritten,
    mut end: impl FnMut(Node<'_>) -> Rewritten,
) -> Rewritten {
    if !record.is("assistant/message") && !record.is("assistant/attempt") {
        return Ok(None);
    }
    let mut pieces = |stream: Node<'_>| {
        each(stream, |piece| {
            // Most pieces are deltas. The word may also be written with escapes.
            let has = |word: &str| memmem::find(piece.json().as_bytes(), word.as_bytes()).is_some();
            if !has("block-") && !has(r"\u00") {
                return Ok(None);
            }
            member(piece, "chunk", |chunk| match chunk.get("type") {
                Some(kind) if kind.is("block-start") => member(chunk, "blockType", &mut begin),
                Some(kind) if kind.is("block-end") => member(chunk, "block", &mut end),
                _ => Ok(None),
            })
        })
    };
    match &record.stream {
        Some(stream) => pieces(Node::new(stream)),
        None => member(record.node(), "stream", pieces),
    }
}

/// Rewrites a member of an object, if it is there. The result is the whole object.
pub(super) fn member(
    node: Node<'_>,
    name: &str,
    edit: impl FnOnce(Node<'_>) -> Rewritten,
) -> Rewritten {
    let Some(mut members) = Members::of(node) else {
        return Ok(None);
    };
    let edited = members.get(name).map_or(Ok(None), edit)?;
    Ok(edited.map(|value| {
        members.set(name, value);
        members.render()
    }))
}

/// Rewrites the elements of a list. What is no list is left for the rules behind the migrations.
pub(super) fn each(node: Node<'_>, edit: impl FnMut(Node<'_>) -> Rewritten) -> Rewritten {
    let items = node.items();
    let edited: Vec<Option<String>> = items.iter().copied().map(edit).collect::<Result<_, _>>()?;
    if edited.iter().all(Option::is_none) {
        return Ok(None);
    }
    let texts = items.iter().zip(&edited);
    let texts = texts.map(|(item, edited)| edited.as_deref().unwrap_or(item.json()));
    Ok(Some(list(texts)))
}
