//! `offshoot fork`: branch a session off at an event.

use std::ffi::OsStr;
use std::io::Write;
use std::sync::Arc;

use offshoot_agent::{AgentError, Fork, SessionService};
use offshoot_session::{Event, ForkError, Seq, SessionHeader, SessionId};
use offshoot_store::{ForkLayout, ReadSession, StoredFork};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::args;
use crate::failure::Failure;
use crate::home::Home;
use crate::notes::Notes;
use crate::source::Source;
use crate::text;

/// What a fork is. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
pub(crate) struct ForkReport<'a> {
    session: &'a str,
    parent: &'a str,
    cut: u64,
    inherited_event_count: u64,
    closers: Vec<&'a RawValue>,
}

pub(crate) fn run(
    args: &args::Fork,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let source = Source::resolve(home, &args.source);
    source.warn_if_ambiguous(Notes::new(json));
    source.note_stream_beside(Notes::new(json));
    let service = match args.portable {
        true => home.service_keeping(ForkLayout::Portable),
        false => home.service(),
    };
    let child = args.id.clone().map(SessionId::new);
    let forked = match unread(&source, &service, args, child.clone())? {
        Some(forked) => forked,
        None => {
            let read = source.read(home)?;
            Notes::new(json).say_all(text::journal_notes(&read));
            let fork = prepare(&service, &read, &args.source, args.at, child)?;
            home.ensure()?;
            drop(service.store_fork(&fork)?);
            Forked::from(&fork)
        }
    };
    if json {
        serde_json::to_writer(&mut *out, &forked.report()?)?;
        writeln!(out)?;
        return Ok(());
    }
    forked.print(out)
}

/// A fork of a session of the home that is known well enough not to be read.
fn unread(
    source: &Source,
    service: &SessionService,
    args: &args::Fork,
    child: Option<SessionId>,
) -> Result<Option<Forked>, Failure> {
    let Source::Id(id) = source else {
        return Ok(None);
    };
    let forked = service.fork_unread(id, args.at, child)?;
    Ok(forked.map(
        |StoredFork {
             header,
             cut,
             closers,
         }| Forked {
            header,
            cut,
            closers,
            note: None,
        },
    ))
}

/// What was stored, however it was made.
pub(crate) struct Forked {
    header: SessionHeader,
    cut: Seq,
    closers: Vec<Arc<Event>>,
    /// Why it cannot be gone on with.
    note: Option<String>,
}

impl From<&Fork> for Forked {
    fn from(fork: &Fork) -> Self {
        Self {
            header: fork.header.clone(),
            cut: fork.cut,
            closers: fork.seed.closers().cloned().collect(),
            note: text::not_continuable(fork.seed.log()),
        }
    }
}

impl Forked {
    pub(crate) fn report(&self) -> Result<ForkReport<'_>, Failure> {
        let closers = self.closers.iter();
        Ok(ForkReport {
            session: self.header.id.as_str(),
            parent: self.header.parent.as_ref().map_or("", SessionId::as_str),
            cut: self.cut.get(),
            inherited_event_count: self.cut.after().get(),
            closers: closers
                .map(|event| serde_json::from_str(event.text()))
                .collect::<Result<_, _>>()?,
        })
    }

    /// The events that the fork added to what it inherited.
    pub(crate) fn print_closers(&self, out: &mut dyn Write) -> Result<(), Failure> {
        for event in &self.closers {
            writeln!(out, "{}", text::ledger_line(event))?;
        }
        Ok(())
    }

    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let Self { header, cut, .. } = self;
        let parent = header.parent.as_ref().map_or("", SessionId::as_str);
        writeln!(out, "{}", header.id)?;
        writeln!(
            out,
            "  forked from {} at event {cut}: {} events inherited",
            text::shorten(parent),
            cut.after()
        )?;
        self.print_closers(out)?;
        match &self.note {
            Some(note) => writeln!(out, "\nnote: {note}")?,
            None => writeln!(
                out,
                "\ngo on with it: offshoot run --session {} PROMPT",
                text::quoted(header.id.as_str())
            )?,
        }
        Ok(())
    }
}

/// Cuts a source that was named on the command line.
pub(crate) fn prepare(
    service: &SessionService,
    read: &ReadSession,
    named: &OsStr,
    at: Option<Seq>,
    child: Option<SessionId>,
) -> Result<Fork, Failure> {
    service.prepare_fork(read, at, child).map_err(|error| {
        let ledger = format!("offshoot show {}", text::quoted(&named.to_string_lossy()));
        match &error {
            AgentError::Fork(_) if read.stored.log.is_empty() => Failure::from(error)
                .at(&read.path)
                .hint("it has no events, so there is nothing to fork yet"),
            AgentError::Fork(ForkError::InvalidBoundary { .. }) => Failure::from(error)
                .at(&read.path)
                .hint(format!("these are its events: {ledger}")),
            AgentError::Fork(ForkError::ForkUnavailable(_)) => {
                Failure::from(error).at(&read.path).hint(format!(
                    "name an event with --at; these are its events: {ledger}"
                ))
            }
            _ => error.into(),
        }
    })
}
