//! Words that older formats used and V4 does not: event types, the `plugin` source kind, `tool-result` blocks.
//!
//! A log that still has them was migrated wrongly, or not at all. In an ignorable event of another type anything may stand.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use offshoot_session::{Body, Event, EventKind};

use crate::json::Node;

static BLOCK: LazyLock<Word> = LazyLock::new(|| Word::new("tool-result"));
static SOURCE: LazyLock<Word> = LazyLock::new(|| Word::new("plugin"));
static ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(r"\u00"));

/// A word that a JSON text may or may not spell.
struct Word(Finder<'static>);

impl Word {
    fn new(word: &'static str) -> Self {
        Self(Finder::new(word))
    }

    /// False only if no string in the text has the word: plain, or with characters of it escaped. Writers use `\u00…` for
    /// control characters alone, so one that stands for a printable character is reason enough to look closer.
    fn may_be_in(&self, json: &str) -> bool {
        let json = json.as_bytes();
        let printable = |at: usize| {
            json.get(at + 4)
                .is_some_and(|digit| (b'2'..=b'7').contains(digit))
        };
        self.0.find(json).is_some() || ESCAPE.find_iter(json).any(printable)
    }
}

/// Rule 3, event types: renamed since, so only a reader that may pass over them can keep them.
pub(super) fn check_type(name: &str, ignorable: bool) -> Result<(), String> {
    match name {
        "tool/code-dispatch" | "tool/code-dispatch-start" if !ignorable => Err(format!(
            "the type `{name}` is retired: since V3 it is `{}`",
            name.replace("code", "ptc")
        )),
        _ => Ok(()),
    }
}

/// Rule 2: a message names its concrete producer.
pub(super) fn check_sources(event: &Event) -> Result<(), String> {
    let retired = match event.body() {
        // The core rules fix the source kind of every other message.
        Body::UserMessage(message) | Body::DeveloperMessage { message, .. } => {
            &*message.source == "plugin"
        }
        Body::Opaque => listed_messages(event.kind()).is_some_and(|member| {
            SOURCE.may_be_in(event.data())
                && list(Node::new(event.data()), &[member])
                    .iter()
                    .filter_map(|message| message.get("source"))
                    .any(|source| source.names("kind", "plugin"))
        }),
        _ => false,
    };
    if retired {
        return Err(
            "the source kind `plugin` is retired: a message names its concrete producer".into(),
        );
    }
    Ok(())
}

/// Rule 3, content blocks: a result is a message of its own.
pub(super) fn check_blocks(event: &Event) -> Result<(), String> {
    let data = Node::new(event.data());
    let lists: &[&[&str]] = match event.kind() {
        EventKind::UserMessage | EventKind::PtcDispatch => &[&["content"]],
        EventKind::DeveloperMessage
        | EventKind::AssistantMessage
        | EventKind::TeamMessageQueued => &[&["message", "content"]],
        EventKind::CompactionSummary => &[&["summary"], &["rawOutput"]],
        EventKind::AssistantAttempt
        | EventKind::InboxSpliced
        | EventKind::SessionTitleLlmRequest => &[],
        _ => return Ok(()),
    };
    if !BLOCK.may_be_in(event.data()) {
        return Ok(());
    }
    for path in lists {
        check_list(&list(data, path), path.last().copied().unwrap_or_default())?;
    }
    if let Some(member) = listed_messages(event.kind()) {
        for message in list(data, &[member]) {
            check_list(&list(message, &["content"]), member)?;
        }
    }
    if matches!(
        event.kind(),
        EventKind::AssistantMessage | EventKind::AssistantAttempt
    ) {
        check_stream(&list(data, &["stream"]))?;
    }
    Ok(())
}

/// The member of a payload that is a list of whole messages.
const fn listed_messages(kind: &EventKind) -> Option<&'static str> {
    match kind {
        EventKind::InboxSpliced => Some("inserted"),
        EventKind::SessionTitleLlmRequest => Some("messages"),
        _ => None,
    }
}

fn list<'a>(node: Node<'a>, path: &[&str]) -> Vec<Node<'a>> {
    let found = path.iter().try_fold(node, |node, member| node.get(member));
    found.map_or_else(Vec::new, |list| list.items())
}

fn check_list(blocks: &[Node<'_>], place: &str) -> Result<(), String> {
    if blocks
        .iter()
        .any(|block| block.names("type", "tool-result"))
    {
        return Err(retired_block(place));
    }
    Ok(())
}

fn check_stream(records: &[Node<'_>]) -> Result<(), String> {
    for record in records
        .iter()
        .filter(|record| BLOCK.may_be_in(record.json()))
    {
        let chunk = record
            .get("chunk")
            .filter(|_| record.names("type", "chunk"));
        let Some(chunk) = chunk else {
            continue;
        };
        let starts = chunk.names("type", "block-start") && chunk.names("blockType", "tool-result");
        let ends = chunk.names("type", "block-end")
            && chunk
                .get("block")
                .is_some_and(|block| block.names("type", "tool-result"));
        if starts || ends {
            return Err(retired_block("stream"));
        }
    }
    Ok(())
}

fn retired_block(place: &str) -> String {
    format!(
        "`{place}` has a retired `tool-result` block: since V4 a result is a message of its own"
    )
}
