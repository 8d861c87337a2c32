//! When and why a `request/header` and a `request/context` are written (`reference/agent.md` §1.6).

use std::sync::Arc;

use offshoot_agent::{AgentSetup, Driver};
use offshoot_model::ScriptModel;
use offshoot_session::{EventDraft, EventKind, EventLog};
use offshoot_tool_api::{
    Effects, Tool, ToolArguments, ToolContext, ToolError, ToolOutput, ToolRegistry, ToolSpec,
};
use serde_json::{Value, json};

use crate::bench::{Bench, ask, call_config, config, script};
use crate::support::{all, data, first, kinds_from, says};

fn reasons(log: &EventLog) -> Vec<Value> {
    all(log, &EventKind::RequestHeader)
        .iter()
        .map(|header| json!([header["reason"], header["startsSeries"]]))
        .collect()
}

#[tokio::test]
async fn the_first_header_says_what_the_request_is_made_with() {
    let bench = Bench::new();
    let mut agent = bench.scripted(vec![says("Hello.")]);
    ask(&mut agent, "Greet me.").await;
    let log = bench.log(agent.session().id());
    let tool = |name: &str| json!({"name": name, "description": "A tool of a test.", "parameters": {"type": "object"}});
    assert_eq!(
        data(&first(&log, &EventKind::RequestHeader)),
        json!({
            "header": {
                "config": {"provider": "acme", "model": "acme-small"},
                "tools": [tool("alter"), tool("change"), tool("check"), tool("look")],
            },
            "reason": "initial",
        })
    );
    assert_eq!(
        data(&first(&log, &EventKind::RequestContext)),
        json!({"provider": "acme", "model": "acme-small"})
    );
}

#[tokio::test]
async fn another_configuration_is_a_change() {
    let bench = Bench::new();
    let mut agent = bench.scripted(vec![says("One.")]);
    ask(&mut agent, "First.").await;
    let before = bench.log(agent.session().id()).events().count();
    let larger =
        ScriptModel::new("acme", vec![says("Two."), says("Three.")]).with_context_window(9_000);
    agent.set_model(Arc::new(larger), call_config("acme-large"));
    ask(&mut agent, "Second.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(
        kinds_from(&log, before),
        [
            "agent/inbox/spliced",
            "turn/start",
            "agent/inbox/spliced",
            "step/start",
            "user/message",
            "request/header",
            "request/context",
            "assistant/message",
            "step/end",
            "turn/end",
        ]
    );
    ask(&mut agent, "Third.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(
        reasons(&log),
        [json!(["initial", null]), json!(["change", null])]
    );
    assert_eq!(
        all(&log, &EventKind::RequestContext)[1..],
        [json!({"provider": "acme", "model": "acme-large", "contextWindow": 9_000})]
    );
}

#[tokio::test]
async fn an_agent_that_comes_back_resumes() {
    let mut bench = Bench::new();
    let mut agent = bench.scripted(vec![says("One.")]);
    ask(&mut agent, "First.").await;
    let id = agent.session().id().clone();
    drop(agent);
    bench.restart();
    let mut agent = bench.agent(bench.open(&id), script(vec![says("Two.")]));
    ask(&mut agent, "Second.").await;
    assert_eq!(
        reasons(&bench.log(&id)),
        [json!(["initial", null]), json!(["resume", null])]
    );
}

/// Replaces the whole conversation behind the prompt by one message, as a compaction would.
fn rewrite(agent: &Driver) {
    let log = agent.session().log();
    let nodes: Vec<_> = log.surface().nodes().skip(1).collect();
    let message = json!({
        "id": "summary", "role": "user", "source": {"kind": "user"},
        "content": [{"type": "text", "text": "We talked."}],
    });
    let op = offshoot_session::SurfaceOp::Replace {
        start: nodes[0],
        end: *nodes.last().unwrap(),
    };
    let draft = EventDraft::message(EventKind::UserMessage, &message).unwrap();
    let draft = draft.with_surface_op(op).with_sources(nodes);
    agent.session().append(draft, 1_000).unwrap();
}

#[tokio::test]
async fn rewritten_history_starts_a_new_series() {
    let bench = Bench::new();
    let answers = ["One.", "Two.", "Three.", "Four."].map(says);
    let mut agent = bench.scripted(answers.into());
    ask(&mut agent, "First.").await;
    rewrite(&agent);
    ask(&mut agent, "Second.").await;
    rewrite(&agent);
    agent.set_model(
        script(vec![says("Three."), says("Four.")]),
        call_config("acme-large"),
    );
    ask(&mut agent, "Third.").await;
    ask(&mut agent, "Fourth.").await;
    assert_eq!(
        reasons(&bench.log(agent.session().id())),
        [
            json!(["initial", null]),
            json!(["series", null]),
            json!(["change", true]),
        ]
    );
}

#[tokio::test]
async fn a_header_that_cannot_be_read_is_no_reason_to_begin_again() {
    let mut bench = Bench::new();
    let mut agent = bench.scripted(vec![says("One.")]);
    ask(&mut agent, "First.").await;
    let id = agent.session().id().clone();
    // Another program's header, with a setting of another type than ours.
    let header = json!({
        "header": {"config": {"provider": "p", "model": "m", "stop": "word"}}, "reason": "change",
    });
    let turn = |kind, data: Value| EventDraft::log_only(kind, &data).unwrap();
    for draft in [
        turn(EventKind::TurnStart, json!({"turn": 2})),
        turn(EventKind::RequestHeader, header),
        turn(
            EventKind::TurnEnd,
            json!({"turn": 2, "reason": {"kind": "completed"}}),
        ),
    ] {
        agent.session().append(draft, 1_000).unwrap();
    }
    agent.flush().unwrap();
    drop(agent);
    bench.restart();
    let mut agent = bench.agent(bench.open(&id), script(vec![says("Two.")]));
    ask(&mut agent, "Second.").await;
    let last = reasons(&bench.log(&id)).pop();
    assert_eq!(last, Some(json!(["resume", null])));
}

#[derive(Debug)]
struct Spread(ToolSpec);

#[async_trait::async_trait]
impl Tool for Spread {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn effects(&self) -> Effects {
        Effects::ReadOnly
    }

    async fn execute(&self, _: ToolArguments, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("done"))
    }
}

#[tokio::test]
async fn a_schema_over_several_lines_is_logged_on_one_and_changes_nothing() {
    let bench = Bench::new();
    let mut tools = ToolRegistry::new();
    let spec = ToolSpec::new("spread", "Spread out.", "{\n  \"type\": \"object\"\r\n}").unwrap();
    tools.register(Arc::new(Spread(spec))).unwrap();
    let model = script(vec![says("One."), says("Two.")]);
    let (attached, env) = (bench.create(), bench.env.clone());
    let mut agent = Driver::new(attached, AgentSetup::new(model, tools, config(), env));
    ask(&mut agent, "First.").await;
    ask(&mut agent, "Second.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(reasons(&log), [json!(["initial", null])]);
}
