//! Which session is a side session: the last framing or promote message of its log decides, through restarts, forks and
//! compactions, and so does what its tools may do.

use std::sync::Arc;

use offshoot_agent::{Agent, Driver, InboxTarget, Input, SideRequest, Wake};
use offshoot_model::{ContentBlock, MessageSource};
use offshoot_session::{EventLog, Seq, SessionId};

use crate::bench::{Bench, ask, script};
use crate::parts::texts_of;
use crate::side_gate::is_denial;
use crate::side_sessions::{marks, parent, side, talking};
use crate::support::{calls, results, says};

/// A message about a side session from elsewhere.
fn note(act: &str) -> Input {
    let source: MessageSource = serde_json::from_str(&format!(
        r#"{{"kind":"sidechat","form":"notice","summary":"A note","act":"{act}","sessionId":"child","cut":13,"handbackId":"h"}}"#
    ))
    .unwrap();
    Input::blocks("note", vec![ContentBlock::text("It is so.")], source).kept()
}

/// Lets the model of a session try to change something. Whether it could.
async fn acts(agent: &mut Driver) -> bool {
    agent.set_model(
        script(vec![calls([("c", "change", "{}")]), says("So.")]),
        crate::bench::call_config("acme-small"),
    );
    ask(agent, "Change it.").await;
    let (_, _, text) = results(&agent.session().log()).pop().unwrap();
    let acted = text == "c is done";
    assert_eq!(is_denial(&text), !acted, "{text}");
    acted
}

fn fork_at(bench: &Bench, id: &SessionId, at: Option<Seq>) -> Driver {
    let fork = bench.service.prepare_fork(&bench.read(id), at, None);
    let attached = bench.service.store_fork(&fork.unwrap()).unwrap();
    bench.agent(attached, script(Vec::new()))
}

#[tokio::test]
async fn it_stays_one_through_a_restart() {
    let mut bench = Bench::new();
    let parent = parent(&bench).await;
    let mut child = talking(&bench, side(&bench, parent.session().id()));
    ask(&mut child, "Why?").await;
    let id = child.session().id().clone();
    drop((parent, child));
    bench.restart();
    let mut child = bench.agent(bench.open(&id), script(Vec::new()));
    assert!(child.session().log().is_side_session());
    assert!(!acts(&mut child).await);
    assert_eq!(marks(&child.session().log()).len(), 1, "it is told once");
}

#[tokio::test]
async fn one_that_begins_from_nothing_stays_one_through_a_restart_before_its_first_step() {
    let mut bench = Bench::new();
    let agent = bench.running(script(Vec::new()));
    let side = bench.service.side_of(&agent, &SideRequest::default()).await;
    let id = side.unwrap().attached.session().id().clone();
    bench.restart();
    let mut child = bench.agent(bench.open(&id), script(Vec::new()));
    // Already the first step is gated, and its model knows.
    assert!(!acts(&mut child).await);
    let contexts = texts_of(&child.session().log(), "runtime-context");
    assert_eq!(contexts.len(), 1);
    assert!(
        contexts[0].contains("This is a side session"),
        "{}",
        contexts[0]
    );
}

#[tokio::test]
async fn a_fork_of_one_is_one() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let mut child = talking(&bench, side(&bench, parent.session().id()));
    ask(&mut child, "Why?").await;
    let mut fork = fork_at(&bench, child.session().id(), None);
    assert!(fork.session().log().is_side_session());
    assert!(!acts(&mut fork).await);
}

#[tokio::test]
async fn a_fork_from_before_the_framing_is_ordinary() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let child = side(&bench, parent.session().id());
    let before = child.attached.session().log().side_mark().unwrap().0;
    let id = child.attached.session().id().clone();
    let mut fork = fork_at(&bench, &id, before.before().last());
    assert!(!fork.session().log().is_side_session());
    assert!(acts(&mut fork).await);
}

#[tokio::test]
async fn a_parent_that_received_a_note_is_ordinary_and_so_is_its_fork() {
    let bench = Bench::new();
    let agent = bench.running(script(vec![says("One."), says("Two.")]));
    agent.followup("First.").unwrap();
    agent.when_idle().await;
    agent
        .send(&note("handback"), InboxTarget::NextStep, Wake::Yes)
        .unwrap();
    agent.when_idle().await;
    let id = agent.session().id().clone();
    agent.dispose().await.unwrap();
    let mut parent = bench.agent(bench.open(&id), script(Vec::new()));
    assert_eq!(marks(&parent.session().log())[0].0, "handback");
    assert!(acts(&mut parent).await);
    let mut fork = fork_at(&bench, &id, None);
    assert_eq!(marks(&fork.session().log()).len(), 1);
    assert!(acts(&mut fork).await);
}

#[tokio::test]
async fn a_note_that_a_side_session_received_itself_leaves_it_one() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let side = side(&bench, parent.session().id());
    let setup = bench.setup(script(vec![
        says("Noted."),
        calls([("c", "change", "{}")]),
        says("So."),
    ]));
    let child = Agent::new(side.attached, setup);
    for act in ["handback", "ask"] {
        let input = Input::blocks(
            act,
            vec![ContentBlock::text("It is so.")],
            serde_json::from_str(&format!(r#"{{"kind":"sidechat","act":"{act}"}}"#)).unwrap(),
        );
        child
            .send(&input, InboxTarget::NextStep, Wake::Yes)
            .unwrap();
        child.when_idle().await;
    }
    let log = child.session().log();
    assert!(log.is_side_session());
    assert!(is_denial(&results(&log)[0].2));
}

#[tokio::test]
async fn a_compaction_that_covers_the_framing_leaves_it_one_and_the_model_is_told_again() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let side = side(&bench, parent.session().id());
    let model = script(vec![
        says("Because."),
        says("In short."),
        calls([("c", "change", "{}")]),
        says("So."),
    ]);
    let child = Agent::new(side.attached, bench.setup(Arc::clone(&model) as _));
    child
        .followup(&crate::crowd::long("question", 400))
        .unwrap();
    child.when_idle().await;
    child.compact().await.unwrap().unwrap();
    let log = child.session().log();
    let framing = log.side_mark().unwrap().0;
    assert!(!log.surface().contains(framing), "it was covered");
    child.followup("Change it.").unwrap();
    child.when_idle().await;
    assert!(child.session().log().is_side_session());
    assert!(is_denial(&results(&child.session().log())[0].2));
    let sees = |text: &str| {
        let requests = model.requests();
        let messages = &requests[2].messages;
        messages
            .iter()
            .any(|message| serde_json::to_string(&**message).unwrap().contains(text))
    };
    assert!(!sees("You are in a side session now."));
    assert!(sees("This is a side session: explain"));
}

/// What the log says by itself: whether the last of these messages is a framing.
fn is_told(log: &EventLog) -> bool {
    let mut acts = marks(log).into_iter().rev().map(|(act, _)| act);
    acts.find(|act| ["framing", "promote"].contains(&&**act))
        .is_some_and(|act| act == "framing")
}

#[tokio::test]
async fn wherever_it_is_forked_the_gate_is_on_exactly_when_the_model_has_been_told_so() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let mut child = talking(&bench, side(&bench, parent.session().id()));
    let id = child.session().id().clone();
    ask(&mut child, "Why?").await;
    drop(child);
    bench.service.promote(&id).unwrap();
    let mut child = bench.agent(bench.open(&id), script(vec![says("Good."); 2]));
    ask(&mut child, "Go on.").await;
    drop(child);

    let log = bench.log(&id);
    let own = log.inherited_marker().unwrap().get();
    let mut seen = Vec::new();
    for cut in (own - 1..log.end().get()).map(Seq::new) {
        let mut fork = fork_at(&bench, &id, Some(cut));
        let told = is_told(&fork.session().log());
        assert_eq!(acts(&mut fork).await, !told, "cut at {cut}");
        if seen.last() != Some(&told) {
            seen.push(told);
        }
    }
    assert_eq!(seen, [false, true, false]);
}
