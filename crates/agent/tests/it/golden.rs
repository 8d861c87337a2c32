//! The sequences of `reference/agent.md` §1.12 as format V4 has them, whole.

use std::sync::Arc;

use offshoot_agent::{Agent, CancelCause, Input, PreStep, Queue};
use offshoot_model::{Attempt, Chunk, Model};
use offshoot_session::LogOffset;

use crate::bench::{Bench, script};
use crate::hooks::Before;
use crate::outline::{outline, outline_from};
use crate::points::{Probe, ProbedHook};
use crate::support::{calls, says};

/// The log of an agent that was asked one thing, once it is idle.
async fn asked(bench: &Bench, model: Arc<dyn Model>) -> String {
    let agent = bench.running(model);
    agent.followup("Hi.").unwrap();
    finished(&agent).await
}

async fn finished(agent: &Agent) -> String {
    agent.when_idle().await;
    outline(&agent.session().log())
}

fn reasoning_and_text() -> Vec<Chunk> {
    vec![
        Chunk::ReasoningDelta {
            index: 0,
            text: "Hm.".into(),
        },
        Chunk::TextDelta {
            index: 1,
            text: "As far".into(),
        },
        Chunk::ToolCallDelta {
            index: 2,
            id: "a".into(),
            name: Some("look".into()),
            arguments_delta: "{".into(),
        },
    ]
}

#[tokio::test]
async fn a_text_turn_and_the_one_after_it() {
    let bench = Bench::new();
    let agent = bench.running(script(vec![says("Hello."), says("Again.")]));
    agent.inject("A note.").unwrap();
    agent.followup("Hi.").unwrap();
    insta::assert_snapshot!("text_turn", finished(&agent).await);
    let end = agent.session().log().end();
    agent.followup("Again?").unwrap();
    agent.when_idle().await;
    let log = agent.session().log();
    insta::assert_snapshot!("second_text_turn", outline_from(&log, end));
}

#[tokio::test]
async fn a_tool_turn_with_a_note_that_comes_while_it_runs() {
    let bench = Bench::new();
    let hold = bench.work.hold("a");
    let two = calls([("a", "look", "{}"), ("b", "look", "{}")]);
    let agent = bench.running(script(vec![two, says("Noted.")]));
    agent.followup("Look.").unwrap();
    hold.started.cancelled().await;
    agent.inject("By the way.").unwrap();
    hold.released.cancel();
    insta::assert_snapshot!("tool_turn", finished(&agent).await);
}

#[tokio::test]
async fn a_blocked_prompt() {
    let bench = Bench::new();
    let mut setup = bench.setup(script(Vec::new()));
    let hook = Before::steps(|_, _| Ok(PreStep::Reject));
    setup.hooks.push(Arc::new(hook));
    let agent = Agent::new(bench.create(), setup);
    agent.inject("A note.").unwrap();
    agent.followup("Hi.").unwrap();
    agent.followup("And?").unwrap();
    insta::assert_snapshot!("blocked", finished(&agent).await);
}

#[tokio::test]
async fn cancelled_before_the_claim() {
    let bench = Bench::new();
    let agent = bench.running(script(Vec::new()));
    agent.followup("Hi.").unwrap();
    agent.cancel(CancelCause::User, Queue::Clear).unwrap();
    insta::assert_snapshot!("cancelled_before_the_claim", finished(&agent).await);
}

/// Cancels when the answer hangs behind these chunks.
async fn cancelled_behind(chunks: Vec<Chunk>, cause: CancelCause) -> String {
    let bench = Bench::new();
    let count = chunks.len();
    let agent = bench.running(script(vec![Attempt::Hang { chunks }]));
    agent.followup("Hi.").unwrap();
    let has_come = || agent.live_answer().map(|answer| answer.chunks().count());
    while has_come() != Some(count) {
        tokio::task::yield_now().await;
    }
    agent.cancel(cause, Queue::Clear).unwrap();
    finished(&agent).await
}

#[tokio::test]
async fn cancelled_in_the_middle_of_an_answer() {
    let hook = CancelCause::Hook {
        reason: "enough".into(),
    };
    insta::assert_snapshot!(
        "cancelled_mid_stream",
        cancelled_behind(reasoning_and_text(), hook).await
    );
    let blank = vec![Chunk::TextDelta {
        index: 0,
        text: " \n".into(),
    }];
    insta::assert_snapshot!(
        "cancelled_with_nothing_to_see",
        cancelled_behind(blank, CancelCause::Parent).await
    );
}

#[tokio::test]
async fn a_provider_that_fails_and_one_that_is_asked_again() {
    let failed = || Attempt::Throw {
        chunks: reasoning_and_text(),
        message: "busy".into(),
        code: "SERVER".into(),
    };
    let bench = Bench::new();
    insta::assert_snapshot!(
        "provider_error",
        asked(&bench, script(vec![failed()])).await
    );

    let bench = Bench::new();
    let mut setup = bench.setup(script(vec![failed(), says("Hello.")]));
    setup.hooks.push(Arc::new(ProbedHook {
        probe: Probe::default(),
        steers: Default::default(),
    }));
    let agent = Agent::new(bench.create(), setup);
    agent.followup("Hi.").unwrap();
    insta::assert_snapshot!("asked_again", finished(&agent).await);
}

#[tokio::test]
async fn an_idle_note_is_one_event() {
    let bench = Bench::new();
    let agent = bench.running(script(Vec::new()));
    agent.inject("A note.").unwrap();
    insta::assert_snapshot!(finished(&agent).await, @r#"agent/inbox/spliced next-step at 0 +"A note.""#);
}

#[tokio::test]
async fn a_prompt_that_is_taken_back_before_it_is_claimed() {
    let bench = Bench::new();
    let agent = bench.running(script(Vec::new()));
    let id = agent.followup("Hi.").unwrap();
    agent.remove(&id).unwrap();
    insta::assert_snapshot!("taken_back", finished(&agent).await);
}

#[tokio::test]
async fn a_burst_of_prompts() {
    let bench = Bench::new();
    let agent = bench.running(script(vec![says("1"), says("2"), says("3")]));
    for text in ["One.", "Two.", "Three."] {
        agent.followup(text).unwrap();
    }
    insta::assert_snapshot!("burst", finished(&agent).await);
}

#[tokio::test]
async fn a_restart_in_the_middle_of_a_turn_and_the_turn_after_it() {
    let mut bench = Bench::new();
    let hold = bench.work.hold("a");
    let two = calls([("a", "change", "{}"), ("b", "change", "{}")]);
    let mut agent = bench.scripted(vec![two]);
    agent.submit("Change both.").unwrap();
    let cancel = offshoot_agent::Cancel::new();
    tokio::select! {
        done = agent.run(&cancel) => panic!("{done:?}"),
        () = hold.started.cancelled() => {}
    }
    let id = agent.session().id().clone();
    bench.crash(agent);
    let stored = bench.log(&id).end();
    let agent = Agent::new(bench.open(&id), bench.setup(script(vec![says("Fine.")])));
    agent.followup("Go on.").unwrap();
    agent.when_idle().await;
    let log = agent.session().log();
    insta::assert_snapshot!("resumed", outline_from(&log, stored));
}

#[tokio::test]
async fn a_fork_in_the_middle_of_a_turn_and_its_own_turn() {
    let bench = Bench::new();
    let hold = bench.work.hold("a");
    let two = calls([("a", "change", "{}"), ("b", "change", "{}")]);
    let agent = bench.running(script(vec![two, says("Done.")]));
    agent.followup("Change both.").unwrap();
    hold.started.cancelled().await;
    // What waits for the parent does not wait for the child.
    agent.followup("And then?").unwrap();
    let at = agent.session().log().end().last();
    let fork = bench
        .service
        .prepare_fork_of(&agent, at, None)
        .await
        .unwrap();
    let child = bench.service.store_fork(&fork).unwrap();
    let child = Agent::new(child, bench.setup(script(vec![says("Fine.")])));
    assert_eq!(child.pending().unwrap(), offshoot_agent::Pending::default());
    child.followup("Go on here.").unwrap();
    child.when_idle().await;
    let from = LogOffset::new(at.unwrap().get() + 1);
    let log = child.session().log();
    insta::assert_snapshot!("forked", outline_from(&log, from));
    hold.released.cancel();
    agent.cancel(CancelCause::User, Queue::Clear).unwrap();
    agent.when_idle().await;
}

#[tokio::test]
async fn a_kept_prompt_that_was_claimed_and_never_said() {
    let bench = Bench::new();
    let mut setup = bench.setup(script(vec![says("At last.")]));
    let blocks = std::sync::atomic::AtomicBool::new(true);
    let hook = Before::steps(move |_, messages| {
        if blocks.swap(false, std::sync::atomic::Ordering::SeqCst) {
            return Ok(PreStep::Reject);
        }
        Ok(crate::hooks::enter(messages))
    });
    setup.hooks.push(Arc::new(hook));
    let agent = Agent::new(bench.create(), setup);
    let kept = Input::user("kept", "Keep this.").kept();
    agent
        .send(
            &kept,
            offshoot_agent::InboxTarget::NextTurn,
            offshoot_agent::Wake::Yes,
        )
        .unwrap();
    agent.when_idle().await;
    agent.steer("Now.").unwrap();
    insta::assert_snapshot!("kept", finished(&agent).await);
}
