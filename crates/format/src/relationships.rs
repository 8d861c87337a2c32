//! How the events of a V4 log fit together (`reference/persistence.md` §5.5, and the system head of §5.2).
//!
//! Only contradictions are errors. A log may end anywhere, so whatever is open at its end is fine: a turn, a step, a call, a
//! dispatch, a retry, a command, a compaction. Surface operations and the shape of single rows are judged elsewhere, by
//! [`EventLog::check`] and by [`crate::admission`].
//!
//! Two rules are deliberately milder than upstream's:
//! - a `step/end` with unanswered calls is no error; the log keeps it as a finding, and such a log can be read and forked;
//! - a compaction that a crash left open may be crossed by the `turn/end` that a repair wrote last, because the marker that
//!   orphans the compaction may have been torn off.
//!
//! Each group of rules keeps its own small state, so an event costs the same at the end of a long log as at its start. Only
//! replacements and compactions look at the surface.

mod compaction;
mod dispatches;
mod retries;
#[cfg(test)]
mod tests;
mod titles;
mod tools;
mod turns;

use std::collections::HashSet;

use offshoot_session::{
    Body, Event, EventKind, EventLog, Seq, SessionHeader, SessionId, SurfaceOp,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use compaction::Compaction;
use dispatches::Dispatches;
use retries::Retries;
use tools::Calls;
use turns::Turns;

/// The validator of one log: sees its events in order and remembers what later ones are judged by.
pub(crate) struct Relationships {
    session: SessionId,
    has_parent: bool,
    last: Option<Seq>,
    turns: Turns,
    calls: Calls,
    dispatches: Dispatches,
    retries: Retries,
    compaction: Compaction,
    commands: HashSet<Box<str>>,
    children: HashSet<Box<str>>,
    /// What is wrong unless it was inherited: the first such thing behind the last marker of an inherited part.
    foreign: Option<(Seq, String)>,
}

impl Relationships {
    pub(crate) fn new(header: &SessionHeader) -> Self {
        Self {
            session: header.id.clone(),
            has_parent: header.parent.is_some(),
            last: None,
            turns: Turns::default(),
            calls: Calls::default(),
            dispatches: Dispatches::default(),
            retries: Retries::default(),
            compaction: Compaction::default(),
            commands: HashSet::new(),
            children: HashSet::new(),
            foreign: None,
        }
    }

    /// Judges the next event. `before` is the log without it.
    ///
    /// # Errors
    /// What was expected and what was found. The log is then refused, so the validator must not be used any further.
    pub(crate) fn check(&mut self, event: &Event, before: &EventLog) -> Result<(), String> {
        self.last = Some(event.seq());
        let replaces = matches!(event.surface_op(), Some(SurfaceOp::Replace { .. }));
        match event.body() {
            Body::TurnStart { turn } => {
                self.turns.start_turn(*turn)?;
                self.retries.start_turn();
                self.compaction.cross(event);
            }
            Body::TurnEnd { turn, .. } => {
                self.turns.end_turn(*turn)?;
                self.compaction.cross(event);
            }
            Body::StepStart(at) => self.turns.start_step(*at)?,
            Body::StepEnd(at) => {
                self.turns.end_step(*at)?;
                self.calls.clear();
            }
            Body::UserMessage(message) => {
                if replaces && &*message.source == "compact-checkpoint" {
                    self.compaction.checkpoint(event)?;
                }
            }
            Body::SystemMessage(at, _) => {
                self.turns.must_be_at(*at)?;
                check_head(before)?;
            }
            Body::AssistantMessage { at, calls, .. } => {
                self.turns.must_be_at(*at)?;
                self.calls.advertise(event.seq(), calls)?;
            }
            Body::AssistantAttempt(at) | Body::DeveloperMessage { at, .. } => {
                self.turns.must_be_at(*at)?;
            }
            Body::ToolCall(at, call) => {
                self.turns.must_be_at(*at)?;
                self.calls.start(event.seq(), call, before)?;
            }
            // A rewritten result may stand behind its step: the surface rules tie it to the result that it replaces.
            Body::ToolResult { .. } if replaces => self.turns.must_be_in_a_turn()?,
            Body::ToolResult { at, call_id, .. } => {
                self.turns.must_be_at(*at)?;
                self.calls.settle(event, call_id)?;
            }
            Body::RequestHeader { provider, .. } => {
                self.turns.must_be_in_a_turn()?;
                self.retries.route(provider);
            }
            Body::EndSeed { inherited } => {
                self.compaction.orphan();
                if *inherited {
                    self.children.clear();
                    self.foreign = None;
                }
            }
            _ => self.check_log_only(event, before)?,
        }
        Ok(())
    }

    /// What can only be said of the last event that there is.
    ///
    /// # Errors
    /// The event that is wrong after all, and why.
    pub(crate) fn finish(&self) -> Result<(), (Seq, String)> {
        if let Some(foreign) = &self.foreign {
            return Err(foreign.clone());
        }
        match self.last {
            Some(last) => self.compaction.finish(last),
            None => Ok(()),
        }
    }

    fn check_log_only(&mut self, event: &Event, before: &EventLog) -> Result<(), String> {
        match event.kind() {
            EventKind::RequestContext => self.turns.must_be_in_a_turn(),
            EventKind::PtcDispatchStart => {
                self.turns.must_be_in_a_turn()?;
                self.dispatches.start(event)
            }
            EventKind::PtcDispatch => {
                self.turns.must_be_in_a_turn()?;
                self.dispatches.settle(event, before)
            }
            EventKind::LlmRetry => self.retries.schedule(event, &self.turns),
            EventKind::LlmRetryStarted => self.retries.start(event),
            EventKind::SessionTitle => titles::check_title(event, before),
            EventKind::SessionTitleLlmRequest => titles::check_request(event, before),
            EventKind::CommandRun => self.run_command(event),
            EventKind::CommandDone => self.end_command(event, before),
            EventKind::CompactionStart => self.compaction.start(event, self.turns.turn()),
            EventKind::CompactionSummary => self.compaction.summarise(event, before),
            EventKind::CompactionEnd => self.compaction.end(event),
            EventKind::CompactionPrune => compaction::check_prune(event, before),
            EventKind::SubagentCatalog => self.record_child(event),
            EventKind::DeliveryAccepted => self.check_delivery(event),
            _ => Ok(()),
        }
    }

    fn run_command(&mut self, event: &Event) -> Result<(), String> {
        let CommandData { command_id, .. } = read(event)?;
        if self.commands.contains(&command_id) {
            return Err(format!("the command id `{command_id}` was used before"));
        }
        self.commands.insert(command_id);
        Ok(())
    }

    fn end_command(&self, event: &Event, before: &EventLog) -> Result<(), String> {
        let done: CommandData = read(event)?;
        if !self.commands.contains(&done.command_id) {
            return Err(format!("the command `{}` was not run", done.command_id));
        }
        let Some(source) = done.source_event_seq else {
            return Ok(());
        };
        if done.kind.as_deref() != Some("success") {
            return Err("`sourceEventSeq` stands on a command that was no success".into());
        }
        let source_kind = before.get(source).map(|event| event.kind());
        match source_kind {
            None => Err(format!(
                "`sourceEventSeq` names event {source}, which is not earlier"
            )),
            Some(EventKind::CommandRun | EventKind::CommandDone) => Err(format!(
                "`sourceEventSeq` names event {source}, which is a command event itself"
            )),
            Some(_) => Ok(()),
        }
    }

    fn record_child(&mut self, event: &Event) -> Result<(), String> {
        let CatalogData { child_id } = read(event)?;
        if self.children.contains(&child_id) {
            let reason = format!("the child `{child_id}` is in the catalog already");
            self.foreign.get_or_insert((event.seq(), reason));
        }
        self.children.insert(child_id);
        Ok(())
    }

    fn check_delivery(&mut self, event: &Event) -> Result<(), String> {
        let FormatData {
            session_format_version,
        } = read(event)?;
        // A marker of another generation counts in that generation's seqs.
        if session_format_version.is_none_or(|version| version.get() != "4") {
            return Ok(());
        }
        let DeliveryData {
            session_id,
            through_seq,
        } = read(event)?;
        if through_seq >= event.seq() {
            return Err(format!(
                "`throughSeq` names event {through_seq}, which is not earlier"
            ));
        }
        if session_id.is_empty() {
            return Err("`sessionId` must not be empty".into());
        }
        if &*session_id != self.session.as_str() {
            let reason = format!(
                "`sessionId` must be this session, `{}`, found `{session_id}`",
                self.session
            );
            if !self.has_parent {
                return Err(reason);
            }
            self.foreign.get_or_insert((event.seq(), reason));
        }
        Ok(())
    }
}

/// A system message is the first node of the surface, or comes later than such a node: the head cannot be added behind
/// other messages. What may replace the head is a rule of the surface itself.
fn check_head(before: &EventLog) -> Result<(), String> {
    let surface = before.surface();
    match surface.head() {
        Some(head) if !surface.has_protected_head() => Err(format!(
            "the surface begins with event {head}, which is no system message, so none can be added"
        )),
        _ => Ok(()),
    }
}

fn read<'a, T: Deserialize<'a>>(event: &'a Event) -> Result<T, String> {
    event.parse().map_err(|error| error.to_string())
}

/// Both of `command/run` and `command/done`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CommandData {
    command_id: Box<str>,
    kind: Option<Box<str>>,
    source_event_seq: Option<Seq>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CatalogData {
    child_id: Box<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FormatData<'a> {
    #[serde(borrow)]
    session_format_version: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeliveryData {
    session_id: Box<str>,
    through_seq: Seq,
}
