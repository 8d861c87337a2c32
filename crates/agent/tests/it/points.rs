//! Something that happens at the n-th of all points at which something could: every append, every barrier, every chunk,
//! every tool, every question to a hook or a person.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use offshoot_agent::{
    AgentHook, Approver, Gate, HookError, Input, Notice, PostExecute, PreStep, ProposedCall,
    Recovery, StepContext,
};
use offshoot_model::{CallConfig, Chunk, Failure, Model, ModelRequest, PreparedCall, ScriptModel};
use offshoot_session::{Event, EventKind, SessionObserver};
use offshoot_tool_api::{
    Concurrency, Effects, PermissionAnswer, PermissionQuestion, Tool, ToolArguments, ToolContext,
    ToolError, ToolOutput, ToolRegistry, ToolSpec,
};
use tokio_util::sync::CancellationToken;

type Action = Box<dyn FnMut() + Send>;

/// Counts points, and acts at one of them. Clones are the same probe.
#[derive(Clone, Default)]
pub(crate) struct Probe(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    passed: usize,
    at: usize,
    action: Option<Action>,
    turn_is_open: bool,
    fired: Option<Fired>,
}

/// The point at which it acted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fired {
    pub(crate) point: String,
    /// Whether a turn was open then.
    pub(crate) in_turn: bool,
}

impl Probe {
    /// Acts at the point that comes as number `at` from now on, counted from 1.
    pub(crate) fn arm(&self, at: usize, action: impl FnMut() + Send + 'static) {
        let mut state = self.0.lock().unwrap();
        state.passed = 0;
        state.at = at;
        state.action = Some(Box::new(action));
    }

    /// How many points have been passed since it was armed.
    pub(crate) fn passed(&self) -> usize {
        self.0.lock().unwrap().passed
    }

    pub(crate) fn fired(&self) -> Option<Fired> {
        self.0.lock().unwrap().fired.clone()
    }

    pub(crate) fn point(&self, point: impl Into<String>) {
        let action = {
            let mut state = self.0.lock().unwrap();
            if state.action.is_none() {
                return;
            }
            state.passed += 1;
            if state.passed != state.at {
                return;
            }
            let in_turn = state.turn_is_open;
            let point = point.into();
            state.fired = Some(Fired { point, in_turn });
            state.action.take()
        };
        if let Some(mut action) = action {
            action();
        }
    }

    fn turn(&self, kind: &EventKind) {
        let mut state = self.0.lock().unwrap();
        match kind {
            EventKind::TurnStart => state.turn_is_open = true,
            EventKind::TurnEnd => state.turn_is_open = false,
            _ => {}
        }
    }

    /// A point behind every event. The session is held there.
    pub(crate) fn events(&self) -> Box<dyn SessionObserver> {
        Box::new(Events {
            probe: self.clone(),
            are_points: true,
        })
    }

    /// Only knows whether a turn is open.
    pub(crate) fn turns(&self) -> Box<dyn SessionObserver> {
        Box::new(Events {
            probe: self.clone(),
            are_points: false,
        })
    }

    /// Tools of a test, each of which passes a point: `look` runs beside others and only reads, `change` does neither.
    pub(crate) fn tools(&self) -> ToolRegistry {
        let mut tools = ToolRegistry::new();
        for (name, effects, concurrency) in [
            ("look", Effects::ReadOnly, Concurrency::Parallel),
            ("change", Effects::Mutating, Concurrency::Exclusive),
        ] {
            let spec = ToolSpec::new(name, "A tool of a test.", r#"{"type":"object"}"#).unwrap();
            let tool = Probed {
                spec,
                effects,
                concurrency,
                probe: self.clone(),
            };
            tools.register(Arc::new(tool)).unwrap();
        }
        tools
    }
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Probe")
    }
}

impl offshoot_agent::AgentObserver for Probe {
    fn notice(&self, notice: &Notice) {
        let name = format!("{notice:?}");
        let name: String = name.chars().take_while(char::is_ascii_alphabetic).collect();
        self.point(format!("notice {name}"));
    }
}

struct Events {
    probe: Probe,
    are_points: bool,
}

impl SessionObserver for Events {
    fn event(&mut self, event: &Arc<Event>) -> Result<(), String> {
        self.probe.turn(event.kind());
        if self.are_points {
            self.probe.point(format!("event {}", event.kind()));
        }
        Ok(())
    }
}

/// A model whose every chunk passes a point before it comes, and so do its questions.
#[derive(Debug)]
pub(crate) struct ProbedModel(pub(crate) ScriptModel, pub(crate) Probe);

impl Model for ProbedModel {
    fn provider(&self) -> &str {
        self.0.provider()
    }

    fn prepare(&self, config: &CallConfig) -> Result<PreparedCall, Failure> {
        self.1.point("prepare");
        self.0.prepare(config)
    }

    fn stream(
        &self,
        request: Arc<ModelRequest>,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Chunk> {
        self.1.point("request");
        let probe = self.1.clone();
        let chunks = self.0.stream(request, cancel);
        chunks
            .then(move |chunk| {
                let probe = probe.clone();
                async move {
                    probe.point("chunk");
                    tokio::task::yield_now().await;
                    chunk
                }
            })
            .boxed()
    }
}

#[derive(Debug)]
struct Probed {
    spec: ToolSpec,
    effects: Effects,
    concurrency: Concurrency,
    probe: Probe,
}

#[async_trait]
impl Tool for Probed {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self) -> Effects {
        self.effects
    }

    fn concurrency(&self, _: &ToolArguments) -> Concurrency {
        self.concurrency
    }

    async fn execute(&self, _: ToolArguments, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.probe.point(format!("tool {} begins", cx.call_id));
        tokio::task::yield_now().await;
        if cx.cancel.is_cancelled() {
            return Err(ToolError::aborted());
        }
        self.probe.point(format!("tool {} ends", cx.call_id));
        Ok(ToolOutput::text("done"))
    }
}

/// A hook that changes nothing, except that it steers a turn once, when it would end.
#[derive(Debug)]
pub(crate) struct ProbedHook {
    pub(crate) probe: Probe,
    pub(crate) steers: Mutex<Option<Input>>,
}

#[async_trait]
impl AgentHook for ProbedHook {
    async fn pre_step(
        &self,
        _: &StepContext<'_>,
        messages: Vec<Input>,
    ) -> Result<PreStep, HookError> {
        self.probe.point("hook pre_step");
        tokio::task::yield_now().await;
        Ok(PreStep::Enter {
            messages,
            starts_series: false,
        })
    }

    async fn request(
        &self,
        _: &StepContext<'_>,
        config: CallConfig,
    ) -> Result<CallConfig, HookError> {
        self.probe.point("hook request");
        tokio::task::yield_now().await;
        Ok(config)
    }

    async fn request_failed(
        &self,
        _: &StepContext<'_>,
        failure: &Failure,
    ) -> Result<Recovery, HookError> {
        self.probe.point("hook request_failed");
        tokio::task::yield_now().await;
        Ok(match &*failure.code {
            "SERVER" => Recovery::Retry,
            _ => Recovery::GiveUp,
        })
    }

    async fn pre_execute(
        &self,
        _: &StepContext<'_>,
        call: &ProposedCall<'_>,
    ) -> Result<Gate, HookError> {
        self.probe.point("hook pre_execute");
        tokio::task::yield_now().await;
        Ok(match call.tool_name {
            "change" => Gate::Ask { reason: None },
            _ => Gate::Allow,
        })
    }

    async fn post_execute(
        &self,
        _: &StepContext<'_>,
        _: &ProposedCall<'_>,
        _: &Result<ToolOutput, ToolError>,
    ) -> Result<PostExecute, HookError> {
        self.probe.point("hook post_execute");
        tokio::task::yield_now().await;
        Ok(PostExecute::default())
    }

    async fn turn_stopping(&self, _: &StepContext<'_>) -> Result<Vec<Input>, HookError> {
        self.probe.point("hook turn_stopping");
        tokio::task::yield_now().await;
        Ok(self.steers.lock().unwrap().take().into_iter().collect())
    }
}

#[async_trait]
impl Approver for Probe {
    async fn ask(&self, _: &PermissionQuestion, _: &CancellationToken) -> PermissionAnswer {
        self.point("question");
        tokio::task::yield_now().await;
        PermissionAnswer::AllowedOnce
    }
}
