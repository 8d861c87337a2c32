//! What may be delegated, and what a child may do (`reference/agent.md` §4.3; §10, 67 and 71).

use std::sync::Arc;

use offshoot_agent::{
    Agent, Delegation, PermissionConfig, Provider, SetupError, SubagentError, SubagentLimits,
    ToolFilter,
};
use offshoot_session::{EventDraft, EventKind, SessionId};
use offshoot_tool_api::{ApprovalPolicy, PermissionAnswer};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::bench::{NOW, script};
use crate::family::{Family, delegates, delegation, in_conversation, metas, nothing_more, task};
use crate::scene::Person;
use crate::support::{all, calls, kinds, result, results, says};

/// Every generation delegates to the next one: the child of each answers for the label that its parent gives it.
fn generations(family: &Family, labels: &[&str], more: &Value) {
    for (at, label) in labels.iter().enumerate() {
        let answers = match labels.get(at + 1) {
            Some(next) => vec![delegates("c", next, more.clone()), says(label)],
            None => vec![says(label)],
        };
        family.children.answer(label, answers);
    }
}

#[tokio::test]
async fn delegations_lie_above_each_other_only_so_deep_and_the_model_is_told_what_to_do_instead() {
    let family = Family::new();
    generations(&family, &["one", "two", "three", "four"], &nothing_more());
    let parent = family.parent(vec![
        delegates("c", "one", nothing_more()),
        says("All done."),
    ]);
    parent.followup("Go.").unwrap();
    parent.when_idle().await;
    let made = family.children.made();
    let depths: Vec<_> = made
        .iter()
        .map(|id| family.bench.read(id).stored.header.delegation_depth)
        .collect();
    assert_eq!(depths, [1, 2, 3]);
    let told = "Error: a subagent of this session would be at depth 4, and the limit is 3; do the work here instead";
    let third = family.bench.log(&made[2]);
    assert_eq!(results(&third), [result("c", "DEPTH_EXCEEDED", told)]);
    let refused = &all(&third, &EventKind::ToolResult)[0];
    assert_eq!(refused["error"]["name"], "SubagentDepthError");
    assert_eq!(refused.get("meta"), None, "there is no child");
    assert!(!kinds(&third).contains(&EventKind::SubagentCatalog.as_str()));
    // Nothing of it reaches those above.
    assert_eq!(results(&parent.session().log()), [result("c", "", "one")]);
}

#[tokio::test]
async fn how_deep_a_session_is_holds_after_it_was_opened_again_in_another_process() {
    let mut family = Family::with(SubagentLimits {
        max_depth: 1,
        ..SubagentLimits::default()
    });
    family.children.answer("one", vec![says("Four.")]);
    family.children.answer("two", vec![says("Never said.")]);
    let parent = family.parent(vec![delegates("c", "one", nothing_more()), says("Done.")]);
    parent.followup("Go.").unwrap();
    parent.when_idle().await;
    let child = family.child();
    drop(parent);
    family.restarted();
    let attempts = vec![delegates("d", "two", nothing_more()), says("Alone, then.")];
    let child = family.on(family.bench.open(&child), script(attempts));
    child.followup("Delegate that.").unwrap();
    child.when_idle().await;
    let told = "Error: a subagent of this session would be at depth 2, and the limit is 1; do the work here instead";
    let log = child.session().log();
    assert_eq!(results(&log), [result("d", "DEPTH_EXCEEDED", told)]);
    assert_eq!(family.children.made().len(), 1);
}

#[tokio::test]
async fn a_fork_of_a_subagent_by_a_person_is_nobodys_child_and_may_delegate() {
    let family = Family::with(SubagentLimits {
        max_depth: 1,
        ..SubagentLimits::default()
    });
    family.children.answer("one", vec![says("Four.")]);
    family.children.answer("two", vec![says("Five.")]);
    let parent = family.parent(vec![delegates("c", "one", nothing_more()), says("Done.")]);
    parent.followup("Go.").unwrap();
    parent.when_idle().await;
    let source = family.bench.read(&family.child());
    let fork = family
        .bench
        .service
        .prepare_fork(&source, None, None)
        .unwrap();
    let fork = family.bench.service.store_fork(&fork).unwrap();
    let attempts = vec![delegates("d", "two", nothing_more()), says("Done.")];
    let fork = family.on(fork, script(attempts));
    fork.followup("Go.").unwrap();
    fork.when_idle().await;
    assert_eq!(results(&fork.session().log()), [result("d", "", "Five.")]);
}

#[tokio::test]
async fn a_caller_has_only_so_many_at_work_and_more_when_they_are_done() {
    let family = Family::with(SubagentLimits {
        max_running: 2,
        ..SubagentLimits::default()
    });
    for label in ["a", "b", "c", "d"] {
        family.children.answer(label, vec![says(label)]);
    }
    let three = ["a", "b", "c"].map(|label| (label, task(label, nothing_more())));
    let three = three
        .iter()
        .map(|(id, task)| (*id, "delegate", task.as_str()));
    let parent = family.parent(vec![
        calls(three),
        delegates("d", "d", nothing_more()),
        says("Done."),
    ]);
    parent.followup("Go.").unwrap();
    parent.when_idle().await;
    let told = "Error: subagents of this session at work: 2, and the limit is 2; wait for one of them, or do the work here";
    assert_eq!(
        results(&parent.session().log()),
        [
            result("a", "", "a"),
            result("b", "", "b"),
            result("c", "CAPACITY_EXCEEDED", told),
            result("d", "", "d"),
        ]
    );
}

#[tokio::test]
async fn what_is_no_task_is_refused_before_there_is_a_child() {
    let family = Family::new();
    family.children.answer("the count", vec![says("Four.")]);
    let wrong = calls([
        ("a", "delegate", r#"{"prompt": " \n"}"#),
        ("b", "delegate", r#"{"task": "Count."}"#),
        (
            "c",
            "delegate",
            r#"{"prompt": "Count.", "context": "some"}"#,
        ),
        ("d", "delegate", r#"{"prompt": "Count.", "tools": ["rm"]}"#),
        ("e", "delegate", r#"{"prompt": "Count.", "tools": ["l["]}"#),
        (
            "f",
            "delegate",
            r#"{"prompt": "Count.", "label": "of nobody"}"#,
        ),
    ]);
    let parent = family.parent(vec![wrong, says("Oh.")]);
    parent.followup("Go.").unwrap();
    parent.when_idle().await;
    let log = parent.session().log();
    let told = results(&log);
    let told: Vec<_> = told
        .iter()
        .map(|(_, code, text)| format!("{code}: {text}"))
        .collect();
    insta::assert_snapshot!("refused_delegations", told.join("\n"));
    assert!(!kinds(&log).contains(&EventKind::SubagentCatalog.as_str()));
    assert!(metas(&log).iter().all(Value::is_null));
    assert_eq!(family.children.made(), []);
}

#[tokio::test]
async fn a_fork_that_cannot_have_an_agent_leaves_no_session_behind() {
    let family = Family::new();
    let attempts = vec![
        says("Hello."),
        delegates("c", "of nobody", in_conversation()),
        says("Oh."),
    ];
    let parent = family.parent(attempts);
    parent.followup("Hi.").unwrap();
    parent.followup("Go.").unwrap();
    parent.when_idle().await;
    let told = "Error: nobody answers for \"of nobody\"";
    assert_eq!(
        results(&parent.session().log()),
        [result("c", "NO_MODEL", told)]
    );
    assert_eq!(listed(&family), [parent.session().id().clone()]);
}

#[tokio::test]
async fn a_side_session_starts_no_subagent_whoever_asks() {
    let family = Family::new();
    family.children.answer("the count", vec![says("Four.")]);
    let parent = family.parent(vec![says("Hello.")]);
    parent.followup("Hi.").unwrap();
    parent.when_idle().await;
    let framing = json!({
        "id": "framing", "role": "user", "content": [{"type": "text", "text": "Only look."}],
        "source": {"kind": "sidechat", "form": "notice", "summary": "A side session", "act": "framing"},
    });
    let framing = EventDraft::message(EventKind::UserMessage, &framing).unwrap();
    parent.session().append(framing, NOW).unwrap();
    assert!(parent.session().log().is_side_session());
    let refused = family
        .subagents
        .start(&parent, delegation("the count"))
        .await;
    assert!(
        matches!(refused, Err(SubagentError::SideSession)),
        "{refused:?}"
    );
    let (anybody, never) = (SessionId::new("session-9"), CancellationToken::new());
    let sent = family
        .subagents
        .send(&parent, &anybody, "Psst.", &never)
        .await;
    assert!(matches!(sent, Err(SubagentError::SideSession)), "{sent:?}");
    let stopped = family.subagents.interrupt(&parent, &anybody).await;
    assert!(
        matches!(stopped, Err(SubagentError::SideSession)),
        "{stopped:?}"
    );
    assert_eq!(family.children.made(), []);
}

#[tokio::test]
async fn a_child_that_may_use_some_tools_sees_all_of_them_and_is_refused_the_others() {
    let family = Family::new();
    let looks = calls([
        ("l", "look", "{}"),
        ("c", "change", "{}"),
        ("k", "check", "{}"),
    ]);
    let model = family
        .children
        .answer("the count", vec![looks, says("Four.")]);
    let more = json!({"tools": ["look", "ch*k"]});
    let of_parent = script(vec![delegates("c1", "the count", more), says("Done.")]);
    let parent = family.on(family.bench.create(), Arc::clone(&of_parent) as _);
    parent.followup("Go.").unwrap();
    parent.when_idle().await;
    let no = "Error: tool \"change\" is not available to this agent";
    assert_eq!(
        results(&family.child_log()),
        [
            result("l", "", "l is done"),
            result("c", "", no),
            result("k", "", "k is done"),
        ]
    );
    assert_eq!(model.requests()[0].tools, of_parent.requests()[0].tools);
}

#[tokio::test]
async fn a_child_may_not_use_what_those_above_it_may_not_use() {
    let family = Family::new();
    // What the program denies all children, what the first one may use, and what it wants its own child to use.
    *family.children.permissions.lock().unwrap() = PermissionConfig {
        tools: ToolFilter::new(None, &["alter".to_owned()]).unwrap(),
        ..PermissionConfig::default()
    };
    let more = json!({"tools": ["look", "change", "alter"]});
    let tried = calls([
        ("l", "look", "{}"),
        ("c", "change", "{}"),
        ("a", "alter", "{}"),
        ("k", "check", "{}"),
    ]);
    family.children.answer("two", vec![tried, says("Two.")]);
    let one = vec![delegates("d", "two", more), says("One.")];
    family.children.answer("one", one);
    let more = json!({"tools": ["look", "check", "delegate"]});
    let parent = family.parent(vec![delegates("c1", "one", more), says("Done.")]);
    parent.followup("Go.").unwrap();
    parent.when_idle().await;
    let made = family.children.made();
    let ran: Vec<_> = results(&family.bench.log(&made[1]))
        .into_iter()
        .map(|(call, _, text)| (call, !text.starts_with("Error")))
        .collect();
    let expected = [("l", true), ("c", false), ("a", false), ("k", false)];
    assert_eq!(ran, expected.map(|(call, ran)| (call.to_owned(), ran)));
    // Those of its parent are not touched by that.
    assert!(results(&family.bench.log(&made[0]))[0].2.ends_with("Two."));
}

#[tokio::test]
async fn nobody_is_asked_for_a_child_unless_the_program_says_so() {
    for (approvals, asked, told) in [
        (
            ApprovalPolicy::Never,
            0,
            "Error: tool \"beyond\" requires approval, and this session asks for none",
        ),
        (ApprovalPolicy::Ask, 1, "danger-full-access"),
    ] {
        let family = Family::with(SubagentLimits {
            approvals,
            ..SubagentLimits::default()
        });
        let person = Person::who_says([PermissionAnswer::AllowedOnce]);
        *family.children.approver.lock().unwrap() = Arc::clone(&person) as _;
        let beyond = calls([("b", "beyond", r#"{"beyond": "the world"}"#)]);
        family
            .children
            .answer("the count", vec![beyond, says("Four.")]);
        let parent = family.parent(vec![
            delegates("c1", "the count", nothing_more()),
            says("Done."),
        ]);
        parent.followup("Go.").unwrap();
        parent.when_idle().await;
        assert_eq!(person.count(), asked);
        assert_eq!(results(&family.child_log()), [result("b", "", told)]);
    }
}

#[tokio::test]
async fn a_session_without_an_agent_here_delegates_nothing() {
    let family = Family::new();
    family.children.answer("the count", vec![says("Four.")]);
    let attached = family.bench.create();
    let mut setup = family.bench.setup(script(vec![
        delegates("c", "the count", nothing_more()),
        says("Oh."),
    ]));
    let session = attached.session().id().clone();
    family.subagents.equip(&mut setup, &session).unwrap();
    // A driver without a handle.
    let mut driver = offshoot_agent::Driver::new(attached, setup);
    crate::bench::ask(&mut driver, "Go.").await;
    let told = format!("Error: session `{session}` has no agent here that could delegate");
    assert_eq!(
        results(&driver.session().log()),
        [result("c", "PARENT_UNAVAILABLE", &told)]
    );
}

#[tokio::test]
async fn a_program_starts_children_as_a_model_does() {
    let family = Family::new();
    family.children.answer("the count", vec![says("Four.")]);
    let parent: Agent = family.parent(vec![]);
    let started = family
        .subagents
        .start(&parent, delegation("the count"))
        .await
        .unwrap();
    assert_eq!(started.session, family.child());
    assert_eq!(started.provider, Provider::Spawn);
    let end = started.end.unwrap();
    assert_eq!((end.stop.as_str(), &*end.text), ("completed", "Four."));
    let catalog = all(&parent.session().log(), &EventKind::SubagentCatalog);
    assert_eq!(catalog[0]["childId"], started.session.as_str());
    let refused = family
        .subagents
        .start(&parent, Delegation::new("Count."))
        .await;
    let error = SetupError {
        message: "nobody answers for \"\"".into(),
        code: "NO_MODEL".into(),
    };
    assert!(matches!(refused, Err(SubagentError::Setup(found)) if found == error));
}

fn listed(family: &Family) -> Vec<SessionId> {
    let query = offshoot_store::Query::default();
    let rows = family.bench.service.list(&query).unwrap().rows.into_iter();
    rows.map(|row| row.id).collect()
}
