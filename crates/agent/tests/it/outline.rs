//! Logs as a person would tell them: one line an event, with what matters of it and without names and times.

use std::fmt::Write as _;

use offshoot_session::{Event, EventKind, EventLog, LogOffset, SurfaceOp};
use serde_json::Value;

use crate::support::data;

/// The whole log.
pub(crate) fn outline(log: &EventLog) -> String {
    outline_from(log, LogOffset::START)
}

/// The log from an offset on, with the seqs of its events.
pub(crate) fn numbered_from(log: &EventLog, from: LogOffset) -> String {
    let lines = outline_from(log, from);
    let seqs = log.events_from(from).map(|event| event.seq());
    let mut text = String::new();
    for (seq, line) in seqs.zip(lines.lines()) {
        writeln!(text, "{seq} {line}").unwrap();
    }
    text
}

/// The log from an offset on.
pub(crate) fn outline_from(log: &EventLog, from: LogOffset) -> String {
    let mut text = String::new();
    for event in log.events_from(from) {
        let line = format!("{} {}{}", event.kind(), detail(event), replaces(event));
        writeln!(text, "{}", line.trim_end()).unwrap();
    }
    text
}

fn detail(event: &Event) -> String {
    let data = data(event);
    let at = || format!("{}.{}", data["turn"], data["step"]);
    match event.kind() {
        EventKind::TurnStart => data["turn"].to_string(),
        EventKind::TurnEnd => format!("{} {}", data["turn"], reason(&data["reason"])),
        EventKind::StepStart | EventKind::StepEnd => at(),
        EventKind::InboxSpliced => splice(&data),
        EventKind::UserMessage => match str_of(&data["source"]["kind"]) {
            "user" => quoted(&data),
            other => format!("{other} {}", str_of(&data["source"]["act"]))
                .trim_end()
                .to_owned(),
        },
        EventKind::RequestHeader => str_of(&data["reason"]).to_owned(),
        EventKind::AssistantMessage => {
            let interrupted = if data["interrupted"] == true {
                " interrupted"
            } else {
                ""
            };
            format!("{} {}{interrupted}", at(), blocks(&data["message"]))
        }
        EventKind::AssistantAttempt => at(),
        EventKind::ToolCall => format!("{} {}", str_of(&data["callId"]), str_of(&data["name"])),
        EventKind::ToolResult => format!(
            "{} {}",
            str_of(&data["message"]["toolCallId"]),
            data["error"]["code"].as_str().unwrap_or("ok")
        ),
        EventKind::CompactionStart => data["turn"].to_string(),
        EventKind::CompactionEnd => {
            format!("{} {}", data["turn"], str_of(&data["error"]))
        }
        EventKind::CompactionSummary | EventKind::CompactionPrune => {
            let text = str_of(&data["summary"][0]["text"]);
            format!("of {} {text}", data["shadowedSeqs"])
        }
        EventKind::LlmRetry => format!("{} {}ms", data["retry"], data["delayMs"]),
        EventKind::LlmRetryStarted => data["retry"].to_string(),
        _ => String::new(),
    }
}

/// What a message stands in for, and what it cites.
fn replaces(event: &Event) -> String {
    match event.surface_op() {
        Some(SurfaceOp::Replace { start, end }) => {
            let cited = event.sources().unwrap_or_default().iter();
            let cited: Vec<String> = cited.map(ToString::to_string).collect();
            format!(" for {start}..{end} citing {}", cited.join(","))
        }
        _ => String::new(),
    }
}

fn reason(reason: &Value) -> String {
    let kind = str_of(&reason["kind"]);
    let more = match kind {
        "aborted" => str_of(&reason["reason"]["kind"]),
        "error" => str_of(&reason["error"]["code"]),
        _ => "",
    };
    format!("{kind} {more}").trim_end().to_owned()
}

fn splice(data: &Value) -> String {
    let inserted: Vec<String> = data["inserted"]
        .as_array()
        .unwrap()
        .iter()
        .map(quoted)
        .collect();
    let mut text = format!("{} at {}", str_of(&data["target"]), data["start"]);
    if let Some(removed) = data["removedCount"].as_u64() {
        write!(text, " -{removed}").unwrap();
    }
    if !inserted.is_empty() {
        write!(text, " +{}", inserted.join(" +")).unwrap();
    }
    if let Some(outcome) = data["outcome"].as_str() {
        write!(text, " {outcome}").unwrap();
    }
    text
}

fn quoted(message: &Value) -> String {
    let text = str_of(&message["content"][0]["text"]);
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

fn blocks(message: &Value) -> String {
    let blocks = message["content"].as_array().unwrap().iter();
    let told = blocks.map(|block| match str_of(&block["type"]) {
        "tool-call" => format!("{}({})", str_of(&block["name"]), str_of(&block["id"])),
        kind => format!("{kind} {:?}", str_of(&block["text"])),
    });
    format!("[{}]", told.collect::<Vec<_>>().join(", "))
}

fn str_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
