//! What happens in an agent, for whoever watches it in this process. What lasts is in the log; this is what does not.

use std::fmt;
use std::sync::Arc;

use offshoot_session::Seq;
use offshoot_tool_api::{PermissionAnswer, PermissionQuestion};

use crate::AgentError;
use crate::compaction::CompactionNotice;
use crate::driver::TurnReport;
use crate::live::StreamFrame;
use crate::retry::Retrying;

/// Whether an agent does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AgentStatus {
    /// It waits for input.
    Idle,
    /// A turn is running.
    Running,
}

/// Something that happened (`reference/agent.md` §1.14).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// It began or ceased to run.
    Status(AgentStatus),
    /// A message was queued.
    Inserted {
        /// Its id.
        message: Arc<str>,
    },
    /// A turn took a message.
    Claimed {
        /// Its id.
        message: Arc<str>,
        /// The turn.
        turn: u64,
    },
    /// A message was dropped before a turn took it.
    Discarded {
        /// Its id.
        message: Arc<str>,
    },
    /// The answer that is coming in.
    Stream(Arc<StreamFrame>),
    /// A person is asked.
    Asked(Arc<PermissionQuestion>),
    /// The question is settled.
    Decided {
        /// The question's id.
        id: Arc<str>,
        /// How.
        answer: PermissionAnswer,
        /// The event that says so.
        seq: Seq,
    },
    /// A failed attempt will be made again.
    Retrying(Arc<Retrying>),
    /// Older history gives way to a summary, or should have.
    Compaction(CompactionNotice),
    /// A turn has ended.
    TurnEnded(Arc<TurnReport>),
    /// The driver could not go on.
    Failed(Arc<AgentError>),
}

/// Somebody who watches an agent.
///
/// Told of everything in the order in which it happened, never of two things at once, and without anything being locked:
/// it may call the agent's handle, and hears of what that brings about when it has returned. It must not wait for the agent,
/// and whoever takes long holds it up; [`Agent::subscribe`](crate::Agent::subscribe) is for those who do. What it panics
/// with is its own affair: the agent goes on.
pub trait AgentObserver: Send + Sync {
    /// Something happened.
    fn notice(&self, notice: &Notice);
}

impl<F: Fn(&Notice) + Send + Sync> AgentObserver for F {
    fn notice(&self, notice: &Notice) {
        self(notice);
    }
}

impl fmt::Debug for dyn AgentObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentObserver")
    }
}
