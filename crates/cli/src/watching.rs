//! What an agent does, as the front ends see it.

use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_agent::{AgentSetup, AgentStatus, DurableListener, Notice, TurnReport};
use offshoot_session::Event;
use offshoot_tool_api::PermissionAnswer;
use tokio::sync::Notify;

use crate::failure::Failure;
use crate::live::Live;

/// What came of the turns of an agent since somebody last asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    outcome: Arc<Mutex<Outcome>>,
    woken: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Outcome {
    reports: Vec<TurnReport>,
    failure: Option<Failure>,
    /// Somebody looks elsewhere, so that nothing is shown; these are the answers that were given meanwhile.
    unseen: Option<Vec<String>>,
}

impl Seen {
    /// The turns that have ended, or why the agent could not go on.
    pub(crate) fn take(&self) -> Result<Vec<TurnReport>, Failure> {
        let mut outcome = self.outcome();
        let reports = std::mem::take(&mut outcome.reports);
        match outcome.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(reports),
        }
    }

    /// Whether there is something to [take](Self::take).
    pub(crate) fn is_something(&self) -> bool {
        let outcome = self.outcome();
        outcome.failure.is_some() || !outcome.reports.is_empty()
    }

    /// Waits until the agent has begun to run. It may have stopped again.
    pub(crate) async fn woken(&self) {
        self.woken.notified().await;
    }

    /// Shows nothing until somebody [looks again](Self::look_again).
    pub(crate) fn look_away(&self) {
        self.outcome().unseen.get_or_insert_default();
    }

    /// The answers that were given while nobody looked. From now on everything is shown again.
    pub(crate) fn look_again(&self) -> Vec<String> {
        self.outcome().unseen.take().unwrap_or_default()
    }

    fn is_looked_at(&self) -> bool {
        self.outcome().unseen.is_none()
    }

    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        // Nothing panics between two changes of it.
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, notice: &Notice) {
        let mut outcome = self.outcome();
        match notice {
            Notice::Status(AgentStatus::Running) => self.woken.notify_one(),
            Notice::TurnEnded(report) => {
                let answer = report.text.clone();
                if let Some(unseen) = outcome.unseen.as_mut().filter(|_| !answer.is_empty()) {
                    unseen.push(answer);
                }
                outcome.reports.push(TurnReport::clone(report));
            }
            Notice::Failed(error) => outcome.failure = Some(Failure::from(&**error)),
            _ => {}
        }
    }
}

/// Watches an agent for a person: what it says and does is shown as it happens.
pub(crate) fn for_a_person(setup: &mut AgentSetup, live: &Arc<Live>) -> Seen {
    let seen = Seen::default();
    let (shown, events) = (Arc::clone(live), Arc::clone(live));
    let watched = seen.clone();
    setup.on_durable = Some(Arc::new(move |event| match watched.is_looked_at() {
        true => events.event(event),
        false => events.of_subagents(event),
    }));
    let noted = seen.clone();
    setup.observer = Some(Arc::new(move |notice: &Notice| {
        match notice {
        Notice::Stream(_) if !noted.is_looked_at() => {}
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

/// Watches a subagent for a person: nothing of what it says, only whom it hands work to itself.
pub(crate) fn of_a_child(live: &Arc<Live>) -> DurableListener {
    let live = Arc::clone(live);
    Arc::new(move |event| live.of_subagents(event))
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

#[cfg(test)]
mod tests {
    use offshoot_agent::TurnEndReason;

    use super::*;

    fn ended(text: &str) -> Notice {
        Notice::TurnEnded(Arc::new(TurnReport {
            turn: 1,
            reason: TurnEndReason::Completed,
            text: text.to_owned(),
            usage: None,
        }))
    }

    #[test]
    fn what_is_answered_while_somebody_looks_elsewhere_is_kept_for_them() {
        let seen = Seen::default();
        seen.note(&ended("Seen."));
        assert!(seen.is_looked_at());
        seen.look_away();
        for text in ["One.", "", "Two."] {
            seen.note(&ended(text));
        }
        // Looking away once more forgets nothing.
        seen.look_away();
        assert!(!seen.is_looked_at());
        assert_eq!(seen.look_again(), ["One.", "Two."]);
        seen.note(&ended("Seen again."));
        assert!(seen.is_looked_at() && seen.look_again().is_empty());
        // How the turns have ended is told all the same.
        assert_eq!(seen.take().unwrap().len(), 5);
    }
}
