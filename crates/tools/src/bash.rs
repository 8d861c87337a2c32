//! `bash`: a command in a shell of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use offshoot_tool_api::{
    Effects, Escalation, JsonSchema, SandboxMode, Tool, ToolArguments, ToolContext, ToolError,
    ToolOutput, ToolSpec, schemars,
};
use serde::{Deserialize, Serialize};

use crate::files::{blocking, fs_error, io_error, meta, resolve};
use crate::jobs::Jobs;
use crate::process::{Ended, Finished, Group, Output, Shell};
use crate::shell::{Confinement, ConfinementFacts, ShellOptions, not_started};
use crate::tool_set::ToolSet;
use crate::transcript::Transcript;

/// How long a command may take if the model does not say.
const DEFAULT_TIMEOUT_MS: u64 = 120_000;
/// The longest time the model may ask for.
const MAX_TIMEOUT_MS: u64 = 600_000;

const DESCRIPTION: &str = "Runs a command with `bash -c` and returns what it wrote to standard output, then what it \
wrote to standard error under `[stderr]`, then `[exit code: N]` if the command failed. Every call is a new shell: \
directories, variables and functions do not carry over, so pass `workdir` instead of using cd. Standard input is \
empty, and there is no terminal. Long output keeps its beginning and its end; the whole of it is kept in a file that \
is named. Set `run_in_background` for servers and whatever else goes on: job_output, job_kill and job_list deal with \
it. Commands may be confined by a sandbox: then a result that failed because of it says so, and what is needed \
nevertheless can be asked for with `sandbox_permissions`.";

/// The tool `bash`.
///
/// A command runs within the limits of the call ([`sandbox`](crate::sandbox)), without the secrets in this process's
/// environment ([`EnvironmentFilter`](crate::EnvironmentFilter)). A command that is cancelled or takes too long is killed
/// with everything it started; on Linux also with what left its process group, unless it cleaned its environment. A
/// background process that a command leaves behind lives on, but what it writes later is lost: background jobs
/// ([`Jobs`]) are made for that.
#[derive(Debug)]
pub(crate) struct BashTool {
    spec: ToolSpec,
    options: ShellOptions,
    scratch: Arc<[PathBuf]>,
    jobs: Jobs,
}

impl BashTool {
    pub(crate) fn new(set: &ToolSet) -> Self {
        Self {
            spec: ToolSpec::typed::<Arguments>("bash", DESCRIPTION),
            options: set.shell.clone(),
            scratch: Arc::clone(&set.scratch),
            jobs: set.jobs.clone(),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The command, in bash syntax.
    command: String,
    /// What the command does, in a few words, for the person who watches.
    description: Option<String>,
    /// After how many milliseconds the command is killed, up to 600000; if absent 120000, or never in the background.
    #[serde(rename = "timeoutMs")]
    #[schemars(range(min = 1, max = 600_000))]
    timeout_ms: Option<u64>,
    /// The directory to run in. A relative path starts at the working directory, which is also used if this is absent.
    workdir: Option<String>,
    /// Whether to start the command and return at once with the name of a background job; false if absent.
    #[serde(default)]
    run_in_background: bool,
    /// `require_escalated` asks to run the command without the sandbox.
    #[serde(default)]
    sandbox_permissions: SandboxPermissions,
    /// Why the command must run without the sandbox, for the person who is asked.
    justification: Option<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SandboxPermissions {
    #[default]
    UseDefault,
    RequireEscalated,
}

/// Facts about a command for front ends.
#[derive(Serialize)]
struct Facts {
    cwd: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<ConfinementFacts>,
    /// The files with the whole of long output.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<PathBuf>,
}

#[async_trait]
impl Tool for BashTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self) -> Effects {
        Effects::Mutating
    }

    fn escalation(&self, arguments: &ToolArguments, cx: &ToolContext) -> Option<Escalation> {
        // Arguments that do not fit are refused when the call runs.
        let arguments: Arguments = arguments.parse().ok()?;
        let wants_more = arguments.sandbox_permissions == SandboxPermissions::RequireEscalated
            && cx.limits.mode != SandboxMode::DangerFullAccess;
        let justification = arguments.justification.as_deref().map_or("", str::trim);
        wants_more.then(|| Escalation {
            reason: if justification.is_empty() {
                "to run this command without the sandbox; no reason was given".to_owned()
            } else {
                format!("to run this command without the sandbox: {justification}")
            },
        })
    }

    async fn execute(
        &self,
        arguments: ToolArguments,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let arguments: Arguments = arguments.parse()?;
        let timeout = match arguments.timeout_ms {
            Some(timeout) if !(1..=MAX_TIMEOUT_MS).contains(&timeout) => {
                return Err(ToolError::invalid_arguments(format!(
                    "invalid argument `timeoutMs`: it must be between 1 and {MAX_TIMEOUT_MS}"
                )));
            }
            timeout => timeout.map(Duration::from_millis),
        };
        let directory = resolve(cx, "workdir", arguments.workdir.as_deref().unwrap_or("."))?;
        check_directory(&directory)?;
        if cx.cancel.is_cancelled() {
            return Err(ToolError::aborted());
        }
        let confinement = self.options.confinement(cx, &self.scratch)?;
        let shell = Shell {
            command: &arguments.command,
            directory: &directory,
            environment: &self.options.environment,
            confined: confinement
                .as_ref()
                .map(|limits| (&limits.launcher, &limits.policy)),
        };
        let mut facts = Facts {
            cwd: directory.display().to_string(),
            job: None,
            sandbox: confinement.as_ref().map(Confinement::facts),
            files: Vec::new(),
        };
        let mut text = if arguments.run_in_background {
            let started = self.jobs.start(shell, arguments.description, timeout, cx);
            let id = started.await?;
            let mut text = Transcript::new();
            text.line(&format!("started background job {id}"));
            facts.job = Some(id);
            text
        } else {
            let timeout = timeout.unwrap_or(Duration::from_millis(DEFAULT_TIMEOUT_MS));
            run(shell, timeout, confinement.as_ref(), &mut facts, cx).await?
        };
        if let Some(shortcoming) = confinement.as_ref().and_then(Confinement::shortcoming) {
            text.line(&shortcoming);
        }
        let output = ToolOutput::text(text.into_text()).with_meta(meta(&facts));
        let ended = self.jobs.take_ended().into_iter();
        Ok(ended.fold(output, |output, exit| output.with_context(exit.to_string())))
    }
}

/// Before starting: a missing directory and a missing shell are the same error afterwards.
fn check_directory(directory: &Path) -> Result<(), ToolError> {
    match fs::metadata(directory) {
        Ok(kind) if kind.is_dir() => Ok(()),
        Ok(_) => Err(fs_error(
            "FS_NOT_A_DIRECTORY",
            format!(
                "cannot run in `{}`: it is not a directory",
                directory.display()
            ),
        )),
        Err(error) => Err(io_error("run in", directory, &error)),
    }
}

/// Runs a command to its end, or kills it.
async fn run(
    shell: Shell<'_>,
    timeout: Duration,
    confinement: Option<&Confinement>,
    facts: &mut Facts,
    cx: &ToolContext,
) -> Result<Transcript, ToolError> {
    let output = Output::new(cx.spill.as_ref());
    let stop = async {
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => Ended::Cancelled,
            () = tokio::time::sleep(timeout) => Ended::TimedOut,
        }
    };
    let mut group = Group::start(shell).map_err(|error| not_started(cx, error))?;
    let followed = group.follow(&output, stop).await;
    let (ended, still_open) = followed.map_err(|error| not_started(cx, error))?;
    group.leave().release();

    let outputs = blocking(move || Ok(output.finish())).await?;
    let hint = confinement.and_then(|confinement| {
        outputs
            .iter()
            .find_map(|output| confinement.hint(&output.text))
    });
    let files = |output: &Finished| output.file.clone();
    facts.files = outputs.iter().filter_map(files).collect();
    let mut text = Transcript::of(outputs, "(no output)");
    if still_open {
        text.line(
            "[a background process still holds the output open; what it writes from now on is lost]",
        );
    }
    match ended {
        Ended::Cancelled => Err(ToolError::aborted().with_details(&text.into_text())),
        Ended::TimedOut => Err(ToolError::timed_out(timeout).with_details(&text.into_text())),
        Ended::Exited(status) => {
            match status.code() {
                Some(0) => return Ok(text),
                Some(code) => text.line(&format!("[exit code: {code}]")),
                // Says which signal, by number and name.
                None => text.line(&format!("[killed by {status}]")),
            }
            if let Some(hint) = hint {
                text.line(&hint);
            }
            Ok(text)
        }
    }
}
