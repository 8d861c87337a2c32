//! How hard a model thinks, in the words of Messages.

use serde::Serialize;

use crate::catalog::{self, Thinking as Known};
use crate::message::CallConfig;

/// How a provider's Messages differ from Anthropic's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessagesDialect {
    /// How the reasoning effort is said.
    pub effort: MessagesEffort,
    /// Whether thinking goes back also if the provider has not signed it.
    pub unsigned_thinking: bool,
}

/// How the reasoning effort is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessagesEffort {
    /// As the model wants it: a budget of tokens for older ones, a word for newer ones.
    ByModel,
    /// Thinking is enabled or, for the effort `off`, disabled, and the effort is a word.
    Switch,
}

impl MessagesDialect {
    /// Anthropic itself.
    #[must_use]
    pub const fn anthropic() -> Self {
        Self {
            effort: MessagesEffort::ByModel,
            unsigned_thinking: false,
        }
    }

    /// DeepSeek's Messages.
    #[must_use]
    pub const fn deepseek() -> Self {
        Self {
            effort: MessagesEffort::Switch,
            unsigned_thinking: true,
        }
    }

    /// The efforts that this model has.
    pub(crate) fn efforts(self, model: &str) -> &'static [&'static str] {
        match self.style(model) {
            Style::Switch => &["off", "low", "high", "max"],
            Style::Adaptive => &["off", "low", "medium", "high", "xhigh", "max"],
            Style::Budget => &["off", "low", "medium", "high", "max"],
            Style::None => &["off"],
        }
    }

    fn style(self, model: &str) -> Style {
        match (self.effort, catalog::claude_thinking(model)) {
            (MessagesEffort::Switch, _) => Style::Switch,
            // A name that nobody knows is most likely newer than this list.
            (MessagesEffort::ByModel, None) => Style::Adaptive,
            (MessagesEffort::ByModel, Some(known)) => match known {
                Known::Adaptive => Style::Adaptive,
                Known::Budget => Style::Budget,
                Known::None => Style::None,
            },
        }
    }
}

impl Default for MessagesDialect {
    fn default() -> Self {
        Self::anthropic()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Adaptive,
    Budget,
    Switch,
    None,
}

/// The smallest budget there is, in tokens.
pub(crate) const LEAST_BUDGET: u64 = 1_024;

/// What has to be allowed behind a budget for an answer, in tokens.
pub(crate) const LEAST_ANSWER: u64 = 1_024;

/// The members of the body that say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effort<'a> {
    pub(super) thinking: Option<Thinking>,
    pub(super) output: Option<Output<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum Thinking {
    /// The model decides. Its thinking is summarised for the reader; newer models would else show none.
    Adaptive {
        display: &'static str,
    },
    Enabled {
        #[serde(skip_serializing_if = "Option::is_none")]
        budget_tokens: Option<u64>,
    },
    Disabled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Output<'a> {
    pub(super) effort: &'a str,
}

impl<'a> Effort<'a> {
    /// What `config` asks for, of an answer of at most `max_tokens`.
    pub(crate) fn new(dialect: MessagesDialect, config: &'a CallConfig, max_tokens: u64) -> Self {
        let Some(effort) = config.reasoning_effort.as_deref() else {
            return Self::default();
        };
        let style = dialect.style(&config.model);
        if effort == "off" {
            // Claude does not think unless it is asked to.
            let thinking = (style == Style::Switch).then_some(Thinking::Disabled);
            return Self {
                thinking,
                output: None,
            };
        }
        let output = Some(Output { effort });
        match style {
            Style::None => Self::default(),
            Style::Adaptive => Self {
                thinking: Some(Thinking::Adaptive {
                    display: "summarized",
                }),
                output,
            },
            Style::Switch => Self {
                thinking: Some(Thinking::Enabled {
                    budget_tokens: None,
                }),
                output,
            },
            Style::Budget => Self {
                thinking: budget(effort, max_tokens).map(|tokens| Thinking::Enabled {
                    budget_tokens: Some(tokens),
                }),
                output: None,
            },
        }
    }

    /// Whether the model thinks within a budget, which asks more of the history than other thinking.
    pub(crate) const fn has_budget(&self) -> bool {
        matches!(
            self.thinking,
            Some(Thinking::Enabled {
                budget_tokens: Some(_)
            })
        )
    }

    /// Whether the model thinks as Claude does, for which there are rules.
    pub(crate) const fn is_claude_thinking(&self) -> bool {
        self.has_budget() || matches!(self.thinking, Some(Thinking::Adaptive { .. }))
    }
}

/// The budget that an effort stands for, in tokens; `None` if there is no room for one.
fn budget(effort: &str, max_tokens: u64) -> Option<u64> {
    let wanted = match effort {
        "low" => 4_096,
        "medium" => 10_240,
        "high" => 20_480,
        _ => 30_720,
    };
    let room = max_tokens.saturating_sub(LEAST_ANSWER);
    (room >= LEAST_BUDGET).then(|| room.min(wanted))
}

/// Betas that the request has to name: with a budget, thinking between tool calls is one.
#[cfg_attr(
    not(feature = "http"),
    expect(dead_code, reason = "only the transport sends headers")
)]
pub(crate) fn betas(dialect: MessagesDialect, config: &CallConfig) -> &'static [&'static str] {
    let thinks = Effort::new(dialect, config, u64::MAX).has_budget();
    if thinks {
        &["interleaved-thinking-2025-05-14"]
    } else {
        &[]
    }
}
