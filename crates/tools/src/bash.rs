//! `bash`: a command in a shell of its own.

use std::fs;
use std::time::Duration;

use async_trait::async_trait;
use offshoot_tool_api::{
    Bounded, Effects, HeadTail, OutputLimits, Tool, ToolArguments, ToolContext, ToolError,
    ToolOutput, ToolSpec,
};
use serde::{Deserialize, Serialize};

use crate::files::{fs_error, io_error, meta, resolve};
use crate::process::{Ended, Run, run_shell};

/// How long a command may take if the model does not say.
const DEFAULT_TIMEOUT_MS: u64 = 120_000;
/// The longest time the model may ask for.
const MAX_TIMEOUT_MS: u64 = 600_000;
/// How much of each of the two outputs is kept.
const LIMITS: OutputLimits = OutputLimits {
    max_bytes: 30 * 1024,
    max_lines: 1000,
};

const DESCRIPTION: &str = "Runs a command with `bash -c` and returns what it wrote to standard output, then what it \
wrote to standard error under `[stderr]`, then `[exit code: N]` if the command failed. Every call is a new shell: \
directories, variables and functions do not carry over, so pass `workdir` instead of using cd. Standard input is \
empty. Long output keeps its beginning and its end.";

const PARAMETERS: &str = r#"{"type":"object","properties":{"command":{"type":"string","description":"The command, in bash syntax."},"description":{"type":"string","description":"What the command does, in a few words, for the person who watches."},"timeoutMs":{"type":"integer","minimum":1,"maximum":600000,"description":"After how many milliseconds the command is killed; 120000 if absent."},"workdir":{"type":"string","description":"The directory to run in. A relative path starts at the working directory, which is also used if this is absent."}},"required":["command"],"additionalProperties":false}"#;

/// The tool `bash`.
///
/// A command that is cancelled or takes too long is killed with everything it started. A background process that a
/// command leaves behind lives on, but what it writes later is lost.
#[derive(Debug)]
pub struct BashTool {
    spec: ToolSpec,
}

impl BashTool {
    /// Creates the tool.
    pub fn new() -> Self {
        let spec = ToolSpec::new("bash", DESCRIPTION, PARAMETERS);
        Self {
            spec: spec.expect("BUG: the schema is a constant JSON object"),
        }
    }
}

impl Default for BashTool {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Arguments {
    command: String,
    #[serde(rename = "description")]
    _description: Option<String>,
    timeout_ms: Option<u64>,
    workdir: Option<String>,
}

/// Facts about a command for front ends.
#[derive(Serialize)]
struct Facts {
    cwd: String,
}

#[async_trait]
impl Tool for BashTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self) -> Effects {
        Effects::Mutating
    }

    async fn execute(
        &self,
        arguments: ToolArguments,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let Arguments {
            command,
            timeout_ms,
            workdir,
            ..
        } = arguments.parse()?;
        let timeout_ms = timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS);
        if !(1..=MAX_TIMEOUT_MS).contains(&timeout_ms) {
            return Err(ToolError::invalid_arguments(format!(
                "invalid argument `timeoutMs`: it must be between 1 and {MAX_TIMEOUT_MS}"
            )));
        }
        let timeout = Duration::from_millis(timeout_ms);
        let directory = resolve(cx, "workdir", workdir.as_deref().unwrap_or("."))?;
        // Before starting: a missing directory and a missing shell are the same error afterwards.
        match fs::metadata(&directory) {
            Ok(kind) if kind.is_dir() => {}
            Ok(_) => {
                return Err(fs_error(
                    "FS_NOT_A_DIRECTORY",
                    format!(
                        "cannot run in `{}`: it is not a directory",
                        directory.display()
                    ),
                ));
            }
            Err(error) => return Err(io_error("run in", &directory, &error)),
        }
        if cx.cancel.is_cancelled() {
            return Err(ToolError::aborted());
        }

        let run = run_shell(&command, &directory, LIMITS, timeout, &cx.cancel).await;
        let run = run.map_err(|error| {
            ToolError::new(
                "ShellError",
                "SHELL_UNAVAILABLE",
                format!("cannot run bash: {error}"),
            )
        })?;
        match &run.ended {
            Ended::Cancelled => Err(ToolError::aborted().with_details(&render(run))),
            Ended::TimedOut => Err(ToolError::timed_out(timeout).with_details(&render(run))),
            Ended::Exited(_) => {
                let facts = Facts {
                    cwd: directory.display().to_string(),
                };
                Ok(ToolOutput::text(render(run)).with_meta(meta(&facts)))
            }
        }
    }
}

fn render(run: Run) -> String {
    let Run {
        ended,
        stdout,
        stderr,
        still_open,
    } = run;
    let mut text = if stdout.is_empty() && stderr.is_empty() {
        "(no output)".to_owned()
    } else {
        kept(stdout)
    };
    if !stderr.is_empty() {
        on_a_new_line(&mut text, "[stderr]\n");
        text.push_str(&kept(stderr));
    }
    if still_open {
        on_a_new_line(
            &mut text,
            "[a background process still holds the output open; what it writes from now on is lost]",
        );
    }
    if let Ended::Exited(status) = ended {
        match status.code() {
            Some(0) => {}
            Some(code) => on_a_new_line(&mut text, &format!("[exit code: {code}]")),
            // Says which signal, by number and name.
            None => on_a_new_line(&mut text, &format!("[killed by {status}]")),
        }
    }
    text
}

fn kept(output: HeadTail) -> String {
    let Bounded { text, .. } = output.finish();
    text
}

fn on_a_new_line(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
}
