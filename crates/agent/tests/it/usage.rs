//! What a session has used, without what it has inherited, and what that costs.

use std::sync::Arc;

use offshoot_agent::{Cost, ModelUsage, Prices, branch_usage, own_usage};
use offshoot_model::{Attempt, Chunk, Failure, FinishReason, Usage};

use crate::bench::{Bench, ask, call_config, script};
use crate::parts::{Routed, agent_with};
use crate::support::says;

fn used(input: u64, output: u64, read: Option<u64>) -> Usage {
    Usage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: read,
        ..Usage::default()
    }
}

/// An answer that tells what it has used.
fn telling(usage: Usage, finish: FinishReason) -> Attempt {
    Attempt::Chunks(vec![Chunk::Usage { usage }, Chunk::finish(finish)])
}

fn of(model: &str, calls: u64, unreported: u64, usage: Usage) -> ModelUsage {
    ModelUsage {
        provider: "acme".into(),
        model: model.into(),
        calls,
        unreported,
        usage,
    }
}

#[tokio::test]
async fn a_fork_does_not_count_what_it_inherits() {
    let bench = Bench::new();
    let failed = FinishReason::Error {
        failure: Failure::new("SERVER", "no"),
    };
    let model = Routed::new(vec![
        telling(used(10, 1, None), FinishReason::Stop),
        telling(used(20, 0, Some(5)), failed),
        says("Who counts?"),
    ]);
    let mut agent = agent_with(&bench, bench.create(), Arc::new(model), |_| {});
    for prompt in ["One.", "Two.", "Three."] {
        ask(&mut agent, prompt).await;
    }
    agent.set_model(
        script(vec![telling(used(7, 7, None), FinishReason::Stop)]),
        call_config("acme-large"),
    );
    ask(&mut agent, "Four.").await;
    let log = bench.log(agent.session().id());
    let parents = [
        of("acme-small", 3, 1, used(30, 1, Some(5))),
        of("acme-large", 1, 0, used(7, 7, None)),
    ];
    assert_eq!(own_usage(&log).models, parents);
    assert_eq!(own_usage(&log), branch_usage(&log));
    assert_eq!(own_usage(&log).total(), used(37, 8, Some(5)));

    let fork = bench
        .service
        .prepare_fork(&bench.read(agent.session().id()), None, None)
        .unwrap();
    let child = bench.service.store_fork(&fork).unwrap();
    assert_eq!(own_usage(&child.session().log()).calls(), 0);
    let model = script(vec![telling(used(1, 2, None), FinishReason::Stop)]);
    let mut child = bench.agent(child, model);
    ask(&mut child, "Five.").await;
    let log = bench.log(child.session().id());
    assert_eq!(
        own_usage(&log).models,
        [of("acme-small", 1, 0, used(1, 2, None))]
    );
    assert_eq!(branch_usage(&log).total(), used(38, 10, Some(5)));
    assert_eq!(branch_usage(&log).calls(), 5);

    let prices = Prices {
        input: 3_000_000,
        output: 15_000_000,
        cache_read: Some(300_000),
        cache_write: None,
    };
    let known = |_: &str, model: &str| (model == "acme-small").then_some(prices);
    assert_eq!(
        branch_usage(&log).cost(known),
        Cost {
            micro_dollars: 31 * 3 + 3 * 15 + 2,
            is_incomplete: true
        },
        "5 cached tokens are 1.5 millionths"
    );
    assert_eq!(
        own_usage(&log).cost(known),
        Cost {
            micro_dollars: 3 + 30,
            is_incomplete: false
        }
    );
}

#[test]
fn prices_are_integers_and_what_is_cached_costs_like_input_unless_it_is_said() {
    let usage = Usage {
        input_tokens: 1_000_000,
        output_tokens: 1,
        cache_read_tokens: Some(2_000_000),
        cache_write_tokens: Some(3_000_000),
        ..Usage::default()
    };
    let prices = Prices {
        input: 1,
        output: 500_000,
        ..Prices::default()
    };
    assert_eq!(prices.of(&usage), 7, "half a millionth is rounded up");
    let cached = Prices {
        cache_read: Some(0),
        cache_write: Some(10),
        ..prices
    };
    assert_eq!(cached.of(&usage), 32);
    let dear = Prices {
        input: u64::MAX,
        ..Prices::default()
    };
    assert_eq!(dear.of(&usage), u64::MAX);
}
