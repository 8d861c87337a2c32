//! Tools that come and go in the middle of a conversation (`reference/agent.md` §1.6, `developer/message`), and their order
//! (§1.8).

use std::sync::Arc;

use offshoot_session::{Event, EventKind, EventLog};
use offshoot_tool_api::{Tool, ToolRegistry};
use serde_json::{Value, json};

use crate::bench::{Bench, ask};
use crate::parts::{Routed, agent_with};
use crate::support::{all, data, kinds, kinds_from, says};

/// Some of the tools of the bench, in this order.
fn tools(bench: &Bench, names: &[&str]) -> ToolRegistry {
    let all = bench.work.tools();
    let mut tools = ToolRegistry::new();
    for name in names {
        let tool: &Arc<dyn Tool> = all.get(name).unwrap();
        tools.register(Arc::clone(tool)).unwrap();
    }
    tools
}

/// What developer messages say, with the header that they name.
fn told(log: &EventLog) -> Vec<Value> {
    let said = log
        .events()
        .filter(|event| *event.kind() == EventKind::DeveloperMessage);
    said.map(|event| {
        let data = data(event);
        assert_eq!(data["message"]["source"], json!({"kind": "tool-registry"}));
        json!([data["message"]["content"], data["headerSeq"]])
    })
    .collect()
}

fn added(tool: &str) -> Value {
    json!({"type": "tool-addition", "toolName": tool})
}

fn removed(tool: &str) -> Value {
    json!({"type": "tool-removal", "toolName": tool})
}

fn headers(log: &EventLog) -> Vec<&Arc<Event>> {
    let headers = log
        .events()
        .filter(|event| *event.kind() == EventKind::RequestHeader);
    headers.collect()
}

#[tokio::test]
async fn a_route_that_can_is_told_in_the_conversation_behind_the_header_that_declares_them() {
    let bench = Bench::new();
    let mut agent = agent_with(
        &bench,
        bench.create(),
        Arc::new(Routed::flexible(4)),
        |setup| {
            setup.tools = tools(&bench, &["look"]);
        },
    );
    ask(&mut agent, "One.").await;
    let before = agent.session().log().events().count();
    agent.set_tools(tools(&bench, &["look", "change"]));
    ask(&mut agent, "Two.").await;
    agent.set_tools(tools(&bench, &["check", "change"]));
    ask(&mut agent, "Three.").await;
    agent.set_tools(tools(&bench, &["change"]));
    ask(&mut agent, "Four.").await;
    let log = bench.log(agent.session().id());
    let seqs: Vec<_> = headers(&log).iter().map(|header| header.seq()).collect();
    assert_eq!(
        told(&log),
        [
            json!([[added("change")], seqs[1]]),
            json!([[added("check"), removed("look")], seqs[2]]),
            json!([[removed("check")], null]),
        ]
    );
    assert_eq!(
        kinds_from(&log, before)[4..8],
        [
            "user/message",
            "request/header",
            "developer/message",
            "assistant/message",
        ]
    );
}

#[tokio::test]
async fn an_agent_that_comes_back_with_other_tools_says_so() {
    let mut bench = Bench::new();
    let flexible = || Arc::new(Routed::flexible(2));
    let mut agent = agent_with(&bench, bench.create(), flexible(), |setup| {
        setup.tools = tools(&bench, &["look"]);
    });
    ask(&mut agent, "One.").await;
    let id = agent.session().id().clone();
    drop(agent);
    bench.restart();
    let mut agent = agent_with(&bench, bench.open(&id), flexible(), |setup| {
        setup.tools = tools(&bench, &["look", "check"]);
    });
    ask(&mut agent, "Two.").await;
    let log = bench.log(&id);
    let header = headers(&log)[1];
    assert_eq!(data(header)["reason"], "resume");
    assert_eq!(told(&log), [json!([[added("check")], header.seq()])]);
}

#[tokio::test]
async fn a_route_that_cannot_only_gets_another_header() {
    let bench = Bench::new();
    let model = Routed::new(vec![says("Yes."); 2]);
    let mut agent = agent_with(&bench, bench.create(), Arc::new(model), |setup| {
        setup.tools = tools(&bench, &["look"]);
    });
    ask(&mut agent, "One.").await;
    agent.set_tools(tools(&bench, &["look", "check"]));
    ask(&mut agent, "Two.").await;
    // A route that can goes on from what the header has said.
    agent.set_model(
        Arc::new(Routed::flexible(2)),
        crate::bench::call_config("acme-small"),
    );
    ask(&mut agent, "Three.").await;
    agent.set_tools(tools(&bench, &["check"]));
    ask(&mut agent, "Four.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(headers(&log).len(), 3);
    assert_eq!(told(&log), [json!([[removed("look")], null])]);
}

#[tokio::test]
async fn tools_are_shown_by_name_whoever_came_first() {
    let bench = Bench::new();
    let mut orders = Vec::new();
    for registered in [
        ["look", "check", "change", "alter"],
        ["alter", "look", "change", "check"],
    ] {
        let mut agent = agent_with(
            &bench,
            bench.create(),
            Arc::new(Routed::flexible(1)),
            |setup| {
                setup.tools = tools(&bench, &registered);
            },
        );
        ask(&mut agent, "One.").await;
        orders.push(shown(&bench.log(agent.session().id())));
    }
    assert_eq!(orders, [["alter", "change", "check", "look"]; 2]);
}

fn shown(log: &EventLog) -> Vec<String> {
    let header = &all(log, &EventKind::RequestHeader)[0];
    let tools = header["header"]["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_configured_order_names_the_first_and_the_last() {
    let bench = Bench::new();
    for (order, expected) in [
        (&["look"][..], ["look", "alter", "change", "check"]),
        (
            &["look", "*", "alter"],
            ["look", "change", "check", "alter"],
        ),
        (&["*", "alter"], ["change", "check", "look", "alter"]),
    ] {
        let mut agent = agent_with(
            &bench,
            bench.create(),
            Arc::new(Routed::flexible(1)),
            |setup| {
                setup.config.context.tool_order =
                    Some(order.iter().map(|&name| name.into()).collect());
            },
        );
        ask(&mut agent, "One.").await;
        assert_eq!(shown(&bench.log(agent.session().id())), expected);
    }
}

#[tokio::test]
async fn an_order_that_cannot_be_followed_ends_the_turn_before_it_has_a_step() {
    for (order, message) in [
        (
            ["look", "sing"],
            "the tool order names `sing`, and there is no such tool",
        ),
        (
            ["look", "look"],
            "the tool order names `look`, which stands there twice",
        ),
    ] {
        let bench = Bench::new();
        let mut agent = agent_with(
            &bench,
            bench.create(),
            Arc::new(Routed::flexible(1)),
            |setup| {
                setup.config.context.tool_order = Some(order.map(str::to_owned).into());
            },
        );
        ask(&mut agent, "One.").await;
        let log = bench.log(agent.session().id());
        assert_eq!(
            kinds(&log)[1..],
            ["turn/start", "agent/inbox/spliced", "turn/end"],
            "{order:?}"
        );
        assert_eq!(
            all(&log, &EventKind::TurnEnd)[0]["reason"]["error"],
            json!({"message": message, "code": "INVALID_TOOL_ORDER"})
        );
    }
}
