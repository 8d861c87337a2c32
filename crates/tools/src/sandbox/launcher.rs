//! The agent's side of a confined command.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

use super::policy::SandboxPolicy;

/// More than a launcher ever says.
const MOST_SAID: u64 = 64 * 1024;

/// How this program starts itself again, as a process that confines itself and becomes a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxLauncher {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl SandboxLauncher {
    /// The hidden command of a front end that calls [`sandbox_exec`](super::sandbox_exec) with what stands behind it.
    pub const COMMAND: &str = "__sandbox-exec";

    /// A program, and the arguments that make it call [`sandbox_exec`](super::sandbox_exec) with all further ones.
    pub fn new<A: Into<OsString>>(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
        }
    }

    /// This very program with [`COMMAND`](Self::COMMAND), also after its file was replaced or removed.
    ///
    /// # Errors
    /// The system does not tell where this program is.
    pub fn this_program() -> io::Result<Self> {
        let program = if cfg!(target_os = "linux") {
            PathBuf::from("/proc/self/exe")
        } else {
            std::env::current_exe()?
        };
        Ok(Self::new(program, [Self::COMMAND]))
    }

    /// The command line that runs another one, confined.
    ///
    /// # Errors
    /// A path of the policy is not UTF-8.
    pub(crate) fn command_line(
        &self,
        policy: &SandboxPolicy,
    ) -> Result<(PathBuf, Vec<OsString>), NotStarted> {
        let policy = serde_json::to_string(policy).map_err(|error| {
            NotStarted::Sandbox(format!("a writable directory cannot be named: {error}"))
        })?;
        let mut arguments = self.arguments.clone();
        arguments.extend([policy.into(), "--".into()]);
        Ok((self.program.clone(), arguments))
    }
}

/// What the launcher says, one JSON object a line.
#[derive(Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Said {
    /// The limits hold; the command comes next.
    Confined { abi: u32 },
    /// Nothing was run.
    Failed { stage: Stage, message: String },
}

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Stage {
    Sandbox,
    Command,
}

/// Why a command did not run.
#[derive(Debug, Error)]
pub(crate) enum NotStarted {
    /// There are no limits to run it in.
    #[error("{0}")]
    Sandbox(String),
    /// The command itself could not be started.
    #[error("{0}")]
    Command(String),
}

/// What to hear before a command counts as confined.
#[derive(Debug)]
pub(crate) struct Confirmation(Receiver);

impl Confirmation {
    /// The pipe's two ends; the second is the standard input of the launcher.
    pub(crate) fn new() -> io::Result<(Self, Stdio)> {
        let (ours, theirs) = io::pipe()?;
        let ours = Receiver::from_owned_fd(OwnedFd::from(ours))?;
        Ok((Self(ours), Stdio::from(theirs)))
    }

    /// Waits until the launcher has become the command: the version of Landlock that holds it.
    pub(crate) async fn heard(self) -> Result<u32, NotStarted> {
        let mut text = String::new();
        let read = self.0.take(MOST_SAID).read_to_string(&mut text).await;
        read.map_err(|error| {
            NotStarted::Sandbox(format!("the launcher cannot be heard: {error}"))
        })?;
        let mut confined = None;
        for line in text.lines() {
            match serde_json::from_str(line) {
                Ok(Said::Confined { abi }) => confined = Some(abi),
                Ok(Said::Failed { stage, message }) => {
                    return Err(match stage {
                        Stage::Sandbox => NotStarted::Sandbox(message),
                        Stage::Command => NotStarted::Command(message),
                    });
                }
                Err(_) => {
                    return Err(NotStarted::Sandbox(
                        "the launcher said something that makes no sense".to_owned(),
                    ));
                }
            }
        }
        confined.ok_or_else(|| {
            NotStarted::Sandbox("the launcher ended before the limits held".to_owned())
        })
    }
}
