//! A run whose future is dropped in the middle, as a front end does that goes away.

use offshoot_agent::Cancel;
use offshoot_session::EventKind;
use serde_json::json;

use crate::bench::{Bench, ask, script};
use crate::order::first_step;
use crate::support::{all, calls, endings, kinds, says};

#[tokio::test]
async fn the_turn_is_closed_before_the_next_one_starts_and_its_tool_is_told() {
    let bench = Bench::new();
    let hold = bench.work.hold("a");
    let two = calls([("a", "change", "{}"), ("b", "change", "{}")]);
    let mut agent = bench.scripted(vec![two, says("Two.")]);
    agent.submit("Change both.").unwrap();
    let cancel = Cancel::new();
    tokio::select! {
        done = agent.run(&cancel) => panic!("{done:?}"),
        () = hold.started.cancelled() => {}
    }
    hold.told.cancelled().await;
    ask(&mut agent, "Go on.").await;
    let log = bench.log(agent.session().id());
    let expected = first_step(&[
        "assistant/message",
        "tool/call",
        "agent/inbox/spliced",
        "tool/result",
        "tool/result",
        "step/end",
        "turn/end",
    ]);
    assert_eq!(kinds(&log)[..expected.len()], expected);
    assert_eq!(
        all(&log, &EventKind::TurnEnd)[0],
        json!({"turn": 1, "reason": {"kind": "aborted", "reason": {"kind": "disposed"}}})
    );
    assert_eq!(endings(&log), ["aborted", "completed"]);
    assert_eq!(bench.work.done(), ["start a"]);
}

#[tokio::test]
async fn also_when_it_was_still_streaming() {
    let bench = Bench::new();
    let hang = offshoot_model::Attempt::Hang { chunks: Vec::new() };
    let model = script(vec![hang, says("Two.")]);
    let mut agent = bench.agent(bench.create(), std::sync::Arc::clone(&model) as _);
    agent.submit("First.").unwrap();
    let cancel = Cancel::new();
    let asked = async {
        while model.requests().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        done = agent.run(&cancel) => panic!("{done:?}"),
        () = asked => {}
    }
    ask(&mut agent, "Second.").await;
    assert_eq!(
        endings(&bench.log(agent.session().id())),
        ["aborted", "completed"]
    );
}
