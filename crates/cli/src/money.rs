//! What was used, and what it costs, in words.

use offshoot_agent::{Cost, UsageReport};
use offshoot_model::Usage;

use crate::agents::UsedBelow;
use crate::providers::Providers;

/// Whether any call has said what it used.
pub(crate) fn is_known(report: &UsageReport) -> bool {
    report
        .models
        .iter()
        .any(|used| used.calls > used.unreported)
}

/// What a report comes to, by the prices that are configured; `None` if none is.
pub(crate) fn cost(report: &UsageReport, providers: &Providers) -> Option<Cost> {
    let priced = |provider: &str, model: &str| providers.prices(provider, model);
    let is_priced = report
        .models
        .iter()
        .any(|used| priced(&used.provider, &used.model).is_some());
    is_priced.then(|| report.cost(priced))
}

/// In one line: `tokens: 42 in, 15 out, 9 from the cache; 0.0123 USD`.
pub(crate) fn said(report: &UsageReport, providers: &Providers) -> String {
    let usage = report.total();
    let mut said = tokens(&usage);
    if let Some(cost) = cost(report, providers) {
        let more = if cost.is_incomplete { " or more" } else { "" };
        said.push_str(&format!("; {}{more}", dollars(cost.micro_dollars)));
    }
    said
}

/// What subagents have used together, in one line; `None` if there were none, or nobody knows.
pub(crate) fn said_below(below: &[UsedBelow], providers: &Providers) -> Option<String> {
    let models = below.iter().flat_map(|below| &below.used.models).cloned();
    let all = UsageReport {
        models: models.collect(),
    };
    is_known(&all).then(|| format!("subagents ({}): {}", below.len(), said(&all, providers)))
}

fn tokens(usage: &Usage) -> String {
    let mut said = format!(
        "tokens: {} in, {} out",
        usage.input_tokens, usage.output_tokens
    );
    for (tokens, what) in [
        (usage.cache_read_tokens, "from the cache"),
        (usage.cache_write_tokens, "into the cache"),
    ] {
        if let Some(tokens) = tokens.filter(|tokens| *tokens > 0) {
            said.push_str(&format!(", {tokens} {what}"));
        }
    }
    said
}

/// Dollars of millionths.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact up to nine thousand million dollars"
)]
pub(crate) fn in_dollars(millionths: u64) -> f64 {
    millionths as f64 / 1e6
}

/// With as many places as it takes to see something.
fn dollars(millionths: u64) -> String {
    let amount = in_dollars(millionths);
    match millionths {
        0 | 100..1_000_000 => format!("{amount:.4} USD"),
        1..100 => format!("{amount:.6} USD"),
        _ => format!("{amount:.2} USD"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_the_places_that_matter() {
        let amounts = [0, 7, 1_234, 24_300, 999_999, 1_234_567].map(dollars);
        let expected = [
            "0.0000 USD",
            "0.000007 USD",
            "0.0012 USD",
            "0.0243 USD",
            "1.0000 USD",
            "1.23 USD",
        ];
        assert_eq!(amounts, expected);
    }

    #[test]
    fn cached_tokens_are_told_apart_if_there_are_any() {
        let usage = Usage {
            input_tokens: 10,
            output_tokens: 2,
            cache_read_tokens: Some(30),
            cache_write_tokens: Some(0),
            ..Usage::default()
        };
        assert_eq!(tokens(&usage), "tokens: 10 in, 2 out, 30 from the cache");
    }
}
