//! What a delegation comes to (`reference/agent.md` §4.4; §10, 68 and 69).

use std::fmt::Write as _;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use offshoot_agent::{Agent, CancelCause, PreStep, Queue, StopReason, SubagentLimits};
use offshoot_model::{
    Attempt, CallConfig, Chunk, ContentBlock, Failure, FinishReason, Model, ModelRequest,
    PreparedCall, ScriptModel,
};
use offshoot_session::{EventKind, SessionId};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bench::{Faults, script};
use crate::family::{Family, delegates, delegation, metas, nothing_more};
use crate::hooks::Before;
use crate::support::{all, answers, call, endings, kinds, result, results, says};

/// A part of an answer.
fn part(text: &str) -> Vec<Chunk> {
    let text = text.to_owned();
    vec![Chunk::TextDelta { index: 0, text }]
}

fn throws(chunks: Vec<Chunk>) -> Attempt {
    Attempt::Throw {
        chunks,
        message: "the provider is busy".into(),
        code: "SERVER".into(),
    }
}

fn text_and_call(text: &str) -> Attempt {
    let blocks = vec![ContentBlock::text(text), call("l", "look", "{}")];
    answers(blocks, FinishReason::ToolCalls)
}

fn reasoning() -> Attempt {
    let text = "Hm.".into();
    let block = ContentBlock::Reasoning { text };
    answers(vec![block], FinishReason::Stop)
}

fn cut_off(text: &str) -> Attempt {
    answers(vec![ContentBlock::text(text)], FinishReason::MaxTokens)
}

/// A family whose parent delegates once and then says that it is done.
fn delegating(attempts: Vec<Attempt>) -> (Family, Agent, Arc<ScriptModel>) {
    let family = Family::new();
    let model = family.children.answer("the count", attempts);
    let parent = family.parent(vec![
        delegates("c1", "the count", nothing_more()),
        says("Done."),
    ]);
    (family, parent, model)
}

async fn until_called(model: &ScriptModel) {
    while model.requests().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn every_way_in_which_a_child_can_end_is_one_text_for_its_parent() {
    let mut told = String::new();
    for (name, attempts) in [
        ("it has answered", vec![says("Four.")]),
        (
            "it has answered behind other steps",
            vec![text_and_call("I shall look."), says("Four.")],
        ),
        (
            "it said its last words before its last step",
            vec![text_and_call("Four, I think."), reasoning()],
        ),
        ("it has said nothing", vec![reasoning()]),
        ("it was cut off", vec![cut_off("There are f")]),
        (
            "it was cut off behind other steps",
            vec![text_and_call("I shall look."), cut_off(" ")],
        ),
        ("its provider failed", vec![throws(Vec::new())]),
        (
            "its provider failed in the middle of its first answer",
            vec![throws(part("There are"))],
        ),
        (
            "its provider failed behind other steps",
            vec![text_and_call("I shall look."), throws(part("There are"))],
        ),
    ] {
        let (_family, parent, _) = delegating(attempts);
        parent.followup("Go.").unwrap();
        parent.when_idle().await;
        let log = parent.session().log();
        assert_eq!(endings(&log), ["completed"], "{name}: the parent goes on");
        let [(_, code, text)] = &results(&log)[..] else {
            panic!("{name}");
        };
        let meta = &metas(&log)[0];
        writeln!(
            told,
            "== {name}: {} {code}\n{text}\n",
            meta["stopReason"].as_str().unwrap()
        )
        .unwrap();
    }
    insta::assert_snapshot!("collapsed", told);
}

#[tokio::test]
async fn a_child_that_a_hook_did_not_let_begin_has_declined() {
    let (family, parent, _) = delegating(Vec::new());
    let rejects = Before::steps(|_, _| Ok(PreStep::Reject));
    family
        .children
        .hooks
        .lock()
        .unwrap()
        .push(Arc::new(rejects));
    parent.followup("Go.").unwrap();
    parent.when_idle().await;
    let log = parent.session().log();
    let told = "Error: the subagent declined the task: a hook did not let it begin";
    assert_eq!(results(&log), [result("c1", "SUBAGENT_REFUSED", told)]);
    assert_eq!(metas(&log)[0]["stopReason"], "refusal");
    let child = family.child_log();
    assert_eq!(endings(&child), ["blocked"]);
    let descriptor = EventKind::SubagentDescriptor;
    assert!(
        kinds(&child).contains(&descriptor.as_str()),
        "it says all the same what it was"
    );
}

#[tokio::test]
async fn who_cancels_the_parent_cancels_the_child_and_nothing_of_it_is_left_running() {
    let chunks = part("There are");
    let (family, parent, model) = delegating(vec![Attempt::Hang { chunks }]);
    parent.followup("Go.").unwrap();
    until_called(&model).await;
    let id = family.child();
    let child = family.bench.service.agent(&id).unwrap();
    while child
        .live_answer()
        .is_none_or(|answer| answer.chunks().next().is_none())
    {
        tokio::task::yield_now().await;
    }
    drop(child);
    parent.cancel(CancelCause::User, Queue::Clear).unwrap();
    parent.when_idle().await;

    let child = family.bench.log(&id);
    assert_eq!(
        all(&child, &EventKind::TurnEnd)[0]["reason"],
        json!({"kind": "aborted", "reason": {"kind": "parent"}})
    );
    let log = parent.session().log();
    assert_eq!(
        all(&log, &EventKind::TurnEnd)[0]["reason"],
        json!({"kind": "aborted", "reason": {"kind": "user"}})
    );
    let told = "Error: the subagent was cancelled before it had finished\n\nPartial output before it ended:\n\nThere are";
    assert_eq!(results(&log), [result("c1", "SUBAGENT_ABORTED", told)]);
    assert_eq!(metas(&log)[0]["stopReason"], "aborted");
    let live: Vec<SessionId> = live(&family);
    assert_eq!(live, [parent.session().id().clone()]);
    drop(family.bench.open(&id));
}

#[tokio::test]
async fn a_child_that_a_person_has_cancelled_is_a_failed_call_and_the_parent_goes_on() {
    let hang = Attempt::Hang { chunks: Vec::new() };
    let (family, parent, model) = delegating(vec![hang]);
    parent.followup("Go.").unwrap();
    until_called(&model).await;
    let child = family.bench.service.agent(&family.child()).unwrap();
    child.cancel(CancelCause::User, Queue::Clear).unwrap();
    parent.when_idle().await;
    let log = parent.session().log();
    let told = "Error: the subagent was cancelled before it had finished";
    assert_eq!(results(&log), [result("c1", "SUBAGENT_ABORTED", told)]);
    assert_eq!(endings(&log), ["completed"]);
}

#[tokio::test]
async fn what_a_person_says_to_a_child_that_is_waited_for_belongs_to_its_run() {
    let (family, parent, model) = delegating(vec![says("Four."), says("Five, then.")]);
    let family = Arc::new(family);
    let held = family.bench.work.hold("l");
    let _unused = model;
    let model = family
        .children
        .answer("the count", vec![text_and_call("I look."), says("Five.")]);
    parent.followup("Go.").unwrap();
    held.started.cancelled().await;
    let child = family.bench.service.agent(&family.child()).unwrap();
    child.steer("Count the hidden ones too.").unwrap();
    held.released.cancel();
    parent.when_idle().await;
    assert_eq!(
        results(&parent.session().log()),
        [result("c1", "", "Five.")]
    );
    assert_eq!(model.remaining(), 0);
}

#[tokio::test]
async fn a_parent_that_is_disposed_of_takes_its_child_with_it() {
    let hang = Attempt::Hang { chunks: Vec::new() };
    let (family, parent, model) = delegating(vec![hang]);
    parent.followup("Go.").unwrap();
    until_called(&model).await;
    parent.dispose().await.unwrap();
    assert_eq!(live(&family), []);
    assert_eq!(endings(&family.child_log()), ["aborted"]);
    let stored = family.bench.log(parent.session().id());
    assert_eq!(results(&stored)[0].1, "SUBAGENT_ABORTED");
}

#[tokio::test]
async fn whoever_does_not_wait_any_more_ends_the_child() {
    let family = Family::with(SubagentLimits {
        max_running: 1,
        ..SubagentLimits::default()
    });
    let hang = Attempt::Hang { chunks: Vec::new() };
    let model = family.children.answer("the count", vec![hang]);
    family.children.answer("the next", vec![says("Five.")]);
    let parent = family.parent(Vec::new());
    tokio::select! {
        started = family.subagents.start(&parent, delegation("the count")) => panic!("{started:?}"),
        () = until_called(&model) => {}
    }
    while family.bench.service.open(&family.child()).is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(endings(&family.child_log()), ["aborted"]);
    // And it does not count as being at work.
    let started = family
        .subagents
        .start(&parent, delegation("the next"))
        .await;
    assert_eq!(started.unwrap().end.unwrap().stop, StopReason::Completed);
}

#[tokio::test]
async fn a_delegation_that_is_cancelled_before_it_begins_has_no_child() {
    let family = Family::new();
    let parent = family.parent(Vec::new());
    let request = delegation("the count");
    request.cancel.cancel();
    let refused = family.subagents.start(&parent, request).await.unwrap_err();
    assert_eq!(refused.code(), "CANCELLED");
    assert_eq!(family.children.made(), []);
    assert!(parent.session().log().is_empty());
}

/// Lets the disk fail while it answers, so that its end is not stored.
#[derive(Debug)]
struct Unplugs {
    answers: Arc<ScriptModel>,
    disk: Faults,
}

impl Model for Unplugs {
    fn provider(&self) -> &str {
        self.answers.provider()
    }

    fn prepare(&self, config: &CallConfig) -> Result<PreparedCall, Failure> {
        self.answers.prepare(config)
    }

    fn stream(
        &self,
        request: Arc<ModelRequest>,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Chunk> {
        // That of its turn, and those of its end.
        self.disk.fail(1..=3);
        self.answers.stream(request, cancel)
    }
}

#[tokio::test]
async fn a_child_whose_end_could_not_be_stored_is_a_failed_call_with_its_answer() {
    let (family, parent, answers) = delegating(vec![says("Four.")]);
    let disk = family.bench.disk.clone();
    let model = Unplugs { answers, disk };
    family.children.are("the count", Arc::new(model));
    parent.followup("Go.").unwrap();
    parent.when_idle().await;
    let log = parent.session().log();
    let [(_, code, text)] = &results(&log)[..] else {
        panic!();
    };
    assert_eq!(code, "ACTIVATION_TEARDOWN_FAILED");
    insta::assert_snapshot!("unstored_child", text);
    assert_eq!(metas(&log)[0]["stopReason"], "completed");
    assert_eq!(endings(&log), ["completed"]);
    assert_eq!(live(&family), [parent.session().id().clone()]);
}

/// Kills the process of a family while a child hangs, and returns the two sessions.
fn killed(attempts: Vec<Attempt>) -> (Family, SessionId, SessionId) {
    let (mut family, parent, child) = {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let (mut family, parent, model) = runtime.block_on(async { delegating(attempts) });
        runtime.block_on(async {
            parent.followup("Go.").unwrap();
            until_called(&model).await;
        });
        let (id, child) = (parent.session().id().clone(), family.child());
        family.bench.crash((parent, runtime));
        (family, id, child)
    };
    family.restarted();
    (family, parent, child)
}

#[test]
fn a_crash_behind_the_creation_of_a_child_leaves_two_ordinary_sessions_and_an_answered_call() {
    let hang = Attempt::Hang {
        chunks: part("There are"),
    };
    let (family, parent, child) = killed(vec![hang]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let _on = runtime.enter();
    // The parent knows its child and does not know what became of it.
    let on_disk = family.bench.log(&parent);
    assert_eq!(
        all(&on_disk, &EventKind::SubagentCatalog)[0]["childId"],
        child.as_str()
    );
    let attempts = vec![says("It was interrupted; I shall count myself.")];
    let parent = family.on(family.bench.open(&parent), script(attempts));
    let log = parent.session().log();
    let answered = &all(&log, &EventKind::ToolResult)[0];
    assert_eq!(answered["error"]["code"], "TOOL_OUTCOME_UNKNOWN");
    runtime.block_on(async {
        parent.followup("And?").unwrap();
        parent.when_idle().await;
    });
    assert_eq!(
        endings(&parent.session().log()),
        ["interrupted", "completed"]
    );

    // The child goes on like any other session.
    let model = script(vec![says("Four.")]);
    let child = family.on(family.bench.open(&child), Arc::clone(&model) as _);
    runtime.block_on(async {
        child.followup("Go on.").unwrap();
        child.when_idle().await;
    });
    assert_eq!(
        endings(&child.session().log()),
        ["interrupted", "completed"]
    );
    assert_eq!(child.session().header().delegation_depth, 1);
}

fn live(family: &Family) -> Vec<SessionId> {
    let agents = family.bench.service.agents();
    agents
        .iter()
        .map(|agent| agent.session().id().clone())
        .collect()
}
