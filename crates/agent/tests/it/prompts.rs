//! The system prompt as history: how another one is said (`reference/agent.md` §1.7).

use std::sync::Arc;

use offshoot_agent::{Attached, Driver, SystemPromptPolicy};
use offshoot_session::{EventKind, EventLog, SurfaceOp};
use serde_json::json;

use crate::bench::{Bench, ask};
use crate::parts::{Routed, agent_with, headers};
use crate::support::{all, data};

/// The system messages of the log: what each does to the surface, and what it says.
fn said(log: &EventLog) -> Vec<(String, String)> {
    let system = log
        .events()
        .filter(|event| *event.kind() == EventKind::SystemMessage);
    system
        .map(|event| {
            let op = match event.surface_op() {
                Some(SurfaceOp::Replace { start, end }) => {
                    assert_eq!((start, end), (event.sources().unwrap()[0], start));
                    format!("for {start}")
                }
                _ => "new".to_owned(),
            };
            let text = data(event)["message"]["content"][0]["text"].clone();
            (op, text.as_str().unwrap_or_default().to_owned())
        })
        .collect()
}

fn is(op: &str, text: &str) -> (String, String) {
    (op.to_owned(), text.to_owned())
}

/// What the model sees of them, in the last request.
fn seen(agent: &Driver) -> Vec<String> {
    let log = agent.session().log();
    let messages = log
        .messages()
        .filter(|message| *message.kind == EventKind::SystemMessage);
    messages
        .map(|message| {
            let message: serde_json::Value = serde_json::from_str(&message.text).unwrap();
            message["content"][0]["text"].as_str().unwrap().to_owned()
        })
        .collect()
}

fn agent(bench: &Bench, attached: Attached, in_history: bool, prompt: &str) -> Driver {
    let mut model = Routed::flexible(9);
    model.info.system_prompt_in_history = in_history;
    agent_with(bench, attached, Arc::new(model), |setup| {
        setup.config.system_prompt = prompt.to_owned();
        setup.config.context.system_prompt = SystemPromptPolicy::Update;
    })
}

#[tokio::test]
async fn a_route_that_takes_it_is_told_in_the_history() {
    let bench = Bench::new();
    let mut agent = agent(&bench, bench.create(), true, "A");
    ask(&mut agent, "One.").await;
    agent.set_system_prompt("B");
    ask(&mut agent, "Two.").await;
    ask(&mut agent, "Three.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(said(&log), [is("new", "A"), is("new", "B")]);
    assert_eq!(seen(&agent), ["A", "B"]);
    assert_eq!(
        headers(&log).len(),
        1,
        "the requests still extend each other"
    );
}

#[tokio::test]
async fn a_route_that_does_not_gets_another_head_and_begins_a_series() {
    let bench = Bench::new();
    let mut agent = agent(&bench, bench.create(), false, "A");
    ask(&mut agent, "One.").await;
    let head = bench.log(agent.session().id()).surface().head().unwrap();
    agent.set_system_prompt("B");
    ask(&mut agent, "Two.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(
        said(&log),
        [is("new", "A"), is(&format!("for {head}"), "B")]
    );
    assert_eq!(seen(&agent), ["B"]);
    let reasons: Vec<_> = headers(&log)
        .iter()
        .map(|header| header["reason"].clone())
        .collect();
    assert_eq!(reasons, [json!("initial"), json!("series")]);
}

#[tokio::test]
async fn a_new_series_puts_it_at_the_head_and_empties_the_later_ones() {
    let bench = Bench::new();
    let mut agent = agent(&bench, bench.create(), true, "A");
    ask(&mut agent, "One.").await;
    agent.set_system_prompt("B");
    ask(&mut agent, "Two.").await;
    let later = bench.log(agent.session().id());
    let nodes: Vec<_> = later.surface().nodes().collect();
    let (head, in_history) = (
        nodes[0],
        nodes.iter().copied().find(|seq| {
            *seq != nodes[0] && *later.get(*seq).unwrap().kind() == EventKind::SystemMessage
        }),
    );
    // The tools are declared otherwise, on a route that cannot be told so.
    let mut model = Routed::flexible(1);
    model.info.tool_updates = false;
    agent.set_model(Arc::new(model), crate::bench::call_config("acme-small"));
    agent.set_tools(offshoot_tool_api::ToolRegistry::new());
    agent.set_system_prompt("C");
    ask(&mut agent, "Three.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(
        said(&log)[2..],
        [
            is(&format!("for {}", in_history.unwrap()), ""),
            is(&format!("for {head}"), "C"),
        ]
    );
    assert_eq!(seen(&agent), ["C"]);
}

#[tokio::test]
async fn no_prompt_clears_all_of_them_and_a_prompt_after_none_is_said() {
    for in_history in [true, false] {
        let bench = Bench::new();
        let mut agent = agent(&bench, bench.create(), in_history, "A");
        ask(&mut agent, "One.").await;
        agent.set_system_prompt("B");
        ask(&mut agent, "Two.").await;
        agent.set_system_prompt("");
        ask(&mut agent, "Three.").await;
        assert_eq!(seen(&agent), [""; 0], "in history: {in_history}");
        agent.set_system_prompt("D");
        ask(&mut agent, "Four.").await;
        assert_eq!(seen(&agent), ["D"], "in history: {in_history}");
        let log = bench.log(agent.session().id());
        assert!(log.surface().has_protected_head());
        let dormant = all(&log, &EventKind::SystemMessage);
        assert!(
            dormant
                .iter()
                .any(|message| message["message"]["content"] == json!([]))
        );
    }
}

#[tokio::test]
async fn an_opened_session_and_a_fork_keep_their_own_unless_they_are_told_otherwise() {
    let mut bench = Bench::new();
    let mut first = bench.scripted(vec![crate::support::says("Yes.")]);
    ask(&mut first, "One.").await;
    let id = first.session().id().clone();
    drop(first);
    bench.restart();
    let other = |bench: &Bench, attached, policy| {
        agent_with(bench, attached, Arc::new(Routed::flexible(1)), |setup| {
            setup.config.system_prompt = "Another.".to_owned();
            setup.config.context.system_prompt = policy;
        })
    };
    let fork = bench
        .service
        .prepare_fork(&bench.read(&id), None, None)
        .unwrap();
    let child = bench.service.store_fork(&fork).unwrap();
    let mut child = other(&bench, child, SystemPromptPolicy::Keep);
    ask(&mut child, "Two.").await;
    assert_eq!(seen(&child), ["You are a test agent."]);
    let mut opened = other(&bench, bench.open(&id), SystemPromptPolicy::Update);
    ask(&mut opened, "Two.").await;
    assert_eq!(seen(&opened), ["You are a test agent.", "Another."]);
}
