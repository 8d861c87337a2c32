//! The tool calls of a step (`reference/agent.md` §1.9).

use std::time::Duration;

use offshoot_agent::{AgentSetup, Cancel, Driver};
use offshoot_session::EventKind;
use serde_json::json;

use crate::bench::{Bench, ask, config, script};
use crate::support::{all, calls, endings, kinds_from, result, results, says};

fn ids(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("c{number}")).collect()
}

#[tokio::test]
async fn results_stand_in_the_models_order_whatever_ends_first() {
    let bench = Bench::new();
    let (a, b) = (bench.work.hold("a"), bench.work.hold("b"));
    let three = ["a", "b", "c"].map(|id| (id, "look", "{}"));
    let mut agent = bench.scripted(vec![calls(three), says("Done.")]);
    agent.submit("Look.").unwrap();
    let cancel = Cancel::new();
    let (reports, ()) = tokio::join!(agent.run(&cancel), async {
        a.started.cancelled().await;
        b.started.cancelled().await;
        b.released.cancel();
        tokio::task::yield_now().await;
        a.released.cancel();
    });
    reports.unwrap();
    let log = bench.log(agent.session().id());
    assert_eq!(
        results(&log),
        ["a", "b", "c"].map(|id| result(id, "", &format!("{id} is done")))
    );
    assert_eq!(
        bench.work.done()[..4],
        ["start a", "start b", "start c", "end c"]
    );
    let cited: Vec<_> = log.events().filter_map(|event| event.sources()).collect();
    let started: Vec<_> = log
        .events()
        .filter(|event| *event.kind() == EventKind::ToolCall)
        .map(|event| vec![event.seq()])
        .collect();
    assert_eq!(cited, started);
}

#[tokio::test]
async fn ten_run_at_a_time_and_each_that_ends_makes_room_even_if_the_first_does_not() {
    let bench = Bench::new();
    let ids = ids(12);
    let first = bench.work.hold("c1");
    let rest: Vec<_> = ids[1..].iter().map(|id| bench.work.hold(id)).collect();
    let twelve = calls(ids.iter().map(|id| (&**id, "look", "{}")));
    let mut agent = bench.scripted(vec![twelve, says("Done.")]);
    agent.submit("Look.").unwrap();
    let cancel = Cancel::new();
    let (reports, ()) = tokio::join!(agent.run(&cancel), async {
        for hold in &rest[..9] {
            hold.started.cancelled().await;
        }
        assert_eq!(bench.work.runs().len(), 10, "c11 has to wait");
        rest[4].released.cancel();
        rest[9].started.cancelled().await;
        assert_eq!(bench.work.runs().len(), 11, "c12 has to wait");
        rest[9].released.cancel();
        rest[10].started.cancelled().await;
        rest.iter().for_each(|hold| hold.released.cancel());
        first.released.cancel();
    });
    reports.unwrap();
    let log = bench.log(agent.session().id());
    let expected: Vec<_> = ids
        .iter()
        .map(|id| result(id, "", &format!("{id} is done")))
        .collect();
    assert_eq!(results(&log), expected);
}

#[tokio::test]
async fn a_cap_of_one_runs_calls_one_by_one() {
    let bench = Bench::new();
    let two = calls([("a", "look", "{}"), ("b", "look", "{}")]);
    let mut config = config();
    config.max_parallel_tool_calls = 0;
    let (model, tools) = (script(vec![two, says("Done.")]), bench.work.tools());
    let mut agent = Driver::new(
        bench.create(),
        AgentSetup::new(model, tools, config, bench.env.clone()),
    );
    ask(&mut agent, "Look.").await;
    assert_eq!(bench.work.done(), ["start a", "end a", "start b", "end b"]);
}

#[tokio::test]
async fn an_exclusive_call_is_a_barrier() {
    let bench = Bench::new();
    let five = [
        ("a", "look"),
        ("b", "look"),
        ("c", "change"),
        ("d", "look"),
        ("e", "look"),
    ];
    let five = calls(five.map(|(id, name)| (id, name, "{}")));
    let mut agent = bench.scripted(vec![five, says("Done.")]);
    ask(&mut agent, "Work.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(
        kinds_from(&log, 11)[..10],
        [
            "tool/call",
            "tool/call",
            "tool/result",
            "tool/result",
            "tool/call",
            "tool/result",
            "tool/call",
            "tool/call",
            "tool/result",
            "tool/result",
        ]
    );
}

#[tokio::test]
async fn whatever_goes_wrong_with_a_call_is_its_result_and_the_conversation_goes_on() {
    let bench = Bench::new();
    let bad = calls([
        ("a", "nothing", "{}"),
        ("b", "look", "{not json"),
        ("c", "look", r#"{"wrong":1}"#),
        ("d", "look", r#"{"panic":true}"#),
        ("e", "look", r#"{"panic_when_classified":true}"#),
        ("f", "look", ""),
        ("g", "look", r#"{"empty":true}"#),
    ]);
    let mut agent = bench.scripted(vec![bad, says("Done.")]);
    ask(&mut agent, "Work.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(endings(&log), ["completed"]);
    let results = results(&log);
    let codes: Vec<_> = results.iter().map(|(_, code, _)| &**code).collect();
    assert_eq!(
        codes,
        [
            "UNKNOWN_TOOL",
            "INVALID_ARGS",
            "INVALID_ARGS",
            "TOOL_PANICKED",
            "",
            "",
            ""
        ]
    );
    assert_eq!(results[0].2, "Error: there is no tool named `nothing`");
    assert_eq!(results[3].2, "Error: the tool failed unexpectedly");
    let asked: Vec<_> = all(&log, &EventKind::ToolCall)
        .iter()
        .map(|call| call["arguments"].clone())
        .collect();
    assert_eq!(
        (&asked[1], &asked[5]),
        (&json!("{not json"), &json!("")),
        "as the model wrote them"
    );
    let empty = all(&log, &EventKind::ToolResult).pop().unwrap();
    assert_eq!(empty["message"]["content"], json!([]));
}

#[tokio::test]
async fn facts_for_front_ends_may_be_laid_out_over_lines() {
    let bench = Bench::new();
    let spread = r#"{"spread_facts":true}"#;
    let mut agent = bench.scripted(vec![calls([("a", "look", spread)]), says("Done.")]);
    ask(&mut agent, "Look.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(
        all(&log, &EventKind::ToolResult)[0]["meta"],
        json!({"a": 1})
    );
}

fn patient(bench: &Bench, arguments: &str) -> Driver {
    let model = script(vec![calls([("a", "look", arguments)]), says("Done.")]);
    let tools = bench.work.tools_with(Some(Duration::from_secs(2)));
    Driver::new(
        bench.create(),
        AgentSetup::new(model, tools, config(), bench.env.clone()),
    )
}

#[tokio::test(start_paused = true)]
async fn a_tool_whose_time_is_over_is_told_and_answered_for() {
    for arguments in ["{}", r#"{"deaf":true}"#] {
        let bench = Bench::new();
        let hold = bench.work.hold("a");
        let mut agent = patient(&bench, arguments);
        ask(&mut agent, "Look.").await;
        let text = "Error: tool call timed out after 2000ms";
        let log = bench.log(agent.session().id());
        assert_eq!(results(&log), [result("a", "TOOL_TIMEOUT", text)]);
        hold.told.cancelled().await;
        assert_eq!(bench.work.done(), ["start a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_tool_did_not_time_out() {
    let bench = Bench::new();
    let hold = bench.work.hold("a");
    let mut agent = patient(&bench, r#"{"deaf":true}"#);
    agent.submit("Look.").unwrap();
    let cancel = Cancel::new();
    let (reports, ()) = tokio::join!(agent.run(&cancel), async {
        hold.started.cancelled().await;
        cancel.cancel(offshoot_agent::CancelCause::User);
    });
    reports.unwrap();
    let log = bench.log(agent.session().id());
    assert_eq!(
        results(&log),
        [result("a", "ABORTED", "Error: tool call aborted")]
    );
}
