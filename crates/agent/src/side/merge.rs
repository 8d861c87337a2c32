//! How a note comes into the parent of a side session (`reference/agent.md` §5.3 and §5.4).
//!
//! It does not go to the end of the parent's log, where it might come between a call and its result. It waits in the
//! durable inbox for the next step, kept, and wakes nobody: the step that claims it makes exactly one `user/message` of it,
//! in the place where a step's messages belong. A cancellation leaves it there, and a turn that ends before it was said puts
//! it back.
//!
//! A merge can be made again at any time, also after a crash of which nobody knows what it has left: the message has a name
//! that follows from the handback's, and that is looked for among what waits and what was said.

use offshoot_session::{Seq, SessionId};
use offshoot_store::StoreError;

use super::{Handback, SideError};
use crate::AgentError;
use crate::agent::Agent;
use crate::inbox::{self, InboxTarget, Sent};
use crate::input::Input;
use crate::service::SessionService;

/// Where a note stands in the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// It waits for the parent's next step.
    Queued,
    /// The parent has it in its conversation.
    Logged {
        /// As this event.
        seq: Seq,
    },
}

impl From<Sent> for Merged {
    fn from(sent: Sent) -> Self {
        match sent {
            Sent::Waits => Self::Queued,
            Sent::Said(seq) => Self::Logged { seq },
        }
    }
}

impl SessionService {
    /// Hands a note back to the parent, for its next step. The parent may be running here, or is stored and open nowhere;
    /// then it is opened, which repairs what a crash has left, and closed again. The note is durable when this returns.
    ///
    /// Making the same merge again adds nothing and says where the note is by now. For that the parent may also be open
    /// elsewhere.
    ///
    /// # Errors
    /// As [`Self::open`]: the parent is gone, cannot go on, or is open in another process (`SESSION_ALREADY_OWNED`) or
    /// without an agent in this one; then nothing was written. Or storage failed: then the note may be there or not, and the
    /// merge can be made again.
    pub async fn merge(&self, handback: &Handback) -> Result<Merged, AgentError> {
        let input = handback.input();
        match self.agent(handback.parent()) {
            Some(agent) => merge_into(&agent, &input).await,
            None => self.merge_stored(handback.parent(), &input),
        }
    }

    fn merge_stored(&self, parent: &SessionId, input: &Input) -> Result<Merged, AgentError> {
        // A merge that is made again leaves no trace, and opening a session does.
        if let Some(sent) = inbox::sent(&self.read(parent)?.stored.log, input.id()) {
            return Ok(sent.into());
        }
        let sent = self.change_stored(parent, |core| {
            inbox::insert_once(core, InboxTarget::NextStep, input)
        });
        Ok(sent.map_err(explained)?.into())
    }
}

async fn merge_into(parent: &Agent, input: &Input) -> Result<Merged, AgentError> {
    let sent = parent.inject_once(input)?;
    // Also what was sent before, by somebody who has not heard whether it was stored.
    parent.flush().await?;
    Ok(sent.into())
}

/// A lock is in the way of a merge, and a fork is no way around it.
fn explained(error: AgentError) -> AgentError {
    match error {
        AgentError::Store(store) if matches!(*store, StoreError::AlreadyOwned { .. }) => {
            let reason = store.to_string();
            SideError::ParentElsewhere { reason }.into()
        }
        other => other,
    }
}
