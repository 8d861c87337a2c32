//! A note that comes at every point of a parent's turns: behind every event, at every barrier, before every chunk, in every
//! tool, and in every question to a hook or a person.

use offshoot_agent::{Agent, CancelCause, Merged, Queue};
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, call_config};
use crate::beside::{note, said_once, side_of};
use crate::cancel_points::{here, setup};
use crate::outline::outline;
use crate::points::Probe;

const TEXT: &str = "It is the cache.";

/// What happens right behind the merge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    Cancel,
}

/// Runs two turns, and merges at a point. Returns how many points there were.
async fn merged_at(at: usize, then: Then) -> usize {
    let bench = Bench::new();
    let probe = Probe::default();
    let agent = Agent::new(bench.create(), setup(&bench, &probe));
    let handback = note(&side_of(&bench, &agent).await, TEXT);
    agent.session().lock().observe(probe.events());
    // At many a point the session is held, so that somebody else has to do it.
    let now = CancellationToken::new();
    let reached = now.clone();
    probe.arm(at, move || reached.cancel());
    let (service, parent, its) = (bench.service.clone(), agent.clone(), handback.clone());
    let merging = tokio::spawn(async move {
        now.cancelled().await;
        let merged = service.merge(&its).await.unwrap();
        if then == Then::Cancel {
            parent.cancel(CancelCause::User, Queue::Clear).unwrap();
        }
        merged
    });
    agent.followup("Work.").unwrap();
    agent.followup("And then?").unwrap();
    agent.when_idle().await;
    let passed = probe.passed();
    let Some(fired) = probe.fired() else {
        // Batches are points as well, and how many there are is a matter of time.
        assert!(at > passed, "{at} of {passed}");
        merging.abort();
        return passed;
    };
    assert_eq!(merging.await.unwrap(), Merged::Queued);
    agent.when_idle().await;
    agent.set_model(here(), call_config("acme-small"));
    agent.followup("Go on.").unwrap();
    agent.when_idle().await;
    let log = agent.session().log();
    let point = format!("{fired:?}\n{}", outline(&log));
    assert!(log.pending_input().is_empty(), "{point}");
    let seq = said_once(agent.session(), TEXT);
    let between = log.prefix(seq.before());
    assert_eq!(between.open_tail().pending(), [], "{point}");
    let merged = bench.service.merge(&handback).await.unwrap();
    assert_eq!(merged, Merged::Logged { seq }, "{point}");
    agent.dispose().await.unwrap();
    assert_eq!(outline(&bench.log(agent.session().id())), outline(&log));
    passed
}

#[tokio::test]
async fn it_is_said_once_at_whatever_point_of_a_turn_it_comes() {
    let points = merged_at(usize::MAX, Then::Nothing).await;
    assert!(points > 80, "{points}");
    for at in 1..=points {
        merged_at(at, Then::Nothing).await;
    }
}

#[tokio::test]
async fn and_also_if_the_turn_is_cancelled_right_behind_it() {
    let points = merged_at(usize::MAX, Then::Cancel).await;
    for at in 1..=points {
        merged_at(at, Then::Cancel).await;
    }
}
