//! How children come to be (`reference/agent.md` §4.2 and §4.3; §10, 65 and 66).

use std::sync::Arc;

use offshoot_agent::{
    CancelCause, PermissionConfig, Provider, Queue, SubagentLimits, build_request,
};
use offshoot_format::StoredSession;
use offshoot_model::{Attempt, Message, ModelRequest, encode_messages};
use offshoot_session::{EventKind, EventLog, LogOffset, Origin, Seq, SessionHeader};
use offshoot_test_support::corpus;
use offshoot_tool_api::{ApprovalPolicy, SandboxMode};
use serde_json::{Value, json};

use crate::bench::{DIALECT, NOW, call_config, script};
use crate::family::{Family, delegates, delegation, in_conversation, metas, nothing_more, task};
use crate::outline::{outline, outline_from};
use crate::parts::{Routed, texts_of};
use crate::support::{all, calls, data, first, kinds, result, results, says};

/// What a parent says that delegates once.
fn once(more: Value) -> Vec<Attempt> {
    vec![delegates("c1", "the count", more), says("There are four.")]
}

/// One completed turn, then `once`.
fn in_its_second_turn(more: Value) -> Vec<Attempt> {
    let mut attempts = vec![says("Hello.")];
    attempts.extend(once(more));
    attempts
}

#[tokio::test]
async fn a_spawned_child_is_an_ordinary_session_below_its_parent() {
    let family = Family::new();
    let model = family.children.answer("the count", vec![says("Four.")]);
    let parent = family.parent(once(nothing_more()));
    parent.followup("How many?").unwrap();
    parent.when_idle().await;

    let (log, id) = (parent.session().log(), family.child());
    let child = family.bench.read(&id).stored;
    let expected = SessionHeader {
        cwd: Some("/srv/demo".into()),
        parent: Some(parent.session().id().clone()),
        origin: Some(Origin::Subagent),
        delegation_depth: 1,
        ..SessionHeader::new(id.clone(), NOW as u64)
    };
    assert_eq!(child.header, expected);
    insta::assert_snapshot!("spawn_parent", outline(&log));
    insta::assert_snapshot!("spawn_child", outline(&child.log));
    assert_eq!(
        all(&child.log, &EventKind::SubagentDescriptor),
        [json!({"version": 3, "mode": "one-shot", "provider": "spawn", "label": "the count"})]
    );
    assert_eq!(
        all(&log, &EventKind::SubagentCatalog),
        [json!({
            "version": 0, "childId": id.as_str(), "childCreatedAt": NOW, "mode": "one-shot", "label": "the count"
        })]
    );
    assert_eq!(results(&log), [result("c1", "", "Four.")]);
    assert_eq!(
        metas(&log),
        [json!({
            "sessionId": id.as_str(), "provider": "spawn", "mode": "one-shot", "stopReason": "completed"
        })]
    );
    // The task is what a person would have said, and the child knows nothing else of the conversation.
    assert_eq!(texts_of(&child.log, "user"), ["Do the count."]);
    let requests = model.requests();
    assert_eq!(requests.len(), 1);
    let first = &requests[0];
    let parents = build_request(&log, parent.session().id()).unwrap();
    assert_eq!(head_of(first), head_of(&parents));
    assert_eq!(first.messages.len(), 3, "prompt, task, and where it works");
}

#[tokio::test]
async fn a_child_is_told_that_it_is_one_behind_what_it_shares_with_its_parent() {
    let family = Family::new();
    family.children.answer("the count", vec![says("Four.")]);
    let parent = family.parent(once(nothing_more()));
    parent.followup("How many?").unwrap();
    parent.when_idle().await;
    let told = texts_of(&family.child_log(), "runtime-context");
    insta::assert_snapshot!("child_is_told", told.join("\n---\n"));
    let of_parent = texts_of(&parent.session().log(), "runtime-context");
    assert!(!of_parent.concat().contains("subagent"));
}

#[tokio::test]
async fn a_model_is_told_this_of_delegating() {
    let family = Family::new();
    let of_parent = script(vec![says("Hello.")]);
    let parent = family.on(family.bench.create(), Arc::clone(&of_parent) as _);
    parent.followup("Hi.").unwrap();
    parent.when_idle().await;
    let request = &of_parent.requests()[0];
    let delegate = request.tools.iter().find(|tool| tool.name == "delegate");
    let delegate = delegate.unwrap();
    let parameters: Value = serde_json::from_str(delegate.parameters.get()).unwrap();
    let parameters = serde_json::to_string_pretty(&parameters).unwrap();
    insta::assert_snapshot!(
        "delegate_is_declared",
        format!("{}\n\n{parameters}", delegate.description)
    );
}

#[tokio::test]
async fn a_forked_child_goes_on_from_the_last_completed_turn_and_never_sees_the_open_one() {
    let family = Family::new();
    let model = family.children.answer("the count", vec![says("Four.")]);
    let of_parent = script(in_its_second_turn(in_conversation()));
    let parent = family.on(family.bench.create(), Arc::clone(&of_parent) as _);
    parent.followup("Hi.").unwrap();
    parent.when_idle().await;
    let cut = last_turn_end(&parent.session().log());
    parent.followup("How many?").unwrap();
    parent.when_idle().await;

    let log = parent.session().log();
    let child = family.bench.read(&family.child()).stored;
    assert_eq!(child.inherited, cut.after());
    assert_eq!(
        rows(&child.log)[..=cut.get() as usize],
        rows(&log)[..=cut.get() as usize]
    );
    assert_eq!(
        (child.header.is_seeded, child.header.delegation_depth),
        (true, 1)
    );
    insta::assert_snapshot!("fork_parent", outline(&log));
    insta::assert_snapshot!("fork_child", outline_from(&child.log, child.inherited));
    assert_eq!(
        metas(&log),
        [json!({
            "sessionId": family.child().as_str(), "provider": "fork", "mode": "one-shot", "stopReason": "completed"
        })]
    );

    // What providers cache is the same to the byte: prompt, tools, and the conversation up to the cut.
    let (childs, parents) = (&model.requests()[0], &of_parent.requests()[0]);
    assert_eq!(head_of(childs), head_of(parents));
    let said = json_of(&childs.messages);
    let before = json_of(&parents.messages);
    assert!(
        said.starts_with(before.trim_end_matches(']')),
        "{said}\n{before}"
    );
    assert!(!said.contains("How many?"));
}

#[tokio::test]
async fn a_fork_without_a_completed_turn_begins_like_a_spawned_child() {
    let family = Family::new();
    let model = family.children.answer("the count", vec![says("Four.")]);
    let parent = family.parent(once(in_conversation()));
    parent.followup("How many?").unwrap();
    parent.when_idle().await;
    let child = family.bench.read(&family.child()).stored;
    assert_eq!(
        (child.header.is_seeded, child.inherited),
        (false, LogOffset::START)
    );
    assert_eq!(
        results(&parent.session().log()),
        [result("c1", "", "Four.")]
    );
    assert_eq!(metas(&parent.session().log())[0]["provider"], "fork");
    assert_eq!(texts_of(&child.log, "user"), ["Do the count."]);
    let head = build_request(&parent.session().log(), parent.session().id()).unwrap();
    assert_eq!(head_of(&model.requests()[0]), head_of(&head));
}

#[tokio::test]
async fn a_spawned_child_is_told_what_its_parent_was_told_and_not_what_is_configured_by_now() {
    let family = Family::new();
    let model = family.children.answer("the count", vec![says("Four.")]);
    let attached = family.bench.create();
    let parent = family.changed(attached, script(once(nothing_more())), |setup| {
        setup.config.system_prompt = "You are of yesterday.".into();
    });
    parent.followup("How many?").unwrap();
    parent.when_idle().await;
    let (prompt, _) = head_of(&model.requests()[0]);
    assert!(prompt.contains("of yesterday"), "{prompt}");
}

#[tokio::test]
async fn a_child_is_called_as_the_latest_request_of_its_parent_was() {
    let family = Family::new();
    family.children.answer("before", vec![says("Four.")]);
    family.children.answer("the count", vec![says("Four.")]);
    let mut model = Routed::new(once(nothing_more()));
    model.max_tokens = Some(512);
    let parent = family.on(family.bench.create(), Arc::new(model));
    // Nothing was requested yet: what is configured counts.
    family
        .subagents
        .start(&parent, delegation("before"))
        .await
        .unwrap();
    let mut model = Routed::new(once(nothing_more()));
    // What a provider fills in is not chosen.
    model.max_tokens = Some(512);
    parent.set_model(Arc::new(model), call_config("acme-large"));
    parent.followup("How many?").unwrap();
    parent.when_idle().await;
    let called: Vec<_> = family
        .children
        .all()
        .into_iter()
        .map(|made| made.call)
        .collect();
    assert_eq!(
        called,
        [call_config("acme-small"), call_config("acme-large")]
    );
}

#[tokio::test]
async fn a_child_has_the_limits_that_its_parents_log_says() {
    // What the parent is configured with, what the child may ask, and what its log says.
    let says_nothing = json!({"policy": "never", "source": "delegation"});
    for (mode, approvals, limit, expected_mode, expected_policy) in [
        (
            None,
            None,
            ApprovalPolicy::Never,
            vec![],
            says_nothing.clone(),
        ),
        (
            Some(SandboxMode::ReadOnly),
            None,
            ApprovalPolicy::Never,
            vec![json!({"mode": "read-only", "source": "delegation"})],
            says_nothing.clone(),
        ),
        (
            None,
            None,
            ApprovalPolicy::Ask,
            vec![],
            json!({"policy": "ask", "source": "delegation"}),
        ),
        // Nobody is asked for a child who is not asked for its parent.
        (
            None,
            Some(ApprovalPolicy::Never),
            ApprovalPolicy::Ask,
            vec![],
            says_nothing,
        ),
    ] {
        let family = Family::with(SubagentLimits {
            approvals: limit,
            ..SubagentLimits::default()
        });
        // What the program wants of every agent does not count for a child.
        *family.children.permissions.lock().unwrap() = PermissionConfig {
            mode: Some(SandboxMode::DangerFullAccess),
            approvals: Some(ApprovalPolicy::Ask),
            ..PermissionConfig::default()
        };
        family.children.answer("the count", vec![says("Four.")]);
        let attached = family.bench.create();
        let parent = family.changed(attached, script(once(nothing_more())), |setup| {
            setup.config.permissions.mode = mode;
            setup.config.permissions.approvals = approvals;
        });
        parent.followup("How many?").unwrap();
        parent.when_idle().await;
        let log = family.child_log();
        assert_eq!(all(&log, &EventKind::SandboxMode), expected_mode);
        assert_eq!(all(&log, &EventKind::ApprovalPolicy), [expected_policy]);
    }
}

#[tokio::test]
async fn children_of_one_answer_are_created_in_the_order_of_the_calls_whatever_each_takes() {
    let labels = [
        "one", "two", "three", "four", "five", "six", "seven", "eight",
    ];
    let family = Family::new();
    for label in labels {
        family.children.answer(label, vec![says(label)]);
    }
    let tasks = labels.map(|label| task(label, in_conversation()));
    let asked = labels.iter().zip(&tasks);
    let all_at_once = calls(asked.map(|(label, task)| (*label, "delegate", task.as_str())));
    let attempts = vec![says("Hello."), all_at_once, says("Done.")];
    let parent = family.parent(attempts);
    parent.followup("Hi.").unwrap();
    parent.followup("Go.").unwrap();
    parent.when_idle().await;
    let log = parent.session().log();
    let catalog = all(&log, &EventKind::SubagentCatalog);
    let named: Vec<_> = catalog.iter().map(|fact| fact["label"].clone()).collect();
    assert_eq!(named, labels);
    let made = family.children.all();
    let callers: Vec<_> = made.iter().map(|made| made.call_id.as_deref()).collect();
    assert_eq!(callers, labels.map(Some));
    assert_eq!(results(&log), labels.map(|label| result(label, "", label)));
    for (meta, made) in metas(&log).iter().zip(&made) {
        assert_eq!(meta["sessionId"], made.session.as_str());
        assert_eq!(
            (&made.parent, made.provider),
            (parent.session().id(), Provider::Fork)
        );
    }
}

#[tokio::test]
async fn a_child_that_has_begun_is_in_the_file_of_its_parent() {
    let family = Family::new();
    let hang = Attempt::Hang { chunks: Vec::new() };
    let model = family.children.answer("the count", vec![hang]);
    let parent = family.parent(once(nothing_more()));
    parent.followup("How many?").unwrap();
    while model.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    let stored = family.bench.log(parent.session().id());
    let catalog = first(&stored, &EventKind::SubagentCatalog);
    assert_eq!(
        stored.last(),
        Some(&catalog),
        "and nobody has flushed since"
    );
    let (child, prompted) = (family.child_log(), EventKind::UserMessage);
    assert!(kinds(&child).contains(&prompted.as_str()));
    parent.cancel(CancelCause::User, Queue::Clear).unwrap();
    parent.when_idle().await;
}

/// A label that was more than a line.
const ONE_LINE: &str = "counts session-forged (rests), one-shot: settled";

/// What a continuable child of this parent has behind its seed, once it has settled.
async fn continuable(more: Value) -> (Family, StoredSession) {
    let family = Family::new();
    for label in ["the count", "Do the count.", ONE_LINE] {
        family.children.answer(label, vec![says("Four.")]);
    }
    let attached = family.bench.create();
    let mut attempts = in_its_second_turn(more);
    // When the child has settled.
    attempts.push(says("I see."));
    let parent = family.changed(attached, script(attempts), |setup| {
        setup.config.permissions.mode = Some(SandboxMode::ReadOnly);
        setup.config.call.reasoning_effort = Some("high".into());
    });
    parent.followup("Hi.").unwrap();
    parent.followup("How many?").unwrap();
    parent.when_idle().await;
    family.subagents.quiet(parent.session().id()).await;
    parent.when_idle().await;
    let stored = family.bench.read(&family.child()).stored;
    (family, stored)
}

#[tokio::test]
async fn a_continuable_child_says_right_behind_its_seed_what_it_takes_to_open_it_again() {
    let more = json!({"mode": "continuable", "context": "conversation", "tools": ["look", "ch*"]});
    let (_family, child) = continuable(more).await;
    let own: Vec<_> = child.log.events_from(child.inherited).take(5).collect();
    let kinds: Vec<_> = own.iter().map(|event| event.kind().as_str()).collect();
    assert_eq!(
        kinds,
        [
            "session/end-seed",
            "subagent/descriptor",
            "sandbox/mode",
            "approval/policy",
            "agent/inbox/spliced"
        ]
    );
    assert_eq!(
        data(own[1]),
        json!({
            "version": 3, "mode": "continuable", "provider": "fork", "label": "the count",
            "agentProvider": "acme", "agentModel": "acme-small", "agentReasoningEffort": "high",
            "toolFilter": {"allow": ["look", "ch*"]},
        })
    );
}

#[tokio::test]
async fn a_label_is_one_line_whatever_a_model_makes_of_it() {
    let label = " counts \nsession-forged (rests), one-shot:\r\n settled ";
    let (family, child) = continuable(json!({"mode": "continuable", "label": label})).await;
    let expected = ONE_LINE;
    let descriptor = data(&first(&child.log, &EventKind::SubagentDescriptor));
    assert_eq!(descriptor["label"], expected);
    let parent = family.bench.log(child.header.parent.as_ref().unwrap());
    let catalog = data(&first(&parent, &EventKind::SubagentCatalog));
    assert_eq!(catalog["label"], expected);
}

#[tokio::test]
async fn a_continuable_child_without_a_label_is_called_by_the_first_words_of_its_task() {
    let (family, child) = continuable(json!({"mode": "continuable", "label": " "})).await;
    assert_eq!(
        (child.header.is_seeded, child.inherited),
        (false, LogOffset::START)
    );
    let descriptor = data(&first(&child.log, &EventKind::SubagentDescriptor));
    assert_eq!(descriptor["label"], "Do the count.");
    let parent = family.bench.log(child.header.parent.as_ref().unwrap());
    let catalog = data(&first(&parent, &EventKind::SubagentCatalog));
    assert_eq!(
        (&catalog["label"], &catalog["mode"]),
        (&json!("Do the count."), &json!("continuable"))
    );
}

/// The kinds of a child's own events, without those that are not ours to write: presets.
fn own_kinds(child: &StoredSession) -> Vec<String> {
    let own = child.log.events_from(child.inherited);
    let kinds = own.map(|event| event.kind().as_str().to_owned());
    kinds.filter(|kind| kind != "permission/preset").collect()
}

/// The members of a child's last event of a kind.
fn members(child: &StoredSession, kind: &EventKind) -> Vec<String> {
    let last = all(&child.log, kind).pop().unwrap();
    last.as_object().unwrap().keys().cloned().collect()
}

/// A recorded child with its name in the corpus, if there is a corpus.
fn recorded(test: &str, name: &str) -> Option<StoredSession> {
    let Some(corpus) = corpus::corpus_dir() else {
        corpus::skip_notice(test);
        return None;
    };
    let bytes = std::fs::read(corpus.join(name)).unwrap();
    Some(offshoot_format::decode(&bytes).unwrap())
}

#[tokio::test]
async fn a_one_shot_child_writes_what_a_recorded_one_has_in_the_same_order() {
    const NAME: &str = "a_one_shot_child_writes_what_a_recorded_one_has_in_the_same_order";
    let file = "v3-completed/sdk-snapshots__subagent-fork-in-process__session.1.jsonl";
    let Some(recorded) = recorded(NAME, file) else {
        return;
    };
    let family = Family::new();
    family.children.answer("the count", vec![says("Four.")]);
    let attached = family.bench.create();
    let attempts = in_its_second_turn(in_conversation());
    let parent = family.changed(attached, script(attempts), |setup| {
        setup.config.permissions.mode = Some(SandboxMode::ReadOnly);
    });
    parent.followup("Hi.").unwrap();
    parent.followup("How many?").unwrap();
    parent.when_idle().await;
    let ours = family.bench.read(&family.child()).stored;
    assert_eq!(own_kinds(&ours), own_kinds(&recorded));
    for kind in [
        EventKind::SubagentDescriptor,
        EventKind::SandboxMode,
        EventKind::ApprovalPolicy,
    ] {
        assert_eq!(members(&ours, &kind), members(&recorded, &kind));
    }
}

#[tokio::test]
async fn a_continuable_child_writes_what_a_recorded_one_has_in_the_same_order() {
    const NAME: &str = "a_continuable_child_writes_what_a_recorded_one_has_in_the_same_order";
    let file = "v4-completed/sdk-snapshots__subagent-fork-in-process__session.1.jsonl";
    let Some(recorded) = recorded(NAME, file) else {
        return;
    };
    let more = json!({"mode": "continuable", "context": "conversation"});
    let (_family, ours) = continuable(more).await;
    assert_eq!(own_kinds(&ours), own_kinds(&recorded));
    let mut ours = members(&ours, &EventKind::SubagentDescriptor);
    // The recorded one was asked for no effort.
    ours.retain(|member| member != "agentReasoningEffort");
    assert_eq!(ours, members(&recorded, &EventKind::SubagentDescriptor));
}

fn last_turn_end(log: &EventLog) -> Seq {
    let ends = log
        .events()
        .filter(|event| *event.kind() == EventKind::TurnEnd);
    ends.last().unwrap().seq()
}

fn rows(log: &EventLog) -> Vec<String> {
    log.events().map(|event| event.text().to_owned()).collect()
}

fn json_of(messages: &[Arc<Message>]) -> String {
    String::from_utf8(encode_messages(messages, &DIALECT)).unwrap()
}

/// The system prompt and the tools of a request.
fn head_of(request: &ModelRequest) -> (String, Vec<String>) {
    let prompt = json_of(&request.messages[..1]);
    let tools = request.tools.iter();
    let tools = tools.map(|tool| serde_json::to_string(tool).unwrap());
    (prompt, tools.collect())
}
