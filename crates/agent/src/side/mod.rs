//! Side sessions: a conversation beside another one, which explains and does not act (`reference/agent.md` §5, with the
//! decisions of §5.4).
//!
//! A person wants to ask something about a running conversation without disturbing it. So the conversation is forked where
//! it was last at rest ([`cut`]), and the fork is told that it is a side session ([`framing`]). It is an ordinary session in
//! every other respect: its own file, its own agent, the parent's system prompt and tools, so that a provider's cache of the
//! parent's requests serves the child as well. The parent goes on meanwhile; its log is only read.
//!
//! ```text
//! parent   … turn 3 ─┬─ turn 4, running …
//!                    └─ session/end-seed · framing · turn 4 …          the side session
//! ```
//!
//! **Which session is one** is a fold of its log and nothing else: the last *framing* or *promote* message decides
//! ([`EventLog::is_side_session`](offshoot_session::EventLog::is_side_session)). So it stays one through restarts, forks and
//! compactions, and it is one for exactly as long as its model has been told so.
//!
//! **Where the framing stands.** It is the child's first own message. Behind a prefix that begins with a system prompt it is
//! appended right behind the seed. Where no step has been made yet there is no prompt, and none may stand behind a message;
//! there the framing waits in the child's inbox, kept, and the first step writes the prompt and then the framing.
//!
//! **What it may do** is decided by the driver of every agent ([`gate`]): a call runs only if its tool declares that it only
//! looks. No rule, hook, answer or permission mode loosens that. [`promote`] ends it, by a message that tells the model.
//!
//! **What goes back** is one note ([`handback`]), bounded and named, that comes into the parent with its next step ([`merge`])
//! and decides nothing about what the parent is.
//!
//! **Invariant:** a side session appears in the store with its framing, or with the inbox that holds it, in one durable step;
//! there is no moment at which it exists without.

mod attach;
mod cut;
mod error;
mod framing;
mod gate;
mod handback;
mod merge;
mod promote;

use offshoot_session::{Seq, SessionId};
use offshoot_store::ReadSession;

use crate::AgentError;
use crate::changes::ChangedFiles;
use crate::service::Attached;

pub use error::SideError;
pub(crate) use gate::refusal;
pub use handback::{HANDBACK_MAX_CHARS, Handback, handback_request};
pub use merge::Merged;
pub use promote::{Promoted, is_side};

/// Which side session is wanted. The default is one at the latest completed boundary, with an id of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SideRequest {
    /// An event of the source. The cut is there if no turn is open at it, and else the end of its turn with what follows
    /// that by itself; `None` is the last completed turn, or nothing if there is none.
    pub at: Option<Seq>,
    /// The id that the child shall have. Who asks again with the same one gets the same child, so that a request can be
    /// repeated when nobody knows what became of it.
    pub child: Option<SessionId>,
}

impl SideRequest {
    /// Where a side session of this source would begin: the last event that it would inherit, or `None` if it would inherit
    /// nothing.
    ///
    /// # Errors
    /// `INVALID_BOUNDARY`, `SIDE_CUT_UNAVAILABLE`, `NOT_CONTINUABLE`: as when it is made.
    pub fn cut_in(&self, source: &ReadSession) -> Result<Option<Seq>, AgentError> {
        let stored = &source.stored;
        cut::cut(&stored.header.id, &stored.log, self.at)
    }
}

/// A side session, stored and attached.
#[derive(Debug)]
pub struct SideSession {
    /// The child: what an agent is put on.
    pub attached: Attached,
    /// The last inherited event. `None`: no turn of the source had ended, and the child has inherited nothing.
    pub cut: Option<Seq>,
    /// Where its framing is.
    pub framing: Framing,
    /// The source was compacted: the child has inherited summaries in place of turns.
    pub summarised: bool,
    /// What the source has done to files behind the cut: the child does not remember it and finds it all the same.
    pub changed: ChangedFiles,
    /// Whether it was made now. It was there already if the request was repeated.
    pub is_new: bool,
}

/// Where the message is that tells a model that it is in a side session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// It is this event.
    Logged(Seq),
    /// It waits in the inbox: the first step says it, behind the system prompt.
    Waiting,
}
