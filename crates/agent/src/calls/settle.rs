//! What the log and the model are told of a call that has ended (`reference/agent.md` §3.2, points 6 and 7).

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use offshoot_model::{ContentBlock, MessageSource};
use offshoot_session::{EventDraft, EventKind, Seq, StepRef};
use offshoot_tool_api::{ToolError, ToolRecord};
use serde_json::value::RawValue;
use tokio::task::spawn_blocking;

use super::prepare::{hook_failed, hook_panicked};
use super::{Asked, Ended, Ending, Outcome};
use crate::AgentError;
use crate::cancel::Cancel;
use crate::driver::Driver;
use crate::events::{
    ErrorInfo, TextBlock, ToolBody, ToolResult, ToolSource, logged, one_line, shown,
};
use crate::inbox::{self, InboxTarget};
use crate::input::Input;
use crate::spill::bounded;

/// A call whose result is in the log.
pub(super) struct Settled {
    pub(super) concludes_turn: bool,
    pub(super) undurable: Option<AgentError>,
}

/// What a call leaves.
struct Told {
    outcome: Result<String, ToolError>,
    meta: Option<Box<RawValue>>,
    records: Vec<EventDraft>,
    /// What the model is told besides.
    contexts: Vec<Input>,
    concludes_turn: bool,
}

impl Driver {
    /// # Errors
    /// The log has refused an event.
    pub(super) async fn settle_call(
        &self,
        at: StepRef,
        ended: Ended<'_>,
        cancel: &Cancel,
    ) -> Result<Settled, AgentError> {
        let Ended {
            call,
            started,
            ending,
            undurable,
        } = ended;
        let told = match ending {
            Ending::Settled(outcome) => self.told(at, call, outcome, cancel).await,
            Ending::NeverBegan => Told::only(Err(ToolError::aborted_before_dispatch())),
        };
        let said = self.within_limit(told.outcome).await?;
        for record in told.records {
            self.append(record)?;
        }
        self.log_result(at, call, started, said, told.meta)?;
        for context in told.contexts {
            let inserted = inbox::insert(&self.core, InboxTarget::NextStep, &context);
            self.core.feed.deliver();
            inserted?;
        }
        Ok(Settled {
            concludes_turn: told.concludes_turn,
            undurable,
        })
    }

    /// The result of a call that the end of the turn has overtaken.
    pub(super) fn log_never_began(
        &self,
        at: StepRef,
        call: Asked<'_>,
        started: Seq,
    ) -> Result<(), AgentError> {
        let said = Said::from(Err(ToolError::aborted_before_dispatch()));
        self.log_result(at, call, started, said, None)
    }

    /// What an outcome amounts to when the hooks have heard of it.
    async fn told(&self, at: StepRef, call: Asked<'_>, outcome: Outcome, cancel: &Cancel) -> Told {
        let (outcome, records) = checked(outcome);
        // What the tool has done it has done, whatever the model is told of it.
        let (meta, concludes_turn) = match &outcome {
            Ok(output) => (output.meta.clone(), output.concludes_turn),
            Err(error) => (error.meta().map(ToOwned::to_owned), false),
        };
        let (outcome, said_besides) = self.reviewed(at, call, outcome, cancel).await;
        let (concludes_turn, own) = match &outcome {
            Ok(output) => (concludes_turn, &*output.contexts),
            Err(_) => (false, &[][..]),
        };
        let own = own.iter().filter(|text| !text.is_empty()).map(|text| {
            let blocks = vec![ContentBlock::text(text)];
            Input::blocks(self.env.fresh_id(), blocks, MessageSource::tool(call.id))
        });
        Told {
            contexts: own.chain(said_besides).collect(),
            outcome: outcome.map(|output| output.text),
            meta,
            records,
            concludes_turn,
        }
    }

    /// Asks the hooks, each with what those before it have made of the outcome. One that fails ends it.
    async fn reviewed(
        &self,
        at: StepRef,
        call: Asked<'_>,
        mut outcome: Outcome,
        cancel: &Cancel,
    ) -> (Outcome, Vec<Input>) {
        let mut contexts = Vec::new();
        for hook in &self.hooks {
            let (context, proposed) = (self.hook_context(at, cancel), call.proposed());
            let review = hook.post_execute(&context, &proposed, &outcome);
            match AssertUnwindSafe(review).catch_unwind().await {
                Ok(Ok(review)) => {
                    contexts.extend(review.contexts);
                    if let Some(feedback) = review.block {
                        outcome = Err(ToolError::denied(feedback));
                    }
                }
                Ok(Err(error)) => return (Err(hook_failed(error)), contexts),
                Err(_panic) => return (Err(hook_panicked()), contexts),
            }
        }
        (outcome, contexts)
    }

    /// The text that the model reads, which is never longer than it may be.
    async fn within_limit(&self, outcome: Result<String, ToolError>) -> Result<Said, AgentError> {
        let mut said = Said::from(outcome);
        let most = self.config.max_result_bytes;
        if said.text.len() > most {
            let (text, spill) = (said.text, self.spill.clone());
            // It waits for the disk.
            let bounded = spawn_blocking(move || bounded(&text, most, spill.as_deref()));
            said.text = bounded
                .await
                .map_err(|error| AgentError::Worker(error.to_string()))?;
        }
        Ok(said)
    }

    fn log_result(
        &self,
        at: StepRef,
        call: Asked<'_>,
        started: Seq,
        said: Said,
        meta: Option<Box<RawValue>>,
    ) -> Result<(), AgentError> {
        let Said {
            text,
            is_error,
            error,
        } = said;
        let content = if text.is_empty() {
            Vec::new()
        } else {
            vec![TextBlock::new(&text)]
        };
        let message = ToolBody {
            id: self.env.fresh_id(),
            role: "tool",
            tool_call_id: call.id,
            is_error,
            source: ToolSource {
                kind: "tool",
                call_id: call.id,
            },
            content,
        };
        let data = ToolResult {
            turn: at.turn,
            step: at.step,
            message,
            error,
            meta,
        };
        self.append(shown(EventKind::ToolResult, &data).with_sources([started]))?;
        Ok(())
    }
}

/// The result as the model reads it.
struct Said {
    text: String,
    is_error: bool,
    error: Option<ErrorInfo>,
}

impl From<Result<String, ToolError>> for Said {
    fn from(outcome: Result<String, ToolError>) -> Self {
        let (text, is_error, error) = match outcome {
            Ok(text) => (text, false, None),
            // Of a denial there is nothing for machines to know.
            Err(error) if error.is_denial() => (error.model_text(), true, None),
            Err(error) => {
                let info = ErrorInfo {
                    name: error.name().to_owned(),
                    code: error.code().to_owned(),
                };
                (error.model_text(), true, Some(info))
            }
        };
        Self {
            text,
            is_error,
            error,
        }
    }
}

impl Told {
    const fn only(outcome: Result<String, ToolError>) -> Self {
        Self {
            outcome,
            meta: None,
            records: Vec::new(),
            contexts: Vec::new(),
            concludes_turn: false,
        }
    }
}

/// An outcome with the events that it adds to the log. If one of them cannot be one, the tool's output is invalid, and none is.
fn checked(outcome: Outcome) -> (Outcome, Vec<EventDraft>) {
    let Ok(mut output) = outcome else {
        return (outcome, Vec::new());
    };
    let records = std::mem::take(&mut output.records);
    let drafts: Result<_, _> = records.into_iter().map(draft).collect();
    match drafts {
        Ok(drafts) => (Ok(output), drafts),
        Err(problem) => {
            let message = format!("the tool answered with an invalid record: {problem}");
            (Err(ToolError::invalid_output(message)), Vec::new())
        }
    }
}

fn draft(record: ToolRecord) -> Result<EventDraft, String> {
    let ToolRecord { kind, data } = record;
    let kind = EventKind::from_name(&kind);
    if !is_a_tools_to_say(&kind) {
        return Err(format!("an event `{kind}` is not a tool's to write"));
    }
    let draft = logged(kind, &one_line(data));
    // The number and the time that it gets have no part in whether its payload is one.
    let read_back = draft.clone().dated(Seq::new(0), 0);
    match read_back {
        Ok(_) => Ok(draft),
        Err(error) => Err(error.to_string()),
    }
}

/// Facts that stand for themselves: nothing is shown to the model, and no rule ties them to other events.
const fn is_a_tools_to_say(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::DeliverablesPresented
            | EventKind::GoalChange
            | EventKind::PlanMode
            | EventKind::ScheduleChange
            | EventKind::TodoWrite
            | EventKind::WebSearchLlmRequest
            | EventKind::WorkspaceChanges
    )
}
