//! The one algorithm that closes an open turn: for crash repair and for forks (`reference/persistence.md` §6.1).
//!
//! The cause selects the result ids and the wording, nothing else. Only calls of the open step get results; closed steps
//! and closed turns stay as they are, also failed ones. Every closer carries the time of the event before it, so that the
//! same log always gets the same bytes.

use std::borrow::Borrow;

use serde::{Deserialize, Serialize};

use crate::body::{Body, StepRef};
use crate::event::{EventDraft, RowOrder, SurfaceOp};
use crate::{Event, EventKind, LogOffset, Seq};

/// Why an open turn is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseCause {
    /// The process ended in the middle of the turn. Nobody knows what became of a started call.
    Interrupted,
    /// The log was forked in the middle of the turn. The parent may have gone on.
    Forked,
}

/// The error code of a result for a call that was started and whose outcome the log does not hold.
pub const TOOL_OUTCOME_UNKNOWN: &str = "TOOL_OUTCOME_UNKNOWN";
/// The error code of a result for a call that the log does not show as started.
pub const TOOL_NOT_STARTED: &str = "TOOL_NOT_STARTED";
/// The text of a repaired result for a call that was not started. Readers of every format version compare it for equality:
/// the one text of a closer that is not ours to choose (`reference/persistence.md` §5.4).
pub const INTERRUPTED_NOT_STARTED: &str = "The tool call was interrupted before the Harness recorded it as started. Retry it if it is still needed.";

impl CloseCause {
    /// The kind of the closing `turn/end` reason.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::Forked => "forked",
        }
    }

    /// What the model is told about a call without a result.
    const fn wording(self, started: bool) -> &'static str {
        match (self, started) {
            (Self::Interrupted, false) => INTERRUPTED_NOT_STARTED,
            (Self::Interrupted, true) => {
                "This tool call was started, but it was interrupted before a result was recorded, so its outcome is \
                 unknown: it may have run fully, partly or not at all. Repeat it only if it reads without changing \
                 anything or can safely run twice. Otherwise check the current state first, or ask the user."
            }
            (Self::Forked, true) => {
                "This conversation was branched off while the tool call was running. The inherited history shows that \
                 the call was started, but not how it ended: the original conversation may have completed it after the \
                 branch point. Repeat it only if it reads without changing anything or can safely run twice. Otherwise \
                 check the current state first, or ask the user."
            }
            (Self::Forked, false) => {
                "This conversation was branched off before the tool call was recorded as started. It did not run in \
                 this branch, but the original conversation may have run it after the branch point. Repeat it only if \
                 it reads without changing anything or can safely run twice. Otherwise check the current state first, \
                 or ask the user."
            }
        }
    }
}

/// A call of the open step that has no result yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingCall {
    /// The provider's name for the call.
    pub id: Box<str>,
    /// The turn and step in which the model asked for it.
    pub at: StepRef,
    /// The `assistant/message` that asks for it.
    pub asked: Seq,
    /// The `tool/call` that started it, if there is one.
    pub started: Option<Seq>,
}

/// What is open at the end of a log. Its serialised form is for caches: no file of a session has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTail {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<StepRef>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pending: Vec<PendingCall>,
}

impl OpenTail {
    /// The open turn.
    #[must_use]
    pub const fn turn(&self) -> Option<u64> {
        self.turn
    }

    /// The open step.
    #[must_use]
    pub const fn step(&self) -> Option<StepRef> {
        self.step
    }

    /// The calls without a result, in the order in which the model asked for them.
    #[must_use]
    pub fn pending(&self) -> &[PendingCall] {
        &self.pending
    }

    /// What is open once these events, the next ones of its log, have been added.
    #[must_use]
    pub fn with<E: Borrow<Event>>(mut self, events: impl IntoIterator<Item = E>) -> Self {
        for event in events {
            self.apply(event.borrow());
        }
        self
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        match event.body() {
            Body::TurnStart { turn } => {
                *self = Self {
                    turn: Some(*turn),
                    ..Self::default()
                };
            }
            Body::TurnEnd { .. } => *self = Self::default(),
            Body::StepStart(at) => self.step = Some(*at),
            Body::StepEnd(_) => {
                self.step = None;
                self.pending.clear();
            }
            Body::AssistantMessage { at, calls, .. } => {
                for call in calls {
                    let fresh = PendingCall {
                        id: call.id.clone(),
                        at: *at,
                        asked: event.seq(),
                        started: None,
                    };
                    match self
                        .pending
                        .iter_mut()
                        .find(|pending| pending.id == call.id)
                    {
                        Some(pending) => *pending = fresh,
                        None => self.pending.push(fresh),
                    }
                }
            }
            Body::ToolCall(_, call) => {
                if let Some(pending) = self
                    .pending
                    .iter_mut()
                    .find(|pending| pending.id == call.id)
                {
                    pending.started = Some(event.seq());
                }
            }
            // A rewritten result stands for one that was there: it answers no call of this step, whatever its id.
            Body::ToolResult { call_id, .. } if event.surface_op() == Some(SurfaceOp::Append) => {
                self.pending.retain(|pending| pending.id != *call_id);
            }
            _ => {}
        }
    }

    /// The results for the calls that have none, numbered from `at` and dated `time`: the first part of the closers.
    #[must_use]
    pub fn results(&self, at: LogOffset, time: i64, cause: CloseCause) -> Vec<Event> {
        let seqs = (at.get()..).map(Seq::new);
        seqs.zip(&self.pending)
            .map(|(seq, call)| closer(result_for(call, seq, cause), seq, time))
            .collect()
    }

    /// The events that close this tail, numbered from `at` (the end of its log, or behind it) and dated `time` (that of an
    /// event of its log); none when no turn is open.
    #[must_use]
    pub fn closers(&self, at: LogOffset, time: i64, cause: CloseCause) -> Vec<Event> {
        let Some(turn) = self.turn else {
            return Vec::new();
        };
        let mut closers = self.results(at, time, cause);
        let mut push = |draft: EventDraft| {
            let seq = Seq::new(at.get() + closers.len() as u64);
            closers.push(closer(draft, seq, time));
        };
        if let Some(at) = self.step {
            push(draft(
                EventKind::StepEnd,
                &StepData {
                    turn,
                    step: at.step,
                },
            ));
        }
        push(draft(
            EventKind::TurnEnd,
            &TurnEndData {
                turn,
                reason: ReasonData {
                    kind: cause.as_str(),
                },
            },
        ));
        closers
    }
}

/// The events that close the open turn of a log; none when no turn is open.
///
/// The closers of a log that already ends with some of its own closers are the missing ones, so that repairing after a
/// torn repair comes to the same end.
#[must_use]
pub fn open_turn_closers<E: Borrow<Event>>(
    events: impl IntoIterator<Item = E>,
    cause: CloseCause,
) -> Vec<Event> {
    let mut tail = OpenTail::default();
    let mut last = None;
    for event in events {
        let event = event.borrow();
        tail.apply(event);
        last = Some((event.seq().after(), event.time()));
    }
    last.map_or_else(Vec::new, |(at, time)| tail.closers(at, time, cause))
}

fn draft(kind: EventKind, data: &impl Serialize) -> EventDraft {
    EventDraft::log_only(kind, data).expect("BUG: closers are plain structs and strings")
}

fn closer(draft: EventDraft, seq: Seq, time: i64) -> Event {
    draft
        .into_event(seq, time, RowOrder::Closer)
        .expect("BUG: a closer keeps the rules of its own type")
}

fn result_for(call: &PendingCall, seq: Seq, cause: CloseCause) -> EventDraft {
    let id = &*call.id;
    let started = call.started.is_some();
    let data = ResultData {
        turn: call.at.turn,
        step: call.at.step,
        message: ResultMessage {
            id: format!("{}-tool-result-{id}-{seq}", cause.as_str()),
            role: "tool",
            tool_call_id: id,
            is_error: true,
            source: ToolSource {
                kind: "tool",
                call_id: id,
            },
            content: [TextBlock {
                kind: "text",
                text: cause.wording(started),
            }],
        },
        error: if started {
            ErrorData {
                name: "ToolOutcomeUnknownError",
                code: TOOL_OUTCOME_UNKNOWN,
            }
        } else {
            ErrorData {
                name: "ToolNotStartedError",
                code: TOOL_NOT_STARTED,
            }
        },
    };
    let result = EventDraft::message(EventKind::ToolResult, &data)
        .expect("BUG: closers are plain structs and strings");
    match call.started {
        Some(seq) => result.with_sources([seq]),
        None => result,
    }
}

#[derive(Serialize)]
struct StepData {
    turn: u64,
    step: u64,
}

#[derive(Serialize)]
struct TurnEndData {
    turn: u64,
    reason: ReasonData,
}

#[derive(Serialize)]
struct ReasonData {
    kind: &'static str,
}

#[derive(Serialize)]
struct ResultData<'a> {
    turn: u64,
    step: u64,
    message: ResultMessage<'a>,
    error: ErrorData,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultMessage<'a> {
    id: String,
    role: &'static str,
    tool_call_id: &'a str,
    is_error: bool,
    source: ToolSource<'a>,
    content: [TextBlock; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolSource<'a> {
    kind: &'static str,
    call_id: &'a str,
}

#[derive(Serialize)]
struct TextBlock {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'static str,
}

#[derive(Serialize)]
struct ErrorData {
    name: &'static str,
    code: &'static str,
}
