//! A merge whose storage fails, whose log refuses, or whose process dies: what is left is valid, and the merge can be made
//! again.

use std::sync::Arc;

use offshoot_agent::{Agent, Handback, Merged};
use offshoot_session::{EventKind, SessionId};

use crate::append_failures::Refusal;
use crate::bench::{Bench, ask, script};
use crate::beside::{after_a_turn, note, notes, one_and, said_once, side_of};
use crate::outline::outline;
use crate::support::{calls, says};

pub(crate) const TEXT: &str = "It is the cache.";

/// A parent that has had a turn, with an agent on it, and a note of a side session of it.
async fn live(bench: &Bench) -> (Agent, Handback) {
    let looks = calls([("a", "change", "{}")]);
    let setup = bench.setup(one_and(vec![looks, says("I see."), says("Yes.")]));
    let parent = after_a_turn(bench, setup).await;
    let handback = note(&side_of(bench, &parent).await, TEXT);
    (parent, handback)
}

/// Whatever has happened, another process makes the merge again and goes on: the note is said once.
pub(crate) async fn made_again(bench: &Bench, id: &SessionId, handback: &Handback, at: &str) {
    let merged = bench.service.merge(handback).await.unwrap();
    let mut agent = bench.agent(bench.open(id), script(vec![says("I see."), says("I see.")]));
    ask(&mut agent, "Go on.").await;
    let log = agent.session().log();
    let seq = said_once(agent.session(), TEXT);
    match merged {
        Merged::Queued => {}
        Merged::Logged { seq: said } => assert_eq!(said, seq, "{at}"),
    }
    drop(agent);
    let merged = bench.service.merge(handback).await.unwrap();
    assert_eq!(merged, Merged::Logged { seq }, "{at}\n{}", outline(&log));
}

/// The process dies at a batch of a merge and of the turn behind it. Returns whether it came so far.
async fn dies_at(batch: usize) -> bool {
    let mut bench = Bench::new();
    let (parent, handback) = live(&bench).await;
    let id = parent.session().id().clone();
    bench.disk.fail(batch..=usize::MAX);
    let merged = bench.service.merge(&handback).await;
    assert_eq!(merged.is_ok(), batch > 1, "{merged:?}");
    parent.followup("Work.").unwrap();
    parent.when_idle().await;
    let died = bench.disk.batches() >= batch;
    bench.crash(parent);
    bench.disk.mend();
    let at = format!("batch {batch}\n{}", outline(&bench.log(&id)));
    made_again(&bench, &id, &handback, &at).await;
    died
}

#[tokio::test]
async fn a_process_that_dies_at_any_append_of_a_merge_and_the_turn_behind_it() {
    let mut batch = 1;
    while dies_at(batch).await {
        batch += 1;
    }
    assert!(batch > 4, "{batch}");
}

#[tokio::test]
async fn a_merge_into_an_agent_whose_storage_fails_is_told_and_made_again_by_a_flush() {
    let bench = Bench::new();
    let (parent, handback) = live(&bench).await;
    let id = parent.session().id().clone();
    bench.disk.fail(1..=1);
    let error = bench.service.merge(&handback).await.unwrap_err();
    assert_eq!(error.code(), "IO_ERROR");
    assert!(bench.log(&id).pending_input().is_empty());
    assert_eq!(
        bench.service.merge(&handback).await.unwrap(),
        Merged::Queued
    );
    // Durable now, and there once.
    assert_eq!(bench.log(&id).pending_input().next_step().len(), 1);
    parent.dispose().await.unwrap();
    made_again(&bench, &id, &handback, "").await;
}

#[tokio::test]
async fn a_merge_into_a_stored_parent_whose_storage_fails_leaves_nothing_and_can_be_made_again() {
    let mut bench = Bench::new();
    let (parent, handback) = live(&bench).await;
    let id = parent.session().id().clone();
    parent.dispose().await.unwrap();
    drop(parent);
    let mut failed = 0;
    for batch in 1.. {
        bench.disk.fail(batch..=usize::MAX);
        let Err(error) = bench.service.merge(&handback).await else {
            break;
        };
        failed += 1;
        assert_eq!(error.code(), "IO_ERROR");
        bench.restart();
        assert!(bench.log(&id).pending_input().is_empty());
    }
    assert!(failed > 0);
    bench.disk.mend();
    assert_eq!(bench.log(&id).pending_input().next_step().len(), 1);
    made_again(&bench, &id, &handback, "").await;
}

#[tokio::test]
async fn a_log_that_refuses_the_note_is_as_it_was() {
    let bench = Bench::new();
    let (parent, handback) = live(&bench).await;
    let refusal = Refusal::of(1, 1);
    parent.session().lock().observe(Box::new(refusal.clone()));
    let end = parent.session().log().end();
    let error = bench.service.merge(&handback).await.unwrap_err();
    assert_eq!(error.code(), "EVENT_REFUSED");
    assert_eq!(refusal.refused(), [EventKind::InboxSpliced]);
    assert_eq!(parent.session().log().end(), end);
    assert_eq!(
        bench.service.merge(&handback).await.unwrap(),
        Merged::Queued
    );
    parent.followup("Go on.").unwrap();
    parent.when_idle().await;
    said_once(parent.session(), TEXT);
}

/// Two programs that merge the same at once, and two that merge different notes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn merges_that_are_made_at_once_come_once_each() {
    let bench = Bench::new();
    let (parent, handback) = live(&bench).await;
    let other = handback.clone().with_id("other");
    let service = Arc::new(bench.service.clone());
    let merges: Vec<_> = (0..8)
        .map(|number| {
            let (service, handback, other) =
                (Arc::clone(&service), handback.clone(), other.clone());
            tokio::spawn(async move {
                let one = if number % 2 == 0 { handback } else { other };
                service.merge(&one).await.unwrap()
            })
        })
        .collect();
    for merged in merges {
        assert_eq!(merged.await.unwrap(), Merged::Queued);
    }
    assert_eq!(parent.pending().unwrap().next_step.len(), 2);
    parent.followup("Go on.").unwrap();
    parent.when_idle().await;
    assert_eq!(notes(&parent.session().log()).len(), 2);
}
