//! Whether a stored stream amounts to the message beside it. `reference/persistence.md` §3.7.
//!
//! No reader needs this to restore a session: there a stream is opaque. Who asks wants to know whether the two accounts
//! that a log gives of one answer are the same.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use crate::assemble::Assembler;
use crate::message::{ContentBlock, Usage};
use crate::raw::RawJson;
use crate::record::{StreamRecord, expand};
use crate::stream::ReplayState;
use crate::surrogates::{join_marked, mark_lone};

/// How many characters of a text are shown from where it differs.
const EXCERPT: usize = 24;

/// The first difference between a message and what its stream amounts to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// The stream, or the message beside it, is not what it should be.
    #[error("the answer cannot be read: {reason}")]
    Unreadable {
        /// What is wrong.
        reason: String,
    },
    /// A block of the content.
    #[error("block {block}: {difference}")]
    Content {
        /// The block, counted from 1.
        block: usize,
        /// What the stream gives and what the message has.
        difference: String,
    },
    /// The usage.
    #[error("usage: {difference}")]
    Usage {
        /// What the stream gives and what the message has.
        difference: String,
    },
    /// What the adapter wants to see again.
    #[error("replay state: {difference}")]
    ReplayState {
        /// What the stream gives and what the message has.
        difference: String,
    },
}

/// The parts of an `assistant/message` that its stream must reproduce.
#[derive(Deserialize)]
struct Settled {
    message: Body,
    usage: Option<Usage>,
    #[serde(default)]
    interrupted: bool,
    stream: Vec<StreamRecord>,
}

#[derive(Deserialize)]
struct Body {
    content: Vec<ContentBlock>,
    source: Source,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Source {
    replay_state: Option<ReplayState>,
}

/// Checks the payload of an `assistant/message`, as the log stores it: assembling its stream must give the content (of an
/// answer that was interrupted, what is worth keeping of it), the usage and the replay state. An empty stream says nothing
/// and is exempt. Members that this version does not know are not compared.
///
/// # Errors
/// The first difference, in this order.
pub fn verify_stream(data: &str) -> Result<(), Mismatch> {
    let settled: Settled =
        serde_json::from_str(&mark_lone(data)).map_err(|error| Mismatch::Unreadable {
            reason: plain(&error),
        })?;
    if settled.stream.is_empty() {
        return Ok(());
    }
    let mut assembler = Assembler::new();
    for (_, chunk) in expand(&settled.stream) {
        assembler.push(&chunk);
    }
    let partial = assembler.interrupted_blocks();
    let assembled = assembler.finish();
    let Body { content, source } = settled.message;
    if settled.interrupted {
        same_content(&partial, &content)?;
    } else {
        same_content(&assembled.content, &content)?;
    }
    if assembled.usage != settled.usage {
        return Err(Mismatch::Usage {
            difference: two_sides(shown(assembled.usage), shown(settled.usage)),
        });
    }
    // Nobody sends an answer back to the adapter that it had not finished, so such a one may go without.
    if settled.interrupted && source.replay_state.is_none() {
        return Ok(());
    }
    same_state(
        assembled.replay_state.as_ref(),
        source.replay_state.as_ref(),
    )
}

fn same_content(stream: &[ContentBlock], message: &[ContentBlock]) -> Result<(), Mismatch> {
    let longer = stream.len().max(message.len());
    for at in 0..longer {
        let difference = match (stream.get(at), message.get(at)) {
            (Some(ours), Some(theirs)) => block_difference(ours, theirs),
            (ours, theirs) => Some(two_sides(kind(ours), kind(theirs))),
        };
        if let Some(difference) = difference {
            return Err(Mismatch::Content {
                block: at + 1,
                difference,
            });
        }
    }
    Ok(())
}

fn kind(block: Option<&ContentBlock>) -> String {
    block.map_or_else(
        || "no such block".to_owned(),
        |block| format!("`{}`", block.block_type()),
    )
}

fn block_difference(stream: &ContentBlock, message: &ContentBlock) -> Option<String> {
    use ContentBlock::{Reasoning, Text, ToolCall, Unknown};
    match (stream, message) {
        (Text { text: ours }, Text { text: theirs })
        | (Reasoning { text: ours }, Reasoning { text: theirs }) => {
            text_difference("text", ours, theirs)
        }
        (
            ToolCall {
                id,
                name,
                arguments,
            },
            ToolCall {
                id: their_id,
                name: their_name,
                arguments: their_arguments,
            },
        ) => text_difference("id", id, their_id)
            .or_else(|| text_difference("name", name, their_name))
            .or_else(|| text_difference("arguments", arguments, their_arguments)),
        (Unknown(ours), Unknown(theirs)) if same_json(ours.get(), theirs.get()) => None,
        (ours, theirs) if ours == theirs => None,
        (ours, theirs) if ours.block_type() == theirs.block_type() => {
            Some(format!("two `{}` that differ", ours.block_type()))
        }
        (ours, theirs) => Some(two_sides(kind(Some(ours)), kind(Some(theirs)))),
    }
}

/// The first character in which two texts differ, and what follows on both sides.
fn text_difference(member: &str, stream: &str, message: &str) -> Option<String> {
    let (stream, message) = (join_marked(stream), join_marked(message));
    if stream == message {
        return None;
    }
    let mut both = stream.chars().zip(message.chars());
    let differs = both.position(|(ours, theirs)| ours != theirs);
    let shorter = || stream.chars().count().min(message.chars().count());
    let at = differs.unwrap_or_else(shorter);
    let rest = |text: &Cow<'_, str>| excerpt(text.chars().skip(at));
    let sides = two_sides(rest(&stream), rest(&message));
    Some(format!("{member} from character {} on: {sides}", at + 1))
}

fn two_sides(stream: impl fmt::Display, message: impl fmt::Display) -> String {
    format!("the stream gives {stream}, the message has {message}")
}

/// Quoted, so that what a log holds cannot move anybody's cursor.
fn excerpt(text: impl Iterator<Item = char>) -> String {
    let mut text = text.peekable();
    if text.peek().is_none() {
        return "nothing more".to_owned();
    }
    let shown: String = text.by_ref().take(EXCERPT).collect();
    let more = if text.peek().is_some() { "…" } else { "" };
    format!("{shown:?}{more}")
}

fn same_state(stream: Option<&ReplayState>, message: Option<&ReplayState>) -> Result<(), Mismatch> {
    let difference = match (stream, message) {
        (None, None) => return Ok(()),
        (Some(ours), Some(theirs)) if same_json(ours.get(), theirs.get()) => return Ok(()),
        (Some(ours), Some(theirs)) => {
            text_difference("JSON", ours.get(), theirs.get()).unwrap_or_default()
        }
        (ours, _) => {
            let (stream, message) = match ours {
                Some(_) => ("one", "none"),
                None => ("none", "one"),
            };
            two_sides(stream, message)
        }
    };
    Err(Mismatch::ReplayState { difference })
}

/// Whether two texts are the same JSON value: the order of members carries no meaning. Texts too deep to look into are
/// compared as they are.
fn same_json(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    let value = |text| serde_json::from_str::<Value>(text).ok();
    value(one).is_some_and(|one| Some(one) == value(other))
}

/// Without the position: it counts in a text that nobody has before them.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ")
        .map_or_else(|| text.clone(), |(text, _)| text.to_owned())
}

fn shown(usage: Option<Usage>) -> String {
    let Some(usage) = usage else {
        return "none".to_owned();
    };
    let text = RawJson::from_value(&usage).expect("BUG: counts always have a JSON form");
    text.get().to_owned()
}
