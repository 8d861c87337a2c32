//! A child that is waited for (`reference/agent.md` §4.4): one task, one run, and its end.

use std::sync::Arc;

use super::child::Child;
use super::collapse::RunEnd;
use super::request::{Delegation, Started};
use super::service::Subagents;
use crate::AgentError;
use crate::agent::{Queue, Wake};
use crate::events::CancelCause;
use crate::inbox::InboxTarget;
use crate::input::Input;

impl Child {
    /// Tells it its task, waits until it is idle, and closes it. Whoever drops this in the middle ends it.
    pub(super) async fn run_to_its_end(
        self,
        subagents: &Subagents,
        request: &Delegation,
    ) -> Started {
        let end = self.run(subagents, request).await;
        let unclosed = self.agent.dispose().await.err();
        Started {
            session: self.agent.session().id().clone(),
            provider: self.provider,
            mode: self.mode,
            end: Some(end),
            unclosed,
        }
    }

    /// Tells it its task and waits until it is idle, and everything that it has let go in the background.
    async fn run(&self, subagents: &Subagents, request: &Delegation) -> RunEnd {
        let agent = &self.agent;
        let from = agent.session().log().end();
        let mut refused = None;
        if !request.cancel.is_cancelled() {
            refused = self.tell(&request.prompt).err().map(Arc::new);
        }
        tokio::select! {
            () = subagents.at_rest(agent) => {}
            () = request.cancel.cancelled() => {
                // What could not be taken off its queue waits there, and nobody will run it.
                let _unclear = agent.cancel(CancelCause::Parent, Queue::Clear);
                subagents.cancel_below(agent.session().id(), CancelCause::Parent);
                subagents.end(agent).await;
            }
        }
        let broken = refused.or_else(|| self.broken.error());
        let cancelled = request.cancel.is_cancelled();
        RunEnd::of(&agent.session().log(), from, cancelled, broken.as_deref())
    }

    /// The task is a message like that of a person: for the child it is what a person wants.
    pub(super) fn tell(&self, prompt: &str) -> Result<(), AgentError> {
        let id = self.agent.core().env.fresh_id();
        let task = Input::user(id, prompt);
        self.agent.send(&task, InboxTarget::NextTurn, Wake::Yes)
    }
}
