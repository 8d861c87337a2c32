//! One turn with calls of tools that a test makes up, with its own hooks, person and rules.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use offshoot_agent::{
    AgentConfig, AgentHook, AgentObserver, AgentSetup, Approver, Attached, Cancel, Driver, Gate,
    HookError, NobodyToAsk, PermissionRules, PolicyFile, PostExecute, ProposedCall, StepContext,
};
use offshoot_session::{EventKind, EventLog, LiveSession};
use offshoot_tool_api::{
    Concurrency, Effects, Escalation, PermissionAnswer, PermissionQuestion, SandboxMode, Spill,
    Tool, ToolArguments, ToolContext, ToolError, ToolOutput, ToolRegistry, ToolSpec,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, ask, config, script};
use crate::support::{all, calls, says};

type Body = dyn Fn(&ToolContext) -> Result<ToolOutput, ToolError> + Send + Sync;

/// A tool whose body is a function. It wants more than its limits if its arguments say `beyond`.
pub(crate) struct Probe {
    spec: ToolSpec,
    effects: Effects,
    concurrency: Box<dyn Fn() -> Concurrency + Send + Sync>,
    body: Box<Body>,
}

impl Probe {
    pub(crate) fn new(
        name: &str,
        body: impl Fn(&ToolContext) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            spec: ToolSpec::new(name, "A tool of a test.", r#"{"type":"object"}"#).unwrap(),
            effects: Effects::Mutating,
            concurrency: Box::new(|| Concurrency::Exclusive),
            body: Box::new(body),
        }
    }

    /// One that says under which limits it runs.
    pub(crate) fn limits(name: &str) -> Self {
        Self::new(name, |cx| Ok(ToolOutput::text(cx.limits.mode.as_str())))
    }

    pub(crate) fn with_effects(self, effects: Effects) -> Self {
        Self { effects, ..self }
    }

    pub(crate) fn running(
        self,
        concurrency: impl Fn() -> Concurrency + Send + Sync + 'static,
    ) -> Self {
        let concurrency = Box::new(concurrency);
        Self {
            concurrency,
            ..self
        }
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spec.name)
    }
}

#[async_trait]
impl Tool for Probe {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self) -> Effects {
        self.effects
    }

    fn concurrency(&self, _: &ToolArguments) -> Concurrency {
        (self.concurrency)()
    }

    fn escalation(&self, arguments: &ToolArguments, cx: &ToolContext) -> Option<Escalation> {
        assert_ne!(cx.limits.mode, SandboxMode::DangerFullAccess);
        let arguments = arguments.to_value();
        let reason = arguments.get("beyond")?.as_str()?.to_owned();
        assert_ne!(reason, "panic");
        Some(Escalation { reason })
    }

    async fn execute(&self, _: ToolArguments, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        (self.body)(cx)
    }
}

type Before = dyn Fn(&ProposedCall<'_>) -> Result<Gate, HookError> + Send + Sync;
type After = dyn Fn(&Result<ToolOutput, ToolError>) -> Result<PostExecute, HookError> + Send + Sync;

/// A hook around calls.
pub(crate) struct Around(Box<Before>, Box<After>);

impl Around {
    pub(crate) fn before(
        before: impl Fn(&ProposedCall<'_>) -> Result<Gate, HookError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let after = |_: &Result<ToolOutput, ToolError>| Ok(PostExecute::default());
        Arc::new(Self(Box::new(before), Box::new(after)))
    }

    pub(crate) fn after(
        after: impl Fn(&Result<ToolOutput, ToolError>) -> Result<PostExecute, HookError>
        + Send
        + Sync
        + 'static,
    ) -> Arc<Self> {
        Arc::new(Self(Box::new(|_| Ok(Gate::Allow)), Box::new(after)))
    }
}

impl fmt::Debug for Around {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Around")
    }
}

#[async_trait]
impl AgentHook for Around {
    async fn pre_execute(
        &self,
        _: &StepContext<'_>,
        call: &ProposedCall<'_>,
    ) -> Result<Gate, HookError> {
        (self.0)(call)
    }

    async fn post_execute(
        &self,
        _: &StepContext<'_>,
        _: &ProposedCall<'_>,
        outcome: &Result<ToolOutput, ToolError>,
    ) -> Result<PostExecute, HookError> {
        (self.1)(outcome)
    }
}

/// Somebody who gives these answers, the last one for ever, and remembers what was asked.
#[derive(Debug)]
pub(crate) struct Person {
    answers: Mutex<Vec<PermissionAnswer>>,
    pub(crate) asked: Mutex<Vec<PermissionQuestion>>,
}

impl Person {
    pub(crate) fn who_says(answers: impl IntoIterator<Item = PermissionAnswer>) -> Arc<Self> {
        let mut answers: Vec<_> = answers.into_iter().collect();
        answers.reverse();
        Arc::new(Self {
            answers: Mutex::new(answers),
            asked: Mutex::default(),
        })
    }

    /// The reasons of the questions.
    pub(crate) fn reasons(&self) -> Vec<Option<String>> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|one| one.reason.clone()).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

#[async_trait]
impl Approver for Person {
    async fn ask(&self, question: &PermissionQuestion, _: &CancellationToken) -> PermissionAnswer {
        self.asked.lock().unwrap().push(question.clone());
        let mut answers = self.answers.lock().unwrap();
        match answers.len() {
            1 => answers[0],
            _ => answers.pop().unwrap(),
        }
    }
}

/// What a turn is made of.
pub(crate) struct Scene<'a> {
    pub(crate) bench: &'a Bench,
    pub(crate) tools: ToolRegistry,
    pub(crate) hooks: Vec<Arc<dyn AgentHook>>,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) config: AgentConfig,
    pub(crate) spill: Option<Arc<dyn Spill>>,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(bench: &'a Bench) -> Self {
        Self {
            bench,
            tools: bench.work.tools(),
            hooks: Vec::new(),
            approver: Arc::new(NobodyToAsk),
            config: config(),
            spill: None,
        }
    }

    pub(crate) fn tool(mut self, tool: Probe) -> Self {
        self.tools.register(Arc::new(tool)).unwrap();
        self
    }

    pub(crate) fn hook(mut self, hook: Arc<dyn AgentHook>) -> Self {
        self.hooks.push(hook);
        self
    }

    pub(crate) fn person(mut self, person: Arc<Person>) -> Self {
        self.approver = person;
        self
    }

    /// Rules as JSON, which is as good as TOML for what they mean.
    pub(crate) fn rules(mut self, rules: &Value) -> Self {
        let file: PolicyFile =
            serde_json::from_value(serde_json::json!({ "rule": rules })).unwrap();
        self.config.permissions.rules = PermissionRules::new(file.rules).unwrap();
        self
    }

    /// An agent on a new session whose model makes these calls in a step and says something in another one.
    pub(crate) fn agent(self, asked: &[(&str, &str, &str)]) -> Driver {
        let attached = self.bench.create();
        self.agent_on(attached, asked)
    }

    pub(crate) fn agent_on(self, attached: Attached, asked: &[(&str, &str, &str)]) -> Driver {
        Driver::new(attached, self.setup(asked))
    }

    pub(crate) fn watched_agent(
        self,
        observer: Arc<dyn AgentObserver>,
        asked: &[(&str, &str, &str)],
    ) -> Driver {
        let attached = self.bench.create();
        let mut setup = self.setup(asked);
        setup.observer = Some(observer);
        Driver::new(attached, setup)
    }

    pub(crate) fn setup(self, asked: &[(&str, &str, &str)]) -> AgentSetup {
        let answers = vec![calls(asked.iter().copied()), says("Done."), says("Done.")];
        let env = self.bench.env.clone();
        let mut setup = AgentSetup::new(script(answers), self.tools, self.config, env);
        setup.hooks = self.hooks;
        setup.approver = self.approver;
        setup.spill = self.spill;
        setup
    }

    /// Runs the turn and reads back what is stored of it.
    pub(crate) async fn play(self, asked: &[(&str, &str, &str)]) -> EventLog {
        let bench = self.bench;
        let mut agent = self.agent(asked);
        ask(&mut agent, "Work.").await;
        bench.log(agent.session().id())
    }
}

/// Runs a turn that the test cancels.
pub(crate) async fn cancelled(agent: &mut Driver, then: impl AsyncFnOnce(&Cancel)) -> LiveSession {
    agent.submit("Work.").unwrap();
    let cancel = Cancel::new();
    let (reports, ()) = tokio::join!(agent.run(&cancel), then(&cancel));
    reports.unwrap();
    agent.session().clone()
}

/// What was asked and decided, as `asked <tool> <call>` and `decided <outcome>`.
pub(crate) fn approvals(log: &EventLog) -> Vec<String> {
    let kinds = [EventKind::ApprovalAsked, EventKind::ApprovalDecided];
    let mut found: Vec<String> = Vec::new();
    for event in log.events().filter(|event| kinds.contains(event.kind())) {
        let data = crate::support::data(event);
        found.push(match event.kind() {
            EventKind::ApprovalAsked => {
                format!(
                    "asked {} {}",
                    text(&data["toolName"]),
                    text(&data["callId"])
                )
            }
            _ => format!("decided {}", text(&data["outcome"])),
        });
    }
    found
}

/// The texts of the results in their order.
pub(crate) fn texts(log: &EventLog) -> Vec<String> {
    let results = all(log, &EventKind::ToolResult);
    let texts = results
        .iter()
        .map(|result| text(&result["message"]["content"][0]["text"]));
    texts.collect()
}

/// The texts of the messages from this kind of source.
pub(crate) fn said_by(log: &EventLog, source: &str) -> Vec<String> {
    let messages = all(log, &EventKind::UserMessage);
    let said = messages
        .iter()
        .filter(|message| message["source"]["kind"] == source);
    said.map(|message| text(&message["content"][0]["text"]))
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
