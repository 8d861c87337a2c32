//! When a failed attempt is made again (`reference/agent.md` §2.6).

use std::time::Duration;

use crate::codes;
use crate::stream::Failure;

/// What another attempt may cure.
const RETRYABLE: [&str; 5] = [
    codes::EMPTY_RESPONSE,
    codes::RATE_LIMIT,
    codes::SERVER,
    codes::TIMEOUT,
    codes::TRANSPORT,
];

/// A log has no room for a longer wait (`reference/persistence.md` §3.5, `llm/retry.delayMs`).
const LONGEST_LOGGED: Duration = Duration::from_millis(2_147_483_647);

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
    /// Whether anybody really waits. It is no part of the [`policy_key`](Self::policy_key).
    pub waits: Waits,
}

/// What becomes of a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waits {
    /// It is waited for.
    #[default]
    Real,
    /// It is told and logged, and nobody waits: what failed is recorded, and will not be better later.
    Skipped,
}

impl Default for RetryPolicy {
    /// Five retries after 500 ms to 10 s, give or take a tenth.
    fn default() -> Self {
        Self {
            max_retries: Some(5),
            initial: Duration::from_millis(500),
            max: Duration::from_secs(10),
            jitter: 0.1,
            waits: Waits::Real,
        }
    }
}

/// Whether retries come to an end by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryMode {
    /// After so many the attempt has failed.
    Normal,
    /// Until somebody cancels.
    Always,
}

impl RetryMode {
    /// The word that a log has for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Always => "always",
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

    /// As it is by default, but without end.
    #[must_use]
    pub fn always() -> Self {
        Self {
            max_retries: None,
            ..Self::default()
        }
    }

    /// The `mode` of an `llm/retry`.
    #[must_use]
    pub const fn mode(&self) -> RetryMode {
        match self.max_retries {
            Some(_) => RetryMode::Normal,
            None => RetryMode::Always,
        }
    }

    /// The `policyKey` of an `llm/retry`: two policies have the same one exactly if they are the same, so that retries under
    /// a changed policy are counted from the beginning. A JSON array of mode, most retries, codes, shortest and longest wait
    /// in milliseconds, and jitter.
    #[must_use]
    pub fn policy_key(&self) -> String {
        serde_json::json!([
            self.mode().as_str(),
            self.max_retries,
            RETRYABLE,
            milliseconds(self.initial),
            milliseconds(self.max),
            self.jitter,
        ])
        .to_string()
    }

    /// The policy of such a key, with real waits; `None` for a key that others have made.
    #[must_use]
    pub fn of_policy_key(key: &str) -> Option<Self> {
        let (_, max_retries, _, initial, max, jitter): (
            String,
            Option<u32>,
            Vec<String>,
            u64,
            u64,
            f64,
        ) = serde_json::from_str(key).ok()?;
        let policy = Self {
            max_retries,
            initial: Duration::from_millis(initial),
            max: Duration::from_millis(max),
            jitter,
            waits: Waits::Real,
        };
        (policy.policy_key() == key).then_some(policy)
    }

    /// How long somebody really waits who has to wait this long.
    #[must_use]
    pub const fn pause(&self, delay: Duration) -> Duration {
        match self.waits {
            Waits::Real => delay,
            Waits::Skipped => Duration::ZERO,
        }
    }

    /// How long to wait before retry number `retry` (from 1) of an attempt that failed so; `None` if it is final.
    /// `random` is a number from 0 to 1.
    ///
    /// What a provider asks for counts. If that is more than [`Self::max`], nobody waits, unless the policy has no end.
    #[must_use]
    pub fn delay(&self, retry: u32, failure: &Failure, random: f64) -> Option<Duration> {
        if self.max_retries.is_some_and(|most| retry > most) || !is_worth_retrying(&failure.code) {
            return None;
        }
        if let Some(asked) = failure.provider_retry_after_ms {
            let asked = Duration::from_millis(asked);
            let waits = asked <= self.max || self.mode() == RetryMode::Always;
            return waits.then_some(asked.min(LONGEST_LOGGED));
        }
        let doubled = 2_u32.saturating_pow(retry.saturating_sub(1));
        let wait = self.initial.saturating_mul(doubled).min(self.max);
        let swing = 1.0 + self.jitter * (2.0 * random.clamp(0.0, 1.0) - 1.0);
        Some(wait.mul_f64(swing.max(0.0)).min(self.max))
    }
}

fn is_worth_retrying(code: &str) -> bool {
    RETRYABLE.contains(&code)
}

fn milliseconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
}
