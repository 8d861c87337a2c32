//! Where scenarios are, and where they run.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use offshoot_replay::{SCENARIO_FILE, ScenarioError};

use crate::failure::Failure;

/// The scenarios in a folder: itself, or those right below it, by their names.
pub(crate) fn find(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let is_one = |dir: &Path| dir.join(SCENARIO_FILE).is_file();
    if is_one(dir) {
        return Ok(vec![dir.to_owned()]);
    }
    let unreadable = |error: io::Error| refused(dir, &error);
    let mut found = Vec::new();
    match fs::read_dir(dir) {
        Ok(entries) => {
            for entry in entries {
                let below = entry.map_err(unreadable)?.path();
                if is_one(&below) {
                    found.push(below);
                }
            }
        }
        Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {}
        Err(error) => return Err(unreadable(error)),
    }
    if found.is_empty() {
        let error = ScenarioError::NotFound(dir.to_owned());
        let failure = Failure::new(error.code(), error.to_string());
        return Err(failure.hint("name the folder of a scenario, or one that holds such folders"));
    }
    found.sort();
    Ok(found)
}

/// The room for runs: a temporary folder, or one that stays.
#[derive(Debug)]
pub(crate) enum Room {
    Temporary(tempfile::TempDir),
    Kept(PathBuf),
}

impl Room {
    /// # Errors
    /// The folder that is to be kept is there already and holds something; there is no temporary one to be had.
    pub(crate) fn new(keep: Option<&Path>) -> Result<Self, Failure> {
        let Some(keep) = keep else {
            let dir = tempfile::Builder::new()
                .prefix("offshoot-replay-")
                .tempdir();
            let dir = dir.context("could not create a temporary directory")?;
            return Ok(Self::Temporary(dir));
        };
        fs::create_dir_all(keep).map_err(|error| refused(keep, &error))?;
        let mut entries = fs::read_dir(keep).map_err(|error| refused(keep, &error))?;
        if entries.next().is_some() {
            return Err(Failure::new("NOT_EMPTY", "it has to be empty")
                .at(keep)
                .hint("name a folder that is not there yet"));
        }
        Ok(Self::Kept(keep.to_owned()))
    }

    /// A part of it, which is not there yet.
    pub(crate) fn part(&self, number: usize, scenario: &Path) -> PathBuf {
        let dir = match self {
            Self::Temporary(dir) => dir.path(),
            Self::Kept(dir) => dir,
        };
        let name = scenario.file_name().unwrap_or_default();
        dir.join(format!("{number}-{}", name.to_string_lossy()))
    }
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    Failure::new("IO_ERROR", error.to_string()).at(path)
}
