//! Compaction because somebody asks for it, between turns.

use std::sync::Arc;

use offshoot_agent::{Agent, Cancel, CancelCause, CompactionError, Driver, Queue};
use offshoot_model::{Attempt, Chunk, ScriptModel};
use offshoot_session::{Event, EventDraft, EventKind, EventLog, LiveSession, SurfaceOp};
use offshoot_test_support::corpus;
use serde_json::json;

use crate::bench::{Bench, NOW, ask, script};
use crate::crowd::{Heard, fails, long, thinks_only};
use crate::outline::numbered_from;
use crate::support::{Hold, all, calls, endings, says};

/// One long turn, and what comes after it.
fn one_turn(rest: impl IntoIterator<Item = Attempt>) -> Arc<ScriptModel> {
    let mut attempts = vec![says("One.")];
    attempts.extend(rest);
    script(attempts)
}

async fn asked(bench: &Bench, model: Arc<ScriptModel>) -> Driver {
    let mut agent = bench.agent(bench.create(), model);
    ask(&mut agent, &long("question", 400)).await;
    agent
}

fn hangs() -> Attempt {
    Attempt::Hang { chunks: Vec::new() }
}

async fn waits_for(model: &ScriptModel, requests: usize) {
    while model.requests().len() < requests {
        tokio::task::yield_now().await;
    }
}

fn last_error(log: &EventLog) -> String {
    let end = all(log, &EventKind::CompactionEnd).pop().unwrap();
    end["error"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn the_order_of_events() {
    let bench = Bench::new();
    let heard = Heard::default();
    let model = one_turn([says("In short."), says("Two.")]);
    let mut setup = bench.setup(Arc::clone(&model) as _);
    setup.observer = Some(Arc::new(heard.clone()));
    let agent = Agent::new(bench.create(), setup);
    agent.followup(&long("question", 400)).unwrap();
    agent.when_idle().await;
    let before = agent.session().log().end();
    let compacted = agent.compact().await.unwrap().unwrap();
    // It is durable when it is done.
    let log = bench.log(agent.session().id());
    insta::assert_snapshot!(numbered_from(&log, before), @r#"
    13 compaction/start null
    14 compaction/summary of [5] In short.
    15 user/message compact-checkpoint for 5..5 citing 13,14,5
    16 compaction/end null
    "#);
    assert_eq!(compacted.items, 1);
    assert!(compacted.summary_tokens < compacted.tokens, "{compacted:?}");
    let checkpoint = log.get(compacted.checkpoint).unwrap();
    assert_eq!(*checkpoint.kind(), EventKind::UserMessage);
    let end = log.end();
    agent.followup("Second.").unwrap();
    agent.when_idle().await;
    insta::assert_snapshot!(numbered_from(&agent.session().log(), end), @r#"
    17 agent/inbox/spliced next-turn at 0 +"Second."
    18 turn/start 2
    19 agent/inbox/spliced next-turn at 0 -1
    20 step/start 2.1
    21 user/message "Second."
    22 request/header series
    23 assistant/message 2.1 [text "Two."]
    24 step/end 2.1
    25 turn/end 2 completed
    "#);
    agent.dispose().await.unwrap();
    let lines = heard.lines();
    assert_eq!(lines[1..], ["started None", "done None: 1 items"]);
}

#[tokio::test]
async fn with_nothing_to_compact_nothing_is_written() {
    let bench = Bench::new();
    let mut fresh = bench.scripted(Vec::new());
    assert_eq!(fresh.compact(&Cancel::new()).await.unwrap(), None);
    assert!(fresh.session().log().is_empty());

    let mut agent = asked(&bench, one_turn([says("In short.")])).await;
    assert!(agent.compact(&Cancel::new()).await.unwrap().is_some());
    let end = agent.session().log().end();
    // What is left is the summary and the answer behind it.
    assert_eq!(agent.compact(&Cancel::new()).await.unwrap(), None);
    assert_eq!(agent.session().log().end(), end);
}

#[tokio::test]
async fn while_a_turn_runs_it_is_busy() {
    let bench = Bench::new();
    let hold: Hold = bench.work.hold("a");
    let model = script(vec![calls([("a", "look", "{}")]), says("Done.")]);
    let agent = bench.running(model);
    agent.followup("Look.").unwrap();
    hold.started.cancelled().await;
    let end = agent.session().log().end();
    let error = agent.compact().await.unwrap_err();
    assert_eq!(error.code(), "busy");
    assert_eq!(agent.session().log().end(), end);
    hold.released.cancel();
    agent.when_idle().await;
    agent.dispose().await.unwrap();
    let error = agent.compact().await.unwrap_err();
    assert_eq!(error.code(), "AGENT_DISPOSED");
}

#[tokio::test]
async fn a_message_that_is_sent_meanwhile_waits() {
    let bench = Bench::new();
    let model = one_turn([hangs(), says("Two.")]);
    let agent = bench.running(Arc::clone(&model) as _);
    agent.followup(&long("question", 400)).unwrap();
    agent.when_idle().await;
    let work = agent.clone();
    let compacting = tokio::spawn(async move { work.compact().await });
    waits_for(&model, 2).await;
    agent.followup("Second.").unwrap();
    // A second one does not begin either.
    assert_eq!(agent.compact().await.unwrap_err().code(), "busy");
    assert_eq!(agent.session().log().last_turn(), 1);
    agent.cancel(CancelCause::User, Queue::Keep).unwrap();
    let error = compacting.await.unwrap().unwrap_err();
    assert_eq!(error.code(), "cancelled");
    agent.when_idle().await;
    let log = agent.session().log();
    assert_eq!(endings(&log), ["completed", "completed"]);
    assert_eq!(last_error(&log), "the compaction was cancelled");
    agent.dispose().await.unwrap();
}

#[tokio::test]
async fn cancelled_before_it_begins_it_writes_nothing() {
    let bench = Bench::new();
    let mut agent = asked(&bench, one_turn([says("In short.")])).await;
    let end = agent.session().log().end();
    let cancel = Cancel::new();
    cancel.cancel(CancelCause::User);
    let error = agent.compact(&cancel).await.unwrap_err();
    assert_eq!(error.code(), "cancelled");
    assert_eq!(agent.session().log().end(), end);
}

/// Replaces the first message of a person, as nobody does while a summary is written.
fn rewrite(session: &LiveSession) {
    let log = session.log();
    let question = log.surface().nodes().nth(1).unwrap();
    let message = json!({
        "id": "rewritten", "role": "user", "content": [{"type": "text", "text": "Other."}],
        "source": {"kind": "user"},
    });
    let draft = EventDraft::message(EventKind::UserMessage, &message).unwrap();
    let op = SurfaceOp::Replace {
        start: question,
        end: question,
    };
    let draft = draft.with_sources([question]).with_surface_op(op);
    session.append(draft, NOW).unwrap();
}

#[tokio::test]
async fn a_conversation_that_has_changed_meanwhile_keeps_its_change() {
    let bench = Bench::new();
    let model = one_turn([says("In short.")]);
    let agent = asked(&bench, Arc::clone(&model)).await;
    let session = agent.session().clone();
    let rewriting = Rewriting(model, session.clone());
    let mut agent = agent;
    agent.set_model(Arc::new(rewriting), crate::bench::call_config("acme-small"));
    let error = agent.compact(&Cancel::new()).await.unwrap_err();
    assert_eq!(error.code(), "changed");
    let log = session.log();
    assert!(all(&log, &EventKind::CompactionSummary).is_empty());
    assert_eq!(last_error(&log), error.to_string());
    agent.flush().unwrap();
}

/// While it answers, the conversation changes.
#[derive(Debug)]
struct Rewriting(Arc<ScriptModel>, LiveSession);

impl offshoot_model::Model for Rewriting {
    fn provider(&self) -> &str {
        self.0.provider()
    }

    fn stream(
        &self,
        request: Arc<offshoot_model::ModelRequest>,
        cancel: tokio_util::sync::CancellationToken,
    ) -> futures_util::stream::BoxStream<'static, Chunk> {
        rewrite(&self.1);
        self.0.stream(request, cancel)
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_summary_it_says_why() {
    let cases = [
        (
            vec![thinks_only(), thinks_only()],
            "the model answered without text",
        ),
        (vec![fails("AUTH")], "the provider says AUTH"),
        (vec![fails("SERVER")], "the provider says SERVER"),
    ];
    for (attempts, why) in cases {
        let bench = Bench::new();
        let mut agent = asked(&bench, one_turn(attempts)).await;
        let error = agent.compact(&Cancel::new()).await.unwrap_err();
        assert_eq!(error.code(), "summary");
        assert_eq!(error.to_string(), format!("there is no summary: {why}"));
        agent.flush().unwrap();
        assert_eq!(
            last_error(&bench.log(agent.session().id())),
            error.to_string()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_provider_is_asked_once_more_after_a_while() {
    let bench = Bench::new();
    let attempts = vec![says("One."), fails("SERVER"), says("In short.")];
    let model =
        ScriptModel::new("acme", attempts).with_retries(offshoot_model::RetryPolicy::default());
    let mut agent = asked(&bench, Arc::new(model)).await;
    let begun = tokio::time::Instant::now();
    assert!(agent.compact(&Cancel::new()).await.unwrap().is_some());
    assert_eq!(begun.elapsed().as_millis(), 500);
}

#[tokio::test]
async fn what_cannot_be_stored_is_told() {
    for (failing, summaries) in [(1..=1, 0), (2..=2, 1)] {
        let bench = Bench::new();
        let model = one_turn([says("In short.")]);
        let mut agent = asked(&bench, Arc::clone(&model)).await;
        bench.disk.fail(failing.clone());
        let error = agent.compact(&Cancel::new()).await.unwrap_err();
        assert_eq!(error.code(), "persistence", "{failing:?}");
        bench.disk.fail(0..=0);
        agent.flush().unwrap();
        let log = bench.log(agent.session().id());
        assert_eq!(all(&log, &EventKind::CompactionSummary).len(), summaries);
        assert_eq!(all(&log, &EventKind::CompactionEnd).len(), 1);
        // No model is asked before what it sees is safe.
        assert_eq!(model.requests().len(), 1 + summaries);
    }
}

#[tokio::test]
async fn a_bracket_that_somebody_has_open_keeps_others_out_and_one_of_a_dead_lifecycle_does_not() {
    let mut bench = Bench::new();
    let model = one_turn([says("In short.")]);
    let mut agent = asked(&bench, model).await;
    let start = json!({"compactionId": "other", "turn": null});
    let draft = EventDraft::log_only(EventKind::CompactionStart, &start).unwrap();
    agent.session().append(draft, NOW).unwrap();
    let end = agent.session().log().end();
    let error = agent.compact(&Cancel::new()).await.unwrap_err();
    assert!(matches!(error, CompactionError::Busy(_)), "{error}");
    assert_eq!(agent.session().log().end(), end);

    // Whoever opens the session again does not go on with it.
    let id = agent.session().id().clone();
    agent.flush().unwrap();
    drop(agent);
    bench.restart();
    let model = script(vec![says("In short."), says("Two.")]);
    let mut agent = bench.agent(bench.open(&id), model);
    assert!(agent.compact(&Cancel::new()).await.unwrap().is_some());
    ask(&mut agent, "Second.").await;
    assert_eq!(endings(&bench.log(&id)), ["completed", "completed"]);
}

#[tokio::test]
async fn whoever_abandons_it_leaves_no_open_bracket() {
    let bench = Bench::new();
    let model = one_turn([hangs(), says("Two.")]);
    let agent = bench.running(Arc::clone(&model) as _);
    agent.followup(&long("question", 400)).unwrap();
    agent.when_idle().await;
    tokio::select! {
        done = agent.compact() => panic!("{done:?}"),
        () = waits_for(&model, 2) => {}
    }
    assert_eq!(
        last_error(&agent.session().log()),
        "the compaction was abandoned"
    );
    agent.followup("Second.").unwrap();
    agent.when_idle().await;
    assert_eq!(endings(&agent.session().log()), ["completed", "completed"]);
    agent.dispose().await.unwrap();
}

#[tokio::test]
async fn a_crash_in_the_middle_leaves_a_bracket_that_nobody_minds() {
    let mut bench = Bench::new();
    let model = one_turn([hangs()]);
    let mut agent = asked(&bench, Arc::clone(&model)).await;
    let id = agent.session().id().clone();
    let cancel = Cancel::new();
    tokio::select! {
        done = agent.compact(&cancel) => panic!("{done:?}"),
        () = waits_for(&model, 2) => {}
    }
    bench.crash(agent);
    let log = bench.log(&id);
    assert_eq!(*log.last().unwrap().kind(), EventKind::CompactionStart);
    let model = script(vec![says("Two."), says("In short."), says("Three.")]);
    let mut agent = bench.agent(bench.open(&id), model);
    ask(&mut agent, "Second.").await;
    assert!(agent.compact(&Cancel::new()).await.unwrap().is_some());
    ask(&mut agent, "Third.").await;
    let log = bench.log(&id);
    assert_eq!(endings(&log), ["completed"; 3]);
    assert_eq!(all(&log, &EventKind::CompactionStart).len(), 2);
    assert_eq!(all(&log, &EventKind::CompactionEnd).len(), 1);
}

#[tokio::test]
async fn recorded_sessions_with_compactions_are_compacted_again() {
    if corpus::corpus_dir().is_none() {
        return corpus::skip_notice("recorded_sessions_with_compactions_are_compacted_again");
    }
    let is_compaction = |event: &Arc<Event>| *event.kind() == EventKind::CompactionStart;
    let mut compacted = 0;
    let versions = (0..=4).map(|version| format!("v{version}-completed"));
    for file in versions.flat_map(corpus::files) {
        let bytes = std::fs::read(&file).unwrap();
        let Ok(stored) = offshoot_format::decode(&bytes) else {
            continue;
        };
        if !stored.log.events().any(is_compaction) {
            continue;
        }
        let bench = Bench::new();
        let id = bench.import(&bytes);
        let model = script(vec![
            says(&long("answer", 500)),
            says("In short."),
            says("Here."),
        ]);
        let mut setup = bench.setup(model);
        setup.config.compaction.retain_ratio = 0.0;
        let mut agent = Driver::new(bench.open(&id), setup);
        ask(&mut agent, "Go on.").await;
        let done = agent.compact(&Cancel::new()).await.unwrap();
        assert!(done.is_some(), "{}", file.display());
        let reports = ask(&mut agent, "And now?").await;
        assert_eq!(reports[0].text, "Here.", "{}", file.display());
        compacted += 1;
    }
    assert!(compacted >= 3, "{compacted}");
}
