//! The session that is worked in: a new one, one that is there, or a fork of one.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use offshoot_agent::{Attached, SessionService};
use offshoot_session::{EventLog, Seq, SessionId};
use offshoot_store::{Persistence as _, ReadSession, Repair};

use crate::changes;
use crate::commands::fork;
use crate::failure::Failure;
use crate::home::Home;
use crate::notes::Notes;
use crate::source::Source;
use crate::text;

/// Which session is meant.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    New {
        /// Where it works; the current directory if that is not said.
        cwd: Option<PathBuf>,
    },
    Session(SessionId),
    Fork {
        source: OsString,
        at: Option<Seq>,
        worktree: Option<PathBuf>,
    },
}

/// A session that is meant, with what is stored of it or of what it is forked from. Nothing has been changed yet.
#[derive(Debug)]
pub(crate) struct Opening {
    wanted: Wanted,
    read: Option<ReadSession>,
}

impl Opening {
    pub(crate) fn of(wanted: Wanted, home: &Home, notes: Notes) -> Result<Self, Failure> {
        let read = match &wanted {
            Wanted::New { .. } => None,
            Wanted::Session(id) => Some(home.store().read(id)?),
            Wanted::Fork { source, .. } => {
                let source = Source::resolve(home, source);
                source.warn_if_ambiguous(notes);
                let read = source.read(home)?;
                notes.say_all(text::journal_notes(&read));
                Some(read)
            }
        };
        Ok(Self { wanted, read })
    }

    /// What is stored of it already.
    pub(crate) fn log(&self) -> Option<&EventLog> {
        self.read.as_ref().map(|read| &read.stored.log)
    }

    /// The directory that it works in, as far as that is here.
    pub(crate) fn directory(&self) -> PathBuf {
        let stored = self.read.as_ref();
        match &self.wanted {
            Wanted::New { cwd } => directory(cwd.as_deref()),
            Wanted::Session(_) | Wanted::Fork { .. } => {
                directory(stored.and_then(|read| read.stored.header.cwd.as_deref()))
            }
        }
    }

    /// Creates, opens or forks it.
    pub(crate) fn attach(
        self,
        home: &Home,
        service: &SessionService,
        notes: Notes,
    ) -> Result<Attached, Failure> {
        match (self.wanted, self.read) {
            (Wanted::Session(id), _) => open(service, &id, notes),
            (
                Wanted::Fork {
                    source,
                    at,
                    worktree,
                },
                Some(read),
            ) => attach_fork(
                home,
                service,
                &read,
                &source,
                at,
                worktree.as_deref(),
                notes,
            ),
            (Wanted::New { cwd }, _) => {
                let cwd = working_directory(cwd.as_deref())?;
                home.ensure()?;
                Ok(service.create(Some(cwd))?)
            }
            (Wanted::Fork { .. }, None) => unreachable!("BUG: the source of a fork has been read"),
        }
    }
}

/// The directory that is worked in: the one that is named, if it is here, else the current one.
pub(crate) fn directory<P: AsRef<Path> + ?Sized>(named: Option<&P>) -> PathBuf {
    let named = named.map(AsRef::as_ref).filter(|dir| dir.is_dir());
    let here = || std::env::current_dir().unwrap_or_default();
    named.map_or_else(here, Path::to_owned)
}

/// Opens a session that is there, and says what had to be repaired.
pub(crate) fn open(
    service: &SessionService,
    id: &SessionId,
    notes: Notes,
) -> Result<Attached, Failure> {
    let opened = service.open(id)?;
    if let Some(repair) = opened.repair {
        tell_repair(&repair, notes);
    }
    Ok(opened.attached)
}

fn attach_fork(
    home: &Home,
    service: &SessionService,
    read: &ReadSession,
    named: &OsStr,
    at: Option<Seq>,
    worktree: Option<&Path>,
    notes: Notes,
) -> Result<Attached, Failure> {
    let mut fork = fork::prepare(service, read, named, at, None)?;
    if let Err(refused) = fork.seed.log().continuable() {
        let hint = refused.nearest_cut.map_or_else(String::new, |cut| {
            format!("fork at {cut} instead, where its step is still open: --at {cut}")
        });
        let message = format!("the fork could not go on: {refused}");
        return Err(Failure::new(refused.code(), message).hint(hint));
    }
    home.ensure()?;
    let mut worktree = fork::worktree(&mut fork, worktree)?;
    let attached = service.store_fork(&fork)?;
    if let Some(worktree) = &mut worktree {
        worktree.keep();
        notes.say(&format!("note: the fork {}", worktree.said()));
    }
    let changed = fork::changed_behind(read, fork.cut);
    changes::tell(&changed, worktree.as_ref(), notes);
    Ok(attached)
}

fn tell_repair(repair: &Repair, notes: Notes) {
    if let Some(stray) = &repair.stray {
        notes.say(&format!("note: {stray}"));
    }
    if let Some(done) = repaired(repair) {
        notes.say(&format!("note: {done}"));
    }
}

fn repaired(repair: &Repair) -> Option<String> {
    let mut done = Vec::new();
    if repair.torn_bytes > 0 {
        done.push(format!("{} torn bytes were taken out", repair.torn_bytes));
    }
    if repair.recovered > 0 {
        done.push(format!(
            "{} whole events were saved from them",
            repair.recovered
        ));
    }
    if let Some(seq) = repair.settled {
        done.push(format!("event {seq} keeps the answer that was coming in"));
    }
    if !repair.closers.is_empty() {
        done.push(format!(
            "{} events close its open turn",
            repair.closers.len()
        ));
    }
    if done.is_empty() {
        return None;
    }
    Some(format!(
        "the session had ended in the middle of something; {}",
        done.join(", ")
    ))
}

fn working_directory(asked: Option<&Path>) -> Result<String, Failure> {
    let dir = match asked {
        Some(dir) => dir.to_owned(),
        None => std::env::current_dir().context("could not find the current directory")?,
    };
    let no_directory = |reason: String| {
        Failure::new(
            "NO_SUCH_DIRECTORY",
            format!("cannot work in `{}`: {reason}", dir.display()),
        )
        .hint("name a directory that is there with --cwd")
    };
    let absolute: PathBuf = dir
        .canonicalize()
        .map_err(|error| no_directory(error.to_string()))?;
    if !absolute.is_dir() {
        return Err(no_directory("it is not a directory".to_owned()));
    }
    match absolute.into_os_string().into_string() {
        Ok(path) => Ok(path),
        Err(_) => Err(no_directory(
            "its path is not UTF-8, which a session cannot store".to_owned(),
        )),
    }
}
