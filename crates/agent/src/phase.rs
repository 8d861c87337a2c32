//! What an agent is doing, and when it begins and ceases to (`reference/agent.md` §1.3). Pure: nothing here runs anything.
//!
//! ```text
//!            woken                        converged
//!   idle ───────────────► running(turns) ───────────► idle
//!     └──────────────────► maintenance ────► running, if it was woken meanwhile, else idle
//! ```
//!
//! What is going on can be cancelled once; the first cause counts. A disposed agent ends what is going on and begins nothing
//! any more.

use tokio_util::sync::CancellationToken;

use crate::agent::Queue;
use crate::cancel::Cancel;
use crate::events::CancelCause;
use crate::notices::AgentStatus;

#[derive(Debug, Default)]
pub(crate) struct Phase {
    doing: Doing,
    /// Cancelled when nothing may begin any more.
    disposed: CancellationToken,
}

#[derive(Debug, Default)]
enum Doing {
    #[default]
    Nothing,
    /// Work outside of any turn. To the outside the agent is idle.
    Maintenance(Activity),
    Turns(Activity),
}

#[derive(Debug, Default)]
struct Activity {
    cancel: Cancel,
    /// Somebody woke the agent while that could not start a turn.
    wake: bool,
}

/// How a turn came out, as far as the next one is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnWent {
    /// It came to its end: what waits is next.
    Well,
    /// It failed, was cancelled, or blocked: what waits stays where it is until somebody wakes the agent.
    Otherwise,
}

impl Phase {
    /// What the outside sees.
    pub(crate) const fn status(&self) -> AgentStatus {
        match self.doing {
            Doing::Turns(_) => AgentStatus::Running,
            Doing::Nothing | Doing::Maintenance(_) => AgentStatus::Idle,
        }
    }

    /// Whether nothing is going on.
    pub(crate) const fn is_idle(&self) -> bool {
        matches!(self.doing, Doing::Nothing)
    }

    pub(crate) fn is_disposed(&self) -> bool {
        self.disposed.is_cancelled()
    }

    /// Cancelled when the agent is disposed of.
    pub(crate) const fn disposal(&self) -> &CancellationToken {
        &self.disposed
    }

    /// Whether what is going on has been cancelled and is not over yet. It claims nothing more.
    pub(crate) fn is_ending(&self) -> bool {
        self.activity()
            .is_some_and(|activity| activity.cancel.cause().is_some())
    }

    /// Input has come that wakes the agent; `ending` is what [`Self::is_ending`] said before that was queued. Returns the
    /// switch of the turns that begin now, if they do. A running turn needs no word: it claims by itself what waits.
    pub(crate) fn woken(&mut self, ending: bool) -> Option<Cancel> {
        if self.is_disposed() {
            return None;
        }
        match &mut self.doing {
            Doing::Nothing => Some(self.begin_turns()),
            Doing::Maintenance(activity) => {
                activity.wake |= !activity.is_disposed();
                None
            }
            Doing::Turns(activity) => {
                activity.wake |= ending && !activity.is_disposed();
                None
            }
        }
    }

    /// Begins work outside of turns; `None` if anything is going on.
    pub(crate) fn begin_maintenance(&mut self) -> Option<Cancel> {
        if !self.is_idle() {
            return None;
        }
        let activity = Activity::default();
        let cancel = activity.cancel.clone();
        self.doing = Doing::Maintenance(activity);
        Some(cancel)
    }

    /// Ends what is going on. When input was dropped with it, nobody is woken for that any more.
    pub(crate) fn cancel(&mut self, cause: CancelCause, queue: Queue) {
        if let Doing::Maintenance(activity) | Doing::Turns(activity) = &mut self.doing {
            activity.wake &= queue == Queue::Keep;
            activity.cancel.cancel(cause);
        }
    }

    /// Ends what is going on, and lets nothing begin any more.
    pub(crate) fn dispose(&mut self) {
        self.disposed.cancel();
        self.cancel(CancelCause::Disposed, Queue::Keep);
    }

    /// A turn is over. Returns the switch of the next one, if there is one.
    pub(crate) fn turn_ended(&mut self, went: TurnWent, waits: bool) -> Option<Cancel> {
        let Doing::Turns(activity) = &self.doing else {
            return None;
        };
        // Whoever cancels a turn that was just about to end wants the next one as little.
        let goes_on = went == TurnWent::Well && !self.is_ending();
        let goes_on = waits && (goes_on || activity.wake) && !self.is_disposed();
        self.doing = Doing::Nothing;
        goes_on.then(|| self.begin_turns())
    }

    /// The work outside of turns is over. Returns the switch of the turns that begin now, if they do.
    pub(crate) fn maintenance_ended(&mut self, waits: bool) -> Option<Cancel> {
        let Doing::Maintenance(activity) = &self.doing else {
            return None;
        };
        let goes_on = activity.wake && waits && !self.is_disposed();
        self.doing = Doing::Nothing;
        goes_on.then(|| self.begin_turns())
    }

    /// Turns could not go on, or whoever ran them is gone.
    pub(crate) fn rest(&mut self) {
        self.doing = Doing::Nothing;
    }

    fn begin_turns(&mut self) -> Cancel {
        let activity = Activity::default();
        let cancel = activity.cancel.clone();
        self.doing = Doing::Turns(activity);
        cancel
    }

    const fn activity(&self) -> Option<&Activity> {
        match &self.doing {
            Doing::Nothing => None,
            Doing::Maintenance(activity) | Doing::Turns(activity) => Some(activity),
        }
    }
}

impl Activity {
    fn is_disposed(&self) -> bool {
        self.cancel.cause() == Some(CancelCause::Disposed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> Phase {
        let mut phase = Phase::default();
        assert!(phase.woken(false).is_some());
        phase
    }

    #[test]
    fn a_running_turn_needs_no_word_of_what_waits_and_takes_it_when_it_went_well() {
        for (went, waits, next) in [
            (TurnWent::Well, true, true),
            (TurnWent::Well, false, false),
            (TurnWent::Otherwise, true, false),
        ] {
            let mut phase = running();
            assert!(phase.woken(false).is_none());
            assert_eq!(phase.turn_ended(went, waits).is_some(), next);
            assert_eq!(phase.is_idle(), !next);
        }
    }

    #[test]
    fn whoever_wakes_a_turn_that_is_being_cancelled_gets_the_next_one() {
        let mut phase = running();
        phase.cancel(CancelCause::User, Queue::Clear);
        assert!(phase.is_ending());
        assert!(phase.woken(true).is_none());
        let next = phase.turn_ended(TurnWent::Otherwise, true).unwrap();
        assert_eq!(next.cause(), None, "with a switch of its own");
    }

    #[test]
    fn nobody_is_woken_for_what_was_dropped_and_a_kept_queue_stays_parked() {
        for (queue, next) in [(Queue::Clear, false), (Queue::Keep, true)] {
            let mut phase = running();
            phase.cancel(CancelCause::User, Queue::Keep);
            phase.woken(true);
            phase.cancel(CancelCause::User, queue);
            assert_eq!(phase.turn_ended(TurnWent::Otherwise, true).is_some(), next);
        }
        let mut phase = running();
        phase.cancel(CancelCause::User, Queue::Keep);
        assert!(phase.turn_ended(TurnWent::Well, true).is_none());
    }

    #[test]
    fn the_first_cause_counts() {
        let mut phase = Phase::default();
        let cancel = phase.woken(false).unwrap();
        phase.cancel(CancelCause::Parent, Queue::Keep);
        phase.dispose();
        assert_eq!(cancel.cause(), Some(CancelCause::Parent));
    }

    #[test]
    fn a_disposed_agent_begins_nothing_whatever_was_asked_before() {
        let mut phase = running();
        phase.cancel(CancelCause::User, Queue::Keep);
        phase.woken(true);
        phase.dispose();
        assert!(phase.turn_ended(TurnWent::Otherwise, true).is_none());
        assert!(phase.woken(false).is_none());

        let mut phase = running();
        phase.cancel(CancelCause::Disposed, Queue::Keep);
        phase.woken(true);
        assert!(phase.turn_ended(TurnWent::Otherwise, true).is_none());
    }

    #[test]
    fn maintenance_excludes_turns_and_makes_up_for_those_that_were_wanted() {
        for (woken, waits, next) in [
            (true, true, true),
            (true, false, false),
            (false, true, false),
        ] {
            let mut phase = Phase::default();
            phase.begin_maintenance().unwrap();
            assert!(phase.begin_maintenance().is_none());
            assert_eq!(phase.status(), AgentStatus::Idle);
            if woken {
                assert!(phase.woken(false).is_none());
            }
            assert_eq!(phase.maintenance_ended(waits).is_some(), next);
        }
        assert!(running().begin_maintenance().is_none());
    }
}
