//! What an agent does, as the front ends see it.

use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use offshoot_agent::{AgentSetup, Notice, TurnReport};
use offshoot_session::Event;
use offshoot_tool_api::PermissionAnswer;

use crate::failure::Failure;
use crate::live::Live;

/// What came of the turns of an agent since somebody last asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Arc<Mutex<Outcome>>);

#[derive(Debug, Default)]
struct Outcome {
    reports: Vec<TurnReport>,
    failure: Option<Failure>,
}

impl Seen {
    /// The turns that have ended, or why the agent could not go on.
    pub(crate) fn take(&self) -> Result<Vec<TurnReport>, Failure> {
        let mut outcome = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Outcome { reports, failure } = std::mem::take(&mut *outcome);
        match failure {
            Some(failure) => Err(failure),
            None => Ok(reports),
        }
    }

    fn note(&self, notice: &Notice) {
        let mut outcome = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match notice {
            Notice::TurnEnded(report) => outcome.reports.push(TurnReport::clone(report)),
            Notice::Failed(error) => outcome.failure = Some(Failure::from(&**error)),
            _ => {}
        }
    }
}

/// Watches an agent for a person: what it says and does is shown as it happens.
pub(crate) fn for_a_person(setup: &mut AgentSetup, live: &Arc<Live>) -> Seen {
    let seen = Seen::default();
    let (shown, events) = (Arc::clone(live), Arc::clone(live));
    setup.on_durable = Some(Arc::new(move |event| events.event(event)));
    let noted = seen.clone();
    setup.observer = Some(Arc::new(move |notice: &Notice| {
        match notice {
        Notice::Stream(frame) => shown.frame(frame),
        Notice::Decided {
            answer: PermissionAnswer::Unavailable,
            ..
        } => shown.say(
            "note: this call asked for more than it may do, and nobody was there to allow it; `--permission-mode allow` does, \
             and so can rules",
        ),
        notice => noted.note(notice),
    }
    }));
    seen
}

/// Watches an agent for a program: each event is a line as soon as it is durable.
pub(crate) fn for_a_program(setup: &mut AgentSetup) -> Seen {
    let seen = Seen::default();
    setup.on_durable = Some(Arc::new(print_row));
    let noted = seen.clone();
    setup.observer = Some(Arc::new(move |notice: &Notice| noted.note(notice)));
    seen
}

/// One event as it is stored, as soon as it is durable.
fn print_row(event: &Arc<Event>) {
    let mut out = std::io::stdout().lock();
    // A reader who has gone away does not stop the turn: what it does is in the log.
    drop(writeln!(out, "{}", event.text()).and_then(|()| out.flush()));
}
