//! What agents are made of besides their sessions and what answers: the tools with their limits, permissions, instructions,
//! and who joins in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use offshoot_agent::{
    AgentConfig, AgentSetup, AllowEverything, BlobSpill, ContextSection, NewSubagent,
    PermissionConfig, RepeatReminder, SubagentLimits, TitleCadence, TitleModel, observed,
};
use offshoot_model::Model;
use offshoot_session::{EventLog, LiveSession};
use offshoot_store::Blobs;
use offshoot_tool_api::{ApprovalPolicy, SandboxMode, ToolRegistry};
use offshoot_tools::sandbox::{Network, Partial, SandboxLauncher};
use offshoot_tools::{
    EnvironmentFilter, FileDigest, Observations, ProjectInstructions, ShellOptions, ToolSet,
    WebReach,
};

use super::Called;
use crate::config::{Config, Flags, ModelName, Origin};
use crate::failure::Failure;
use crate::git;
use crate::home::Home;
use crate::notes::Notes;
use crate::providers::Providers;
use crate::system;

/// What the agents that work in a directory are made of. All of them have the same tools, so that a fork's requests begin as
/// those of its parent.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) providers: Providers,
    blobs: Blobs,
}

impl Parts {
    /// What is configured for a directory. Says what is configured there and may not be.
    pub(crate) fn load(
        home: &Home,
        directory: &Path,
        flags: &Flags<'_>,
        notes: Notes,
    ) -> Result<Self, Failure> {
        let config = Config::load(home, directory, flags)?;
        config.warn(notes);
        Self::of(config, home)
    }

    /// What these settings say, in this home.
    pub(crate) fn of(config: Config, home: &Home) -> Result<Self, Failure> {
        Ok(Self {
            providers: Providers::of(&config, home)?,
            config,
            blobs: home.store().blobs(),
        })
    }

    /// Whether a person has allowed everything beforehand.
    pub(crate) fn allow_everything(&self) -> bool {
        self.config.text(&["permission_mode"]).map(|(mode, _)| mode) == Some("allow")
    }

    /// The parts of the agent of a person's session.
    pub(crate) fn setup(
        &self,
        called: &Called,
        session: &LiveSession,
    ) -> Result<AgentSetup, Failure> {
        let mut config = called.agent_config();
        config.permissions = self.permissions();
        let model = Arc::clone(&called.model);
        let mut setup = self.bare(model, config, session)?;
        setup.titles = self.titles()?;
        Ok(setup)
    }

    /// The parts of the agent of a child, which calls its model as its parent does.
    pub(crate) fn setup_of_child(
        &self,
        child: &NewSubagent<'_>,
        model: Arc<dyn Model>,
    ) -> Result<AgentSetup, Failure> {
        let mut config = AgentConfig::new(&*child.call.provider, &*child.call.model);
        config.call = child.call.clone();
        // Mode and policy are in its log.
        config.permissions = self.permissions_by_log();
        self.bare(model, config, child.session)
    }

    /// How much may be delegated.
    pub(crate) fn subagent_limits(&self) -> SubagentLimits {
        let count = |key| self.config.count(&["subagents", key]);
        let mut limits = SubagentLimits::default();
        if let Some(depth) = count("max_depth") {
            limits.max_depth = depth;
        }
        if let Some(running) = count("max_running") {
            limits.max_running = usize::try_from(running).unwrap_or(usize::MAX);
        }
        // Nobody is there to be asked, unless everything has been answered beforehand.
        limits.approvals = match self.allow_everything() {
            true => ApprovalPolicy::Ask,
            false => ApprovalPolicy::Never,
        };
        limits
    }

    /// What is the same for every agent: the built-in tools, which know the files that the session has seen, and what is around
    /// them.
    fn bare(
        &self,
        model: Arc<dyn Model>,
        mut config: AgentConfig,
        session: &LiveSession,
    ) -> Result<AgentSetup, Failure> {
        let mut tools = ToolRegistry::new();
        for tool in self.tool_set(&session.log())?.tools() {
            tools
                .register(tool)
                .map_err(|error| Failure::new("INTERNAL", error.to_string()))?;
        }
        config.context.sections.push(ContextSection::platform());
        let cwd = session.header().cwd;
        let git = cwd.and_then(|cwd| git::section(Path::new(&cwd)));
        config.context.sections.extend(git);
        let mut setup = AgentSetup::new(model, tools, config, system::env());
        if self.allow_everything() {
            setup.approver = Arc::new(AllowEverything);
        }
        let spill = BlobSpill::new(self.blobs.clone(), system::env());
        setup.spill = Some(Arc::new(spill));
        let own = self.config.home().join("AGENTS.md");
        setup.instructions = Some(Arc::new(ProjectInstructions::new(Some(own))));
        // A job is looked at again until it has ended.
        let reminder = RepeatReminder::new(system::env()).except(["job_output", "job_list"]);
        setup.hooks.push(Arc::new(reminder));
        Ok(setup)
    }

    /// What nobody has set is as the session's log says.
    fn permissions(&self) -> PermissionConfig {
        let set = |key: &str| {
            let (word, said_by) = self.config.text(&[key])?;
            (*said_by != Origin::Default).then_some(word)
        };
        let mode = match set("sandbox") {
            Some("read-only") => Some(SandboxMode::ReadOnly),
            Some("workspace-write") => Some(SandboxMode::WorkspaceWrite),
            Some("danger-full-access") => Some(SandboxMode::DangerFullAccess),
            _ => None,
        };
        let approvals = match set("permission_mode") {
            Some("never") => Some(ApprovalPolicy::Never),
            // Who allows everything is asked as well, and has answered beforehand.
            Some("ask" | "allow") => Some(ApprovalPolicy::Ask),
            _ => None,
        };
        PermissionConfig {
            mode,
            approvals,
            ..self.permissions_by_log()
        }
    }

    /// Mode and policy are as the session's log says; rules and workspace are the configuration's.
    fn permissions_by_log(&self) -> PermissionConfig {
        let workspace = self.config.list(&["workspace"]);
        PermissionConfig {
            workspace: workspace.into_iter().map(PathBuf::from).collect(),
            rules: self.config.rules().clone(),
            ..PermissionConfig::default()
        }
    }

    /// Who is asked for titles, if anybody is.
    fn titles(&self) -> Result<Option<TitleModel>, Failure> {
        let Some((name, _)) = self.config.text(&["title_model"]) else {
            return Ok(None);
        };
        let name = ModelName::parse(name).map_err(|error| Failure::new("INVALID_MODEL", error))?;
        let called = Called::named(&self.config, &self.providers, name)?;
        let mut call = called.agent_config().call;
        // A few words need no thinking.
        call.reasoning_effort = None;
        Ok(Some(TitleModel {
            model: called.model,
            call,
            cadence: TitleCadence::FirstPrompt,
        }))
    }

    fn tool_set(&self, log: &EventLog) -> Result<ToolSet, Failure> {
        let seen = Observations::new();
        seen.restore(observed(log).into_iter().filter_map(|(path, digest)| {
            // Of another program's log, at worst: then the file counts as not seen.
            Some((PathBuf::from(path), digest.parse::<FileDigest>().ok()?))
        }));
        let launcher = SandboxLauncher::this_program()
            .context("could not find out where this program is, which confines commands")?;
        let word = |key: &str| self.config.text(&[key]).map(|(word, _)| word);
        Ok(ToolSet::default()
            .with_observations(Arc::new(seen))
            .with_shell(ShellOptions {
                launcher: Some(launcher),
                network: match word("sandbox_network") {
                    Some("allowed") => Network::Allowed,
                    _ => Network::Refused,
                },
                partial: match word("sandbox_partial") {
                    Some("refuse") => Partial::Refuse,
                    _ => Partial::Report,
                },
                environment: EnvironmentFilter::default()
                    .withholding(self.providers.key_variables())
                    .keeping(self.config.list(&["environment_keep"])),
            })
            .with_web(WebReach::Public))
    }
}
