//! `job_output`, `job_kill` and `job_list`: dealing with background jobs.

use std::time::Duration;

use async_trait::async_trait;
use offshoot_tool_api::{
    Effects, JsonSchema, Tool, ToolArguments, ToolContext, ToolError, ToolOutput, ToolSpec,
    schemars,
};
use serde::Deserialize;

use crate::jobs::{Job, Jobs, Look, shortened};
use crate::tool_set::ToolSet;
use crate::transcript::Transcript;

/// How long a call waits for the end of a job if the model does not say.
const DEFAULT_PATIENCE_MS: u64 = 30_000;
/// The longest time the model may ask for.
const MAX_PATIENCE_MS: u64 = 600_000;

/// The tool `job_output`.
#[derive(Debug)]
pub(crate) struct JobOutputTool {
    spec: ToolSpec,
    jobs: Jobs,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OutputArguments {
    /// The name that bash gave the job.
    job_id: String,
    /// Whether to wait until the job has ended; false if absent.
    #[serde(default)]
    wait: bool,
    /// For how many milliseconds to wait at most, up to 600000; 30000 if absent.
    #[schemars(range(min = 1, max = 600_000))]
    timeout_ms: Option<u64>,
}

impl JobOutputTool {
    pub(crate) fn new(set: &ToolSet) -> Self {
        let description = "Shows what a background job has said since the last look, and whether it has ended. What was \
            shown is not shown again.";
        Self {
            spec: ToolSpec::typed::<OutputArguments>("job_output", description),
            jobs: set.jobs.clone(),
        }
    }
}

#[async_trait]
impl Tool for JobOutputTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self) -> Effects {
        Effects::ReadOnly
    }

    async fn execute(
        &self,
        arguments: ToolArguments,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let OutputArguments {
            job_id,
            wait,
            timeout_ms,
        } = arguments.parse()?;
        let patience = timeout_ms.unwrap_or(DEFAULT_PATIENCE_MS);
        if !(1..=MAX_PATIENCE_MS).contains(&patience) {
            return Err(ToolError::invalid_arguments(format!(
                "invalid argument `timeout_ms`: it must be between 1 and {MAX_PATIENCE_MS}"
            )));
        }
        let job = self.jobs.find(&job_id)?;
        if wait {
            job.wait(Duration::from_millis(patience), cx).await;
        }
        if cx.cancel.is_cancelled() {
            return Err(ToolError::aborted());
        }
        Ok(ToolOutput::text(shown(&job)))
    }
}

/// What is new of a job.
fn shown(job: &Job) -> String {
    let Look { outputs, end } = job.look();
    let mut text = Transcript::of(outputs, "(no new output)");
    match end {
        Some(end) => text.line(&format!("[{end}]")),
        None => text.line("[still running]"),
    }
    text.into_text()
}

/// The tool `job_kill`.
#[derive(Debug)]
pub(crate) struct JobKillTool {
    spec: ToolSpec,
    jobs: Jobs,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct KillArguments {
    /// The name that bash gave the job.
    job_id: String,
    /// Why, in a few words, for the person who watches.
    reason: Option<String>,
}

impl JobKillTool {
    pub(crate) fn new(set: &ToolSet) -> Self {
        let description = "Ends a background job with everything it started, and shows what it has said since the \
            last look.";
        Self {
            spec: ToolSpec::typed::<KillArguments>("job_kill", description),
            jobs: set.jobs.clone(),
        }
    }
}

#[async_trait]
impl Tool for JobKillTool {
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
        let KillArguments { job_id, reason } = arguments.parse()?;
        let job = self.jobs.find(&job_id)?;
        if cx.cancel.is_cancelled() {
            return Err(ToolError::aborted());
        }
        let was_running = job.kill(reason).await;
        let mut text = Transcript::new();
        text.line(&if was_running {
            format!("killed background job {job_id}")
        } else {
            format!("background job {job_id} had already ended; nothing of it is left running")
        });
        text.line(&shown(&job));
        Ok(ToolOutput::text(text.into_text()))
    }
}

/// The tool `job_list`.
#[derive(Debug)]
pub(crate) struct JobListTool {
    spec: ToolSpec,
    jobs: Jobs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {}

impl JobListTool {
    pub(crate) fn new(set: &ToolSet) -> Self {
        let description = "Lists the background jobs of this session, running and ended.";
        // Some providers miss `properties`, which a type without members does not have in its schema.
        let parameters = r#"{"type":"object","properties":{},"additionalProperties":false}"#;
        let spec = ToolSpec::new("job_list", description, parameters);
        Self {
            spec: spec.expect("BUG: the schema is a constant JSON object"),
            jobs: set.jobs.clone(),
        }
    }
}

#[async_trait]
impl Tool for JobListTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self) -> Effects {
        Effects::ReadOnly
    }

    async fn execute(
        &self,
        arguments: ToolArguments,
        _cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let ListArguments {} = arguments.parse()?;
        let lines: Vec<String> = self.jobs.all().iter().map(|job| line(job)).collect();
        Ok(ToolOutput::text(if lines.is_empty() {
            "there are no background jobs".to_owned()
        } else {
            lines.join("\n")
        }))
    }
}

fn line(job: &Job) -> String {
    let state = match job.end() {
        None => "running".to_owned(),
        Some(end) => format!("ended ({end})"),
    };
    let command = shortened(&job.command);
    let line = format!("{}: {state}: `{command}`", job.id);
    match &job.description {
        Some(description) => format!("{line} ({})", shortened(description)),
        None => line,
    }
}
