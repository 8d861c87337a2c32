//! What a session has used of its models, and what that costs.
//!
//! A fold of the log. What a fork has inherited was used by its parent: [`own_usage`] leaves it out, [`branch_usage`]
//! counts it. Failed attempts count as far as the provider has said what they used, and so do compactions. Title requests do
//! not: the format has no place for what they used.

use offshoot_model::{Chunk, StreamRecord, Usage};
use offshoot_session::{Event, EventKind, EventLog, LogOffset};
use serde::{Deserialize, Serialize};

use crate::events::read;

/// What was used, in all and by model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageReport {
    /// By model, in the order in which they were first called.
    pub models: Vec<ModelUsage>,
}

/// What was used of one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelUsage {
    /// The provider that was called.
    pub provider: String,
    /// The model.
    pub model: String,
    /// How often it was called, as far as that has settled.
    pub calls: u64,
    /// How many of the calls came without a word about what they used.
    pub unreported: u64,
    /// What the others used together.
    pub usage: Usage,
}

/// What a model costs, in millionths of a US dollar per million tokens: 3 dollars per million tokens are `3_000_000`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// Input that is not from the cache.
    pub input: u64,
    /// Output, reasoning included.
    pub output: u64,
    /// Input that was read from the cache; as other input if `None`.
    pub cache_read: Option<u64>,
    /// Input that was written to the cache; as other input if `None`.
    pub cache_write: Option<u64>,
}

/// What was used, in money.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Millionths of a US dollar, rounded to the nearest for each model.
    pub micro_dollars: u64,
    /// Whether models were used whose prices are not known, or calls did not say what they used: then it is more than that.
    pub is_incomplete: bool,
}

/// What a session has used itself: from the cut on, if it is a fork.
#[must_use]
pub fn own_usage(log: &EventLog) -> UsageReport {
    let from = log.inherited_marker();
    usage_from(log, from.map_or(LogOffset::START, |marker| marker.before()))
}

/// What a session and those that it was forked from have used on the way to where it is.
#[must_use]
pub fn branch_usage(log: &EventLog) -> UsageReport {
    usage_from(log, LogOffset::START)
}

/// What was used from an offset on.
#[must_use]
pub fn usage_from(log: &EventLog, from: LogOffset) -> UsageReport {
    let mut report = UsageReport::default();
    let before = log.prefix(from);
    let mut route = before.request_header().and_then(|event| route_of(event));
    for event in log.events_from(from) {
        match event.kind() {
            EventKind::RequestHeader => route = route_of(event),
            EventKind::AssistantMessage => {
                if let Some(answer) = read::<Answer>(event) {
                    let source = answer.message.source;
                    report.add(&source, answer.usage);
                }
            }
            // It does not say whom it went to: that is what the header before it says.
            EventKind::AssistantAttempt => {
                if let Some(route) = &route {
                    report.add(route, usage_of_attempt(event));
                }
            }
            EventKind::CompactionSummary => {
                if let Some(Summary { route, usage }) = read(event) {
                    report.add(&route, usage);
                }
            }
            _ => {}
        }
    }
    report
}

impl UsageReport {
    /// All models together.
    #[must_use]
    pub fn total(&self) -> Usage {
        let each = self.models.iter().map(|model| model.usage);
        each.fold(Usage::default(), plus)
    }

    /// How many calls there were.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.models.iter().map(|model| model.calls).sum()
    }

    /// What it costs. `prices` gives the prices of a model of a provider, in this order, if they are known.
    #[must_use]
    pub fn cost(&self, mut prices: impl FnMut(&str, &str) -> Option<Prices>) -> Cost {
        let mut cost = Cost::default();
        for used in &self.models {
            cost.is_incomplete |= used.unreported > 0;
            match prices(&used.provider, &used.model) {
                Some(prices) => {
                    cost.micro_dollars = cost.micro_dollars.saturating_add(prices.of(&used.usage));
                }
                None => cost.is_incomplete = true,
            }
        }
        cost
    }

    fn add(&mut self, route: &Route, usage: Option<Usage>) {
        let known =
            |used: &ModelUsage| used.provider == route.provider && used.model == route.model;
        let at = self.models.iter().position(known).unwrap_or_else(|| {
            self.models.push(ModelUsage {
                provider: route.provider.clone(),
                model: route.model.clone(),
                calls: 0,
                unreported: 0,
                usage: Usage::default(),
            });
            self.models.len() - 1
        });
        let used = &mut self.models[at];
        used.calls += 1;
        match usage {
            Some(usage) => used.usage = plus(used.usage, usage),
            None => used.unreported += 1,
        }
    }
}

impl Prices {
    /// What this much costs, in millionths of a US dollar, rounded to the nearest.
    #[must_use]
    pub fn of(&self, usage: &Usage) -> u64 {
        let parts = [
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (
                usage.cache_read_tokens.unwrap_or(0),
                self.cache_read.unwrap_or(self.input),
            ),
            (
                usage.cache_write_tokens.unwrap_or(0),
                self.cache_write.unwrap_or(self.input),
            ),
        ];
        let millionths = parts.iter().fold(0_u128, |sum, (tokens, price)| {
            sum.saturating_add(u128::from(*tokens) * u128::from(*price))
        });
        u64::try_from(millionths.saturating_add(500_000) / 1_000_000).unwrap_or(u64::MAX)
    }
}

/// The usage of two calls, as far as they reported one.
pub(crate) fn both(a: Option<Usage>, b: Option<Usage>) -> Option<Usage> {
    match (a, b) {
        (Some(a), Some(b)) => Some(plus(a, b)),
        (a, b) => a.or(b),
    }
}

/// Adds usage up; a part that neither has stays unreported.
pub(crate) fn plus(a: Usage, b: Usage) -> Usage {
    let part = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
    };
    Usage {
        input_tokens: a.input_tokens.saturating_add(b.input_tokens),
        output_tokens: a.output_tokens.saturating_add(b.output_tokens),
        total_tokens: part(a.total_tokens, b.total_tokens),
        cache_read_tokens: part(a.cache_read_tokens, b.cache_read_tokens),
        cache_write_tokens: part(a.cache_write_tokens, b.cache_write_tokens),
        reasoning_tokens: part(a.reasoning_tokens, b.reasoning_tokens),
    }
}

#[derive(Deserialize)]
struct Route {
    provider: String,
    model: String,
}

#[derive(Deserialize)]
struct Answer {
    message: AnswerMessage,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct AnswerMessage {
    source: Route,
}

#[derive(Deserialize)]
struct Summary {
    #[serde(flatten)]
    route: Route,
    usage: Option<Usage>,
}

fn route_of(header: &Event) -> Option<Route> {
    #[derive(Deserialize)]
    struct Stored {
        header: Header,
    }
    #[derive(Deserialize)]
    struct Header {
        config: Route,
    }
    read::<Stored>(header).map(|stored| stored.header.config)
}

fn usage_of_attempt(event: &Event) -> Option<Usage> {
    #[derive(Deserialize)]
    struct Stored {
        stream: Vec<StreamRecord>,
    }
    let records = read::<Stored>(event)?.stream;
    records.into_iter().find_map(|record| match record {
        StreamRecord::Chunk {
            chunk: Chunk::Usage { usage },
            ..
        } => Some(usage),
        _ => None,
    })
}
