//! What agents are made of besides their model: the part that whoever runs scenarios has to bring.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use offshoot_agent::{AgentSetup, Env, NewSubagent, SessionService, SubagentLimits};
use offshoot_model::Model;
use offshoot_session::LiveSession;

use crate::scenario::Scenario;

/// What stands for the workspace.
pub(crate) const CWD: &str = "{{cwd}}";
/// What stands for the home.
pub(crate) const HOME: &str = "{{home}}";

/// Where a scenario runs. Nothing outside of it is read or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The home. It is there and empty before the first part of a scenario.
    pub home: PathBuf,
    /// The directory that sessions work in.
    pub workspace: PathBuf,
}

impl Place {
    /// A text of a scenario, with the paths in it: `{{cwd}}` is the workspace, `{{home}}` the home.
    #[must_use]
    pub fn fill(&self, text: &str) -> String {
        self.filled(text, |path| path.to_string_lossy().into_owned())
    }

    /// The same in a text that is JSON.
    pub(crate) fn fill_json(&self, text: &str) -> String {
        self.filled(text, in_json)
    }

    /// The other way: a text that is JSON, with names in place of the paths.
    pub(crate) fn hide_in_json(&self, text: &str) -> String {
        let hidden = text.replace(&in_json(&self.workspace), CWD);
        hidden.replace(&in_json(&self.home), HOME)
    }

    fn filled(&self, text: &str, written: impl Fn(&Path) -> String) -> String {
        if !text.contains("{{") {
            return text.to_owned();
        }
        let filled = text.replace(CWD, &written(&self.workspace));
        filled.replace(HOME, &written(&self.home))
    }
}

/// A path inside of a string of JSON.
fn in_json(path: &Path) -> String {
    let quoted = serde_json::Value::from(path.to_string_lossy()).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Brings what agents are made of.
pub trait Wiring: Send + Sync + fmt::Debug {
    /// Makes ready what the agents of a scenario are made of. Called once in each process that runs a part of it; what an
    /// earlier one has left is in the home.
    ///
    /// # Errors
    /// Settings or a model that cannot be.
    fn assemble(&self, scenario: &Scenario, place: &Place) -> Result<Arc<dyn Parts>, WiringError>;
}

/// What the agents of a scenario are made of.
pub trait Parts: Send + Sync + fmt::Debug {
    /// The sessions of the home. Always the same service.
    fn service(&self) -> SessionService;

    /// Where time and names come from. They are no part of what is compared.
    fn env(&self) -> Env;

    /// The model that the scenario names, for recording. Replaying never asks for it.
    ///
    /// # Errors
    /// It cannot be called: no such provider, no key.
    fn model(&self) -> Result<Arc<dyn Model>, WiringError>;

    /// The parts of the agent of a session that a person works in. It calls `model`, as the model that the scenario names. The
    /// tools for delegating are given to it afterwards.
    ///
    /// # Errors
    /// [`WiringError`].
    fn agent(
        &self,
        session: &LiveSession,
        model: Arc<dyn Model>,
    ) -> Result<AgentSetup, WiringError>;

    /// The parts of the agent of a subagent. It calls `model`, with what its caller was calling with
    /// ([`NewSubagent::call`]).
    ///
    /// # Errors
    /// [`WiringError`].
    fn subagent(
        &self,
        child: &NewSubagent<'_>,
        model: Arc<dyn Model>,
    ) -> Result<AgentSetup, WiringError>;

    /// How much may be delegated.
    fn limits(&self) -> SubagentLimits;

    /// What no recording may hold, such as keys.
    fn secrets(&self) -> Vec<String>;
}

/// Why something could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WiringError {
    /// The stable machine code.
    pub code: String,
    /// What is wrong.
    pub message: String,
    /// What a person can do about it, if there is something.
    pub hint: Option<String>,
}

impl WiringError {
    /// An error without a hint.
    #[must_use]
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            hint: None,
        }
    }
}

/// Starts the processes that die in a scenario.
pub trait Processes: Send + Sync + fmt::Debug {
    /// The command of a process that does nothing but run the next part of a scenario with the same wiring:
    /// `run_stage(state, wiring)`. It reads nothing and prints nothing; what it says on standard error is shown if it fails.
    ///
    /// # Errors
    /// It is not known which program this is.
    fn stage(&self, state: &Path) -> std::io::Result<Command>;
}
