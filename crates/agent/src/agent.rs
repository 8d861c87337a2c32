//! The handle on an agent: what front ends hold (`reference/agent.md` §1.1 and §1.3).
//!
//! Input is queued at any time. Waking input makes an idle agent run; a running one takes it when its turn ends, or, if it
//! is for the next step, before that. A turn that fails or is cancelled leaves the queue parked until somebody wakes the
//! agent again.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_model::{CallConfig, Model};
use offshoot_session::LiveSession;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::AgentError;
use crate::cancel::Cancel;
use crate::core::{Core, Route};
use crate::driver::Driver;
use crate::events::{CancelCause, TurnEndReason};
use crate::inbox::{self, InboxTarget, Input};
use crate::live::LiveAnswer;
use crate::notices::{AgentStatus, Notice};
use crate::service::Attached;
use crate::setup::AgentSetup;

/// Whether input makes an idle agent run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wake {
    /// It does.
    Yes,
    /// It waits for something else to wake the agent.
    No,
}

/// What a cancellation does with input that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// It is dropped, in the log as cancelled.
    Clear,
    /// It stays, and waits for the next waking input.
    Keep,
}

/// An agent: a driver on a task of its own. Clones are the same agent; it is disposed of with the last one.
#[derive(Clone)]
pub struct Agent {
    inner: Arc<Inner>,
}

struct Inner {
    core: Arc<Core>,
    runtime: Handle,
    phase: Mutex<Phase>,
    status: watch::Sender<AgentStatus>,
    driver: Arc<tokio::sync::Mutex<Driver>>,
}

enum Phase {
    Idle,
    /// Work outside of any turn. To the outside the agent is idle.
    Maintenance(Activity),
    Running(Activity),
}

struct Activity {
    cancel: Cancel,
    /// Somebody woke the agent while that could not start a turn.
    wake: bool,
}

impl Activity {
    fn new() -> Self {
        Self {
            cancel: Cancel::new(),
            wake: false,
        }
    }
}

impl Agent {
    /// Puts an agent on a session. Its turns run on the runtime that this is called in.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(attached: Attached, setup: AgentSetup) -> Self {
        let driver = Driver::new(attached, setup);
        let inner = Inner {
            core: Arc::clone(&driver.core),
            runtime: Handle::current(),
            phase: Mutex::new(Phase::Idle),
            status: watch::Sender::new(AgentStatus::Idle),
            driver: Arc::new(tokio::sync::Mutex::new(driver)),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &LiveSession {
        &self.inner.core.session
    }

    /// Queues input; returns the id of the message. It is in the log at once and durable with the next flush.
    ///
    /// # Errors
    /// A conversation that cannot go on, damaged pending input, or a log that refused the message: nothing is queued then.
    pub fn send(&self, input: &Input, target: InboxTarget, wake: Wake) -> Result<(), AgentError> {
        let core = &self.inner.core;
        core.session.log().continuable()?;
        let mut phase = self.inner.phase();
        let aborted = match &*phase {
            Phase::Idle => false,
            Phase::Maintenance(activity) | Phase::Running(activity) => {
                wake == Wake::Yes && activity.cancel.cause().is_some()
            }
        };
        // The turn that is being aborted claims nothing more: what wakes the agent now is for the next one.
        let target = if aborted {
            InboxTarget::NextTurn
        } else {
            target
        };
        inbox::insert(&core.session, target, input, core.env.now())?;
        if wake == Wake::Yes {
            self.wake(&mut phase, aborted);
        }
        drop(phase);
        core.notify(&Notice::Inserted {
            message: input.id(),
        });
        Ok(())
    }

    /// A message for the next turn, which it starts if none is running.
    ///
    /// # Errors
    /// As [`Self::send`]; an empty message.
    pub fn followup(&self, text: &str) -> Result<(), AgentError> {
        self.send_text(text, InboxTarget::NextTurn, Wake::Yes)
    }

    /// A message for the next step of the running turn; it starts one if none is running.
    ///
    /// # Errors
    /// As [`Self::send`]; an empty message.
    pub fn steer(&self, text: &str) -> Result<(), AgentError> {
        self.send_text(text, InboxTarget::NextStep, Wake::Yes)
    }

    fn send_text(&self, text: &str, target: InboxTarget, wake: Wake) -> Result<(), AgentError> {
        if text.is_empty() {
            return Err(AgentError::EmptyMessage);
        }
        let input = Input::user(self.inner.core.env.fresh_id(), text);
        self.send(&input, target, wake)
    }

    /// Ends what is running, if anything is: the turn is closed in the log as soon as it can be. The first cause counts.
    ///
    /// # Errors
    /// Input could not be dropped from the log; the turn is cancelled nevertheless.
    pub fn cancel(&self, cause: CancelCause, queue: Queue) -> Result<(), AgentError> {
        let core = &self.inner.core;
        let mut phase = self.inner.phase();
        let mut cleared = Ok(());
        if queue == Queue::Clear {
            cleared = inbox::clear(&core.session, core.env.now());
        }
        if let Phase::Maintenance(activity) | Phase::Running(activity) = &mut *phase {
            activity.wake &= queue == Queue::Keep;
            activity.cancel.cancel(cause);
        }
        cleared
    }

    /// Whether it does something.
    #[must_use]
    pub fn status(&self) -> AgentStatus {
        *self.inner.status.borrow()
    }

    /// Waits until nothing runs. A turn that failed is over, too.
    pub async fn when_idle(&self) {
        let mut status = self.inner.status.subscribe();
        // The sender is in `self`.
        let _closed = status.wait_for(|status| *status == AgentStatus::Idle).await;
    }

    /// The answer that is coming in, for whoever joins in the middle.
    #[must_use]
    pub fn live_answer(&self) -> Option<LiveAnswer> {
        self.inner.core.stream.answer()
    }

    /// Calls another model, or the same one otherwise, from the next request on.
    pub fn set_model(&self, model: Arc<dyn Model>, call: CallConfig) {
        self.inner.core.set_route(Route { model, call });
    }

    /// Makes everything logged so far durable.
    ///
    /// # Errors
    /// Storage failed; nothing is lost, the next flush tries again.
    pub async fn flush(&self) -> Result<(), AgentError> {
        self.inner.core.recorder.flush().await
    }

    /// Does work outside of any turn; turns that somebody wants meanwhile wait for it.
    ///
    /// # Errors
    /// `BUSY`: something else is going on.
    pub async fn run_maintenance<T>(
        &self,
        work: impl AsyncFnOnce(Cancel) -> T,
    ) -> Result<T, AgentError> {
        let cancel = {
            let mut phase = self.inner.phase();
            let Phase::Idle = &*phase else {
                return Err(AgentError::Busy(self.session().id().clone()));
            };
            let activity = Activity::new();
            let cancel = activity.cancel.clone();
            *phase = Phase::Maintenance(activity);
            cancel
        };
        // Also when nobody waits for the work any more, the agent is not left in it.
        let _ended = EndOfMaintenance(self);
        Ok(work(cancel).await)
    }

    fn wake(&self, phase: &mut Phase, aborted: bool) {
        match phase {
            Phase::Idle => {
                let activity = Activity::new();
                let cancel = activity.cancel.clone();
                *phase = Phase::Running(activity);
                self.inner.set_status(AgentStatus::Running);
                let turns = turns(
                    Arc::downgrade(&self.inner),
                    Arc::clone(&self.inner.driver),
                    cancel,
                );
                drop(self.inner.runtime.spawn(turns));
            }
            Phase::Maintenance(activity) => activity.wake |= !activity.is_disposed(),
            Phase::Running(activity) => activity.wake |= aborted && !activity.is_disposed(),
        }
    }

    fn end_maintenance(&self) {
        let mut phase = self.inner.phase();
        let Phase::Maintenance(activity) = &*phase else {
            return;
        };
        let wake = activity.wake;
        *phase = Phase::Idle;
        let waits = !self.session().log().pending_input().is_empty();
        if wake && waits {
            self.wake(&mut phase, false);
        }
    }
}

impl Activity {
    fn is_disposed(&self) -> bool {
        self.cancel.cause() == Some(CancelCause::Disposed)
    }
}

struct EndOfMaintenance<'a>(&'a Agent);

impl Drop for EndOfMaintenance<'_> {
    fn drop(&mut self) {
        self.0.end_maintenance();
    }
}

/// Runs turns until no input waits, or one does not complete.
fn turns(
    agent: std::sync::Weak<Inner>,
    driver: Arc<tokio::sync::Mutex<Driver>>,
    mut cancel: Cancel,
) -> impl Future<Output = ()> + Send {
    async move {
        let mut driver = driver.lock().await;
        loop {
            let outcome = driver.next_turn(&cancel).await;
            let goes_on = match &outcome {
                Ok(report) => matches!(
                    report.reason,
                    TurnEndReason::Completed | TurnEndReason::MaxTokens
                ),
                Err(_) => false,
            };
            match &outcome {
                Ok(report) => driver.core.notify(&Notice::TurnEnded(report)),
                Err(error) => driver.core.notify(&Notice::Failed(error)),
            }
            let Some(agent) = agent.upgrade() else { return };
            let mut phase = agent.phase();
            let Phase::Running(activity) = &*phase else {
                return;
            };
            let waits = !agent.core.session.log().pending_input().is_empty();
            if waits && (goes_on || activity.wake) {
                let activity = Activity::new();
                cancel = activity.cancel.clone();
                *phase = Phase::Running(activity);
                continue;
            }
            *phase = Phase::Idle;
            agent.set_status(AgentStatus::Idle);
            return;
        }
    }
}

impl Inner {
    fn phase(&self) -> MutexGuard<'_, Phase> {
        // Nothing panics between two changes of the phase.
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_status(&self, status: AgentStatus) {
        self.status.send_replace(status);
        self.core.notify(&Notice::Status(status));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Phase::Maintenance(activity) | Phase::Running(activity) = &*self.phase() {
            activity.cancel.cancel(CancelCause::Disposed);
        }
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("session", &self.inner.core.session)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
