//! When a failed attempt is made again (`reference/agent.md` §2.6).

use std::time::Duration;

use crate::codes;
use crate::stream::Failure;

/// How often, and after how long.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// How often an attempt is made again; `None` for as long as it takes.
    pub max_retries: Option<u32>,
    /// The wait before the first retry. Each later one is twice as long as the one before.
    pub initial: Duration,
    /// The longest wait, also the longest that a provider may ask for.
    pub max: Duration,
    /// By which part of itself a wait is made longer or shorter at random, from 0 to 1.
    pub jitter: f64,
}

impl Default for RetryPolicy {
    /// Five retries after 500 ms to 10 s, give or take a tenth.
    fn default() -> Self {
        Self {
            max_retries: Some(5),
            initial: Duration::from_millis(500),
            max: Duration::from_secs(10),
            jitter: 0.1,
        }
    }
}

impl RetryPolicy {
    /// Nothing is tried again.
    #[must_use]
    pub fn never() -> Self {
        Self {
            max_retries: Some(0),
            ..Self::default()
        }
    }

    /// How long to wait before retry number `retry` (from 1) of an attempt that failed so; `None` if it is final.
    /// `random` is a number from 0 to 1.
    ///
    /// What a provider asks for counts, unless it asks for more than [`Self::max`]: then nobody waits.
    #[must_use]
    pub fn delay(&self, retry: u32, failure: &Failure, random: f64) -> Option<Duration> {
        if self.max_retries.is_some_and(|most| retry > most) || !is_worth_retrying(&failure.code) {
            return None;
        }
        if let Some(asked) = failure.provider_retry_after_ms {
            let asked = Duration::from_millis(asked);
            return (asked <= self.max).then_some(asked);
        }
        let doubled = 2_u32.saturating_pow(retry.saturating_sub(1));
        let wait = self.initial.saturating_mul(doubled).min(self.max);
        let swing = 1.0 + self.jitter * (2.0 * random.clamp(0.0, 1.0) - 1.0);
        Some(wait.mul_f64(swing.max(0.0)).min(self.max))
    }
}

fn is_worth_retrying(code: &str) -> bool {
    [
        codes::EMPTY_RESPONSE,
        codes::RATE_LIMIT,
        codes::SERVER,
        codes::TIMEOUT,
        codes::TRANSPORT,
    ]
    .contains(&code)
}
