//! The tools of one session, and what they share.

use std::path::PathBuf;
use std::sync::Arc;

use offshoot_tool_api::Tool;

use crate::bash::BashTool;
use crate::edit::EditTool;
use crate::glob::GlobTool;
use crate::grep::GrepTool;
use crate::job_tools::{JobKillTool, JobListTool, JobOutputTool};
use crate::jobs::Jobs;
use crate::ls::LsTool;
use crate::multi_edit::MultiEditTool;
use crate::observations::Observations;
use crate::read::ReadTool;
use crate::sandbox::temporary_directories;
use crate::shell::ShellOptions;
use crate::todo_write::TodoWriteTool;
#[cfg(feature = "web")]
use crate::web_address::WebReach;
#[cfg(feature = "web")]
use crate::web_fetch::WebFetchTool;
use crate::write::WriteTool;

/// What the built-in tools of one session are made with.
///
/// The tools of one set belong to one session: a file that one of them has read, the others may change.
#[derive(Clone, Debug)]
pub struct ToolSet {
    pub(crate) observations: Arc<Observations>,
    pub(crate) scratch: Arc<[PathBuf]>,
    pub(crate) shell: ShellOptions,
    pub(crate) jobs: Jobs,
    #[cfg(feature = "web")]
    web: Option<WebReach>,
}

impl Default for ToolSet {
    /// No file was seen, temporary files are where the system has them, commands run only without limits, there is no
    /// `web_fetch`.
    fn default() -> Self {
        Self {
            observations: Arc::default(),
            scratch: temporary_directories().into(),
            shell: ShellOptions::default(),
            jobs: Jobs::new(),
            #[cfg(feature = "web")]
            web: None,
        }
    }
}

impl ToolSet {
    /// The same set with what the session has seen already, or shares with somebody else.
    #[must_use]
    pub fn with_observations(self, observations: Arc<Observations>) -> Self {
        Self {
            observations,
            ..self
        }
    }

    /// The same set with other directories for temporary files, which [`SandboxMode::WorkspaceWrite`] lets tools change
    /// besides the workspace. The default is
    /// [`temporary_directories`].
    ///
    /// [`SandboxMode::WorkspaceWrite`]: offshoot_tool_api::SandboxMode::WorkspaceWrite
    #[must_use]
    pub fn with_scratch(self, scratch: impl IntoIterator<Item = PathBuf>) -> Self {
        let scratch = scratch.into_iter().collect();
        Self { scratch, ..self }
    }

    /// The same set with this way to run commands.
    #[must_use]
    pub fn with_shell(self, shell: ShellOptions) -> Self {
        Self { shell, ..self }
    }

    /// The same set with these background jobs, which end with the last clone of them.
    #[must_use]
    pub fn with_jobs(self, jobs: Jobs) -> Self {
        Self { jobs, ..self }
    }

    /// The same set with `web_fetch`.
    #[cfg(feature = "web")]
    #[must_use]
    pub fn with_web(self, reach: WebReach) -> Self {
        let web = Some(reach);
        Self { web, ..self }
    }

    /// What the session has seen of its files.
    #[must_use]
    pub fn observations(&self) -> &Arc<Observations> {
        &self.observations
    }

    /// The session's background jobs.
    #[must_use]
    pub fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// The tools, in the order in which a model should see them. It is always the same, because it is part of what
    /// providers cache.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        #[cfg_attr(
            not(feature = "web"),
            expect(unused_mut, reason = "the last is optional")
        )]
        let mut tools: Vec<Arc<dyn Tool>> = vec![
            Arc::new(ReadTool::new(self)),
            Arc::new(WriteTool::new(self)),
            Arc::new(EditTool::new(self)),
            Arc::new(MultiEditTool::new(self)),
            Arc::new(BashTool::new(self)),
            Arc::new(JobOutputTool::new(self)),
            Arc::new(JobKillTool::new(self)),
            Arc::new(JobListTool::new(self)),
            Arc::new(GlobTool::new()),
            Arc::new(GrepTool::new()),
            Arc::new(LsTool::new()),
            Arc::new(TodoWriteTool::new()),
        ];
        #[cfg(feature = "web")]
        if let Some(reach) = self.web {
            tools.push(Arc::new(WebFetchTool::new(reach)));
        }
        tools
    }
}
