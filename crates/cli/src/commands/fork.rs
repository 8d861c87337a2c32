//! `offshoot fork`: branch a session off at an event.

use std::ffi::OsStr;
use std::io::Write;

use offshoot_agent::{AgentError, Fork, SessionService};
use offshoot_session::{ForkError, Seq, SessionId};
use offshoot_store::{ForkLayout, ReadSession};
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
    let read = source.read(home)?;
    let service = match args.portable {
        true => home.service_keeping(ForkLayout::Portable),
        false => home.service(),
    };
    let child = args.id.clone().map(SessionId::new);
    let fork = prepare(&service, &read, &args.source, args.at, child)?;
    home.ensure()?;
    drop(service.store_fork(&fork)?);
    if json {
        serde_json::to_writer(&mut *out, &report(&fork)?)?;
        writeln!(out)?;
        return Ok(());
    }
    let parent = text::shorten(read.stored.header.id.as_str());
    writeln!(out, "{}", fork.header.id)?;
    writeln!(
        out,
        "  forked from {parent} at event {}: {} events inherited",
        fork.cut,
        fork.seed.inherited_event_count()
    )?;
    closers(&fork, out)?;
    match text::not_continuable(fork.seed.log()) {
        Some(note) => writeln!(out, "\nnote: {note}")?,
        None => writeln!(
            out,
            "\ngo on with it: offshoot run --session {} PROMPT",
            text::quoted(fork.header.id.as_str())
        )?,
    }
    Ok(())
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

/// The events that the fork added to what it inherited.
pub(crate) fn closers(fork: &Fork, out: &mut dyn Write) -> Result<(), Failure> {
    for event in fork.seed.closers() {
        writeln!(out, "{}", text::ledger_line(event))?;
    }
    Ok(())
}

pub(crate) fn report(fork: &Fork) -> Result<ForkReport<'_>, Failure> {
    let closers = fork
        .seed
        .closers()
        .map(|event| serde_json::from_str(event.text()))
        .collect::<Result<_, _>>()?;
    Ok(ForkReport {
        session: fork.header.id.as_str(),
        parent: fork.header.parent.as_ref().map_or("", SessionId::as_str),
        cut: fork.cut.get(),
        inherited_event_count: fork.seed.inherited_event_count().get(),
        closers,
    })
}
