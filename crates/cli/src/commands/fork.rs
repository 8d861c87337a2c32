//! `offshoot fork`: branch a session off at an event.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use offshoot_agent::{AgentError, ChangedFiles, Fork, SessionService, changed_after};
use offshoot_session::{Event, ForkError, Seq, SessionHeader, SessionId};
use offshoot_store::{ForkLayout, ReadSession, StoredFork};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::args;
use crate::changes;
use crate::failure::Failure;
use crate::git;
use crate::home::Home;
use crate::notes::Notes;
use crate::source::Source;
use crate::text;
use crate::worktree::Worktree;

/// How large the file of a source may be, in bytes, that is read for what it did behind the cut.
const MAX_READ_FOR_CHANGES: u64 = 32 << 20;

/// What a fork is. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
pub(crate) struct ForkReport<'a> {
    session: &'a str,
    parent: &'a str,
    cut: u64,
    inherited_event_count: u64,
    closers: Vec<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worktree: Option<&'a Worktree>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_after_cut: Option<&'a ChangedFiles>,
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
    let notes = Notes::new(json);
    let child = args.id.clone().map(SessionId::new);
    let forked = match unread(&source, &service, args, child.clone())? {
        Some(mut forked) => {
            forked.changes = changes_of(&source, home, forked.cut, notes);
            forked
        }
        None => {
            let read = source.read(home)?;
            notes.say_all(text::journal_notes(&read));
            let mut fork = prepare(&service, &read, &args.source, args.at, child)?;
            home.ensure()?;
            let mut worktree = worktree(&mut fork, args.worktree.as_deref())?;
            drop(service.store_fork(&fork)?);
            worktree.iter_mut().for_each(Worktree::keep);
            Forked {
                worktree,
                changes: Some(changed_behind(&read, fork.cut)),
                ..Forked::from(&fork)
            }
        }
    };
    if json {
        serde_json::to_writer(&mut *out, &forked.report()?)?;
        writeln!(out)?;
    } else {
        forked.print(out)?;
    }
    out.flush()?;
    if let Some(changes) = &forked.changes {
        changes::tell(changes, forked.worktree.as_ref(), notes);
    }
    Ok(())
}

/// The source is read after all, but only to tell what was done behind the cut: the fork is there, and somebody waits.
fn changes_of(source: &Source, home: &Home, cut: Seq, notes: Notes) -> Option<ChangedFiles> {
    let size = source.path(home)?.metadata().ok()?.len();
    if size > MAX_READ_FOR_CHANGES {
        notes.say(
            "note: which files the original changed behind the cut was not looked up: its log is large",
        );
        return None;
    }
    // Whatever is wrong with it has not kept it from being forked.
    let read = source.read(home).ok()?;
    Some(changed_behind(&read, cut))
}

/// What the original did to files behind a cut.
pub(crate) fn changed_behind(read: &ReadSession, cut: Seq) -> ChangedFiles {
    changed_after(&read.stored.log, cut, read.stored.header.cwd.as_deref())
}

/// Makes the fork work in a git worktree of its own, if one was asked for.
pub(crate) fn worktree(fork: &mut Fork, path: Option<&Path>) -> Result<Option<Worktree>, Failure> {
    let Some(path) = path else {
        return Ok(None);
    };
    let Some(cwd) = &fork.header.cwd else {
        let message = "the session does not say which directory it works in";
        return Err(Failure::new("WORKTREE_FAILED", message));
    };
    let known = git::commit_at(fork.seed.log(), fork.cut);
    let worktree = Worktree::add(Path::new(cwd), path, known.as_deref())?;
    let Some(cwd) = worktree.cwd.to_str() else {
        let message = format!(
            "`{}` is not UTF-8, which a session cannot store",
            path.display()
        );
        return Err(Failure::new("WORKTREE_FAILED", message));
    };
    fork.header.cwd = Some(cwd.to_owned());
    Ok(Some(worktree))
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
    if args.worktree.is_some() {
        return Ok(None);
    }
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
            worktree: None,
            changes: None,
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
    /// Where it works, if it has a place of its own.
    worktree: Option<Worktree>,
    /// What its source did behind the cut, as far as that was looked up.
    changes: Option<ChangedFiles>,
}

impl From<&Fork> for Forked {
    fn from(fork: &Fork) -> Self {
        Self {
            header: fork.header.clone(),
            cut: fork.cut,
            closers: fork.seed.closers().cloned().collect(),
            note: text::not_continuable(fork.seed.log()),
            worktree: None,
            changes: None,
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
            worktree: self.worktree.as_ref(),
            changed_after_cut: self.changes.as_ref(),
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
        if let Some(worktree) = &self.worktree {
            writeln!(out, "  {}", worktree.said())?;
        }
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
