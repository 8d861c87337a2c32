//! Cancelling at every point of a turn.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use offshoot_agent::{Cancel, CancelCause, TurnEndReason, TurnReport};
use offshoot_model::{Attempt, Chunk, Model, ModelRequest};
use offshoot_session::{EventDraft, EventKind, SessionObserver};
use offshoot_store::Query;
use offshoot_test_support::{Reply, ScriptedModelServer};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, ask, over_http, script};
use crate::order::first_step;
use crate::points::Probe;
use crate::support::{all, calls, endings, kinds, result, results, says};

fn cancelled_by_a_person() -> TurnEndReason {
    TurnEndReason::Aborted {
        reason: CancelCause::User,
    }
}

/// Cancels as soon as an event of this type is in the log.
struct CancelAt(EventKind, Cancel);

impl SessionObserver for CancelAt {
    fn event(&mut self, event: &Arc<offshoot_session::Event>) -> Result<(), String> {
        if *event.kind() == self.0 {
            self.1.cancel(CancelCause::User);
        }
        Ok(())
    }
}

/// Runs a turn of two calls and text that is cancelled at the first event of this type.
async fn cancelled_at(kind: EventKind) -> (Bench, TurnReport, Vec<String>) {
    let bench = Bench::new();
    let cancel = Cancel::new();
    let two = calls([("a", "check", "{}"), ("b", "check", "{}")]);
    let mut agent = bench.scripted(vec![two, says("Done.")]);
    let observer = CancelAt(kind, cancel.clone());
    agent.session().lock().observe(Box::new(observer));
    agent.submit("Check twice.").unwrap();
    let mut reports = agent.run(&cancel).await.unwrap();
    assert_eq!(reports.len(), 1);
    let log = bench.log(agent.session().id());
    assert_eq!(
        kinds(&log),
        kinds(&agent.session().log()),
        "all of it is durable"
    );
    let names = kinds(&log).into_iter().map(str::to_owned).collect();
    (bench, reports.remove(0), names)
}

#[tokio::test]
async fn before_anything_was_claimed_the_turn_ends_and_the_input_is_dropped() {
    let (_bench, report, kinds) = cancelled_at(EventKind::TurnStart).await;
    assert_eq!(report.reason, cancelled_by_a_person());
    let expected = [
        "agent/inbox/spliced",
        "turn/start",
        "turn/end",
        "agent/inbox/spliced",
    ];
    assert_eq!(kinds, expected);
}

#[tokio::test]
async fn before_the_model_is_called_nothing_is_settled() {
    for kind in [
        EventKind::StepStart,
        EventKind::UserMessage,
        EventKind::RequestContext,
    ] {
        let (bench, report, kinds) = cancelled_at(kind).await;
        assert_eq!(report.reason, cancelled_by_a_person());
        assert_eq!(kinds, first_step(&["step/end", "turn/end"]));
        assert!(bench.work.done().is_empty());
    }
}

#[tokio::test]
async fn an_answer_that_is_complete_stands_and_none_of_its_calls_runs() {
    let (bench, report, kinds) = cancelled_at(EventKind::AssistantMessage).await;
    assert_eq!(report.reason, cancelled_by_a_person());
    assert_eq!(
        kinds,
        first_step(&[
            "assistant/message",
            "tool/call",
            "tool/result",
            "tool/call",
            "tool/result",
            "step/end",
            "turn/end",
        ])
    );
    assert!(bench.work.done().is_empty());
}

#[tokio::test]
async fn a_call_that_was_logged_and_did_not_begin_says_so() {
    let (bench, _, _) = cancelled_at(EventKind::ToolCall).await;
    let id = bench.service.list(&Query::default()).unwrap().rows[0]
        .id
        .clone();
    let not_run = "Error: tool call aborted before dispatch";
    assert_eq!(
        results(&bench.log(&id)),
        [
            result("a", "ABORTED_BEFORE_DISPATCH", not_run),
            result("b", "ABORTED_BEFORE_DISPATCH", not_run),
        ]
    );
    assert!(bench.work.done().is_empty());
}

#[tokio::test]
async fn between_two_calls_the_second_is_answered_and_not_run() {
    let (bench, _, kinds) = cancelled_at(EventKind::ToolResult).await;
    assert_eq!(
        kinds,
        first_step(&[
            "assistant/message",
            "tool/call",
            "tool/result",
            "tool/call",
            "tool/result",
            "step/end",
            "turn/end",
        ])
    );
    assert_eq!(bench.work.done(), ["start a", "end a"]);
}

#[tokio::test]
async fn behind_a_step_no_other_one_begins() {
    let (_bench, report, kinds) = cancelled_at(EventKind::StepEnd).await;
    assert_eq!(report.reason, cancelled_by_a_person());
    assert_eq!(kinds.iter().filter(|kind| *kind == "step/start").count(), 1);
    assert_eq!(kinds.last().map(String::as_str), Some("turn/end"));
}

/// Over HTTP: the answer stalls behind some chunks, and is cancelled there.
async fn cancelled_behind(chunks: usize, reply: Reply) -> Bench {
    let bench = Bench::new();
    let (reply, gate) = reply.stall_after(chunks);
    let server = ScriptedModelServer::start([reply, Reply::text("Two.")]);
    let mut agent = bench.agent(bench.create(), over_http(&server));
    agent.submit("First.").unwrap();
    let cancel = Cancel::new();
    let heard = Arc::new(tokio::sync::Notify::new());
    let (reports, ()) = tokio::join!(agent.run(&cancel), async {
        gate.reached().await;
        heard.notify_one();
        cancel.cancel(CancelCause::User);
    });
    assert_eq!(reports.unwrap()[0].reason, cancelled_by_a_person());
    // Goes on afterwards, with a request that the server's validator accepts.
    ask(&mut agent, "Second.").await;
    assert_eq!(
        endings(&bench.log(agent.session().id())),
        ["aborted", "completed"]
    );
    gate.release();
    server.finish();
    bench
}

#[tokio::test]
async fn over_http_nothing_visible_yet_is_an_attempt() {
    let bench = cancelled_behind(1, Reply::text("Never heard.")).await;
    let id = bench.service.list(&Query::default()).unwrap().rows[0]
        .id
        .clone();
    let log = bench.log(&id);
    let expected = first_step(&["assistant/attempt", "step/end", "turn/end"]);
    assert_eq!(kinds(&log)[..expected.len()], expected);
    assert_eq!(
        all(&log, &EventKind::AssistantAttempt),
        [json!({"turn": 1, "step": 1, "stream": []})]
    );
}

/// A model whose answer the test feeds chunk by chunk, so that it knows what was heard.
#[derive(Debug)]
struct Fed {
    chunks: tokio::sync::Mutex<Option<tokio::sync::mpsc::Receiver<Chunk>>>,
}

impl Model for Fed {
    fn provider(&self) -> &str {
        "acme"
    }

    /// Does not listen to the cancellation at all.
    fn stream(&self, _: Arc<ModelRequest>, _: CancellationToken) -> BoxStream<'static, Chunk> {
        let chunks = self.chunks.try_lock().unwrap().take().unwrap();
        futures_util::stream::unfold(chunks, |mut chunks| async move {
            chunks.recv().await.map(|chunk| (chunk, chunks))
        })
        .boxed()
    }
}

/// Cancels when the model has been heard up to here; the model itself hangs on.
async fn cancelled_after_hearing(chunks: Vec<Chunk>) -> (Bench, offshoot_agent::Driver) {
    let bench = Bench::new();
    // Room for one: that the next one fits in means that the last one was taken out.
    let (feed, fed) = tokio::sync::mpsc::channel(1);
    let model = Fed {
        chunks: tokio::sync::Mutex::new(Some(fed)),
    };
    let mut agent = bench.agent(bench.create(), Arc::new(model));
    agent.submit("First.").unwrap();
    let cancel = Cancel::new();
    let (reports, _feed) = tokio::join!(agent.run(&cancel), async {
        for chunk in chunks {
            feed.send(chunk).await.unwrap();
        }
        drop(feed.reserve().await.unwrap());
        cancel.cancel(CancelCause::User);
        feed
    });
    assert_eq!(reports.unwrap()[0].reason, cancelled_by_a_person());
    (bench, agent)
}

fn text(text: &str) -> Chunk {
    Chunk::TextDelta {
        index: 0,
        text: text.into(),
    }
}

#[tokio::test]
async fn visible_text_stays_as_an_interrupted_message_and_half_a_call_does_not() {
    let call = Chunk::ToolCallDelta {
        index: 1,
        id: "a".into(),
        name: Some("look".into()),
        arguments_delta: "{".into(),
    };
    let (bench, mut agent) = cancelled_after_hearing(vec![text("I "), text("begin"), call]).await;
    let log = bench.log(agent.session().id());
    assert_eq!(
        kinds(&log),
        first_step(&["assistant/message", "step/end", "turn/end"])
    );
    let message = &all(&log, &EventKind::AssistantMessage)[0];
    assert_eq!(
        (&message["interrupted"], &message["message"]["content"]),
        (&json!(true), &json!([{"type": "text", "text": "I begin"}]))
    );
    assert_eq!(
        all(&log, &EventKind::TurnEnd),
        [json!({"turn": 1, "reason": {"kind": "aborted", "reason": {"kind": "user"}}})]
    );
    agent.set_model(
        script(vec![says("Two.")]),
        crate::bench::call_config("acme-small"),
    );
    ask(&mut agent, "Second.").await;
}

#[tokio::test]
async fn white_space_alone_is_nothing_visible() {
    let (bench, agent) = cancelled_after_hearing(vec![text(" \n")]).await;
    let log = bench.log(agent.session().id());
    assert_eq!(
        kinds(&log),
        first_step(&["assistant/attempt", "step/end", "turn/end"])
    );
}

#[tokio::test]
async fn a_model_that_only_fails_once_it_is_cancelled_makes_no_failed_turn() {
    let bench = Bench::new();
    let cancel = Cancel::new();
    let fails = Attempt::Throw {
        chunks: vec![text("I beg")],
        message: "the connection broke".into(),
        code: "TRANSPORT".into(),
    };
    let mut agent = bench.scripted(vec![fails]);
    let observer = CancelAt(EventKind::AssistantAttempt, cancel.clone());
    agent.session().lock().observe(Box::new(observer));
    agent.submit("First.").unwrap();
    let reports = agent.run(&cancel).await.unwrap();
    assert_eq!(reports[0].reason, cancelled_by_a_person());
}

#[tokio::test]
async fn during_tools_the_running_one_is_told_and_the_next_one_never_starts() {
    let bench = Bench::new();
    let hold = bench.work.hold("a");
    let two = calls([("a", "change", "{}"), ("b", "change", "{}")]);
    let mut agent = bench.scripted(vec![two, says("Two.")]);
    agent.submit("Change both.").unwrap();
    agent.submit("And then this.").unwrap();
    let cancel = Cancel::new();
    let (reports, ()) = tokio::join!(agent.run(&cancel), async {
        hold.started.cancelled().await;
        cancel.cancel(CancelCause::Parent);
        cancel.cancel(CancelCause::User);
    });
    let reason = CancelCause::Parent;
    assert_eq!(
        reports.unwrap()[0].reason,
        TurnEndReason::Aborted { reason },
        "the first cause counts"
    );
    let log = bench.log(agent.session().id());
    // The shape of the recorded session `cancel-tool-calls`, and then what happens to the other prompt.
    let mut expected = first_step(&[
        "assistant/message",
        "tool/call",
        "tool/result",
        "tool/call",
        "tool/result",
        "step/end",
        "turn/end",
        "agent/inbox/spliced",
    ]);
    expected.insert(0, "agent/inbox/spliced");
    assert_eq!(kinds(&log), expected);
    assert_eq!(
        results(&log),
        [
            result("a", "ABORTED", "Error: tool call aborted"),
            result(
                "b",
                "ABORTED_BEFORE_DISPATCH",
                "Error: tool call aborted before dispatch"
            ),
        ]
    );
    assert_eq!(
        all(&log, &EventKind::InboxSpliced).last(),
        Some(&json!({
            "target": "next-turn", "start": 0, "removedCount": 1, "inserted": [], "outcome": "canceled",
        }))
    );
    assert_eq!(bench.work.done(), ["start a"]);
    ask(&mut agent, "Go on.").await;
    assert_eq!(
        endings(&bench.log(agent.session().id())),
        ["aborted", "completed"]
    );
}

#[tokio::test]
async fn of_parallel_calls_those_that_ended_keep_their_results() {
    let bench = Bench::new();
    let (first, last) = (bench.work.hold("a"), bench.work.hold("c"));
    let three = ["a", "b", "c"].map(|id| (id, "look", "{}"));
    let mut agent = bench.scripted(vec![calls(three)]);
    agent.submit("Look.").unwrap();
    let cancel = Cancel::new();
    let (reports, ()) = tokio::join!(agent.run(&cancel), async {
        first.started.cancelled().await;
        last.started.cancelled().await;
        cancel.cancel(CancelCause::User);
    });
    reports.unwrap();
    let aborted = "Error: tool call aborted";
    assert_eq!(
        results(&bench.log(agent.session().id())),
        [
            result("a", "ABORTED", aborted),
            result("b", "", "b is done"),
            result("c", "ABORTED", aborted),
        ]
    );
}

#[tokio::test]
async fn a_notice_queued_meanwhile_is_dropped_with_the_rest() {
    let bench = Bench::new();
    let hold = bench.work.hold("a");
    let mut agent = bench.scripted(vec![calls([("a", "look", "{}")])]);
    agent.submit("Look.").unwrap();
    let session = agent.session().clone();
    let cancel = Cancel::new();
    let (reports, ()) = tokio::join!(agent.run(&cancel), async {
        hold.started.cancelled().await;
        let message = json!({
            "id": "n", "role": "user", "source": {"kind": "user"},
            "content": [{"type": "text", "text": "by the way"}],
        });
        let splice = json!({"target": "next-step", "start": 0, "inserted": [message]});
        let draft = EventDraft::log_only(EventKind::InboxSpliced, &splice).unwrap();
        session.append(draft, 1_000).unwrap();
        cancel.cancel(CancelCause::User);
    });
    reports.unwrap();
    let log = bench.log(agent.session().id());
    assert!(log.pending_input().is_empty());
    assert_eq!(
        all(&log, &EventKind::InboxSpliced).last().unwrap()["target"],
        "next-step"
    );
}

#[tokio::test]
async fn while_a_calls_start_is_being_stored_it_has_not_begun() {
    let bench = Bench::new();
    let probe = Probe::default();
    let two = calls([("a", "change", "{}"), ("b", "change", "{}")]);
    let mut agent = bench.scripted(vec![two]);
    agent.submit("Change both.").unwrap();
    agent.flush().unwrap();
    let cancel = Cancel::new();
    let switch = cancel.clone();
    bench.disk.probe(&probe);
    // The first is the barrier of the request.
    probe.arm(2, move || switch.cancel(CancelCause::User));
    agent.run(&cancel).await.unwrap();
    assert_eq!(probe.fired().unwrap().point, "batch");
    let not_run = "Error: tool call aborted before dispatch";
    assert_eq!(
        results(&bench.log(agent.session().id())),
        [
            result("a", "ABORTED_BEFORE_DISPATCH", not_run),
            result("b", "ABORTED_BEFORE_DISPATCH", not_run),
        ]
    );
    assert!(bench.work.done().is_empty());
}
