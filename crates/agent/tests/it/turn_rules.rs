//! What a turn does with what hooks and models say (`reference/agent.md` §1.4 and §1.5).

use std::sync::{Arc, Mutex};

use offshoot_agent::{
    Agent, AgentHook, Cancel, CancelCause, Driver, HookError, InboxTarget, Input, PreStep, Queue,
    StepContext, TurnEndReason,
};
use offshoot_model::{CallConfig, ContentBlock, FinishReason, MessageSource};
use offshoot_session::{EventKind, EventLog};
use serde_json::json;

use crate::bench::{Bench, script};
use crate::hooks::{Before, Stopping, broken, enter};
use crate::outline::outline;
use crate::support::{all, answers, call, calls, endings, kinds, says};

/// The log of a turn that these hooks join.
async fn turn(
    bench: &Bench,
    attempts: Vec<offshoot_model::Attempt>,
    hooks: Vec<Arc<dyn AgentHook>>,
) -> EventLog {
    let mut setup = bench.setup(script(attempts));
    setup.hooks = hooks;
    let agent = Agent::new(bench.create(), setup);
    agent.followup("Hi.").unwrap();
    agent.when_idle().await;
    agent.session().log()
}

fn said(log: &EventLog) -> Vec<String> {
    all(log, &EventKind::UserMessage)
        .iter()
        .filter(|message| message["source"]["kind"] != "runtime-context")
        .map(|message| message["content"][0]["text"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_hook_that_rejects_loses_what_was_claimed_and_parks_the_rest() {
    let bench = Bench::new();
    let mut setup = bench.setup(script(vec![says("Fine.")]));
    let first = Mutex::new(true);
    setup.hooks.push(Arc::new(Before::steps(move |_, messages| {
        if std::mem::take(&mut *first.lock().unwrap()) {
            Ok(PreStep::Reject)
        } else {
            Ok(enter(messages))
        }
    })));
    let agent = Agent::new(bench.create(), setup);
    agent.inject("lost too").unwrap();
    agent.followup("lost").unwrap();
    agent.followup("parked").unwrap();
    agent.when_idle().await;
    assert_eq!(endings(&agent.session().log()), ["blocked"]);
    assert!(said(&agent.session().log()).is_empty());
    agent.steer("now").unwrap();
    agent.when_idle().await;
    assert_eq!(said(&agent.session().log()), ["now", "parked"]);
}

#[tokio::test]
async fn what_enters_a_step_is_what_the_hooks_say_one_after_the_other() {
    let bench = Bench::new();
    let rewrites = Before::steps(|_, messages| {
        let first = Input::user(messages[0].id(), "Rewritten.");
        Ok(enter(vec![first]))
    });
    let adds = Before::steps(|_, mut messages| {
        assert_eq!(
            messages.len(),
            1,
            "it sees what the one before it has decided"
        );
        let source = MessageSource::of_kind("skill-catalog");
        let content = vec![ContentBlock::text("Besides.")];
        messages.push(Input::blocks("more", content, source));
        Ok(enter(messages))
    });
    let log = turn(
        &bench,
        vec![says("Yes.")],
        vec![Arc::new(rewrites), Arc::new(adds)],
    )
    .await;
    assert_eq!(said(&log), ["Rewritten.", "Besides."]);
    assert_eq!(
        all(&log, &EventKind::UserMessage)[1]["source"],
        json!({"kind": "skill-catalog"})
    );
}

#[tokio::test]
async fn a_first_step_that_nothing_enters_does_not_begin_and_a_later_one_ends_the_turn() {
    let bench = Bench::new();
    let nothing = Before::steps(|_, _| Ok(enter(Vec::new())));
    let log = turn(&bench, Vec::new(), vec![Arc::new(nothing)]).await;
    assert_eq!(endings(&log), ["completed"]);
    assert!(!kinds(&log).contains(&"step/start"));

    let bench = Bench::new();
    let first_only =
        Before::steps(|step, messages| Ok(enter(if step == 1 { messages } else { Vec::new() })));
    let steers = Stopping::with(vec![Ok(vec![Input::user("more", "More.")])]);
    let hooks: Vec<Arc<dyn AgentHook>> = vec![Arc::new(first_only), Arc::new(steers)];
    let log = turn(&bench, vec![says("One.")], hooks).await;
    assert_eq!(endings(&log), ["completed"]);
    assert_eq!(all(&log, &EventKind::StepStart).len(), 1);
}

/// Behind tools the model goes on although nobody has said anything.
#[tokio::test]
async fn a_step_behind_tools_needs_no_message() {
    let bench = Bench::new();
    let first_only =
        Before::steps(|step, messages| Ok(enter(if step == 1 { messages } else { Vec::new() })));
    let attempts = vec![calls([("a", "look", "{}")]), says("Done.")];
    let log = turn(&bench, attempts, vec![Arc::new(first_only)]).await;
    assert_eq!(all(&log, &EventKind::StepStart).len(), 2);
}

#[tokio::test]
async fn whoever_has_more_to_say_when_a_turn_would_end_gets_a_step() {
    let bench = Bench::new();
    let note = |id: &str| Input::user(id, id);
    let steers = Stopping::with(vec![
        Ok(vec![note("a"), note("b")]),
        Ok(Vec::new()),
        Err(broken()),
    ]);
    let attempts = vec![says("One."), says("Two."), says("Three.")];
    let mut setup = bench.setup(script(attempts));
    setup.hooks.push(Arc::new(steers));
    let agent = Agent::new(bench.create(), setup);
    agent.followup("Hi.").unwrap();
    agent.when_idle().await;
    let log = agent.session().log();
    assert_eq!(endings(&log), ["completed"]);
    assert_eq!(said(&log), ["Hi.", "a", "b"]);
    agent.followup("Again.").unwrap();
    agent.when_idle().await;
    let ends = all(&agent.session().log(), &EventKind::TurnEnd);
    assert_eq!(ends[1]["reason"]["error"]["code"], "HOOK_BROKE");
}

#[tokio::test]
async fn being_cut_off_sticks_to_its_turn_and_to_no_other_and_runs_no_tool() {
    let bench = Bench::new();
    let cut_off = answers(vec![call("a", "change", "{}")], FinishReason::MaxTokens);
    let nothing = answers(Vec::new(), FinishReason::MaxTokens);
    let steers = Stopping::with(vec![Ok(vec![Input::user("more", "More.")])]);
    let mut setup = bench.setup(script(vec![nothing, says("Two."), says("Three.")]));
    setup.hooks.push(Arc::new(steers));
    let agent = Agent::new(bench.create(), setup);
    agent.followup("One.").unwrap();
    agent.followup("Next.").unwrap();
    agent.when_idle().await;
    let log = agent.session().log();
    assert_eq!(endings(&log), ["max-tokens", "completed"]);
    // An answer with nothing in it is an event all the same.
    let first = &all(&log, &EventKind::AssistantMessage)[0]["message"]["content"];
    assert_eq!(*first, json!([]));

    let bench = Bench::new();
    let log = turn(&bench, vec![cut_off], Vec::new()).await;
    assert_eq!(endings(&log), ["max-tokens"]);
    assert!(bench.work.done().is_empty());
    assert_eq!(log.findings().count(), 0);
}

#[tokio::test]
async fn a_new_series_is_said_with_the_header_of_the_step_that_starts_it() {
    let bench = Bench::new();
    let starts = Before::steps(|step, messages| {
        Ok(PreStep::Enter {
            messages,
            starts_series: step == 2,
        })
    });
    let two = || calls([("a", "look", "{}")]);
    let log = turn(
        &bench,
        vec![two(), calls([("b", "look", "{}")]), says("Done.")],
        vec![Arc::new(starts)],
    )
    .await;
    let reasons: Vec<_> = all(&log, &EventKind::RequestHeader)
        .iter()
        .map(|header| header["reason"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(reasons, ["initial", "series"]);
}

#[tokio::test]
async fn a_turn_that_is_cancelled_while_a_hook_decides_is_cancelled_whatever_it_says() {
    #[derive(Debug)]
    struct Slow(Arc<Mutex<Option<Agent>>>, bool);
    #[async_trait::async_trait]
    impl AgentHook for Slow {
        async fn pre_step(
            &self,
            cx: &StepContext<'_>,
            messages: Vec<Input>,
        ) -> Result<PreStep, HookError> {
            let agent = self.0.lock().unwrap().take().unwrap();
            agent.cancel(CancelCause::User, Queue::Keep).unwrap();
            cx.cancel.cancelled().await;
            if self.1 {
                Err(broken())
            } else {
                Ok(enter(messages))
            }
        }
    }
    for fails in [false, true] {
        let bench = Bench::new();
        let slot: Arc<Mutex<Option<Agent>>> = Arc::default();
        let mut setup = bench.setup(script(Vec::new()));
        setup.hooks.push(Arc::new(Slow(Arc::clone(&slot), fails)));
        let agent = Agent::new(bench.create(), setup);
        *slot.lock().unwrap() = Some(agent.clone());
        agent.followup("Hi.").unwrap();
        agent.when_idle().await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(outline(&agent.session().log()), @r#"
            agent/inbox/spliced next-turn at 0 +"Hi."
            turn/start 1
            agent/inbox/spliced next-turn at 0 -1
            turn/end 1 aborted user
            "#);
        }
    }
}

/// A step that fails in between answers what it has asked for (`reference/agent.md` §1.10).
#[tokio::test]
async fn a_request_that_a_hook_spoils_behind_tools_leaves_no_call_unanswered() {
    #[derive(Debug)]
    struct SecondRequest(Mutex<usize>);
    #[async_trait::async_trait]
    impl AgentHook for SecondRequest {
        async fn request(
            &self,
            _: &StepContext<'_>,
            config: CallConfig,
        ) -> Result<CallConfig, HookError> {
            let mut count = self.0.lock().unwrap();
            *count += 1;
            if *count == 2 {
                Err(broken())
            } else {
                Ok(config)
            }
        }
    }
    let bench = Bench::new();
    let mut setup = bench.setup(script(vec![calls([("a", "look", "{}")]), says("Fine.")]));
    setup.hooks.push(Arc::new(SecondRequest(Mutex::new(0))));
    let mut agent = Driver::new(bench.create(), setup);
    agent.submit("Look.").unwrap();
    let reports = agent.run(&Cancel::new()).await.unwrap();
    assert!(matches!(reports[0].reason, TurnEndReason::Error { .. }));
    agent.submit("Again.").unwrap();
    let reports = agent.run(&Cancel::new()).await.unwrap();
    assert_eq!((reports[0].turn, &*reports[0].text), (2, "Fine."));
}

#[tokio::test]
async fn what_a_hook_steers_under_a_name_that_was_used_fails_its_turn_and_nothing_else() {
    let bench = Bench::new();
    let same = || Ok(vec![Input::user("same", "Same.")]);
    let mut setup = bench.setup(script(vec![says("1"), says("2"), says("3")]));
    setup
        .hooks
        .push(Arc::new(Stopping::with(vec![same(), same()])));
    let agent = Agent::new(bench.create(), setup);
    agent.followup("Hi.").unwrap();
    agent.when_idle().await;
    let log = agent.session().log();
    assert_eq!(endings(&log), ["error"]);
    let error = &all(&log, &EventKind::TurnEnd)[0]["reason"]["error"];
    assert_eq!(error["code"], "UNKNOWN");
    let after = Input::user("other", "Other.");
    agent
        .send(&after, InboxTarget::NextTurn, offshoot_agent::Wake::Yes)
        .unwrap();
    agent.when_idle().await;
    assert_eq!(endings(&agent.session().log()), ["error", "completed"]);
}
