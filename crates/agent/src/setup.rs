//! What an agent is made of besides its session.

use std::fmt;
use std::sync::Arc;

use offshoot_model::{CallConfig, Model};
use offshoot_tool_api::{Instructions, Spill, ToolRegistry};

use crate::approver::{Approver, NobodyToAsk};
use crate::compaction::CompactionConfig;
use crate::context::ContextConfig;
use crate::env::Env;
use crate::hooks::AgentHook;
use crate::notices::AgentObserver;
use crate::permission::PermissionConfig;
use crate::prompt;
use crate::recorder::DurableListener;
use crate::titles::TitleModel;

/// What an agent runs with.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Which model is called, and how.
    pub call: CallConfig,
    /// The system prompt of a session that has none yet. One that has keeps its own, unless
    /// [`ContextConfig::system_prompt`] says otherwise.
    pub system_prompt: String,
    /// What else requests are made of.
    pub context: ContextConfig,
    /// How many tools that allow it run at the same time. At least 1.
    pub max_parallel_tool_calls: usize,
    /// The most of a tool's result that the model is shown, in bytes. Built-in tools keep below the default of 64 KiB by
    /// themselves; what is longer is cut in the middle, and the whole goes to [`AgentSetup::spill`].
    pub max_result_bytes: usize,
    /// What its tools may do.
    pub permissions: PermissionConfig,
    /// When older history gives way to a summary.
    pub compaction: CompactionConfig,
}

impl AgentConfig {
    /// The defaults for a model: [`prompt::DEFAULT_SYSTEM_PROMPT`], ten tools at a time, changes in the workspace.
    #[must_use]
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        let call = CallConfig {
            provider: provider.into(),
            model: model.into(),
            ..CallConfig::default()
        };
        Self {
            call,
            system_prompt: prompt::DEFAULT_SYSTEM_PROMPT.to_owned(),
            context: ContextConfig::default(),
            max_parallel_tool_calls: 10,
            max_result_bytes: 64 * 1024,
            permissions: PermissionConfig::default(),
            compaction: CompactionConfig::default(),
        }
    }
}

/// The parts of an agent. Nobody watches it, joins in or answers its questions unless that is set.
#[derive(Clone)]
pub struct AgentSetup {
    /// What answers.
    pub model: Arc<dyn Model>,
    /// What the model may call. In which order it sees them, [`ContextConfig::tool_order`] says.
    pub tools: ToolRegistry,
    /// How it works.
    pub config: AgentConfig,
    /// Where time and names come from.
    pub env: Env,
    /// Who joins in its turns.
    pub hooks: Vec<Arc<dyn AgentHook>>,
    /// Who answers its questions.
    pub approver: Arc<dyn Approver>,
    /// Who watches it.
    pub observer: Option<Arc<dyn AgentObserver>>,
    /// Hears of every event as soon as it is durable.
    pub on_durable: Option<DurableListener>,
    /// Where output goes that is too long to be shown.
    pub spill: Option<Arc<dyn Spill>>,
    /// Where project instructions come from.
    pub instructions: Option<Arc<dyn Instructions>>,
    /// Who is asked for titles besides the first words of a conversation.
    pub titles: Option<TitleModel>,
}

impl AgentSetup {
    /// The parts that every agent needs.
    #[must_use]
    pub fn new(model: Arc<dyn Model>, tools: ToolRegistry, config: AgentConfig, env: Env) -> Self {
        Self {
            model,
            tools,
            config,
            env,
            hooks: Vec::new(),
            approver: Arc::new(NobodyToAsk),
            observer: None,
            on_durable: None,
            spill: None,
            instructions: None,
            titles: None,
        }
    }
}

impl fmt::Debug for AgentSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentSetup")
            .field("model", &self.model)
            .field("tools", &self.tools)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
