//! `offshoot fork`: branch a session off at an event.

use std::io::Write;

use offshoot_agent::Fork;
use offshoot_session::SessionId;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::args;
use crate::failure::Failure;
use crate::home::Home;
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
    let read = Source::resolve(home, &args.source).read(home)?;
    let service = home.service();
    let fork = service.prepare_fork(&read, args.at, args.id.clone().map(SessionId::new))?;
    home.ensure()?;
    drop(service.store_fork(&fork)?);
    if json {
        serde_json::to_writer(&mut *out, &report(&fork)?)?;
        writeln!(out)?;
        return Ok(());
    }
    let parent = &read.stored.header.id;
    writeln!(out, "{}", fork.header.id)?;
    writeln!(
        out,
        "  forked from {parent} at event {}: {} events inherited",
        fork.cut,
        fork.seed.inherited_event_count()
    )?;
    closers(&fork, out)?;
    writeln!(
        out,
        "\ngo on with it: offshoot run --session {} PROMPT",
        fork.header.id
    )?;
    Ok(())
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
