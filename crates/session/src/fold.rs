//! Everything that is derived from a log event by event. State = fold(events).

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::body::{Body, MessageHead, SideMark};
use crate::closers::OpenTail;
use crate::event::SurfaceOp;
use crate::json::Object;
use crate::shared_vec::SharedVec;
use crate::surface::Surface;
use crate::{Event, EventKind, Seq};

/// Something about a log that is not damage, but that a person should know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// A step was closed although calls in it had no result. History is not rewritten, so it stays; but a provider
    /// refuses such a conversation, and so does continuing it here.
    UnansweredCalls {
        /// What closed it: the `step/end`, or, in a log that lacks it, the `turn/end` or the next `turn/start`.
        seq: Seq,
        /// The calls without a result, with the `assistant/message` that asks for each.
        calls: Arc<[(Box<str>, Seq)]>,
    },
}

impl Finding {
    /// The stable machine name.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::UnansweredCalls { .. } => "UNANSWERED_CALLS",
        }
    }

    /// The event that shows it.
    #[must_use]
    pub const fn seq(&self) -> Seq {
        match self {
            Self::UnansweredCalls { seq, .. } => *seq,
        }
    }
}

/// The pending input of the agent (`agent/inbox/spliced`): messages that no turn has claimed.
///
/// A fork starts with none: what was queued for the parent is the parent's.
#[derive(Clone, Debug, Default)]
pub struct PendingInput {
    next_turn: Arc<[Arc<str>]>,
    next_step: Arc<[Arc<str>]>,
    damage: Option<Seq>,
}

impl PendingInput {
    /// The JSON texts of the messages that wait for the next turn.
    #[must_use]
    pub fn next_turn(&self) -> &[Arc<str>] {
        &self.next_turn
    }

    /// The JSON texts of the messages that wait for the next step.
    #[must_use]
    pub fn next_step(&self) -> &[Arc<str>] {
        &self.next_step
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next_turn.is_empty() && self.next_step.is_empty()
    }

    /// The first splice that does not fit the list it was applied to. From there on the lists are not to be trusted.
    #[must_use]
    pub const fn damage(&self) -> Option<Seq> {
        self.damage
    }

    fn apply(&mut self, event: &Event) {
        if let Body::EndSeed { inherited: true } = event.body() {
            *self = Self::default();
        }
        if *event.kind() == EventKind::InboxSpliced && self.damage.is_none() && !self.splice(event)
        {
            self.damage = Some(event.seq());
        }
    }

    fn splice(&mut self, event: &Event) -> bool {
        let Ok(Object(splice)) = event.parse::<Object<Splice<'_>>>() else {
            return false;
        };
        let list = match &*splice.target {
            "next-turn" => &mut self.next_turn,
            "next-step" => &mut self.next_step,
            _ => return false,
        };
        let (start, end) = (
            splice.start,
            splice.start.saturating_add(splice.removed_count),
        );
        if end > list.len() {
            return false;
        }
        let inserted = splice
            .inserted
            .iter()
            .map(|message| Arc::from(message.get()));
        let (kept, behind) = (&list[..start], &list[end..]);
        *list = kept
            .iter()
            .cloned()
            .chain(inserted)
            .chain(behind.iter().cloned())
            .collect();
        true
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Splice<'a> {
    target: Box<str>,
    start: usize,
    #[serde(default)]
    removed_count: usize,
    #[serde(borrow)]
    inserted: Vec<&'a RawValue>,
}

/// The folds of one prefix of a log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folds {
    pub(crate) surface: Surface,
    pub(crate) open: OpenTail,
    pub(crate) input: PendingInput,
    pub(crate) findings: SharedVec<Finding>,
    pub(crate) offloads: SharedVec<Seq>,
    pub(crate) request_header: Option<Seq>,
    pub(crate) request_context: Option<Seq>,
    pub(crate) title: Option<Seq>,
    pub(crate) last_turn: u64,
    pub(crate) inherited_marker: Option<Seq>,
    pub(crate) side_mark: Option<(Seq, SideMark)>,
    pub(crate) completed: CompletedPrefix,
}

/// The fold behind [`crate::latest_completed_boundary`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CompletedPrefix {
    pub(crate) boundary: Option<Seq>,
    extending: bool,
    in_turn: bool,
}

impl CompletedPrefix {
    pub(crate) fn apply(&mut self, event: &Event) {
        let appended = event.surface_op() == Some(SurfaceOp::Append);
        match event.kind() {
            EventKind::TurnEnd => {
                self.boundary = Some(event.seq());
                self.extending = true;
                self.in_turn = false;
            }
            EventKind::TurnStart => {
                self.extending = false;
                self.in_turn = true;
            }
            EventKind::InboxSpliced => self.extending = false,
            // What makes a session a side session, or an ordinary one again, belongs to its state and begins no turn. It is
            // never left out, whatever waits ahead of it.
            EventKind::UserMessage
                if appended && is_side_mark(event) && !self.in_turn && self.boundary.is_some() =>
            {
                self.boundary = Some(event.seq());
                self.extending = true;
            }
            EventKind::UserMessage if appended => self.extending = false,
            _ if self.extending => self.boundary = Some(event.seq()),
            _ => {}
        }
    }
}

fn is_side_mark(event: &Event) -> bool {
    event
        .body()
        .message()
        .is_some_and(|message| message.side.is_some())
}

impl Folds {
    /// Applies an event that was validated against exactly this state.
    pub(crate) fn apply(&mut self, event: &Event) {
        self.surface.apply(event);
        if let Body::StepEnd(_) | Body::TurnEnd { .. } | Body::TurnStart { .. } = event.body()
            && !self.open.pending().is_empty()
        {
            let calls = self
                .open
                .pending()
                .iter()
                .map(|call| (call.id.clone(), call.asked));
            self.findings.push(Finding::UnansweredCalls {
                seq: event.seq(),
                calls: calls.collect(),
            });
        }
        self.open.apply(event);
        self.input.apply(event);
        self.completed.apply(event);
        match event.body() {
            Body::TurnStart { turn } => self.last_turn = *turn,
            Body::EndSeed { inherited: true } => self.inherited_marker = Some(event.seq()),
            Body::RequestHeader { .. } => self.request_header = Some(event.seq()),
            Body::UserMessage(MessageHead {
                side: Some(mark), ..
            }) => self.side_mark = Some((event.seq(), *mark)),
            Body::ImageOffload(_) => self.offloads.push(event.seq()),
            _ => match event.kind() {
                EventKind::RequestContext => self.request_context = Some(event.seq()),
                EventKind::SessionTitle => self.title = Some(event.seq()),
                _ => {}
            },
        }
    }
}
