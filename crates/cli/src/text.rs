//! How events look to a person: one line each.

use offshoot_session::{Body, Event, EventKind, EventLog};
use offshoot_store::ReadSession;
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
            EventKind::AssistantAttempt => "an attempt without an answer".to_owned(),
            _ if event.data() == "{}" => String::new(),
            // Somebody else's event: what it says, as it says it.
            _ => event.data().to_owned(),
        },
    };
    shorten(&text)
}

/// Why a call failed; `None` if it did not, or the event is no result.
pub(crate) fn call_error(event: &Event) -> Option<String> {
    let message: Value = serde_json::from_str(event.message()?).ok()?;
    let is_error = message["isError"].as_bool().unwrap_or(false);
    is_error.then(|| message_text(event))
}

/// The texts of the message that an event carries.
pub(crate) fn message_text(event: &Event) -> String {
    event.message().map(texts).unwrap_or_default()
}

/// The texts of a message's JSON, in few words.
pub(crate) fn texts(message: &str) -> String {
    let message: Value = serde_json::from_str(message).unwrap_or_default();
    blocks(&message, |call| {
        format!("[{} {}]", part(call, "name"), part(call, "id"))
    })
    .join(" ")
}

/// A message's JSON as a person reads it in full: every block, calls with their arguments.
pub(crate) fn full_texts(message: &Value) -> String {
    let blocks = blocks(message, |call| {
        format!(
            "[call {}: {}({})]",
            part(call, "id"),
            part(call, "name"),
            part(call, "arguments")
        )
    });
    printable(&blocks.join("\n\n"))
}

fn blocks(message: &Value, call: impl Fn(&Value) -> String) -> Vec<String> {
    let blocks = message["content"].as_array().into_iter().flatten();
    let texts = blocks.map(|block| match block["type"].as_str() {
        Some("text" | "reasoning") => part(block, "text").to_owned(),
        Some("tool-call") => call(block),
        Some(other) => format!("[{other}]"),
        None => String::new(),
    });
    texts.filter(|text| !text.is_empty()).collect()
}

fn part<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("?")
}

/// The last title of a log.
pub(crate) fn title(log: &EventLog) -> Option<String> {
    let titles = log
        .events()
        .filter(|event| *event.kind() == EventKind::SessionTitle);
    titles
        .last()
        .map(|event| shorten(&member(event, "title")))
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
    format!("{}/{}", part(config, "provider"), part(config, "model"))
}

fn member(event: &Event, name: &str) -> String {
    let data: Value = event.parse().unwrap_or_default();
    data[name].as_str().unwrap_or_default().to_owned()
}

/// What to know about a log that no provider would accept going on, if it is one.
pub(crate) fn not_continuable(log: &EventLog) -> Option<String> {
    let refused = log.continuable().err()?;
    let cut = refused
        .nearest_cut
        .map_or_else(String::new, |cut| format!("; fork it at {cut} instead"));
    Some(format!("this session cannot be continued: {refused}{cut}"))
}

/// What to know about the stream of an answer that lies beside a session's file.
pub(crate) fn journal_notes(read: &ReadSession) -> Vec<String> {
    let settled = read.settled.map(|seq| {
        format!(
            "event {seq} is an answer as far as it had come in; it is not in the file yet, going on with the session \
             stores it"
        )
    });
    let stray = read.stray.as_ref();
    let stray = stray.map(|stray| printable(&stray.to_string()));
    settled.into_iter().chain(stray).collect()
}

/// A number of bytes as a person reads it: `512 B`, `1.2 kB`, `34.5 MB`.
pub(crate) fn size(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (mut tenths, mut unit) = (bytes / 100, 0);
    while tenths >= 10_000 {
        tenths /= 1000;
        unit += 1;
    }
    let unit = ["kB", "MB", "GB", "TB", "PB", "EB"][unit];
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// As a shell takes it for one word.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Lines stay; other control characters become visible, so that a log cannot move the reader's cursor or worse.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c: char| match u32::from(c) {
        _ if c == '\n' || c == '\t' => c,
        // The pictures of control characters stand in their order.
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or('\u{fffd}'),
        _ if c.is_control() => '\u{fffd}',
        _ => c,
    };
    // A line end of other systems is one.
    text.replace("\r\n", "\n").chars().map(shown).collect()
}

/// One line, control characters shown as blanks so that a log cannot move the reader's cursor.
pub(crate) fn shorten(text: &str) -> String {
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
