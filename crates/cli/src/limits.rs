//! How often a model may answer in one run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use offshoot_agent::{AgentHook, HookError, Input, PreStep, StepContext};
use tokio::sync::Notify;

/// Counts steps, each of which is one answer of the model and what its tools make of it. When there would be one too many it
/// says so and waits until the turn is cancelled.
#[derive(Debug)]
pub(crate) struct TurnLimit {
    left: AtomicU64,
    enough: Arc<Notify>,
}

impl TurnLimit {
    pub(crate) fn new(max: u64, enough: &Arc<Notify>) -> Self {
        Self {
            left: AtomicU64::new(max),
            enough: Arc::clone(enough),
        }
    }
}

#[async_trait]
impl AgentHook for TurnLimit {
    async fn pre_step(
        &self,
        cx: &StepContext<'_>,
        entering: Vec<Input>,
    ) -> Result<PreStep, HookError> {
        let spent = |left: u64| left.checked_sub(1);
        // A turn that would end now asks as well, with nothing to enter.
        let begins = !entering.is_empty() || cx.at.step > 1;
        if begins
            && self
                .left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent)
                .is_err()
        {
            self.enough.notify_one();
            cx.cancel.cancelled().await;
        }
        Ok(PreStep::Enter {
            messages: entering,
            starts_series: false,
        })
    }
}
