//! With which configuration a request is made: what was chosen, what the last request had, and what the provider fills in
//! (`reference/agent.md` §1.6).

use std::sync::Arc;

use async_trait::async_trait;
use offshoot_agent::{AgentHook, HookError, StepContext};
use offshoot_model::CallConfig;
use offshoot_session::EventKind;
use serde_json::{Value, json};

use crate::bench::{Bench, ask, call_config};
use crate::parts::{Routed, agent_with, headers};
use crate::support::{all, endings, kinds, says};

fn configs(log: &offshoot_session::EventLog) -> Vec<Value> {
    let headers = headers(log).into_iter();
    headers.map(|header| header["header"].clone()).collect()
}

fn filling(answers: usize) -> Routed {
    Routed {
        effort: Some("medium"),
        max_tokens: Some(500),
        ..Routed::new(vec![says("Yes."); answers])
    }
}

#[tokio::test]
async fn what_the_provider_fills_in_is_flagged_and_filled_in_anew() {
    let bench = Bench::new();
    let mut agent = agent_with(&bench, bench.create(), Arc::new(filling(1)), |_| {});
    ask(&mut agent, "One.").await;
    let other = Routed {
        effort: Some("low"),
        ..Routed::new(vec![says("Yes."); 2])
    };
    agent.set_model(Arc::new(other), call_config("acme-large"));
    ask(&mut agent, "Two.").await;
    ask(&mut agent, "Three.").await;
    assert_eq!(
        configs(&bench.log(agent.session().id())),
        [
            json!({
                "config": {"provider": "acme", "model": "acme-small", "reasoningEffort": "medium", "maxTokens": 500},
                "adapterDefaults": {"reasoningEffort": true, "maxTokens": true},
            }),
            json!({
                "config": {"provider": "acme", "model": "acme-large", "reasoningEffort": "low"},
                "adapterDefaults": {"reasoningEffort": true},
            }),
        ]
    );
}

#[tokio::test]
async fn what_was_asked_for_is_kept_and_not_flagged() {
    let bench = Bench::new();
    let mut agent = agent_with(&bench, bench.create(), Arc::new(filling(2)), |setup| {
        setup.config.call.max_tokens = Some(9);
    });
    ask(&mut agent, "One.").await;
    ask(&mut agent, "Two.").await;
    assert_eq!(
        configs(&bench.log(agent.session().id())),
        [json!({
            "config": {"provider": "acme", "model": "acme-small", "reasoningEffort": "medium", "maxTokens": 9},
            "adapterDefaults": {"reasoningEffort": true},
        })]
    );
}

#[tokio::test]
async fn an_effort_that_was_asked_for_outlasts_the_process_and_one_that_was_filled_in_does_not() {
    for (asked_for, then) in [(Some("high"), json!("high")), (None, json!(null))] {
        let mut bench = Bench::new();
        let mut agent = agent_with(&bench, bench.create(), Arc::new(filling(1)), |setup| {
            setup.config.call.reasoning_effort = asked_for.map(str::to_owned);
        });
        ask(&mut agent, "One.").await;
        let id = agent.session().id().clone();
        drop(agent);
        bench.restart();
        let plain = || Arc::new(Routed::new(vec![says("Yes.")]));
        let mut agent = agent_with(&bench, bench.open(&id), plain(), |_| {});
        ask(&mut agent, "Two.").await;
        drop(agent);
        bench.restart();
        // Another model has another idea of efforts.
        let mut agent = agent_with(&bench, bench.open(&id), plain(), |setup| {
            setup.config.call = call_config("acme-large");
        });
        ask(&mut agent, "Three.").await;
        let efforts: Vec<Value> = configs(&bench.log(&id))
            .iter()
            .map(|header| header["config"]["reasoningEffort"].clone())
            .collect();
        let first = json!(asked_for.unwrap_or("medium"));
        assert_eq!(efforts, [first, then, json!(null)]);
    }
}

/// Cools the first request down, and leaves the others alone.
#[derive(Debug)]
struct Cooling;

#[async_trait]
impl AgentHook for Cooling {
    async fn request(
        &self,
        cx: &StepContext<'_>,
        mut config: CallConfig,
    ) -> Result<CallConfig, HookError> {
        if cx.at.turn == 1 {
            config.temperature = Some(0.5);
            config.stop = Some(Vec::new());
        }
        Ok(config)
    }
}

#[tokio::test]
async fn what_a_hook_has_made_of_the_configuration_lasts_until_somebody_chooses_again() {
    let bench = Bench::new();
    let model = Arc::new(Routed::new(vec![says("Yes."); 3]));
    let mut agent = agent_with(&bench, bench.create(), Arc::clone(&model) as _, |setup| {
        setup.hooks.push(Arc::new(Cooling));
    });
    ask(&mut agent, "One.").await;
    ask(&mut agent, "Two.").await;
    // The same choice is a choice too.
    agent.set_model(model, call_config("acme-small"));
    ask(&mut agent, "Three.").await;
    let header =
        |config: Value, reason: &str| json!({"header": {"config": config}, "reason": reason});
    assert_eq!(
        headers(&bench.log(agent.session().id())),
        [
            header(
                json!({"provider": "acme", "model": "acme-small", "temperature": 0.5}),
                "initial"
            ),
            header(json!({"provider": "acme", "model": "acme-small"}), "change"),
        ]
    );
}

#[derive(Debug)]
struct Choosing;

#[async_trait]
impl AgentHook for Choosing {
    async fn request(
        &self,
        _cx: &StepContext<'_>,
        _config: CallConfig,
    ) -> Result<CallConfig, HookError> {
        Ok(call_config("acme-tiny"))
    }
}

#[tokio::test]
async fn without_a_model_the_turn_fails_unless_a_hook_names_one() {
    let bench = Bench::new();
    let model = Arc::new(Routed::new(vec![says("Yes.")]));
    let mut agent = agent_with(&bench, bench.create(), Arc::clone(&model) as _, |setup| {
        setup.config.call = CallConfig::default();
    });
    ask(&mut agent, "One.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(endings(&log), ["error"]);
    let error = &all(&log, &EventKind::TurnEnd)[0]["reason"]["error"];
    let id = agent.session().id();
    assert_eq!(
        *error,
        json!({"message": format!("the agent of `{id}` has no provider and model to call"), "code": "NO_MODEL"})
    );
    assert!(!kinds(&log).contains(&"request/header"));

    let mut agent = agent_with(&bench, bench.create(), model, |setup| {
        setup.config.call = CallConfig::default();
        setup.hooks.push(Arc::new(Choosing));
    });
    ask(&mut agent, "One.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(endings(&log), ["completed"]);
    let answer = &all(&log, &EventKind::AssistantMessage)[0]["message"]["source"];
    assert_eq!(
        *answer,
        json!({"kind": "model", "provider": "acme", "model": "acme-tiny"})
    );
}

#[tokio::test]
async fn what_is_known_of_the_route_is_logged_when_it_changes_and_when_it_is_no_longer_known() {
    let mut bench = Bench::new();
    let mut model = Routed::flexible(2);
    model.info.context_window = Some(100);
    let mut agent = agent_with(&bench, bench.create(), Arc::new(model), |_| {});
    ask(&mut agent, "One.").await;
    ask(&mut agent, "Two.").await;
    let id = agent.session().id().clone();
    drop(agent);
    bench.restart();
    let plain = Arc::new(Routed::new(vec![says("Yes."); 2]));
    let mut agent = agent_with(&bench, bench.open(&id), plain, |_| {});
    ask(&mut agent, "Three.").await;
    ask(&mut agent, "Four.").await;
    assert_eq!(
        all(&bench.log(&id), &EventKind::RequestContext),
        [
            json!({"provider": "acme", "model": "acme-small", "contextWindow": 100, "systemPromptUpdate": "in-history"}),
            json!({"provider": "acme", "model": "acme-small"}),
        ]
    );
}
