//! Which live session answers from which script (`reference/agent.md` §8.1).
//!
//! Sessions that a scenario names are bound by their name. A subagent has none while it runs, and several may start at the
//! same time in any order; so it is bound by what does not depend on that: its caller, the tool call that has started it, and
//! which use of that call's id it is, since providers use ids again.
//!
//! Which recording that is stands in the caller's recorded log, behind its inherited cut:
//!
//! 1. The result of the call names the child (`meta.subagent.sessionId`).
//! 2. Where it does not, because another program has recorded it or the caller was killed before the result: a
//!    `subagent/catalog` belongs to the earliest delegating call that was waiting then and that has no child yet.
//! 3. Children that are not in the catalog either, in the order in which they were created and then of their ids, belong to the
//!    remaining delegating calls in the order of the log.
//!
//! Calls that only an override makes have started the session that is called like the caller with their number among all its
//! delegating calls behind it: `main.2` for the second one.

use std::collections::BTreeMap;
use std::fmt;

use offshoot_format::StoredSession;
use offshoot_session::{EventKind, Origin, Seq, SessionId};
use serde::{Deserialize, Serialize};

use crate::script::Script;

/// What a live session is called, whenever and in whatever order it was started.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SessionKey {
    /// By a scenario: `main`, or a fork or a side session.
    Named(String),
    /// By the call that has started it.
    Delegated {
        /// Who has made the call.
        parent: Box<Self>,
        /// The call.
        call_id: String,
        /// How many children calls of this caller with this id had started before.
        nth: usize,
    },
}

impl SessionKey {
    /// The key of a session that a scenario names.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self::Named(name.into())
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Delegated {
                parent,
                call_id,
                nth: 0,
            } => write!(f, "child of {parent} by call {call_id}"),
            Self::Delegated {
                parent,
                call_id,
                nth,
            } => write!(f, "child of {parent} by use {} of call {call_id}", nth + 1),
        }
    }
}

/// The children of one script: by the call's id and the number of its use, the place of the child's script. `None` for a
/// child that was recorded without a script.
pub(crate) type Children = BTreeMap<(String, usize), Option<usize>>;

/// Whose children are whose, script by script.
pub(crate) fn children(scripts: &[Script]) -> Vec<Children> {
    scripts
        .iter()
        .map(|script| {
            let recording = script.recording();
            let mut children = recording.map_or_else(Children::new, |recording| {
                recorded_children(recording, scripts)
            });
            add_written(&mut children, script, scripts);
            children
        })
        .collect()
}

/// A tool call of a recorded log that may have started a child.
struct Call {
    seq: Seq,
    id: String,
    delegates: bool,
    result: Option<Seq>,
    child: Option<SessionId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredCall {
    call_id: String,
    name: String,
}

#[derive(Deserialize)]
struct StoredResult {
    message: Answered,
    #[serde(default)]
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Answered {
    source: ResultSource,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultSource {
    call_id: String,
}

/// Other tools have other members; whatever they are, they say nothing of a child.
#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    subagent: Option<Child>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Child {
    session_id: SessionId,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    child_id: SessionId,
}

/// Whether a tool of this name starts children: ours, or one of the programs whose sessions are read here.
fn delegates(tool: &str) -> bool {
    matches!(tool, "delegate" | "workflow" | "subagent") || tool.starts_with("subagent_")
}

fn recorded_children(recording: &StoredSession, scripts: &[Script]) -> Children {
    let mut calls: Vec<Call> = Vec::new();
    let mut listed: Vec<(Seq, SessionId)> = Vec::new();
    for event in recording.log.events_from(recording.inherited) {
        let seq = event.seq();
        match event.kind() {
            EventKind::ToolCall => calls.extend(event.parse().ok().map(|call: StoredCall| Call {
                seq,
                delegates: delegates(&call.name),
                id: call.call_id,
                result: None,
                child: None,
            })),
            EventKind::ToolResult => {
                // A result that says more than is known here says at least which call it answers.
                let Ok(result) = event.parse::<StoredResult>() else {
                    continue;
                };
                let waits = |call: &&mut Call| {
                    call.result.is_none() && call.id == result.message.source.call_id
                };
                if let Some(call) = calls.iter_mut().find(waits) {
                    call.result = Some(seq);
                    let child = result.meta.and_then(|meta| meta.subagent);
                    call.child = child.map(|child| child.session_id);
                }
            }
            EventKind::SubagentCatalog => {
                let entry = event.parse().ok();
                listed.extend(entry.map(|entry: Listed| (seq, entry.child_id)));
            }
            _ => {}
        }
    }
    calls.retain(|call| call.delegates || call.child.is_some());
    listed.retain(|(_, child)| !is_known(&calls, child));
    for (seq, child) in listed {
        let waited = |call: &&mut Call| {
            let is_open = call.seq < seq && call.result.is_none_or(|result| result > seq);
            is_open && call.child.is_none()
        };
        if let Some(call) = calls.iter_mut().find(waited) {
            call.child = Some(child);
        }
    }
    for child in by_age(recording, scripts) {
        if !is_known(&calls, &child)
            && let Some(call) = calls.iter_mut().find(|call| call.child.is_none())
        {
            call.child = Some(child);
        }
    }
    numbered(calls, scripts)
}

fn is_known(calls: &[Call], child: &SessionId) -> bool {
    calls.iter().any(|call| call.child.as_ref() == Some(child))
}

/// The recorded subagents of a session, as they were created.
fn by_age(parent: &StoredSession, scripts: &[Script]) -> Vec<SessionId> {
    let headers = scripts.iter().filter_map(Script::recording);
    let headers = headers.map(|recording| &recording.header);
    let mut children: Vec<_> = headers
        .filter(|header| {
            header.origin == Some(Origin::Subagent)
                && header.parent.as_ref() == Some(&parent.header.id)
        })
        .map(|header| (header.created_at, header.id.clone()))
        .collect();
    children.sort();
    children.into_iter().map(|(_, id)| id).collect()
}

fn numbered(calls: Vec<Call>, scripts: &[Script]) -> Children {
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    let mut children = Children::new();
    for call in calls {
        let Some(child) = call.child else { continue };
        let used = uses.entry(call.id.clone()).or_default();
        let recorded = |script: &Script| {
            let recording = script.recording();
            recording.is_some_and(|recording| recording.header.id == child)
        };
        children.insert((call.id, *used), scripts.iter().position(recorded));
        *used += 1;
    }
    children
}

/// Adds the children of calls that were never recorded.
fn add_written(children: &mut Children, caller: &Script, scripts: &[Script]) {
    let calls = caller.calls().filter(|(_, tool)| delegates(tool));
    let known: Vec<String> = children.keys().map(|(id, _)| id.clone()).collect();
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for ((id, _), number) in calls.zip(1_usize..) {
        let name = format!("{}.{number}", caller.name());
        let script = scripts.iter().position(|script| script.name() == name);
        if script.is_none() || known.iter().any(|known| known == id) {
            continue;
        }
        let used = uses.entry(id).or_default();
        children.insert((id.to_owned(), *used), script);
        *used += 1;
    }
}
