//! How an agent's turns are run on a task, and what keeps it from being left running.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use crate::AgentError;
use crate::cancel::Cancel;
use crate::core::{Core, OpenedTurn};
use crate::driver::Driver;
use crate::notices::{AgentStatus, Notice};
use crate::phase::Phase;

/// An agent without its handles: what its tasks hold.
pub(crate) struct Shared {
    pub(crate) core: Arc<Core>,
    pub(crate) runtime: Handle,
    pub(crate) phase: Mutex<Phase>,
    pub(crate) driver: tokio::sync::Mutex<Driver>,
    /// How the session was closed.
    pub(crate) closed: OnceCell<Result<(), Arc<AgentError>>>,
}

impl Shared {
    pub(crate) fn phase(&self) -> MutexGuard<'_, Phase> {
        // Nothing panics between two changes of the phase.
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The phase of an agent that may still begin something.
    pub(crate) fn live_phase(&self) -> Result<MutexGuard<'_, Phase>, AgentError> {
        let phase = self.phase();
        if phase.is_disposed() {
            return Err(AgentError::Disposed(self.core.session.id().clone()));
        }
        Ok(phase)
    }

    pub(crate) async fn when_idle(&self) {
        loop {
            let changed = self.core.feed.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let is_idle = self.phase().is_idle();
            if is_idle && self.core.feed.is_quiet() {
                return;
            }
            changed.await;
        }
    }

    /// Begins turns: the first is open in the log before anybody else can do anything. If it cannot be, there are none.
    pub(crate) fn begin(self: &Arc<Self>, phase: &mut Phase, cancel: Cancel) {
        self.core.feed.push(Notice::Status(AgentStatus::Running));
        match self.core.open_turn() {
            Ok(opened) => {
                let running = Running {
                    shared: Arc::clone(self),
                    over: false,
                };
                drop(self.runtime.spawn(running.turns(cancel, opened)));
            }
            Err(error) => {
                self.core.feed.push(Notice::Failed(Arc::new(error)));
                self.rest(phase);
            }
        }
    }

    fn rest(&self, phase: &mut Phase) {
        phase.rest();
        self.core.feed.push(Notice::Status(AgentStatus::Idle));
    }

    /// Tells of what was noted, and whoever waits for the agent to be idle.
    pub(crate) fn tell(&self) {
        self.core.feed.deliver();
        self.core.feed.changed.notify_waiters();
    }
}

/// Ends work outside of turns when it is dropped, and makes up for the turns that were wanted meanwhile.
pub(crate) struct EndOfMaintenance<'a>(pub(crate) &'a Arc<Shared>);

impl Drop for EndOfMaintenance<'_> {
    fn drop(&mut self) {
        let Self(shared) = *self;
        {
            let mut phase = shared.phase();
            let next = phase.maintenance_ended(shared.core.has_input());
            if let Some(cancel) = next {
                shared.begin(&mut phase, cancel);
            }
        }
        shared.tell();
    }
}

/// Turns that run on a task. When that is dropped, with its runtime or by a panic, the agent is not left running.
struct Running {
    shared: Arc<Shared>,
    over: bool,
}

impl Running {
    /// Runs turns until no input waits, or one does not complete.
    async fn turns(mut self, mut cancel: Cancel, mut opened: Option<OpenedTurn>) {
        let shared = Arc::clone(&self.shared);
        let mut driver = shared.driver.lock().await;
        loop {
            let outcome = driver.next_turn(&cancel, opened.take()).await;
            let went = outcome.went();
            if let Some(report) = outcome.report {
                shared.core.feed.push(Notice::TurnEnded(Arc::new(report)));
            }
            if let Some(error) = outcome.error {
                shared.core.feed.push(Notice::Failed(Arc::new(error)));
            }
            shared.core.feed.deliver();
            let next = {
                let mut phase = shared.phase();
                let next = phase.turn_ended(went, shared.core.has_input());
                if next.is_none() {
                    // From here on others may run turns.
                    self.over = true;
                    shared.core.feed.push(Notice::Status(AgentStatus::Idle));
                }
                next
            };
            match next {
                Some(next) => cancel = next,
                None => break,
            }
        }
        drop(driver);
        shared.tell();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.shared.rest(&mut self.shared.phase());
        self.shared.tell();
    }
}
