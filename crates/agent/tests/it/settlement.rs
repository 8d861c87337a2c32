//! How an answer settles: as the model's message, or as an attempt that came to nothing.

use std::sync::Arc;

use offshoot_agent::TurnEndReason;
use offshoot_model::{Attempt, Chunk, ContentBlock, Failure, FinishReason, RawJson};
use offshoot_session::EventKind;
use offshoot_test_support::{Reply, ScriptedModelServer};
use serde_json::{Value, json};

use crate::bench::{Bench, ask, over_http};
use crate::order::first_step;
use crate::support::{all, answers, call, endings, kinds, result, results, says};

const FAILED: [&str; 3] = ["assistant/attempt", "step/end", "turn/end"];

fn error_codes(turns: &[Value]) -> Vec<String> {
    let codes = turns.iter().map(|turn| &turn["reason"]["error"]["code"]);
    codes.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[tokio::test]
async fn calls_with_one_id_are_told_apart_before_anything_is_recorded() {
    let bench = Bench::new();
    let server = ScriptedModelServer::start([
        Reply::tool_calls([
            ("c", "look", "{}"),
            ("c", "look", r#"{"empty":true}"#),
            ("c", "look", "{}"),
        ]),
        Reply::text("Done."),
    ]);
    let mut agent = bench.agent(bench.create(), over_http(&server));
    ask(&mut agent, "Look thrice.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(endings(&log), ["completed"]);
    assert_eq!(
        results(&log),
        [
            result("c", "", "c is done"),
            result("c-2", "", ""),
            result("c-3", "", "c-3 is done"),
        ]
    );
    let sent = server.requests()[1].messages();
    let named: Vec<_> = sent
        .iter()
        .filter_map(|message| message["tool_call_id"].as_str())
        .collect();
    assert_eq!(named, ["c", "c-2", "c-3"]);
    server.finish();
}

#[tokio::test]
async fn an_answer_that_no_provider_would_take_back_settles_as_a_failed_attempt() {
    let unknown = |json: &str| ContentBlock::Unknown(RawJson::parse(json).unwrap());
    for blocks in [
        vec![call("a", "", "{}")],
        vec![ContentBlock::ToolAddition {
            tool_name: "look".into(),
        }],
        vec![unknown(
            r#"{"type":"tool-result","toolCallId":"a","content":[]}"#,
        )],
        vec![unknown(r#"{"type":""}"#)],
    ] {
        let bench = Bench::new();
        let bad = answers(blocks, FinishReason::ToolCalls);
        let mut agent = bench.scripted(vec![bad, says("Two.")]);
        let reports = ask(&mut agent, "First.").await;
        assert!(
            matches!(&reports[0].reason, TurnEndReason::Error { error } if error.code == "MALFORMED_RESPONSE")
        );
        let log = bench.log(agent.session().id());
        assert_eq!(kinds(&log), first_step(&FAILED));
        ask(&mut agent, "Second.").await;
        assert_eq!(
            endings(&bench.log(agent.session().id())),
            ["error", "completed"]
        );
        assert!(bench.work.done().is_empty());
    }
}

#[tokio::test]
async fn a_call_without_an_id_gets_one() {
    let bench = Bench::new();
    let nameless = answers(
        vec![call("", "look", "{}"), call("", "look", "{}")],
        FinishReason::ToolCalls,
    );
    let mut agent = bench.scripted(vec![nameless, says("Done.")]);
    ask(&mut agent, "Look.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(
        results(&log),
        [
            result("call-0", "", "call-0 is done"),
            result("call-1", "", "call-1 is done"),
        ]
    );
}

#[tokio::test]
async fn a_failed_answer_keeps_what_came_and_ends_the_turn() {
    let bench = Bench::new();
    let broken = Attempt::Throw {
        chunks: vec![Chunk::TextDelta {
            index: 0,
            text: "I beg".into(),
        }],
        message: "gone".into(),
        code: "TRANSPORT".into(),
    };
    let mut agent = bench.scripted(vec![broken, says("Two.")]);
    let reports = ask(&mut agent, "First.").await;
    let error = Failure::new("TRANSPORT", "gone");
    assert_eq!(reports[0].reason, TurnEndReason::Error { error });
    let log = bench.log(agent.session().id());
    assert_eq!(kinds(&log), first_step(&FAILED));
    assert_eq!(
        all(&log, &EventKind::AssistantAttempt)[0]["stream"],
        json!([
            {"type": "text-chunks", "time0": 1000, "index": 0, "dt": [], "texts": ["I beg"]},
            {"type": "chunk", "time": 1000, "chunk": {"type": "finish", "reason":
                {"kind": "error", "failure": {"message": "gone", "code": "TRANSPORT"}}}},
        ])
    );
    ask(&mut agent, "Second.").await;
    let ends = all(&bench.log(agent.session().id()), &EventKind::TurnEnd);
    assert_eq!(error_codes(&ends), ["TRANSPORT"]);
}

#[tokio::test]
async fn a_provider_that_gives_up_by_itself_is_a_failure_and_no_cancelled_turn() {
    let bench = Bench::new();
    let gave_up = Attempt::Chunks(vec![
        Chunk::TextDelta {
            index: 0,
            text: "I beg".into(),
        },
        Chunk::aborted(),
    ]);
    let mut agent = bench.scripted(vec![gave_up]);
    ask(&mut agent, "First.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(kinds(&log), first_step(&FAILED));
    let stream = &all(&log, &EventKind::AssistantAttempt)[0]["stream"];
    assert_eq!(stream[1]["chunk"]["reason"]["kind"], "aborted");
    assert_eq!(error_codes(&all(&log, &EventKind::TurnEnd)), ["ABORTED"]);
}

#[tokio::test]
async fn a_turn_that_failed_leaves_the_rest_of_the_input_waiting() {
    let bench = Bench::new();
    let model = crate::bench::script(Vec::new());
    let mut agent = bench.agent(
        bench.create(),
        Arc::<offshoot_model::ScriptModel>::clone(&model),
    );
    agent.submit("First.").unwrap();
    let reports = ask(&mut agent, "Second.").await;
    assert_eq!(reports.len(), 1);
    assert_eq!(agent.session().log().pending_input().next_turn().len(), 1);
    model.push(says("Two."));
    let reports = agent.run(&offshoot_agent::Cancel::new()).await.unwrap();
    assert_eq!(reports[0].text, "Two.");
}
