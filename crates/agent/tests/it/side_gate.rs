//! What a side session may do, whatever its model tries: look.

use std::fs;
use std::sync::Arc;

use offshoot_agent::{Agent, AllowEverything, Driver, Gate, SideRequest};
use offshoot_session::EventLog;
use offshoot_test_support::{Reply, ScriptedModelServer};
use offshoot_tool_api::{
    Concurrency, Effects, PermissionAnswer, SandboxMode, ToolOutput, ToolRegistry,
};
use serde_json::json;

use crate::bench::{Bench, ask, over_http, script};
use crate::parts::texts_of;
use crate::scene::{Around, Person, Probe, Scene, approvals, texts};
use crate::side_sessions::{parent, side};
use crate::support::{calls, results, says};

/// A tool that only says that it ran.
fn tool(name: &str, effects: Effects, concurrency: Concurrency) -> Probe {
    Probe::new(name, |_| Ok(ToolOutput::text("ran")))
        .with_effects(effects)
        .running(move || concurrency)
}

/// Tools of every kind, of which those that may run alone are not those that change nothing.
fn every_kind(scene: Scene<'_>) -> Scene<'_> {
    use Concurrency::{Exclusive, Parallel};
    use Effects::{Delegating, Mutating, ReadOnly};
    [
        ("read", ReadOnly, Parallel),
        ("grep", ReadOnly, Exclusive),
        ("glob", ReadOnly, Exclusive),
        ("web_fetch", ReadOnly, Parallel),
        ("bash", Mutating, Exclusive),
        ("write", Mutating, Exclusive),
        ("job_kill", Mutating, Parallel),
        ("delegate", Delegating, Parallel),
        ("relay", Delegating, Exclusive),
    ]
    .into_iter()
    .fold(scene, |scene, (name, effects, concurrency)| {
        scene.tool(tool(name, effects, concurrency))
    })
}

const TRIED: [(&str, &str, &str); 10] = [
    ("1", "read", "{}"),
    ("2", "bash", r#"{"command":"touch a"}"#),
    ("3", "grep", "{}"),
    ("4", "write", r#"{"file_path":"a"}"#),
    ("5", "glob", "{}"),
    ("6", "delegate", r#"{"prompt":"Do it for me."}"#),
    ("7", "web_fetch", "{}"),
    ("8", "job_kill", "{}"),
    ("9", "relay", "{}"),
    ("10", "nothing", "{}"),
];

/// Whether a result says that a side session may not do that.
pub(crate) fn is_denial(result: &str) -> bool {
    result.starts_with("Error: tool ") && result.contains("a side session may only look")
}

/// The names of the tools that ran.
fn ran(log: &EventLog) -> Vec<&'static str> {
    let ran = results(log)
        .into_iter()
        .filter(|(_, _, text)| text == "ran");
    let name = |id: &str| TRIED.iter().find(|tried| tried.0 == id).unwrap().1;
    ran.map(|(id, _, _)| name(&id)).collect()
}

const LOOKS: [&str; 4] = ["read", "grep", "glob", "web_fetch"];

#[tokio::test]
async fn a_call_runs_only_if_its_tool_declares_that_it_looks() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let side = side(&bench, parent.session().id());
    let mut child = every_kind(Scene::new(&bench)).agent_on(side.attached, &TRIED);
    ask(&mut child, "Do it.").await;
    let log = bench.log(child.session().id());
    assert_eq!(ran(&log), LOOKS);
    insta::assert_snapshot!(texts(&log).join("\n"), @r#"
    ran
    Error: tool "bash" can change things, and a side session may only look: say what should be done instead
    ran
    Error: tool "write" can change things, and a side session may only look: say what should be done instead
    ran
    Error: tool "delegate" hands work to another agent, and a side session may only look: say what should be done instead
    ran
    Error: tool "job_kill" can change things, and a side session may only look: say what should be done instead
    Error: tool "relay" hands work to another agent, and a side session may only look: say what should be done instead
    Error: there is no tool named `nothing`
    "#);
    // Such an error has no code: nothing went wrong.
    let codes: Vec<_> = results(&log).into_iter().map(|(_, code, _)| code).collect();
    let (last, others) = codes.split_last().unwrap();
    assert_eq!(
        (others, &**last),
        (&[""; 9].map(str::to_owned)[..], "UNKNOWN_TOOL")
    );
}

#[tokio::test]
async fn the_built_in_tools_read_and_search_and_change_nothing() {
    let bench = Bench::new();
    let place = tempfile::tempdir().unwrap();
    let cwd = place.path().canonicalize().unwrap();
    #[expect(
        clippy::disallowed_methods,
        reason = "a test's file need not be durable"
    )]
    fs::write(cwd.join("a.txt"), "alpha\n").unwrap();
    let server = ScriptedModelServer::start([
        Reply::text("One."),
        Reply::tool_calls([
            ("w", "write", r#"{"file_path":"b.txt","content":"beta\n"}"#),
            ("b", "bash", r#"{"command":"touch c.txt"}"#),
            ("r", "read", r#"{"file_path":"a.txt"}"#),
            ("g", "grep", r#"{"pattern":"alp"}"#),
            ("l", "glob", r#"{"pattern":"*.txt"}"#),
        ]),
        Reply::text("So."),
    ]);
    let setup = || {
        let mut setup = bench.setup(over_http(&server));
        setup.tools = ToolRegistry::new();
        for tool in offshoot_tools::builtin() {
            setup.tools.register(tool).unwrap();
        }
        setup.config.permissions.mode = Some(SandboxMode::DangerFullAccess);
        setup
    };
    let attached = bench.service.create(Some(cwd.display().to_string()));
    let mut parent = Driver::new(attached.unwrap(), setup());
    ask(&mut parent, "First.").await;
    let side = side(&bench, parent.session().id());
    let mut child = Driver::new(side.attached, setup());
    ask(&mut child, "Change it.").await;
    let denied: Vec<_> = results(&bench.log(child.session().id()))
        .into_iter()
        .map(|(call, _, text)| {
            (
                call,
                is_denial(&text),
                text.contains("alpha") || text.contains("a.txt"),
            )
        })
        .collect();
    let expected = [
        ("w", true, false),
        ("b", true, false),
        ("r", false, true),
        ("g", false, true),
        ("l", false, true),
    ];
    assert_eq!(
        denied,
        expected.map(|(call, denied, found)| (call.to_owned(), denied, found))
    );
    let left: Vec<_> = fs::read_dir(&cwd)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["a.txt"]);
    server.finish();
}

#[tokio::test]
async fn no_rule_hook_person_or_mode_loosens_it() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let id = parent.session().id();
    let person = Person::who_says([PermissionAnswer::AllowedForSession]);
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let allows = Around::before(move |call| {
        hears.lock().unwrap().push(call.tool_name.to_owned());
        Ok(Gate::Allow)
    });
    let everything = json!([{"tool": "*", "decision": "allow", "unsandboxed": true}]);
    let mut scene = every_kind(Scene::new(&bench))
        .person(Arc::clone(&person))
        .hook(allows)
        .rules(&everything);
    scene.config.permissions.mode = Some(SandboxMode::DangerFullAccess);
    let mut child = scene.agent_on(side(&bench, id).attached, &TRIED);
    ask(&mut child, "Do it.").await;
    let log = bench.log(child.session().id());
    assert_eq!(ran(&log), LOOKS);
    assert_eq!((person.count(), approvals(&log)), (0, Vec::new()));
    // Nobody is bothered about a call that cannot run.
    let looks: Vec<_> = LOOKS.into_iter().chain(["nothing"]).collect();
    assert_eq!(*heard.lock().unwrap(), looks);

    let mut scene = every_kind(Scene::new(&bench));
    scene.approver = Arc::new(AllowEverything);
    let beyond = [("2", "bash", r#"{"beyond":"to see"}"#)];
    let mut child = scene.agent_on(side(&bench, id).attached, &beyond);
    ask(&mut child, "Do it.").await;
    assert_eq!(ran(&bench.log(child.session().id())), [""; 0]);
}

#[tokio::test]
async fn a_side_session_of_a_side_session_may_only_look_too() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let outer = side(&bench, parent.session().id());
    let outer = Agent::new(outer.attached, bench.setup(script(vec![says("Because.")])));
    // One of a side session that has said nothing yet, and one of one that has.
    for asked in [false, true] {
        if asked {
            outer.followup("Why?").unwrap();
            outer.when_idle().await;
        }
        let inner = bench.service.side_of(&outer, &SideRequest::default()).await;
        let mut inner = every_kind(Scene::new(&bench)).agent_on(inner.unwrap().attached, &TRIED);
        ask(&mut inner, "Do it.").await;
        assert_eq!(ran(&bench.log(inner.session().id())), LOOKS);
    }
}

#[tokio::test]
async fn the_parent_is_not_bound_by_it() {
    let bench = Bench::new();
    let hold = bench.work.hold("a");
    let parent = bench.running(script(vec![
        says("One."),
        calls([("a", "look", "{}")]),
        calls([("b", "change", "{}"), ("c", "alter", "{}")]),
        says("Two."),
    ]));
    parent.followup("First.").unwrap();
    parent.when_idle().await;
    parent.followup("Second.").unwrap();
    hold.started.cancelled().await;
    let side = bench
        .service
        .side_of(&parent, &SideRequest::default())
        .await;
    let model = script(vec![calls([("d", "change", "{}")]), says("So.")]);
    let mut child = bench.agent(side.unwrap().attached, model);
    ask(&mut child, "Change it.").await;
    hold.released.cancel();
    parent.when_idle().await;
    let runs: Vec<_> = bench.work.runs().into_keys().collect();
    assert_eq!(runs, ["a", "b", "c"]);
}

#[tokio::test]
async fn the_model_is_told_what_its_tools_may_do() {
    let bench = Bench::new();
    let parent = parent(&bench).await;
    let inherited = texts_of(&parent.session().log(), "runtime-context").len();
    let side = side(&bench, parent.session().id());
    let mut child = bench.agent(side.attached, script(vec![says("Because."); 2]));
    ask(&mut child, "Why?").await;
    ask(&mut child, "And why that?").await;
    let told = texts_of(&child.session().log(), "runtime-context").split_off(inherited);
    assert_eq!(told.len(), 1, "once");
    insta::assert_snapshot!(told[0], @r"
    This is where you work now; it replaces what was said before.

    Current working directory: /srv/demo

    This is a side session: explain, and do not act or go on with the task of the conversation that it was branched off from. Tools may look at things and change none, and none may hand work to another agent. Nobody can give permission for more, so do not ask for it: say what should be done instead.
    ");
}
