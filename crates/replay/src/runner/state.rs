//! What one part of a run hands to the next one, which may be another process: a file beside the home and the workspace.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::who::Record;
use crate::flaw::Flaw;
use crate::run::RunError;
use crate::wiring::Place;

/// Where everything about a run is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The scenario's folder.
    pub(crate) scenario: PathBuf,
    /// Where it runs: the home.
    home: PathBuf,
    /// And the workspace.
    workspace: PathBuf,
    /// Whether the real model answers.
    pub(crate) records: bool,
    /// The step that is next, from 0.
    pub(crate) next: usize,
    /// The sessions so far.
    pub(crate) sessions: Vec<Record>,
    /// How far each script was followed.
    pub(crate) positions: Value,
    /// What the steps have come to.
    pub(crate) output: Vec<Value>,
    /// How the last part ended.
    pub(crate) end: Option<End>,
}

/// How a part of a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum End {
    /// It had to die.
    Killed,
    /// All steps were done. What was wrong nevertheless.
    Done(Vec<Flaw>),
    /// It could not go on.
    Stuck(Vec<Flaw>),
}

impl State {
    const FILE: &str = "state.json";

    pub(crate) fn new(scenario: &Path, place: &Place, records: bool) -> Self {
        Self {
            scenario: scenario.to_owned(),
            home: place.home.clone(),
            workspace: place.workspace.clone(),
            records,
            next: 0,
            sessions: Vec::new(),
            positions: Value::Null,
            output: Vec::new(),
            end: None,
        }
    }

    pub(crate) fn place(&self) -> Place {
        Place {
            home: self.home.clone(),
            workspace: self.workspace.clone(),
        }
    }

    pub(crate) fn load(dir: &Path) -> Result<Self, RunError> {
        let path = dir.join(Self::FILE);
        let text = fs::read_to_string(&path).map_err(|source| RunError::io(&path, source))?;
        serde_json::from_str(&text).map_err(|error| RunError::State {
            path,
            reason: error.to_string(),
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a temporary file: it has to outlive the process, not the machine"
    )]
    pub(crate) fn save(&self, dir: &Path) -> Result<(), RunError> {
        let path = dir.join(Self::FILE);
        let text = serde_json::to_vec(self).expect("BUG: a state is strings and numbers");
        fs::write(&path, text).map_err(|source| RunError::io(&path, source))
    }
}
