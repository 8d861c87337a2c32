//! What becomes of a failed attempt (`reference/agent.md` §2.6).
//!
//! In this order: being cancelled goes before everything; a request that was too long is made shorter, and one with too many
//! pictures gets fewer; then the hooks are asked; then the provider's own policy. Each has its own budget. Whoever wants another attempt gets it in the same step,
//! with a request that is built anew from the log.

use std::sync::Arc;
use std::time::Duration;

use offshoot_model::{Failure, PreparedCall, codes};
use offshoot_session::{EventKind, StepRef};
use serde::Serialize;

use crate::cancel::Cancel;
use crate::driver::{Driver, StepFailure, check};
use crate::events::logged;
use crate::hooks::Recovery;
use crate::notices::Notice;

/// A failed attempt that will be made again.
#[derive(Clone, Debug, PartialEq)]
pub struct Retrying {
    /// The turn and the step.
    pub at: StepRef,
    /// The how-manieth retry it will be, from 1.
    pub retry: u32,
    /// How many there may be; `None` for as many as it takes.
    pub max_retries: Option<u32>,
    /// How long it waits before that.
    pub delay: Duration,
    /// What the attempt failed of.
    pub failure: Failure,
}

/// The retries of the step that is running.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    at: Option<StepRef>,
    chains: Vec<Chain>,
}

/// Retries at one provider by one policy. They are counted together, also when the route changes for a while.
#[derive(Debug)]
struct Chain {
    provider: String,
    policy: String,
    id: String,
    scheduled: u32,
}

impl Retries {
    fn chain(
        &mut self,
        at: StepRef,
        provider: &str,
        policy: &str,
        id: impl FnOnce() -> String,
    ) -> &mut Chain {
        if self.at != Some(at) {
            self.at = Some(at);
            self.chains.clear();
        }
        let known = self
            .chains
            .iter()
            .position(|chain| chain.provider == provider && chain.policy == policy);
        let place = known.unwrap_or_else(|| {
            self.chains.push(Chain {
                provider: provider.to_owned(),
                policy: policy.to_owned(),
                id: id(),
                scheduled: 0,
            });
            self.chains.len() - 1
        });
        &mut self.chains[place]
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LlmRetry<'a> {
    retry_id: &'a str,
    turn: u64,
    step: u64,
    provider: &'a str,
    mode: &'static str,
    policy_key: &'a str,
    retry: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_retries: Option<u32>,
    delay_ms: u64,
    failure: &'a Failure,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LlmRetryStarted<'a> {
    retry_id: &'a str,
    turn: u64,
    step: u64,
    retry: u32,
}

impl Driver {
    /// Whether the attempt that has just failed is made again.
    pub(crate) async fn recover(
        &mut self,
        at: StepRef,
        failure: &Failure,
        prepared: &PreparedCall,
        cancel: &Cancel,
    ) -> Result<Recovery, StepFailure> {
        check(cancel)?;
        if failure.code == codes::CONTEXT_WINDOW_EXCEEDED {
            let shorter = self.compact_overflow(at, cancel).await;
            check(cancel)?;
            if shorter {
                return Ok(Recovery::Retry);
            }
        }
        if let Some(excess) = failure.offload_images
            && self.offload_images(excess)?
        {
            return Ok(Recovery::Retry);
        }
        for hook in &self.hooks {
            let recovery = hook
                .request_failed(&self.hook_context(at, cancel), failure)
                .await?;
            check(cancel)?;
            if recovery == Recovery::Retry {
                return Ok(recovery);
            }
        }
        self.retry(at, failure, prepared, cancel).await
    }

    /// Waits as long as the provider's policy says, if it says so.
    async fn retry(
        &mut self,
        at: StepRef,
        failure: &Failure,
        prepared: &PreparedCall,
        cancel: &Cancel,
    ) -> Result<Recovery, StepFailure> {
        let policy = &prepared.retry;
        let (provider, policy_key) = (&prepared.config.provider, policy.policy_key());
        let chain = self
            .retries
            .chain(at, provider, &policy_key, || self.env.fresh_id());
        let retry = chain.scheduled.saturating_add(1);
        let Some(delay) = policy.delay(retry, failure, self.env.random()) else {
            return Ok(Recovery::GiveUp);
        };
        chain.scheduled = retry;
        let retry_id = chain.id.clone();
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let StepRef { turn, step } = at;
        let scheduled = LlmRetry {
            retry_id: &retry_id,
            turn,
            step,
            provider,
            mode: policy.mode().as_str(),
            policy_key: &policy_key,
            retry,
            max_retries: policy.max_retries,
            delay_ms,
            failure,
        };
        self.append(logged(EventKind::LlmRetry, &scheduled))?;
        self.core.notify(Notice::Retrying(Arc::new(Retrying {
            at,
            retry,
            max_retries: policy.max_retries,
            delay,
            failure: failure.clone(),
        })));
        let wait = tokio::time::sleep(policy.pause(Duration::from_millis(delay_ms)));
        cancel.token().run_until_cancelled(wait).await;
        check(cancel)?;
        let started = LlmRetryStarted {
            retry_id: &retry_id,
            turn,
            step,
            retry,
        };
        self.append(logged(EventKind::LlmRetryStarted, &started))?;
        Ok(Recovery::Retry)
    }
}
