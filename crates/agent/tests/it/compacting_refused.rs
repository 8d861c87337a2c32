//! A log that refuses an event in the middle of a compaction, and a disk that does not take one.

use std::sync::Arc;

use offshoot_agent::{Cancel, Driver};
use offshoot_session::EventKind;

use crate::append_failures::{Refusal, assert_closed};
use crate::bench::{Bench, ask, call_config, script};
use crate::crowd::{first_question, long, narrow, too_long, two_turns};
use crate::outline::outline;
use crate::support::{all, calls, says};

/// Two turns and a third one that compacts twice, whose appends are refused from one number to another.
async fn refused(from: usize, to: usize) -> usize {
    let bench = Bench::new();
    let mut attempts = two_turns();
    let third = [
        says("In short."),
        too_long(),
        says("In shorter."),
        calls([("a", "look", "{}")]),
        says("Three."),
    ];
    attempts.extend(third);
    let mut setup = bench.setup(narrow(attempts));
    setup.config.compaction.retain_ratio = 0.01;
    let mut agent = Driver::new(bench.create(), setup);
    ask(&mut agent, &first_question()).await;
    ask(&mut agent, "Short.").await;
    agent.submit(&long("third", 200)).unwrap();
    let refusal = Refusal::of(from, to);
    agent.session().lock().observe(Box::new(refusal.clone()));
    let run = agent.run(&Cancel::new()).await;
    refusal.end();
    let offered = refusal.offered();
    let log = agent.session().log();
    let at = format!("{:?} {run:?}\n{}", refusal.refused(), outline(&log));
    agent.set_model(script(vec![says("Here."); 4]), call_config("acme-small"));
    let reports = ask(&mut agent, "Go on.").await;
    let log = agent.session().log();
    let at = format!("{at}\n{}", outline(&log));
    assert_eq!(reports.last().unwrap().text, "Here.", "{at}");
    assert_closed(&log, &at);
    let starts = all(&log, &EventKind::CompactionStart).len();
    assert_eq!(all(&log, &EventKind::CompactionEnd).len(), starts, "{at}");
    // What its file has is read and validated, here and when the bench goes.
    assert_eq!(
        outline(&bench.log(agent.session().id())),
        outline(&log),
        "{at}"
    );
    offered
}

#[tokio::test]
async fn an_event_that_is_refused_leaves_a_log_that_everybody_reads() {
    let appends = refused(0, 0).await;
    assert!(appends > 15, "{appends}");
    for number in 1..=appends {
        refused(number, number).await;
        refused(number, number + 1).await;
        refused(number, usize::MAX).await;
    }
}

/// The same between turns.
async fn refused_between_turns(from: usize, to: usize) -> usize {
    let bench = Bench::new();
    let model = script(vec![says("One."), says("In short.")]);
    let mut agent = bench.agent(bench.create(), Arc::clone(&model) as _);
    ask(&mut agent, &long("question", 400)).await;
    let refusal = Refusal::of(from, to);
    agent.session().lock().observe(Box::new(refusal.clone()));
    let done = agent.compact(&Cancel::new()).await;
    refusal.end();
    let offered = refusal.offered();
    let at = format!("{:?} {done:?}", refusal.refused());
    if !refusal.refused().is_empty() {
        assert_eq!(done.unwrap_err().code(), "commit", "{at}");
    }
    agent.set_model(script(vec![says("Here."); 2]), call_config("acme-small"));
    let reports = ask(&mut agent, "Go on.").await;
    assert_eq!(reports[0].text, "Here.", "{at}");
    let log = bench.log(agent.session().id());
    assert_closed(&log, &at);
    offered
}

#[tokio::test]
async fn between_turns_as_well() {
    let appends = refused_between_turns(0, 0).await;
    assert_eq!(appends, 4);
    for number in 1..=appends {
        refused_between_turns(number, number).await;
        refused_between_turns(number, usize::MAX).await;
    }
}

#[tokio::test]
async fn a_batch_that_cannot_be_stored_before_the_summary_is_asked_for_is_a_failure_of_the_turn() {
    let bench = Bench::new();
    let mut attempts = two_turns();
    attempts.extend([says("Never."), says("Never.")]);
    let model = narrow(attempts);
    let mut agent = bench.agent(bench.create(), Arc::clone(&model) as _);
    ask(&mut agent, &first_question()).await;
    ask(&mut agent, "Short.").await;
    agent.submit("Third.").unwrap();
    agent.flush().unwrap();
    bench.disk.fail(1..=usize::MAX);
    let error = agent.run(&Cancel::new()).await.unwrap_err();
    assert_eq!(error.code(), "IO_ERROR");
    bench.disk.mend();
    // Nobody was called with work that is not durable.
    assert_eq!(model.remaining(), 2);
}
