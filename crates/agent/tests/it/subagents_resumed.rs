//! Children that are opened again when they are sent more, in this process and in another one (`reference/agent.md` §4.5; §10, 70).

use offshoot_agent::{
    CancelCause, Delivery, PermissionConfig, Provider, SubagentLimits, ToolFilter,
};
use offshoot_model::Attempt;
use offshoot_session::EventKind;
use offshoot_tool_api::{ApprovalPolicy, SandboxMode};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::bench::script;
use crate::family::{Family, delegates};
use crate::outline::outline_from;
use crate::subagents_background::{continuable, live, looks_and_says, notices};
use crate::subagents_messages::{again, at_work, refused, send, sends, told};
use crate::support::{all, calls, endings, result, results, says};

#[tokio::test]
async fn a_child_that_rests_is_opened_again_and_settles_again() {
    let mut child = looks_and_says("Four.");
    child.extend([says("Five."), says("Six.")]);
    let rest = vec![
        says("I wait."),
        says("I see."),
        says("I see."),
        says("I see."),
    ];
    let (family, parent, hold) = at_work(child, rest).await;
    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
    let id = family.child();
    let first = family.bench.log(&id).end();
    assert_eq!(live(&family), [parent.session().id().clone()]);

    assert_eq!(
        send(&family, &parent, &id, "And now?").await,
        Delivery::Woken
    );
    family.subagents.at_rest(&parent).await;
    assert_eq!(
        send(&family, &parent, &id, "And now?").await,
        Delivery::Woken
    );
    family.subagents.at_rest(&parent).await;
    insta::assert_snapshot!("resumed_child", outline_from(&family.bench.log(&id), first));
    assert_eq!(
        notices(&family, &parent.session().log()),
        ["Four.", "Five.", "Six."].map(|text| format!(
            "Subagent <child 1> (the count) has finished and rests until you send it more.\nIts closing message:\n{text}"
        ))
    );
    assert_eq!(live(&family), [parent.session().id().clone()]);
}

#[tokio::test]
async fn a_message_that_comes_while_a_child_is_being_closed_is_read_when_it_was_opened_again() {
    let child = vec![calls([("k", "look", "{}")]), says("Five.")];
    let rest = vec![says("I wait."), says("I see."), says("I see.")];
    let (family, parent, _hold) = at_work(child, rest).await;
    let id = family.child();
    let agent = family.bench.service.agent(&id).unwrap();
    let (closed, sent) = tokio::join!(biased; agent.dispose(), async {
        assert!(agent.is_disposed() && family.bench.service.open(&id).is_err());
        send(&family, &parent, &id, "And now?").await
    });
    closed.unwrap();
    assert_eq!(sent, Delivery::Woken);
    drop(agent);
    family.subagents.at_rest(&parent).await;
    assert_eq!(told(&family, &id), ["Do the count.", "And now?"]);
    assert_eq!(endings(&family.bench.log(&id)), ["aborted", "completed"]);
    assert_eq!(notices(&family, &parent.session().log()).len(), 2);
}

#[tokio::test]
async fn two_messages_at_once_open_a_child_once() {
    let mut child = looks_and_says("Four.");
    child.extend([
        calls([("again", "look", "{}")]),
        says("Five."),
        says("Six."),
    ]);
    let rest = vec![
        says("I wait."),
        says("I see."),
        says("I see."),
        says("I see."),
    ];
    let (family, parent, hold) = at_work(child, rest).await;
    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
    let id = family.child();
    // It works until both are sent: one that has settled in between would be opened once more.
    let hold = family.bench.work.hold("again");
    let (one, two) = tokio::join!(
        send(&family, &parent, &id, "One."),
        send(&family, &parent, &id, "Two.")
    );
    assert_eq!((one, two), (Delivery::Woken, Delivery::AtWork));
    assert_eq!(family.subagents.running(parent.session().id()).len(), 1);
    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
    assert_eq!(told(&family, &id), ["Do the count.", "One.", "Two."]);
    assert_eq!(family.children.made(), [id.clone(), id]);
}

#[tokio::test]
async fn another_process_opens_a_child_by_its_descriptor_with_its_filter_and_its_limits() {
    let mut family = Family::new();
    let tries = calls([
        ("l", "look", "{}"),
        ("c", "change", "{}"),
        ("a", "alter", "{}"),
        ("b", "beyond", "{}"),
    ]);
    let model = family
        .children
        .answer("the count", vec![says("Four."), tries, says("Five.")]);
    let more = json!({"mode": "continuable", "tools": ["look", "beyond", "alter"]});
    let attached = family.bench.create();
    let narrow = |setup: &mut offshoot_agent::AgentSetup| {
        setup.config.permissions.mode = Some(SandboxMode::ReadOnly);
        setup.config.permissions.tools = ToolFilter::new(None, &["alter".to_owned()]).unwrap();
    };
    let attempts = vec![
        delegates("c1", "the count", more),
        says("I wait."),
        says("I see."),
    ];
    let parent = family.changed(attached, script(attempts), narrow);
    parent.followup("Go.").unwrap();
    family.subagents.at_rest(&parent).await;
    let (id, child) = (parent.session().id().clone(), family.child());
    family.subagents.dispose(&id).await;
    parent.dispose().await.unwrap();
    let known = family.bench.log(&child);
    drop(parent);

    family.restarted();
    // What is configured by now does not count: the model, the mode, and whether somebody is asked.
    *family.children.permissions.lock().unwrap() = PermissionConfig {
        mode: Some(SandboxMode::DangerFullAccess),
        approvals: Some(ApprovalPolicy::Ask),
        ..PermissionConfig::default()
    };
    let sends_more = sends(&child, &[("m", "And now?")]);
    let model_of_parent = script(vec![sends_more, says("Sent."), says("I see.")]);
    let parent = family.changed(family.bench.open(&id), model_of_parent, |setup| {
        narrow(setup);
        setup.config.call.model = "acme-large".into();
    });
    parent.followup("More.").unwrap();
    family.subagents.at_rest(&parent).await;
    assert_eq!(model.remaining(), 0);
    let made = family.children.all();
    assert_eq!(made.len(), 2);
    assert_eq!(
        (&made[1].session, &made[1].parent, &made[1].call_id),
        (&child, &id, &None)
    );
    assert_eq!(made[1].provider, made[0].provider);
    assert_eq!(
        made[1].call, made[0].call,
        "its own model, not that of its parent by now"
    );
    let log = family.bench.log(&child);
    let ran: Vec<_> = results(&log)
        .into_iter()
        .map(|(call, _, text)| (call, text))
        .collect();
    let no = |tool: &str| format!("Error: tool \"{tool}\" is not available to this agent");
    assert_eq!(
        ran,
        [
            ("l", "l is done".to_owned()),
            ("c", no("change")),
            ("a", no("alter")),
            ("b", "read-only".to_owned()),
        ]
        .map(|(call, text)| (call.to_owned(), text))
    );
    for kind in [
        EventKind::SandboxMode,
        EventKind::ApprovalPolicy,
        EventKind::SubagentDescriptor,
    ] {
        assert_eq!(all(&log, &kind), all(&known, &kind), "nothing is said anew");
    }
    assert!(notices(&family, &parent.session().log())[1].ends_with("Five."));
}

#[tokio::test]
async fn a_child_is_opened_again_with_no_more_than_its_parent_may_do_by_now() {
    use ApprovalPolicy::{Ask, Never};
    use SandboxMode::{DangerFullAccess, ReadOnly};
    // What the parent may do then, and what it may do by now; what the log of the child says, and what its tool may do.
    for (then, now, modes, policies, expected) in [
        (
            (Some(DangerFullAccess), Ask),
            (ReadOnly, Never),
            vec!["danger-full-access", "read-only"],
            vec!["ask", "never"],
            "read-only",
        ),
        (
            (None, Ask),
            (ReadOnly, Ask),
            vec!["read-only"],
            vec!["ask"],
            "read-only",
        ),
        // What it was given when it was created does not become more.
        (
            (Some(ReadOnly), Never),
            (DangerFullAccess, Ask),
            vec!["read-only"],
            vec!["never"],
            "read-only",
        ),
    ] {
        let mut family = Family::with(SubagentLimits {
            approvals: Ask,
            ..SubagentLimits::default()
        });
        let tries = calls([("b", "beyond", "{}")]);
        let answers = vec![says("Four."), tries, says("Five.")];
        family.children.answer("the count", answers);
        let attempts = vec![
            delegates("c1", "the count", continuable()),
            says("I wait."),
            says("I see."),
        ];
        let parent = family.changed(family.bench.create(), script(attempts), |setup| {
            setup.config.permissions.mode = then.0;
            setup.config.permissions.approvals = Some(then.1);
        });
        parent.followup("Go.").unwrap();
        family.subagents.at_rest(&parent).await;
        let (id, child) = (parent.session().id().clone(), family.child());
        parent.dispose().await.unwrap();
        drop(parent);

        family.restarted();
        let sends_more = sends(&child, &[("m", "And now?")]);
        let attempts = vec![sends_more, says("Sent."), says("I see.")];
        let parent = family.changed(family.bench.open(&id), script(attempts), |setup| {
            setup.config.permissions.mode = Some(now.0);
            setup.config.permissions.approvals = Some(now.1);
        });
        parent.followup("More.").unwrap();
        family.subagents.at_rest(&parent).await;
        let log = family.bench.log(&child);
        let delegated = |member: &str, values: &[&str]| -> Vec<Value> {
            let said = values.iter();
            said.map(|value| json!({member: value, "source": "delegation"}))
                .collect()
        };
        assert_eq!(
            all(&log, &EventKind::SandboxMode),
            delegated("mode", &modes)
        );
        assert_eq!(
            all(&log, &EventKind::ApprovalPolicy),
            delegated("policy", &policies)
        );
        assert_eq!(results(&log), [result("b", "", expected)]);
    }
}

#[tokio::test]
async fn what_a_fork_has_inherited_does_not_say_what_it_is_itself() {
    let family = Family::new();
    family.children.answer("the count", vec![says("Four.")]);
    let parent = family.parent(vec![
        delegates("c1", "the count", continuable()),
        says("I wait."),
        says("I see."),
    ]);
    parent.followup("Go.").unwrap();
    family.subagents.at_rest(&parent).await;
    let rest = vec![says("Five."), says("Six.")];
    let model = family.children.answer("the rest", rest);
    let more = json!({"mode": "continuable", "context": "conversation"});
    let attempts = vec![
        delegates("c2", "the rest", more),
        says("I wait."),
        says("I see."),
        says("I see."),
    ];
    let (above, _) = again(&family, &family.child(), attempts);
    above.followup("Delegate the rest.").unwrap();
    family.subagents.at_rest(&above).await;
    let fork = family.children.made()[1].clone();
    assert_eq!(send(&family, &above, &fork, "And?").await, Delivery::Woken);
    family.subagents.at_rest(&above).await;
    let made = family.children.all();
    assert_eq!(made[2].session, fork);
    assert_eq!(made[2].provider, Provider::Fork);
    assert_eq!(model.remaining(), 0, "as what it is, it has answered");
}

#[tokio::test]
async fn a_child_that_is_gone_or_open_elsewhere_cannot_be_sent_anything() {
    let rest = vec![says("I wait."), says("I see.")];
    let (family, parent, hold) = at_work(looks_and_says("Four."), rest).await;
    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
    let id = family.child();
    let (person, _) = again(&family, &id, Vec::new());
    assert_eq!(refused(&family, &parent, &id).await.0, "SESSION_LIVE");
    person.dispose().await.unwrap();
    offshoot_store::Persistence::delete(&family.bench.persistence(), &id, 1).unwrap();
    assert_eq!(refused(&family, &parent, &id).await.0, "SESSION_NOT_FOUND");
    assert_eq!(family.subagents.running(parent.session().id()), []);
}

#[tokio::test]
async fn a_child_is_opened_again_only_if_there_is_room_for_one_more_at_work() {
    let family = Family::with(SubagentLimits {
        max_running: 1,
        ..SubagentLimits::default()
    });
    family.children.answer("a", vec![says("A.")]);
    family.children.answer("b", looks_and_says("B."));
    let parent = family.parent(vec![
        delegates("a", "a", continuable()),
        says("I wait."),
        says("I see."),
        delegates("b", "b", continuable()),
        says("I wait."),
        says("I see."),
    ]);
    parent.followup("Go.").unwrap();
    family.subagents.at_rest(&parent).await;
    let hold = family.bench.work.hold("k");
    parent.followup("Go on.").unwrap();
    hold.started.cancelled().await;
    let first = family.children.made()[0].clone();
    assert_eq!(
        refused(&family, &parent, &first).await.0,
        "CAPACITY_EXCEEDED"
    );
    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
}

#[tokio::test]
async fn messages_that_a_failed_child_has_not_come_to_are_told_of_and_come_first_later() {
    let throws = Attempt::Throw {
        chunks: Vec::new(),
        message: "busy".into(),
        code: "SERVER".into(),
    };
    let child = vec![calls([("k", "look", "{}")]), throws, says("1"), says("2")];
    let rest = vec![says("I wait."), says("I see."), says("I see.")];
    let (family, parent, hold) = at_work(child, rest).await;
    let id = family.child();
    let agent = family.bench.service.agent(&id).unwrap();
    agent.followup("One.").unwrap();
    drop(agent);
    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
    insta::assert_snapshot!(
        "unread_messages",
        notices(&family, &parent.session().log()).concat()
    );
    send(&family, &parent, &id, "Two.").await;
    family.subagents.at_rest(&parent).await;
    assert_eq!(told(&family, &id), ["Do the count.", "One.", "Two."]);
}

#[tokio::test]
async fn a_child_that_somebody_stops_while_it_is_told_more_is_told_more() {
    let child = vec![calls([("k", "look", "{}")]), says("Five.")];
    let rest = vec![says("I wait."), says("I see."), says("I see.")];
    let (family, parent, _hold) = at_work(child, rest).await;
    let id = family.child();
    family
        .subagents
        .cancel_below(parent.session().id(), CancelCause::User);
    send(&family, &parent, &id, "Rather this.").await;
    family.subagents.at_rest(&parent).await;
    assert_eq!(endings(&family.child_log()), ["aborted", "completed"]);
    assert_eq!(told(&family, &id), ["Do the count.", "Rather this."]);
    // It has not stayed stopped: whoever waits for it is woken.
    assert_eq!(endings(&parent.session().log()), ["completed", "completed"]);
}

#[tokio::test]
async fn a_message_whose_call_is_cancelled_is_not_sent() {
    let rest = vec![says("I wait."), says("I see.")];
    let (family, parent, hold) = at_work(looks_and_says("Four."), rest).await;
    hold.released.cancel();
    family.subagents.at_rest(&parent).await;
    let (id, cancelled) = (family.child(), CancellationToken::new());
    cancelled.cancel();
    let sent = family
        .subagents
        .send(&parent, &id, "Never.", &cancelled)
        .await;
    assert_eq!(sent.unwrap_err().code(), "CANCELLED");
    assert_eq!(told(&family, &id), ["Do the count."]);
}
