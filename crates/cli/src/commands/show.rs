//! `offshoot show`: a session as a ledger, as messages, as a request, or as its file has it.

use std::io::{IsTerminal as _, Write};
use std::num::NonZeroUsize;

use offshoot_agent::request_at;
use offshoot_format::CURRENT_VERSION;
use offshoot_session::{Event, EventLog, LogOffset, Seq, SessionHeader, SideMark};
use offshoot_store::{Persistence as _, ReadSession, Remains};
use serde_json::Value;

use crate::args::Show;
use crate::commands::follow;
use crate::config::{Config, ModelName};
use crate::failure::Failure;
use crate::home::Home;
use crate::notes::Notes;
use crate::providers::Providers;
use crate::source::{RawFile, Source};
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
    source.note_stream_beside(Notes::new(json));
    if args.follow {
        return follow::run(args, &source, home, json, out);
    }
    if args.stored {
        return stored(&source, home, Notes::new(json), out);
    }
    let read = source.read(home)?;
    let log = &read.stored.log;
    if args.messages || json || args.request.is_some() {
        Notes::new(json).say_all(text::journal_notes(&read));
    }
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
            head(&Head::of(&read), out)?;
            for event in events(args, log) {
                writeln!(out, "{}", text::ledger_line(event))?;
            }
            foot(&read, out)
        }
    }
}

/// The lines as they stand in the file, as far as they can be had, and then what is wrong with it.
fn stored(source: &Source, home: &Home, notes: Notes, out: &mut dyn Write) -> Result<(), Failure> {
    let file = RawFile::read(&source.file(home)?)?;
    let printed =
        lines(&file.remains(), out).and_then(|faults| Ok(out.flush().map(|()| faults)?));
    let faults = match printed {
        // Nobody reads on, but somebody may look at the exit code.
        Err(failure) if failure.broken_pipe => 0,
        printed => printed?,
    };
    if faults > 1 {
        notes.say(&format!(
            "note: {faults} damaged pieces of the file are left out; this is about the first"
        ));
    }
    let read = match source {
        Source::Id(id) => home.store().read(id),
        Source::File(_) => file.whole().and_then(|bytes| bytes.decode()),
    };
    if let Some(tail) = read?.stored.tail {
        notes.say(&format!(
            "note: line {}: {} ({} bytes from byte {} on); going on with the session repairs it",
            tail.place.line, tail.reason, tail.bytes, tail.keep
        ));
    }
    Ok(())
}

/// Prints the lines to the byte; only a terminal is spared what would move its cursor. Says how many pieces could not be
/// read.
fn lines(remains: &Remains<'_>, out: &mut dyn Write) -> Result<usize, Failure> {
    let terminal = std::io::stdout().is_terminal();
    let mut faults = 0;
    let mut is_whole = true;
    for line in remains.lines() {
        let Ok(line) = line else {
            faults += 1;
            continue;
        };
        if !is_whole {
            writeln!(out)?;
        }
        is_whole = line.is_whole;
        if terminal {
            let text = String::from_utf8_lossy(&line.text);
            out.write_all(text::printable(&text).as_bytes())?;
        } else {
            out.write_all(&line.text)?;
        }
        if is_whole {
            writeln!(out)?;
        }
    }
    if terminal && !is_whole {
        writeln!(out)?;
    }
    Ok(faults)
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
    let providers = Providers::of(&Config::here(home)?, home)?;
    let called = providers.as_called(&ModelName {
        provider: request.config.provider.clone(),
        model: request.config.model.clone(),
    });
    let bytes = called
        .encode(&request)
        .map_err(|failure| Failure::new("UNSENDABLE_MESSAGE", failure.message).at(&read.path))?;
    out.write_all(&bytes)?;
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
    let from = args.from.map_or(LogOffset::START, Seq::before);
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

/// What is said of a session ahead of its events.
pub(crate) struct Head {
    pub(crate) header: SessionHeader,
    pub(crate) log: EventLog,
    pub(crate) inherited: LogOffset,
    pub(crate) version: u64,
}

impl Head {
    fn of(read: &ReadSession) -> Self {
        let stored = &read.stored;
        Self {
            header: stored.header.clone(),
            log: stored.log.clone(),
            inherited: stored.inherited,
            version: stored.version,
        }
    }
}

pub(crate) fn head(head: &Head, out: &mut dyn Write) -> Result<(), Failure> {
    let header = &head.header;
    writeln!(out, "session  {}", text::shorten(header.id.as_str()))?;
    if let Some(title) = text::title(&head.log) {
        writeln!(out, "title    {title}")?;
    }
    if let Some(parent) = &header.parent {
        let cut = head.inherited.last().filter(|_| header.is_seeded);
        let cut = cut.map_or_else(String::new, |cut| format!(", forked at {cut}"));
        writeln!(out, "parent   {}{cut}", text::shorten(parent.as_str()))?;
    }
    if let Some((since, SideMark::Framing)) = head.log.side_mark() {
        writeln!(
            out,
            "side     since event {since}: it explains, and its tools may only look"
        )?;
    }
    if let Some(cwd) = &header.cwd {
        writeln!(out, "works in {}", text::printable(cwd))?;
    }
    let created = i64::try_from(header.created_at).unwrap_or(i64::MAX);
    writeln!(out, "created  {}", text::moment(created))?;
    if head.version != CURRENT_VERSION {
        writeln!(
            out,
            "format   version {}, read as version {CURRENT_VERSION}; --stored shows the rows of the file",
            head.version
        )?;
    }
    writeln!(out, "events   {}\n", head.log.end())?;
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
    for note in text::journal_notes(read) {
        writeln!(out, "\nnote: {note}")?;
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
