//! How commands run in a session: what they inherit, and how they are kept within its limits.

use std::path::PathBuf;

use offshoot_tool_api::{ToolContext, ToolError};
use serde::Serialize;

use crate::environment::EnvironmentFilter;
use crate::sandbox::{
    Missing, Network, NotStarted, Partial, SandboxLauncher, SandboxPolicy, missing_in_words,
    support,
};

/// What a front end decides about commands. The default confines none: without a launcher, a session with limits runs no
/// commands at all.
#[derive(Clone, Debug, Default)]
pub struct ShellOptions {
    /// How a confined command is started. `None`: only `danger-full-access` can run commands.
    pub launcher: Option<SandboxLauncher>,
    /// Whether commands may use TCP in `workspace-write`.
    pub network: Network,
    /// What to do if the kernel cannot enforce all limits.
    pub partial: Partial,
    /// What commands do not inherit.
    pub environment: EnvironmentFilter,
}

impl ShellOptions {
    /// The limits of a call; `None` if there are none.
    pub(crate) fn confinement(
        &self,
        cx: &ToolContext,
        scratch: &[PathBuf],
    ) -> Result<Option<Confinement>, ToolError> {
        let mode = cx.limits.mode.as_str();
        let policy = SandboxPolicy::for_limits(
            &cx.limits,
            cx.cwd.as_deref(),
            scratch,
            self.network,
            self.partial,
        );
        let Some(policy) = policy else {
            return Ok(None);
        };
        let launcher = self.launcher.clone().ok_or_else(|| {
            unavailable(mode, "this program has no way to start a confined process")
        })?;
        let missing = support().missing_for(&policy);
        Ok(Some(Confinement {
            launcher,
            policy,
            missing,
        }))
    }
}

/// The limits that one command runs in.
#[derive(Debug)]
pub(crate) struct Confinement {
    pub(crate) launcher: SandboxLauncher,
    pub(crate) policy: SandboxPolicy,
    missing: Vec<Missing>,
}

/// The limits of a command, for front ends.
#[derive(Serialize)]
pub(crate) struct ConfinementFacts {
    mode: &'static str,
    network: Network,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
}

impl Confinement {
    pub(crate) fn facts(&self) -> ConfinementFacts {
        ConfinementFacts {
            mode: self.policy.mode.as_str(),
            network: self.policy.network,
            missing: missing_in_words(&self.missing),
        }
    }

    /// A promise of the mode that this kernel does not keep.
    pub(crate) fn shortcoming(&self) -> Option<String> {
        let promised =
            |missing: &&Missing| matches!(missing, Missing::Truncation | Missing::Network);
        let missing: Vec<Missing> = self.missing.iter().filter(promised).copied().collect();
        missing_in_words(&missing)
            .map(|missing| format!("[The sandbox of this kernel cannot refuse {missing}.]"))
    }

    /// What to tell about a command that failed with such words.
    pub(crate) fn hint(&self, said: &str) -> Option<String> {
        let refused = REFUSALS.iter().any(|words| said.contains(words));
        let unreachable = self.policy.network == Network::Refused
            && UNREACHABLE.iter().any(|words| said.contains(words));
        (refused || unreachable).then(|| {
            format!(
                "[This ran in the sandbox `{}`: {}. If that is why it failed, and it is needed, call bash again with \
                 sandbox_permissions \"require_escalated\" and a justification.]",
                self.policy.mode.as_str(),
                self.policy.in_words()
            )
        })
    }
}

/// How programs put what the sandbox says to them.
const REFUSALS: [&str; 6] = [
    "Permission denied",
    "permission denied",
    "Operation not permitted",
    "Invalid cross-device link",
    "EACCES",
    "EPERM",
];

/// How programs that do not say why put that they cannot connect.
const UNREACHABLE: [&str; 3] = ["onnect to server", "ailed to connect", "unable to connect"];

/// The answer for a command that was not run because of its limits.
pub(crate) fn unavailable(mode: &str, why: &str) -> ToolError {
    ToolError::new(
        "SandboxError",
        "SANDBOX_UNAVAILABLE",
        format!(
            "nothing was run, because the limits of `{mode}` cannot be put on a command: {why}\n\
             To run it without limits, call bash again with sandbox_permissions \"require_escalated\" and a \
             justification; the person can also choose the mode `danger-full-access`."
        ),
    )
}

/// The answer for a command that could not be started.
pub(crate) fn not_started(cx: &ToolContext, error: NotStarted) -> ToolError {
    match error {
        NotStarted::Sandbox(why) => unavailable(cx.limits.mode.as_str(), &why),
        NotStarted::Command(why) => ToolError::new("ShellError", "SHELL_UNAVAILABLE", why),
    }
}
