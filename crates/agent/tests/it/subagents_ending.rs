//! Ending what is at work below a session, at any depth: nothing is left running, and every file can be opened
//! (`reference/agent.md` §4.5; §10, 70).

use std::sync::Arc;

use offshoot_agent::{
    Agent, AgentStatus, CancelCause, Interrupted, Mode, Provider, SubagentState, SubagentStatus,
};
use offshoot_model::Attempt;
use offshoot_session::{EventKind, SessionId};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bench::script;
use crate::family::{Family, delegates, delegation, nothing_more};
use crate::subagents_background::{
    continuable, in_background, live, looks_and_says, named, notices,
};
use crate::support::{Hold, all, calls, endings, results, says};

/// Three generations at work: the parent has let go of a child, which has let go of one of its own, which is held.
struct Three {
    family: Family,
    parent: Agent,
    hold: Hold,
}

impl Three {
    async fn at_work() -> Self {
        let family = Family::new();
        let one = vec![
            delegates("d", "two", in_background()),
            says("I wait."),
            says("One."),
        ];
        family.children.answer("one", one);
        family.children.answer("two", looks_and_says("Two."));
        let parent = family.parent(vec![
            delegates("c", "one", continuable()),
            says("I wait."),
            says("I see."),
        ]);
        let hold = family.bench.work.hold("k");
        parent.followup("Go.").unwrap();
        hold.started.cancelled().await;
        let three = Self {
            family,
            parent,
            hold,
        };
        three.parent.when_idle().await;
        three.child(0).when_idle().await;
        three
    }

    fn id(&self, at: usize) -> SessionId {
        self.family.children.made()[at].clone()
    }

    fn child(&self, at: usize) -> Agent {
        self.family.bench.service.agent(&self.id(at)).unwrap()
    }

    /// Nothing has an agent but the parent, and every file can be opened.
    fn check_closed(&self) {
        assert_eq!(live(&self.family), [self.parent.session().id().clone()]);
        assert_eq!(
            self.family.subagents.running(self.parent.session().id()),
            []
        );
        for at in 0..2 {
            self.family.bench.open(&self.id(at));
        }
    }

    fn causes(&self, at: usize) -> Vec<String> {
        let ends = all(&self.family.bench.log(&self.id(at)), &EventKind::TurnEnd);
        let causes = ends.iter().map(|end| match end["reason"]["kind"].as_str() {
            Some("aborted") => end["reason"]["reason"]["kind"].as_str().unwrap().to_owned(),
            kind => kind.unwrap().to_owned(),
        });
        causes.collect()
    }
}

#[tokio::test]
async fn a_child_has_come_to_rest_when_everything_below_it_has() {
    let three = Three::at_work().await;
    let id = three.parent.session().id().clone();
    let status = |at: usize, parent: &SessionId, mode, label: &str, state| SubagentStatus {
        session: three.id(at),
        parent: parent.clone(),
        mode,
        label: Some(label.to_owned()),
        state,
    };
    assert_eq!(
        three.family.subagents.running(&id),
        [
            status(0, &id, Mode::Continuable, "one", SubagentState::Idle),
            status(
                1,
                &three.id(0),
                Mode::OneShot,
                "two",
                SubagentState::Running
            ),
        ]
    );
    assert_eq!(
        three.family.subagents.running(&three.id(0)),
        [status(
            1,
            &three.id(0),
            Mode::OneShot,
            "two",
            SubagentState::Running
        )]
    );
    three.hold.released.cancel();
    three.family.subagents.at_rest(&three.parent).await;
    three.check_closed();
    // The child was told of its own, and said more; that is what its parent was told.
    assert_eq!(three.causes(0), ["completed", "completed"]);
    let told = notices(&three.family, &three.parent.session().log());
    assert_eq!(told.len(), 1);
    assert!(told[0].ends_with("One."), "{told:?}");
}

#[tokio::test]
async fn ending_a_parent_ends_everything_below_it() {
    let three = Three::at_work().await;
    let id = three.parent.session().id().clone();
    three.family.subagents.dispose(&id).await;
    assert!(three.hold.told.is_cancelled());
    three.check_closed();
    assert_eq!(three.causes(1), ["disposed"]);
    // Nobody was woken: each finds what it was told when it works again.
    assert_eq!(three.causes(0), ["completed"]);
    assert_eq!(endings(&three.parent.session().log()), ["completed"]);
    let waiting = |id: &SessionId| {
        let log = three.family.bench.log(id);
        log.pending_input().next_step().len()
    };
    assert_eq!(waiting(&three.id(0)), 1);
    assert_eq!(three.parent.pending().unwrap().next_step.len(), 1);

    // Nothing begins below it any more, as long as it exists.
    let mut request = delegation("one");
    let refused = three
        .family
        .subagents
        .start(&three.parent, request.clone())
        .await;
    assert_eq!(refused.unwrap_err().code(), "ACTIVATION_CLOSING");
    request.background = true;
    let refused = three.family.subagents.start(&three.parent, request).await;
    assert_eq!(refused.unwrap_err().code(), "ACTIVATION_CLOSING");
    let never = CancellationToken::new();
    let sent = three
        .family
        .subagents
        .send(&three.parent, &three.id(0), "More.", &never)
        .await;
    assert_eq!(sent.unwrap_err().code(), "ACTIVATION_CLOSING");
    three.parent.dispose().await.unwrap();

    // Another one on the same session is not concerned.
    let again = three
        .family
        .on(three.family.bench.open(&id), script(vec![says("I see.")]));
    let sent = three
        .family
        .subagents
        .send(&again, &three.id(0), "More.", &never)
        .await;
    sent.unwrap();
    three.family.subagents.at_rest(&again).await;
    assert_eq!(three.causes(0), ["completed", "completed"]);
}

#[tokio::test]
async fn a_parent_that_just_goes_takes_everything_below_it_with_it() {
    for disposes in [true, false] {
        let three = Three::at_work().await;
        let id = three.parent.session().id().clone();
        let Three {
            family,
            parent,
            hold,
        } = three;
        if disposes {
            parent.dispose().await.unwrap();
        }
        drop(parent);
        family.subagents.quiet(&id).await;
        assert!(hold.told.is_cancelled());
        assert_eq!(live(&family), []);
        for session in family.children.made().iter().chain([&id]) {
            family.bench.open(session);
        }
        let of_child = family.bench.log(&family.children.made()[1]);
        assert_eq!(endings(&of_child), ["aborted"]);
    }
}

#[tokio::test]
async fn a_person_can_stop_everything_below_a_session_and_nothing_is_woken_for_it() {
    let three = Three::at_work().await;
    let id = three.parent.session().id().clone();
    three.family.subagents.cancel_below(&id, CancelCause::User);
    three.family.subagents.at_rest(&three.parent).await;
    three.check_closed();
    assert_eq!(three.causes(1), ["user"]);
    assert_eq!(three.causes(0), ["completed"]);
    let parent = &three.parent;
    assert_eq!(endings(&parent.session().log()), ["completed"]);
    assert_eq!(parent.pending().unwrap().next_step.len(), 1);
    // It may go on, and so may its child.
    parent.followup("And?").unwrap();
    three.family.subagents.at_rest(parent).await;
    let told = notices(&three.family, &parent.session().log());
    assert_eq!(told.len(), 1);
    let never = CancellationToken::new();
    let sent = three
        .family
        .subagents
        .send(parent, &three.id(0), "More.", &never)
        .await;
    sent.unwrap();
    three.family.subagents.at_rest(parent).await;
    assert_eq!(three.causes(0), ["completed", "completed"]);
}

#[tokio::test]
async fn interrupting_a_child_stops_what_it_has_let_go_too() {
    let three = Three::at_work().await;
    let child = three.id(0);
    let stopping = three
        .family
        .subagents
        .interrupt(&three.parent, &child)
        .await;
    assert_eq!(stopping.unwrap(), Interrupted::Stopping);
    three.family.subagents.at_rest(&three.parent).await;
    three.check_closed();
    // The child did not begin a turn for that, and its parent was woken for the end of it.
    assert_eq!(
        (three.causes(0), three.causes(1)),
        (vec!["completed".into()], vec!["parent".into()])
    );
    assert_eq!(
        endings(&three.parent.session().log()),
        ["completed", "completed"]
    );
}

#[tokio::test]
async fn a_grandchild_can_be_interrupted_and_its_parent_is_told() {
    let three = Three::at_work().await;
    let stopping = three
        .family
        .subagents
        .interrupt(&three.parent, &three.id(1))
        .await;
    assert_eq!(stopping.unwrap(), Interrupted::Stopping);
    three.family.subagents.at_rest(&three.parent).await;
    three.check_closed();
    assert_eq!(three.causes(1), ["parent"]);
    let of_child = three.family.bench.log(&three.id(0));
    assert!(notices(&three.family, &of_child)[0].contains("was cancelled"));
    assert_eq!(endings(&of_child), ["completed", "completed"]);
}

/// What a waited-for child has let go of.
async fn waited_for() -> (Family, Agent, Hold) {
    let family = Family::new();
    let one = vec![
        delegates("d", "two", in_background()),
        says("I wait."),
        says("One, and two."),
    ];
    family.children.answer("one", one);
    family.children.answer("two", looks_and_says("Two."));
    let parent = family.parent(vec![delegates("c", "one", nothing_more()), says("I see.")]);
    let hold = family.bench.work.hold("k");
    parent.followup("Go.").unwrap();
    hold.started.cancelled().await;
    (family, parent, hold)
}

#[tokio::test]
async fn a_child_that_is_waited_for_has_its_end_when_what_it_has_let_go_has_one() {
    let (family, parent, hold) = waited_for().await;
    hold.released.cancel();
    parent.when_idle().await;
    assert_eq!(results(&parent.session().log())[0].2, "One, and two.");
    assert_eq!(live(&family), [parent.session().id().clone()]);
}

#[tokio::test]
async fn a_child_that_is_waited_for_is_cancelled_with_what_it_has_let_go() {
    let (family, parent, hold) = waited_for().await;
    parent
        .cancel(CancelCause::User, offshoot_agent::Queue::Clear)
        .unwrap();
    parent.when_idle().await;
    assert!(hold.told.is_cancelled());
    assert_eq!(live(&family), [parent.session().id().clone()]);
    let made = family.children.made();
    let ends: Vec<_> = made
        .iter()
        .map(|id| {
            all(&family.bench.log(id), &EventKind::TurnEnd)
                .pop()
                .unwrap()["reason"]
                .clone()
        })
        .collect();
    let by_parent = json!({"kind": "aborted", "reason": {"kind": "parent"}});
    assert_eq!(ends[1], by_parent);
    // Its own turn was completed before, and what came of that is told.
    assert_eq!(results(&parent.session().log())[0].2, "I wait.");
}

#[tokio::test]
async fn whoever_lets_go_of_a_parent_ends_the_child_that_it_waits_for() {
    let (family, parent, hold) = waited_for().await;
    drop(parent);
    while !live(&family).is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(hold.told.is_cancelled());
}

#[tokio::test]
async fn a_process_that_is_killed_leaves_children_that_the_next_one_can_go_on_with() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let (mut family, parent) = {
        // Everything of the first process lives on a runtime of its own, on a thread that runs no other one.
        let made = std::thread::spawn(move || {
            let made = runtime.block_on(async {
                let Three {
                    family,
                    parent,
                    hold,
                } = Three::at_work().await;
                drop(hold);
                parent.flush().await.unwrap();
                for id in family.children.made() {
                    family
                        .bench
                        .service
                        .agent(&id)
                        .unwrap()
                        .flush()
                        .await
                        .unwrap();
                }
                (family, parent)
            });
            let (mut family, parent) = made;
            let id = parent.session().id().clone();
            family.bench.crash((parent, runtime));
            (family, id)
        });
        made.join().unwrap()
    };
    family.restarted();
    let list = || calls([("l", "list_agents", "{}")]);
    let listing = vec![
        list(),
        says("I see."),
        list(),
        says("I see."),
        says("I see."),
    ];
    let opened = family.on(family.bench.open(&parent), script(listing));
    opened.followup("Who is there?").unwrap();
    opened.when_idle().await;
    let made = family.children.made();
    let listed = |family: &Family, opened: &Agent| {
        let (_, _, text) = results(&opened.session().log()).pop().unwrap();
        named(family, &text)
    };
    assert_eq!(
        listed(&family, &opened),
        "<child 1> (one), continuable: settled (completed)"
    );

    // What was at work below the child was not settled, and nobody goes on with it by itself.
    let one = family.on(
        family.bench.open(&made[0]),
        script(vec![list(), says("I see.")]),
    );
    one.followup("Who is there?").unwrap();
    one.when_idle().await;
    assert_eq!(
        listed(&family, &one),
        "<child 2> (two), one-shot: interrupted"
    );
    assert_eq!(one.status(), AgentStatus::Idle);
    one.dispose().await.unwrap();
    let never = CancellationToken::new();
    family.children.answer("one", vec![says("Once more.")]);
    let sent = family.subagents.send(&opened, &made[0], "More.", &never);
    sent.await.unwrap();
    family.subagents.at_rest(&opened).await;
    assert!(notices(&family, &opened.session().log())[0].ends_with("Once more."));
    opened.dispose().await.unwrap();
}

#[tokio::test]
async fn children_are_listed_as_they_are_before_and_after_a_restart() {
    let mut family = Family::new();
    for label in ["done", "rests"] {
        family.children.answer(label, vec![says(label)]);
    }
    let busy = Attempt::Throw {
        chunks: Vec::new(),
        message: "busy".into(),
        code: "SERVER".into(),
    };
    family.children.answer("fails", vec![busy]);
    family.children.answer("works", looks_and_says("Four."));
    let list = || calls([("l", "list_agents", "{}")]);
    let mut attempts = vec![list(), says("Hello.")];
    for (label, more) in [
        ("done", nothing_more()),
        ("rests", continuable()),
        ("fails", in_background()),
    ] {
        attempts.extend([
            delegates(label, label, more),
            says("I see."),
            says("I see."),
        ]);
    }
    attempts.remove(4);
    attempts.extend([
        delegates("works", "works", continuable()),
        list(),
        says("I see."),
        says("I see."),
    ]);
    let parent = family.parent(attempts);
    for prompt in ["Hi.", "One.", "Two.", "Three."] {
        parent.followup(prompt).unwrap();
        family.subagents.at_rest(&parent).await;
    }
    let hold = family.bench.work.hold("k");
    parent.followup("Four.").unwrap();
    hold.started.cancelled().await;
    parent.when_idle().await;
    let listed = |family: &Family, agent: &Agent| {
        let all = results(&agent.session().log()).into_iter();
        let listed = all.filter(|(call, _, _)| call.starts_with('l'));
        listed
            .map(|(_, _, text)| named(family, &text))
            .collect::<Vec<_>>()
    };
    let mut text = listed(&family, &parent);
    let (id, works) = (
        parent.session().id().clone(),
        family.children.made()[3].clone(),
    );
    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
    family.subagents.dispose(&id).await;
    parent.dispose().await.unwrap();
    drop(parent);

    family.restarted();
    offshoot_store::Persistence::delete(&family.bench.persistence(), &works, 1).unwrap();
    let model = script(vec![list(), says("I see.")]);
    let parent = family.on(family.bench.open(&id), Arc::clone(&model) as _);
    parent.followup("Who?").unwrap();
    parent.when_idle().await;
    text.extend(listed(&family, &parent).pop());
    // A fork has no children: those of its original are not its own.
    let fork = family
        .bench
        .service
        .prepare_fork_of(&parent, None, None)
        .await
        .unwrap();
    let fork = family.bench.service.store_fork(&fork).unwrap();
    let fork = family.on(fork, script(vec![list(), says("I see.")]));
    fork.followup("And here?").unwrap();
    fork.when_idle().await;
    text.extend(listed(&family, &fork).pop());
    insta::assert_snapshot!("listed", text.join("\n---\n"));
    let meta = all(&parent.session().log(), &EventKind::ToolResult)
        .pop()
        .unwrap();
    assert_eq!(
        meta["meta"]["subagents"][2],
        json!({
            "sessionId": family.children.made()[2].as_str(), "mode": "one-shot", "label": "fails", "state": "settled",
            "stopReason": "error"
        })
    );
    assert_eq!(family.children.all()[0].provider, Provider::Spawn);
}
