//! A run whose future is dropped in the middle, as a front end does that goes away.

use std::sync::Arc;

use offshoot_agent::Cancel;
use offshoot_model::{Attempt, Chunk};
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
async fn what_had_come_of_its_answer_is_kept() {
    let bench = Bench::new();
    let chunks = vec![
        Chunk::TextDelta {
            index: 0,
            text: "As far as".into(),
        },
        Chunk::ToolCallDelta {
            index: 1,
            id: "a".into(),
            name: Some("look".into()),
            arguments_delta: "{}".into(),
        },
    ];
    let only_a_call = chunks[1..].to_vec();
    let model = script(vec![
        Attempt::Hang { chunks },
        Attempt::Hang {
            chunks: only_a_call,
        },
        says("Three."),
    ]);
    let mut agent = bench.agent(bench.create(), Arc::clone(&model) as _);
    for number in 1..=2 {
        agent.submit("Go on.").unwrap();
        let cancel = Cancel::new();
        let asked = async {
            while model.requests().len() < number {
                tokio::task::yield_now().await;
            }
            // Until all of it has come in.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            done = agent.run(&cancel) => panic!("{done:?}"),
            () = asked => {}
        }
    }
    ask(&mut agent, "And now?").await;
    let log = bench.log(agent.session().id());
    let answers = all(&log, &EventKind::AssistantMessage);
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0]["interrupted"], json!(true));
    assert_eq!(
        answers[0]["message"]["content"],
        json!([{"type": "text", "text": "As far as"}])
    );
    assert_eq!(all(&log, &EventKind::AssistantAttempt).len(), 1);
    assert_eq!(endings(&log), ["aborted", "aborted", "completed"]);
}

#[tokio::test]
async fn also_when_it_was_still_streaming() {
    let bench = Bench::new();
    let hang = Attempt::Hang { chunks: Vec::new() };
    let model = script(vec![hang, says("Two.")]);
    let mut agent = bench.agent(bench.create(), Arc::clone(&model) as _);
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
