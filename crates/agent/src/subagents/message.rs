//! What agents that are tied to each other by a delegation say to each other, and how one stops another.
//!
//! **Invariant:** a session reaches its own children and the session that it is a child of, and nobody else. Whoever names
//! another one is told the same whether that exists or not.

use offshoot_model::ContentBlock;
use offshoot_session::{Origin, SessionId};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::error::SubagentError;
use super::notice::{at_once, in_order, relay};
use super::places::{Is, NoPlace};
use super::request::Mode;
use super::service::Subagents;
use super::status::{Known, children};
use crate::AgentError;
use crate::agent::{Agent, Queue, Wake};
use crate::events::CancelCause;
use crate::notices::AgentStatus;

/// How a message was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Delivery {
    /// By an agent that works: it comes to it at its next step, or behind what waits already.
    AtWork,
    /// By an agent that rested. It works now.
    Woken,
    /// By one that does not work now and is not to be woken.
    Waiting,
}

/// A message that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The id of the message in the log of whoever has got it.
    pub message: String,
    /// How it was taken.
    pub delivery: Delivery,
}

/// What came of an interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interrupted {
    /// Its turn ends, and what it has delegated in the background ends too. It can be sent more.
    Stopping,
    /// It had come to rest already, and nothing has changed.
    AtRest,
}

impl Subagents {
    /// Sends a child of `caller` a message. One that works comes to it at its next step, one that rests begins a turn; one that
    /// was settled is opened again. Messages are read in the order in which they were sent.
    ///
    /// # Errors
    /// It is no child of `caller`; it was for one task; `caller` is a side session or is being closed; the child cannot be
    /// opened again; too many are at work. Then nobody has got the message.
    pub async fn send(
        &self,
        caller: &Agent,
        child: &SessionId,
        text: &str,
        cancel: &CancellationToken,
    ) -> Result<Sent, SubagentError> {
        let known = self.child_of(caller, child)?;
        if known.mode == Some(Mode::OneShot) {
            return Err(SubagentError::NotResumable(child.clone()));
        }
        let message = relay(
            self.env().fresh_id(),
            vec![ContentBlock::text(said(text)?)],
            caller.session().id(),
        );
        let sent = |delivery| Sent {
            message: message.id().to_owned(),
            delivery,
        };
        loop {
            if cancel.is_cancelled() {
                return Err(SubagentError::NotSent);
            }
            let Some(place) = self.places().get(child) else {
                let mode = known.mode.unwrap_or(Mode::Continuable);
                match self.enter(caller, child, mode, known.label.as_deref()) {
                    Ok(held) => {
                        let resumed = self.resume(caller, &known, held, &message, cancel);
                        return resumed.await.map(|()| sent(Delivery::Woken));
                    }
                    Err(NoPlace::Taken) => continue,
                    Err(NoPlace::Stopped) => return Err(SubagentError::Closing),
                }
            };
            if let Is::AtWork(agent) = &place.is {
                if !self.places().rouse(child) {
                    return Err(SubagentError::Closing);
                }
                match self.hand(agent, &message, in_order(agent)?, Wake::Yes) {
                    // It has just come to rest: it is opened again when it is closed.
                    Err(AgentError::Disposed(_)) => {}
                    given => return Ok(given.map(|()| sent(Delivery::AtWork))?),
                }
            }
            tokio::select! {
                () = self.places().changed(child, &place) => {}
                () = cancel.cancelled() => {}
            }
        }
    }

    /// Sends the agent that has delegated to `caller` a message, for its next step. It is woken if it rests.
    ///
    /// # Errors
    /// Nobody has delegated to `caller`, or whoever did is not live here.
    pub fn report(&self, caller: &Agent, text: &str) -> Result<Sent, SubagentError> {
        let header = caller.session().header();
        let parent = header
            .parent
            .filter(|_| header.origin == Some(Origin::Subagent))
            .ok_or(SubagentError::NoParent)?;
        let text = said(text)?;
        let parent = self
            .service()
            .agent(&parent)
            .ok_or(SubagentError::ParentAway)?;
        let from = format!("Subagent {} says:", header.id);
        let content = vec![ContentBlock::text(from), ContentBlock::text(text)];
        let message = relay(self.env().fresh_id(), content, &header.id).kept();
        let is_stopped =
            self.places().is_stopped(&header.id) || self.places().is_stopped(parent.session().id());
        let wake = if is_stopped { Wake::No } else { Wake::Yes };
        let target = at_once(&parent, wake);
        let delivery = match (parent.status(), wake) {
            (AgentStatus::Running, _) => Delivery::AtWork,
            (AgentStatus::Idle, Wake::Yes) => Delivery::Woken,
            (AgentStatus::Idle, Wake::No) => Delivery::Waiting,
        };
        self.hand(&parent, &message, target, wake)?;
        Ok(Sent {
            message: message.id().to_owned(),
            delivery,
        })
    }

    /// Ends the present turn of a session below `caller`, and everything that it has delegated in the background. It is not
    /// destroyed: a continuable child can be sent more. Messages that wait for it are dropped.
    ///
    /// # Errors
    /// The session is not below `caller`; `caller` is a side session.
    pub async fn interrupt(
        &self,
        caller: &Agent,
        session: &SessionId,
    ) -> Result<Interrupted, SubagentError> {
        if caller.session().log().is_side_session() {
            return Err(SubagentError::SideSession);
        }
        if !self.is_below(caller, session).await {
            return Err(SubagentError::NotYours(session.clone()));
        }
        while let Some(place) = self.places().get(session)
            && place.is_being_opened()
        {
            self.places().changed(session, &place).await;
        }
        let Some(agent) = self.service().agent(session) else {
            return Ok(Interrupted::AtRest);
        };
        // What could not be taken off its queue waits there until it is sent more.
        let _unclear = agent.cancel(CancelCause::Parent, Queue::Clear);
        self.cancel_below(session, CancelCause::Parent);
        Ok(Interrupted::Stopping)
    }

    /// The agent on a session that wants something of another one.
    pub(super) fn caller(&self, session: &SessionId) -> Result<Agent, SubagentError> {
        let agent = self.service().agent(session);
        agent.ok_or_else(|| SubagentError::ParentUnavailable(session.clone()))
    }

    fn child_of(&self, caller: &Agent, child: &SessionId) -> Result<Known, SubagentError> {
        let session = caller.session();
        if session.log().is_side_session() {
            return Err(SubagentError::SideSession);
        }
        let mut known = children(session).into_iter();
        known
            .find(|known| known.session == *child)
            .ok_or_else(|| SubagentError::NotYours(child.clone()))
    }

    /// Whether a session is a child of `caller`, or of such a child, and so on.
    async fn is_below(&self, caller: &Agent, session: &SessionId) -> bool {
        if self.child_of(caller, session).is_ok() {
            return true;
        }
        let caller = caller.session().id().clone();
        if let Some(place) = self.places().get(session) {
            return place.is_below(&caller);
        }
        let (subagents, session) = (self.clone(), session.clone());
        let found = spawn_blocking(move || {
            let mut below = subagents.delegated(&session)?;
            while below.parent != caller {
                let above = subagents.delegated(&below.parent)?;
                // Whoever delegates is one less deep, so that the way up has an end whatever the files say.
                below = Some(above).filter(|above| above.depth < below.depth)?;
            }
            Some(())
        });
        found.await.is_ok_and(|found| found.is_some())
    }
}

/// The text of a message, if it says anything.
fn said(text: &str) -> Result<&str, SubagentError> {
    if text.trim().is_empty() {
        return Err(AgentError::EmptyMessage.into());
    }
    Ok(text)
}
