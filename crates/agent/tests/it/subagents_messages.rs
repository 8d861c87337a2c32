//! What parents and children say to each other, and who may (`reference/agent.md` §4.5; §10, 70).

use std::sync::Arc;

use offshoot_agent::{Agent, Delivery, Interrupted, SubagentLimits};
use offshoot_model::{Attempt, ScriptModel};
use offshoot_session::{EventKind, SessionId};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bench::script;
use crate::family::{Family, delegates, delegation, task};
use crate::parts::texts_of;
use crate::subagents_background::{
    continuable, in_background, live, looks_and_says, named, notices,
};
use crate::support::{Hold, all, calls, endings, results, says};

/// A family with a continuable child that is held in its first turn, as call `k`.
pub(crate) async fn at_work(child: Vec<Attempt>, rest: Vec<Attempt>) -> (Family, Agent, Hold) {
    let family = Family::new();
    family.children.answer("the count", child);
    let mut attempts = vec![delegates("c1", "the count", continuable())];
    attempts.extend(rest);
    let parent = family.parent(attempts);
    let hold = family.bench.work.hold("k");
    parent.followup("Go.").unwrap();
    hold.started.cancelled().await;
    parent.when_idle().await;
    (family, parent, hold)
}

pub(crate) async fn send(family: &Family, caller: &Agent, to: &SessionId, text: &str) -> Delivery {
    let never = CancellationToken::new();
    let sent = family.subagents.send(caller, to, text, &never).await;
    sent.unwrap().delivery
}

/// The code of what it is refused with, and what is said.
pub(crate) async fn refused(family: &Family, caller: &Agent, to: &SessionId) -> (String, String) {
    let never = CancellationToken::new();
    let sent = family.subagents.send(caller, to, "Psst.", &never).await;
    let error = sent.unwrap_err();
    (error.code().to_owned(), error.to_string())
}

/// What a session was told, in order, by its parent and by agents that say more.
pub(crate) fn told(family: &Family, session: &SessionId) -> Vec<String> {
    let said = all(&family.bench.log(session), &EventKind::UserMessage);
    said.iter()
        .filter(|message| {
            ["user", "agent-message"]
                .iter()
                .any(|kind| message["source"]["kind"] == *kind)
        })
        .map(|message| message["content"][0]["text"].as_str().unwrap().to_owned())
        .collect()
}

/// An answer with a call of `send_message` for each of these.
pub(crate) fn sends(to: &SessionId, messages: &[(&str, &str)]) -> Attempt {
    let arguments: Vec<_> = messages
        .iter()
        .map(|(_, text)| json!({"subagent_id": to.as_str(), "message": text}).to_string())
        .collect();
    let ids = messages.iter().map(|(call, _)| *call);
    calls(
        ids.zip(&arguments)
            .map(|(call, arguments)| (call, "send_message", arguments.as_str())),
    )
}

pub(crate) fn again(
    family: &Family,
    session: &SessionId,
    attempts: Vec<Attempt>,
) -> (Agent, Arc<ScriptModel>) {
    let model = script(attempts);
    let agent = family.on(family.bench.open(session), Arc::clone(&model) as _);
    (agent, model)
}

#[tokio::test]
async fn a_child_that_works_reads_messages_at_its_next_step_in_the_order_of_the_calls() {
    let rest = vec![says("I wait."), says("I see.")];
    let (family, parent, hold) = at_work(looks_and_says("Four."), rest).await;
    let id = family.child();
    parent.set_model(
        script(vec![
            sends(&id, &[("m1", "One."), ("m2", "Two."), ("m3", "Three.")]),
            says("Sent."),
            says("I see."),
        ]),
        crate::bench::call_config("acme-small"),
    );
    parent.followup("Tell it more.").unwrap();
    parent.when_idle().await;
    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
    assert_eq!(
        told(&family, &id),
        ["Do the count.", "One.", "Two.", "Three."]
    );
    // In the turn that ran, as messages of another agent.
    assert_eq!(endings(&family.child_log()), ["completed"]);
    let said = all(&family.child_log(), &EventKind::UserMessage)
        .pop()
        .unwrap();
    assert_eq!(
        said["source"],
        json!({"kind": "agent-message", "form": "relay", "senderSessionId": parent.session().id().as_str()})
    );
    // What came of it names the message.
    let (_, code, text) = results(&parent.session().log()).pop().unwrap();
    let expected = format!(
        "Message {} was sent to subagent {id}, which works and will read it.",
        said["id"].as_str().unwrap()
    );
    assert_eq!((&*code, text), ("", expected));
    assert_eq!(notices(&family, &parent.session().log()).len(), 1);
}

#[tokio::test]
async fn no_message_overtakes_the_task_or_what_waits_for_a_turn() {
    let family = Family::new();
    family
        .children
        .answer("the count", vec![says("1"), says("2"), says("3")]);
    let parent = family.parent(vec![says("I see.")]);
    let mut request = delegation("the count");
    request.mode = offshoot_agent::Mode::Continuable;
    let id = family
        .subagents
        .start(&parent, request)
        .await
        .unwrap()
        .session;
    // Nothing else has run since: the child has not come to its task yet.
    send(&family, &parent, &id, "One.").await;
    send(&family, &parent, &id, "Two.").await;
    family.subagents.at_rest(&parent).await;
    assert_eq!(told(&family, &id), ["Do the count.", "One.", "Two."]);
}

#[tokio::test]
async fn a_session_reaches_its_own_children_and_nobody_else() {
    let family = Family::with(SubagentLimits::default());
    // Two children, one of which has a child of its own; a stranger with a child; and a fork of the parent.
    family.children.answer(
        "one",
        vec![
            delegates("d", "below", continuable()),
            says("One."),
            says("Ah."),
        ],
    );
    for label in ["two", "below", "theirs"] {
        family.children.answer(label, vec![says(label)]);
    }
    let mut attempts = vec![calls([
        ("a", "delegate", &*task("one", continuable())),
        ("b", "delegate", &*task("two", continuable())),
    ])];
    attempts.extend((0..4).map(|_| says("I see.")));
    let parent = family.parent(attempts);
    let stranger = family.parent(vec![
        delegates("a", "theirs", continuable()),
        says("I wait."),
        says("I see."),
    ]);
    for agent in [&parent, &stranger] {
        agent.followup("Go.").unwrap();
        family.subagents.at_rest(agent).await;
    }
    let made = family.children.all();
    let of = |label: &str| {
        let task = format!("Do {label}.");
        let known = |id: &SessionId| texts_of(&family.bench.log(id), "user")[0] == task;
        let all: Vec<_> = made.iter().map(|made| made.session.clone()).collect();
        all.into_iter().find(known).unwrap()
    };
    let [one, two, below, theirs] = ["one", "two", "below", "theirs"].map(of);
    let (child, _) = again(&family, &one, Vec::new());
    let fork = family
        .bench
        .service
        .prepare_fork_of(&parent, None, None)
        .await
        .unwrap();
    let fork = family.bench.service.store_fork(&fork).unwrap();
    let fork = family.on(fork, script(Vec::new()));
    let unheard_of = SessionId::new("session-unheard-of");
    let before: Vec<_> = made
        .iter()
        .map(|made| family.bench.bytes(&made.session))
        .collect();
    for (caller, to) in [
        (&parent, &unheard_of),
        (&parent, &below),
        (&parent, &theirs),
        (&parent, parent.session().id()),
        (&parent, stranger.session().id()),
        (&child, &two),
        (&child, parent.session().id()),
        (&fork, &one),
        (&stranger, &one),
    ] {
        let expected =
            format!("this session has no subagent `{to}`; list_agents says which it has");
        assert_eq!(
            refused(&family, caller, to).await,
            ("UNAUTHORIZED".to_owned(), expected)
        );
        let interrupted = family.subagents.interrupt(caller, to).await;
        if to == &below {
            // What is further down may be stopped, and rests already.
            assert_eq!(interrupted.unwrap(), Interrupted::AtRest);
        } else {
            assert_eq!(interrupted.unwrap_err().code(), "UNAUTHORIZED");
        }
    }
    drop(child);
    let after: Vec<_> = made
        .iter()
        .map(|made| family.bench.bytes(&made.session))
        .collect();
    // But for the marker of whoever has opened it.
    let untouched = |label: &SessionId| {
        let at = made.iter().position(|made| made.session == *label).unwrap();
        before[at] == after[at]
    };
    assert!(untouched(&two) && untouched(&below) && untouched(&theirs));
    for agent in [&parent, &stranger, &fork] {
        assert_eq!(agent.pending().unwrap(), offshoot_agent::Pending::default());
    }
}

#[tokio::test]
async fn what_was_for_one_task_takes_no_messages_at_work_or_not() {
    let family = Family::new();
    family.children.answer("the count", looks_and_says("Four."));
    let parent = family.parent(vec![
        delegates("c1", "the count", in_background()),
        says("I wait."),
        says("I see."),
    ]);
    let hold = family.bench.work.hold("k");
    parent.followup("Go.").unwrap();
    hold.started.cancelled().await;
    let id = family.child();
    assert_eq!(refused(&family, &parent, &id).await.0, "NOT_RESUMABLE");
    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
    let before = family.bench.bytes(&id);
    assert_eq!(refused(&family, &parent, &id).await.0, "NOT_RESUMABLE");
    assert_eq!(family.bench.bytes(&id), before);
    assert_eq!(live(&family), [parent.session().id().clone()]);
}

#[tokio::test]
async fn the_model_is_told_what_is_wrong_with_a_message() {
    let (family, parent, hold) = at_work(looks_and_says("Four."), vec![says("I wait.")]).await;
    let id = family.child();
    let nobody = SessionId::new("session-9");
    parent.set_model(
        script(vec![
            sends(&nobody, &[("a", "Hello?")]),
            sends(&id, &[("b", " \n")]),
            sends(&SessionId::new("parent"), &[("c", "Hello?")]),
            calls([("d", "interrupt_agent", r#"{"agent_id":"session-9"}"#)]),
            says("Hm."),
            says("I see."),
        ]),
        crate::bench::call_config("acme-small"),
    );
    parent.followup("Tell them.").unwrap();
    parent.when_idle().await;
    let wrong = results(&parent.session().log()).split_off(1);
    let lines: Vec<_> = wrong
        .iter()
        .map(|(_, code, text)| format!("{code} {text}"))
        .collect();
    insta::assert_snapshot!("wrong_messages", lines.join("\n"));
    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
}

#[tokio::test]
async fn a_child_tells_its_parent_something_on_the_way() {
    // A parent that rests is woken for it, one that works reads it at its next step.
    for rests in [true, false] {
        let family = Family::new();
        let says_so = sends(&SessionId::new("parent"), &[("r", "It is a lot.")]);
        let looks = calls([("k", "look", "{}")]);
        let child = vec![looks, says_so, says("Four.")];
        family.children.answer("the count", child);
        let mut attempts = vec![delegates("c1", "the count", in_background())];
        if !rests {
            attempts.push(calls([("p", "check", "{}")]));
        }
        attempts.extend(["I wait.", "Ah.", "I see."].map(says));
        let parent = family.parent(attempts);
        let [k, p] = ["k", "p"].map(|call| family.bench.work.hold(call));
        parent.followup("Go.").unwrap();
        k.started.cancelled().await;
        if rests {
            parent.when_idle().await;
        } else {
            p.started.cancelled().await;
        }
        k.released.cancel();
        family.subagents.quiet(parent.session().id()).await;
        p.released.cancel();
        family.subagents.at_rest(&parent).await;
        let log = parent.session().log();
        let messages = all(&log, &EventKind::UserMessage);
        let kinds: Vec<_> = messages
            .iter()
            .map(|message| message["source"]["kind"].as_str().unwrap())
            .collect();
        assert_eq!(
            kinds,
            [
                "user",
                "runtime-context",
                "agent-message",
                "subagent-settled"
            ]
        );
        let id = family.child();
        assert_eq!(
            messages[2]["content"],
            json!([
                {"type": "text", "text": format!("Subagent {id} says:")},
                {"type": "text", "text": "It is a lot."},
            ])
        );
        assert_eq!(
            messages[2]["source"],
            json!({
                "kind": "agent-message", "form": "relay", "senderSessionId": id.as_str(), "kept": true
            })
        );
        if !rests {
            assert_eq!(endings(&log), ["completed"]);
        }
        let (_, code, text) = results(&family.child_log()).pop().unwrap();
        let expected = if rests {
            "which works again."
        } else {
            "which works and will read it."
        };
        assert!(code.is_empty() && text.ends_with(expected), "{text}");
    }
}

#[tokio::test]
async fn a_child_without_its_parent_has_nobody_to_tell() {
    let (family, parent, hold) = at_work(
        looks_and_says("Four."),
        vec![says("I wait."), says("I see.")],
    )
    .await;
    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
    parent.dispose().await.unwrap();
    let (child, _) = again(&family, &family.child(), Vec::new());
    let away = family.subagents.report(&child, "Hello?").unwrap_err();
    assert_eq!(away.code(), "PARENT_UNAVAILABLE");
}

#[tokio::test]
async fn interrupting_ends_the_turn_and_not_the_child() {
    let mut child = looks_and_says("Never.");
    child.push(says("Five."));
    // What the first turn did not come to answers the second.
    child.remove(1);
    let rest = vec![says("I wait."), says("I see."), says("I see.")];
    let (family, parent, hold) = at_work(child, rest).await;
    let id = family.child();
    send(&family, &parent, &id, "Unread.").await;
    let stopping = family.subagents.interrupt(&parent, &id).await.unwrap();
    assert_eq!(stopping, Interrupted::Stopping);
    family.subagents.at_rest(&parent).await;
    assert!(hold.told.is_cancelled());
    let ends = all(&family.child_log(), &EventKind::TurnEnd);
    assert_eq!(
        ends[0]["reason"],
        json!({"kind": "aborted", "reason": {"kind": "parent"}})
    );
    let log = parent.session().log();
    assert_eq!(
        notices(&family, &log),
        [
            "Subagent <child 1> (the count) was cancelled before it had finished.\nIt left no closing message."
        ]
    );

    // Once more is accepted, and does nothing.
    let before = family.bench.bytes(&id);
    let rests = family.subagents.interrupt(&parent, &id).await.unwrap();
    assert_eq!(rests, Interrupted::AtRest);
    assert_eq!(family.bench.bytes(&id), before);

    send(&family, &parent, &id, "Once more.").await;
    family.subagents.at_rest(&parent).await;
    assert_eq!(told(&family, &id), ["Do the count.", "Once more."]);
    assert!(notices(&family, &parent.session().log())[1].ends_with("Five."));
}

#[tokio::test]
async fn interrupting_through_the_tool_is_read_in_the_turn_that_does_it() {
    let (family, parent, _hold) = at_work(looks_and_says("Never."), vec![says("I wait.")]).await;
    let id = family.child();
    let stops = format!(r#"{{"agent_id":"{id}"}}"#);
    let model = script(vec![
        calls([("i", "interrupt_agent", &*stops)]),
        calls([("p", "check", "{}")]),
        calls([("i2", "interrupt_agent", &*stops)]),
        says("Done."),
    ]);
    let hold = family.bench.work.hold("p");
    parent.set_model(model, crate::bench::call_config("acme-small"));
    parent.followup("Stop it.").unwrap();
    hold.started.cancelled().await;
    family.subagents.quiet(parent.session().id()).await;
    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
    let log = parent.session().log();
    let texts: Vec<_> = results(&log)
        .split_off(1)
        .into_iter()
        .map(|(_, _, text)| named(&family, &text))
        .collect();
    assert_eq!(
        texts,
        [
            "Subagent <child 1> is being stopped.",
            "p is done",
            "Subagent <child 1> was not at work; there was nothing to stop.",
        ]
    );
    assert_eq!(endings(&log), ["completed", "completed"]);
}
