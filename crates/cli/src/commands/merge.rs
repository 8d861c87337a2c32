//! `offshoot merge`: a note of a side session comes back to the session that it was branched off from.

use std::io::Write;
use std::sync::Arc;

use offshoot_agent::{AgentError, Handback, Merged, SessionService, handback_request};
use offshoot_session::{EventLog, Seq, SessionHeader, SessionId};
use offshoot_store::{Persistence as _, ReadSession};
use serde::Serialize;
use serde_json::json;

use crate::args::Merge;
use crate::config::Config;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::headless::{Audience, Headless, Limits};
use crate::home::Home;
use crate::live::Live;
use crate::notes::Notes;
use crate::{opening, system, text};

/// What became of a note. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
struct Report<'a> {
    session: &'a SessionId,
    parent: &'a SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<Seq>,
    handback: &'a str,
    text: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<Seq>,
}

/// A note, and who brings it to the parent.
enum Note {
    Ready(Handback, SessionService),
    /// The turn that was to write it did not come to its end.
    Unwritten(Exit),
}

pub(crate) fn run(
    args: &Merge,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let notes = Notes::new(json);
    if let (false, Some(flag)) = (args.ask, args.calling.first_given()) {
        let failure = Failure::usage(format!("{flag} is about the model that --ask calls"));
        return Err(failure.hint("without --ask no model is called: leave it out, or ask"));
    }
    home.check()?;
    let read = home.store().read(&SessionId::new(args.child.as_str()))?;
    let note = match args.ask {
        true => asked(args, &read, home, notes, out)?,
        false => given(args, &read, home, notes)?,
    };
    let (handback, service) = match note {
        Note::Ready(handback, service) => (handback, service),
        Note::Unwritten(exit) => return Ok(exit),
    };
    let handback = match &args.id {
        Some(id) => handback.with_id(id.as_str()),
        None => handback,
    };
    let merged = system::runtime()?.block_on(service.merge(&handback));
    let merged = merged.map_err(|error| {
        let failure = Failure::from(error).of_parent();
        match args.ask {
            // It is worth more than asking again.
            true => failure.and_hint(format!(
                "the note is the side session's latest answer, so later this brings it back: offshoot merge {}",
                text::quoted(&args.child)
            )),
            false => failure,
        }
    })?;
    if json {
        let (state, seq) = match merged {
            Merged::Queued => ("queued", None),
            Merged::Logged { seq } => ("logged", Some(seq)),
        };
        let report = Report {
            session: handback.child(),
            parent: handback.parent(),
            cut: handback.cut(),
            handback: handback.id(),
            text: handback.text(),
            state,
            seq,
        };
        serde_json::to_writer(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}", told(&handback, merged))?;
        if args.note.is_none() {
            writeln!(out, "\n{}", text::printable(handback.text()))?;
        }
    }
    Ok(Exit::Done)
}

/// What became of a note, in words.
pub(crate) fn told(handback: &Handback, merged: Merged) -> String {
    let parent = text::shorten(handback.parent().as_str());
    match merged {
        Merged::Queued => format!("queued: {parent} sees it in its next step"),
        Merged::Logged { seq } => format!("logged at event {seq} of {parent}"),
    }
}

/// A note of a side session, or its latest answer. Says so if that is too long.
pub(crate) fn handback(
    child: &SessionHeader,
    log: &EventLog,
    note: Option<&str>,
    max_chars: usize,
    notes: Notes,
) -> Result<Handback, Failure> {
    let of = |max_chars| Handback::of(child, log, note, max_chars).map_err(AgentError::from);
    let handback = of(max_chars)?;
    if of(usize::MAX)?.text() != handback.text() {
        notes.say(&format!(
            "note: it was cut off, because `handback_max_chars` in config.toml lets it have no more characters than {max_chars}"
        ));
    }
    Ok(handback)
}

/// With the note from the command line, or the latest answer.
fn given(args: &Merge, read: &ReadSession, home: &Home, notes: Notes) -> Result<Note, Failure> {
    let stored = &read.stored;
    let directory = opening::directory(stored.header.cwd.as_deref());
    let config = Config::load(home, &directory, &args.calling.flags())?;
    config.warn(notes);
    let max_chars = config.handback_max_chars();
    let note = args.note.as_deref();
    let handback = handback(&stored.header, &stored.log, note, max_chars, notes);
    let handback = handback.map_err(|failure| match failure.code {
        "HANDBACK_EMPTY" => failure.hint(
            "give it with --note, or have it written with --ask; without them it is the latest answer",
        ),
        _ => failure,
    })?;
    let service = home.service().on_unstored(notes.on_unstored());
    Ok(Note::Ready(handback, service))
}

/// With a note that the side session writes.
fn asked(
    args: &Merge,
    read: &ReadSession,
    home: &Home,
    notes: Notes,
    out: &mut dyn Write,
) -> Result<Note, Failure> {
    let (header, log) = (&read.stored.header, &read.stored.log);
    // Whether anything can be handed back, and to whom, does not depend on what it is. Said now, that costs no answer.
    let some = Handback::of(header, log, Some("?"), 1).map_err(AgentError::from)?;
    check_reach(some.parent(), home)?;
    let directory = opening::directory(header.cwd.as_deref());
    let headless = Headless::new(home, &args.calling, None, &directory, Some(log), notes)?;
    let max_chars = headless.config().handback_max_chars();
    let attached = opening::open(headless.service(), &header.id, notes)?;
    let session = attached.session().clone();
    let request = handback_request(system::env().ids.fresh(), max_chars);
    let audience = Audience::Person(Arc::new(Live::without_text(notes)));
    let ended = headless.run(attached, &request, &audience, Limits::default())?;
    let (report, exit) = ended.last()?;
    headless.sum_up(&ended, report);
    if exit != Exit::Done {
        notes.say("note: nothing was brought back");
        if notes.are_json() {
            let report = json!({
                "session": header.id,
                "parent": some.parent(),
                "state": null,
                "reason": report.reason,
            });
            writeln!(out, "{report}")?;
        }
        return Ok(Note::Unwritten(exit));
    }
    let note = Some(&*report.text);
    let handback = handback(&session.header(), &session.log(), note, max_chars, notes)?;
    Ok(Note::Ready(handback, headless.service().clone()))
}

/// Refuses what could not be handed over anyway.
fn check_reach(parent: &SessionId, home: &Home) -> Result<(), Failure> {
    let store = home.store();
    store
        .locate(parent)
        .map_err(|error| Failure::from(error).of_parent())?;
    if store.is_being_written(parent) {
        let message =
            format!("session `{parent}`, which the note is for, is open in another process");
        return Err(Failure::new("SESSION_ALREADY_OWNED", message).hint(
            "close it there and do this again; a chat that has it open does the same with /side and /merge",
        ));
    }
    Ok(())
}
