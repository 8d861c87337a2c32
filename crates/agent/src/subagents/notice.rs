//! What a parent is told when a child of its background has come to rest, and how messages reach a session that works.
//!
//! A settlement notice is a user message of the parent: one line that says how it went, and what the child said last. It stays
//! queued when a cancellation drops what waits, since nobody says it twice.

use std::sync::Arc;

use offshoot_model::{ContentBlock, MessageSource, RawJson};
use offshoot_session::SessionId;
use offshoot_tool_api::{OutputLimits, bound};
use serde::Serialize;

use super::collapse::{RunEnd, StopReason};
use super::request::Mode;
use super::service::Subagents;
use crate::AgentError;
use crate::agent::{Agent, Wake};
use crate::inbox::InboxTarget;
use crate::input::Input;
use crate::notices::AgentStatus;

/// A child that has come to rest.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) session: SessionId,
    pub(super) mode: Mode,
    pub(super) label: Option<String>,
    pub(super) end: RunEnd,
    /// How many messages it was sent that it has not come to.
    pub(super) waiting: usize,
    /// Why not everything of it could be stored.
    pub(super) unclosed: Option<Arc<AgentError>>,
}

impl Settled {
    /// The message for its parent.
    pub(super) fn notice(&self, id: String) -> Input {
        let outcome = self.outcome();
        let mut content = vec![ContentBlock::text(&outcome)];
        if self.waiting > 0 {
            let count = self.waiting;
            let waiting = format!(
                "Messages that it has not come to: {count}. They wait, and it takes them first when you send it another one."
            );
            content.push(ContentBlock::text(waiting));
        }
        if let Some(unclosed) = &self.unclosed {
            let lost =
                format!("Its session could not be stored, and part of it is lost: {unclosed}");
            content.push(ContentBlock::text(lost));
        }
        let closing = self.end.text.trim();
        if closing.is_empty() {
            content.push(ContentBlock::text("It left no closing message."));
        } else {
            content.push(ContentBlock::text("Its closing message:"));
            content.push(ContentBlock::text(
                bound(closing, OutputLimits::default()).text,
            ));
        }
        let source = source("subagent-settled", "notice", Some(&outcome), &self.session);
        Input::blocks(id, content, source).kept()
    }

    /// One line.
    fn outcome(&self) -> String {
        let name = match &self.label {
            Some(label) => format!("Subagent {} ({label})", self.session),
            None => format!("Subagent {}", self.session),
        };
        let how = match (self.end.stop, self.mode) {
            (StopReason::Completed, Mode::OneShot) => "has finished".to_owned(),
            (StopReason::Completed, Mode::Continuable) => {
                "has finished and rests until you send it more".to_owned()
            }
            (StopReason::MaxTokens, _) => {
                "has ended: its answer was cut off at its output limit".to_owned()
            }
            (StopReason::Aborted, _) => "was cancelled before it had finished".to_owned(),
            (StopReason::Refusal, _) => {
                "declined what it was given: a hook did not let it begin".to_owned()
            }
            (StopReason::Error, _) => match &self.end.failure {
                Some(failure) => {
                    format!("failed: {} ({})", one_line(&failure.message), failure.code)
                }
                None => "failed before it had finished".to_owned(),
            },
        };
        format!("{name} {how}.")
    }
}

/// What one agent says to another.
pub(super) fn relay(id: String, content: Vec<ContentBlock>, sender: &SessionId) -> Input {
    Input::blocks(id, content, source("agent-message", "relay", None, sender))
}

fn source(
    kind: &'static str,
    form: &'static str,
    summary: Option<&str>,
    sender: &SessionId,
) -> MessageSource {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Source<'a> {
        kind: &'a str,
        form: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        summary: Option<&'a str>,
        sender_session_id: &'a str,
    }
    let source = Source {
        kind,
        form,
        summary,
        sender_session_id: sender.as_str(),
    };
    let raw =
        RawJson::from_value(&source).expect("BUG: an object of strings always has a JSON form");
    let kind = kind.to_owned();
    MessageSource::Other { kind, raw }
}

/// The words of a text, without its line ends.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Subagents {
    /// Tells a session what has become of a child. A session that rests is woken for it, one that works is told at its next
    /// step; one that is being closed or was stopped, or whose child was, finds it when it works again. A session that is gone
    /// is told nothing: what its child did is in the log of the child.
    pub(super) fn tell_of(&self, parent: &SessionId, notice: &Input, is_stopped: bool) {
        let Some(agent) = self.service().agent(parent) else {
            return;
        };
        let wake = if is_stopped || self.places().is_stopped(parent) {
            Wake::No
        } else {
            Wake::Yes
        };
        // A log that refuses this refuses the parent's own next event as well, and that is where it is said.
        let _untold = self.hand(&agent, notice, at_once(&agent, wake), wake);
    }

    /// Gives a message to an agent. If that wakes one that somebody is stopping at this very moment, it is stopped again.
    pub(super) fn hand(
        &self,
        agent: &Agent,
        message: &Input,
        target: InboxTarget,
        wake: Wake,
    ) -> Result<(), AgentError> {
        agent.send(message, target, wake)?;
        if wake == Wake::Yes {
            self.places().stop_again(agent.session().id(), agent);
        }
        Ok(())
    }
}

/// As soon as it can be said: in a turn of its own, or in the one that runs.
pub(super) fn at_once(agent: &Agent, wake: Wake) -> InboxTarget {
    match (agent.status(), wake) {
        (AgentStatus::Idle, Wake::Yes) => InboxTarget::NextTurn,
        (AgentStatus::Running, _) | (_, Wake::No) => InboxTarget::NextStep,
    }
}

/// As soon as it can be said behind everything that it was sent before: nobody overtakes what waits for a turn.
pub(super) fn in_order(agent: &Agent) -> Result<InboxTarget, AgentError> {
    if agent.pending()?.next_turn.is_empty() {
        return Ok(at_once(agent, Wake::Yes));
    }
    Ok(InboxTarget::NextTurn)
}
