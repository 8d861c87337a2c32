//! Asking a person (`reference/agent.md` §3.2 and §3.4).

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use offshoot_agent::{AllowEverything, Approver, CancelCause, Gate, Notice, PermissionConfig};
use offshoot_session::{EventDraft, EventKind};
use offshoot_tool_api::{ApprovalPolicy, PermissionAnswer, PermissionQuestion, SandboxMode};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, NOW, ask};
use crate::scene::{Around, Person, Probe, Scene, approvals, cancelled, said_by, texts};
use crate::support::{all, endings, kinds_from, result, results};

const BEYOND: &str = r#"{"beyond":"to write elsewhere"}"#;

#[tokio::test]
async fn a_call_within_its_limits_runs_unasked() {
    let bench = Bench::new();
    let scene = Scene::new(&bench).tool(Probe::limits("probe"));
    let log = scene.play(&[("a", "probe", "{}")]).await;
    assert_eq!(texts(&log), ["workspace-write"]);
    assert_eq!(approvals(&log), [""; 0]);
}

#[tokio::test]
async fn an_escalation_is_asked_and_every_answer_has_its_end() {
    for (answer, outcome, text) in [
        (
            PermissionAnswer::AllowedOnce,
            "allowed-once",
            "danger-full-access",
        ),
        (
            PermissionAnswer::AllowedForSession,
            "allowed-once",
            "danger-full-access",
        ),
        (
            PermissionAnswer::Rejected,
            "rejected",
            "Error: the user rejected tool \"probe\"",
        ),
        (
            PermissionAnswer::Cancelled,
            "cancelled",
            "Error: approval for tool \"probe\" was cancelled",
        ),
        (
            PermissionAnswer::Unavailable,
            "unavailable",
            "Error: tool \"probe\" requires approval, but no approval channel is available",
        ),
    ] {
        let bench = Bench::new();
        let scene = Scene::new(&bench)
            .tool(Probe::limits("probe"))
            .person(Person::who_says([answer]));
        let log = scene.play(&[("a", "probe", BEYOND)]).await;
        assert_eq!(
            kinds_from(&log, 11)[..4],
            [
                "tool/call",
                "approval/asked",
                "approval/decided",
                "tool/result"
            ]
        );
        assert_eq!(results(&log), [result("a", "", text)]);
        let [asked] = &all(&log, &EventKind::ApprovalAsked)[..] else {
            panic!("one question");
        };
        let id = &asked["id"];
        assert_eq!(
            *asked,
            json!({"id": id, "toolName": "probe", "callId": "a", "reason": "to write elsewhere"})
        );
        assert_eq!(
            all(&log, &EventKind::ApprovalDecided),
            [json!({"id": id, "outcome": outcome})]
        );
        let is_error = &all(&log, &EventKind::ToolResult)[0]["message"]["isError"];
        assert_eq!(*is_error, text.starts_with("Error"));
        assert_eq!(endings(&log), ["completed"]);
    }
}

#[tokio::test]
async fn with_nobody_to_ask_an_escalation_is_rejected_and_the_turn_goes_on() {
    let bench = Bench::new();
    let scene = Scene::new(&bench).tool(Probe::limits("probe"));
    let log = scene
        .play(&[("a", "probe", BEYOND), ("b", "probe", "{}")])
        .await;
    assert_eq!(
        texts(&log),
        [
            "Error: tool \"probe\" requires approval, but no approval channel is available",
            "workspace-write"
        ]
    );
    assert_eq!(approvals(&log), ["asked probe a", "decided unavailable"]);
}

#[tokio::test]
async fn whoever_allows_everything_beforehand_is_in_the_log_all_the_same() {
    let bench = Bench::new();
    let mut scene = Scene::new(&bench).tool(Probe::limits("probe"));
    scene.approver = Arc::new(AllowEverything);
    let log = scene
        .play(&[("a", "probe", BEYOND), ("b", "probe", BEYOND)])
        .await;
    assert_eq!(texts(&log), ["danger-full-access", "danger-full-access"]);
    assert_eq!(
        approvals(&log),
        [
            "asked probe a",
            "decided allowed-once",
            "asked probe b",
            "decided allowed-once"
        ]
    );
}

#[tokio::test]
async fn a_session_that_asks_for_nothing_rejects_without_a_question() {
    let bench = Bench::new();
    let person = Person::who_says([PermissionAnswer::AllowedOnce]);
    let mut scene = Scene::new(&bench)
        .tool(Probe::limits("probe"))
        .person(Arc::clone(&person));
    scene.config.permissions.approvals = Some(ApprovalPolicy::Never);
    let log = scene.play(&[("a", "probe", BEYOND)]).await;
    assert_eq!(
        texts(&log),
        ["Error: tool \"probe\" requires approval, and this session asks for none"]
    );
    assert_eq!((person.count(), approvals(&log)), (0, vec![]));
}

#[derive(Debug)]
struct Panics;

#[async_trait]
impl Approver for Panics {
    async fn ask(&self, _: &PermissionQuestion, _: &CancellationToken) -> PermissionAnswer {
        std::panic::panic_any("asked")
    }
}

#[tokio::test]
async fn whoever_fails_to_answer_has_allowed_nothing() {
    let bench = Bench::new();
    let mut scene = Scene::new(&bench).tool(Probe::limits("probe"));
    scene.approver = Arc::new(Panics);
    let log = scene.play(&[("a", "probe", BEYOND)]).await;
    assert_eq!(approvals(&log), ["asked probe a", "decided unavailable"]);
    assert_eq!(bench.work.done(), [""; 0]);
}

#[tokio::test]
async fn an_answer_for_the_session_covers_calls_that_are_alike_and_no_others() {
    let bench = Bench::new();
    let person = Person::who_says([PermissionAnswer::AllowedForSession]);
    let scene = Scene::new(&bench)
        .tool(Probe::limits("bash"))
        .tool(Probe::limits("edit"))
        .tool(Probe::limits("other"))
        .person(Arc::clone(&person))
        .rules(&json!([{"tool": "bash", "command": "ls", "decision": "ask"}]));
    let log = scene
        .play(&[
            ("a", "bash", r#"{"command":"make","beyond":"x"}"#),
            (
                "b",
                "bash",
                r#"{"beyond":"another reason","command":"make","timeoutMs":5}"#,
            ),
            ("c", "bash", r#"{"command":"make install","beyond":"x"}"#),
            (
                "d",
                "bash",
                r#"{"command":"make","beyond":"x","workdir":"/"}"#,
            ),
            ("e", "edit", r#"{"file_path":"/etc/hosts","beyond":"x"}"#),
            (
                "f",
                "edit",
                r#"{"file_path":"/etc/./hosts","new_string":"b","beyond":"x"}"#,
            ),
            ("g", "edit", r#"{"file_path":"/etc/passwd","beyond":"x"}"#),
            ("h", "other", r#"{"file_path":"/etc/hosts","beyond":"x"}"#),
            ("i", "other", r#"{"url":"u","n":1,"beyond":"x"}"#),
            ("j", "other", r#"{"n":1,"beyond":"x","url":"u"}"#),
            ("k", "other", r#"{"url":"v","n":1,"beyond":"x"}"#),
            // Within the limits is less than beyond them, and not the other way round.
            ("l", "bash", r#"{"command":"ls"}"#),
            ("m", "bash", r#"{"command":"ls","beyond":"x"}"#),
            ("n", "bash", r#"{"command":"ls"}"#),
        ])
        .await;
    let asked = person.asked.lock().unwrap();
    let ids: Vec<_> = asked.iter().map(|one| &*one.call_id).collect();
    assert_eq!(ids, ["a", "c", "d", "e", "g", "h", "i", "k", "l", "m"]);
    let covers: Vec<_> = asked.iter().map(|one| &*one.covers).collect();
    assert_eq!(
        [covers[0], covers[2], covers[3], covers[6], covers[8]],
        [
            "`bash` with exactly this command, beyond the limits of the sandbox, until this session is closed",
            "`bash` with exactly this command in `/`, beyond the limits of the sandbox, until this session is closed",
            "`edit` of `/etc/hosts`, beyond the limits of the sandbox, until this session is closed",
            "`other` with exactly these arguments, beyond the limits of the sandbox, until this session is closed",
            "`bash` with exactly this command, until this session is closed",
        ]
    );
    let limits = texts(&log);
    assert_eq!(
        limits[11..],
        ["workspace-write", "danger-full-access", "workspace-write"]
    );
    assert!(limits[..11].iter().all(|text| text == "danger-full-access"));
}

#[tokio::test]
async fn an_answer_for_the_session_ends_with_the_process() {
    let mut bench = Bench::new();
    let person = Person::who_says([PermissionAnswer::AllowedForSession]);
    let mut agent = Scene::new(&bench)
        .tool(Probe::limits("probe"))
        .person(Arc::clone(&person))
        .agent(&[("a", "probe", BEYOND)]);
    ask(&mut agent, "Work.").await;
    let id = agent.session().id().clone();
    drop(agent);
    bench.restart();
    let mut again = Scene::new(&bench)
        .tool(Probe::limits("probe"))
        .person(Arc::clone(&person))
        .agent_on(bench.open(&id), &[("b", "probe", BEYOND)]);
    ask(&mut again, "Again.").await;
    assert_eq!(person.count(), 2);
}

/// A person who does not answer.
#[derive(Debug, Default)]
struct Silent(CancellationToken);

#[async_trait]
impl Approver for Silent {
    async fn ask(&self, _: &PermissionQuestion, _: &CancellationToken) -> PermissionAnswer {
        self.0.cancel();
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_question_is_withdrawn_when_the_turn_is_cancelled_and_the_call_never_began() {
    let bench = Bench::new();
    let asking = CancellationToken::new();
    let mut scene = Scene::new(&bench).tool(Probe::limits("probe"));
    scene.approver = Arc::new(Silent(asking.clone()));
    let mut agent = scene.agent(&[("a", "probe", BEYOND), ("b", "probe", "{}")]);
    let session = cancelled(&mut agent, async |cancel| {
        asking.cancelled().await;
        cancel.cancel(CancelCause::User);
    })
    .await;
    let log = bench.log(session.id());
    assert_eq!(approvals(&log), ["asked probe a", "decided cancelled"]);
    let text = "Error: tool call aborted before dispatch";
    assert_eq!(
        results(&log),
        ["a", "b"].map(|id| result(id, "ABORTED_BEFORE_DISPATCH", text))
    );
    assert_eq!(endings(&log), ["aborted"]);
}

#[tokio::test]
async fn calls_that_run_go_on_and_are_settled_while_a_person_thinks() {
    let bench = Bench::new();
    let asking = CancellationToken::new();
    let held = bench.work.hold("a");
    let mut scene = Scene::new(&bench)
        .tool(Probe::limits("probe").running(|| offshoot_tool_api::Concurrency::Parallel));
    scene.approver = Arc::new(Silent(asking.clone()));
    let mut agent = scene.agent(&[("a", "look", "{}"), ("b", "probe", BEYOND)]);
    let live = agent.session().clone();
    let session = cancelled(&mut agent, async |cancel| {
        asking.cancelled().await;
        held.started.cancelled().await;
        held.released.cancel();
        while results(&live.log()).is_empty() {
            tokio::task::yield_now().await;
        }
        cancel.cancel(CancelCause::User);
    })
    .await;
    let log = bench.log(session.id());
    assert_eq!(results(&log)[0], result("a", "", "a is done"));
    assert_eq!(
        kinds_from(&log, 11)[..6],
        [
            "tool/call",
            "tool/call",
            "approval/asked",
            "tool/result",
            "approval/decided",
            "tool/result"
        ]
    );
}

#[tokio::test]
async fn whoever_watches_hears_of_the_question_and_of_its_end() {
    let bench = Bench::new();
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let hear = Arc::clone(&heard);
    let person = Person::who_says([PermissionAnswer::AllowedForSession]);
    let scene = Scene::new(&bench)
        .tool(Probe::limits("probe"))
        .person(Arc::clone(&person));
    let mut agent = scene.watched_agent(
        Arc::new(move |notice: &Notice| match notice {
            Notice::Asked(question) => {
                let call = &question.call_id;
                hear.lock().unwrap().push(format!("asked {call}"));
            }
            Notice::Decided { answer, .. } => hear.lock().unwrap().push(format!("{answer:?}")),
            _ => {}
        }),
        &[("a", "probe", BEYOND)],
    );
    ask(&mut agent, "Work.").await;
    assert_eq!(*heard.lock().unwrap(), ["asked a", "AllowedForSession"]);
}

#[tokio::test]
async fn a_hook_that_asks_and_a_tool_that_wants_more_are_one_question() {
    let bench = Bench::new();
    let person = Person::who_says([PermissionAnswer::AllowedOnce]);
    let asks = |reason: &'static str| {
        Around::before(move |_| {
            let reason = Some(reason.to_owned()).filter(|reason| !reason.is_empty());
            Ok(Gate::Ask { reason })
        })
    };
    let scene = Scene::new(&bench)
        .tool(Probe::limits("probe"))
        .hook(asks("it is Friday"))
        .hook(asks(""))
        .person(Arc::clone(&person))
        .rules(&json!([
            {"tool": "probe", "decision": "ask", "reason": "a rule says so"},
            {"tool": "look", "decision": "allow"},
        ]));
    scene
        .play(&[("a", "probe", BEYOND), ("b", "look", "{}")])
        .await;
    assert_eq!(
        person.reasons(),
        [
            Some("it is Friday; a rule says so; to write elsewhere".to_owned()),
            Some("it is Friday".to_owned())
        ],
        "a rule does not allow what a hook asks about"
    );
}

#[tokio::test]
async fn mode_and_policy_are_logged_when_they_change_and_stay_for_those_who_go_on() {
    let mut bench = Bench::new();
    let with = |mode, approvals| PermissionConfig {
        mode,
        approvals,
        ..PermissionConfig::default()
    };
    let logged = |bench: &Bench, id| {
        let log = bench.log(id);
        [
            all(&log, &EventKind::SandboxMode),
            all(&log, &EventKind::ApprovalPolicy),
        ]
    };
    let mut scene = Scene::new(&bench).tool(Probe::limits("probe"));
    scene.config.permissions = with(Some(SandboxMode::ReadOnly), Some(ApprovalPolicy::Never));
    let mut agent = scene.agent(&[("a", "probe", "{}")]);
    ask(&mut agent, "Work.").await;
    ask(&mut agent, "More.").await;
    let id = agent.session().id().clone();
    assert_eq!(texts(&bench.log(&id)), ["read-only"]);
    assert_eq!(
        kinds_from(&bench.log(&id), 1)[..4],
        [
            "turn/start",
            "sandbox/mode",
            "approval/policy",
            "agent/inbox/spliced"
        ]
    );
    let once = [
        vec![json!({"mode": "read-only"})],
        vec![json!({"policy": "never"})],
    ];
    assert_eq!(logged(&bench, &id), once);
    drop(agent);
    bench.restart();

    // Whoever says nothing goes on with it.
    let scene = Scene::new(&bench).tool(Probe::limits("probe"));
    let mut agent = scene.agent_on(bench.open(&id), &[("b", "probe", "{}")]);
    ask(&mut agent, "Go on.").await;
    assert_eq!(texts(&bench.log(&id)), ["read-only", "read-only"]);
    assert_eq!(logged(&bench, &id), once);
    drop(agent);

    // So does a fork.
    let fork = bench
        .service
        .prepare_fork(&bench.read(&id), None, None)
        .unwrap();
    let child = fork.header.id.clone();
    let scene = Scene::new(&bench).tool(Probe::limits("probe"));
    let attached = bench.service.store_fork(&fork).unwrap();
    let mut agent = scene.agent_on(attached, &[("c", "probe", "{}")]);
    ask(&mut agent, "In the fork.").await;
    assert_eq!(texts(&bench.log(&child))[2], "read-only");
    drop(agent);

    // Whoever says something else changes it.
    let mut scene = Scene::new(&bench).tool(Probe::limits("probe"));
    scene.config.permissions = with(
        Some(SandboxMode::DangerFullAccess),
        Some(ApprovalPolicy::Ask),
    );
    let mut agent = scene.agent_on(bench.open(&id), &[("d", "probe", BEYOND)]);
    ask(&mut agent, "Go on.").await;
    assert_eq!(texts(&bench.log(&id))[2], "danger-full-access");
    assert_eq!(
        logged(&bench, &id),
        [
            vec![
                json!({"mode": "read-only"}),
                json!({"mode": "danger-full-access"})
            ],
            vec![json!({"policy": "never"}), json!({"policy": "ask"})],
        ]
    );
}

#[tokio::test]
async fn what_is_in_force_is_what_the_log_says_and_the_model_is_told() {
    let bench = Bench::new();
    let mut agent = Scene::new(&bench)
        .tool(Probe::limits("probe"))
        .agent(&[("a", "probe", "{}")]);
    // A front end chooses another mode while the session is open.
    let data = json!({"mode": "read-only"});
    let mode = EventDraft::log_only(EventKind::SandboxMode, &data).unwrap();
    agent.session().append(mode, NOW).unwrap();
    ask(&mut agent, "Work.").await;
    let log = agent.session().log();
    assert_eq!(texts(&log), ["read-only"]);
    let told = said_by(&log, "runtime-context").concat();
    assert!(
        told.contains("Tools may read files and change none."),
        "{told}"
    );
}
