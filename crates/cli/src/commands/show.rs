//! `offshoot show`: a session as a ledger, as messages, or as a request.

use std::io::{IsTerminal as _, Write};
use std::num::NonZeroUsize;

use offshoot_agent::request_at;
use offshoot_model::encode_request;
use offshoot_session::{Event, EventLog, Seq};
use offshoot_store::ReadSession;
use serde_json::Value;

use crate::args::Show;
use crate::failure::Failure;
use crate::home::Home;
use crate::notes::Notes;
use crate::providers::Providers;
use crate::source::Source;
use crate::text;

pub(crate) fn run(
    args: &Show,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if let (Some(from), Some(to)) = (args.from, args.to)
        && from > to
    {
        return Err(Failure::usage(format!(
            "--from {from} comes after --to {to}, so there is nothing to show"
        )));
    }
    let source = Source::resolve(home, &args.source);
    source.warn_if_ambiguous(Notes::new(json));
    let read = source.read(home)?;
    let log = &read.stored.log;
    if let Some(n) = args.request {
        return request(&read, home, n, out);
    }
    check_range(args, &read)?;
    match (args.messages, json) {
        (true, true) => {
            let shown = log.messages().filter(|message| in_range(args, message.seq));
            json_array(shown.map(|message| message.text), out)
        }
        (true, false) => messages(args, log, out),
        (false, true) => {
            let shown = events(args, log).map(|event| event.text());
            json_array(shown, out)
        }
        (false, false) => {
            head(&read, out)?;
            for event in events(args, log) {
                writeln!(out, "{}", text::ledger_line(event))?;
            }
            foot(&read, out)
        }
    }
}

/// The bytes as they were sent, and nothing else; a line feed only where it keeps a terminal tidy.
fn request(
    read: &ReadSession,
    home: &Home,
    n: NonZeroUsize,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (_, request) = request_at(&read.stored.log, &read.stored.header.id, n.get())
        .map_err(|error| Failure::from(error).at(&read.path))?;
    let dialect = Providers::load(home)?.dialect(&request.config.provider);
    out.write_all(&encode_request(&request, &dialect))?;
    if std::io::stdout().is_terminal() {
        writeln!(out)?;
    }
    Ok(())
}

fn check_range(args: &Show, read: &ReadSession) -> Result<(), Failure> {
    let log = &read.stored.log;
    for seq in [args.from, args.to].into_iter().flatten() {
        if log.get(seq).is_none() {
            let end = log.end().last().map_or_else(
                || "the session has no events".to_owned(),
                |last| format!("the last one is {last}"),
            );
            let message = format!("event {seq} does not exist: {end}");
            return Err(Failure::new("NO_SUCH_EVENT", message).at(&read.path));
        }
    }
    Ok(())
}

fn in_range(args: &Show, seq: Seq) -> bool {
    args.from.is_none_or(|from| seq >= from) && args.to.is_none_or(|to| seq <= to)
}

fn events<'a>(args: &'a Show, log: &'a EventLog) -> impl Iterator<Item = &'a Event> {
    let from = args
        .from
        .map_or(offshoot_session::LogOffset::START, Seq::before);
    log.events_from(from)
        .map(|event| &**event)
        .take_while(|event| args.to.is_none_or(|to| event.seq() <= to))
}

/// The items are JSON texts already: they go out as they are.
fn json_array(
    items: impl Iterator<Item = impl AsRef<str>>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut separator = "[\n";
    for item in items {
        write!(out, "{separator}{}", item.as_ref())?;
        separator = ",\n";
    }
    writeln!(out, "{}", if separator == "[\n" { "[]" } else { "\n]" })?;
    Ok(())
}

fn messages(args: &Show, log: &EventLog, out: &mut dyn Write) -> Result<(), Failure> {
    for message in log.messages().filter(|message| in_range(args, message.seq)) {
        let role = message.kind.as_str().split('/').next().unwrap_or_default();
        let value: Value = serde_json::from_str(&message.text)?;
        let answers = value["toolCallId"].as_str().map(text::shorten);
        let answers = answers.map_or_else(String::new, |call| format!(", answers {call}"));
        writeln!(out, "── {} ({role}{answers})", message.seq)?;
        writeln!(out, "{}\n", text::full_texts(&value).trim_end())?;
    }
    Ok(())
}

fn head(read: &ReadSession, out: &mut dyn Write) -> Result<(), Failure> {
    let stored = &read.stored;
    let header = &stored.header;
    writeln!(out, "session  {}", text::shorten(header.id.as_str()))?;
    if let Some(title) = text::title(&stored.log) {
        writeln!(out, "title    {title}")?;
    }
    if let Some(parent) = &header.parent {
        let cut = stored.inherited.last().filter(|_| header.is_seeded);
        let cut = cut.map_or_else(String::new, |cut| format!(", forked at {cut}"));
        writeln!(out, "parent   {}{cut}", text::shorten(parent.as_str()))?;
    }
    if let Some(cwd) = &header.cwd {
        writeln!(out, "works in {}", text::printable(cwd))?;
    }
    let created = i64::try_from(header.created_at).unwrap_or(i64::MAX);
    writeln!(out, "created  {}", text::moment(created))?;
    writeln!(out, "events   {}\n", stored.log.end())?;
    Ok(())
}

/// What somebody who goes on with this session should know.
fn foot(read: &ReadSession, out: &mut dyn Write) -> Result<(), Failure> {
    let stored = &read.stored;
    if let Some(tail) = &stored.tail {
        writeln!(
            out,
            "\nnote: {} ({} bytes); going on with the session repairs it",
            tail.reason, tail.bytes
        )?;
    }
    if let Some(turn) = stored.log.open_tail().turn() {
        writeln!(
            out,
            "\nnote: turn {turn} is open; going on with the session, or forking it, closes it truthfully"
        )?;
    }
    if let Some(note) = text::not_continuable(&stored.log) {
        writeln!(out, "\nnote: {note}")?;
    }
    Ok(())
}
