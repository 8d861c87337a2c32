//! Recording a scenario: the steps run with the real model, and what comes of that is the script from then on.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::flaw::Flaw;
use crate::names::SessionName;
use crate::publish::publish;
use crate::replay::{Refreshed, refresh};
use crate::run::{Harvest, RunError, run};
use crate::scenario::Scenario;
use crate::wiring::{Processes, Wiring};

/// What to do about recordings that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// They are kept, and nothing is recorded.
    Keep,
    /// They are replaced.
    Replace,
}

/// What was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The files of the sessions that are other ones now.
    pub changed: Vec<PathBuf>,
    /// What came of replaying it once: what is expected from now on, or what is missing for that, such as an override for an
    /// answer that was cut off.
    pub replayed: Refreshed,
}

/// Does the steps of the scenario in `dir` with the model that it names, writes what the sessions said to `sessions/`, replays
/// that once, and writes what came of it to `expected/`. `scratch` is an empty folder, which holds both runs afterwards.
///
/// Paths of this machine do not stay in a recording: `{{cwd}}` and `{{home}}` stand for them.
///
/// # Errors
/// [`RunError`]. Before everything was recorded, nothing in `dir` is changed.
pub async fn record(
    dir: &Path,
    existing: Existing,
    wiring: &dyn Wiring,
    scratch: &Path,
    processes: Option<&dyn Processes>,
) -> Result<Recording, RunError> {
    let scenario = Scenario::load(dir)?;
    if existing == Existing::Keep && !scenario.recordings.is_empty() {
        return Err(RunError::Recorded(dir.join("sessions")));
    }
    let live = scratch.join("record");
    let harvest = Box::pin(run(&scenario, true, wiring, &live, processes)).await?;
    if let Some(flaw) = harvest.flaws.first() {
        return Err(RunError::NotRecorded(flaw.clone()));
    }
    if let Some(flaw) = never_answered(&harvest) {
        return Err(RunError::NotRecorded(flaw));
    }
    let secrets = wiring.assemble(&scenario, &harvest.place)?.secrets();
    let texts = texts(&harvest, &secrets)?;
    let changed = write_sessions(&scenario, &texts)?;
    let scenario = Scenario::load(dir)?;
    let again = scratch.join("replay");
    let replayed = Box::pin(refresh(&scenario, wiring, &again, processes)).await;
    let replayed = match replayed {
        // It was recorded, and somebody has to say the rest.
        Err(RunError::Script {
            code,
            message,
            hint,
        }) => Refreshed {
            changed: Vec::new(),
            flaws: vec![Flaw::new(code, message).with_detail(hint.unwrap_or_default())],
        },
        replayed => replayed?,
    };
    Ok(Recording { changed, replayed })
}

/// Why no model has answered, if every single turn has failed: a key that is wrong is nothing that anybody wants to keep.
fn never_answered(harvest: &Harvest) -> Option<Flaw> {
    let lines = harvest.output.iter();
    let turns = lines.filter_map(|line| line["turns"].as_array()).flatten();
    let failures: Option<Vec<_>> = turns.map(|turn| turn["reason"].get("error")).collect();
    let failures = failures?;
    let first = failures.first()?;
    let [code, message] = ["code", "message"].map(|name| first[name].as_str().unwrap_or_default());
    Some(Flaw::new(code, format!("every turn has failed: {message}")))
}

/// What is recorded, without the paths of this machine.
pub(crate) fn texts(
    harvest: &Harvest,
    secrets: &[String],
) -> Result<BTreeMap<SessionName, String>, RunError> {
    let mut texts = BTreeMap::new();
    for (name, (_, text)) in &harvest.logs {
        let holds_key = |line: &str| {
            let mut keys = secrets.iter().filter(|key| !key.is_empty());
            keys.any(|key| line.contains(key.as_str()))
        };
        if let Some(at) = text.lines().position(holds_key) {
            let name = name.clone();
            return Err(RunError::Secret { name, line: at + 1 });
        }
        texts.insert(name.clone(), harvest.place.hide_in_json(text));
    }
    Ok(texts)
}

/// Writes the recordings, and removes what is left of earlier ones. Returns the files that have changed.
pub(crate) fn write_sessions(
    scenario: &Scenario,
    texts: &BTreeMap<SessionName, String>,
) -> Result<Vec<PathBuf>, RunError> {
    let mut changed = Vec::new();
    for (name, text) in texts {
        let path = scenario.recording_path(name);
        if publish(&path, text)? {
            changed.push(path);
        }
    }
    let left = scenario.recordings.iter();
    for (_, path) in left.filter(|(name, _)| !texts.contains_key(*name)) {
        fs::remove_file(path).map_err(|source| RunError::io(path, source))?;
        changed.push(path.clone());
    }
    Ok(changed)
}
