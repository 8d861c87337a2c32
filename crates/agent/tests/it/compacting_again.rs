//! Compacted conversations in other lives: forked, resumed, replayed, and interrupted wherever that is possible.

use std::sync::Arc;
use std::task::Poll;

use offshoot_agent::{
    Agent, AgentSetup, Cancel, CancelCause, Driver, Queue, ReplayError, derive_script, script_from,
};
use offshoot_model::{Attempt, ScriptModel};
use offshoot_session::{EventDraft, EventKind, EventLog, LogOffset, SessionId};
use serde_json::json;

use crate::append_failures::assert_closed;
use crate::bench::{Bench, NOW, ask, call_config, script};
use crate::crowd::{WINDOW, counted, first_question, narrow, too_long, two_turns};
use crate::outline::outline;
use crate::points::{Probe, ProbedModel};
use crate::support::{all, endings, says};

/// Compactions of each kind: under pressure, after an overflow, and asked for.
fn script_of_all() -> Vec<Attempt> {
    let mut attempts = two_turns();
    attempts.extend([
        counted(says("In short."), 30, 3),
        says("Three."),
        too_long(),
        says("In shorter."),
        says("Four."),
        says(&crate::crowd::long("answer", 300)),
        says("In the end."),
        says("Six."),
    ]);
    attempts
}

fn setup(bench: &Bench, model: Arc<dyn offshoot_model::Model>) -> AgentSetup {
    let mut setup = bench.setup(model);
    // Nearly nothing is kept, so that there is always something to compact.
    setup.config.compaction.retain_ratio = 0.01;
    setup
}

async fn run_all(agent: &mut Driver) {
    ask(agent, &first_question()).await;
    for question in [
        "Short.",
        "Third.",
        &crate::crowd::long("fourth", 300),
        "Fifth.",
    ] {
        ask(agent, question).await;
    }
    assert!(agent.compact(&Cancel::new()).await.unwrap().is_some());
    let reports = ask(agent, "Sixth.").await;
    assert_eq!(reports[0].text, "Six.");
}

fn rows(log: &EventLog) -> Vec<String> {
    log.events().map(|event| event.text().to_owned()).collect()
}

#[tokio::test]
async fn a_compacted_session_replays_without_a_key() {
    let recorded = Bench::new();
    let model = narrow(script_of_all());
    let mut agent = Driver::new(recorded.create(), setup(&recorded, model));
    run_all(&mut agent).await;
    let id = agent.session().id().clone();
    let session = recorded.read(&id).stored.balanced(NOW).unwrap();
    let calls = derive_script(&session).unwrap();
    assert_eq!(calls.len(), script_of_all().len());
    let script = calls.into_iter().map(|call| call.attempt).collect();

    let again = Bench::new();
    let model = Arc::new(ScriptModel::new("acme", script).with_context_window(WINDOW));
    let mut agent = Driver::new(again.create(), setup(&again, Arc::clone(&model) as _));
    run_all(&mut agent).await;
    assert_eq!(rows(&again.log(&id)), rows(&recorded.log(&id)));
    assert_eq!(model.remaining(), 0);
}

#[tokio::test]
async fn a_summary_of_which_the_output_is_missing_cannot_be_replayed() {
    let summary = |with: serde_json::Value| {
        let mut data = json!({
            "compactionId": "c", "summary": [], "shadowedRange": {"start": 0, "end": 0},
            "shadowedSeqs": [0], "shadowedTokenCount": 1, "provider": "p", "model": "m",
        });
        data.as_object_mut()
            .unwrap()
            .extend(with.as_object().unwrap().clone());
        let draft = EventDraft::log_only(EventKind::CompactionSummary, &data).unwrap();
        let mut log = EventLog::new();
        log.push(draft.dated(LogOffset::START.seq(), NOW).unwrap())
            .unwrap();
        log
    };
    let nobodys = summary(json!({}));
    assert_eq!(script_from(&nobodys, LogOffset::START).unwrap(), []);
    let missing = summary(json!({"llmStreamCall": true}));
    let error = script_from(&missing, LogOffset::START).unwrap_err();
    assert!(matches!(error, ReplayError::NoOutput { .. }), "{error}");
}

#[tokio::test]
async fn it_can_be_forked_at_every_event_and_goes_on() {
    let bench = Bench::new();
    let model = narrow(script_of_all());
    let mut agent = Driver::new(bench.create(), setup(&bench, model));
    run_all(&mut agent).await;
    agent.flush().unwrap();
    let source = bench.read(agent.session().id());
    let mut cuts = 0;
    for event in source.stored.log.events() {
        let child = SessionId::new(format!("child-{}", event.seq()));
        let fork = bench
            .service
            .prepare_fork(&source, Some(event.seq()), Some(child.clone()))
            .unwrap();
        let attached = bench.service.store_fork(&fork).unwrap();
        // Large enough to hold whatever was inherited.
        let model = script(vec![says("Here."); 4]);
        let mut agent = Driver::new(attached, setup(&bench, model));
        let reports = ask(&mut agent, "And now?").await;
        assert_eq!(reports[0].text, "Here.", "{}", event.seq());
        if let Err(error) = agent.compact(&Cancel::new()).await {
            // Some are too short to be summarised.
            assert_eq!(error.code(), "summary", "{}", event.seq());
        }
        assert_closed(&bench.log(&child), &child.to_string());
        cuts += 1;
    }
    assert!(cuts > 60, "{cuts}");
}

#[tokio::test]
async fn the_end_of_a_compaction_between_turns_is_where_a_fork_is_cut() {
    let bench = Bench::new();
    let model = script(vec![says("One."), says("In short.")]);
    let mut agent = bench.agent(bench.create(), model);
    ask(&mut agent, &crate::crowd::long("question", 400)).await;
    agent.compact(&Cancel::new()).await.unwrap().unwrap();
    let end = agent.session().log().end();
    agent.submit("Queued.").unwrap();
    agent.flush().unwrap();
    let source = bench.read(agent.session().id());
    let fork = bench.service.prepare_fork(&source, None, None).unwrap();
    assert_eq!(Some(fork.cut), end.last());
}

#[tokio::test]
async fn a_crash_in_the_middle_of_one_interrupts_its_turn_and_nothing_else() {
    let mut bench = Bench::new();
    let mut attempts = two_turns();
    attempts.push(Attempt::Hang { chunks: Vec::new() });
    let model = narrow(attempts);
    let mut agent = bench.agent(bench.create(), Arc::clone(&model) as _);
    let id = agent.session().id().clone();
    ask(&mut agent, &first_question()).await;
    ask(&mut agent, "Short.").await;
    agent.submit("Third.").unwrap();
    let cancel = Cancel::new();
    tokio::select! {
        done = agent.run(&cancel) => panic!("{done:?}"),
        () = async {
            while model.requests().len() < 3 {
                tokio::task::yield_now().await;
            }
        } => {}
    }
    bench.crash(agent);
    let log = bench.log(&id);
    assert_eq!(*log.last().unwrap().kind(), EventKind::CompactionStart);
    let model = narrow(vec![says("In short."), says("Three."), says("Here.")]);
    let mut agent = bench.agent(bench.open(&id), model);
    let reports = ask(&mut agent, "Go on.").await;
    // What was said before the crash is answered first.
    let texts: Vec<_> = reports.iter().map(|report| &*report.text).collect();
    assert_eq!(texts, ["Three.", "Here."]);
    let log = bench.log(&id);
    assert_eq!(
        endings(&log),
        [
            "completed",
            "completed",
            "interrupted",
            "completed",
            "completed"
        ]
    );
    assert_eq!(all(&log, &EventKind::CompactionEnd).len(), 1);
}

/// Two turns and a third that compacts, which is left to itself at a point.
fn probed(bench: &Bench, probe: &Probe) -> AgentSetup {
    let mut attempts = two_turns();
    attempts.extend([
        says("In short."),
        too_long(),
        says("In shorter."),
        says("Three."),
    ]);
    let model = ScriptModel::new("acme", attempts).with_context_window(WINDOW);
    let model = ProbedModel(model, probe.clone());
    let mut setup = setup(bench, Arc::new(model));
    bench.disk.probe(probe);
    setup.observer = Some(Arc::new(probe.clone()));
    setup
}

async fn cancelled(at: usize) -> usize {
    let bench = Bench::new();
    let probe = Probe::default();
    let mut agent = Driver::new(bench.create(), probed(&bench, &probe));
    ask(&mut agent, &first_question()).await;
    ask(&mut agent, "Short.").await;
    agent.submit("Third.").unwrap();
    agent.flush().unwrap();
    let cancel = Cancel::new();
    let switch = cancel.clone();
    probe.arm(at, move || switch.cancel(CancelCause::User));
    agent.session().lock().observe(probe.events());
    let reports = agent.run(&cancel).await.unwrap();
    let passed = probe.passed();
    let log = agent.session().log();
    let Some(fired) = probe.fired() else {
        assert_eq!(reports[0].text, "Three.");
        return passed;
    };
    let point = format!("{fired:?}\n{}", outline(&log));
    assert_closed(&log, &point);
    // Cancelled while its history was summarised, what a person has said is not lost.
    if fired.in_turn && !all(&log, &EventKind::CompactionStart).is_empty() {
        assert!(outline(&log).contains("user/message \"Third.\""), "{point}");
    }
    agent.set_model(script(vec![says("Here."); 4]), call_config("acme-small"));
    let reports = ask(&mut agent, "Go on.").await;
    assert_eq!(reports.last().unwrap().text, "Here.", "{point}");
    let log = agent.session().log();
    let starts = all(&log, &EventKind::CompactionStart).len();
    assert_eq!(
        all(&log, &EventKind::CompactionEnd).len(),
        starts,
        "{point}"
    );
    passed
}

#[tokio::test]
async fn a_turn_that_compacts_is_cancelled_at_every_point() {
    let points = cancelled(usize::MAX).await;
    assert!(points > 40, "{points}");
    for at in 1..=points {
        cancelled(at).await;
    }
}

/// Drops the future of the turn after it has been polled so often. Whether it was over then.
async fn abandoned(after: usize) -> bool {
    let bench = Bench::new();
    let probe = Probe::default();
    let mut agent = Driver::new(bench.create(), probed(&bench, &probe));
    ask(&mut agent, &first_question()).await;
    ask(&mut agent, "Short.").await;
    agent.submit("Third.").unwrap();
    let cancel = Cancel::new();
    let is_done = {
        let mut run = std::pin::pin!(agent.run(&cancel));
        let mut polls = 0;
        // Polled again only when something has happened.
        std::future::poll_fn(|cx| {
            polls += 1;
            if polls > after {
                return Poll::Ready(false);
            }
            run.as_mut().poll(cx).map(|_| true)
        })
        .await
    };
    agent.set_model(script(vec![says("Here."); 4]), call_config("acme-small"));
    let reports = ask(&mut agent, "Go on.").await;
    assert_eq!(reports.last().unwrap().text, "Here.");
    assert_closed(&bench.log(agent.session().id()), &format!("{after} polls"));
    is_done
}

#[tokio::test]
async fn a_turn_that_compacts_is_abandoned_at_every_await() {
    let mut after = 1;
    while !abandoned(after).await {
        after += 1;
    }
    assert!(after > 10, "{after}");
}

#[tokio::test]
async fn one_that_was_asked_for_is_cancelled_at_every_point() {
    async fn run(at: usize) -> usize {
        let bench = Bench::new();
        let probe = Probe::default();
        let attempts = vec![says("One."), says("In short.")];
        let model = ProbedModel(ScriptModel::new("acme", attempts), probe.clone());
        let mut setup = setup(&bench, Arc::new(model));
        setup.observer = Some(Arc::new(probe.clone()));
        bench.disk.probe(&probe);
        let agent = Agent::new(bench.create(), setup);
        agent
            .followup(&crate::crowd::long("question", 400))
            .unwrap();
        agent.when_idle().await;
        let switch = agent.clone();
        probe.arm(at, move || {
            switch.cancel(CancelCause::User, Queue::Keep).unwrap();
        });
        let outcome = agent.compact().await;
        let passed = probe.passed();
        let log = agent.session().log();
        let point = format!("{:?} {outcome:?}\n{}", probe.fired(), outline(&log));
        match outcome {
            Ok(compacted) => assert!(compacted.is_some(), "{point}"),
            Err(error) => assert_eq!(error.code(), "cancelled", "{point}"),
        }
        agent.set_model(script(vec![says("Here."); 4]), call_config("acme-small"));
        agent.followup("Go on.").unwrap();
        agent.when_idle().await;
        let log = agent.session().log();
        assert_eq!(endings(&log), ["completed", "completed"], "{point}");
        assert_closed(&log, &point);
        agent.dispose().await.unwrap();
        passed
    }
    let points = run(usize::MAX).await;
    assert!(points > 5, "{points}");
    for at in 1..=points {
        run(at).await;
    }
}
