//! What happens in an agent, for whoever watches it in this process. What lasts is in the log; this is what does not.

use std::fmt;

use offshoot_session::Seq;

use crate::AgentError;
use crate::driver::TurnReport;
use crate::live::StreamFrame;
use offshoot_tool_api::{PermissionAnswer, PermissionQuestion};

/// Whether an agent does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AgentStatus {
    /// It waits for input.
    Idle,
    /// A turn is running.
    Running,
}

/// Something that happened (`reference/agent.md` §1.14).
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// It began or ceased to run.
    Status(AgentStatus),
    /// A message was queued.
    Inserted {
        /// Its id.
        message: &'a str,
    },
    /// A turn took a message.
    Claimed {
        /// Its id.
        message: &'a str,
        /// The turn.
        turn: u64,
    },
    /// A message was dropped before a turn took it.
    Discarded {
        /// Its id.
        message: &'a str,
    },
    /// The answer that is coming in.
    Stream(&'a StreamFrame),
    /// A person is asked.
    Asked(&'a PermissionQuestion),
    /// The question is settled.
    Decided {
        /// The question's id.
        id: &'a str,
        /// How.
        answer: PermissionAnswer,
        /// The event that says so.
        seq: Seq,
    },
    /// A turn has ended.
    TurnEnded(&'a TurnReport),
    /// The driver could not go on.
    Failed(&'a AgentError),
}

/// Somebody who watches an agent.
///
/// Called in order, on the agent's own task: whoever takes long holds it up. It may call the agent's handle, but must not
/// wait for it. What it panics with is its own affair: the agent goes on.
pub trait AgentObserver: Send + Sync {
    /// Something happened.
    fn notice(&self, notice: &Notice<'_>);
}

impl<F: Fn(&Notice<'_>) + Send + Sync> AgentObserver for F {
    fn notice(&self, notice: &Notice<'_>) {
        self(notice);
    }
}

impl fmt::Debug for dyn AgentObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentObserver")
    }
}
