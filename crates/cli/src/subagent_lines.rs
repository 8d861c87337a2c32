//! What a log says of the subagents of its session, in lines for a person: who has started, and how they have come to rest.
//! What they say and do is in their own logs.

use std::collections::BTreeMap;

use offshoot_session::{Body, Event, EventKind};
use serde::Deserialize;

use crate::text;

/// The names of the subagents that a run has seen, by the ids of their sessions.
#[derive(Debug, Default)]
pub(crate) struct SubagentLines {
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Catalog {
    child_id: String,
    label: Option<String>,
}

/// The part of a result that tells of a subagent.
#[derive(Deserialize)]
struct Settled {
    meta: Meta,
}

#[derive(Deserialize)]
struct Meta {
    subagent: OfResult,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfResult {
    session_id: String,
    stop_reason: Option<String>,
}

/// The part of a message that tells of a subagent which nobody has waited for.
#[derive(Deserialize)]
struct Notified {
    source: Source,
}

#[derive(Deserialize)]
struct Source {
    summary: String,
}

impl SubagentLines {
    /// What an event says of a subagent, if it says anything.
    pub(crate) fn line(&mut self, event: &Event) -> Option<String> {
        let line = match event.body() {
            Body::ToolResult { .. } => {
                let Settled { meta } = event.parse().ok()?;
                let OfResult {
                    session_id,
                    stop_reason,
                } = meta.subagent;
                format!(
                    "{}: {}",
                    self.name(&session_id),
                    text::shorten(&stop_reason?)
                )
            }
            Body::UserMessage(message) if &*message.source == "subagent-settled" => {
                let Notified { source } = event.parse().ok()?;
                // It names the subagent, so it is whole or says nothing.
                let words: Vec<&str> = source.summary.split_whitespace().collect();
                text::printable(&words.join(" "))
            }
            _ if *event.kind() == EventKind::SubagentCatalog => {
                let Catalog { child_id, label } = event.parse().ok()?;
                if let Some(label) = label {
                    self.labels.insert(child_id.clone(), label);
                }
                format!("{} has started", self.name(&child_id))
            }
            _ => return None,
        };
        Some(format!("· {line}"))
    }

    fn name(&self, id: &str) -> String {
        let label = self.labels.get(id);
        let label = label.map(|label| format!(" ({})", text::shorten(label)));
        format!(
            "subagent {}{}",
            text::shorten(id),
            label.unwrap_or_default()
        )
    }
}
