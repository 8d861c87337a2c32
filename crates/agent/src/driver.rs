//! The driver: turns and steps over exactly one live session (`reference/agent.md` §1.4 and §1.5, V4).
//!
//! The order of events is the product: `turn/start`, the claims, `step/start`, the step, `step/end`, and so on until nobody
//! has anything to add, then `turn/end`. A step that fails answers its calls before it ends, whatever failed.

use std::sync::Arc;

use offshoot_model::{CallConfig, Failure, Model, Usage};
use offshoot_session::{EventDraft, EventKind, LiveSession, LogOffset, StepRef};
use offshoot_tool_api::{Spill, ToolRegistry};

use crate::AgentError;
use crate::answer::Answer;
use crate::approver::Approver;
use crate::cancel::Cancel;
use crate::core::{Core, Route};
use crate::env::Env;
use crate::events::{CancelCause, Header, Step, TurnEnd, TurnEndReason, TurnStart, logged, read};
use crate::hooks::{AgentHook, HookError, PreStep, StepContext};
use crate::inbox::{self, InboxTarget, Input};
use crate::notices::Notice;
use crate::recorder::Recorder;
use crate::service::Attached;
use crate::setup::{AgentConfig, AgentSetup};

/// What came of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnReport {
    /// Its number.
    pub turn: u64,
    /// Why it ended.
    pub reason: TurnEndReason,
    /// What the model said last in it.
    pub text: String,
    /// The usage of all its model calls together, if any reported one.
    pub usage: Option<Usage>,
}

/// The loop over one live session. It runs where it is awaited; [`Agent`](crate::Agent) runs it on a task of its own.
pub struct Driver {
    pub(crate) core: Arc<Core>,
    pub(crate) session: LiveSession,
    pub(crate) recorder: Recorder,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: ToolRegistry,
    pub(crate) config: AgentConfig,
    pub(crate) env: Env,
    pub(crate) hooks: Vec<Arc<dyn AgentHook>>,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) spill: Option<Arc<dyn Spill>>,
    /// The header that the last request of this agent went out with; `None` before its first one.
    pub(crate) header: Option<Header>,
    /// The surface's generation at the last request, or when the agent was attached.
    pub(crate) generation: u64,
    pub(crate) usage: Option<Usage>,
    /// The answer that is coming in: whoever drops the future of a run leaves it here.
    pub(crate) listening: Option<Answer>,
}

/// How a step came out, if it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepEnding {
    /// Tools have answered: the model goes on.
    Continue,
    /// The model had no more to do.
    Completed,
    /// The model's answer was cut off.
    MaxTokens,
}

/// What ends a step before its time.
#[derive(Debug)]
pub(crate) enum StepFailure {
    /// Somebody cancelled.
    Cancelled,
    /// The model failed.
    Model(Failure),
    /// The driver itself cannot go on.
    Driver(AgentError),
}

impl From<HookError> for StepFailure {
    fn from(error: HookError) -> Self {
        Self::Model(Failure::new(error.code, error.message))
    }
}

impl<E: Into<AgentError>> From<E> for StepFailure {
    fn from(error: E) -> Self {
        Self::Driver(error.into())
    }
}

impl Driver {
    /// Puts a driver on a session.
    #[must_use]
    pub fn new(attached: Attached, setup: AgentSetup) -> Self {
        let Attached {
            live,
            writer,
            recording,
        } = attached;
        let AgentSetup {
            model,
            tools,
            config,
            env,
            hooks,
            approver,
            observer,
            on_durable,
            spill,
        } = setup;
        let session = live.session.clone();
        let recorder = {
            let mut session = session.lock();
            let behind = writer.stored();
            let pending = session.log().events_from(behind).cloned();
            let recorder = Recorder::new(&recording, writer, pending, on_durable);
            session.observe(recorder.observer());
            recorder
        };
        let generation = session.log().surface().content_generation();
        let route = Route {
            model: Arc::clone(&model),
            call: config.call.clone(),
        };
        let core = Core::new(recorder.clone(), live, env.clone(), observer, route);
        Self {
            core: Arc::new(core),
            session,
            recorder,
            model,
            tools,
            config,
            env,
            hooks,
            approver,
            spill,
            header: None,
            generation,
            usage: None,
            listening: None,
        }
    }

    /// The session.
    #[must_use]
    pub const fn session(&self) -> &LiveSession {
        &self.session
    }

    /// Queues a person's message for the next turn. It is in the log at once and durable with the next flush; it waits
    /// there until a turn claims it, also across a restart.
    ///
    /// # Errors
    /// An empty message, a conversation that cannot go on, damaged pending input, or a log that refused the message.
    pub fn submit(&self, text: &str) -> Result<(), AgentError> {
        if text.is_empty() {
            return Err(AgentError::EmptyMessage);
        }
        self.check_continuable()?;
        let input = Input::user(self.env.fresh_id(), text);
        inbox::insert(&self.session, InboxTarget::NextTurn, &input, self.env.now())
    }

    /// Calls another model, or the same one otherwise, from the next request on.
    pub fn set_model(&mut self, model: Arc<dyn Model>, call: CallConfig) {
        self.core.set_route(Route { model, call });
    }

    pub(crate) fn take_route(&mut self) {
        let Route { model, call } = self.core.route();
        self.model = model;
        self.config.call = call;
    }

    pub(crate) fn hook_context<'a>(&'a self, at: StepRef, cancel: &'a Cancel) -> StepContext<'a> {
        StepContext {
            session: &self.session,
            at,
            cancel: cancel.token(),
        }
    }

    /// Makes everything logged so far durable.
    ///
    /// # Errors
    /// Storage failed; nothing is lost, the next flush tries again.
    pub fn flush(&self) -> Result<(), AgentError> {
        self.recorder.flush_blocking()
    }

    /// Runs turns until no input waits, or one does not complete; then the rest of the input stays where it is. Cancelling
    /// drops it.
    ///
    /// Whoever drops the future abandons the turn: its tools are told, and the next run closes it in the log.
    ///
    /// # Errors
    /// Storage or the log failed; the turn was ended in the log as far as that was still possible. Or the conversation
    /// cannot go on, or its pending input is damaged; then nothing was written.
    pub async fn run(&mut self, cancel: &Cancel) -> Result<Vec<TurnReport>, AgentError> {
        self.check_continuable()?;
        self.close_abandoned_turn().await?;
        let mut reports = Vec::new();
        while self.has_input()? {
            let report = self.turn(cancel).await?;
            let cancelled = matches!(report.reason, TurnEndReason::Aborted { .. });
            let goes_on = matches!(
                report.reason,
                TurnEndReason::Completed | TurnEndReason::MaxTokens
            );
            reports.push(report);
            if cancelled {
                inbox::clear(&self.session, self.env.now())?;
                self.recorder.flush().await?;
            }
            if !goes_on {
                break;
            }
        }
        Ok(reports)
    }

    fn check_continuable(&self) -> Result<(), AgentError> {
        Ok(self.session.log().continuable()?)
    }

    fn has_input(&self) -> Result<bool, AgentError> {
        let log = self.session.log();
        let input = log.pending_input();
        match input.damage() {
            Some(seq) => Err(AgentError::Inbox(seq)),
            None => Ok(!input.is_empty()),
        }
    }

    /// Nobody would read a log in which a turn starts inside another.
    async fn close_abandoned_turn(&mut self) -> Result<(), AgentError> {
        let log = self.session.log();
        let Some(turn) = log.open_tail().turn() else {
            return Ok(());
        };
        if let Some(step) = log.open_tail().step() {
            self.settle_abandoned_answer(step)?;
            self.end_step(step)?;
        }
        let reason = TurnEndReason::Aborted {
            reason: CancelCause::Disposed,
        };
        self.end_turn(turn, &reason)?;
        self.recorder.flush().await
    }

    /// One turn of an agent: also without input, which somebody may have taken back.
    pub(crate) async fn next_turn(&mut self, cancel: &Cancel) -> Result<TurnReport, AgentError> {
        self.check_continuable()?;
        self.close_abandoned_turn().await?;
        self.turn(cancel).await
    }

    async fn turn(&mut self, cancel: &Cancel) -> Result<TurnReport, AgentError> {
        let (turn, start) = {
            let log = self.session.log();
            (log.last_turn() + 1, log.end())
        };
        self.usage = None;
        self.append(logged(EventKind::TurnStart, &TurnStart { turn }))?;
        let (reason, failure) = match self.steps(turn, cancel).await {
            Ok(reason) => (reason, None),
            Err(StepFailure::Cancelled) => (aborted(cancel), None),
            // Whatever the model says of a call that we have ended ourselves.
            Err(StepFailure::Model(_)) if cancel.cause().is_some() => (aborted(cancel), None),
            Err(StepFailure::Model(error)) => (TurnEndReason::Error { error }, None),
            Err(StepFailure::Driver(error)) => {
                let code = offshoot_model::codes::UNKNOWN;
                let reason = TurnEndReason::Error {
                    error: Failure::new(code, error.to_string()),
                };
                (reason, Some(error))
            }
        };
        self.end_turn(turn, &reason)?;
        let flushed = self.recorder.flush().await;
        if let Some(error) = failure {
            return Err(error);
        }
        flushed?;
        Ok(TurnReport {
            turn,
            reason,
            text: self.last_text(start),
            usage: self.usage,
        })
    }

    async fn steps(&mut self, turn: u64, cancel: &Cancel) -> Result<TurnEndReason, StepFailure> {
        let mut cut_off = false;
        let mut ended = false;
        for step in 1.. {
            check(cancel)?;
            let at = StepRef { turn, step };
            let entering = self.claim(at)?;
            let Some(entering) = self.pre_step(at, entering, cancel).await? else {
                return Ok(TurnEndReason::Blocked);
            };
            check(cancel)?;
            if entering.is_empty() && (ended || step == 1) {
                break;
            }
            self.append(logged(EventKind::StepStart, &Step::from(at)))?;
            let result = self.step(at, &entering, cancel).await;
            self.end_step(at)?;
            let ending = result?;
            cut_off |= ending == StepEnding::MaxTokens;
            ended = ending != StepEnding::Continue;
            check(cancel)?;
            if ended && !self.goes_on(at, cancel).await? {
                break;
            }
        }
        Ok(if cut_off {
            TurnEndReason::MaxTokens
        } else {
            TurnEndReason::Completed
        })
    }

    fn claim(&self, at: StepRef) -> Result<Vec<Input>, AgentError> {
        let claimed = inbox::claim(&self.session, at.step == 1, self.env.now())?;
        for input in &claimed {
            self.core.notify(&Notice::Claimed {
                message: input.id(),
                turn: at.turn,
            });
        }
        Ok(claimed)
    }

    /// What enters the step; `None` if a hook does not let it begin.
    async fn pre_step(
        &self,
        at: StepRef,
        claimed: Vec<Input>,
        cancel: &Cancel,
    ) -> Result<Option<Vec<Input>>, StepFailure> {
        let mut entering = claimed;
        // A step that nobody asked for does not begin because the world has changed.
        if !entering.is_empty() || at.step > 1 {
            entering.extend(self.runtime_context());
        }
        for hook in &self.hooks {
            let decision = hook
                .pre_step(&self.hook_context(at, cancel), entering)
                .await?;
            match decision {
                PreStep::Enter { messages, .. } => entering = messages,
                PreStep::Reject => return Ok(None),
            }
        }
        Ok(Some(entering))
    }

    /// Whether there is another step although the model has no more to do.
    async fn goes_on(&self, at: StepRef, cancel: &Cancel) -> Result<bool, StepFailure> {
        let waits = || !self.session.log().pending_input().next_step().is_empty();
        if waits() {
            return Ok(true);
        }
        for hook in &self.hooks {
            for input in hook.turn_stopping(&self.hook_context(at, cancel)).await? {
                let target = InboxTarget::NextStep;
                inbox::insert(&self.session, target, &input, self.env.now())?;
            }
        }
        check(cancel)?;
        Ok(waits())
    }

    /// A step is never closed with a call unanswered: no provider would accept the conversation afterwards.
    fn end_step(&self, at: StepRef) -> Result<(), AgentError> {
        let now = self.env.now();
        let mut session = self.session.lock();
        session.answer_pending(now)?;
        session.append(logged(EventKind::StepEnd, &Step::from(at)), now)?;
        Ok(())
    }

    fn end_turn(&self, turn: u64, reason: &TurnEndReason) -> Result<(), AgentError> {
        self.append(logged(EventKind::TurnEnd, &TurnEnd { turn, reason }))?;
        Ok(())
    }

    pub(crate) fn append(
        &self,
        draft: EventDraft,
    ) -> Result<Arc<offshoot_session::Event>, AgentError> {
        Ok(self.session.append(draft, self.env.now())?)
    }

    /// The text of the last message of the model behind an offset.
    fn last_text(&self, from: LogOffset) -> String {
        #[derive(serde::Deserialize)]
        struct Stored {
            message: offshoot_model::Message,
        }
        let log = self.session.log();
        let last = log
            .events_from(from)
            .filter(|event| *event.kind() == EventKind::AssistantMessage)
            .last()
            .and_then(|event| read::<Stored>(event));
        let blocks = last
            .map(|stored| stored.message.content)
            .unwrap_or_default();
        let texts = blocks.into_iter().filter_map(|block| match block {
            offshoot_model::ContentBlock::Text { text } => Some(text),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }
}

pub(crate) fn check(cancel: &Cancel) -> Result<(), StepFailure> {
    if cancel.token().is_cancelled() {
        Err(StepFailure::Cancelled)
    } else {
        Ok(())
    }
}

fn aborted(cancel: &Cancel) -> TurnEndReason {
    let reason = cancel.cause().unwrap_or(CancelCause::User);
    TurnEndReason::Aborted { reason }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("session", &self.session)
            .field("model", &self.model)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
