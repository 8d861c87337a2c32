//! A note of a side session comes into its parent: whatever that is doing, once, and in a place where messages belong.

use std::sync::Arc;

use offshoot_agent::{
    Agent, AgentStatus, CancelCause, InboxTarget, Input, Merged, PreStep, Queue, SessionService,
    Wake,
};
use offshoot_model::Attempt;
use offshoot_session::LogOffset;
use offshoot_test_support::{Reply, ScriptedModelServer};

use crate::bench::{Bench, over_http, script};
use crate::beside::{after_a_turn, note, notes, one_and, said_once, side_of};
use crate::hooks::{Before, enter};
use crate::outline::outline_from;
use crate::support::{calls, endings, says};

const TEXT: &str = "It is the cache.";

/// The log behind what the first turn has left.
fn since(agent: &Agent, from: LogOffset) -> String {
    outline_from(&agent.session().log(), from)
}

#[tokio::test]
async fn an_idle_parent_is_not_woken_and_says_it_first_when_it_goes_on() {
    let bench = Bench::new();
    let parent = after_a_turn(&bench, bench.setup(one_and(vec![says("I see.")]))).await;
    let child = side_of(&bench, &parent).await;
    let begin = parent.session().log().end();
    let handback = note(&child, TEXT);
    assert_eq!(
        bench.service.merge(&handback).await.unwrap(),
        Merged::Queued
    );
    assert_eq!(parent.status(), AgentStatus::Idle);
    // Durable, without anything else that would have made it so.
    let stored = bench.log(parent.session().id());
    assert_eq!(stored.end(), begin.seq().after());
    parent.followup("Go on.").unwrap();
    parent.when_idle().await;
    said_once(parent.session(), TEXT);
    insta::assert_snapshot!(since(&parent, begin), @r#"
    agent/inbox/spliced next-step at 0 +"A note from the side session `session-id-5` of this conversa"…
    agent/inbox/spliced next-turn at 0 +"Go on."
    turn/start 2
    agent/inbox/spliced next-step at 0 -1
    agent/inbox/spliced next-turn at 0 -1
    step/start 2.1
    user/message sidechat handback
    user/message "Go on."
    assistant/message 2.1 [text "I see."]
    step/end 2.1
    turn/end 2 completed
    "#);
}

#[tokio::test]
async fn a_parent_whose_answer_is_coming_in_has_it_in_its_next_step() {
    let bench = Bench::new();
    let (reply, gate) = Reply::text("One two three.").stall_after(3);
    let server = ScriptedModelServer::start([Reply::text("One."), reply, Reply::text("I see.")]);
    let parent = after_a_turn(&bench, bench.setup(over_http(&server))).await;
    let child = side_of(&bench, &parent).await;
    let begin = parent.session().log().end();
    parent.followup("Count.").unwrap();
    gate.reached().await;
    let merged = bench.service.merge(&note(&child, TEXT)).await.unwrap();
    assert_eq!(merged, Merged::Queued);
    gate.release();
    parent.when_idle().await;
    said_once(parent.session(), TEXT);
    insta::assert_snapshot!(since(&parent, begin), @r#"
    agent/inbox/spliced next-turn at 0 +"Count."
    turn/start 2
    agent/inbox/spliced next-turn at 0 -1
    step/start 2.1
    user/message "Count."
    agent/inbox/spliced next-step at 0 +"A note from the side session `session-id-5` of this conversa"…
    assistant/message 2.1 [text "One two three."]
    step/end 2.1
    agent/inbox/spliced next-step at 0 -1
    step/start 2.2
    user/message sidechat handback
    assistant/message 2.2 [text "I see."]
    step/end 2.2
    turn/end 2 completed
    "#);
    server.finish();
}

#[tokio::test]
async fn a_parent_with_calls_that_run_has_it_behind_their_results() {
    let bench = Bench::new();
    let hold = bench.work.hold("b");
    let two = calls([("a", "look", "{}"), ("b", "look", "{}")]);
    let setup = bench.setup(one_and(vec![two, says("I see.")]));
    let parent = after_a_turn(&bench, setup).await;
    let child = side_of(&bench, &parent).await;
    let begin = parent.session().log().end();
    parent.followup("Look.").unwrap();
    hold.started.cancelled().await;
    let merged = bench.service.merge(&note(&child, TEXT)).await.unwrap();
    assert_eq!(merged, Merged::Queued);
    hold.released.cancel();
    parent.when_idle().await;
    said_once(parent.session(), TEXT);
    insta::assert_snapshot!(since(&parent, begin), @r#"
    agent/inbox/spliced next-turn at 0 +"Look."
    turn/start 2
    agent/inbox/spliced next-turn at 0 -1
    step/start 2.1
    user/message "Look."
    assistant/message 2.1 [look(a), look(b)]
    tool/call a look
    tool/call b look
    tool/result a ok
    agent/inbox/spliced next-step at 0 +"A note from the side session `session-id-5` of this conversa"…
    tool/result b ok
    step/end 2.1
    agent/inbox/spliced next-step at 0 -1
    step/start 2.2
    user/message sidechat handback
    assistant/message 2.2 [text "I see."]
    step/end 2.2
    turn/end 2 completed
    "#);
}

/// Cancels a parent right behind the merge, whatever it is doing, and lets it go on later.
async fn cancelled_right_after(
    attempt: Attempt,
    begun: impl AsyncFnOnce(&Bench, &Agent),
) -> String {
    let bench = Bench::new();
    let setup = bench.setup(one_and(vec![attempt, says("I see.")]));
    let parent = after_a_turn(&bench, setup).await;
    let child = side_of(&bench, &parent).await;
    let begin = parent.session().log().end();
    parent.followup("Work.").unwrap();
    begun(&bench, &parent).await;
    let handback = note(&child, TEXT);
    bench.service.merge(&handback).await.unwrap();
    parent.cancel(CancelCause::User, Queue::Clear).unwrap();
    parent.when_idle().await;
    assert_eq!(endings(&parent.session().log()), ["completed", "aborted"]);
    assert_eq!(notes(&parent.session().log()), []);
    assert_eq!(
        bench.service.merge(&handback).await.unwrap(),
        Merged::Queued
    );
    parent.followup("Go on.").unwrap();
    parent.when_idle().await;
    let seq = said_once(parent.session(), TEXT);
    let merged = bench.service.merge(&handback).await.unwrap();
    assert_eq!(merged, Merged::Logged { seq });
    since(&parent, begin)
}

#[tokio::test]
async fn it_outlives_a_cancellation_of_an_answer() {
    let hangs = Attempt::Hang { chunks: Vec::new() };
    let log = cancelled_right_after(hangs, async |_, parent| {
        while parent.live_answer().is_none() {
            tokio::task::yield_now().await;
        }
    });
    insta::assert_snapshot!(log.await, @r#"
    agent/inbox/spliced next-turn at 0 +"Work."
    turn/start 2
    agent/inbox/spliced next-turn at 0 -1
    step/start 2.1
    user/message "Work."
    agent/inbox/spliced next-step at 0 +"A note from the side session `session-id-5` of this conversa"…
    assistant/attempt 2.1
    step/end 2.1
    turn/end 2 aborted user
    agent/inbox/spliced next-turn at 0 +"Go on."
    turn/start 3
    agent/inbox/spliced next-step at 0 -1
    agent/inbox/spliced next-turn at 0 -1
    step/start 3.1
    user/message sidechat handback
    user/message "Go on."
    assistant/message 3.1 [text "I see."]
    step/end 3.1
    turn/end 3 completed
    "#);
}

#[tokio::test]
async fn it_outlives_a_cancellation_of_calls() {
    let two = calls([("a", "look", "{}"), ("b", "change", "{}")]);
    let log = cancelled_right_after(two, async |bench, _| {
        bench.work.hold("a").started.cancelled().await;
    });
    insta::assert_snapshot!(log.await, @r#"
    agent/inbox/spliced next-turn at 0 +"Work."
    turn/start 2
    agent/inbox/spliced next-turn at 0 -1
    step/start 2.1
    user/message "Work."
    assistant/message 2.1 [look(a), change(b)]
    tool/call a look
    agent/inbox/spliced next-step at 0 +"A note from the side session `session-id-5` of this conversa"…
    tool/result a ABORTED
    tool/call b change
    tool/result b ABORTED_BEFORE_DISPATCH
    step/end 2.1
    turn/end 2 aborted user
    agent/inbox/spliced next-turn at 0 +"Go on."
    turn/start 3
    agent/inbox/spliced next-step at 0 -1
    agent/inbox/spliced next-turn at 0 -1
    step/start 3.1
    user/message sidechat handback
    user/message "Go on."
    assistant/message 3.1 [text "I see."]
    step/end 3.1
    turn/end 3 completed
    "#);
}

#[tokio::test]
async fn it_outlives_a_cancellation_of_a_parent_that_does_nothing() {
    let bench = Bench::new();
    let parent = after_a_turn(&bench, bench.setup(one_and(vec![says("I see.")]))).await;
    let child = side_of(&bench, &parent).await;
    parent
        .send(
            &Input::user("m", "Drop me."),
            InboxTarget::NextStep,
            Wake::No,
        )
        .unwrap();
    bench.service.merge(&note(&child, TEXT)).await.unwrap();
    parent.cancel(CancelCause::User, Queue::Clear).unwrap();
    let pending = parent.pending().unwrap();
    assert_eq!((pending.next_step.len(), pending.next_turn.len()), (1, 0));
    parent.followup("Go on.").unwrap();
    parent.when_idle().await;
    said_once(parent.session(), TEXT);
}

#[tokio::test]
async fn a_step_that_is_not_let_in_gives_it_back() {
    let bench = Bench::new();
    let mut setup = bench.setup(one_and(vec![says("I see.")]));
    // The first turn is let in, and the third.
    let turns = std::sync::Mutex::new(0);
    setup.hooks.push(Arc::new(Before::steps(move |_, messages| {
        let mut turns = turns.lock().unwrap();
        *turns += 1;
        Ok(if *turns == 2 {
            PreStep::Reject
        } else {
            enter(messages)
        })
    })));
    let parent = after_a_turn(&bench, setup).await;
    let child = side_of(&bench, &parent).await;
    let begin = parent.session().log().end();
    let handback = note(&child, TEXT);
    bench.service.merge(&handback).await.unwrap();
    parent.followup("Work.").unwrap();
    parent.when_idle().await;
    assert_eq!(endings(&parent.session().log()), ["completed", "blocked"]);
    assert_eq!(
        bench.service.merge(&handback).await.unwrap(),
        Merged::Queued
    );
    parent.followup("Go on.").unwrap();
    parent.when_idle().await;
    said_once(parent.session(), TEXT);
    insta::assert_snapshot!(since(&parent, begin), @r#"
    agent/inbox/spliced next-step at 0 +"A note from the side session `session-id-5` of this conversa"…
    agent/inbox/spliced next-turn at 0 +"Work."
    turn/start 2
    agent/inbox/spliced next-step at 0 -1
    agent/inbox/spliced next-turn at 0 -1
    agent/inbox/spliced next-step at 0 +"A note from the side session `session-id-5` of this conversa"…
    turn/end 2 blocked
    agent/inbox/spliced next-turn at 0 +"Go on."
    turn/start 3
    agent/inbox/spliced next-step at 0 -1
    agent/inbox/spliced next-turn at 0 -1
    step/start 3.1
    user/message sidechat handback
    user/message "Go on."
    assistant/message 3.1 [text "I see."]
    step/end 3.1
    turn/end 3 completed
    "#);
}

/// Between its claim and its `user/message` it is neither in the inbox nor in the conversation.
#[tokio::test]
async fn a_merge_that_is_made_again_while_a_step_begins_adds_nothing() {
    let bench = Bench::new();
    let (service, mut setup) = (
        bench.service.clone(),
        bench.setup(one_and(vec![says("I see.")])),
    );
    let again: Arc<std::sync::Mutex<Option<offshoot_agent::Handback>>> = Arc::default();
    setup
        .hooks
        .push(Arc::new(MergesAgain(service, Arc::clone(&again))));
    let parent = after_a_turn(&bench, setup).await;
    let child = side_of(&bench, &parent).await;
    let handback = note(&child, TEXT);
    *again.lock().unwrap() = Some(handback.clone());
    bench.service.merge(&handback).await.unwrap();
    parent.followup("Go on.").unwrap();
    parent.when_idle().await;
    assert_eq!(*again.lock().unwrap(), None, "it was made again");
    assert!(parent.pending().unwrap().next_step.is_empty());
    said_once(parent.session(), TEXT);
}

/// Makes a merge before a step.
#[derive(Debug)]
struct MergesAgain(
    SessionService,
    Arc<std::sync::Mutex<Option<offshoot_agent::Handback>>>,
);

#[async_trait::async_trait]
impl offshoot_agent::AgentHook for MergesAgain {
    async fn pre_step(
        &self,
        _: &offshoot_agent::StepContext<'_>,
        messages: Vec<Input>,
    ) -> Result<PreStep, offshoot_agent::HookError> {
        let handback = self.1.lock().unwrap().take();
        if let Some(handback) = handback {
            let merged = self.0.merge(&handback).await.unwrap();
            assert_eq!(merged, Merged::Queued);
        }
        Ok(enter(messages))
    }
}

#[tokio::test]
async fn it_is_known_across_restarts_wherever_it_stands() {
    let mut bench = Bench::new();
    let parent = after_a_turn(&bench, bench.setup(one_and(Vec::new()))).await;
    let id = parent.session().id().clone();
    let handback = note(&side_of(&bench, &parent).await, TEXT);
    bench.service.merge(&handback).await.unwrap();
    parent.dispose().await.unwrap();
    bench.restart();
    let length = bench.log(&id).end();
    assert_eq!(
        bench.service.merge(&handback).await.unwrap(),
        Merged::Queued
    );
    let mut agent = bench.agent(bench.open(&id), script(vec![says("I see.")]));
    crate::bench::ask(&mut agent, "Go on.").await;
    let seq = said_once(agent.session(), TEXT);
    drop(agent);
    bench.restart();
    let logged = Merged::Logged { seq };
    assert_eq!(bench.service.merge(&handback).await.unwrap(), logged);
    // What the three opened sessions have added: nothing that the parent says, and nothing that waits.
    assert_eq!(notes(&bench.log(&id)), [seq]);
    assert!(bench.log(&id).end() > length);
    assert!(bench.log(&id).pending_input().is_empty());
}
