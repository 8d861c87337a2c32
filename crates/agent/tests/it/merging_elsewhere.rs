//! A parent that no agent of this process is on: stored, open elsewhere, or gone.

use std::fs;
use std::sync::Arc;

use crate::bench::{Bench, ask, script};
use crate::beside::{after_a_turn, note, notes, one_and, said_once, side_of};
use crate::outline::outline_from;
use crate::sessions::unanswered;
use crate::support::{calls, endings, kinds, says};
use offshoot_agent::{
    Agent, Cancel, HANDBACK_MAX_CHARS, Handback, Merged, SessionService, SideRequest,
};
use offshoot_session::{EventKind, SessionHeader, SessionId};

const TEXT: &str = "It is the cache.";

/// A stored session that has had a turn, and a note of a side session of it.
async fn stored(bench: &Bench) -> (SessionId, offshoot_agent::Handback) {
    let parent = after_a_turn(bench, bench.setup(one_and(Vec::new()))).await;
    let handback = note(&side_of(bench, &parent).await, TEXT);
    parent.dispose().await.unwrap();
    (parent.session().id().clone(), handback)
}

#[tokio::test]
async fn a_stored_parent_is_opened_for_the_note_and_closed() {
    let bench = Bench::new();
    let (id, handback) = stored(&bench).await;
    let begin = bench.log(&id).end();
    assert_eq!(
        bench.service.merge(&handback).await.unwrap(),
        Merged::Queued
    );
    let log = bench.log(&id);
    insta::assert_snapshot!(outline_from(&log, begin), @r#"
    session/end-seed
    agent/inbox/spliced next-step at 0 +"A note from the side session `session-id-5` of this conversa"…
    "#);
    // Made again, it does not even open it.
    assert_eq!(
        bench.service.merge(&handback).await.unwrap(),
        Merged::Queued
    );
    assert_eq!(kinds(&bench.log(&id)), kinds(&log));
    let mut agent = bench.agent(bench.open(&id), script(vec![says("I see.")]));
    ask(&mut agent, "Go on.").await;
    let seq = said_once(agent.session(), TEXT);
    drop(agent);
    let length = bench.log(&id).end();
    let merged = bench.service.merge(&handback).await.unwrap();
    assert_eq!(merged, Merged::Logged { seq });
    assert_eq!(bench.log(&id).end(), length);
}

#[tokio::test]
async fn a_parent_that_a_crash_has_interrupted_is_repaired_and_has_the_note_behind_that() {
    let mut bench = Bench::new();
    let hold = bench.work.hold("a");
    let two = calls([("a", "change", "{}"), ("b", "look", "{}")]);
    let mut agent = bench.agent(bench.create(), one_and(vec![two]));
    ask(&mut agent, "First.").await;
    let handback = note(&side_of(&bench, &agent).await, TEXT);
    agent.submit("Work.").unwrap();
    let cancel = Cancel::new();
    tokio::select! {
        done = agent.run(&cancel) => panic!("{done:?}"),
        () = hold.started.cancelled() => {}
    }
    let id = agent.session().id().clone();
    bench.crash(agent);
    let begin = bench.log(&id).end();
    assert_eq!(
        bench.service.merge(&handback).await.unwrap(),
        Merged::Queued
    );
    let log = bench.log(&id);
    insta::assert_snapshot!(outline_from(&log, begin), @r#"
    tool/result a TOOL_OUTCOME_UNKNOWN
    tool/result b TOOL_NOT_STARTED
    step/end 2.1
    turn/end 2 interrupted
    session/end-seed
    agent/inbox/spliced next-step at 0 +"A note from the side session `session-id-5` of this conversa"…
    "#);
    assert_eq!(endings(&log), ["completed", "interrupted"]);
    let mut agent = bench.agent(bench.open(&id), script(vec![says("I see.")]));
    ask(&mut agent, "Go on.").await;
    said_once(agent.session(), TEXT);
}

/// The claim of the note is durable with the request that follows it. A crash in between takes neither.
#[tokio::test]
async fn a_note_that_a_turn_had_claimed_when_it_was_interrupted_is_not_sent_twice() {
    let mut bench = Bench::new();
    let (id, handback) = stored(&bench).await;
    bench.service.merge(&handback).await.unwrap();
    let agent = bench.agent(bench.open(&id), script(Vec::new()));
    let session = agent.session().clone();
    for (kind, data) in [
        (EventKind::TurnStart, serde_json::json!({"turn": 2})),
        (
            EventKind::InboxSpliced,
            serde_json::json!({"target": "next-step", "start": 0, "removedCount": 1, "inserted": []}),
        ),
    ] {
        let draft = offshoot_session::EventDraft::log_only(kind, &data).unwrap();
        session.append(draft, 1_000).unwrap();
    }
    agent.flush().unwrap();
    bench.crash(agent);
    // Who only reads it knows it, too.
    assert_eq!(
        bench.service.merge(&handback).await.unwrap(),
        Merged::Queued
    );
    let mut agent = bench.agent(bench.open(&id), script(vec![says("I see.")]));
    ask(&mut agent, "Go on.").await;
    said_once(agent.session(), TEXT);
}

#[tokio::test]
async fn a_parent_that_is_open_elsewhere_is_refused_unless_it_has_the_note_already() {
    let bench = Bench::new();
    let (id, handback) = stored(&bench).await;
    let elsewhere = SessionService::new(Arc::new(bench.persistence()), bench.env.clone());
    let held = elsewhere.open(&id).unwrap();
    let before = bench.bytes(&id);
    let refused = bench.service.merge(&handback).await.unwrap_err();
    assert_eq!(refused.code(), "SESSION_ALREADY_OWNED");
    assert_eq!(
        refused.hint().unwrap(),
        "merge from the program that has it open, or close it there and merge again"
    );
    assert_eq!(bench.bytes(&id), before);
    drop(held);
    bench.service.merge(&handback).await.unwrap();
    let _held = elsewhere.open(&id).unwrap();
    assert_eq!(
        bench.service.merge(&handback).await.unwrap(),
        Merged::Queued
    );
}

#[tokio::test]
async fn a_parent_that_is_open_here_without_an_agent_is_refused() {
    let bench = Bench::new();
    let (id, handback) = stored(&bench).await;
    let held = bench.open(&id);
    let refused = bench.service.merge(&handback).await.unwrap_err();
    assert_eq!(refused.code(), "SESSION_LIVE");
    drop(held);
    assert_eq!(
        bench.service.merge(&handback).await.unwrap(),
        Merged::Queued
    );
}

#[tokio::test]
async fn a_parent_that_no_provider_would_accept_gets_no_note_and_has_no_side_sessions() {
    let bench = Bench::new();
    let (id, _) = unanswered(&bench);
    let refused = bench
        .service
        .side(&bench.read(&id), &SideRequest::default())
        .unwrap_err();
    assert_eq!(refused.code(), "NOT_CONTINUABLE");
    let fork = bench
        .service
        .prepare_fork(&bench.read(&id), None, Some("stuck".into()))
        .unwrap();
    let fork = bench.service.store_fork(&fork).unwrap();
    let stuck = Agent::new(fork, bench.setup(script(Vec::new())));
    let other = after_a_turn(&bench, bench.setup(one_and(Vec::new()))).await;
    let side = side_of(&bench, &other).await;
    for parent in [&id, stuck.session().id()] {
        let header = SessionHeader {
            parent: Some(parent.clone()),
            ..side.session().header()
        };
        let log = side.session().log();
        let handback = Handback::of(&header, &log, Some(TEXT), HANDBACK_MAX_CHARS).unwrap();
        let before = bench.bytes(parent);
        let refused = bench.service.merge(&handback).await.unwrap_err();
        assert_eq!(refused.code(), "NOT_CONTINUABLE", "{parent}");
        assert_eq!(bench.bytes(parent), before);
        // Such a file is nothing that a test leaves behind otherwise.
        fs::remove_file(bench.file(parent)).unwrap();
    }
}

#[tokio::test]
async fn a_parent_that_is_gone_is_missed_by_its_name() {
    let bench = Bench::new();
    let (id, handback) = stored(&bench).await;
    offshoot_store::Persistence::delete(&bench.persistence(), &id, 1_000).unwrap();
    let refused = bench.service.merge(&handback).await.unwrap_err();
    assert_eq!(refused.code(), "SESSION_NOT_FOUND");
    assert!(refused.to_string().contains(id.as_str()), "{refused}");
}

/// A fork of the parent has what that had received, and is nobody that the note is for.
#[tokio::test]
async fn a_fork_of_the_parent_keeps_the_note_and_is_not_sent_it_again() {
    let bench = Bench::new();
    let (id, handback) = stored(&bench).await;
    bench.service.merge(&handback).await.unwrap();
    let mut agent = bench.agent(bench.open(&id), script(vec![says("I see.")]));
    ask(&mut agent, "Go on.").await;
    let fork = bench.service.prepare_fork_of(&agent, None, None).await;
    let fork = bench.service.store_fork(&fork.unwrap()).unwrap();
    let fork = bench.agent(fork, script(vec![says("Here.")]));
    assert_eq!(notes(&fork.session().log()), notes(&agent.session().log()));
    assert!(!fork.session().log().is_side_session());
    let refused = handback.for_parent(fork.session().id()).unwrap_err();
    assert_eq!(refused.code(), "FOREIGN_CHILD");
}
