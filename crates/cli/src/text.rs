//! How events look to a person: one line each.

use offshoot_session::{Body, Event, EventKind, EventLog};
use serde_json::Value;

const WIDTH: usize = 90;

/// A moment as `2026-11-30 21:37:14Z`.
pub(crate) fn moment(millis: i64) -> String {
    match jiff::Timestamp::from_millisecond(millis) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
        Err(_) => format!("{millis} ms"),
    }
}

/// One line of a ledger.
pub(crate) fn ledger_line(event: &Event) -> String {
    let line = format!(
        "{:>6}  {:<22} {}",
        event.seq(),
        event.kind().as_str(),
        summary(event)
    );
    line.trim_end().to_owned()
}

/// What an event says, in a few words.
pub(crate) fn summary(event: &Event) -> String {
    let text = match event.body() {
        Body::TurnStart { turn } => format!("turn {turn}"),
        Body::TurnEnd { turn, reason } => format!("turn {turn}: {reason}"),
        Body::StepStart(at) | Body::StepEnd(at) => format!("turn {}, step {}", at.turn, at.step),
        Body::ToolCall(_, call) => format!("{}: {}({})", call.id, call.name, call.arguments),
        Body::ToolResult { call_id, error, .. } => {
            let code = error
                .as_ref()
                .map(|error| format!(" {}", error.code))
                .unwrap_or_default();
            format!("{call_id}:{code} {}", message_text(event))
        }
        Body::UserMessage(message) if &*message.source != "user" => {
            format!("({}) {}", message.source, message_text(event))
        }
        body if body.message().is_some() => message_text(event),
        Body::RequestHeader { reason, .. } => format!("{reason}: {}", model_of(event)),
        Body::EndSeed { inherited: true } => "inherited up to here".to_owned(),
        Body::EndSeed { inherited: false } => "opened again".to_owned(),
        _ => match event.kind() {
            EventKind::SessionTitle => member(event, "title"),
            EventKind::RequestContext => member(event, "model"),
            EventKind::InboxSpliced => inbox(event),
            _ => String::new(),
        },
    };
    shorten(&text)
}

/// The texts of the message that an event carries.
pub(crate) fn message_text(event: &Event) -> String {
    event.message().map(texts).unwrap_or_default()
}

/// The texts of a message's JSON.
pub(crate) fn texts(message: &str) -> String {
    let message: Value = serde_json::from_str(message).unwrap_or_default();
    let blocks = message["content"].as_array().cloned().unwrap_or_default();
    let texts = blocks.iter().map(|block| match block["type"].as_str() {
        Some("text" | "reasoning") => block["text"].as_str().unwrap_or_default().to_owned(),
        Some("tool-call") => format!(
            "[{} {}]",
            block["name"].as_str().unwrap_or("?"),
            block["id"].as_str().unwrap_or("?")
        ),
        Some(other) => format!("[{other}]"),
        None => String::new(),
    });
    texts
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The last title of a log.
pub(crate) fn title(log: &EventLog) -> Option<String> {
    let titles = log
        .events()
        .filter(|event| *event.kind() == EventKind::SessionTitle);
    titles
        .last()
        .map(|event| member(event, "title"))
        .filter(|title| !title.is_empty())
}

fn inbox(event: &Event) -> String {
    let data: Value = event.parse().unwrap_or_default();
    let inserted = data["inserted"].as_array().map_or(0, Vec::len);
    let removed = data["removedCount"].as_u64().unwrap_or(0);
    let target = data["target"].as_str().unwrap_or("?");
    match (inserted, removed) {
        (0, removed) => format!("{target}: {removed} claimed"),
        (inserted, 0) => format!("{target}: {inserted} queued"),
        (inserted, removed) => format!("{target}: {inserted} queued, {removed} removed"),
    }
}

fn model_of(event: &Event) -> String {
    let data: Value = event.parse().unwrap_or_default();
    let config = &data["header"]["config"];
    let part = |name: &str| config[name].as_str().unwrap_or("?").to_owned();
    format!("{}/{}", part("provider"), part("model"))
}

fn member(event: &Event, name: &str) -> String {
    let data: Value = event.parse().unwrap_or_default();
    data[name].as_str().unwrap_or_default().to_owned()
}

/// One line, control characters shown as blanks so that a log cannot move the reader's cursor.
fn shorten(text: &str) -> String {
    let mut line = String::new();
    for word in text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
    {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.chars().count() > WIDTH {
            return line.chars().take(WIDTH - 1).chain(['…']).collect();
        }
    }
    line
}
