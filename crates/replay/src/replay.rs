//! Replaying a scenario, and writing down what comes of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::compare::difference;
use crate::flaw::Flaw;
use crate::publish::publish;
use crate::record::{texts, write_sessions};
use crate::run::{Ran, RunError, copy, run};
use crate::scenario::{OUTPUT_FILE, Scenario};
use crate::wiring::{Processes, Wiring};

/// What a replay has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// What came of the run.
    pub ran: Ran,
    /// What was wrong with it, and what differs from what is expected.
    pub flaws: Vec<Flaw>,
}

/// Replays a scenario and compares what comes of it with what is expected. `scratch` is an empty folder, which holds the home
/// and the workspace of the run afterwards. A scenario in which a process dies needs `processes`.
///
/// # Errors
/// [`RunError`]: it could not be run. What is wrong with the run is in [`Replayed::flaws`].
pub async fn replay(
    scenario: &Scenario,
    wiring: &dyn Wiring,
    scratch: &Path,
    processes: Option<&dyn Processes>,
) -> Result<Replayed, RunError> {
    scenario.check_recorded()?;
    scenario.check_expected()?;
    let harvest = Box::pin(run(scenario, false, wiring, scratch, processes)).await?;
    let ran = harvest.normalised(scenario)?;
    let mut flaws = ran.flaws.clone();
    // Where the run went wrong, everything behind that differs.
    if flaws.iter().all(Flaw::is_difference) {
        flaws.extend(compared(scenario, &ran)?);
    }
    Ok(Replayed { ran, flaws })
}

/// Replays a scenario and writes down what comes of it, if nothing is wrong with the run but that it comes to something else.
///
/// Where requests are other ones than were recorded, because a prompt or a tool has changed, the recordings are written anew
/// as well: they are what came of this run, in which the models have answered what they always answer. That is done only if it
/// replays.
///
/// # Errors
/// [`RunError`].
pub async fn refresh(
    scenario: &Scenario,
    wiring: &dyn Wiring,
    scratch: &Path,
    processes: Option<&dyn Processes>,
) -> Result<Refreshed, RunError> {
    scenario.check_recorded()?;
    let first = scratch.join("replay");
    let harvest = Box::pin(run(scenario, false, wiring, &first, processes)).await?;
    if !harvest.flaws.iter().all(Flaw::is_difference) {
        return Ok(Refreshed::nothing(harvest.flaws));
    }
    if harvest.flaws.is_empty() {
        let ran = harvest.normalised(scenario)?;
        return Ok(Refreshed {
            changed: write_expected(scenario, &ran)?,
            flaws: Vec::new(),
        });
    }
    let texts = texts(&harvest, &[])?;
    let aside = scratch.join("scenario");
    fs::create_dir(&aside).map_err(|source| RunError::io(&aside, source))?;
    copy(&scenario.dir, &aside)?;
    write_sessions(&Scenario::load(&aside)?, &texts)?;
    let again = scratch.join("again");
    let anew = Scenario::load(&aside)?;
    let harvest = Box::pin(run(&anew, false, wiring, &again, processes)).await?;
    let ran = harvest.normalised(scenario)?;
    if !ran.flaws.is_empty() {
        return Ok(Refreshed::nothing(ran.flaws));
    }
    let mut changed = write_sessions(scenario, &texts)?;
    changed.extend(write_expected(scenario, &ran)?);
    Ok(Refreshed {
        changed,
        flaws: Vec::new(),
    })
}

/// What a refresh has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refreshed {
    /// The files that were written or removed.
    pub changed: Vec<PathBuf>,
    /// What was wrong with the run. Then nothing was written.
    pub flaws: Vec<Flaw>,
}

impl Refreshed {
    pub(crate) const fn nothing(flaws: Vec<Flaw>) -> Self {
        Self {
            changed: Vec::new(),
            flaws,
        }
    }
}

/// What there is, by the names of the files that it is expected in.
fn files(ran: &Ran) -> BTreeMap<String, &str> {
    let logs = ran.logs.iter();
    let mut files: BTreeMap<String, &str> = logs
        .map(|(name, text)| (format!("{name}.jsonl"), text.as_str()))
        .collect();
    files.insert(OUTPUT_FILE.to_owned(), &ran.output);
    files
}

fn compared(scenario: &Scenario, ran: &Ran) -> Result<Vec<Flaw>, RunError> {
    let found = files(ran);
    let mut flaws = Vec::new();
    for name in &scenario.expected {
        if !ran.logs.contains_key(name) {
            let told = format!("`expected/{name}.jsonl`: there is no such session in this run");
            flaws.push(Flaw::new(Flaw::UNEXPECTED, told));
        }
    }
    for (file, text) in found {
        let path = scenario.dir.join("expected").join(&file);
        let is_expected = file == OUTPUT_FILE
            || scenario
                .expected
                .iter()
                .any(|name| path == scenario.expected_path(name));
        if !is_expected {
            let told = format!(
                "session `{}` is not expected",
                file.trim_end_matches(".jsonl")
            );
            flaws.push(Flaw::new(Flaw::UNEXPECTED, told));
            continue;
        }
        let expected = fs::read_to_string(&path).map_err(|source| RunError::io(&path, source))?;
        if let Some(diff) = difference(&expected, text) {
            let told = format!("`expected/{file}` differs");
            flaws.push(Flaw::new(Flaw::DIFFERS, told).with_detail(diff));
        }
    }
    Ok(flaws)
}

/// Writes what has changed, and removes what is left of earlier runs.
pub(crate) fn write_expected(scenario: &Scenario, ran: &Ran) -> Result<Vec<PathBuf>, RunError> {
    let dir = scenario.dir.join("expected");
    let mut changed = Vec::new();
    for (file, text) in files(ran) {
        let path = dir.join(file);
        if publish(&path, text)? {
            changed.push(path);
        }
    }
    for name in scenario
        .expected
        .iter()
        .filter(|name| !ran.logs.contains_key(*name))
    {
        let path = scenario.expected_path(name);
        fs::remove_file(&path).map_err(|source| RunError::io(&path, source))?;
        changed.push(path);
    }
    Ok(changed)
}
