//! The note that a side session hands back to the conversation that it was branched off from.
//!
//! A handback is a message before it is sent: made from the side session's log alone, bounded, and named so that whoever
//! asks for the same one again names it alike. What becomes of it in the parent is [`merge`](super::merge)'s business.

use offshoot_model::{ContentBlock, Message, MessageSource, RawJson};
use offshoot_session::{EventKind, EventLog, LogOffset, Seq, SessionHeader, SessionId, SideMark};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{SideError, promote};
use crate::events::texts;
use crate::input::Input;

/// How long the note of a handback may be unless somebody says otherwise, in characters (Unicode scalar values).
pub const HANDBACK_MAX_CHARS: usize = 2_000;

/// What stands for the part of a note that was cut off.
const ELLIPSIS: char = '…';

/// A note of a side session for its parent, not sent yet (`reference/agent.md` §5.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handback {
    id: String,
    child: SessionId,
    parent: SessionId,
    cut: Option<Seq>,
    text: String,
}

impl Handback {
    /// What a side session hands back: the note, or without one the text of the last answer that it has given itself,
    /// without the white space around it. What is longer than `max_chars` characters (Unicode scalar values; see
    /// [`HANDBACK_MAX_CHARS`]) is cut off there and ends in an ellipsis.
    ///
    /// Its id follows from the side session, the last answer in it and the note, so that the same request, made again after
    /// a crash for instance, is the same handback.
    ///
    /// # Errors
    /// `NOT_A_SIDE_SESSION`: it never was one, or was promoted. `NO_PARENT`: its header names none. `HANDBACK_EMPTY`: there
    /// is no text, or no room for any.
    pub fn of(
        child: &SessionHeader,
        log: &EventLog,
        note: Option<&str>,
        max_chars: usize,
    ) -> Result<Self, SideError> {
        let id = &child.id;
        promote::check(id, log)?;
        let Some(parent) = child.parent.clone() else {
            return Err(SideError::NoParent(id.clone()));
        };
        let answer = last_answer(log);
        let answered = answer.as_ref().map(|(seq, _)| *seq);
        let note = note.map(str::to_owned).or(answer.map(|(_, text)| text));
        let note = note.unwrap_or_default();
        let Some(text) = capped(&note, max_chars) else {
            return Err(SideError::HandbackEmpty(id.clone()));
        };
        Ok(Self {
            id: default_id(id, answered, note.trim()),
            child: id.clone(),
            parent,
            cut: inherited_cut(log),
            text,
        })
    }

    /// The handback, if it is for this session.
    ///
    /// # Errors
    /// `FOREIGN_CHILD`: the side session was branched off from another one.
    pub fn for_parent(self, parent: &SessionId) -> Result<Self, SideError> {
        if self.parent == *parent {
            return Ok(self);
        }
        Err(SideError::ForeignChild {
            child: self.child,
            parent: self.parent,
            asked: parent.clone(),
        })
    }

    /// The handback under an id of the caller's: of several with one id from one side session, the parent takes the first.
    #[must_use]
    pub fn with_id(self, id: impl Into<String>) -> Self {
        let id = id.into();
        Self { id, ..self }
    }

    /// What it is known by.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The side session.
    #[must_use]
    pub const fn child(&self) -> &SessionId {
        &self.child
    }

    /// The session that it is for.
    #[must_use]
    pub const fn parent(&self) -> &SessionId {
        &self.parent
    }

    /// The last event that the side session has inherited; `None` if it began with nothing.
    #[must_use]
    pub const fn cut(&self) -> Option<Seq> {
        self.cut
    }

    /// The note, bounded.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The message that the parent gets. Its name follows from that of the handback, and no handback of another side session
    /// has it.
    pub(super) fn input(&self) -> Input {
        let Self {
            id,
            child,
            cut,
            text,
            ..
        } = self;
        let source = Source {
            summary: "Note from a side session",
            act: "handback",
            session_id: Some(child),
            cut: *cut,
            handback_id: Some(id),
            ..Source::default()
        };
        let said =
            format!("A note from the side session `{child}` of this conversation:\n\n{text}");
        let content = vec![ContentBlock::text(said)];
        Input::blocks(message_id(child, id), content, source.into()).kept()
    }
}

/// What asks a side session for its handback: sent so that it wakes, the text of the turn that it begins is the note. Whoever
/// hands that text to [`Handback::of`], instead of none, does not take an older answer for the note when the turn fails. `id` is
/// the message's, and `max_chars` how long the note may be, in characters.
#[must_use]
pub fn handback_request(id: impl Into<String>, max_chars: usize) -> Input {
    let source = Source {
        summary: "Asks for the note that goes back",
        act: "ask",
        ..Source::default()
    };
    let text = format!(
        "Write the note that goes back from here to the conversation that this one was branched off from. Say what has come \
         out of this side session that matters there: findings, decisions, names of files, open questions. Whoever reads it \
         has seen nothing of this side session. Use at most {max_chars} characters of plain text. Your whole answer is the \
         note: no greeting, no heading, and no tool calls."
    );
    Input::blocks(id, vec![ContentBlock::text(text)], source.into())
}

/// The source of a message that goes with a handback.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Source<'a> {
    kind: &'static str,
    form: &'static str,
    summary: &'static str,
    act: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<Seq>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handback_id: Option<&'a str>,
}

impl Default for Source<'_> {
    fn default() -> Self {
        Self {
            kind: SideMark::SOURCE,
            form: "notice",
            summary: "",
            act: "",
            session_id: None,
            cut: None,
            handback_id: None,
        }
    }
}

impl From<Source<'_>> for MessageSource {
    fn from(source: Source<'_>) -> Self {
        Self::Other {
            kind: source.kind.to_owned(),
            raw: RawJson::from_value(&source).expect("BUG: strings and numbers have a JSON form"),
        }
    }
}

fn inherited_cut(log: &EventLog) -> Option<Seq> {
    log.inherited_marker()
        .and_then(|marker| marker.before().last())
}

/// The last answer with a text that was given behind the inherited cut: what the parent has said itself is no news to it.
fn last_answer(log: &EventLog) -> Option<(Seq, String)> {
    let own = log
        .inherited_marker()
        .map_or(LogOffset::START, |marker| marker.after());
    let seqs = (own.get()..log.end().get()).rev().map(Seq::new);
    let answers = seqs
        .filter_map(|seq| log.get(seq))
        .filter(|event| *event.kind() == EventKind::AssistantMessage);
    let mut said = answers.filter_map(|event| {
        let message = Message::from_stored(event.message()?).ok()?;
        let text = texts(message.content).collect::<Vec<_>>().join("\n\n");
        (!text.trim().is_empty()).then(|| (event.seq(), text))
    });
    said.next()
}

/// As much of a text as fits, without the white space around it; `None` if that is nothing.
fn capped(text: &str, max_chars: usize) -> Option<String> {
    let text = text.trim();
    if text.is_empty() || max_chars == 0 {
        return None;
    }
    if text.chars().nth(max_chars).is_none() {
        return Some(text.to_owned());
    }
    let room = text.chars().take(max_chars - 1).collect::<String>();
    let mut capped = room.trim_end().to_owned();
    capped.push(ELLIPSIS);
    Some(capped)
}

/// What the message of a handback is known by. Ids of sessions may have a colon in them, and those of handbacks anything.
fn message_id(child: &SessionId, handback: &str) -> String {
    let child = child.as_str().replace('%', "%25").replace(':', "%3A");
    format!("handback:{child}:{handback}")
}

/// What the same request is known by however often it is made. The whole note counts, also what is cut off.
fn default_id(child: &SessionId, answered: Option<Seq>, note: &str) -> String {
    let at = answered.map_or_else(String::new, |seq| seq.to_string());
    let digest = Sha256::digest(format!("{child}\n{at}\n{note}"));
    digest[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_cut_on_the_boundary_of_a_character_and_says_so() {
        let cases = [
            ("", 5, None),
            (" \n\t ", 5, None),
            ("abc", 0, None),
            ("a", 1, Some("a")),
            ("ab", 1, Some("…")),
            ("abcd", 5, Some("abcd")),
            ("abcde", 5, Some("abcde")),
            ("abcdef", 5, Some("abcd…")),
            // Nor does white space count that is cut off, nor stand in front of the ellipsis.
            ("  abcde \n", 5, Some("abcde")),
            ("abc  def", 5, Some("abc…")),
            // Characters, not bytes.
            ("äöüß€", 5, Some("äöüß€")),
            ("äöüß€!", 5, Some("äöüß…")),
            ("🦀🦀🦀", 2, Some("🦀…")),
        ];
        for (text, max, expected) in cases {
            assert_eq!(capped(text, max).as_deref(), expected, "{text:?} {max}");
        }
        let long = capped(&"ß".repeat(HANDBACK_MAX_CHARS + 1), HANDBACK_MAX_CHARS).unwrap();
        assert_eq!(long.chars().count(), HANDBACK_MAX_CHARS);
    }
}
