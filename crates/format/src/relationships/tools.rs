//! Tool calls: asked for by the model, started once, answered once.

use std::collections::HashMap;

use offshoot_session::{Body, Call, Event, EventLog, Seq};

use crate::admission::check_never_started;

/// The calls of the open step that have no result.
#[derive(Default)]
pub(super) struct Calls {
    pending: HashMap<Box<str>, Pending>,
}

struct Pending {
    /// The message that asks for the call, and which of its calls it is.
    asked: (Seq, usize),
    started: Option<Seq>,
}

impl Calls {
    /// The step is over; the log keeps calls that it left unanswered as a finding.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
    }

    pub(super) fn advertise(&mut self, seq: Seq, calls: &[Call]) -> Result<(), String> {
        for (index, call) in calls.iter().enumerate() {
            let fresh = Pending {
                asked: (seq, index),
                started: None,
            };
            if let Some(earlier) = self.pending.insert(call.id.clone(), fresh) {
                return Err(format!(
                    "asks for the call `{}`, which event {} asked for and which has no result yet",
                    call.id, earlier.asked.0
                ));
            }
        }
        Ok(())
    }

    pub(super) fn start(&mut self, seq: Seq, call: &Call, before: &EventLog) -> Result<(), String> {
        let Some(pending) = self.pending.get_mut(&call.id) else {
            return Err(format!(
                "starts the call `{}`, which no message of the open step asks for or which has its result",
                call.id
            ));
        };
        if let Some(started) = pending.started {
            return Err(format!(
                "starts the call `{}`, which event {started} started",
                call.id
            ));
        }
        let (asked, index) = pending.asked;
        if let Some(Body::AssistantMessage { calls, .. }) =
            before.get(asked).map(|event| event.body())
        {
            match calls.get(index) {
                Some(asked_for) if asked_for.name != call.name => {
                    return Err(format!(
                        "starts the call `{}` with the tool `{}`, but event {asked} asks for `{}`",
                        call.id, call.name, asked_for.name
                    ));
                }
                Some(asked_for) if asked_for.arguments != call.arguments => {
                    return Err(format!(
                        "starts the call `{}` with other arguments than event {asked} asks for",
                        call.id
                    ));
                }
                _ => {}
            }
        }
        pending.started = Some(seq);
        Ok(())
    }

    pub(super) fn settle(&mut self, event: &Event, call: &str) -> Result<(), String> {
        let Some(pending) = self.pending.get(call) else {
            return Err(format!(
                "answers the call `{call}`, which no message of the open step asks for or which has its result"
            ));
        };
        if pending.started.is_none() {
            check_never_started(event).map_err(|reason| {
                format!("answers the call `{call}`, which was never started: {reason}")
            })?;
        }
        self.pending.remove(call);
        Ok(())
    }
}
