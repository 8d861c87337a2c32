//! Logs and output without what differs from run to run (`reference/agent.md` §8.2).
//!
//! What a run cannot repeat is taken away or called by a name: when something happened and how long it took, the ids that
//! the run has made, where it ran, and in how many pieces an answer came in. What is left of two runs of a scenario is the
//! same text, if they came to the same. Whoever normalises such a text again gets it as it is, and an event whose type nobody
//! knows keeps whatever it says.

mod ids;
mod order;
mod stream;

use std::collections::BTreeMap;

use offshoot_session::SessionId;
use serde_json::Value;

use crate::names::SessionName;
use crate::wiring::Place;
use ids::Ids;

/// Makes the texts that are compared. One for all of a scenario: an id is called the same wherever it stands.
#[derive(Debug)]
pub(crate) struct Normaliser {
    ids: Ids,
    pins_header: bool,
}

/// A log on its way: the header and the rows as JSON.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Log {
    pub(crate) header: Value,
    pub(crate) rows: Vec<Value>,
}

/// A line that is not JSON, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is not JSON: {reason}")]
pub struct NotJson {
    /// Which line.
    pub line: usize,
    /// Why not.
    pub reason: String,
}

/// Where there is no use in comparing what a moment was: times, and how long something took.
const MOMENTS: [&str; 8] = [
    "time",
    "createdAt",
    "childCreatedAt",
    "updatedAt",
    "clearedAt",
    "acceptedAt",
    "durationMs",
    "delayMs",
];

impl Normaliser {
    /// For a run in a place, with the names of its sessions.
    pub(crate) fn new(place: &Place, sessions: &BTreeMap<SessionId, SessionName>) -> Self {
        Self {
            ids: Ids::new(place, sessions),
            pins_header: false,
        }
    }

    /// Leaves system prompts and tool schemas as they are.
    pub(crate) const fn pinning_headers(mut self) -> Self {
        self.pins_header = true;
        self
    }

    /// A log: its header line and its rows, one a line.
    ///
    /// # Errors
    /// A line that is no JSON.
    pub(crate) fn log(&mut self, text: &str) -> Result<String, NotJson> {
        let mut lines = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let value = serde_json::from_str(line).map_err(|error| NotJson {
                line: at + 1,
                reason: error.to_string(),
            })?;
            lines.push(value);
        }
        if lines.is_empty() {
            return Ok(String::new());
        }
        let rows = lines.split_off(1);
        let header = lines.pop().unwrap_or_default();
        let mut log = Log { header, rows };
        order::canonical(&mut log, &self.ids);
        let mut out = String::new();
        self.value(&mut log.header);
        push_line(&mut out, &log.header);
        for mut row in log.rows {
            self.row(&mut row);
            push_line(&mut out, &row);
        }
        Ok(out)
    }

    /// Something that a step came to.
    pub(crate) fn output(&mut self, mut line: Value) -> String {
        self.value(&mut line);
        let mut out = String::new();
        push_line(&mut out, &line);
        out
    }

    fn row(&mut self, row: &mut Value) {
        let kind = row["type"].as_str().unwrap_or_default().to_owned();
        if let Some(row) = row.as_object_mut() {
            // A row's number is its line, and an event that is missing must not change all that follow it.
            row.shift_remove("seq");
            row.shift_remove("time");
        }
        if !self.pins_header {
            match kind.as_str() {
                "system/message" => set(row, "/data/message/content", "{{system}}"),
                "request/header" => set(row, "/data/header/tools", "{{tools}}"),
                _ => {}
            }
        }
        if matches!(kind.as_str(), "assistant/message" | "assistant/attempt")
            && let Some(records) = row.pointer_mut("/data/stream")
        {
            stream::canonical(records);
        }
        if matches!(kind.as_str(), "compaction/summary" | "compaction/prune") {
            // Estimates of texts that paths are part of.
            set(row, "/data/shadowedTokenCount", 0);
        }
        self.ids.learn(&kind, row);
        self.value(row);
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => self.ids.replace(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(members) => {
                for (name, member) in members.iter_mut() {
                    if MOMENTS.contains(&name.as_str()) && member.is_number() {
                        *member = 0.into();
                    }
                    self.value(member);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Puts something in the place of a member that is there.
fn set(row: &mut Value, pointer: &str, to: impl Into<Value>) {
    if let Some(member) = row.pointer_mut(pointer) {
        *member = to.into();
    }
}

fn push_line(out: &mut String, value: &Value) {
    out.push_str(&value.to_string());
    out.push('\n');
}

#[cfg(test)]
mod tests;
