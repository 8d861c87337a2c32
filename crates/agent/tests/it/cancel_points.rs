//! Cancelling at every point of a turn: behind every event, at every barrier, before every chunk, in every tool, and in
//! every question to a hook or a person.

use std::sync::{Arc, Mutex};

use offshoot_agent::{Agent, AgentSetup, Cancel, CancelCause, Driver, Input, Queue, TurnEndReason};
use offshoot_model::{Attempt, Chunk, FinishReason, ScriptModel};
use offshoot_session::EventLog;

use crate::bench::{Bench, ask, call_config, config, script};
use crate::outline::outline;
use crate::points::{Fired, Probe, ProbedHook, ProbedModel};
use crate::support::{answers, call, says};

/// A turn with everything in it: an attempt that fails and is made again, calls that run beside each other and one that
/// changes something, and a hook that has more to say. Then another turn.
fn model(probe: &Probe) -> Arc<ProbedModel> {
    let text = |index, text: &str| Chunk::TextDelta {
        index,
        text: text.into(),
    };
    let failed = Attempt::Throw {
        chunks: vec![text(0, "I "), text(0, "am")],
        message: "busy".into(),
        code: "SERVER".into(),
    };
    let blocks = vec![
        offshoot_model::ContentBlock::text("I look."),
        call("a", "look", "{}"),
        call("b", "look", "{}"),
        call("c", "change", "{}"),
        call("d", "look", "{}"),
    ];
    let attempts = vec![
        failed,
        answers(blocks, FinishReason::ToolCalls),
        says("Done."),
        says("And checked."),
        says("Second."),
    ];
    Arc::new(ProbedModel(
        ScriptModel::new("acme", attempts),
        probe.clone(),
    ))
}

pub(crate) fn setup(bench: &Bench, probe: &Probe) -> AgentSetup {
    let mut setup = AgentSetup::new(model(probe), probe.tools(), config(), bench.env.clone());
    setup.hooks.push(Arc::new(ProbedHook {
        probe: probe.clone(),
        steers: Mutex::new(Some(Input::user("check", "Check it."))),
    }));
    setup.approver = Arc::new(probe.clone());
    bench.disk.probe(probe);
    setup
}

/// For whatever is still to be answered.
pub(crate) fn here() -> Arc<ScriptModel> {
    script(vec![says("Here."); 4])
}

/// What holds of every log: whatever was opened is closed, and every call is answered.
fn assert_closed(log: &EventLog, at: &str) {
    assert_eq!(log.open_tail().turn(), None, "{at}");
    assert_eq!(log.findings().count(), 0, "{at}");
    log.continuable().unwrap();
}

/// Runs the turns on a driver, and cancels at a point. Returns how many points there were.
async fn run_a_driver(at: usize) -> usize {
    let bench = Bench::new();
    let probe = Probe::default();
    let mut agent = Driver::new(bench.create(), setup(&bench, &probe));
    agent.submit("Work.").unwrap();
    agent.submit("And then?").unwrap();
    agent.flush().unwrap();
    let cancel = Cancel::new();
    let switch = cancel.clone();
    probe.arm(at, move || switch.cancel(CancelCause::User));
    agent.session().lock().observe(probe.events());
    let reports = agent.run(&cancel).await.unwrap();
    let passed = probe.passed();

    let log = agent.session().log();
    let last = reports.last().unwrap();
    let Some(fired) = probe.fired() else {
        assert_eq!(last.text, "Second.");
        assert_eq!(at, usize::MAX);
        return passed;
    };
    let point = format!("{fired:?}\n{}", outline(&log));
    assert_closed(&log, &point);
    assert_cancelled(&fired, &last.reason, &point);
    assert!(log.pending_input().is_empty(), "{point}");

    agent.set_model(here(), call_config("acme-small"));
    let reports = ask(&mut agent, "Go on.").await;
    assert_eq!(&*reports.last().unwrap().text, "Here.", "{point}");
    let stored = bench.log(agent.session().id());
    assert_eq!(outline(&stored), outline(&agent.session().log()), "{point}");
    passed
}

/// A turn that was open when it was cancelled ends so; one that had its end already does not.
fn assert_cancelled(fired: &Fired, reason: &TurnEndReason, point: &str) {
    let aborted = TurnEndReason::Aborted {
        reason: CancelCause::User,
    };
    if fired.in_turn {
        assert_eq!(*reason, aborted, "{point}");
    }
}

#[tokio::test]
async fn a_driver_is_cancelled_at_every_point() {
    let points = run_a_driver(usize::MAX).await;
    assert!(points > 80, "{points}");
    for at in 1..=points {
        run_a_driver(at).await;
    }
}

/// Runs the turns on an agent, and cancels at a point.
async fn run_an_agent(at: usize, queue: Queue) -> usize {
    let bench = Bench::new();
    let probe = Probe::default();
    let mut setup = setup(&bench, &probe);
    setup.observer = Some(Arc::new(probe.clone()));
    let agent = Agent::new(bench.create(), setup);
    agent.session().lock().observe(probe.turns());
    let switch = agent.clone();
    probe.arm(at, move || switch.cancel(CancelCause::User, queue).unwrap());
    agent.followup("Work.").unwrap();
    agent.followup("And then?").unwrap();
    agent.when_idle().await;
    let passed = probe.passed();

    let log = agent.session().log();
    let Some(fired) = probe.fired() else {
        assert_eq!(at, usize::MAX);
        return passed;
    };
    let point = format!("{fired:?}\n{}", outline(&log));
    assert_closed(&log, &point);
    if queue == Queue::Clear {
        assert!(log.pending_input().is_empty(), "{point}");
    }
    agent.set_model(here(), call_config("acme-small"));
    agent.followup("Go on.").unwrap();
    agent.when_idle().await;
    let log = agent.session().log();
    assert_closed(&log, &point);
    assert!(log.pending_input().is_empty(), "{point}\n{}", outline(&log));
    agent.dispose().await.unwrap();
    assert_eq!(outline(&bench.log(agent.session().id())), outline(&log));
    passed
}

#[tokio::test]
async fn an_agent_is_cancelled_at_every_point_with_and_without_what_waits() {
    for queue in [Queue::Clear, Queue::Keep] {
        let points = run_an_agent(usize::MAX, queue).await;
        assert!(points > 80, "{points}");
        for at in 1..=points {
            run_an_agent(at, queue).await;
        }
    }
}
