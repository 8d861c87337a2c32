//! Where a call may change files, and asking for more.

use std::path::{Path, PathBuf};

use offshoot_tool_api::{Escalation, Limits, SandboxMode, ToolError};

use crate::place::canonical;
use crate::sandbox::workspace_roots;

/// The part of the file system in which a call may change files. Looking is allowed everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    mode: SandboxMode,
    /// Canonical directories; what is beneath them may be changed.
    roots: Vec<PathBuf>,
}

impl Reach {
    /// What `limits` allow a call in the directory `cwd`, which is the workspace if none is named. `scratch` are the
    /// directories for temporary files, which belong to every workspace.
    pub(crate) fn new(limits: &Limits, cwd: Option<&Path>, scratch: &[PathBuf]) -> Self {
        let roots = match limits.mode {
            SandboxMode::DangerFullAccess => vec![PathBuf::from("/")],
            SandboxMode::ReadOnly => Vec::new(),
            SandboxMode::WorkspaceWrite => workspace_roots(limits, cwd, scratch),
        };
        let mode = limits.mode;
        Self { mode, roots }
    }

    /// The directory from which the file with this canonical path may be reached; `None` if it may not be changed.
    pub(crate) fn root(&self, file: &Path) -> Option<&Path> {
        let mut roots = self.roots.iter().map(PathBuf::as_path);
        roots.find(|root| file != *root && file.starts_with(root))
    }

    /// What to ask if the file that `path` leads to may not be changed. `verb` says what for, as in `edit`.
    ///
    /// `None` also if the path leads to no file: the call itself then says why.
    pub(crate) fn escalation(&self, verb: &str, path: &Path) -> Option<Escalation> {
        let file = canonical(path).ok().filter(|file| !file.is_dir())?;
        if self.root(&file).is_some() {
            return None;
        }
        let leads = if file == path {
            String::new()
        } else {
            format!(", which leads to `{}`", file.display())
        };
        Some(Escalation {
            reason: format!("{verb} `{}`{leads}: {}", path.display(), self.limit()),
        })
    }

    /// The refusal of a call that runs although it may not.
    pub(crate) fn refusal(&self, verb: &str, path: &Path) -> ToolError {
        ToolError::new(
            "SandboxError",
            "SANDBOX_DENIED",
            format!("cannot {verb} `{}`: {}", path.display(), self.limit()),
        )
    }

    fn limit(&self) -> String {
        let limit = match self.mode {
            SandboxMode::ReadOnly => "nothing may be changed",
            SandboxMode::WorkspaceWrite | SandboxMode::DangerFullAccess => {
                "it is outside the workspace"
            }
        };
        format!("{limit} (mode {})", self.mode.as_str())
    }
}
