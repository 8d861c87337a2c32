//! A log that refuses an event, and a disk that does not take one: at every append and every barrier of two turns.

use std::sync::{Arc, Mutex};

use offshoot_agent::{AgentError, AgentSetup, Cancel, Driver, Input};
use offshoot_model::{Attempt, Chunk, FinishReason, ScriptModel};
use offshoot_session::{Event, EventKind, EventLog, SessionObserver};

use crate::bench::{Bench, ask, call_config, config, script};
use crate::order::first_step;
use crate::outline::outline;
use crate::points::{Probe, ProbedHook};
use crate::support::{all, answers, call, calls, endings, says};

/// Refuses the events whose turn it is, counted from 1 over all that are offered.
#[derive(Clone, Default)]
pub(crate) struct Refusal(Arc<Mutex<Refusing>>);

#[derive(Default)]
struct Refusing {
    offered: usize,
    from: usize,
    to: usize,
    refused: Vec<EventKind>,
}

impl Refusal {
    pub(crate) fn of(from: usize, to: usize) -> Self {
        let refusing = Refusing {
            from,
            to,
            ..Refusing::default()
        };
        Self(Arc::new(Mutex::new(refusing)))
    }

    pub(crate) fn end(&self) {
        self.0.lock().unwrap().to = 0;
    }

    pub(crate) fn offered(&self) -> usize {
        self.0.lock().unwrap().offered
    }

    pub(crate) fn refused(&self) -> Vec<EventKind> {
        self.0.lock().unwrap().refused.clone()
    }
}

impl SessionObserver for Refusal {
    fn admit(&mut self, event: &Event) -> Result<(), String> {
        let mut state = self.0.lock().unwrap();
        state.offered += 1;
        if (state.from..=state.to).contains(&state.offered) {
            state.refused.push(event.kind().clone());
            return Err("not now".to_owned());
        }
        Ok(())
    }

    fn event(&mut self, _: &Arc<Event>) -> Result<(), String> {
        Ok(())
    }
}

fn model() -> Arc<ScriptModel> {
    let failed = Attempt::Throw {
        chunks: vec![Chunk::TextDelta {
            index: 0,
            text: "I".into(),
        }],
        message: "busy".into(),
        code: "SERVER".into(),
    };
    let blocks = vec![
        call("a", "look", "{}"),
        call("b", "look", "{}"),
        call("c", "change", "{}"),
    ];
    let attempts = vec![
        failed,
        answers(blocks, FinishReason::ToolCalls),
        says("Done."),
        says("And checked."),
        says("Second."),
    ];
    Arc::new(ScriptModel::new("acme", attempts))
}

fn agent(bench: &Bench, model: Arc<ScriptModel>) -> Driver {
    let probe = Probe::default();
    let mut setup = AgentSetup::new(model, probe.tools(), config(), bench.env.clone());
    setup.hooks.push(Arc::new(ProbedHook {
        probe,
        steers: Mutex::new(Some(Input::user("check", "Check it."))),
    }));
    Driver::new(bench.create(), setup)
}

pub(crate) fn assert_closed(log: &EventLog, at: &str) {
    assert_eq!(log.open_tail().turn(), None, "{at}");
    assert_eq!(log.findings().count(), 0, "{at}");
    log.continuable().unwrap();
}

/// Two turns whose appends are refused from one number to another. Returns how many there were.
async fn refused(from: usize, to: usize) -> usize {
    let bench = Bench::new();
    let mut agent = agent(&bench, model());
    agent.submit("Work.").unwrap();
    agent.submit("And then?").unwrap();
    let refusal = Refusal::of(from, to);
    agent.session().lock().observe(Box::new(refusal.clone()));
    let run = agent.run(&Cancel::new()).await;
    refusal.end();
    let offered = refusal.offered();

    let log = agent.session().log();
    let at = format!("{:?} {run:?}\n{}", refusal.refused(), outline(&log));
    if refusal.refused().is_empty() {
        assert_eq!(run.unwrap().last().unwrap().text, "Second.");
        return offered;
    }
    let error = run.unwrap_err();
    assert!(error.to_string().contains("was refused: not now"), "{at}");
    // Whatever could not be closed is closed before anything else happens.
    agent.set_model(script(vec![says("Here."); 6]), call_config("acme-small"));
    let reports = ask(&mut agent, "Go on.").await;
    let log = agent.session().log();
    let at = format!("{at}\n{}", outline(&log));
    assert_eq!(reports.last().unwrap().text, "Here.", "{at}");
    assert_closed(&log, &at);
    assert!(log.pending_input().is_empty(), "{at}");
    let stored = bench.log(agent.session().id());
    assert_eq!(outline(&stored), outline(&log));
    offered
}

#[tokio::test]
async fn an_event_that_is_refused_once_ends_its_turn_and_no_other() {
    let appends = refused(0, 0).await;
    assert!(appends > 30, "{appends}");
    for number in 1..=appends {
        refused(number, number).await;
    }
}

#[tokio::test]
async fn a_log_that_takes_nothing_any_more_goes_on_when_it_does_again() {
    let appends = refused(0, 0).await;
    for number in 1..=appends {
        refused(number, usize::MAX).await;
    }
}

#[tokio::test]
async fn two_refusals_in_a_row_are_survived_as_well() {
    let appends = refused(0, 0).await;
    for number in 1..=appends {
        refused(number, number + 1).await;
    }
}

/// Two turns with batches that fail. Returns how many there were.
async fn unstored(batches: std::ops::RangeInclusive<usize>) -> usize {
    let bench = Bench::new();
    let model = model();
    let mut agent = agent(&bench, Arc::clone(&model));
    agent.submit("Work.").unwrap();
    agent.submit("And then?").unwrap();
    agent.flush().unwrap();
    bench.disk.fail(batches);
    let run = agent.run(&Cancel::new()).await;
    let made = bench.disk.batches();
    bench.disk.mend();

    let log = agent.session().log();
    let at = format!("{run:?}\n{}", outline(&log));
    assert_closed(&log, &at);
    match run {
        Ok(reports) => assert_eq!(reports.last().unwrap().text, "Second.", "{at}"),
        Err(error) => assert_eq!(error.code(), "IO_ERROR", "{at}"),
    }
    agent.set_model(script(vec![says("Here."); 6]), call_config("acme-small"));
    let reports = ask(&mut agent, "Go on.").await;
    assert_eq!(reports.last().unwrap().text, "Here.", "{at}");
    let log = agent.session().log();
    assert_closed(&log, &at);
    assert_eq!(outline(&bench.log(agent.session().id())), outline(&log));
    made
}

#[tokio::test]
async fn a_batch_that_cannot_be_stored_ends_its_turn_and_no_other() {
    let batches = unstored(0..=0).await;
    assert!(batches > 5, "{batches}");
    for number in 1..=batches {
        unstored(number..=number).await;
        unstored(number..=usize::MAX).await;
    }
}

/// Nothing is asked for and nothing is changed behind a batch that is not stored.
#[tokio::test]
async fn behind_a_batch_that_cannot_be_stored_no_model_is_called_and_nothing_is_changed() {
    for failing in 1..=3 {
        let bench = Bench::new();
        let model = script(vec![
            calls([("a", "change", "{}")]),
            calls([("b", "change", "{}")]),
            says("Done."),
        ]);
        let mut agent = bench.agent(bench.create(), Arc::clone(&model) as _);
        agent.submit("Work.").unwrap();
        agent.flush().unwrap();
        bench.disk.fail(failing..=usize::MAX);
        let error = agent.run(&Cancel::new()).await.unwrap_err();
        assert!(matches!(error, AgentError::Store(_)), "{error}");
        // The barriers: a request, a call, a request.
        let (requests, changes) = [(0, 0), (1, 0), (1, 1)][failing - 1];
        assert_eq!(model.requests().len(), requests);
        assert_eq!(bench.work.runs().len(), changes);
        bench.disk.mend();
        agent.flush().unwrap();
    }
}

#[tokio::test]
async fn both_are_told_when_the_model_fails_and_that_cannot_be_settled() {
    let bench = Bench::new();
    let failed = Attempt::Throw {
        chunks: Vec::new(),
        message: "busy".into(),
        code: "SERVER".into(),
    };
    let mut agent = bench.scripted(vec![failed]);
    agent.submit("Work.").unwrap();
    let refusal = RefuseKind(EventKind::AssistantAttempt);
    agent.session().lock().observe(Box::new(refusal));
    let error = agent.run(&Cancel::new()).await.unwrap_err();
    assert!(matches!(error, AgentError::Unsettled { .. }));
    assert_eq!(error.code(), "EVENT_REFUSED");
    let text = error.to_string();
    assert!(text.contains("busy") && text.contains("not this"), "{text}");
    let end = &all(&agent.session().log(), &EventKind::TurnEnd)[0];
    assert_eq!(end["reason"]["error"]["code"], "SERVER");
}

/// An answer that the log does not take although nothing is wrong with it is not the model's fault.
#[tokio::test]
async fn an_answer_that_is_refused_is_kept_as_an_attempt() {
    let bench = Bench::new();
    let mut agent = bench.scripted(vec![says("Hello.")]);
    agent.submit("Greet me.").unwrap();
    let refusal = RefuseKind(EventKind::AssistantMessage);
    agent.session().lock().observe(Box::new(refusal));
    let error = agent.run(&Cancel::new()).await.unwrap_err();
    assert_eq!(error.code(), "EVENT_REFUSED");
    let log = agent.session().log();
    assert_eq!(all(&log, &EventKind::AssistantAttempt).len(), 1);
    assert_eq!(endings(&log), ["error"]);
    let end = &all(&log, &EventKind::TurnEnd)[0];
    assert_eq!(end["reason"]["error"]["code"], "UNKNOWN");
}

/// A turn whose end could not be logged is closed later, for the reason for which it ended.
#[tokio::test]
async fn the_end_of_a_turn_that_is_refused_is_made_up_for_with_its_own_reason() {
    let bench = Bench::new();
    let failed = Attempt::Throw {
        chunks: Vec::new(),
        message: "busy".into(),
        code: "SERVER".into(),
    };
    let mut agent = bench.scripted(vec![failed, says("Here.")]);
    agent.submit("Work.").unwrap();
    let refusal = Refusal::default();
    agent.session().lock().observe(Box::new(refusal.clone()));
    // The claim and everything behind it up to the end, which comes last.
    let ends = first_step(&["assistant/attempt", "step/end", "turn/end"]).len() - 1;
    *refusal.0.lock().unwrap() = Refusing {
        from: ends,
        to: ends,
        ..Refusing::default()
    };
    let error = agent.run(&Cancel::new()).await.unwrap_err();
    assert_eq!(refusal.refused(), [EventKind::TurnEnd]);
    assert_eq!(error.code(), "EVENT_REFUSED");
    assert!(agent.session().log().open_tail().turn().is_some());
    ask(&mut agent, "Again.").await;
    let ends = all(&agent.session().log(), &EventKind::TurnEnd);
    assert_eq!(ends[0]["reason"]["error"]["code"], "SERVER");
    assert_eq!(ends[1]["reason"]["kind"], "completed");
}

struct RefuseKind(EventKind);

impl SessionObserver for RefuseKind {
    fn admit(&mut self, event: &Event) -> Result<(), String> {
        if *event.kind() == self.0 {
            return Err("not this".to_owned());
        }
        Ok(())
    }

    fn event(&mut self, _: &Arc<Event>) -> Result<(), String> {
        Ok(())
    }
}
