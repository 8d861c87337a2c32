//! The durable inbox: input waits in the log until a turn claims it (`reference/agent.md` §1.2).

use std::sync::Arc;

use offshoot_session::{EventKind, LiveSession};
use serde_json::value::RawValue;

use crate::AgentError;
use crate::events::{InboxSpliced, SourceKind, TextBlock, UserMessage, logged};

/// Where input waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InboxTarget {
    /// For the next turn.
    NextTurn,
    /// For the next step of the turn that is running.
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

/// The JSON text of a person's message.
pub(crate) fn user_message(id: String, text: &str) -> Box<RawValue> {
    let source = SourceKind { kind: "user" };
    let message = UserMessage {
        id,
        role: "user",
        content: [TextBlock::new(text)],
        source,
    };
    serde_json::value::to_raw_value(&message).expect("BUG: a message is strings")
}

/// Adds a message at the end of a list.
pub(crate) fn insert(
    session: &LiveSession,
    target: InboxTarget,
    message: Box<RawValue>,
    now: i64,
) -> Result<(), AgentError> {
    let mut session = session.lock();
    let input = session.log().pending_input();
    if let Some(seq) = input.damage() {
        return Err(AgentError::Inbox(seq));
    }
    let start = match target {
        InboxTarget::NextTurn => input.next_turn().len(),
        InboxTarget::NextStep => input.next_step().len(),
    };
    splice(&mut session, target, start, 0, &[message], now)
}

/// Takes what a step may claim: everything that waits for a step, then, at the start of a turn, one message that waits for
/// a turn. Each list is claimed by one splice.
pub(crate) fn claim(
    session: &LiveSession,
    turn_starts: bool,
    now: i64,
) -> Result<Vec<Arc<str>>, AgentError> {
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
    Ok(steered.into_iter().chain(prompt).collect())
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
    session: &mut offshoot_session::Session,
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
