//! Which tools the model has been told of, when they change in the middle of a conversation (`reference/agent.md` §1.6,
//! `developer/message`).
//!
//! A series of requests begins with the tools of its header. What is added and removed later is said in the conversation,
//! on routes that can; so the beginning stays what it was. A tool that is declared otherwise than before cannot be said that
//! way: then the header begins anew.

use std::collections::BTreeSet;

use offshoot_model::ToolSpec;
use offshoot_session::{EventKind, EventLog, Seq, StepRef};
use serde::{Deserialize, Serialize};

use crate::AgentError;
use crate::driver::Driver;
use crate::events::{SourceKind, StoredHeader, read, shown};

/// What is different about the tools.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ToolChange {
    added: Vec<String>,
    removed: Vec<String>,
}

#[derive(Serialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
enum Block<'a> {
    ToolAddition { tool_name: &'a str },
    ToolRemoval { tool_name: &'a str },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeveloperMessage<'a> {
    turn: u64,
    step: u64,
    message: DeveloperBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    header_seq: Option<Seq>,
}

#[derive(Serialize)]
struct DeveloperBody<'a> {
    id: String,
    role: &'static str,
    source: SourceKind,
    content: Vec<Block<'a>>,
}

impl Driver {
    /// Tells the model how its tools have changed. `header` is the event that declares those that are new.
    pub(crate) fn log_tool_change(
        &self,
        at: StepRef,
        change: &ToolChange,
        header: Seq,
    ) -> Result<(), AgentError> {
        let added = change
            .added
            .iter()
            .map(|tool_name| Block::ToolAddition { tool_name });
        let removed = change
            .removed
            .iter()
            .map(|tool_name| Block::ToolRemoval { tool_name });
        let message = DeveloperBody {
            id: self.env.fresh_id(),
            role: "developer",
            source: SourceKind {
                kind: "tool-registry",
            },
            content: added.chain(removed).collect(),
        };
        let data = DeveloperMessage {
            turn: at.turn,
            step: at.step,
            message,
            header_seq: (!change.added.is_empty()).then_some(header),
        };
        self.append(shown(EventKind::DeveloperMessage, &data))?;
        Ok(())
    }
}

/// What the model has to be told so that it knows of `tools`; `None` if that is nothing, or if it cannot be said and the
/// header has to begin anew.
pub(crate) fn change(log: &EventLog, tools: &[ToolSpec]) -> Option<ToolChange> {
    let Told { declared, names } = told(log)?;
    if is_declared_otherwise(&declared, tools) {
        return None;
    }
    let added = tools.iter().filter(|tool| !names.contains(&tool.name));
    let is_gone = |name: &&String| !tools.iter().any(|tool| tool.name == **name);
    let change = ToolChange {
        added: added.map(|tool| tool.name.clone()).collect(),
        removed: names.iter().filter(is_gone).cloned().collect(),
    };
    (!change.added.is_empty() || !change.removed.is_empty()).then_some(change)
}

/// What the model knows of its tools.
#[derive(Default)]
struct Told {
    /// As the last header declares them.
    declared: Vec<ToolSpec>,
    /// Those that it has been told of, in the order in which it was.
    names: Vec<String>,
}

/// `None` if there is no header, or one that cannot be read.
fn told(log: &EventLog) -> Option<Told> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Logged {
        reason: String,
        #[serde(default)]
        starts_series: bool,
    }
    #[derive(Deserialize)]
    struct Developer {
        message: Content,
    }
    #[derive(Deserialize)]
    struct Content {
        content: Vec<Change>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Change {
        #[serde(rename = "type")]
        kind: String,
        #[serde(default)]
        tool_name: String,
    }
    let mut told: Option<Told> = None;
    for event in log.events() {
        match event.kind() {
            EventKind::RequestHeader => {
                let header = read::<StoredHeader>(event).zip(read::<Logged>(event));
                let Some((StoredHeader { header }, logged)) = header else {
                    told = None;
                    continue;
                };
                let begins = logged.starts_series || logged.reason == "series";
                let names = match told.take() {
                    Some(before)
                        if !begins && !is_declared_otherwise(&before.declared, &header.tools) =>
                    {
                        before.names
                    }
                    _ => names_of(&header.tools),
                };
                told = Some(Told {
                    declared: header.tools,
                    names,
                });
            }
            EventKind::DeveloperMessage => {
                let changes = read::<Developer>(event).map(|said| said.message.content);
                let Some(told) = &mut told else { continue };
                for change in changes.into_iter().flatten() {
                    told.names.retain(|name| *name != change.tool_name);
                    if change.kind == "tool-addition" {
                        told.names.push(change.tool_name);
                    }
                }
            }
            _ => {}
        }
    }
    let mut told = told?;
    // What was not said in the conversation is known from the header that changed.
    let set = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
    let declared = names_of(&told.declared);
    if set(&declared) != set(&told.names) {
        told.names = declared;
    }
    Some(told)
}

fn names_of(tools: &[ToolSpec]) -> Vec<String> {
    tools.iter().map(|tool| tool.name.clone()).collect()
}

fn is_declared_otherwise(before: &[ToolSpec], after: &[ToolSpec]) -> bool {
    after.iter().any(|tool| {
        let earlier = before.iter().find(|earlier| earlier.name == tool.name);
        earlier.is_some_and(|earlier| earlier != tool)
    })
}
