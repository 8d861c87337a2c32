//! Agents with parts of their own, and a model of which more is known than of others.

use std::sync::Arc;

use futures_util::stream::BoxStream;
use offshoot_agent::{AgentSetup, Attached, Driver};
use offshoot_model::{
    AdapterDefaults, Attempt, CallConfig, Chunk, Failure, Model, ModelInfo, ModelRequest,
    PreparedCall, RetryPolicy, ScriptModel,
};
use offshoot_session::{EventKind, EventLog};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, config, script};
use crate::support::{all, says};

/// An agent on a session, set up as `change` wants it.
pub(crate) fn agent_with(
    bench: &Bench,
    attached: Attached,
    model: Arc<dyn Model>,
    change: impl FnOnce(&mut AgentSetup),
) -> Driver {
    let mut setup = AgentSetup::new(model, bench.work.tools(), config(), bench.env.clone());
    change(&mut setup);
    Driver::new(attached, setup)
}

/// Answers from a script, and fills in and knows what it is told to.
#[derive(Debug)]
pub(crate) struct Routed {
    pub(crate) script: Arc<ScriptModel>,
    pub(crate) info: ModelInfo,
    pub(crate) effort: Option<&'static str>,
    pub(crate) max_tokens: Option<u64>,
}

impl Routed {
    pub(crate) fn new(attempts: Vec<Attempt>) -> Self {
        Self {
            script: script(attempts),
            info: ModelInfo::default(),
            effort: None,
            max_tokens: None,
        }
    }

    /// One that answers everything, and takes prompts and tools in the middle of a conversation.
    pub(crate) fn flexible(answers: usize) -> Self {
        let mut model = Self::new(vec![says("Yes."); answers]);
        model.info.system_prompt_in_history = true;
        model.info.tool_updates = true;
        model
    }
}

impl Model for Routed {
    fn provider(&self) -> &str {
        self.script.provider()
    }

    fn prepare(&self, config: &CallConfig) -> Result<PreparedCall, Failure> {
        let mut prepared = PreparedCall::plain(config.clone());
        prepared.info = self.info.clone();
        prepared.retry = RetryPolicy::never();
        let filled = &mut prepared.config;
        let mut defaults = AdapterDefaults::default();
        if filled.reasoning_effort.is_none() {
            filled.reasoning_effort = self.effort.map(str::to_owned);
            defaults.reasoning_effort = self.effort.is_some();
        }
        if filled.max_tokens.is_none() {
            filled.max_tokens = self.max_tokens;
            defaults.max_tokens = self.max_tokens.is_some();
        }
        prepared.adapter_defaults = defaults;
        Ok(prepared)
    }

    fn stream(
        &self,
        request: Arc<ModelRequest>,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Chunk> {
        self.script.stream(request, cancel)
    }
}

/// What every header says besides the tools.
pub(crate) fn headers(log: &EventLog) -> Vec<Value> {
    let mut headers = all(log, &EventKind::RequestHeader);
    for header in &mut headers {
        header["header"].as_object_mut().unwrap().remove("tools");
    }
    headers
}

/// The texts of the user messages of a kind.
pub(crate) fn texts_of(log: &EventLog, kind: &str) -> Vec<String> {
    all(log, &EventKind::UserMessage)
        .iter()
        .filter(|message| message["source"]["kind"] == kind)
        .map(|message| message["content"][0]["text"].as_str().unwrap().to_owned())
        .collect()
}
