//! Everything that is at work below a session: waiting for it, stopping it, ending it.
//!
//! A turn that is cancelled takes the children with it that it waits for, and none that go on in the background: those have
//! been let go. Whoever wants to stop them too, says so ([`Subagents::cancel_below`]).

use offshoot_session::{Origin, SessionId};

use super::places::{Held, Is, NoPlace, Stop};
use super::request::Mode;
use super::service::Subagents;
use super::status::{SubagentState, SubagentStatus};
use crate::agent::Agent;
use crate::events::CancelCause;
use crate::notices::AgentStatus;

impl Subagents {
    /// Waits until nothing is at work in the background below a session, and it has been told of everything that was. It may
    /// have been woken for that: [`Self::at_rest`] waits for that, too.
    pub async fn quiet(&self, session: &SessionId) {
        self.places().none_below(session).await;
    }

    /// Waits until an agent is idle and nothing is at work below it. Whoever runs a session to its end and then goes waits for
    /// this; a child that is started or settles meanwhile is waited for as well.
    ///
    /// Must not be awaited by the agent's own tools and hooks, nor by those of anything below it.
    pub async fn at_rest(&self, agent: &Agent) {
        let id = agent.session().id();
        loop {
            agent.when_idle().await;
            self.quiet(id).await;
            if agent.status() == AgentStatus::Idle && self.places().has_none_below(id) {
                return;
            }
        }
    }

    /// What is at work in the background below a session, whatever is higher up first.
    #[must_use]
    pub fn running(&self, session: &SessionId) -> Vec<SubagentStatus> {
        let below = self.places().below(session).into_iter();
        let status = below.filter_map(|(child, place)| {
            let state = match &place.is {
                Is::BeingOpened => SubagentState::Running,
                Is::AtWork(agent) => SubagentState::of(agent),
                Is::BeingToldOf => return None,
            };
            Some(SubagentStatus {
                session: child,
                parent: place.ancestors.first()?.clone(),
                mode: place.mode,
                label: place.label,
                state,
            })
        });
        status.collect()
    }

    /// Cancels everything that is at work in the background below a session. Messages that wait there are dropped. The session
    /// is told of each child as of any that settles, but not woken for it, and neither is any below it: whoever stops everything
    /// does not want something to begin.
    ///
    /// What was cancelled can be sent more. To end it for good, see [`Self::dispose`].
    pub fn cancel_below(&self, session: &SessionId, cause: CancelCause) {
        self.places().stop_below(session, &Stop::Hushed(cause));
    }

    /// Ends everything that is at work below a session: it is cancelled and closed, and can be opened when this returns. The
    /// session is told, and not woken. Nothing begins below it any more as long as its present agent exists.
    ///
    /// To be called before the agent itself is disposed of. Otherwise its children end as well, but nobody waits for them, and
    /// nobody is told.
    ///
    /// Must not be awaited by tools and hooks of the session, nor by those of anything below it.
    pub async fn dispose(&self, session: &SessionId) {
        let agent = self.service().agent(session);
        self.places().close_below(session, agent.as_ref());
        drop(agent);
        self.quiet(session).await;
    }

    /// Ends an agent that was stopped: when this returns it is idle, and takes nothing more. Until then it hears of those below
    /// it that were stopped with it; whoever has woken it meanwhile has done so in vain.
    pub(super) async fn end(&self, agent: &Agent) {
        self.quiet(agent.session().id()).await;
        agent.shut();
        agent.when_idle().await;
    }

    /// Takes the place of a child.
    pub(super) fn enter(
        &self,
        parent: &Agent,
        child: &SessionId,
        mode: Mode,
        label: Option<&str>,
    ) -> Result<Held, NoPlace> {
        let lineage = self.lineage(parent.session().id());
        self.places()
            .enter(parent, child, lineage, mode, label.map(str::to_owned))
    }

    /// A session, whose child it is, and so on, as far as they are live here.
    fn lineage(&self, session: &SessionId) -> Vec<SessionId> {
        let mut lineage = vec![session.clone()];
        let mut next = self.service().agent(session);
        while let Some(agent) = next.take() {
            let header = agent.session().header();
            let Some(parent) = header
                .parent
                .filter(|_| header.origin == Some(Origin::Subagent))
            else {
                break;
            };
            // No file says such a thing, and nobody would find the end of it.
            if lineage.contains(&parent) {
                break;
            }
            next = self.service().agent(&parent);
            lineage.push(parent);
        }
        lineage
    }
}
