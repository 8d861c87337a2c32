//! The durable inbox: input waits in the log until a turn claims it (`reference/agent.md` §1.2).

use std::sync::Arc;

use offshoot_model::{ContentBlock, Message, MessageSource, Role};
use offshoot_session::{EventKind, LiveSession, Session};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::AgentError;
use crate::events::{InboxSpliced, logged, row_text};

/// Where input waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InboxTarget {
    /// For the next turn.
    NextTurn,
    /// For the next step of the turn that is running, or of the next one.
    NextStep,
}

impl InboxTarget {
    const fn as_str(self) -> &'static str {
        match self {
            Self::NextTurn => "next-turn",
            Self::NextStep => "next-step",
        }
    }
}

/// A message that joins a conversation: what a person or another part of the program has to say.
///
/// It is the text that the log will hold: nothing of it is written anew when it is claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    id: String,
    text: Arc<str>,
}

impl Input {
    /// What a person says.
    #[must_use]
    pub fn user(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::blocks(id, vec![ContentBlock::text(text)], MessageSource::user())
    }

    /// Blocks from somebody.
    #[must_use]
    pub fn blocks(
        id: impl Into<String>,
        content: Vec<ContentBlock>,
        source: MessageSource,
    ) -> Self {
        let message = Message {
            id: id.into(),
            role: Role::User,
            content,
            tool_call_id: None,
            is_error: None,
            source,
        };
        Self {
            text: row_text(&message).get().into(),
            id: message.id,
        }
    }

    /// A message as the log has it.
    pub(crate) fn stored(text: Arc<str>) -> Self {
        #[derive(Deserialize)]
        struct Named {
            id: String,
        }
        let id = serde_json::from_str::<Named>(&text)
            .map(|named| named.id)
            .unwrap_or_default();
        Self { id, text }
    }

    /// Its id, unlike that of any other message of its log.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The JSON text of the message.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.text
    }

    pub(crate) fn raw(&self) -> Box<RawValue> {
        RawValue::from_string(self.text.to_string())
            .expect("BUG: it was JSON when it was made or read")
    }
}

/// Adds a message at the end of a list.
pub(crate) fn insert(
    session: &LiveSession,
    target: InboxTarget,
    input: &Input,
    now: i64,
) -> Result<(), AgentError> {
    let mut session = session.lock();
    let pending = session.log().pending_input();
    if let Some(seq) = pending.damage() {
        return Err(AgentError::Inbox(seq));
    }
    let start = match target {
        InboxTarget::NextTurn => pending.next_turn().len(),
        InboxTarget::NextStep => pending.next_step().len(),
    };
    splice(&mut session, target, start, 0, &[input.raw()], now)
}

/// Takes what a step may claim: everything that waits for a step, then, at the start of a turn, one message that waits for
/// a turn. Each list is claimed by one splice.
pub(crate) fn claim(
    session: &LiveSession,
    turn_starts: bool,
    now: i64,
) -> Result<Vec<Input>, AgentError> {
    let mut session = session.lock();
    let input = session.log().pending_input();
    if let Some(seq) = input.damage() {
        return Err(AgentError::Inbox(seq));
    }
    let steered = input.next_step().to_vec();
    let prompt = input.next_turn().first().filter(|_| turn_starts).cloned();
    if !steered.is_empty() {
        splice(
            &mut session,
            InboxTarget::NextStep,
            0,
            steered.len(),
            &[],
            now,
        )?;
    }
    if prompt.is_some() {
        splice(&mut session, InboxTarget::NextTurn, 0, 1, &[], now)?;
    }
    Ok(steered
        .into_iter()
        .chain(prompt)
        .map(Input::stored)
        .collect())
}

/// Drops everything that waits, as cancelled.
pub(crate) fn clear(session: &LiveSession, now: i64) -> Result<(), AgentError> {
    let mut session = session.lock();
    let input = session.log().pending_input();
    let counts = [
        (InboxTarget::NextStep, input.next_step().len()),
        (InboxTarget::NextTurn, input.next_turn().len()),
    ];
    for (target, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        let data = InboxSpliced {
            target: target.as_str(),
            start: 0,
            removed_count: count,
            inserted: &[],
            outcome: Some("canceled"),
        };
        session.append(logged(EventKind::InboxSpliced, &data), now)?;
    }
    Ok(())
}

fn splice(
    session: &mut Session,
    target: InboxTarget,
    start: usize,
    removed_count: usize,
    inserted: &[Box<RawValue>],
    now: i64,
) -> Result<(), AgentError> {
    let data = InboxSpliced {
        target: target.as_str(),
        start,
        removed_count,
        inserted,
        outcome: None,
    };
    session.append(logged(EventKind::InboxSpliced, &data), now)?;
    Ok(())
}
