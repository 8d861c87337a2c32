//! What answers, and what it works with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use offshoot_agent::{
    AgentConfig, AgentSetup, AllowEverything, BlobSpill, ContextSection, PermissionConfig,
    RepeatReminder, TitleCadence, TitleModel, observed, script_from,
};
use offshoot_model::{Model, ScriptModel, codes};
use offshoot_session::{EventLog, LiveSession};
use offshoot_store::{Blobs, ReadSession};
use offshoot_tool_api::{ApprovalPolicy, SandboxMode, ToolRegistry};
use offshoot_tools::sandbox::{Network, Partial, SandboxLauncher, Support, support};
use offshoot_tools::{
    EnvironmentFilter, FileDigest, Observations, ProjectInstructions, ShellOptions, ToolSet,
    WebReach,
};
use serde::Deserialize;

use crate::config::{Config, ModelName, Origin};
use crate::failure::Failure;
use crate::git;
use crate::notes::Notes;
use crate::providers::Providers;
use crate::system;

/// What answers.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) name: ModelName,
    /// Whether it can look at pictures, as far as that is known.
    pub(crate) sees_images: bool,
    /// How hard it thinks, if that is said.
    effort: Option<String>,
    /// Where it is, for whoever has to find out why it does not answer.
    pub(crate) address: Option<String>,
}

impl Called {
    /// The model that is configured for a session of which this much is stored.
    pub(crate) fn configured(
        config: &Config,
        providers: &Providers,
        log: Option<&EventLog>,
    ) -> Result<Self, Failure> {
        let name = providers.choose(log.and_then(model_of))?;
        Self::named(config, providers, name)?.checked()
    }

    /// The same, if it could be called so.
    ///
    /// # Errors
    /// The model does not have what is set for it. Said now, that costs nobody a message.
    pub(crate) fn checked(self) -> Result<Self, Failure> {
        match self.model.prepare(&self.agent_config().call) {
            Ok(_) => Ok(self),
            Err(refused) => {
                let known = [
                    codes::UNSUPPORTED_REASONING_EFFORT,
                    codes::UNSUPPORTED_OPTION,
                    codes::INVALID_MODEL_CONTEXT,
                    codes::INVALID_MODEL_MAX_TOKENS,
                    codes::INVALID_MODEL_REASONING,
                ];
                let code = known.into_iter().find(|code| *code == refused.code);
                Err(
                    Failure::new(code.unwrap_or("INVALID_CONFIG"), refused.message).hint(
                        "`offshoot config show --origin` tells where each setting comes from",
                    ),
                )
            }
        }
    }

    /// A model that was named.
    pub(crate) fn named(
        config: &Config,
        providers: &Providers,
        name: ModelName,
    ) -> Result<Self, Failure> {
        Ok(Self {
            model: providers.connect(&name)?,
            address: Some(providers.address(&name)?),
            effort: effort(config, providers, &name),
            sees_images: providers.info(&name).images,
            name,
        })
    }

    /// A recording in place of a model.
    pub(crate) fn replaying(read: &ReadSession) -> Result<Self, Failure> {
        let name = model_of(&read.stored.log).unwrap_or_else(|| ModelName {
            provider: "replay".to_owned(),
            model: "recorded".to_owned(),
        });
        // What was inherited is the parent's to replay.
        let script = script_from(&read.stored.log, read.stored.inherited)
            .map_err(|error| Failure::from(error).at(&read.path))?;
        if script.is_empty() {
            return Err(Failure::new(
                "REPLAY_UNAVAILABLE",
                "it holds no answer of a model of its own",
            )
            .at(&read.path)
            .hint("name a recording in which a model has answered"));
        }
        Ok(Self {
            model: Arc::new(ScriptModel::new(name.provider.as_str(), script)),
            name,
            sees_images: true,
            effort: None,
            address: None,
        })
    }

    /// What a person is told of a turn that failed: why, and what may help.
    pub(crate) fn told(&self, failed: &offshoot_model::Failure) -> Vec<String> {
        let mut told = vec![format!("error: {} ({})", failed.message, failed.code)];
        if let Some(ms) = failed.provider_retry_after_ms {
            let seconds = ms.div_ceil(1000);
            told.push(format!("hint: the provider asks to wait for {seconds} s"));
        }
        told.extend(
            self.address
                .iter()
                .map(|address| format!("hint: {address}")),
        );
        told
    }

    /// How an agent calls it.
    pub(crate) fn agent_config(&self) -> AgentConfig {
        let mut config = AgentConfig::new(&*self.name.provider, &*self.name.model);
        config.call.reasoning_effort.clone_from(&self.effort);
        config
    }
}

/// What was asked for this once. What is set for the model is its default, and goes before what is set for all models; that
/// counts only for those that have such an effort.
fn effort(config: &Config, providers: &Providers, name: &ModelName) -> Option<String> {
    let (effort, said_by) = config.text(&["effort"])?;
    let is_known = || {
        let efforts = providers.info(name).efforts;
        efforts.is_none_or(|efforts| efforts.contains(&effort))
    };
    let counts = said_by.is_of_this_run() || (providers.effort(name).is_none() && is_known());
    counts.then(|| effort.to_owned())
}

/// An agent's parts, with the built-in tools, which know the files that the session has seen.
pub(crate) fn setup(
    called: &Called,
    config: &Config,
    providers: &Providers,
    session: &LiveSession,
    blobs: Blobs,
) -> Result<AgentSetup, Failure> {
    let log = session.log();
    let mut tools = ToolRegistry::new();
    for tool in tool_set(config, providers, &log)?.tools() {
        tools
            .register(tool)
            .map_err(|error| Failure::new("INTERNAL", error.to_string()))?;
    }
    let mut agent = called.agent_config();
    agent.context.sections.push(ContextSection::platform());
    let cwd = session.header().cwd;
    let git = cwd.and_then(|cwd| git::section(Path::new(&cwd)));
    agent.context.sections.extend(git);
    agent.permissions = permissions(config);
    let model = Arc::clone(&called.model);
    let mut setup = AgentSetup::new(model, tools, agent, system::env());
    if allows_everything(config) {
        setup.approver = Arc::new(AllowEverything);
    }
    setup.spill = Some(Arc::new(BlobSpill::new(blobs, system::env())));
    let own = config.home().join("AGENTS.md");
    setup.instructions = Some(Arc::new(ProjectInstructions::new(Some(own))));
    setup.titles = titles(config, providers)?;
    // A job is looked at again until it has ended.
    let reminder = RepeatReminder::new(system::env()).except(["job_output", "job_list"]);
    setup.hooks.push(Arc::new(reminder));
    Ok(setup)
}

/// Whether a person has allowed everything beforehand.
pub(crate) fn allows_everything(config: &Config) -> bool {
    config.text(&["permission_mode"]).map(|(mode, _)| mode) == Some("allow")
}

/// What nobody has set is as the session's log says.
fn permissions(config: &Config) -> PermissionConfig {
    let set = |key: &str| {
        let (word, said_by) = config.text(&[key])?;
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
        workspace: config
            .list(&["workspace"])
            .into_iter()
            .map(PathBuf::from)
            .collect(),
        rules: config.rules().clone(),
        ..PermissionConfig::default()
    }
}

/// Who is asked for titles, if anybody is.
fn titles(config: &Config, providers: &Providers) -> Result<Option<TitleModel>, Failure> {
    let Some((name, _)) = config.text(&["title_model"]) else {
        return Ok(None);
    };
    let name = ModelName::parse(name).map_err(|error| Failure::new("INVALID_MODEL", error))?;
    let called = Called::named(config, providers, name)?;
    let mut call = called.agent_config().call;
    // A few words need no thinking.
    call.reasoning_effort = None;
    Ok(Some(TitleModel {
        model: called.model,
        call,
        cadence: TitleCadence::FirstPrompt,
    }))
}

fn tool_set(config: &Config, providers: &Providers, log: &EventLog) -> Result<ToolSet, Failure> {
    let seen = Observations::new();
    seen.restore(observed(log).into_iter().filter_map(|(path, digest)| {
        // Of another program's log, at worst: then the file counts as not seen.
        Some((PathBuf::from(path), digest.parse::<FileDigest>().ok()?))
    }));
    let launcher = SandboxLauncher::this_program()
        .context("could not find out where this program is, which confines commands")?;
    let word = |key: &str| config.text(&[key]).map(|(word, _)| word);
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
                .withholding(providers.key_variables())
                .keeping(config.list(&["environment_keep"])),
        })
        .with_web(WebReach::Public))
}

/// Warns if commands cannot be confined as the sandbox mode says: they are not run then, unless no limit is wanted.
pub(crate) fn warn_of_kernel(config: &Config, notes: Notes) {
    let mode = config.text(&["sandbox"]).map(|(mode, _)| mode);
    if mode != Some("danger-full-access")
        && let Support::Unavailable { reason } = support()
    {
        notes.say(&format!(
            "warning: commands cannot be confined here, so none is run: {reason}; files are read and changed within the limits \
             all the same"
        ));
    }
}

/// Warns if the sandbox lets commands change what Offshoot itself keeps: no kernel leaves a directory out of one that may be
/// changed.
pub(crate) fn warn_of_home_in_reach(config: &Config, session: &LiveSession, notes: Notes) {
    if config.text(&["sandbox"]).map(|(mode, _)| mode) != Some("workspace-write") {
        return;
    }
    let Ok(home) = config.home().canonicalize() else {
        return;
    };
    let also = config.list(&["workspace"]).into_iter().map(PathBuf::from);
    let roots = session.header().cwd.map(PathBuf::from).into_iter();
    let holds_it = |root: &PathBuf| {
        let root = root.canonicalize();
        root.is_ok_and(|root| home.starts_with(root))
    };
    if let Some(root) = roots.chain(also).find(holds_it) {
        notes.say(&format!(
            "warning: the home `{}` is in the workspace `{}`, so commands can change sessions, rules and settings; work in a \
             directory below, keep the home elsewhere with --home, or use --sandbox read-only",
            home.display(),
            root.display()
        ));
    }
}

/// The model that the last request of a session was for.
pub(crate) fn model_of(log: &EventLog) -> Option<ModelName> {
    #[derive(Deserialize)]
    struct Stored {
        header: Header,
    }
    #[derive(Deserialize)]
    struct Header {
        config: Config,
    }
    #[derive(Deserialize)]
    struct Config {
        provider: String,
        model: String,
    }
    let Stored {
        header: Header { config },
    } = log.request_header()?.parse().ok()?;
    Some(ModelName {
        provider: config.provider,
        model: config.model,
    })
}
