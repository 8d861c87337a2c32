//! Children that go on behind their call, and what their parents hear of their end (`reference/agent.md` §4.5; §10, 70).

use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use offshoot_agent::{
    Agent, AgentHook, CancelCause, HookError, Input, Notice, PreStep, Queue, StepContext,
    SubagentLimits,
};
use offshoot_model::{Attempt, Chunk, ContentBlock, FinishReason};
use offshoot_session::{EventKind, EventLog, SessionId};
use serde_json::{Value, json};

use crate::bench::Faults;
use crate::family::{Family, delegates, delegation, metas, nothing_more};
use crate::hooks::{Before, broken, enter};
use crate::outline::outline;
use crate::support::{all, answers, calls, endings, result, results, says};

pub(crate) fn in_background() -> Value {
    json!({"run_in_background": true})
}

pub(crate) fn continuable() -> Value {
    json!({"mode": "continuable"})
}

/// A child that looks, which the test can hold as call `k`, and then says this.
pub(crate) fn looks_and_says(text: &str) -> Vec<Attempt> {
    vec![calls([("k", "look", "{}")]), says(text)]
}

/// The settlement notices of a log, block by block, without ids.
pub(crate) fn notices(family: &Family, log: &EventLog) -> Vec<String> {
    let messages = all(log, &EventKind::UserMessage);
    let notices = messages
        .iter()
        .filter(|message| message["source"]["kind"] == "subagent-settled");
    notices.map(|notice| told(family, notice)).collect()
}

fn told(family: &Family, notice: &Value) -> String {
    let blocks = notice["content"].as_array().unwrap().iter();
    let text: Vec<_> = blocks
        .map(|block| block["text"].as_str().unwrap())
        .collect();
    named(family, &text.join("\n"))
}

/// The text with what children were made for in place of their ids.
pub(crate) fn named(family: &Family, text: &str) -> String {
    let mut text = text.to_owned();
    for (n, id) in family.children.made().iter().enumerate() {
        text = text.replace(id.as_str(), &format!("<child {}>", n + 1));
    }
    text
}

/// The sessions that have an agent.
pub(crate) fn live(family: &Family) -> Vec<SessionId> {
    let agents = family.bench.service.agents();
    agents
        .iter()
        .map(|agent| agent.session().id().clone())
        .collect()
}

/// A parent that delegates once to a child that looks, with as many answers as it needs.
fn delegating(child: Vec<Attempt>, more: Value, rest: Vec<Attempt>) -> (Family, Agent) {
    let family = Family::new();
    family.children.answer("the count", child);
    let mut attempts = vec![delegates("c1", "the count", more)];
    attempts.extend(rest);
    let parent = family.parent(attempts);
    (family, parent)
}

#[tokio::test]
async fn a_child_in_the_background_has_its_result_told_to_a_parent_that_is_woken_for_it() {
    let rest = vec![says("I go on."), says("Four, then.")];
    let (family, parent) = delegating(looks_and_says("Four."), in_background(), rest);
    let hold = family.bench.work.hold("k");
    parent.followup("How many?").unwrap();
    hold.started.cancelled().await;
    parent.when_idle().await;
    let id = family.child();
    assert_eq!(
        results(&parent.session().log()),
        [result(
            "c1",
            "",
            &format!("started subagent {id}; you will be told when it has finished")
        )]
    );
    assert_eq!(
        metas(&parent.session().log()),
        [json!({"sessionId": id.as_str(), "provider": "spawn", "mode": "one-shot"})]
    );
    assert_eq!(endings(&parent.session().log()), ["completed"]);

    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
    let log = parent.session().log();
    insta::assert_snapshot!("background_idle", outline(&log));
    let notice = all(&log, &EventKind::UserMessage).pop().unwrap();
    let told = format!("Subagent {id} (the count) has finished.");
    assert_eq!(
        (&notice["content"], &notice["source"]),
        (
            &json!([
                {"type": "text", "text": told},
                {"type": "text", "text": "Its closing message:"},
                {"type": "text", "text": "Four."},
            ]),
            &json!({
                "kind": "subagent-settled", "form": "notice", "summary": told, "senderSessionId": id.as_str(), "kept": true
            })
        )
    );
    assert_eq!(live(&family), [parent.session().id().clone()]);
    family.bench.open(&id);
}

#[tokio::test]
async fn a_parent_that_works_is_told_at_its_next_step() {
    let rest = vec![
        calls([("p", "check", "{}")]),
        says("Four, then."),
        says("Never."),
    ];
    let (family, parent) = delegating(says_at_once("Four."), in_background(), rest);
    let hold = family.bench.work.hold("p");
    parent.followup("How many?").unwrap();
    hold.started.cancelled().await;
    family.subagents.quiet(parent.session().id()).await;
    let pending = parent.pending().unwrap();
    assert_eq!((pending.next_step.len(), pending.next_turn.len()), (1, 0));
    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
    insta::assert_snapshot!("background_busy", outline(&parent.session().log()));
}

fn says_at_once(text: &str) -> Vec<Attempt> {
    vec![says(text)]
}

#[tokio::test]
async fn a_parent_that_is_being_closed_finds_the_notice_when_it_is_opened_again() {
    for more in [in_background(), continuable()] {
        let (family, parent) = delegating(looks_and_says("Four."), more, vec![says("I go on.")]);
        let hold = family.bench.work.hold("k");
        parent.followup("How many?").unwrap();
        hold.started.cancelled().await;
        parent.when_idle().await;
        family.subagents.dispose(parent.session().id()).await;
        assert!(hold.told.is_cancelled());
        assert_eq!(live(&family), [parent.session().id().clone()]);
        assert_eq!(parent.pending().unwrap().next_step.len(), 1);
        assert_eq!(endings(&parent.session().log()), ["completed"]);
        parent.dispose().await.unwrap();
        let ends = all(&family.child_log(), &EventKind::TurnEnd);
        assert_eq!(
            ends[0]["reason"],
            json!({"kind": "aborted", "reason": {"kind": "disposed"}})
        );

        let id = parent.session().id().clone();
        let parent = family.on(
            family.bench.open(&id),
            crate::bench::script(vec![says("Ah.")]),
        );
        parent.followup("And?").unwrap();
        parent.when_idle().await;
        let told = notices(&family, &parent.session().log()).concat();
        assert_eq!(
            told,
            "Subagent <child 1> (the count) was cancelled before it had finished.\nIt left no closing message."
        );
    }
}

#[tokio::test]
async fn a_notice_survives_that_the_turn_of_the_parent_is_cancelled() {
    let rest = vec![calls([("p", "check", "{}")]), says("I see.")];
    let (family, parent) = delegating(says_at_once("Four."), in_background(), rest);
    let hold = family.bench.work.hold("p");
    parent.followup("How many?").unwrap();
    hold.started.cancelled().await;
    family.subagents.quiet(parent.session().id()).await;
    parent.cancel(CancelCause::User, Queue::Clear).unwrap();
    parent.when_idle().await;
    assert_eq!(notices(&family, &parent.session().log()), [""; 0]);
    parent.followup("And?").unwrap();
    parent.when_idle().await;
    assert_eq!(notices(&family, &parent.session().log()).len(), 1);
}

/// Lets a first turn begin and no other one.
#[derive(Debug)]
struct OneTurn;

#[async_trait]
impl AgentHook for OneTurn {
    async fn pre_step(
        &self,
        cx: &StepContext<'_>,
        entering: Vec<Input>,
    ) -> Result<PreStep, HookError> {
        if cx.at.turn > 1 {
            return Err(broken());
        }
        Ok(enter(entering))
    }
}

#[tokio::test]
async fn every_way_in_which_a_child_can_come_to_rest_is_told_in_a_line() {
    let cut_off = answers(vec![ContentBlock::text("Fo")], FinishReason::MaxTokens);
    let throws = Attempt::Throw {
        chunks: vec![Chunk::TextDelta {
            index: 0,
            text: "I beg".into(),
        }],
        message: "the provider\nis busy".into(),
        code: "SERVER".into(),
    };
    let rejects = || Before::steps(|_, _| Ok(PreStep::Reject));
    type Hook = Option<Arc<dyn AgentHook>>;
    let cases: [(&str, Vec<Attempt>, Hook); 6] = [
        ("completed", says_at_once("Four."), None),
        (
            "says nothing",
            vec![answers(vec![ContentBlock::text(" ")], FinishReason::Stop)],
            None,
        ),
        ("max-tokens", vec![cut_off], None),
        ("error", vec![throws], None),
        ("refusal", says_at_once("Never."), Some(Arc::new(rejects()))),
        ("no model", Vec::new(), None),
    ];
    let mut text = String::new();
    for mode in [in_background(), continuable()] {
        for (name, child, hook) in &cases {
            let rest = vec![says("I go on."), says("I see.")];
            let (family, parent) = delegating(child.clone(), mode.clone(), rest);
            family.children.hooks.lock().unwrap().extend(hook.clone());
            parent.followup("How many?").unwrap();
            family.subagents.at_rest(&parent).await;
            let told = notices(&family, &parent.session().log());
            assert_eq!(told.len(), 1, "{name}");
            writeln!(text, "{name}\n{}\n", told[0]).unwrap();
        }
    }
    insta::assert_snapshot!("background_ends", text);
}

#[tokio::test]
async fn a_child_that_died_before_a_step_has_failed_whatever_it_did_before() {
    let rest = vec![says("I go on."), says("I see.")];
    let (family, parent) = delegating(looks_and_says("Four."), continuable(), rest);
    family
        .children
        .hooks
        .lock()
        .unwrap()
        .push(Arc::new(OneTurn));
    let hold = family.bench.work.hold("k");
    parent.followup("How many?").unwrap();
    hold.started.cancelled().await;
    // A turn of its own behind the one that is going on.
    let child = family.bench.service.agent(&family.child()).unwrap();
    child.followup("And how many more?").unwrap();
    drop(child);
    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
    assert_eq!(endings(&family.child_log()), ["completed", "error"]);
    assert_eq!(
        notices(&family, &parent.session().log()),
        [
            "Subagent <child 1> (the count) failed: the hook broke (HOOK_BROKE).\nIts closing message:\nFour."
        ]
    );
}

#[tokio::test]
async fn a_turn_that_somebody_was_woken_for_in_vain_says_nothing_of_the_work_before_it() {
    let throws = Attempt::Throw {
        chunks: Vec::new(),
        message: "busy".into(),
        code: "SERVER".into(),
    };
    let child = vec![calls([("k", "look", "{}")]), throws];
    let rest = vec![says("I go on."), says("I see.")];
    let (family, parent) = delegating(child, in_background(), rest);
    // Woken and taken back as soon as it is idle, before anybody else has seen that.
    let service = family.bench.service.clone();
    let woken = Arc::new(std::sync::Mutex::new(None::<Agent>));
    let seen = Arc::clone(&woken);
    *family.children.observer.lock().unwrap() = Some(Arc::new(move |notice: &Notice| {
        let Notice::TurnEnded(report) = notice else {
            return;
        };
        if report.turn == 1
            && let Some(child) = seen.lock().unwrap().take()
        {
            let id = child.followup("Well?").unwrap();
            child.remove(&id).unwrap();
        }
    }));
    let hold = family.bench.work.hold("k");
    parent.followup("How many?").unwrap();
    hold.started.cancelled().await;
    *woken.lock().unwrap() = service.agent(&family.child());
    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
    assert!(
        notices(&family, &parent.session().log())[0].contains("failed: busy (SERVER)"),
        "{:?}",
        endings(&family.child_log())
    );
}

/// Lets the disk fail from the end of a turn on.
#[derive(Debug)]
struct Unplugs(Faults);

#[async_trait]
impl AgentHook for Unplugs {
    async fn turn_stopping(&self, _: &StepContext<'_>) -> Result<Vec<Input>, HookError> {
        self.0.fail(1..=1_000);
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn a_child_whose_end_could_not_be_stored_is_told_of_as_such() {
    let family = Family::new();
    let disk = family.bench.disk.clone();
    family.children.answer("the count", says_at_once("Four."));
    let unplugs = Arc::new(Unplugs(disk.clone()));
    family.children.hooks.lock().unwrap().push(unplugs);
    let attempts = vec![
        delegates("c1", "the count", in_background()),
        calls([("p", "look", "{}")]),
        says("I see."),
    ];
    let hold = family.bench.work.hold("p");
    let parent = family.changed(
        family.bench.create(),
        crate::bench::script(attempts),
        |setup| {
            // Whoever hears of it has a disk again.
            setup.observer = Some(Arc::new(move |notice: &Notice| {
                if matches!(notice, Notice::Inserted { .. }) {
                    disk.mend();
                }
            }));
        },
    );
    parent.followup("How many?").unwrap();
    hold.started.cancelled().await;
    family.subagents.quiet(parent.session().id()).await;
    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
    let told = notices(&family, &parent.session().log()).concat();
    insta::assert_snapshot!("background_unstored", told);
    assert_eq!(endings(&parent.session().log()), ["completed"]);
    assert_eq!(live(&family), [parent.session().id().clone()]);
    parent.dispose().await.unwrap();
}

#[tokio::test]
async fn children_in_the_background_count_as_being_at_work_until_they_are_settled() {
    let family = Family::with(SubagentLimits {
        max_running: 1,
        ..SubagentLimits::default()
    });
    family.children.answer("a", looks_and_says("A."));
    family.children.answer("b", says_at_once("B."));
    let parent = family.parent(vec![
        delegates("a", "a", in_background()),
        delegates("b", "b", nothing_more()),
        says("I wait."),
        delegates("c", "b", nothing_more()),
        says("Done."),
    ]);
    let hold = family.bench.work.hold("k");
    parent.followup("Go.").unwrap();
    hold.started.cancelled().await;
    parent.when_idle().await;
    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
    let codes: Vec<_> = results(&parent.session().log())
        .into_iter()
        .map(|(call, code, _)| (call, code))
        .collect();
    let expected = [("a", ""), ("b", "CAPACITY_EXCEEDED"), ("c", "")];
    assert_eq!(
        codes,
        expected.map(|(call, code)| (call.to_owned(), code.to_owned()))
    );
}

#[tokio::test]
async fn who_cancels_a_turn_lets_what_runs_in_the_background_go_on() {
    let rest = vec![calls([("p", "check", "{}")]), says("I see.")];
    let (family, parent) = delegating(looks_and_says("Four."), in_background(), rest);
    let holds = ["k", "p"].map(|call| family.bench.work.hold(call));
    parent.followup("How many?").unwrap();
    for hold in &holds {
        hold.started.cancelled().await;
    }
    parent.cancel(CancelCause::User, Queue::Clear).unwrap();
    parent.when_idle().await;
    assert!(!holds[0].told.is_cancelled());
    holds[0].released.cancel();
    family.subagents.at_rest(&parent).await;
    assert_eq!(endings(&parent.session().log()), ["aborted", "completed"]);
    assert!(notices(&family, &parent.session().log())[0].ends_with("Four."));
}

#[tokio::test]
async fn a_task_that_is_cancelled_before_it_was_told_leaves_nothing_at_work() {
    let (family, parent) = delegating(says_at_once("Four."), nothing_more(), Vec::new());
    let mut request = delegation("the count");
    request.background = true;
    let cancel = request.cancel.clone();
    *family.children.meanwhile.lock().unwrap() = Some(Box::new(move || cancel.cancel()));
    let started = family.subagents.start(&parent, request).await.unwrap();
    let end = started.end.unwrap();
    assert_eq!(end.stop, offshoot_agent::StopReason::Aborted);
    assert_eq!(family.subagents.running(parent.session().id()), []);
    assert_eq!(live(&family), [parent.session().id().clone()]);
    assert!(parent.pending().unwrap().next_step.is_empty());
}
