//! The children of a session: what its own catalog says of them, and how they are.

use std::fmt;

use offshoot_session::{EventKind, LiveSession, LogOffset, Origin, SessionId};
use serde::Deserialize;

use super::collapse::{RunEnd, StopReason};
use super::request::Mode;
use super::service::Subagents;
use crate::agent::Agent;
use crate::events::read;
use crate::notices::AgentStatus;

/// A child and how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentStatus {
    /// Its session.
    pub session: SessionId,
    /// Whose child it is.
    pub parent: SessionId,
    /// How long it lives.
    pub mode: Mode,
    /// What it is called.
    pub label: Option<String>,
    /// How it is.
    pub state: SubagentState,
}

/// How a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SubagentState {
    /// It works.
    Running,
    /// It has an agent and does nothing: what it has delegated itself is at work, perhaps.
    Idle,
    /// It has come to rest.
    Settled(StopReason),
    /// The process that it worked in has ended before it had come to rest, or another process is on it.
    Interrupted,
    /// It was created and has done nothing.
    Unused,
    /// Its session cannot be read.
    Unreadable,
}

impl SubagentState {
    pub(super) fn of(agent: &Agent) -> Self {
        match agent.status() {
            AgentStatus::Running => Self::Running,
            AgentStatus::Idle => Self::Idle,
        }
    }
}

impl SubagentState {
    /// The stable name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Idle => "idle",
            Self::Settled(_) => "settled",
            Self::Interrupted => "interrupted",
            Self::Unused => "unused",
            Self::Unreadable => "unreadable",
        }
    }
}

impl fmt::Display for SubagentState {
    /// A few words for the model.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settled(stop) => write!(f, "settled ({})", stop.as_str()),
            other => f.write_str(other.as_str()),
        }
    }
}

/// What a catalog says of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) session: SessionId,
    /// `None` in a catalog that was completed from files that did not say it.
    pub(super) mode: Option<Mode>,
    pub(super) label: Option<String>,
}

/// The children of a session, in the order in which they were created. Those of the session that it was forked from are not
/// its children.
pub(super) fn children(session: &LiveSession) -> Vec<Known> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Fact {
        child_id: String,
        mode: String,
        #[serde(default)]
        label: Option<String>,
    }
    let own = session.lock().inherited_event_count();
    let log = session.log();
    let facts = log
        .events_from(own)
        .filter(|event| *event.kind() == EventKind::SubagentCatalog)
        .filter_map(|event| read::<Fact>(event));
    let known = facts.map(|fact| Known {
        mode: [Mode::OneShot, Mode::Continuable]
            .into_iter()
            .find(|mode| mode.as_str() == fact.mode),
        session: SessionId::new(fact.child_id),
        label: fact.label,
    });
    known.collect()
}

/// Whose child a session is, and how many delegations lie above it.
pub(super) struct DelegatedBy {
    pub(super) parent: SessionId,
    pub(super) depth: u64,
}

impl Subagents {
    /// How a session is that nobody has to be asked about but its agent, or else its file.
    pub(super) fn state_of(&self, session: &SessionId) -> SubagentState {
        if let Some(agent) = self.service().agent(session) {
            return SubagentState::of(&agent);
        }
        let Ok(found) = self.service().read(session) else {
            return SubagentState::Unreadable;
        };
        let log = &found.stored.log;
        if log.open_tail().turn().is_some() {
            return SubagentState::Interrupted;
        }
        let own: LogOffset = found.stored.inherited;
        let mut turns = log
            .events_from(own)
            .filter(|event| *event.kind() == EventKind::TurnEnd);
        if turns.next().is_none() {
            return SubagentState::Unused;
        }
        RunEnd::stop_of(log, own).map_or(SubagentState::Interrupted, SubagentState::Settled)
    }

    /// Whose child a session is, if it is one.
    pub(super) fn delegated(&self, session: &SessionId) -> Option<DelegatedBy> {
        let header = match self.service().agent(session) {
            Some(agent) => agent.session().header(),
            None => self.service().read(session).ok()?.stored.header,
        };
        let is_child = header.origin == Some(Origin::Subagent);
        header
            .parent
            .filter(|_| is_child)
            .map(|parent| DelegatedBy {
                parent,
                depth: header.delegation_depth,
            })
    }
}
