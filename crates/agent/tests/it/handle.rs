//! The handle: what watches it, how it ends, and how a service finds it.

use std::sync::{Arc, Mutex};

use offshoot_agent::{
    Agent, AgentObserver, AgentStatus, CancelCause, Found, Notice, Queue, SessionService,
};
use offshoot_format::Container;
use offshoot_model::Attempt;
use offshoot_session::{EventKind, EventLog};
use offshoot_store::{HOME_MARKER, JsonlStore};

use crate::bench::{Bench, ask, script};
use crate::support::{all, calls, endings, kinds, says};

fn hangs() -> Attempt {
    Attempt::Hang { chunks: Vec::new() }
}

async fn answering(agent: &Agent) {
    while agent.live_answer().is_none() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_observer_may_use_the_handle_and_hears_of_that_when_it_has_returned() {
    let bench = Bench::new();
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let slot: Arc<Mutex<Option<Agent>>> = Arc::default();
    let (log, agent_of) = (Arc::clone(&heard), Arc::clone(&slot));
    let mut setup = bench.setup(script(vec![says("1"), says("2")]));
    setup.observer = Some(Arc::new(move |notice: &Notice| {
        let agent = agent_of.lock().unwrap().clone().unwrap();
        let line = match notice {
            Notice::Stream(_) | Notice::Compaction(_) => return,
            Notice::Inserted { message } => format!("inserted {message}"),
            Notice::Claimed { message, turn } => format!("claimed {message} {turn}"),
            Notice::Status(status) => {
                if *status == AgentStatus::Running && agent.session().log().last_turn() == 1 {
                    log.lock().unwrap().push("follows up".into());
                    agent.followup("more").unwrap();
                    log.lock().unwrap().push("followed up".into());
                }
                format!("{status:?}")
            }
            Notice::TurnEnded(report) => format!("ended {}", report.turn),
            other => format!("{other:?}"),
        };
        log.lock().unwrap().push(line);
    }));
    let agent = Agent::new(bench.create(), setup);
    *slot.lock().unwrap() = Some(agent.clone());
    let first = agent.followup("first").unwrap();
    agent.when_idle().await;
    let heard = heard.lock().unwrap().clone();
    let second = heard[4].strip_prefix("inserted ").unwrap().to_owned();
    assert_eq!(
        heard,
        [
            format!("inserted {first}"),
            "follows up".into(),
            "followed up".into(),
            "Running".into(),
            format!("inserted {second}"),
            format!("claimed {first} 1"),
            "ended 1".into(),
            format!("claimed {second} 2"),
            "ended 2".into(),
            "Idle".into(),
        ]
    );
    agent.dispose().await.unwrap();
}

#[tokio::test]
async fn what_an_observer_panics_with_is_its_own_affair() {
    #[derive(Default)]
    struct Falls(Mutex<usize>);
    impl AgentObserver for Falls {
        fn notice(&self, _: &Notice) {
            *self.0.lock().unwrap() += 1;
            std::panic::panic_any("no");
        }
    }
    let bench = Bench::new();
    let falls = Arc::new(Falls::default());
    let mut setup = bench.setup(script(vec![says("1")]));
    setup.observer = Some(Arc::clone(&falls) as _);
    let agent = Agent::new(bench.create(), setup);
    agent.followup("Hi.").unwrap();
    agent.when_idle().await;
    assert_eq!(endings(&agent.session().log()), ["completed"]);
    let heard = falls
        .0
        .lock()
        .map_or_else(|poisoned| *poisoned.into_inner(), |heard| *heard);
    assert!(heard > 5, "{heard}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn notices_come_one_at_a_time_in_the_order_of_the_log_whoever_causes_them() {
    let bench = Bench::new();
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let (log, inside) = (Arc::clone(&heard), Mutex::new(()));
    let mut setup = bench.setup(script((0..40).map(|_| says("Yes.")).collect()));
    setup.observer = Some(Arc::new(move |notice: &Notice| {
        let _alone = inside.try_lock().expect("nobody else is being told");
        if let Notice::Inserted { message } = notice {
            log.lock().unwrap().push(message.to_string());
        }
    }));
    let agent = Agent::new(bench.create(), setup);
    let senders = (0..4).map(|_| {
        let agent = agent.clone();
        tokio::spawn(async move {
            for _ in 0..10 {
                agent.followup("Hi.").unwrap();
                tokio::task::yield_now().await;
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    agent.when_idle().await;
    let log = agent.session().log();
    let splices = log
        .events()
        .filter(|event| *event.kind() == EventKind::InboxSpliced);
    let inserted: Vec<String> = splices
        .filter_map(|event| {
            let data = crate::support::data(event);
            Some(data["inserted"][0]["id"].as_str()?.to_owned())
        })
        .collect();
    assert_eq!(inserted.len(), 40);
    assert_eq!(*heard.lock().unwrap(), inserted);
    assert_eq!(endings(&log).len(), 40, "a turn each");
}

#[tokio::test]
async fn disposing_ends_what_runs_and_frees_the_session_while_handles_remain() {
    let bench = Bench::new();
    let hold = bench.work.hold("a");
    let agent = bench.running(script(vec![calls([("a", "change", "{}")])]));
    agent.followup("Change it.").unwrap();
    hold.started.cancelled().await;
    let id = agent.session().id().clone();
    assert_eq!(bench.service.open(&id).unwrap_err().code(), "SESSION_LIVE");
    // Everybody who asks waits for the same end.
    let (one, other) = (agent.clone(), agent.clone());
    let (one, other) = tokio::join!(one.dispose(), other.dispose());
    one.unwrap();
    other.unwrap();
    let log = bench.log(&id);
    assert_eq!(kinds(&log), kinds(&agent.session().log()), "all is stored");
    assert_eq!(endings(&log), ["aborted"]);
    assert!(agent.is_disposed());
    for refused in [
        agent.followup("More?").map(|_| ()),
        agent.clear(),
        agent.run_maintenance(async |_| ()).await,
    ] {
        assert_eq!(refused.unwrap_err().code(), "AGENT_DISPOSED");
    }
    agent.cancel(CancelCause::User, Queue::Clear).unwrap();
    let again = Agent::new(bench.open(&id), bench.setup(script(vec![says("Yes.")])));
    again.followup("Go on.").unwrap();
    again.when_idle().await;
    assert_eq!(endings(&again.session().log()), ["aborted", "completed"]);
    assert_eq!(agent.session().log().end(), log.end());
}

#[tokio::test]
async fn disposing_waits_for_maintenance_and_tells_it() {
    let bench = Bench::new();
    let agent = bench.running(script(Vec::new()));
    let order: Mutex<Vec<&str>> = Mutex::default();
    let begun = tokio::sync::Notify::new();
    let work = agent.run_maintenance(async |cancel| {
        begun.notify_one();
        cancel.cancelled().await;
        assert_eq!(cancel.cause(), Some(CancelCause::Disposed));
        order.lock().unwrap().push("work");
    });
    let (work, ()) = tokio::join!(work, async {
        begun.notified().await;
        agent.dispose().await.unwrap();
        order.lock().unwrap().push("disposed");
    });
    work.unwrap();
    assert_eq!(*order.lock().unwrap(), ["work", "disposed"]);
}

#[tokio::test]
async fn disposing_says_what_could_not_be_stored_and_frees_the_session_all_the_same() {
    let bench = Bench::new();
    let agent = bench.running(script(Vec::new()));
    agent.inject("Stored.").unwrap();
    agent.flush().await.unwrap();
    agent.inject("Lost.").unwrap();
    bench.disk.fail(1..=usize::MAX);
    let error = agent.dispose().await.unwrap_err();
    assert_eq!(error.code(), "IO_ERROR");
    bench.disk.mend();
    let opened = bench.open(agent.session().id());
    assert_eq!(opened.session().log().pending_input().next_step().len(), 1);
}

#[tokio::test]
async fn the_last_handle_that_goes_ends_the_agent() {
    let bench = Bench::new();
    let agent = bench.running(script(vec![hangs()]));
    let id = agent.session().id().clone();
    let session = agent.session().clone();
    agent.followup("Hi.").unwrap();
    answering(&agent).await;
    let other = agent.clone();
    drop(agent);
    assert_eq!(other.status(), AgentStatus::Running);
    drop(other);
    // Its task lets go of the session as soon as the turn is closed.
    while bench.service.open(&id).is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(endings(&session.log()), ["aborted"]);
    assert_eq!(endings(&bench.log(&id)), ["aborted"]);
}

#[tokio::test]
async fn a_service_knows_the_agents_on_its_sessions() {
    let bench = Bench::new();
    let (one, two) = (
        bench.running(script(vec![says("Hi.")])),
        bench.running(script(Vec::new())),
    );
    let ids = |agents: &[Agent]| -> Vec<String> {
        agents
            .iter()
            .map(|agent| agent.session().id().to_string())
            .collect()
    };
    let listed = ids(&bench.service.agents());
    assert_eq!(listed, ids(&[one.clone(), two.clone()]));
    let id = one.session().id().clone();
    let Found::Agent(same) = bench.service.find_or_open(&id).unwrap() else {
        panic!("it is live");
    };
    same.followup("Hello.").unwrap();
    one.when_idle().await;
    assert_eq!(endings(&one.session().log()), ["completed"]);
    // Finding one does not keep it.
    drop(same);
    one.dispose().await.unwrap();
    assert!(bench.service.agent(&id).is_none());
    drop(two);
    assert!(bench.service.agents().is_empty());
    let Found::Opened(opened) = bench.service.find_or_open(&id).unwrap() else {
        panic!("it is not live");
    };
    // A session that is open without an agent cannot be opened either.
    assert_eq!(
        bench.service.find_or_open(&id).unwrap_err().code(),
        "SESSION_LIVE"
    );
    let again = Agent::new(opened.attached, bench.setup(script(Vec::new())));
    assert_eq!(
        bench.service.agent(&id).unwrap().session().id(),
        again.session().id()
    );
}

#[tokio::test]
async fn an_agent_is_forked_while_it_answers_by_the_service_that_it_is_of() {
    let bench = Bench::new();
    let agent = bench.running(script(vec![says("One."), hangs()]));
    agent.followup("First.").unwrap();
    agent.when_idle().await;
    agent.followup("Second.").unwrap();
    answering(&agent).await;
    let service = &bench.service;
    // What is coming in is no event yet; the turn that it is in is.
    let last = agent.session().log().end().last();
    let fork = service.prepare_fork_of(&agent, last, None).await.unwrap();
    let child = bench.agent(
        service.store_fork(&fork).unwrap(),
        script(vec![says("Two.")]),
    );
    let mut child = child;
    assert_eq!(ask(&mut child, "Again.").await[0].text, "Two.");
    assert_eq!(
        endings(&bench.log(child.session().id())),
        ["completed", "forked", "completed"]
    );
    let whole = service.prepare_fork_of(&agent, None, None).await.unwrap();
    assert_eq!(
        Some(whole.cut),
        agent.session().log().latest_completed_boundary()
    );

    let home = tempfile::tempdir().unwrap();
    std::fs::File::create_new(home.path().join(HOME_MARKER)).unwrap();
    let store = JsonlStore::new(home.path().join("sessions"), Container::Raw);
    let foreign = SessionService::new(Arc::new(store), bench.env.clone());
    let refused = foreign
        .prepare_fork_of(&agent, None, None)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "SESSION_NOT_LIVE");
    agent.dispose().await.unwrap();
    let refused = service
        .prepare_fork_of(&agent, None, None)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "SESSION_NOT_LIVE");
}

/// A runtime that ends takes its tasks with it. The agent is not left running.
#[test]
fn a_runtime_that_ends_in_the_middle_of_a_turn_leaves_an_idle_agent() {
    let bench = Bench::new();
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    };
    let first = runtime();
    let agent = first.block_on(async {
        let agent = bench.running(script(vec![hangs()]));
        agent.followup("Hi.").unwrap();
        answering(&agent).await;
        agent
    });
    assert_eq!(agent.status(), AgentStatus::Running);
    drop(first);
    assert_eq!(agent.status(), AgentStatus::Idle);
    let id = agent.session().id().clone();
    runtime().block_on(async {
        agent.dispose().await.unwrap();
        let again = Agent::new(bench.open(&id), bench.setup(script(vec![says("Yes.")])));
        again.followup("Still here?").unwrap();
        again.when_idle().await;
        assert_eq!(
            endings(&again.session().log()),
            ["interrupted", "completed"]
        );
    });
}

/// Whatever four hands do at the same time: nobody who wakes the agent is forgotten, and nothing runs beside anything else.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_many_hands_do_at_once_what_waits_is_answered_in_the_end() {
    let bench = Bench::new();
    let statuses: Arc<Mutex<Vec<AgentStatus>>> = Arc::default();
    let heard = Arc::clone(&statuses);
    let attempts = (0..400).map(|_| says("Yes.")).collect();
    let mut setup = bench.setup(script(attempts));
    setup.observer = Some(Arc::new(move |notice: &Notice| {
        if let Notice::Status(status) = notice {
            heard.lock().unwrap().push(*status);
        }
    }));
    let agent = Agent::new(bench.create(), setup);
    let hands = (0..4_usize).map(|hand| {
        let agent = agent.clone();
        tokio::spawn(async move {
            for number in 0..20 {
                match (number + hand) % 5 {
                    0 => drop(agent.followup("A prompt.").unwrap()),
                    1 => drop(agent.steer("A word.").unwrap()),
                    2 => drop(agent.inject("A note.").unwrap()),
                    3 => agent.cancel(CancelCause::User, Queue::Keep).unwrap(),
                    _ => match agent
                        .run_maintenance(async |_| tokio::task::yield_now().await)
                        .await
                    {
                        Ok(()) => {}
                        Err(error) => assert_eq!(error.code(), "BUSY"),
                    },
                }
                tokio::task::yield_now().await;
            }
        })
    });
    for hand in hands.collect::<Vec<_>>() {
        hand.await.unwrap();
    }
    agent.when_idle().await;
    agent.followup("And the rest.").unwrap();
    agent.when_idle().await;
    let log = agent.session().log();
    assert!(log.pending_input().is_empty());
    assert_eq!(log.findings().count(), 0);
    // Each of the four: four prompts, four words, four notes; and the rest. What was claimed by a turn that was cancelled
    // before it said anything was dropped with it.
    let (said, dropped) = fates(&log);
    assert_eq!(said + dropped, 4 * 12 + 1);
    let statuses = std::mem::take(&mut *statuses.lock().unwrap());
    for (at, status) in statuses.iter().enumerate() {
        let expected = [AgentStatus::Running, AgentStatus::Idle][at % 2];
        assert_eq!(*status, expected, "they take turns");
    }
    assert_eq!(statuses.len() % 2, 0);
    agent.dispose().await.unwrap();
}

/// How many messages of people were said, and how many were claimed by a turn that ended before that.
fn fates(log: &EventLog) -> (usize, usize) {
    let said: Vec<String> = all(log, &EventKind::UserMessage)
        .iter()
        .filter(|message| message["source"]["kind"] == "user")
        .map(|message| message["id"].as_str().unwrap().to_owned())
        .collect();
    let queued: Vec<String> = all(log, &EventKind::InboxSpliced)
        .iter()
        .flat_map(|splice| splice["inserted"].as_array().unwrap().clone())
        .map(|message| message["id"].as_str().unwrap().to_owned())
        .collect();
    let unsaid = queued.iter().filter(|id| !said.contains(id));
    (said.len(), unsaid.count())
}
