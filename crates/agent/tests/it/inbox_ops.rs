//! What can be done with input that waits (`reference/agent.md` §1.2).

use std::sync::{Arc, Mutex};

use offshoot_agent::{
    Agent, AgentError, InboxTarget, Input, Notice, Pending, SessionService, Wake,
};
use offshoot_session::{Event, SessionObserver};

use crate::bench::{Bench, script};
use crate::outline::outline;
use crate::support::{kinds, says};

use InboxTarget::{NextStep, NextTurn};

pub(crate) fn note(id: &str) -> Input {
    Input::user(id, id)
}

/// What was told of the inbox, such as `+a`, `-a`, `a>1`.
pub(crate) type Told = Arc<Mutex<Vec<String>>>;

pub(crate) fn told(bench: &Bench, attempts: Vec<offshoot_model::Attempt>) -> (Agent, Told) {
    let told = Told::default();
    let heard = Arc::clone(&told);
    let mut setup = bench.setup(script(attempts));
    setup.observer = Some(Arc::new(move |notice: &Notice| {
        let line = match notice {
            Notice::Inserted { message } => format!("+{message}"),
            Notice::Discarded { message } => format!("-{message}"),
            Notice::Claimed { message, turn } => format!("{message}>{turn}"),
            _ => return,
        };
        heard.lock().unwrap().push(line);
    }));
    (Agent::new(bench.create(), setup), told)
}

fn ids(inputs: &[Input]) -> Vec<&str> {
    inputs.iter().map(Input::id).collect()
}

/// An agent with the notes a, b, c for the next turn.
fn with_three(bench: &Bench) -> (Agent, Told) {
    let (agent, heard) = told(bench, Vec::new());
    for id in ["a", "b", "c"] {
        agent.send(&note(id), NextTurn, Wake::No).unwrap();
    }
    heard.lock().unwrap().clear();
    (agent, heard)
}

#[tokio::test]
async fn a_splice_is_normalised_and_one_that_does_nothing_is_not_logged() {
    for (start, remove, left, removed) in [
        (0, 1, vec!["b", "c"], vec!["a"]),
        (-1, 1, vec!["a", "b"], vec!["c"]),
        (-2, usize::MAX, vec!["a"], vec!["b", "c"]),
        (-99, 2, vec!["c"], vec!["a", "b"]),
        (isize::MIN, 1, vec!["b", "c"], vec!["a"]),
        (1, 99, vec!["a"], vec!["b", "c"]),
        (99, 1, vec!["a", "b", "c"], vec![]),
        (isize::MAX, usize::MAX, vec!["a", "b", "c"], vec![]),
        (1, 0, vec!["a", "b", "c"], vec![]),
    ] {
        let bench = Bench::new();
        let (agent, _) = with_three(&bench);
        let before = agent.session().log().end();
        let taken = agent.splice(NextTurn, start, remove, Vec::new()).unwrap();
        assert_eq!(ids(&taken), removed);
        assert_eq!(ids(&agent.pending().unwrap().next_turn), left);
        let logged = agent.session().log().end() != before;
        assert_eq!(logged, !removed.is_empty());
    }
}

#[tokio::test]
async fn what_is_removed_is_told_before_what_is_put_in_its_place() {
    let bench = Bench::new();
    let (agent, heard) = with_three(&bench);
    let new = vec![note("x"), note("y")];
    agent.splice(NextTurn, 1, 1, new).unwrap();
    assert_eq!(*heard.lock().unwrap(), ["-b", "+x", "+y"]);
    assert_eq!(
        ids(&agent.pending().unwrap().next_turn),
        ["a", "x", "y", "c"]
    );
    // Only those that were removed are cancelled: adding is no outcome.
    agent.splice(NextTurn, 0, 0, vec![note("z")]).unwrap();
    let log = outline(&agent.session().log());
    let last: Vec<&str> = log.lines().rev().take(2).collect();
    assert_eq!(
        last,
        [
            r#"agent/inbox/spliced next-turn at 0 +"z""#,
            r#"agent/inbox/spliced next-turn at 1 -1 +"x" +"y" canceled"#,
        ]
    );
}

#[tokio::test]
async fn a_replacement_keeps_the_place_in_whichever_list() {
    let bench = Bench::new();
    let (agent, heard) = with_three(&bench);
    agent.send(&note("s"), NextStep, Wake::No).unwrap();
    heard.lock().unwrap().clear();
    assert_eq!(
        agent.replace("b", note("B")).unwrap().as_ref(),
        Some(&note("b"))
    );
    // The same name for an edited text.
    let edited = Input::user("s", "Edited.");
    agent.replace("s", edited.clone()).unwrap();
    assert_eq!(*heard.lock().unwrap(), ["-b", "+B", "-s", "+s"]);
    assert_eq!(
        agent.pending().unwrap(),
        Pending {
            next_step: vec![edited],
            next_turn: vec![note("a"), note("B"), note("c")],
        }
    );
    let end = agent.session().log().end();
    assert_eq!(agent.replace("gone", note("x")).unwrap(), None);
    assert_eq!(agent.remove("gone").unwrap(), None);
    assert_eq!(agent.session().log().end(), end);
    assert_eq!(agent.remove("s").unwrap().unwrap().id(), "s");
}

#[tokio::test]
async fn clearing_drops_what_waits_for_a_step_and_then_what_waits_for_a_turn() {
    let bench = Bench::new();
    let (agent, heard) = with_three(&bench);
    agent.send(&note("s").kept(), NextStep, Wake::No).unwrap();
    heard.lock().unwrap().clear();
    agent.clear().unwrap();
    assert_eq!(*heard.lock().unwrap(), ["-s", "-a", "-b", "-c"]);
    assert_eq!(agent.pending().unwrap(), Pending::default());
    let log = outline(&agent.session().log());
    assert!(log.ends_with(
        "agent/inbox/spliced next-step at 0 -1 canceled\n\
         agent/inbox/spliced next-turn at 0 -3 canceled\n"
    ));
    let end = agent.session().log().end();
    agent.clear().unwrap();
    assert_eq!(agent.session().log().end(), end);
}

#[tokio::test]
async fn a_message_waits_once_and_is_said_once() {
    let bench = Bench::new();
    let (agent, heard) = told(&bench, vec![says("Yes.")]);
    agent.send(&note("a"), NextTurn, Wake::No).unwrap();
    let end = agent.session().log().end();
    heard.lock().unwrap().clear();
    for refused in [
        agent.send(&note("a"), NextTurn, Wake::Yes),
        agent.send(&note("a"), NextStep, Wake::No),
        agent
            .splice(NextStep, 0, 0, vec![note("c"), note("c")])
            .map(|_| ()),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, AgentError::AlreadyPending(_)), "{error}");
        assert_eq!(error.code(), "MESSAGE_PENDING");
    }
    assert_eq!(agent.session().log().end(), end);
    assert!(heard.lock().unwrap().is_empty());

    agent.steer("Go.").unwrap();
    agent.when_idle().await;
    let error = agent.send(&note("a"), NextTurn, Wake::Yes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "message `a` is already part of the conversation"
    );
    assert_eq!(error.code(), "MESSAGE_SAID");
    // One that was taken back was never said.
    agent.send(&note("b"), NextTurn, Wake::No).unwrap();
    agent.remove("b").unwrap();
    agent.send(&note("b"), NextTurn, Wake::No).unwrap();
}

struct Refuse(Arc<Mutex<bool>>);

impl SessionObserver for Refuse {
    fn admit(&mut self, _: &Event) -> Result<(), String> {
        if *self.0.lock().unwrap() {
            return Err("not now".to_owned());
        }
        Ok(())
    }

    fn event(&mut self, _: &Arc<Event>) -> Result<(), String> {
        Ok(())
    }
}

#[tokio::test]
async fn a_change_that_the_log_refuses_has_not_happened() {
    let bench = Bench::new();
    let (agent, heard) = with_three(&bench);
    let refuses = Arc::new(Mutex::new(true));
    let observer = Refuse(Arc::clone(&refuses));
    agent.session().lock().observe(Box::new(observer));
    let before = agent.pending().unwrap();
    for refused in [
        agent.send(&note("d"), NextTurn, Wake::Yes),
        agent.splice(NextTurn, 0, 1, vec![note("d")]).map(|_| ()),
        agent.replace("a", note("d")).map(|_| ()),
        agent.remove("a").map(|_| ()),
        agent.clear(),
        agent.cancel(
            offshoot_agent::CancelCause::User,
            offshoot_agent::Queue::Clear,
        ),
    ] {
        assert_eq!(refused.unwrap_err().code(), "EVENT_REFUSED");
        assert_eq!(agent.pending().unwrap(), before);
    }
    assert_eq!(agent.status(), offshoot_agent::AgentStatus::Idle);
    assert!(heard.lock().unwrap().is_empty());
    *refuses.lock().unwrap() = false;
    agent.send(&note("d"), NextTurn, Wake::No).unwrap();
}

#[tokio::test]
async fn a_claim_tells_which_turn_took_what_in_the_order_of_the_claims() {
    let bench = Bench::new();
    let (agent, heard) = told(&bench, vec![says("1"), says("2"), says("3")]);
    for (id, target) in [
        ("p", NextTurn),
        ("s", NextStep),
        ("q", NextTurn),
        ("t", NextStep),
    ] {
        agent.send(&note(id), target, Wake::No).unwrap();
    }
    heard.lock().unwrap().clear();
    agent.send(&note("go"), NextTurn, Wake::Yes).unwrap();
    agent.when_idle().await;
    assert_eq!(
        *heard.lock().unwrap(),
        ["+go", "s>1", "t>1", "p>1", "q>2", "go>3"]
    );
}

#[tokio::test]
async fn what_waits_survives_a_restart_and_wakes_nobody() {
    let mut bench = Bench::new();
    let (agent, _) = with_three(&bench);
    agent.inject("A note.").unwrap();
    let id = agent.session().id().clone();
    let waits = agent.pending().unwrap();
    agent.dispose().await.unwrap();
    bench.restart();
    let agent = Agent::new(bench.open(&id), bench.setup(script(Vec::new())));
    assert_eq!(agent.pending().unwrap(), waits);
    agent.when_idle().await;
    assert!(!kinds(&agent.session().log()).contains(&"turn/start"));
}

#[tokio::test]
async fn a_fork_waits_for_nothing_that_waits_for_its_parent() {
    let bench = Bench::new();
    let (agent, _) = with_three(&bench);
    let service: &SessionService = &bench.service;
    let last = agent.session().log().end().last();
    let fork = service.prepare_fork_of(&agent, last, None).await.unwrap();
    let child = service.store_fork(&fork).unwrap();
    let child = Agent::new(child, bench.setup(script(vec![says("Yes.")])));
    assert_eq!(child.pending().unwrap(), Pending::default());
    // Names of the parent's waiting messages are free there.
    child.send(&note("a"), NextTurn, Wake::Yes).unwrap();
    child.when_idle().await;
    assert_eq!(ids(&agent.pending().unwrap().next_turn), ["a", "b", "c"]);
}

#[tokio::test]
async fn nothing_to_say_is_no_message() {
    let bench = Bench::new();
    let (agent, _) = told(&bench, Vec::new());
    let empty = Input::user("a", "");
    for refused in [
        agent.followup("").map(|_| ()),
        agent.steer("").map(|_| ()),
        agent.inject("").map(|_| ()),
        agent.followup(" \n\t").map(|_| ()),
        agent.send(&empty, NextTurn, Wake::Yes),
        agent.replace("a", empty.clone()).map(|_| ()),
        agent
            .splice(NextStep, 0, 0, vec![empty.clone()])
            .map(|_| ()),
    ] {
        assert!(matches!(refused, Err(AgentError::EmptyMessage)));
    }
    assert!(agent.session().log().is_empty());
}

#[tokio::test]
async fn a_fork_that_is_opened_again_waits_for_its_own_input_and_no_other() {
    let mut bench = Bench::new();
    let (agent, _) = with_three(&bench);
    let last = agent.session().log().end().last();
    let service = &bench.service;
    let fork = service.prepare_fork_of(&agent, last, None).await.unwrap();
    let child = service.store_fork(&fork).unwrap();
    let child = Agent::new(child, bench.setup(script(Vec::new())));
    child.send(&note("own"), NextTurn, Wake::No).unwrap();
    // Forked once more: neither the grandparent's nor the parent's.
    let last = child.session().log().end().last();
    let fork = service.prepare_fork_of(&child, last, None).await.unwrap();
    let grandchild = fork.header.id.clone();
    drop(service.store_fork(&fork).unwrap());
    let id = child.session().id().clone();
    child.dispose().await.unwrap();
    bench.restart();
    for (id, waits) in [(id, vec!["own"]), (grandchild, vec![])] {
        let agent = Agent::new(bench.open(&id), bench.setup(script(Vec::new())));
        assert_eq!(ids(&agent.pending().unwrap().next_turn), waits);
    }
}
