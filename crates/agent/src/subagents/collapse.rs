//! What a child's run comes to for its parent (`reference/agent.md` §4.4): one text and one reason, whatever it took.

use offshoot_model::{Chunk, ContentBlock, Failure, expand};
use offshoot_session::{Event, EventKind, EventLog, LogOffset};
use offshoot_tool_api::ToolError;
use serde::Deserialize;

use crate::AgentError;
use crate::events::{StoredAttempt, read, texts};

/// Why a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// The child had no more to do.
    Completed,
    /// Its answer was cut off by its output limit.
    MaxTokens,
    /// Somebody cancelled it.
    Aborted,
    /// It did not begin: a hook would not let it.
    Refusal,
    /// It failed.
    Error,
}

impl StopReason {
    /// The name under which a result records it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::MaxTokens => "max-tokens",
            Self::Aborted => "aborted",
            Self::Refusal => "refusal",
            Self::Error => "error",
        }
    }

    /// The stable code of a result that is an error for this reason.
    const fn code(self) -> &'static str {
        match self {
            Self::Completed => "SUBAGENT_COMPLETED",
            Self::MaxTokens => "SUBAGENT_MAX_TOKENS",
            Self::Aborted => "SUBAGENT_ABORTED",
            Self::Refusal => "SUBAGENT_REFUSED",
            Self::Error => "SUBAGENT_FAILED",
        }
    }
}

/// How a run came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// Why it has ended.
    pub stop: StopReason,
    /// What the child has said last in it; empty if it has said nothing. Behind anything but [`StopReason::Completed`] that
    /// is part of an answer, or what it said on its way.
    pub text: String,
    /// What it failed of, if it did.
    pub failure: Option<Failure>,
}

impl RunEnd {
    /// What the events of a child's log from `from` on come to. `cancelled`: somebody has cancelled the run, in whatever way it
    /// ended then. `broken`: what kept its agent from going on, which its log may know nothing of.
    pub(crate) fn of(
        log: &EventLog,
        from: LogOffset,
        cancelled: bool,
        broken: Option<&AgentError>,
    ) -> Self {
        let reason = Reason::of(log, from);
        let stop = match reason.stop() {
            Some(StopReason::Completed) => StopReason::Completed,
            _ if cancelled => StopReason::Aborted,
            stop => stop.unwrap_or(StopReason::Error),
        };
        let mut failure = match reason {
            Reason::Error { error } if stop == StopReason::Error => Some(error),
            _ => None,
        };
        if stop == StopReason::Error
            && failure.is_none()
            && let Some(broken) = broken
        {
            failure = Some(Failure::new(broken.code(), broken.to_string()));
        }
        Self {
            stop,
            text: output(log, from),
            failure,
        }
    }

    /// Why the events of a child's log from `from` on have ended; `None` if nobody has ended them.
    pub(super) fn stop_of(log: &EventLog, from: LogOffset) -> Option<StopReason> {
        Reason::of(log, from).stop()
    }

    /// What the model that has delegated is told.
    pub(super) fn told(&self) -> Result<String, ToolError> {
        let text = self.text.trim();
        let why = match self.stop {
            StopReason::Completed if text.is_empty() => {
                return Ok("The subagent finished and said nothing.".to_owned());
            }
            StopReason::Completed => return Ok(self.text.clone()),
            StopReason::MaxTokens => {
                "the subagent's answer was cut off at its output limit".to_owned()
            }
            StopReason::Aborted => "the subagent was cancelled before it had finished".to_owned(),
            StopReason::Refusal => {
                "the subagent declined the task: a hook did not let it begin".to_owned()
            }
            StopReason::Error => match &self.failure {
                Some(Failure { message, code, .. }) => {
                    format!("the subagent failed: {message} ({code})")
                }
                None => "the subagent failed before it had finished".to_owned(),
            },
        };
        let error = ToolError::new("SubagentError", self.stop.code(), why);
        Err(match text {
            "" => error,
            text => error.with_details(&format!("\nPartial output before it ended:\n\n{text}")),
        })
    }
}

#[derive(Deserialize)]
struct StoredEnd {
    reason: Reason,
}

/// The reasons of `turn/end`, as far as they differ for a parent.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Reason {
    Completed,
    MaxTokens,
    Blocked,
    Aborted,
    Error {
        error: Failure,
    },
    #[serde(other)]
    Interrupted,
}

impl Reason {
    /// That of the last turn that was about something: one that claimed input or began a step, or did not complete. A turn that
    /// somebody was woken for in vain says nothing of the work before it.
    fn of(log: &EventLog, from: LogOffset) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Splice {
            #[serde(default)]
            removed_count: usize,
            #[serde(default)]
            outcome: Option<String>,
        }
        let claims = |event| {
            let splice = read::<Splice>(event);
            splice.is_some_and(|splice| splice.outcome.is_none() && splice.removed_count > 0)
        };
        let mut latest = None;
        let mut is_about_something = false;
        for event in log.events_from(from) {
            match event.kind() {
                EventKind::TurnStart => is_about_something = false,
                EventKind::StepStart => is_about_something = true,
                EventKind::InboxSpliced => is_about_something |= claims(event),
                EventKind::TurnEnd => {
                    let reason = read::<StoredEnd>(event).map(|end| end.reason);
                    let in_vain = !is_about_something && matches!(reason, Some(Self::Completed));
                    if !in_vain || latest.is_none() {
                        latest = reason;
                    }
                }
                _ => {}
            }
        }
        latest.unwrap_or(Self::Interrupted)
    }

    const fn stop(&self) -> Option<StopReason> {
        match self {
            Self::Completed => Some(StopReason::Completed),
            Self::MaxTokens => Some(StopReason::MaxTokens),
            Self::Blocked => Some(StopReason::Refusal),
            Self::Aborted => Some(StopReason::Aborted),
            Self::Error { .. } => Some(StopReason::Error),
            Self::Interrupted => None,
        }
    }
}

/// What the child has said last, or else whatever text came in of answers that were never completed.
fn output(log: &EventLog, from: LogOffset) -> String {
    let mut last = None;
    let mut streamed = String::new();
    for event in log.events_from(from) {
        match event.kind() {
            EventKind::AssistantMessage => {
                let said = said(event);
                last = (!said.trim().is_empty()).then_some(said).or(last);
            }
            EventKind::AssistantAttempt => streamed.push_str(&deltas(event)),
            _ => {}
        }
    }
    last.unwrap_or(streamed)
}

fn said(event: &Event) -> String {
    #[derive(Deserialize)]
    struct Stored {
        message: Said,
    }
    #[derive(Deserialize)]
    struct Said {
        content: Vec<ContentBlock>,
    }
    let blocks = read::<Stored>(event).map(|stored| stored.message.content);
    let said: Vec<String> = texts(blocks.into_iter().flatten()).collect();
    said.join("\n\n")
}

fn deltas(event: &Event) -> String {
    let stream = read::<StoredAttempt>(event).map(|stored| stored.stream);
    let chunks = expand(&stream.unwrap_or_default());
    let deltas = chunks.into_iter().filter_map(|(_, chunk)| match chunk {
        Chunk::TextDelta { text, .. } => Some(text),
        _ => None,
    });
    deltas.collect()
}
