//! When an agent begins and ceases to run (`reference/agent.md` §1.3).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use offshoot_agent::{Agent, AgentStatus, CancelCause, Notice, Queue, TurnEndReason};
use offshoot_model::Attempt;
use offshoot_session::{Event, EventKind, SessionObserver};

use crate::bench::{Bench, script};
use crate::hooks::{Before, broken, enter};
use crate::support::{all, calls, endings, kinds, says};

/// What was told of the agent's doings, in order: `running`, `idle`, `turn 1 completed`, `failed`.
type Doings = Arc<Mutex<Vec<String>>>;

fn watched(bench: &Bench, attempts: Vec<Attempt>) -> (Agent, Doings) {
    let doings = Doings::default();
    let heard = Arc::clone(&doings);
    let mut setup = bench.setup(script(attempts));
    setup.observer = Some(Arc::new(move |notice: &Notice| {
        let line = match notice {
            Notice::Status(AgentStatus::Running) => "running".to_owned(),
            Notice::Status(AgentStatus::Idle) => "idle".to_owned(),
            Notice::TurnEnded(report) => format!("turn {} {}", report.turn, report.reason.kind()),
            Notice::Failed(error) => format!("failed {}", error.code()),
            _ => return,
        };
        heard.lock().unwrap().push(line);
    }));
    (Agent::new(bench.create(), setup), doings)
}

fn hangs() -> Attempt {
    Attempt::Hang { chunks: Vec::new() }
}

fn prompts(agent: &Agent) -> Vec<String> {
    let said = all(&agent.session().log(), &EventKind::UserMessage);
    said.iter()
        .filter(|message| message["source"]["kind"] == "user")
        .map(|message| message["content"][0]["text"].as_str().unwrap().to_owned())
        .collect()
}

/// Waits until the model has been asked.
async fn answering(agent: &Agent) {
    while agent.live_answer().is_none() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn waking_an_idle_agent_opens_a_turn_before_anything_else_happens() {
    let bench = Bench::new();
    let (agent, doings) = watched(&bench, vec![says("Hello.")]);
    assert_eq!(agent.status(), AgentStatus::Idle);
    agent.followup("Hi.").unwrap();
    assert_eq!(agent.status(), AgentStatus::Running);
    assert_eq!(
        kinds(&agent.session().log()),
        ["agent/inbox/spliced", "turn/start"]
    );
    agent.when_idle().await;
    assert_eq!(agent.status(), AgentStatus::Idle);
    assert_eq!(
        *doings.lock().unwrap(),
        ["running", "turn 1 completed", "idle"]
    );
}

#[tokio::test]
async fn a_note_wakes_nobody() {
    let bench = Bench::new();
    let (agent, doings) = watched(&bench, Vec::new());
    agent.inject("A note.").unwrap();
    assert_eq!(kinds(&agent.session().log()), ["agent/inbox/spliced"]);
    agent.when_idle().await;
    assert!(doings.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_burst_is_one_turn_each_and_one_time_running() {
    let bench = Bench::new();
    let (agent, doings) = watched(&bench, vec![says("1"), says("2"), says("3")]);
    for prompt in ["a", "b", "c"] {
        agent.followup(prompt).unwrap();
    }
    agent.when_idle().await;
    assert_eq!(
        *doings.lock().unwrap(),
        [
            "running",
            "turn 1 completed",
            "turn 2 completed",
            "turn 3 completed",
            "idle"
        ]
    );
    assert_eq!(prompts(&agent), ["a", "b", "c"]);
}

#[tokio::test]
async fn behind_a_turn_that_did_not_complete_what_waits_is_parked_until_somebody_wakes_the_agent() {
    let failed = || Attempt::Throw {
        chunks: Vec::new(),
        message: "busy".into(),
        code: "SERVER".into(),
    };
    let bench = Bench::new();
    let (agent, doings) = watched(&bench, vec![failed(), says("2"), says("3")]);
    agent.followup("a").unwrap();
    agent.followup("b").unwrap();
    agent.when_idle().await;
    assert_eq!(*doings.lock().unwrap(), ["running", "turn 1 error", "idle"]);
    assert_eq!(agent.pending().unwrap().next_turn.len(), 1);
    // A note is no reason either.
    agent.inject("n").unwrap();
    agent.when_idle().await;
    assert_eq!(agent.pending().unwrap().next_step.len(), 1);
    agent.followup("c").unwrap();
    agent.when_idle().await;
    assert_eq!(prompts(&agent), ["a", "n", "b", "c"]);
}

#[tokio::test]
async fn cancelling_drops_what_waits_or_keeps_it() {
    for (queue, left) in [(Queue::Clear, 0), (Queue::Keep, 1)] {
        let bench = Bench::new();
        let (agent, _) = watched(&bench, vec![hangs(), says("Later.")]);
        agent.followup("a").unwrap();
        agent.followup("b").unwrap();
        answering(&agent).await;
        agent.cancel(CancelCause::User, queue).unwrap();
        agent.when_idle().await;
        assert_eq!(endings(&agent.session().log()), ["aborted"]);
        assert_eq!(agent.pending().unwrap().next_turn.len(), left);
    }
}

#[tokio::test]
async fn an_idle_cancellation_drops_what_waits_and_does_nothing_to_the_next_turn() {
    let bench = Bench::new();
    let (agent, _) = watched(&bench, vec![says("Hello.")]);
    agent.inject("A note.").unwrap();
    agent.cancel(CancelCause::User, Queue::Clear).unwrap();
    agent.cancel(CancelCause::User, Queue::Keep).unwrap();
    agent.followup("Hi.").unwrap();
    agent.when_idle().await;
    assert_eq!(endings(&agent.session().log()), ["completed"]);
    assert_eq!(prompts(&agent), ["Hi."]);
}

#[tokio::test]
async fn whoever_wakes_a_turn_that_is_being_cancelled_gets_one_of_their_own() {
    let bench = Bench::new();
    let (agent, doings) = watched(&bench, vec![hangs(), says("2"), says("3")]);
    agent.followup("a").unwrap();
    answering(&agent).await;
    agent.followup("b").unwrap();
    agent.cancel(CancelCause::User, Queue::Keep).unwrap();
    // It is too late for a step of the turn that ends.
    agent.steer("c").unwrap();
    let pending = agent.pending().unwrap();
    assert_eq!((pending.next_step.len(), pending.next_turn.len()), (0, 2));
    agent.when_idle().await;
    assert_eq!(prompts(&agent), ["a", "b", "c"]);
    assert_eq!(
        *doings.lock().unwrap(),
        [
            "running",
            "turn 1 aborted",
            "turn 2 completed",
            "turn 3 completed",
            "idle"
        ]
    );
}

#[tokio::test]
async fn a_note_that_comes_while_a_turn_is_being_cancelled_stays_a_note() {
    let bench = Bench::new();
    let (agent, _) = watched(&bench, vec![hangs()]);
    agent.followup("a").unwrap();
    answering(&agent).await;
    agent.cancel(CancelCause::User, Queue::Keep).unwrap();
    agent.inject("n").unwrap();
    agent.when_idle().await;
    assert_eq!(agent.pending().unwrap().next_step.len(), 1);
    assert_eq!(endings(&agent.session().log()), ["aborted"]);
}

#[tokio::test]
async fn who_takes_everything_back_takes_the_next_turn_back_with_it() {
    let bench = Bench::new();
    let (agent, _) = watched(&bench, vec![hangs()]);
    agent.followup("a").unwrap();
    answering(&agent).await;
    agent.cancel(CancelCause::User, Queue::Keep).unwrap();
    agent.followup("b").unwrap();
    agent.cancel(CancelCause::User, Queue::Clear).unwrap();
    agent.when_idle().await;
    assert_eq!(endings(&agent.session().log()), ["aborted"]);

    // Also when the message alone is taken back.
    let bench = Bench::new();
    let (agent, _) = watched(&bench, vec![hangs()]);
    agent.followup("a").unwrap();
    answering(&agent).await;
    agent.cancel(CancelCause::User, Queue::Keep).unwrap();
    let id = agent.followup("b").unwrap();
    agent.remove(&id).unwrap();
    agent.when_idle().await;
    assert_eq!(endings(&agent.session().log()), ["aborted"]);
}

#[tokio::test]
async fn the_first_cause_stands_in_the_log() {
    let bench = Bench::new();
    let (agent, _) = watched(&bench, vec![hangs()]);
    agent.followup("a").unwrap();
    answering(&agent).await;
    let hook = CancelCause::Hook {
        reason: "enough".into(),
    };
    agent.cancel(hook, Queue::Keep).unwrap();
    agent.cancel(CancelCause::User, Queue::Keep).unwrap();
    agent.dispose().await.unwrap();
    let log = bench.log(agent.session().id());
    assert_eq!(
        all(&log, &EventKind::TurnEnd)[0]["reason"],
        serde_json::json!({"kind": "aborted", "reason": {"kind": "hook", "reason": "enough"}})
    );
}

#[tokio::test]
async fn a_turn_that_is_disposed_of_is_never_made_up_for() {
    for woken_before in [false, true] {
        let bench = Bench::new();
        let (agent, doings) = watched(&bench, vec![hangs(), says("Never.")]);
        agent.followup("a").unwrap();
        answering(&agent).await;
        if woken_before {
            agent.cancel(CancelCause::Parent, Queue::Keep).unwrap();
        }
        agent.followup("b").unwrap();
        agent.dispose().await.unwrap();
        assert_eq!(
            *doings.lock().unwrap(),
            ["running", "turn 1 aborted", "idle"]
        );
        // It waits for whoever opens the session.
        let log = bench.log(agent.session().id());
        assert_eq!(log.pending_input().next_turn().len(), 1);
    }
}

#[tokio::test]
async fn a_turn_whose_start_is_refused_leaves_nothing_and_the_agent_goes_on_later() {
    struct NoTurns(Arc<Mutex<bool>>);
    impl SessionObserver for NoTurns {
        fn admit(&mut self, event: &Event) -> Result<(), String> {
            if *event.kind() == EventKind::TurnStart && *self.0.lock().unwrap() {
                return Err("no turns".to_owned());
            }
            Ok(())
        }

        fn event(&mut self, _: &Arc<Event>) -> Result<(), String> {
            Ok(())
        }
    }
    let bench = Bench::new();
    let (agent, doings) = watched(&bench, vec![says("1"), says("2")]);
    let refuses = Arc::new(Mutex::new(true));
    let observer = NoTurns(Arc::clone(&refuses));
    agent.session().lock().observe(Box::new(observer));
    agent.followup("a").unwrap();
    assert_eq!(agent.status(), AgentStatus::Idle);
    agent.when_idle().await;
    assert_eq!(kinds(&agent.session().log()), ["agent/inbox/spliced"]);
    assert_eq!(
        *doings.lock().unwrap(),
        ["running", "failed EVENT_REFUSED", "idle"]
    );
    *refuses.lock().unwrap() = false;
    agent.followup("b").unwrap();
    agent.when_idle().await;
    assert_eq!(prompts(&agent), ["a", "b"]);
}

#[tokio::test]
async fn hooks_that_fail_end_their_turn_and_no_other() {
    let bench = Bench::new();
    let mut setup = bench.setup(script(vec![says("Fine.")]));
    let count = AtomicUsize::new(0);
    setup.hooks.push(Arc::new(Before::steps(move |_, messages| {
        match count.fetch_add(1, Ordering::SeqCst) {
            0 => Err(broken()),
            1 => std::panic::panic_any("the hook fell over"),
            _ => Ok(enter(messages)),
        }
    })));
    let doings = Doings::default();
    let heard = Arc::clone(&doings);
    setup.observer = Some(Arc::new(move |notice: &Notice| match notice {
        Notice::TurnEnded(report) => {
            let TurnEndReason::Error { error } = &report.reason else {
                return;
            };
            heard.lock().unwrap().push(error.code.clone());
        }
        Notice::Failed(error) => heard.lock().unwrap().push(error.to_string()),
        _ => {}
    }));
    let agent = Agent::new(bench.create(), setup);
    for prompt in ["a", "b", "c"] {
        agent.followup(prompt).unwrap();
        agent.when_idle().await;
    }
    assert_eq!(
        endings(&agent.session().log()),
        ["error", "error", "completed"]
    );
    assert_eq!(
        *doings.lock().unwrap(),
        [
            "HOOK_BROKE",
            "UNKNOWN",
            "the turn ended unexpectedly: the hook fell over"
        ]
    );
}

#[tokio::test]
async fn maintenance_keeps_turns_out_and_makes_up_for_them_when_it_ends() {
    let bench = Bench::new();
    let (agent, doings) = watched(&bench, vec![says("1")]);
    let done = agent
        .run_maintenance(async |cancel| {
            assert_eq!(agent.status(), AgentStatus::Idle);
            let busy = agent.run_maintenance(async |_| ()).await.unwrap_err();
            assert_eq!(busy.code(), "BUSY");
            agent.followup("a").unwrap();
            tokio::task::yield_now().await;
            assert_eq!(kinds(&agent.session().log()), ["agent/inbox/spliced"]);
            assert_eq!(cancel.cause(), None);
            "done"
        })
        .await;
    assert_eq!(done.unwrap(), "done");
    assert_eq!(agent.status(), AgentStatus::Running);
    let busy = agent.run_maintenance(async |_| ()).await.unwrap_err();
    assert_eq!(busy.code(), "BUSY");
    agent.when_idle().await;
    assert_eq!(
        *doings.lock().unwrap(),
        ["running", "turn 1 completed", "idle"]
    );
}

#[tokio::test]
async fn maintenance_makes_up_for_no_turn_whose_message_was_taken_back() {
    let bench = Bench::new();
    let (agent, doings) = watched(&bench, Vec::new());
    let work = agent.run_maintenance(async |_| {
        let id = agent.followup("a").unwrap();
        agent.remove(&id).unwrap();
    });
    work.await.unwrap();
    let work = agent.run_maintenance(async |cancel| {
        agent.followup("b").unwrap();
        agent.cancel(CancelCause::User, Queue::Clear).unwrap();
        assert_eq!(cancel.cause(), Some(CancelCause::User));
    });
    work.await.unwrap();
    let work = agent.run_maintenance(async |_| agent.inject("a note").unwrap());
    work.await.unwrap();
    agent.when_idle().await;
    assert!(doings.lock().unwrap().is_empty());
}

#[tokio::test]
async fn maintenance_that_nobody_waits_for_any_more_is_over() {
    let bench = Bench::new();
    let (agent, _) = watched(&bench, vec![says("1")]);
    let begun = tokio::sync::Notify::new();
    let work = agent.run_maintenance(async |_| {
        begun.notify_one();
        std::future::pending::<()>().await;
    });
    tokio::select! {
        done = work => panic!("{done:?}"),
        () = async {
            begun.notified().await;
            agent.followup("a").unwrap();
        } => {}
    }
    agent.when_idle().await;
    assert_eq!(endings(&agent.session().log()), ["completed"]);
}

#[tokio::test]
async fn being_idle_is_waited_for_also_behind_a_failure_and_maintenance() {
    let bench = Bench::new();
    let (agent, _) = watched(&bench, Vec::new());
    agent.when_idle().await;
    agent.followup("a").unwrap();
    agent.when_idle().await;
    assert_eq!(endings(&agent.session().log()), ["error"]);
    let ended = Mutex::new(false);
    let work = agent.run_maintenance(async |_| {
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        *ended.lock().unwrap() = true;
    });
    let (work, ()) = tokio::join!(work, async {
        agent.when_idle().await;
        assert!(*ended.lock().unwrap());
    });
    work.unwrap();
}

/// The window between the last look at the queue and the end of the turn is as wide as an observer makes it.
#[tokio::test]
async fn whoever_cancels_from_an_observer_is_heard() {
    let bench = Bench::new();
    let slot: Arc<Mutex<Option<Agent>>> = Arc::default();
    let agent_of = Arc::clone(&slot);
    let mut setup = bench.setup(script(vec![says("1"), says("2")]));
    setup.observer = Some(Arc::new(move |notice: &Notice| {
        let Some(agent) = agent_of.lock().unwrap().clone() else {
            return;
        };
        match notice {
            Notice::TurnEnded(report) if report.turn == 1 => {
                agent.cancel(CancelCause::User, Queue::Keep).unwrap();
            }
            _ => {}
        }
    }));
    let agent = Agent::new(bench.create(), setup);
    *slot.lock().unwrap() = Some(agent.clone());
    agent.followup("a").unwrap();
    agent.followup("b").unwrap();
    agent.when_idle().await;
    // The turn was over; but nobody who cancels means the next one to begin.
    assert_eq!(endings(&agent.session().log()), ["completed"]);
    assert_eq!(agent.pending().unwrap().next_turn.len(), 1);
    agent.steer("c").unwrap();
    agent.when_idle().await;
    assert_eq!(prompts(&agent), ["a", "c", "b"]);
    agent.dispose().await.unwrap();
}

#[tokio::test]
async fn a_cancelled_turn_tells_its_tools() {
    let bench = Bench::new();
    let hold = bench.work.hold("a");
    let (agent, _) = watched(&bench, vec![calls([("a", "look", "{}")])]);
    agent.followup("Look.").unwrap();
    hold.started.cancelled().await;
    agent.cancel(CancelCause::User, Queue::Clear).unwrap();
    hold.told.cancelled().await;
    agent.when_idle().await;
    assert_eq!(endings(&agent.session().log()), ["aborted"]);
}
