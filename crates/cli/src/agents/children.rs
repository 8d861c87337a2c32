//! The sessions that agents of this program hand work to: what those are made of, and what they have used.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_agent::{
    Agent, AgentHook, AgentSetup, CancelCause, DurableListener, NewSubagent, Queue, SessionService,
    SetupError, SubagentSetup, Subagents, UsageReport, usage_from,
};
use offshoot_session::{LiveSession, LogOffset, SessionId};

use super::{Called, Parts};
use crate::config::ModelName;
use crate::failure::Failure;
use crate::system;

/// What answers in children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// The model that their parents call.
    Configured,
    /// Nobody: a recording of one session is no answer to others.
    Recording,
}

/// Who joins in children and watches them.
#[derive(Clone, Default)]
pub(crate) struct Around {
    /// Join in their turns.
    pub(crate) hooks: Vec<Arc<dyn AgentHook>>,
    /// Hears of their events.
    pub(crate) on_durable: Option<DurableListener>,
}

impl fmt::Debug for Around {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Around")
            .field("hooks", &self.hooks)
            .finish_non_exhaustive()
    }
}

/// The children of the sessions that are worked in, and theirs. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Children {
    service: SessionService,
    made: Arc<Made>,
    subagents: Subagents,
}

/// What a child has used since somebody began to count.
#[derive(Clone, Debug)]
pub(crate) struct UsedBelow {
    pub(crate) session: SessionId,
    pub(crate) parent: SessionId,
    pub(crate) used: UsageReport,
}

impl Children {
    pub(crate) fn new(
        parts: &Arc<Parts>,
        service: &SessionService,
        answers: Answers,
        around: Around,
    ) -> Self {
        let made = Arc::new(Made {
            parts: Arc::clone(parts),
            answers,
            around,
            counted: Mutex::default(),
        });
        let limits = parts.subagent_limits();
        let setups = Arc::clone(&made) as Arc<dyn SubagentSetup>;
        Self {
            service: service.clone(),
            subagents: Subagents::new(service.clone(), system::env(), setups, limits),
            made,
        }
    }

    /// The parts of the agent of a person's session, which can hand work to children.
    pub(crate) fn setup(
        &self,
        called: &Called,
        session: &LiveSession,
    ) -> Result<AgentSetup, Failure> {
        let mut setup = self.made.parts.setup(called, session)?;
        self.subagents
            .equip(&mut setup, session.id())
            .map_err(|error| Failure::new("INTERNAL", error.to_string()))?;
        Ok(setup)
    }

    /// Waits until the agent of a person's session is idle, nothing is at work below it, and it has been told of everything that
    /// was.
    pub(crate) async fn at_rest(&self, agent: &Agent) {
        self.subagents.at_rest(agent).await;
    }

    /// How many are at work below a person's session without anybody waiting for them.
    pub(crate) fn running(&self, agent: &Agent) -> usize {
        self.subagents.running(agent.session().id()).len()
    }

    /// Cancels a person's session and all that runs below it.
    pub(crate) fn cancel(&self, agent: &Agent, cause: CancelCause) -> Result<(), Failure> {
        // The turn first: it may be about to start another one.
        let cancelled = agent.cancel(cause.clone(), Queue::Clear);
        self.subagents.cancel_below(agent.session().id(), cause);
        Ok(cancelled?)
    }

    /// Ends the agent of a person's session and all below it; their sessions are closed when this returns.
    pub(crate) async fn close(&self, agent: &Agent) -> Result<(), Failure> {
        self.subagents.dispose(agent.session().id()).await;
        let closed = agent.dispose().await;
        closed.map_err(|error| Failure::from(&*error))
    }

    /// What children have used since the last time, in the order in which they came.
    pub(crate) fn take_used(&self) -> Vec<UsedBelow> {
        let mut used = Vec::new();
        let mut counted = self.made.counted();
        for counted in &mut *counted {
            let log = counted.session.log();
            let since = usage_from(&log, counted.from);
            counted.from = log.end();
            if since.calls() > 0 {
                used.push(UsedBelow {
                    session: counted.session.id().clone(),
                    parent: counted.parent.clone(),
                    used: since,
                });
            }
        }
        // Whoever is set to work again is counted anew.
        counted.retain(|counted| self.service.agent(counted.session.id()).is_some());
        used
    }
}

/// Makes the parts of children.
#[derive(Debug)]
struct Made {
    parts: Arc<Parts>,
    answers: Answers,
    around: Around,
    counted: Mutex<Vec<Counted>>,
}

/// A child that is, or was, at work.
#[derive(Debug)]
struct Counted {
    session: LiveSession,
    parent: SessionId,
    /// Where its log ended when it was set to work: what is before was inherited, or has been counted.
    from: LogOffset,
}

impl Made {
    fn counted(&self) -> MutexGuard<'_, Vec<Counted>> {
        // Nothing panics between two changes of the list.
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parts_of(&self, child: &NewSubagent<'_>) -> Result<AgentSetup, Failure> {
        if self.answers == Answers::Recording {
            return Err(Failure::new(
                "REPLAY_UNAVAILABLE",
                "a recording has no answers for subagents; `offshoot replay` replays several sessions",
            ));
        }
        let name = ModelName {
            provider: child.call.provider.clone(),
            model: child.call.model.clone(),
        };
        let Parts {
            config, providers, ..
        } = &*self.parts;
        let called = Called::named(config, providers, name)?;
        self.parts.setup_of_child(child, called.model)
    }
}

impl SubagentSetup for Made {
    fn setup(&self, child: &NewSubagent<'_>) -> Result<AgentSetup, SetupError> {
        let mut setup = self.parts_of(child).map_err(|failure| SetupError {
            code: failure.code.to_owned(),
            message: failure.message,
        })?;
        setup.hooks.extend(self.around.hooks.iter().cloned());
        setup.on_durable.clone_from(&self.around.on_durable);
        let mut counted = self.counted();
        let known = |counted: &&mut Counted| counted.session.id() == child.session.id();
        match counted.iter_mut().find(known) {
            // Closed meanwhile, and opened again: this one knows what comes.
            Some(counted) => counted.session = child.session.clone(),
            None => counted.push(Counted {
                session: child.session.clone(),
                parent: child.parent.clone(),
                from: child.session.log().end(),
            }),
        }
        Ok(setup)
    }
}
