//! What a confined command may change.

use std::path::{Path, PathBuf};

use offshoot_tool_api::{Limits, SandboxMode};
use serde::{Deserialize, Serialize};

use super::roots::workspace_roots;

/// Whether a command may use TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// No connection can be made and no port opened, not even on this machine: Landlock knows ports, not addresses.
    #[default]
    Refused,
    /// As if there were no sandbox.
    Allowed,
}

/// What to do on a kernel whose Landlock is too old for all of the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Partial {
    /// Run with the limits that there are, and say with every result which promises of the mode are not kept.
    #[default]
    Report,
    /// Do not run.
    Refuse,
}

/// The limits of one command. It is handed to the launcher as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxPolicy {
    /// The mode that the limits come from, for messages. The other members are what counts.
    pub mode: SandboxMode,
    /// Absolute paths without symbolic links: directories in which everything may be changed.
    pub writable: Vec<PathBuf>,
    /// Whether TCP works.
    pub network: Network,
    /// What to do if the kernel cannot enforce all of it.
    pub partial: Partial,
}

impl SandboxPolicy {
    /// The policy that keeps a command within a session's limits; `None` if there are none.
    ///
    /// In `workspace-write` the roots are the workspace, or `cwd` if no workspace is named, and `scratch`. A root counts if
    /// it exists and no command could have put it there in place of another one. `network` counts in that mode only: a
    /// read-only command has none.
    #[must_use]
    pub fn for_limits(
        limits: &Limits,
        cwd: Option<&Path>,
        scratch: &[PathBuf],
        network: Network,
        partial: Partial,
    ) -> Option<Self> {
        let (writable, network) = match limits.mode {
            SandboxMode::DangerFullAccess => return None,
            SandboxMode::ReadOnly => (Vec::new(), Network::Refused),
            SandboxMode::WorkspaceWrite => (workspace_roots(limits, cwd, scratch), network),
        };
        Some(Self {
            mode: limits.mode,
            writable,
            network,
            partial,
        })
    }

    /// What the limits are, in words for a model that ran into them.
    pub(crate) fn in_words(&self) -> String {
        let files = if self.writable.is_empty() {
            "no file may be changed".to_owned()
        } else {
            let roots: Vec<String> = self
                .writable
                .iter()
                .map(|root| format!("`{}`", root.display()))
                .collect();
            format!("files may be changed only in {}", roots.join(", "))
        };
        match self.network {
            Network::Refused => format!("{files}, and TCP is refused"),
            Network::Allowed => files,
        }
    }
}

/// Where temporary files go: what the environment says (`TMPDIR`), and the usual places. Shared memory is one of them,
/// because locks and buffers of many programs are temporary files there.
#[must_use]
pub fn temporary_directories() -> Vec<PathBuf> {
    let mut directories = vec![std::env::temp_dir()];
    for usual in ["/tmp", "/var/tmp", "/dev/shm"] {
        if !directories.iter().any(|known| known == Path::new(usual)) {
            directories.push(PathBuf::from(usual));
        }
    }
    directories
}
