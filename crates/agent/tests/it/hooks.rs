//! Hooks that do one thing.

use std::sync::Mutex;

use async_trait::async_trait;
use offshoot_agent::{AgentHook, HookError, Input, PreStep, StepContext};

type Decide = dyn Fn(u64, Vec<Input>) -> Result<PreStep, HookError> + Send + Sync;

/// Decides about every step by its number.
pub(crate) struct Before(Box<Decide>);

impl Before {
    pub(crate) fn steps(
        decide: impl Fn(u64, Vec<Input>) -> Result<PreStep, HookError> + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(decide))
    }
}

impl std::fmt::Debug for Before {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Before")
    }
}

#[async_trait]
impl AgentHook for Before {
    async fn pre_step(
        &self,
        cx: &StepContext<'_>,
        messages: Vec<Input>,
    ) -> Result<PreStep, HookError> {
        (self.0)(cx.at.step, messages)
    }
}

pub(crate) const fn enter(messages: Vec<Input>) -> PreStep {
    PreStep::Enter {
        messages,
        starts_series: false,
    }
}

pub(crate) fn broken() -> HookError {
    HookError {
        message: "the hook broke".into(),
        code: "HOOK_BROKE".into(),
    }
}

/// Says something, or fails, whenever a turn would end, until it has no more.
#[derive(Debug)]
pub(crate) struct Stopping(pub(crate) Mutex<Vec<Result<Vec<Input>, HookError>>>);

impl Stopping {
    pub(crate) fn with(answers: Vec<Result<Vec<Input>, HookError>>) -> Self {
        Self(Mutex::new(answers))
    }
}

#[async_trait]
impl AgentHook for Stopping {
    async fn turn_stopping(&self, _: &StepContext<'_>) -> Result<Vec<Input>, HookError> {
        let mut answers = self.0.lock().unwrap();
        if answers.is_empty() {
            return Ok(Vec::new());
        }
        answers.remove(0)
    }
}
