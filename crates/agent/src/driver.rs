//! The driver: what runs turns over exactly one live session, and how they can come out.

use std::sync::Arc;

use offshoot_model::{CallConfig, Failure, Model, Usage};
use offshoot_session::{EventDraft, LiveSession, StepRef};
use offshoot_tool_api::{Instructions, Spill, ToolRegistry};

use crate::AgentError;
use crate::answer::Answer;
use crate::approver::Approver;
use crate::cancel::Cancel;
use crate::compaction::Compactor;
use crate::context::{ForkOrigin, Surroundings, Told};
use crate::core::{Core, Route};
use crate::env::Env;
use crate::events::{CancelCause, Header, TurnEndReason};
use crate::history::History;
use crate::hooks::{AgentHook, HookError, StepContext};
use crate::inbox::{self, InboxTarget};
use crate::input::Input;
use crate::permission::Permissions;
use crate::phase::TurnWent;
use crate::reconstruct::Reconstruction;
use crate::recorder::Recorder;
use crate::retry::Retries;
use crate::service::Attached;
use crate::setup::{AgentConfig, AgentSetup};
use crate::titles::TitleModel;

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
    pub(crate) permissions: Permissions,
    /// The header that the last request of this agent went out with; `None` before its first one.
    pub(crate) header: Option<Header>,
    /// Which choice of a model that request followed.
    pub(crate) seeded: Option<u64>,
    /// The choice that counts now.
    pub(crate) route: u64,
    /// What the request is made with that is under way.
    pub(crate) calling: CallConfig,
    pub(crate) instructions: Option<Arc<dyn Instructions>>,
    pub(crate) titles: Option<TitleModel>,
    pub(crate) surroundings: Surroundings,
    pub(crate) told: Told,
    pub(crate) origin: ForkOrigin,
    /// What requests are made of, as far as it was read.
    pub(crate) history: History,
    /// The log so far, read by another path; empty unless requests are verified.
    pub(crate) rebuilt: Reconstruction,
    /// The surface's generation at the last request, or when the agent was attached.
    pub(crate) generation: u64,
    /// Somebody who joined in the step wants its request to begin a new series.
    pub(crate) series: bool,
    pub(crate) usage: Option<Usage>,
    /// The answer that is coming in: whoever drops the future of a run leaves it here.
    pub(crate) listening: Option<Answer>,
    /// Why the open turn has ended although the log does not say so yet.
    pub(crate) unfinished: Option<TurnEndReason>,
    pub(crate) retries: Retries,
    pub(crate) compactor: Compactor,
}

/// How an agent's turn came out: what the log says of it, if it has its end, and what kept the driver from going on.
#[derive(Debug)]
pub(crate) struct TurnOutcome {
    pub(crate) report: Option<TurnReport>,
    pub(crate) error: Option<AgentError>,
}

impl TurnOutcome {
    pub(crate) fn went(&self) -> TurnWent {
        match &self.report {
            Some(report) if self.error.is_none() && report.reason.goes_on() => TurnWent::Well,
            _ => TurnWent::Otherwise,
        }
    }
}

impl From<AgentError> for TurnOutcome {
    /// There was no turn.
    fn from(error: AgentError) -> Self {
        Self {
            report: None,
            error: Some(error),
        }
    }
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
    /// The step could not even be closed in the log.
    Unclosed(Box<Self>, AgentError),
}

impl StepFailure {
    /// This, when the log has then refused what had come of the step.
    pub(crate) fn and_refused(self, refused: AgentError) -> Self {
        let told = match &self {
            Self::Model(failure) => AgentError::Unsettled {
                failure: Box::new(failure.clone()),
                refused: Box::new(refused),
            },
            _ => refused,
        };
        Self::Unclosed(Box::new(self), told)
    }

    /// What the log says of a turn that ends so, and what somebody has to be told besides.
    pub(crate) fn into_ending(self, cancel: &Cancel) -> (TurnEndReason, Option<AgentError>) {
        let (reason, error) = match self {
            Self::Cancelled => (aborted(cancel), None),
            Self::Model(error) => (TurnEndReason::Error { error }, None),
            Self::Driver(error) => {
                let failure = Failure::new(offshoot_model::codes::UNKNOWN, error.to_string());
                (TurnEndReason::Error { error: failure }, Some(error))
            }
            Self::Unclosed(first, then) => {
                let (reason, error) = first.into_ending(cancel);
                let error = match error {
                    Some(error) => error.then(Some(then)),
                    None => then,
                };
                (reason, Some(error))
            }
        };
        // Whatever the model or a hook says of work that we have ended ourselves.
        let reason = cancel.cause().map_or(reason, |_| aborted(cancel));
        (reason, error)
    }
}

impl From<HookError> for StepFailure {
    fn from(error: HookError) -> Self {
        Self::Model(Failure::new(error.code, error.message))
    }
}

impl From<Failure> for StepFailure {
    fn from(failure: Failure) -> Self {
        Self::Model(failure)
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
            registry: _,
            origin,
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
            instructions,
            titles,
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
        let permissions = Permissions::new(&config.permissions);
        let route = Route {
            model: Arc::clone(&model),
            call: config.call.clone(),
            choice: 0,
        };
        let tools_allowed = config.permissions.tools.clone();
        let core = Core::new(
            recorder.clone(),
            live,
            env.clone(),
            observer,
            tools_allowed,
            route,
        );
        // A log that refuses this refuses the next turn as well, and that is where it is said.
        let _refused = inbox::put_back_interrupted(&core);
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
            permissions,
            header: None,
            seeded: None,
            route: 0,
            calling: CallConfig::default(),
            instructions,
            titles,
            surroundings: Surroundings::default(),
            told: Told::default(),
            origin: *origin,
            history: History::default(),
            rebuilt: Reconstruction::new(),
            generation,
            series: false,
            usage: None,
            listening: None,
            unfinished: None,
            retries: Retries::default(),
            compactor: Compactor::default(),
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
        let input = Input::user(self.env.fresh_id(), text);
        if input.says_nothing() {
            return Err(AgentError::EmptyMessage);
        }
        self.check_continuable()?;
        let inserted = inbox::insert(&self.core, InboxTarget::NextTurn, &input);
        self.core.feed.deliver();
        inserted
    }

    /// Calls another model, or the same one otherwise, from the next request on.
    pub fn set_model(&mut self, model: Arc<dyn Model>, call: CallConfig) {
        self.core.set_route(model, call);
    }

    pub(crate) fn take_route(&mut self) {
        let Route {
            model,
            call,
            choice,
        } = self.core.route();
        self.model = model;
        self.config.call = call;
        self.route = choice;
    }

    /// Gives the model other tools, from the next step on.
    pub fn set_tools(&mut self, tools: ToolRegistry) {
        self.tools = tools;
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

    pub(crate) fn append(
        &self,
        draft: EventDraft,
    ) -> Result<Arc<offshoot_session::Event>, AgentError> {
        Ok(self.session.append(draft, self.env.now())?)
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

impl TurnReport {
    pub(crate) const fn is_aborted(&self) -> bool {
        matches!(self.reason, TurnEndReason::Aborted { .. })
    }
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
