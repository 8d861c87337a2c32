//! The driver: turns and steps over exactly one live session (`reference/agent.md` §1.4 and §1.5, V4).
//!
//! The order of events is the product: `turn/start`, the claims, `step/start`, the step, `step/end`, and so on until nobody
//! has anything to add, then `turn/end`. A step that fails answers its calls before it ends, whatever failed. Places that
//! the plain driver leaves open on purpose: steering while a model streams, retries of a failed attempt, compaction before
//! a step, hooks around the turn.

use std::sync::Arc;

use offshoot_model::{CallConfig, Failure, Model, Usage};
use offshoot_session::{EventDraft, EventKind, LiveSession, LogOffset, StepRef};
use offshoot_tool_api::ToolRegistry;

use crate::answer::Answer;
use crate::cancel::Cancel;
use crate::env::Env;
use crate::events::{CancelCause, Header, Step, TurnEnd, TurnEndReason, TurnStart, logged, read};
use crate::inbox::{self, InboxTarget};
use crate::recorder::{DurableListener, Recorder};
use crate::service::{Attached, Live};
use crate::{AgentError, prompt};

/// What an agent runs with.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Which model is called, and how.
    pub call: CallConfig,
    /// The system prompt of a session that has none yet. Ignored for one that has: its prompt is history.
    pub system_prompt: String,
    /// How many tools that allow it run at the same time. At least 1.
    pub max_parallel_tool_calls: usize,
}

impl AgentConfig {
    /// The defaults for a model: [`prompt::DEFAULT_SYSTEM_PROMPT`] and ten tools at a time.
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
            max_parallel_tool_calls: 10,
        }
    }
}

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

/// An agent: a driver over one live session.
pub struct Agent {
    pub(crate) session: LiveSession,
    /// Ahead of `live`: a session is live for as long as its file lags behind.
    pub(crate) recorder: Recorder,
    /// Takes the session out of the store when the agent goes.
    live: Live,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: ToolRegistry,
    pub(crate) config: AgentConfig,
    pub(crate) env: Env,
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

impl<E: Into<AgentError>> From<E> for StepFailure {
    fn from(error: E) -> Self {
        Self::Driver(error.into())
    }
}

impl Agent {
    /// Puts a driver on a session. `on_durable` hears of every event as soon as it is durable.
    #[must_use]
    pub fn new(
        attached: Attached,
        model: Arc<dyn Model>,
        tools: ToolRegistry,
        config: AgentConfig,
        env: Env,
        on_durable: Option<DurableListener>,
    ) -> Self {
        let Attached {
            live,
            writer,
            recording,
        } = attached;
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
        Self {
            session,
            recorder,
            live,
            model,
            tools,
            config,
            env,
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
        let message = inbox::user_message(self.env.fresh_id(), text);
        inbox::insert(
            &self.session,
            InboxTarget::NextTurn,
            message,
            self.env.now(),
        )
    }

    /// Calls another model, or the same one otherwise, from the next request on.
    pub fn set_model(&mut self, model: Arc<dyn Model>, call: CallConfig) {
        self.model = model;
        self.config.call = call;
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
            let claimed = inbox::claim(&self.session, step == 1, self.env.now())?;
            if claimed.is_empty() && (ended || step == 1) {
                break;
            }
            let at = StepRef { turn, step };
            self.append(logged(EventKind::StepStart, &Step::from(at)))?;
            let result = self.step(at, &claimed, cancel).await;
            self.end_step(at)?;
            let ending = result?;
            cut_off |= ending == StepEnding::MaxTokens;
            ended = ending != StepEnding::Continue;
            check(cancel)?;
            if ended && self.session.log().pending_input().next_step().is_empty() {
                break;
            }
        }
        Ok(if cut_off {
            TurnEndReason::MaxTokens
        } else {
            TurnEndReason::Completed
        })
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

impl Drop for Agent {
    /// Stores what is queued, and leaves word of it. What cannot be stored is tried once more, and told, when the recorder
    /// goes.
    fn drop(&mut self) {
        if !self.session.log().is_empty() && self.recorder.flush_blocking().is_ok() {
            self.live.note(&self.recorder.shareable());
        }
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent")
            .field("session", &self.session)
            .field("model", &self.model)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
