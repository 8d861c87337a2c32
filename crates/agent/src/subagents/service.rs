//! The subagents of a service.

use std::fmt;
use std::sync::Arc;

use offshoot_session::SessionId;
use offshoot_tool_api::{ApprovalPolicy, RegistryError, Tool};
use tokio_util::sync::CancellationToken;

use super::child::Child;
use super::delegate::Delegate;
use super::error::SubagentError;
use super::interrupt_tool::InterruptAgent;
use super::list_tool::ListAgents;
use super::message_tool::SendMessage;
use super::places::Places;
use super::request::{Delegation, Started};
use super::setup::SubagentSetup;
use super::slots::{Slot, Slots};
use crate::agent::Agent;
use crate::env::Env;
use crate::service::SessionService;
use crate::setup::AgentSetup;

/// How much may be delegated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentLimits {
    /// How many delegations may lie above a session. It is counted in the headers, so that it also holds for sessions that
    /// were opened again.
    pub max_depth: u64,
    /// How many children of one session may be at work at the same time.
    pub max_running: usize,
    /// Whether somebody is asked for a child. It is never asked for one whose parent asks for nothing.
    pub approvals: ApprovalPolicy,
}

impl Default for SubagentLimits {
    /// Three deep, eight at a time, and nobody is asked: a child has nobody to ask.
    fn default() -> Self {
        Self {
            max_depth: 3,
            max_running: 8,
            approvals: ApprovalPolicy::Never,
        }
    }
}

/// The subagents of all sessions of a service. Clones are the same.
#[derive(Clone)]
pub struct Subagents(Arc<Inner>);

struct Inner {
    service: SessionService,
    env: Env,
    setups: Arc<dyn SubagentSetup>,
    limits: SubagentLimits,
    slots: Slots,
    places: Places,
}

impl Subagents {
    /// Subagents whose sessions are of a service and whose agents are made by `setups`.
    #[must_use]
    pub fn new(
        service: SessionService,
        env: Env,
        setups: Arc<dyn SubagentSetup>,
        limits: SubagentLimits,
    ) -> Self {
        Self(Arc::new(Inner {
            service,
            env,
            setups,
            limits,
            slots: Slots::default(),
            places: Places::default(),
        }))
    }

    /// Gives an agent that will be on `session` the tools for delegating, behind those that it has.
    ///
    /// # Errors
    /// A tool of the same name is there already.
    pub fn equip(&self, setup: &mut AgentSetup, session: &SessionId) -> Result<(), RegistryError> {
        let (subagents, caller) = (|| self.clone(), || session.clone());
        let tools: [Arc<dyn Tool>; 4] = [
            Arc::new(Delegate::new(subagents(), caller())),
            Arc::new(SendMessage::new(subagents(), caller())),
            Arc::new(InterruptAgent::new(subagents(), caller())),
            Arc::new(ListAgents::new(subagents(), caller())),
        ];
        tools
            .into_iter()
            .try_for_each(|tool| setup.tools.register(tool))
    }

    /// Creates a child of `parent` and gives it its task. One that is waited for has come to its end when this returns, also if
    /// it was cancelled: then it is closed. Whoever drops this in the middle ends the child that is waited for.
    ///
    /// # Errors
    /// There is no child, or it was never told its task: see [`SubagentError`].
    pub async fn start(
        &self,
        parent: &Agent,
        request: Delegation,
    ) -> Result<Started, SubagentError> {
        let slot = self.take_slot(parent.session().id());
        let child = self.create(parent, &request, slot).await?;
        Ok(self.run(child, request).await)
    }

    /// Gives a child its task.
    pub(super) async fn run(&self, child: Child, request: Delegation) -> Started {
        if Self::goes_on(&request) {
            self.run_on(child, &request).await
        } else {
            child.run_to_its_end(self, &request).await
        }
    }

    pub(super) fn take_slot(&self, parent: &SessionId) -> Result<Slot, SubagentError> {
        self.0.slots.take(parent, self.0.limits.max_running)
    }

    /// A slot for a call whose body has yet to come.
    pub(super) fn reserve_slot(
        &self,
        parent: &SessionId,
        call: &CancellationToken,
    ) -> Result<Slot, SubagentError> {
        let max = self.0.limits.max_running;
        self.0.slots.reserve(parent, max, call)
    }

    /// The children at work in the background.
    pub(super) fn places(&self) -> &Places {
        &self.0.places
    }

    pub(super) fn service(&self) -> &SessionService {
        &self.0.service
    }

    pub(super) fn env(&self) -> &Env {
        &self.0.env
    }

    pub(super) fn setups(&self) -> &dyn SubagentSetup {
        &*self.0.setups
    }

    pub(super) fn limits(&self) -> &SubagentLimits {
        &self.0.limits
    }
}

impl fmt::Debug for Subagents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subagents")
            .field("setups", &self.0.setups)
            .field("limits", &self.0.limits)
            .finish_non_exhaustive()
    }
}
