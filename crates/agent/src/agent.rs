//! The handle on an agent: what front ends hold (`reference/agent.md` §1.1 and §1.3).
//!
//! Input is queued at any time. Waking input makes an idle agent run; a running one takes it when its turn ends, or, if it
//! is for the next step, before that. A turn that fails or is cancelled leaves the queue parked until somebody wakes the
//! agent again. When what runs may begin and must end is [`phase`](crate::phase)'s business.
//!
//! Locks are taken in this order: phase, session, feed. Observers are told when none is held.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, Weak};

use offshoot_model::{CallConfig, Model};
use offshoot_session::LiveSession;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::AgentError;
use crate::cancel::Cancel;
use crate::core::Core;
use crate::driver::Driver;
use crate::events::CancelCause;
use crate::inbox::{self, Clear, InboxTarget, Pending, Sent};
use crate::input::Input;
use crate::live::LiveAnswer;
use crate::notices::AgentStatus;
use crate::registry::Registry;
use crate::running::{EndOfMaintenance, Shared};
use crate::service::Attached;
use crate::setup::AgentSetup;
use crate::subscription::{Snapshot, Subscription};
use crate::titles::rename;

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
    /// It is dropped, in the log as cancelled; only messages that are [kept](Input::kept) stay.
    Clear,
    /// It stays, and waits for the next waking input.
    Keep,
}

/// Whether an event may stand at the end of the log that belongs to no turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tip {
    /// It may: nothing is going on, and nothing begins meanwhile.
    Free,
    /// It may not.
    Taken,
}

/// An agent: a driver on a task of its own. Clones are the same agent.
///
/// It ends with [`Agent::dispose`], or with its last clone: then a turn that is running is cancelled and closed in the log.
#[derive(Clone)]
pub struct Agent {
    handle: Arc<Owner>,
}

/// What all clones of a handle share, and what its tasks do not keep alive.
pub(crate) struct Owner {
    shared: Arc<Shared>,
    registry: Arc<Registry>,
}

impl Agent {
    /// Puts an agent on a session. Its turns run on the runtime that this is called in. Whoever has the service that the
    /// session is of can [find](crate::SessionService::agent) it there.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(attached: Attached, setup: AgentSetup) -> Self {
        let registry = Arc::clone(&attached.registry);
        let driver = Driver::new(attached, setup);
        let shared = Shared {
            core: Arc::clone(&driver.core),
            runtime: Handle::current(),
            phase: Mutex::default(),
            driver: tokio::sync::Mutex::new(driver),
            closed: OnceCell::new(),
        };
        let owner = Owner {
            shared: Arc::new(shared),
            registry: Arc::clone(&registry),
        };
        let handle = Arc::new(owner);
        registry.enter(handle.core().session.id(), &handle);
        Self { handle }
    }

    pub(crate) fn of(owner: &Weak<Owner>) -> Option<Self> {
        let agent = Self {
            handle: owner.upgrade()?,
        };
        (!agent.is_disposed()).then_some(agent)
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &LiveSession {
        &self.core().session
    }

    /// Queues a message. It is in the log at once and durable with the next flush. Input that wakes an idle agent also
    /// starts its turn at once: there is a `turn/start` when this returns, also if the message is taken back then.
    ///
    /// What wakes an agent whose turn is being cancelled is for the next turn, whatever its target.
    ///
    /// # Errors
    /// An empty message, one whose id another message of the conversation has, a conversation that cannot go on, damaged
    /// pending input, a disposed agent, or a log that refused the message: nothing is queued then.
    pub fn send(&self, input: &Input, target: InboxTarget, wake: Wake) -> Result<(), AgentError> {
        if input.says_nothing() {
            return Err(AgentError::EmptyMessage);
        }
        let shared = &self.handle.shared;
        let core = self.core();
        {
            let mut phase = shared.live_phase()?;
            core.session.lock().log().continuable()?;
            let ending = wake == Wake::Yes && phase.is_ending();
            let target = if ending {
                InboxTarget::NextTurn
            } else {
                target
            };
            inbox::insert(core, target, input)?;
            if wake == Wake::Yes
                && let Some(cancel) = phase.woken(ending)
            {
                shared.begin(&mut phase, cancel);
            }
        }
        shared.tell();
        Ok(())
    }

    /// A message for the next turn, which it starts if none is running. Returns the message's id.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn followup(&self, text: &str) -> Result<String, AgentError> {
        self.send_text(text, InboxTarget::NextTurn, Wake::Yes)
    }

    /// A message for the next step of the running turn; it starts one if none is running. Returns the message's id.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn steer(&self, text: &str) -> Result<String, AgentError> {
        self.send_text(text, InboxTarget::NextStep, Wake::Yes)
    }

    /// A message for the next step, whenever that comes. Returns the message's id.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn inject(&self, text: &str) -> Result<String, AgentError> {
        self.send_text(text, InboxTarget::NextStep, Wake::No)
    }

    /// Queues a kept message for the next step, unless that was done before; wakes nobody.
    pub(crate) fn inject_once(&self, input: &Input) -> Result<Sent, AgentError> {
        self.change_inbox(|core| inbox::insert_once(core, InboxTarget::NextStep, input))
    }

    fn send_text(&self, text: &str, target: InboxTarget, wake: Wake) -> Result<String, AgentError> {
        let input = Input::user(self.core().env.fresh_id(), text);
        self.send(&input, target, wake)?;
        Ok(input.id().to_owned())
    }

    /// The messages that wait.
    ///
    /// # Errors
    /// Damaged pending input.
    pub fn pending(&self) -> Result<Pending, AgentError> {
        inbox::pending(&self.session().log())
    }

    /// Replaces `remove` messages of a list from `start` on, and returns them. A negative start counts from the end of the
    /// list, and whatever points beyond an end means that end; what does nothing is not logged. Wakes nobody.
    ///
    /// # Errors
    /// As [`Self::send`]; then nothing has changed.
    pub fn splice(
        &self,
        target: InboxTarget,
        start: isize,
        remove: usize,
        inserted: Vec<Input>,
    ) -> Result<Vec<Input>, AgentError> {
        if inserted.iter().any(Input::says_nothing) {
            return Err(AgentError::EmptyMessage);
        }
        self.change_inbox(|core| inbox::splice(core, target, start, remove, inserted))
    }

    /// Puts a message in the place of one that waits. Returns that one, or `None`, and then nothing has changed: a turn was
    /// faster, or somebody else took it back.
    ///
    /// # Errors
    /// As [`Self::send`]; then nothing has changed.
    pub fn replace(&self, id: &str, replacement: Input) -> Result<Option<Input>, AgentError> {
        if replacement.says_nothing() {
            return Err(AgentError::EmptyMessage);
        }
        self.change_inbox(|core| inbox::replace(core, id, Some(replacement)))
    }

    /// Takes back a message that waits, also one that is kept. Returns it, or `None` if it does not wait any more.
    ///
    /// # Errors
    /// As [`Self::send`]; then nothing has changed.
    pub fn remove(&self, id: &str) -> Result<Option<Input>, AgentError> {
        self.change_inbox(|core| inbox::replace(core, id, None))
    }

    /// Takes back everything that waits, also messages that are kept.
    ///
    /// # Errors
    /// As [`Self::send`]; a list whose change was refused is as it was.
    pub fn clear(&self) -> Result<(), AgentError> {
        self.change_inbox(|core| inbox::clear(core, Clear::Everything))
    }

    fn change_inbox<T>(
        &self,
        change: impl FnOnce(&Core) -> Result<T, AgentError>,
    ) -> Result<T, AgentError> {
        let changed = {
            let _phase = self.handle.shared.live_phase()?;
            change(self.core())
        };
        self.core().feed.deliver();
        changed
    }

    /// Changes the log while no turn can begin, durably.
    pub(crate) fn change_log<T>(
        &self,
        change: impl FnOnce(&Core, Tip) -> Result<T, AgentError>,
    ) -> Result<T, AgentError> {
        let core = self.core();
        let changed = {
            let phase = self.handle.shared.live_phase()?;
            let tip = if phase.is_idle() {
                Tip::Free
            } else {
                Tip::Taken
            };
            change(core, tip)
        };
        core.feed.deliver();
        let changed = changed?;
        core.recorder.flush_blocking()?;
        Ok(changed)
    }

    /// Ends what is running, if anything is: the turn is closed in the log as soon as it can be. The first cause counts.
    ///
    /// # Errors
    /// Input could not be dropped from the log; the turn is cancelled nevertheless.
    pub fn cancel(&self, cause: CancelCause, queue: Queue) -> Result<(), AgentError> {
        let cleared = {
            let mut phase = self.handle.shared.phase();
            let cleared = match queue {
                Queue::Clear if !phase.is_disposed() => inbox::clear(self.core(), Clear::NotKept),
                Queue::Clear | Queue::Keep => Ok(()),
            };
            phase.cancel(cause, queue);
            cleared
        };
        self.core().feed.deliver();
        cleared
    }

    /// Whether a turn is running.
    #[must_use]
    pub fn status(&self) -> AgentStatus {
        self.handle.shared.phase().status()
    }

    /// Waits until nothing runs and the observer has heard of everything. A turn that failed is over, too.
    pub async fn when_idle(&self) {
        self.handle.shared.when_idle().await;
    }

    /// The answer that is coming in, for whoever joins in the middle.
    #[must_use]
    pub fn live_answer(&self) -> Option<LiveAnswer> {
        self.core().feed.answer()
    }

    /// How things stand, and everything that happens from here on. Up to `capacity` notices are kept for a subscriber that
    /// has not asked for them yet.
    #[must_use]
    pub fn subscribe(&self, capacity: NonZeroUsize) -> (Snapshot, Subscription) {
        Subscription::new(self.core(), capacity)
    }

    /// Calls another model, or the same one otherwise, from the next request on.
    pub fn set_model(&self, model: Arc<dyn Model>, call: CallConfig) {
        self.core().set_route(model, call);
    }

    /// Calls the session what a person wants it called: no model renames it any more.
    ///
    /// # Errors
    /// As [`rename`](crate::rename).
    pub fn rename(&self, title: &str) -> Result<(), AgentError> {
        let core = self.core();
        rename(&core.session, title, core.env.now()).map(drop)
    }

    /// Waits until a model that was asked for a title has answered, which takes a minute at most.
    pub async fn titled(&self) {
        self.core().titling.wait().await;
    }

    /// Makes everything logged so far durable.
    ///
    /// # Errors
    /// Storage failed; nothing is lost, the next flush tries again.
    pub async fn flush(&self) -> Result<(), AgentError> {
        self.core().recorder.flush().await
    }

    /// Does work outside of any turn; turns that somebody wants meanwhile wait for it.
    ///
    /// # Errors
    /// `BUSY`: something else is going on. A disposed agent.
    pub async fn run_maintenance<T>(
        &self,
        work: impl AsyncFnOnce(Cancel) -> T,
    ) -> Result<T, AgentError> {
        let cancel = {
            let mut phase = self.handle.shared.live_phase()?;
            let begun = phase.begin_maintenance();
            begun.ok_or_else(|| AgentError::Busy(self.session().id().clone()))?
        };
        // Also when nobody waits for the work any more, the agent is not left in it.
        let _ended = EndOfMaintenance(&self.handle.shared);
        Ok(work(cancel).await)
    }

    pub(crate) fn driver(&self) -> &tokio::sync::Mutex<Driver> {
        &self.handle.shared.driver
    }

    /// Ends the agent: what is running is cancelled, everything is made durable, and the session is closed. When this
    /// returns it can be opened again. Input that waits stays in the log, and waits there for whoever does.
    ///
    /// Must not be awaited by the agent's own hooks and tools, which it waits for.
    ///
    /// # Errors
    /// Storage failed, and what could not be stored is lost. The session is closed nevertheless.
    pub async fn dispose(&self) -> Result<(), Arc<AgentError>> {
        let shared = &self.handle.shared;
        shared.phase().dispose();
        let closed = shared.closed.get_or_init(|| async {
            shared.when_idle().await;
            // Whoever ran the last turn has let go of it when this is free.
            let _driver = shared.driver.lock().await;
            let stored = shared.core.close().await.map_err(Arc::new);
            self.handle.leave();
            stored
        });
        closed.await.clone()
    }

    /// Whether it was disposed of, or is being.
    #[must_use]
    pub fn is_disposed(&self) -> bool {
        self.handle.shared.phase().is_disposed()
    }

    /// Disposes of the agent if it is idle and `agrees` says so, which is asked while nothing can begin. Whoever has sent it
    /// something before has woken it then, and whoever comes later is refused. [`Agent::dispose`] closes the session then.
    pub(crate) fn retire(&self, agrees: impl FnOnce() -> bool) -> bool {
        let mut phase = self.handle.shared.phase();
        let retires = phase.is_idle() && agrees();
        if retires {
            phase.dispose();
        }
        retires
    }

    /// Disposes of the agent without waiting for what is running: that is cancelled, and nothing begins any more.
    /// [`Agent::dispose`] closes the session then.
    pub(crate) fn shut(&self) {
        self.handle.shared.phase().dispose();
    }

    /// Cancelled when the agent is disposed of, or goes with its last clone. It does not keep the agent alive.
    pub(crate) fn disposal(&self) -> CancellationToken {
        self.handle.shared.phase().disposal().clone()
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.handle.core()
    }
}

impl Owner {
    fn core(&self) -> &Arc<Core> {
        &self.shared.core
    }

    fn leave(&self) {
        self.registry.leave(self.core().session.id(), self);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.phase().dispose();
        self.leave();
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("session", &self.core().session)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner")
            .field("session", &self.core().session)
            .finish_non_exhaustive()
    }
}
