//! A scenario as it is in its folder: what is done, and the files that belong to it.
//!
//! ```text
//! scenario.toml            what is done
//! sessions/NAME.jsonl      what was recorded: the script of each session
//! overrides/NAME.json      what a recording cannot tell
//! workspace/               what the workspace holds at the beginning
//! expected/NAME.jsonl      the logs that come of it, normalised
//! expected/output.jsonl    what each step came to
//! ```
//!
//! Nothing else may be in the folder: a file that nobody reads looks like one that counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use crate::names::SessionName;
use crate::scripts::Comparing;
use crate::steps::{Action, Cast, Step, Written, patience};

/// The file that says what is done.
pub const SCENARIO_FILE: &str = "scenario.toml";
/// What the steps came to, in the folder of what is expected.
pub(crate) const OUTPUT_FILE: &str = "output.jsonl";
/// How long a step may wait for anything, unless the scenario says otherwise.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same while a scenario is recorded: models take their time.
const PATIENCE_WITH_MODELS: Duration = Duration::from_secs(600);

/// A scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its folder.
    pub dir: PathBuf,
    /// What it shows, in a sentence.
    pub about: String,
    /// What sessions are configured with.
    pub model: ScenarioModel,
    /// Settings as in the user's configuration file.
    pub settings: toml::Table,
    /// What is done, in order. At least one step.
    pub steps: Vec<Step>,
    /// How long a step may wait for anything, if the scenario says so: see [`Self::patience`].
    pub timeout: Option<Duration>,
    /// Whether system prompts and tool schemas are compared as well.
    pub pins_header: bool,
    /// Which requests are compared with those that were recorded, and what of them: `true` is [`Comparing::All`], `false`
    /// [`Comparing::None`], `"conversation"` is [`Comparing::Conversation`].
    pub compare_requests: Comparing,
    /// What was recorded of each session.
    pub recordings: BTreeMap<SessionName, PathBuf>,
    /// What replaces or changes the script of a session.
    pub overrides: BTreeMap<SessionName, PathBuf>,
    /// What the workspace holds at the beginning.
    pub workspace: Option<PathBuf>,
    /// The sessions whose logs are expected.
    pub expected: BTreeSet<SessionName>,
    /// Whether it is written down what the steps come to.
    pub expects_output: bool,
}

/// What sessions are configured with. `record` calls it; otherwise scripts answer in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioModel {
    /// `PROVIDER/MODEL`.
    pub name: String,
    /// Its context window in tokens, if that matters.
    pub context_window: Option<u64>,
}

/// Why a folder is no scenario, or not a whole one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// There is no such scenario.
    #[error("there is no scenario in `{}`: it has no `{SCENARIO_FILE}`", .0.display())]
    NotFound(PathBuf),
    /// Something cannot be read.
    #[error("could not read `{}`: {source}", .path.display())]
    Unreadable {
        /// What.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// `scenario.toml` says something that cannot be meant.
    #[error("`{}`, line {line}: {reason}", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Where in it, counted from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A file that belongs to nothing.
    #[error("`{}` belongs to no part of a scenario: {reason}", .path.display())]
    Orphan {
        /// The file.
        path: PathBuf,
        /// What would.
        reason: String,
    },
    /// A file that has to be there.
    #[error("`{}` is missing", .path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// How one gets it.
        hint: &'static str,
    },
}

impl ScenarioModel {
    /// The provider, and what it calls the model.
    #[must_use]
    pub fn parts(&self) -> (&str, &str) {
        let parts = self.name.split_once('/');
        parts.expect("BUG: a model has both names since its scenario was read")
    }
}

impl ScenarioError {
    /// The stable machine code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "SCENARIO_NOT_FOUND",
            Self::Unreadable { .. } => "SCENARIO_UNREADABLE",
            Self::Invalid { .. } => "INVALID_SCENARIO",
            Self::Orphan { .. } => "SCENARIO_ORPHAN",
            Self::Missing { .. } => "SCENARIO_INCOMPLETE",
        }
    }

    /// What a person can do about it, if there is something.
    #[must_use]
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotFound(_) => Some("name the folder that holds it"),
            Self::Invalid { .. } => Some("docs/scenarios.md describes this file"),
            Self::Orphan { .. } => Some("remove it, or give it the name that is meant"),
            Self::Missing { hint, .. } => Some(hint),
            Self::Unreadable { .. } => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenScenario {
    about: Spanned<String>,
    timeout: Option<Spanned<u32>>,
    #[serde(default)]
    pins_header: bool,
    compare_requests: Option<Spanned<Compared>>,
    model: WrittenModel,
    #[serde(default)]
    settings: toml::Table,
    #[serde(default)]
    step: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Compared {
    Whether(bool),
    What(String),
}

impl Compared {
    fn read(written: &Spanned<Self>) -> Result<Comparing, (usize, String)> {
        match written.get_ref() {
            Self::Whether(true) => Ok(Comparing::All),
            Self::Whether(false) => Ok(Comparing::None),
            Self::What(word) if word == "conversation" => Ok(Comparing::Conversation),
            Self::What(word) => {
                let told = format!(
                    "`compare_requests` is `true`, `false` or `\"conversation\"`, not `\"{word}\"`"
                );
                Err((written.span().start, told))
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenModel {
    name: Spanned<String>,
    context_window: Option<Spanned<u64>>,
}

impl Scenario {
    /// Reads a scenario and looks through its folder. Recordings and expectations may be missing: who needs them asks
    /// [`Self::check_recorded`] and [`Self::check_expected`].
    ///
    /// # Errors
    /// [`ScenarioError`], always about one place.
    pub fn load(dir: &Path) -> Result<Self, ScenarioError> {
        let path = dir.join(SCENARIO_FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ScenarioError::NotFound(dir.to_owned()));
            }
            Err(source) => return Err(ScenarioError::Unreadable { path, source }),
        };
        let invalid = |(at, reason)| ScenarioError::Invalid {
            path: path.clone(),
            line: line_of(&text, at),
            reason,
        };
        let written: WrittenScenario = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(text.len(), |span| span.start);
            invalid((at, error.message().trim().replace('\n', "; ")))
        })?;
        let mut cast = Cast::new();
        let (mut scenario, steps) = written.read(dir).map_err(invalid)?;
        for step in steps {
            let start = step.start();
            let patience = step.patience().map_err(invalid)?;
            let action = step.read(&mut cast).map_err(invalid)?;
            scenario.steps.push(Step {
                action,
                line: line_of(&text, start),
                patience,
            });
        }
        if scenario.steps.is_empty() {
            let told = "nothing is done: add a `[[step]]`".to_owned();
            return Err(invalid((text.len(), told)));
        }
        scenario.look_through(cast.known())?;
        Ok(scenario)
    }

    /// What it is called: its folder.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.dir.file_name().unwrap_or(self.dir.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// How long a step may wait for anything, if it does not say so itself: what the scenario says, else 10 seconds, or 10
    /// minutes while it is recorded.
    #[must_use]
    pub fn patience(&self, records: bool) -> Duration {
        self.timeout.unwrap_or(match records {
            true => PATIENCE_WITH_MODELS,
            false => PATIENCE,
        })
    }

    /// Whether a part of it runs in another process.
    #[must_use]
    pub fn kills(&self) -> bool {
        let is_kill = |step: &Step| step.action == Action::Kill;
        self.steps.iter().any(is_kill)
    }

    /// Where a recording is, or would be.
    #[must_use]
    pub fn recording_path(&self, name: &SessionName) -> PathBuf {
        self.dir.join("sessions").join(format!("{name}.jsonl"))
    }

    /// Where it is written down what is expected of a session, or would be.
    #[must_use]
    pub fn expected_path(&self, name: &SessionName) -> PathBuf {
        self.dir.join("expected").join(format!("{name}.jsonl"))
    }

    /// Where it is written down what the steps come to, or would be.
    #[must_use]
    pub fn output_path(&self) -> PathBuf {
        self.dir.join("expected").join(OUTPUT_FILE)
    }

    /// Whether there is something to replay.
    ///
    /// # Errors
    /// No script of `main`.
    pub fn check_recorded(&self) -> Result<(), ScenarioError> {
        let main = SessionName::main();
        if self.recordings.contains_key(&main) || self.overrides.contains_key(&main) {
            return Ok(());
        }
        Err(ScenarioError::Missing {
            path: self.recording_path(&main),
            hint: "`offshoot record` makes recordings",
        })
    }

    /// Whether it is written down what has to come of it.
    ///
    /// # Errors
    /// A file that is missing in `expected/`.
    pub fn check_expected(&self) -> Result<(), ScenarioError> {
        let hint = "`offshoot replay --refresh` writes down what comes of it";
        let missing = |path| ScenarioError::Missing { path, hint };
        if let Some(name) = self
            .recordings
            .keys()
            .find(|name| !self.expected.contains(*name))
        {
            return Err(missing(self.expected_path(name)));
        }
        match self.expects_output {
            true => Ok(()),
            false => Err(missing(self.output_path())),
        }
    }

    /// Takes in what the folder holds.
    fn look_through(&mut self, cast: &BTreeSet<SessionName>) -> Result<(), ScenarioError> {
        for entry in entries(&self.dir)? {
            match (entry.name.as_str(), entry.is_dir) {
                (SCENARIO_FILE, false) => {}
                ("sessions", true) => self.recordings = named(&entry.path, "jsonl", cast)?,
                ("overrides", true) => self.overrides = named(&entry.path, "json", cast)?,
                ("workspace", true) => self.workspace = Some(entry.path),
                ("expected", true) => {
                    let output = entry.path.join(OUTPUT_FILE);
                    self.expects_output = output.is_file();
                    let mut logs = entries(&entry.path)?;
                    logs.retain(|entry| entry.path != output);
                    self.expected = sorted(logs, "jsonl", cast)?.into_keys().collect();
                }
                _ => {
                    let reason = "it holds `scenario.toml` and the folders `sessions`, `overrides`, `workspace` and `expected`";
                    return Err(orphan(entry.path, reason.to_owned()));
                }
            }
        }
        Ok(())
    }
}

impl WrittenScenario {
    /// The scenario without its steps, and those.
    fn read(self, dir: &Path) -> Result<(Scenario, Vec<Written>), (usize, String)> {
        let Self {
            about,
            timeout,
            pins_header,
            compare_requests,
            model,
            settings,
            step,
        } = self;
        if about.get_ref().trim().is_empty() {
            let told = "`about` says in a sentence what the scenario shows";
            return Err((about.span().start, told.to_owned()));
        }
        let parts = model.name.get_ref().split_once('/');
        if parts.is_none_or(|(provider, model)| provider.is_empty() || model.is_empty()) {
            let told = format!("`{}` is no PROVIDER/MODEL", model.name.get_ref());
            return Err((model.name.span().start, told));
        }
        if let Some(window) = model
            .context_window
            .as_ref()
            .filter(|window| *window.get_ref() == 0)
        {
            return Err((
                window.span().start,
                "`context_window` is at least 1".to_owned(),
            ));
        }
        let scenario = Scenario {
            dir: dir.to_owned(),
            about: about.into_inner(),
            model: ScenarioModel {
                name: model.name.into_inner(),
                context_window: model.context_window.map(Spanned::into_inner),
            },
            settings,
            steps: Vec::new(),
            timeout: timeout.as_ref().map(patience).transpose()?,
            pins_header,
            compare_requests: match &compare_requests {
                None => Comparing::default(),
                Some(written) => Compared::read(written)?,
            },
            recordings: BTreeMap::new(),
            overrides: BTreeMap::new(),
            workspace: None,
            expected: BTreeSet::new(),
            expects_output: false,
        };
        Ok((scenario, step))
    }
}

struct Entry {
    path: PathBuf,
    name: String,
    is_dir: bool,
}

/// What a folder holds, by name.
fn entries(dir: &Path) -> Result<Vec<Entry>, ScenarioError> {
    let unreadable = |source| ScenarioError::Unreadable {
        path: dir.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        found.push(Entry {
            name: entry.file_name().to_string_lossy().into_owned(),
            is_dir: path.is_dir(),
            path,
        });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// The files of a folder, each named after a session of the scenario.
fn named(
    dir: &Path,
    extension: &str,
    cast: &BTreeSet<SessionName>,
) -> Result<BTreeMap<SessionName, PathBuf>, ScenarioError> {
    sorted(entries(dir)?, extension, cast)
}

fn sorted(
    entries: Vec<Entry>,
    extension: &str,
    cast: &BTreeSet<SessionName>,
) -> Result<BTreeMap<SessionName, PathBuf>, ScenarioError> {
    let mut files = BTreeMap::new();
    for entry in entries {
        let stem = entry.name.strip_suffix(extension);
        let stem = stem.and_then(|stem| stem.strip_suffix('.'));
        let name = stem.and_then(|stem| SessionName::parse(stem).ok());
        match name.filter(|name| !entry.is_dir && cast.contains(&name.root())) {
            Some(name) => {
                files.insert(name, entry.path);
            }
            None => {
                let known: Vec<_> = cast.iter().map(|name| format!("`{name}`")).collect();
                let reason = format!(
                    "a file here is called NAME.{extension}, after {} or a subagent of one, such as `main.1`",
                    known.join(", ")
                );
                return Err(orphan(entry.path, reason));
            }
        }
    }
    Ok(files)
}

fn orphan(path: PathBuf, reason: String) -> ScenarioError {
    ScenarioError::Orphan { path, reason }
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.get(..at.min(text.len())).unwrap_or(text);
    1 + before.matches('\n').count()
}
