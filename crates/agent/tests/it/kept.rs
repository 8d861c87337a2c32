//! Messages that are kept: nothing but their own claim, or somebody who names them, takes them away.

use std::sync::Arc;

use offshoot_agent::{
    Agent, AgentHook, Cancel, CancelCause, HookError, InboxTarget, Input, PreStep, Queue,
    StepContext, Wake,
};
use offshoot_model::{Attempt, CallConfig};
use offshoot_session::EventKind;

use crate::bench::{Bench, script};
use crate::hooks::{Before, broken};
use crate::outline::outline;
use crate::support::{all, says};

use InboxTarget::{NextStep, NextTurn};

fn note(id: &str) -> Input {
    Input::user(id, id)
}

fn kept(id: &str) -> Input {
    note(id).kept()
}

fn waiting(agent: &Agent) -> (Vec<String>, Vec<String>) {
    let pending = agent.pending().unwrap();
    let ids = |inputs: Vec<Input>| inputs.iter().map(|input| input.id().to_owned()).collect();
    (ids(pending.next_step), ids(pending.next_turn))
}

fn id_of(message: &str) -> String {
    let message: serde_json::Value = serde_json::from_str(message).unwrap();
    message["id"].as_str().unwrap().to_owned()
}

fn queue(agent: &Agent) {
    for (input, target) in [
        (kept("s1"), NextStep),
        (note("s2"), NextStep),
        (kept("s3"), NextStep),
        (kept("t1"), NextTurn),
        (note("t2"), NextTurn),
        (kept("t3"), NextTurn),
        (note("t4"), NextTurn),
    ] {
        agent.send(&input, target, Wake::No).unwrap();
    }
}

#[tokio::test]
async fn they_survive_a_cancellation_that_drops_the_rest() {
    let bench = Bench::new();
    let agent = bench.running(script(Vec::new()));
    queue(&agent);
    agent.cancel(CancelCause::User, Queue::Clear).unwrap();
    let left = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
    assert_eq!(waiting(&agent), (left(&["s1", "s3"]), left(&["t1", "t3"])));
    let end = agent.session().log().end();
    agent.cancel(CancelCause::User, Queue::Clear).unwrap();
    assert_eq!(agent.session().log().end(), end, "nothing is left to drop");
    agent.flush().await.unwrap();
    insta::assert_snapshot!(outline(&agent.session().log()).lines().skip(7).collect::<Vec<_>>().join("\n"), @r"
    agent/inbox/spliced next-step at 1 -1 canceled
    agent/inbox/spliced next-turn at 1 -1 canceled
    agent/inbox/spliced next-turn at 2 -1 canceled
    ");
}

/// Runs into a turn that ends before anything is said, and gives what waits behind that.
async fn behind_a_turn_that(hook: impl AgentHook + 'static) -> (Agent, Bench) {
    let bench = Bench::new();
    let mut setup = bench.setup(script(vec![says("At last."); 9]));
    setup.hooks.push(Arc::new(hook));
    let agent = Agent::new(bench.create(), setup);
    queue(&agent);
    agent.send(&note("go"), NextTurn, Wake::Yes).unwrap();
    agent.when_idle().await;
    (agent, bench)
}

fn after_the_claim() -> (Vec<String>, Vec<String>) {
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
    (ids(&["s1", "s3"]), ids(&["t1", "t2", "t3", "t4", "go"]))
}

#[tokio::test]
async fn those_of_a_rejected_step_are_queued_again_in_their_order() {
    let (agent, _bench) = behind_a_turn_that(Before::steps(|_, _| Ok(PreStep::Reject))).await;
    assert_eq!(waiting(&agent), after_the_claim());
}

#[tokio::test]
async fn so_are_those_of_a_step_that_fails_before_they_are_said() {
    let (agent, _bench) = behind_a_turn_that(Before::steps(|_, _| Err(broken()))).await;
    assert_eq!(waiting(&agent), after_the_claim());

    /// Fails when the step has begun and nothing was said.
    #[derive(Debug)]
    struct NoRequest;
    #[async_trait::async_trait]
    impl AgentHook for NoRequest {
        async fn request(
            &self,
            _: &StepContext<'_>,
            _: CallConfig,
        ) -> Result<CallConfig, HookError> {
            Err(broken())
        }
    }
    let (agent, _bench) = behind_a_turn_that(NoRequest).await;
    assert_eq!(waiting(&agent), after_the_claim());
    assert_eq!(all(&agent.session().log(), &EventKind::StepEnd).len(), 1);
}

#[tokio::test]
async fn those_of_an_abandoned_turn_are_queued_again_when_it_is_closed() {
    #[derive(Debug)]
    struct Waits;
    #[async_trait::async_trait]
    impl AgentHook for Waits {
        async fn pre_step(&self, _: &StepContext<'_>, _: Vec<Input>) -> Result<PreStep, HookError> {
            std::future::pending().await
        }
    }
    let bench = Bench::new();
    let mut setup = bench.setup(script(vec![says("Yes.")]));
    setup.hooks.push(Arc::new(Waits));
    let mut driver = offshoot_agent::Driver::new(bench.create(), setup);
    let data = serde_json::json!({
        "target": "next-turn", "start": 0, "inserted": [serde_json::from_str::<serde_json::Value>(kept("a").json()).unwrap()],
    });
    let draft = offshoot_session::EventDraft::log_only(EventKind::InboxSpliced, &data).unwrap();
    driver.session().append(draft, 1_000).unwrap();
    let session = driver.session().clone();
    let cancel = Cancel::new();
    let claimed = async {
        while session.log().pending_input().next_turn().len() == 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        done = driver.run(&cancel) => panic!("{done:?}"),
        () = claimed => {}
    }
    // Closing comes first; the turn that follows claims it and is abandoned, too.
    tokio::select! {
        done = driver.run(&cancel) => panic!("{done:?}"),
        () = async {
            while session.log().last_turn() < 2 || !session.log().pending_input().is_empty() {
                tokio::task::yield_now().await;
            }
        } => {}
    }
    insta::assert_snapshot!(outline(&session.log()), @r#"
    agent/inbox/spliced next-turn at 0 +"a"
    turn/start 1
    agent/inbox/spliced next-turn at 0 -1
    agent/inbox/spliced next-turn at 0 +"a"
    turn/end 1 aborted disposed
    turn/start 2
    agent/inbox/spliced next-turn at 0 -1
    "#);
}

#[tokio::test]
async fn one_that_was_said_is_not_queued_again_whatever_becomes_of_its_turn() {
    let bench = Bench::new();
    let failed = Attempt::Throw {
        chunks: Vec::new(),
        message: "busy".into(),
        code: "SERVER".into(),
    };
    let agent = bench.running(script(vec![failed]));
    agent.send(&kept("a"), NextTurn, Wake::Yes).unwrap();
    agent.when_idle().await;
    assert_eq!(waiting(&agent), (vec![], vec![]));
    let said = all(&agent.session().log(), &EventKind::UserMessage);
    assert_eq!(
        said[0]["source"],
        serde_json::json!({"kind": "user", "kept": true})
    );
}

#[tokio::test]
async fn all_of_a_turn_that_a_crash_interrupts_wait_again_when_the_session_is_opened() {
    let mut bench = Bench::new();
    let mut driver = bench.scripted(Vec::new());
    let session = driver.session().clone();
    let prompts = [kept("a"), note("b")];
    let inserted: Vec<serde_json::Value> = prompts
        .iter()
        .map(|input| serde_json::from_str(input.json()).unwrap())
        .collect();
    // As far as a process gets whose hook takes long.
    for (kind, data) in [
        (
            EventKind::InboxSpliced,
            serde_json::json!({"target": "next-step", "start": 0, "inserted": inserted}),
        ),
        (EventKind::TurnStart, serde_json::json!({"turn": 1})),
        (
            EventKind::InboxSpliced,
            serde_json::json!({"target": "next-step", "start": 0, "removedCount": 2, "inserted": []}),
        ),
    ] {
        let draft = offshoot_session::EventDraft::log_only(kind, &data).unwrap();
        session.append(draft, 1_000).unwrap();
    }
    driver.flush().unwrap();
    bench.crash(driver);
    let attached = bench.open(session.id());
    let agent = Agent::new(attached, bench.setup(script(vec![says("Yes.")])));
    // Nobody has decided that the one that is not kept goes unsaid.
    assert_eq!(
        waiting(&agent),
        (vec!["a".to_owned(), "b".to_owned()], vec![])
    );
    // Once: whoever opens it again finds what nobody has taken back.
    assert!(agent.remove("a").unwrap().is_some());
    agent.dispose().await.unwrap();
    driver = bench.agent(bench.open(session.id()), script(vec![says("Yes.")]));
    let left = driver.session().log();
    let left = left.pending_input().next_step().iter().cloned();
    let left: Vec<String> = left.map(|text| id_of(&text)).collect();
    assert_eq!(left, ["b"]);
    // A fork is of another conversation.
    let last = driver.session().log().end().last();
    let fork = bench.service.prepare_fork_of(&driver, last, None).await;
    let child = bench.service.store_fork(&fork.unwrap()).unwrap();
    let child = bench.agent(child, script(Vec::new()));
    assert!(child.session().log().pending_input().is_empty());
}
