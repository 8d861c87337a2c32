//! How a side session becomes an ordinary one.

use std::sync::Arc;

use offshoot_agent::{
    Agent, AgentHook, Cancel, CancelCause, Framing, HookError, Input, PreStep, Promoted, Queue,
    SideRequest, StepContext,
};
use offshoot_model::Attempt;
use offshoot_session::{EventKind, Seq, SessionId};
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, ask, script};
use crate::crowd::long;
use crate::outline::{numbered_from, outline_from};
use crate::parts::texts_of;
use crate::side_gate::is_denial;
use crate::side_sessions::{marks, parent, side, talking};
use crate::support::{calls, results, says};

/// The last event of the inherited part and the framing: what everything here stands behind.
const OWN: u64 = 15;

#[tokio::test]
async fn a_stored_one_is_told_by_a_message_that_belongs_to_no_turn() {
    let mut bench = Bench::new();
    let parent = parent(&bench).await;
    let mut child = talking(&bench, side(&bench, parent.session().id()));
    ask(&mut child, "Why?").await;
    let id = child.session().id().clone();
    drop((parent, child));
    bench.restart();
    let end = bench.log(&id).end();
    let promoted = bench.service.promote(&id).unwrap();
    let log = bench.log(&id);
    insta::assert_snapshot!(numbered_from(&log, end), @r"
    25 session/end-seed
    26 user/message sidechat promote
    ");
    let Promoted::Logged { seq } = promoted else {
        panic!("{promoted:?}");
    };
    assert_eq!(Some(seq), log.end().last());
    assert!(!log.is_side_session());
    insta::assert_snapshot!(texts_of(&log, "sidechat")[1]);

    // It is free, and may act.
    let model = script(vec![calls([("c", "change", "{}")]), says("Done.")]);
    let mut child = bench.agent(bench.open(&id), model);
    ask(&mut child, "Change it.").await;
    assert_eq!(results(&child.session().log())[0].2, "c is done");
    let told = texts_of(&child.session().log(), "runtime-context");
    assert!(!told.last().unwrap().contains("side session"), "{told:?}");
}

#[tokio::test]
async fn a_live_one_that_is_idle_is_told_at_once_and_durably() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let side = side(&bench, parent.session().id());
    let model = script(vec![calls([("c", "change", "{}")]), says("Done.")]);
    let child = Agent::new(side.attached, bench.setup(model));
    let id = child.session().id().clone();
    let promoted = bench.service.promote(&id).unwrap();
    assert_eq!(promoted, Promoted::Logged { seq: Seq::new(OWN) });
    assert_eq!(marks(&bench.log(&id)).len(), 2, "it is stored");
    child.followup("Change it.").unwrap();
    child.when_idle().await;
    assert_eq!(results(&child.session().log())[0].2, "c is done");
}

#[tokio::test]
async fn one_that_is_in_a_tool_is_told_in_its_next_step_and_never_between_call_and_result() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let side = side(&bench, parent.session().id());
    let hold = bench.work.hold("a");
    let model = script(vec![
        calls([("a", "look", "{}"), ("b", "change", "{}")]),
        calls([("c", "change", "{}")]),
        says("Done."),
    ]);
    let child = Agent::new(side.attached, bench.setup(model));
    let id = child.session().id().clone();
    child.followup("Change it.").unwrap();
    hold.started.cancelled().await;
    assert_eq!(bench.service.promote(&id).unwrap(), Promoted::Queued);
    assert_eq!(
        bench.log(&id).pending_input().next_step().len(),
        1,
        "it is stored"
    );
    // Whoever asks again gets the same.
    assert_eq!(bench.service.promote(&id).unwrap(), Promoted::Queued);
    hold.released.cancel();
    child.when_idle().await;
    let log = child.session().log();
    insta::assert_snapshot!(numbered_from(&log, Seq::new(OWN).before()), @r#"
    15 agent/inbox/spliced next-turn at 0 +"Change it."
    16 turn/start 2
    17 agent/inbox/spliced next-turn at 0 -1
    18 step/start 2.1
    19 user/message "Change it."
    20 user/message runtime-context
    21 request/header resume
    22 assistant/message 2.1 [look(a), change(b)]
    23 tool/call a look
    24 agent/inbox/spliced next-step at 0 +"This is no longer a side session: it goes on as a conversati"…
    25 tool/result a ok
    26 tool/call b change
    27 tool/result b ok
    28 step/end 2.1
    29 agent/inbox/spliced next-step at 0 -1
    30 step/start 2.2
    31 user/message sidechat promote
    32 user/message runtime-context
    33 assistant/message 2.2 [change(c)]
    34 tool/call c change
    35 tool/result c ok
    36 step/end 2.2
    37 step/start 2.3
    38 assistant/message 2.3 [text "Done."]
    39 step/end 2.3
    40 turn/end 2 completed
    "#);
    // Until it has been told it may only look.
    let denied = results(&log)
        .into_iter()
        .map(|(id, _, text)| (id, is_denial(&text)));
    let expected = [("a", false), ("b", true), ("c", false)];
    assert_eq!(
        denied.collect::<Vec<_>>(),
        expected.map(|(id, denied)| (id.to_owned(), denied))
    );
}

#[tokio::test]
async fn one_that_is_being_compacted_is_told_in_its_next_step() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let side = side(&bench, parent.session().id());
    let model = script(vec![
        says("Because."),
        Attempt::Hang { chunks: Vec::new() },
        says("Yes."),
    ]);
    let child = Agent::new(side.attached, bench.setup(Arc::clone(&model) as _));
    child.followup(&long("why", 400)).unwrap();
    child.when_idle().await;
    let work = child.clone();
    let compacting = tokio::spawn(async move { work.compact().await });
    while model.requests().len() < 2 {
        tokio::task::yield_now().await;
    }
    // Inside the bracket the conversation may not change.
    let promoted = bench.service.promote(child.session().id()).unwrap();
    assert_eq!(promoted, Promoted::Queued);
    assert!(child.session().log().is_side_session());
    child.cancel(CancelCause::User, Queue::Keep).unwrap();
    compacting.await.unwrap().unwrap_err();
    child.followup("May you act now?").unwrap();
    child.when_idle().await;
    let log = child.session().log();
    assert_eq!(marks(&log).last().unwrap().0, "promote");
    assert!(!log.is_side_session());
    child.dispose().await.unwrap();
}

#[tokio::test]
async fn a_promotion_that_waits_survives_a_cancellation_and_is_said_once() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let side = side(&bench, parent.session().id());
    let hold = bench.work.hold("a");
    let model = script(vec![calls([("a", "look", "{}")]), says("Done.")]);
    let child = Agent::new(side.attached, bench.setup(model));
    let id = child.session().id().clone();
    child.followup("Look.").unwrap();
    hold.started.cancelled().await;
    assert_eq!(bench.service.promote(&id).unwrap(), Promoted::Queued);
    child.cancel(CancelCause::User, Queue::Clear).unwrap();
    child.when_idle().await;
    assert!(child.session().log().is_side_session());
    // Nothing is running any more: now it can be said.
    let promoted = bench.service.promote(&id).unwrap();
    assert!(matches!(promoted, Promoted::Logged { .. }), "{promoted:?}");
    child.followup("Go on.").unwrap();
    child.when_idle().await;
    let acts: Vec<_> = marks(&bench.log(&id))
        .into_iter()
        .map(|(act, _)| act)
        .collect();
    assert_eq!(acts, ["framing", "promote"]);
}

#[tokio::test]
async fn one_whose_framing_waits_is_never_told() {
    for is_live in [true, false] {
        let bench = Bench::new();
        let parent = bench.running(script(Vec::new()));
        let side = bench
            .service
            .side_of(&parent, &SideRequest::default())
            .await;
        let side = side.unwrap();
        assert_eq!(side.framing, Framing::Waiting);
        let id = side.attached.session().id().clone();
        let model = || script(vec![calls([("c", "change", "{}")]), says("Done.")]);
        let child = is_live.then(|| Agent::new(side.attached, bench.setup(model())));
        assert_eq!(bench.service.promote(&id).unwrap(), Promoted::Withdrawn);
        assert!(bench.log(&id).pending_input().is_empty(), "that is stored");
        let again = bench.service.promote(&id).unwrap_err();
        assert_eq!(again.code(), "NOT_A_SIDE_SESSION");
        let child = child.unwrap_or_else(|| Agent::new(bench.open(&id), bench.setup(model())));
        child.followup("Change it.").unwrap();
        child.when_idle().await;
        let log = child.session().log();
        assert_eq!((marks(&log), &*results(&log)[0].2), (vec![], "c is done"));
    }
}

/// Holds the first step between the claim and what is said.
#[derive(Clone, Debug, Default)]
struct Gatekeeper {
    reached: CancellationToken,
    open: CancellationToken,
}

#[async_trait::async_trait]
impl AgentHook for Gatekeeper {
    async fn pre_step(
        &self,
        _: &StepContext<'_>,
        messages: Vec<Input>,
    ) -> Result<PreStep, HookError> {
        self.reached.cancel();
        self.open.cancelled().await;
        Ok(crate::hooks::enter(messages))
    }
}

#[tokio::test]
async fn one_whose_framing_is_just_being_said_is_told_both() {
    let bench = Bench::new();
    let parent = bench.running(script(Vec::new()));
    let side = bench
        .service
        .side_of(&parent, &SideRequest::default())
        .await;
    let keeper = Gatekeeper::default();
    let mut setup = bench.setup(script(vec![says("Because."), says("Good.")]));
    setup.hooks.push(Arc::new(keeper.clone()));
    let child = Agent::new(side.unwrap().attached, setup);
    let id = child.session().id().clone();
    child.followup("Why?").unwrap();
    keeper.reached.cancelled().await;
    assert_eq!(bench.service.promote(&id).unwrap(), Promoted::Queued);
    keeper.open.cancel();
    child.when_idle().await;
    let acts: Vec<_> = marks(&child.session().log())
        .into_iter()
        .map(|(act, _)| act)
        .collect();
    assert_eq!(acts, ["framing", "promote"]);
    assert!(!child.session().log().is_side_session());
}

#[tokio::test]
async fn one_whose_framing_a_crash_has_left_claimed_is_never_told() {
    let mut bench = Bench::new();
    let parent = bench.running(script(Vec::new()));
    let side = bench
        .service
        .side_of(&parent, &SideRequest::default())
        .await;
    drop(parent);
    let mut setup = bench.setup(script(Vec::new()));
    let keeper = Gatekeeper::default();
    setup.hooks.push(Arc::new(keeper.clone()));
    let mut child = offshoot_agent::Driver::new(side.unwrap().attached, setup);
    let id = child.session().id().clone();
    child.submit("Why?").unwrap();
    let cancel = Cancel::new();
    tokio::select! {
        done = child.run(&cancel) => panic!("{done:?}"),
        () = keeper.reached.cancelled() => {}
    }
    child.flush().unwrap();
    bench.crash(child);
    assert_eq!(bench.service.promote(&id).unwrap(), Promoted::Withdrawn);
    let left = bench.log(&id);
    assert_eq!(
        (
            left.pending_input().next_step().len(),
            left.pending_input().next_turn().len()
        ),
        (0, 1),
        "the question still waits"
    );
}

/// Refuses the end of every turn while it is told to.
#[derive(Clone, Default)]
struct NoEnd(Arc<std::sync::atomic::AtomicBool>);

impl offshoot_session::SessionObserver for NoEnd {
    fn admit(&mut self, event: &offshoot_session::Event) -> Result<(), String> {
        let refuses = self.0.load(std::sync::atomic::Ordering::SeqCst);
        match *event.kind() == EventKind::TurnEnd && refuses {
            true => Err("not now".to_owned()),
            false => Ok(()),
        }
    }

    fn event(&mut self, _: &Arc<offshoot_session::Event>) -> Result<(), String> {
        Ok(())
    }
}

#[tokio::test]
async fn one_whose_turn_could_not_be_closed_in_the_log_is_told_in_its_next_step() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let side = side(&bench, parent.session().id());
    let child = Agent::new(side.attached, bench.setup(script(vec![says("Good."); 2])));
    let id = child.session().id().clone();
    let no_end = NoEnd::default();
    let refuses = Arc::clone(&no_end.0);
    refuses.store(true, std::sync::atomic::Ordering::SeqCst);
    child.session().lock().observe(Box::new(no_end));
    child.followup("Why?").unwrap();
    child.when_idle().await;
    assert!(child.session().log().open_tail().turn().is_some());
    assert_eq!(bench.service.promote(&id).unwrap(), Promoted::Queued);
    refuses.store(false, std::sync::atomic::Ordering::SeqCst);
    child.followup("Go on.").unwrap();
    child.when_idle().await;
    let acts: Vec<_> = marks(&child.session().log())
        .into_iter()
        .map(|(act, _)| act)
        .collect();
    assert_eq!(acts, ["framing", "promote"]);
}

#[tokio::test]
async fn a_session_that_is_none_is_refused_and_not_touched() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let id = parent.session().id().clone();
    let mut child = talking(&bench, side(&bench, &id));
    ask(&mut child, "Why?").await;
    let fork = bench
        .service
        .prepare_fork(&bench.read(&id), None, None)
        .unwrap();
    let fork = bench.service.store_fork(&fork).unwrap();
    let fork_id = fork.session().id().clone();
    drop((parent, fork));
    for id in [&id, &fork_id] {
        let before = bench.bytes(id);
        let refused = bench.service.promote(id).unwrap_err();
        assert_eq!(refused.code(), "NOT_A_SIDE_SESSION");
        assert_eq!(bench.bytes(id), before);
    }
    let none = bench.service.promote(&SessionId::new("none")).unwrap_err();
    assert_eq!(none.code(), "SESSION_NOT_FOUND");
    // Open here, and not by an agent that could be told.
    let refused = bench.service.promote(child.session().id()).unwrap_err();
    assert_eq!(refused.code(), "SESSION_LIVE");
}

#[tokio::test]
async fn a_promotion_that_could_not_be_stored_is_stored_with_what_follows() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let side = side(&bench, parent.session().id());
    let child = Agent::new(side.attached, bench.setup(script(vec![says("Good.")])));
    let id = child.session().id().clone();
    bench.disk.fail(1..=1);
    assert!(bench.service.promote(&id).is_err());
    child.followup("Go on.").unwrap();
    child.when_idle().await;
    let log = bench.log(&id);
    insta::assert_snapshot!(outline_from(&log, Seq::new(OWN).before()), @r#"
    user/message sidechat promote
    agent/inbox/spliced next-turn at 0 +"Go on."
    turn/start 2
    agent/inbox/spliced next-turn at 0 -1
    step/start 2.1
    user/message "Go on."
    request/header resume
    assistant/message 2.1 [text "Good."]
    step/end 2.1
    turn/end 2 completed
    "#);
    assert_eq!(
        log.events()
            .filter(|event| *event.kind() == EventKind::TurnEnd)
            .count(),
        2
    );
}
