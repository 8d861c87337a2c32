//! `offshoot replay`: runs scenarios without a model, and says whether they come to what is expected.

use std::io::{IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use offshoot_replay::{Flaw, Refreshed, RunError, Scenario, refresh, replay, run_stage};
use serde::Serialize;

use crate::args::{Replay, ReplayStage};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::home::Home;
use crate::interrupts::Interrupts;
use crate::notes::Notes;
use crate::scenarios::{Program, Room, find};
use crate::system;

/// What came of a scenario. Stable: see `docs/cli.md`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    scenario: PathBuf,
    status: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    flaws: Vec<Flaw>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed: Vec<PathBuf>,
}

impl Report {
    const OK: &str = "ok";
    const WRITTEN: &str = "written";
    const DIFFERS: &str = "differs";
    const FAILED: &str = "failed";

    pub(crate) fn of(scenario: &Path, flaws: Vec<Flaw>, changed: Vec<PathBuf>) -> Self {
        let status = match (flaws.is_empty(), changed.is_empty()) {
            (true, true) => Self::OK,
            (true, false) => Self::WRITTEN,
            (false, _) if flaws.iter().all(Flaw::is_difference) => Self::DIFFERS,
            (false, _) => Self::FAILED,
        };
        Self {
            scenario: scenario.to_owned(),
            status,
            flaws,
            changed,
        }
    }

    pub(crate) fn refreshed(scenario: &Path, refreshed: Refreshed) -> Self {
        Self::of(scenario, refreshed.flaws, refreshed.changed)
    }

    /// One that could not be run at all.
    pub(crate) fn failed(scenario: &Path, error: &RunError) -> Self {
        let flaw = Flaw::new(error.code(), error.to_string());
        let hints = error.hint().unwrap_or_default();
        let hints: Vec<_> = hints.lines().map(|hint| format!("hint: {hint}")).collect();
        let flaws = vec![flaw.with_detail(hints.join("\n"))];
        Self::of(scenario, flaws, Vec::new())
    }

    pub(crate) fn is_good(&self) -> bool {
        self.flaws.is_empty()
    }

    /// For a person: how it went on standard output, and what is wrong on standard error.
    pub(crate) fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let Self {
            scenario,
            status,
            flaws,
            changed,
        } = self;
        writeln!(out, "{status:<8} {}", scenario.display())?;
        for path in changed {
            writeln!(out, "         {}", path.display())?;
        }
        // Both in the order in which they belong to each other.
        out.flush()?;
        let mut err = std::io::stderr().lock();
        for flaw in flaws {
            // Nobody is left to tell.
            drop(writeln!(err, "{}: {flaw}", scenario.display()));
        }
        Ok(())
    }
}

pub(crate) fn run(
    args: &Replay,
    home: &Home,
    json: bool,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let notes = Notes::new(json);
    let mut dirs = Vec::new();
    for named in &args.dirs {
        dirs.extend(find(named)?);
    }
    let room = Room::new(args.keep.as_deref())?;
    let program = Program::of(home);
    let shows_progress = !json && std::io::stderr().is_terminal();
    let runtime = system::runtime()?;
    let mut reports = Vec::new();
    for (number, dir) in (1..).zip(&dirs) {
        if shows_progress {
            notes.say(&format!("{number} of {}: {}", dirs.len(), dir.display()));
        }
        let part = room.part(number, dir);
        let one = one(dir, &program, &part, args.refresh);
        let Some(ran) = runtime.block_on(uninterrupted(one))? else {
            return Ok(stopped(notes));
        };
        let report = ran.unwrap_or_else(|error| Report::failed(dir, &error));
        if !json {
            report.print(out)?;
        }
        reports.push(report);
    }
    let good = reports.iter().filter(|report| report.is_good()).count();
    if json {
        serde_json::to_writer_pretty(&mut *out, &reports)?;
        writeln!(out)?;
    } else if dirs.len() > 1 {
        let told = match args.refresh {
            true => "are as they should be",
            false => "came to what is expected",
        };
        writeln!(out, "{good} of {} scenarios {told}", dirs.len())?;
    }
    Ok(match good == reports.len() {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

async fn one(
    dir: &Path,
    program: &Program,
    room: &Path,
    refreshes: bool,
) -> Result<Report, RunError> {
    let scenario = Scenario::load(dir)?;
    if refreshes {
        let refreshed = Box::pin(refresh(&scenario, program, room, Some(program))).await?;
        return Ok(Report::refreshed(dir, refreshed));
    }
    let replayed = Box::pin(replay(&scenario, program, room, Some(program))).await?;
    Ok(Report::of(dir, replayed.flaws, Vec::new()))
}

/// Does something that Ctrl-C gives up: then there is nothing.
pub(crate) async fn uninterrupted<T>(work: impl Future<Output = T>) -> Result<Option<T>, Failure> {
    let mut interrupts = Interrupts::new().context("could not listen for Ctrl-C")?;
    Ok(tokio::select! {
        done = work => Some(done),
        _ = interrupts.next() => None,
    })
}

pub(crate) fn stopped(notes: Notes) -> Exit {
    notes.say("stopped");
    Exit::Cancelled
}

/// Runs a part of a scenario for the process that has started this one.
pub(crate) fn stage(args: &ReplayStage, home: &Home) -> Result<Exit, Failure> {
    let ran = system::runtime()?.block_on(Box::pin(run_stage(&args.state, &Program::of(home))));
    // The process that waits for it has codes of its own.
    let told = |error: RunError| Failure::new("FAILED", format!("{error} ({})", error.code()));
    ran.map(|()| Exit::Done).map_err(told)
}
