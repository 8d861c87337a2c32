//! When a conversation is compacted, and by whom.

use std::sync::Arc;

use offshoot_model::{CallConfig, Model};

/// When older history gives way to a summary (`reference/agent.md` §6.3).
#[derive(Clone, Debug)]
pub struct CompactionConfig {
    /// Whether it happens by itself. Otherwise only when somebody asks for it.
    pub auto: bool,
    /// The part of the context window at which it happens, more than 0 and at most 1. Less, if an answer needs more room.
    pub threshold_ratio: f64,
    /// The part of the context window that is kept as it is, from 0 to less than the threshold.
    pub retain_ratio: f64,
    /// How many tokens a summary may have, at least 1.
    pub max_tokens: u64,
    /// How often a summary that came to nothing is tried again.
    pub retries: u32,
    /// How often a step is tried again because its request was too long for the provider.
    pub overflow_retries: u32,
    /// How long tool results are cut down; `None` if they are not.
    pub prune: Option<PruneConfig>,
    /// Other ratios for single models.
    pub policies: Vec<CompactionPolicy>,
    /// Who summarises; `None` for the model of the conversation itself, which has most of what it has to read cached.
    pub summariser: Option<Summariser>,
}

impl Default for CompactionConfig {
    fn default() -> Self {
        Self {
            auto: true,
            threshold_ratio: 0.8,
            retain_ratio: 0.16,
            max_tokens: 8192,
            retries: 1,
            overflow_retries: 1,
            prune: Some(PruneConfig::default()),
            policies: Vec::new(),
            summariser: None,
        }
    }
}

/// Ratios for one model.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionPolicy {
    /// Its provider, exactly.
    pub provider: String,
    /// The model, exactly.
    pub model: String,
    /// As [`CompactionConfig::threshold_ratio`], which it overrides.
    pub threshold_ratio: Option<f64>,
    /// As [`CompactionConfig::retain_ratio`], which it overrides.
    pub retain_ratio: Option<f64>,
}

/// Who summarises instead of the model of the conversation.
#[derive(Clone, Debug)]
pub struct Summariser {
    /// The provider.
    pub model: Arc<dyn Model>,
    /// Which of its models, and how it is called.
    pub call: CallConfig,
}

/// How long tool results are cut down. All counts are of Unicode code points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneConfig {
    /// A result with more text than this is cut.
    pub threshold_chars: usize,
    /// How much of its beginning is kept.
    pub head_chars: usize,
    /// How much of its end is kept.
    pub tail_chars: usize,
}

impl Default for PruneConfig {
    fn default() -> Self {
        Self {
            threshold_chars: 8192,
            head_chars: 4096,
            tail_chars: 1024,
        }
    }
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCompaction {
    /// A threshold that is none.
    #[error("the threshold must be more than 0 and at most 1, found {0}")]
    Threshold(f64),
    /// A tail that leaves nothing to compact.
    #[error(
        "what is kept must be at least 0 and less than the threshold {threshold}, found {retain}"
    )]
    Retain {
        /// The part that would be kept.
        retain: f64,
        /// The threshold.
        threshold: f64,
    },
    /// A summary without room.
    #[error("a summary needs at least one token")]
    NoTokens,
    /// Cutting that would not make a result short enough.
    #[error(
        "beginning and end of a result ({kept} characters) and a remark of about {remark} must be less than the threshold of {threshold}"
    )]
    Prune {
        /// What is kept.
        kept: usize,
        /// What the remark takes.
        remark: usize,
        /// The threshold.
        threshold: usize,
    },
}

impl CompactionConfig {
    /// Whether it can be worked with. What is out of range is taken for the nearest that is not.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), InvalidCompaction> {
        check_ratios(self.threshold_ratio, self.retain_ratio)?;
        for policy in &self.policies {
            check_ratios(
                policy.threshold_ratio.unwrap_or(self.threshold_ratio),
                policy.retain_ratio.unwrap_or(self.retain_ratio),
            )?;
        }
        if self.max_tokens == 0 {
            return Err(InvalidCompaction::NoTokens);
        }
        match self.prune {
            Some(prune) if !prune.converges() => Err(InvalidCompaction::Prune {
                kept: prune.kept(),
                remark: super::prune::LONGEST_MARKER,
                threshold: prune.threshold_chars,
            }),
            _ => Ok(()),
        }
    }

    /// The tokens at which a conversation with this model is compacted. An answer keeps its room, but never more than half
    /// of the window.
    pub(super) fn limit(&self, call: &CallConfig, window: u64, headroom: u64) -> u64 {
        let policy = self.policy(call).and_then(|policy| policy.threshold_ratio);
        let threshold = part(window, policy.unwrap_or(self.threshold_ratio));
        threshold.min(window - headroom.min(window / 2))
    }

    /// The tokens that are kept as they are of so many.
    pub(super) fn retained(&self, call: &CallConfig, tokens: u64) -> u64 {
        let policy = self.policy(call).and_then(|policy| policy.retain_ratio);
        part(tokens, policy.unwrap_or(self.retain_ratio))
    }

    fn policy(&self, call: &CallConfig) -> Option<&CompactionPolicy> {
        self.policies
            .iter()
            .find(|policy| policy.provider == call.provider && policy.model == call.model)
    }
}

impl PruneConfig {
    const fn kept(&self) -> usize {
        self.head_chars.saturating_add(self.tail_chars)
    }

    /// Whether what is left of a result is short enough not to be cut again.
    pub(super) const fn converges(&self) -> bool {
        self.kept().saturating_add(super::prune::LONGEST_MARKER) < self.threshold_chars
    }
}

fn check_ratios(threshold: f64, retain: f64) -> Result<(), InvalidCompaction> {
    if !(threshold > 0.0 && threshold <= 1.0) {
        return Err(InvalidCompaction::Threshold(threshold));
    }
    if !(retain >= 0.0 && retain < threshold) {
        return Err(InvalidCompaction::Retain { retain, threshold });
    }
    Ok(())
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, and nobody counts a context to the last token"
)]
fn part(whole: u64, ratio: f64) -> u64 {
    (whole as f64 * ratio.clamp(0.0, 1.0)) as u64
}
