//! A run of a scenario from the outside: makes room for it, has its parts run, and gathers what came of it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use offshoot_agent::{AgentError, SessionService};
use offshoot_format::Container;
use offshoot_session::SessionId;
use offshoot_store::{Query, ReadSession, StoreError};
use serde_json::Value;

use crate::flaw::Flaw;
use crate::names::SessionName;
use crate::normal::{Normaliser, NotJson};
use crate::runner::{End, Record, State, names, run_stage};
use crate::scenario::{Scenario, ScenarioError};
use crate::wiring::{Place, Processes, Wiring, WiringError};

/// Why a scenario could not be run, recorded or refreshed. What is wrong with a run is a [`Flaw`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The scenario itself.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Its scripts.
    #[error("{message}")]
    Script {
        /// The stable machine code.
        code: String,
        /// What is wrong.
        message: String,
        /// What a person can do about it.
        hint: Option<String>,
    },
    /// What its agents are made of.
    #[error(transparent)]
    Wiring(#[from] WiringError),
    /// A file that is needed.
    #[error("`{}`: {source}", .path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The folder for the run holds something.
    #[error("`{}` is not empty: a run needs a folder of its own", .0.display())]
    NotEmpty(PathBuf),
    /// A process has to die, and none can be started.
    #[error("scenario `{0}` kills its process: it cannot run in this one")]
    NeedsProcesses(String),
    /// A part of a run ended as it should not.
    #[error("a part of the run ended unexpectedly ({status})")]
    Stage {
        /// How.
        status: ExitStatus,
        /// What it said.
        said: String,
    },
    /// What one part has left for the next is no such thing.
    #[error("`{}`: {reason}", .path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The agents could not go on.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// What was stored cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A log that is none.
    #[error("the log of `{name}`: {source}")]
    Log {
        /// Whose.
        name: SessionName,
        /// What is wrong.
        source: NotJson,
    },
    /// Recordings are there already.
    #[error("`{}` holds recordings", .0.display())]
    Recorded(PathBuf),
    /// A recording would hold a key.
    #[error("the recording of `{name}` would hold a key, on line {line}: nothing was written")]
    Secret {
        /// Whose.
        name: SessionName,
        /// Where, counted from 1.
        line: usize,
    },
    /// The steps could not be done, so that there is nothing to record.
    #[error("nothing was recorded: {}", .0.message)]
    NotRecorded(Flaw),
}

impl RunError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// The stable machine code.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Scenario(error) => error.code(),
            Self::Script { code, .. } => code,
            Self::Wiring(error) => &error.code,
            Self::Io { .. } => "SCENARIO_IO",
            Self::NotEmpty(_) => "NOT_EMPTY",
            Self::NeedsProcesses(_) => "NEEDS_PROCESSES",
            Self::Stage { .. } => "STAGE_FAILED",
            Self::State { .. } => "INVALID_STATE",
            Self::Agent(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Log { .. } => "INVALID_LOG",
            Self::Recorded(_) => "ALREADY_RECORDED",
            Self::Secret { .. } => "RECORDING_HOLDS_KEY",
            Self::NotRecorded(flaw) => &flaw.code,
        }
    }

    /// What a person can do about it, if there is something.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Scenario(error) => error.hint().map(str::to_owned),
            Self::Script { hint, .. } => hint.clone(),
            Self::Wiring(error) => error.hint.clone(),
            Self::Stage { said, .. } => Some(said.clone()).filter(|said| !said.is_empty()),
            Self::Agent(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Recorded(_) => {
                Some("say that they are to be replaced, or use another folder".into())
            }
            Self::Secret { .. } => {
                Some("keep keys out of prompts and out of files that tools read".into())
            }
            Self::NotRecorded(flaw) => {
                Some(flaw.detail.clone()).filter(|detail| !detail.is_empty())
            }
            _ => None,
        }
    }
}

/// What came of a run, as it was stored.
#[derive(Debug)]
pub(crate) struct Harvest {
    /// Every session's log as plain lines, with its id.
    pub(crate) logs: BTreeMap<SessionName, (SessionId, String)>,
    /// What the steps came to.
    pub(crate) output: Vec<Value>,
    /// What was wrong.
    pub(crate) flaws: Vec<Flaw>,
    /// Where it ran.
    pub(crate) place: Place,
}

/// What came of a run, without what differs from run to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The logs.
    pub logs: BTreeMap<SessionName, String>,
    /// What the steps came to, one line each.
    pub output: String,
    /// What was wrong with the run itself.
    pub flaws: Vec<Flaw>,
}

/// Runs a scenario in a folder of its own, which has to be empty and stays behind.
pub(crate) async fn run(
    scenario: &Scenario,
    records: bool,
    wiring: &dyn Wiring,
    scratch: &Path,
    processes: Option<&dyn Processes>,
) -> Result<Harvest, RunError> {
    let place = make_room(scenario, scratch)?;
    let dir = scenario.dir.canonicalize();
    let dir = dir.map_err(|source| RunError::io(&scenario.dir, source))?;
    let handed = State::new(&dir, &place, records);
    let folder = place.workspace.parent().unwrap_or(scratch);
    handed.save(folder)?;
    let state = loop {
        match processes.filter(|_| scenario.kills()) {
            Some(processes) => run_elsewhere(processes, folder).await?,
            None if scenario.kills() => return Err(RunError::NeedsProcesses(scenario.name())),
            None => Box::pin(run_stage(folder, wiring)).await?,
        }
        let state = State::load(folder)?;
        if state.end != Some(End::Killed) {
            break state;
        }
    };
    let flaws = match state.end {
        Some(End::Done(flaws) | End::Stuck(flaws)) => flaws,
        Some(End::Killed) | None => Vec::new(),
    };
    let parts = wiring.assemble(scenario, &place)?;
    let (logs, stray) = gather(&parts.service(), &state.sessions)?;
    Ok(Harvest {
        logs,
        output: state.output,
        flaws: flaws.into_iter().chain(stray).collect(),
        place,
    })
}

/// Makes the home and the workspace of a run.
fn make_room(scenario: &Scenario, scratch: &Path) -> Result<Place, RunError> {
    fs::create_dir_all(scratch).map_err(|source| RunError::io(scratch, source))?;
    let folder = scratch.canonicalize();
    let folder = folder.map_err(|source| RunError::io(scratch, source))?;
    let mut entries = fs::read_dir(&folder).map_err(|source| RunError::io(&folder, source))?;
    if entries.next().is_some() {
        return Err(RunError::NotEmpty(folder));
    }
    let place = Place {
        home: folder.join("home"),
        workspace: folder.join("workspace"),
    };
    for dir in [&place.home, &place.workspace] {
        fs::create_dir(dir).map_err(|source| RunError::io(dir, source))?;
    }
    if let Some(from) = &scenario.workspace {
        copy(from, &place.workspace)?;
    }
    Ok(place)
}

/// Copies what a folder holds into one that is there.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), RunError> {
    let failed = |source| RunError::io(from, source);
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            fs::create_dir(&target).map_err(|error| RunError::io(&target, error))?;
            copy(&source, &target)?;
        } else {
            fs::copy(&source, &target).map_err(|error| RunError::io(&source, error))?;
            writable(&target).map_err(|error| RunError::io(&target, error))?;
        }
    }
    Ok(())
}

/// Lets its owner write a copy: a scenario may lie where nobody may.
fn writable(copy: &Path) -> io::Result<()> {
    let mut permissions = fs::metadata(copy)?.permissions();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        permissions.set_mode(permissions.mode() | 0o200);
    }
    #[cfg(not(unix))]
    permissions.set_readonly(false);
    fs::set_permissions(copy, permissions)
}

/// Runs the next part in another process.
async fn run_elsewhere(processes: &dyn Processes, folder: &Path) -> Result<(), RunError> {
    let failed = |source| RunError::io(folder, source);
    let command = processes.stage(folder).map_err(failed)?;
    // Whoever gives up a run waits for none of its parts.
    let output = tokio::process::Command::from(command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = output.await.map_err(failed)?;
    let has_died = State::load(folder)?.end == Some(End::Killed);
    if output.status.success() || (has_died && was_killed(output.status)) {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let status = output.status;
    Err(RunError::Stage { status, said })
}

#[cfg(unix)]
fn was_killed(status: ExitStatus) -> bool {
    const SIGKILL: i32 = 9;
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(SIGKILL)
}

#[cfg(not(unix))]
fn was_killed(status: ExitStatus) -> bool {
    !status.success()
}

type Logs = BTreeMap<SessionName, (SessionId, String)>;

/// The stored logs of a run's sessions, and what is there that should not be.
fn gather(service: &SessionService, records: &[Record]) -> Result<(Logs, Vec<Flaw>), RunError> {
    let read = |id: &str| service.read(&SessionId::new(id));
    let named = names(records, |id| {
        let read = read(id).ok()?;
        Some((read.stored.log, read.stored.inherited))
    });
    let mut logs = Logs::new();
    for (id, name) in &named {
        match read(id.as_str()) {
            Ok(stored) => {
                logs.insert(name.clone(), (id.clone(), plain(&stored)));
            }
            // Nothing has happened in it.
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut strays = Vec::new();
    for row in service.list(&Query::default())?.rows {
        if !named.iter().any(|(id, _)| *id == row.id) {
            let told = format!("session `{}` was made by nobody in the scenario", row.id);
            strays.push(Flaw::new(Flaw::STRAY, told));
        }
    }
    Ok((logs, strays))
}

/// A session as a plain file of the current version, whole.
fn plain(read: &ReadSession) -> String {
    let stored = &read.stored;
    let events = stored.log.events().map(|event| &**event);
    let header = Container::Raw.header(&stored.header);
    let mut bytes = header.expect("BUG: a header that was read can be written");
    bytes.extend(Container::Raw.batch(events));
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Harvest {
    /// What of it is compared.
    pub(crate) fn normalised(self, scenario: &Scenario) -> Result<Ran, RunError> {
        let ids = self
            .logs
            .iter()
            .map(|(name, (id, _))| (id.clone(), name.clone()));
        let mut normaliser = Normaliser::new(&self.place, &ids.collect());
        if scenario.pins_header {
            normaliser = normaliser.pinning_headers();
        }
        let mut logs = BTreeMap::new();
        for (name, (_, text)) in self.logs {
            match normaliser.log(&text) {
                Ok(text) => logs.insert(name, text),
                Err(source) => return Err(RunError::Log { name, source }),
            };
        }
        let output = self.output.into_iter();
        Ok(Ran {
            logs,
            output: output.map(|line| normaliser.output(line)).collect(),
            flaws: self.flaws,
        })
    }
}
