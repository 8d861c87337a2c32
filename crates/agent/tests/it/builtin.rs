//! The built-in tools, driven by a model over HTTP.

use std::fs;

use std::sync::Arc;

use offshoot_agent::{AgentSetup, BlobSpill, Driver};
use offshoot_test_support::{Reply, ScriptedModelServer};
use offshoot_tool_api::{PermissionAnswer, SandboxMode, ToolRegistry};
use serde_json::json;

use crate::bench::{Bench, ask, config, over_http};
use crate::scene::{Person, Scene, approvals, texts};
use crate::support::{endings, results};

#[tokio::test]
async fn a_file_is_written_read_and_shown_by_a_command_in_the_sessions_directory() {
    let bench = Bench::new();
    let place = tempfile::tempdir().unwrap();
    let server = ScriptedModelServer::start([
        Reply::tool_calls([
            ("w", "write", r#"{"file_path":"a.txt","content":"alpha\n"}"#),
            ("r", "read", r#"{"file_path":"a.txt"}"#),
            ("b", "bash", r#"{"command":"cat a.txt; exit 3"}"#),
            ("n", "read", r#"{"file_path":"none.txt"}"#),
        ]),
        Reply::text("Done."),
    ]);
    let mut tools = ToolRegistry::new();
    for tool in offshoot_tools::builtin() {
        tools.register(tool).unwrap();
    }
    let cwd = place.path().canonicalize().unwrap();
    let attached = bench
        .service
        .create(Some(cwd.display().to_string()))
        .unwrap();
    let (model, env) = (over_http(&server), bench.env.clone());
    let mut config = config();
    // There is nothing here that could confine a command.
    config.permissions.mode = Some(SandboxMode::DangerFullAccess);
    let mut agent = Driver::new(attached, AgentSetup::new(model, tools, config, env));
    let reports = ask(&mut agent, "Write, read, show.").await;
    assert_eq!(reports[0].text, "Done.");
    assert_eq!(fs::read_to_string(cwd.join("a.txt")).unwrap(), "alpha\n");
    let log = bench.log(agent.session().id());
    assert_eq!(endings(&log), ["completed"]);
    let results = results(&log);
    let said: Vec<_> = results
        .iter()
        .map(|(call, code, _)| (&**call, &**code))
        .collect();
    assert_eq!(
        said,
        [("w", ""), ("r", ""), ("b", ""), ("n", "FS_NOT_FOUND")]
    );
    assert!(results[1].2.contains("alpha"), "{}", results[1].2);
    assert_eq!(results[2].2, "alpha\n[exit code: 3]");
    server.finish();
}

#[tokio::test]
async fn a_command_and_a_file_beyond_the_workspace_are_asked_about_and_then_real() {
    let bench = Bench::new();
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    let (inside, outside) = (root.join("work"), root.join("elsewhere"));
    for dir in [&inside, &outside] {
        fs::create_dir(dir).unwrap();
    }
    let command = |command: &str| {
        let escalated = "require_escalated";
        json!({"command": command, "sandbox_permissions": escalated, "justification": "to see"})
    };
    let write = |path: &std::path::Path| json!({"file_path": path, "content": "x"});
    let calls = [
        ("a", "write", write(&inside.join("a")).to_string()),
        ("b", "write", write(&outside.join("b")).to_string()),
        (
            "c",
            "bash",
            command("echo made > ../elsewhere/c").to_string(),
        ),
        (
            "d",
            "bash",
            command("echo made > ../elsewhere/d").to_string(),
        ),
        ("e", "bash", command("seq 100000").to_string()),
    ];
    let person = Person::who_says([
        PermissionAnswer::Rejected,
        PermissionAnswer::AllowedOnce,
        PermissionAnswer::Rejected,
        PermissionAnswer::AllowedOnce,
    ]);
    let mut scene = Scene::new(&bench).person(Arc::clone(&person));
    let blobs = bench.persistence().blobs();
    scene.spill = Some(Arc::new(BlobSpill::new(blobs.clone(), bench.env.clone())));
    scene.tools = ToolRegistry::new();
    for tool in offshoot_tools::builtin() {
        scene.tools.register(tool).unwrap();
    }
    // The directory for temporary files, where this test is, may be changed unasked: so the session reads only.
    scene.config.permissions.mode = Some(SandboxMode::ReadOnly);
    scene.config.permissions.rules = rules_that_allow_below(&inside);
    let attached = bench.service.create(Some(inside.display().to_string()));
    let calls = calls
        .each_ref()
        .map(|(id, name, arguments)| (*id, *name, &**arguments));
    let mut agent = scene.agent_on(attached.unwrap(), &calls);
    ask(&mut agent, "Work.").await;
    let log = bench.log(agent.session().id());
    assert_eq!(
        approvals(&log),
        [
            "asked write b",
            "decided rejected",
            "asked bash c",
            "decided allowed-once",
            "asked bash d",
            "decided rejected",
            "asked bash e",
            "decided allowed-once",
        ]
    );
    let there = [
        inside.join("a"),
        outside.join("b"),
        outside.join("c"),
        outside.join("d"),
    ];
    assert_eq!(there.map(|path| path.exists()), [true, false, true, false]);
    let texts = texts(&log);
    assert_eq!(texts[1], "Error: the user rejected tool \"write\"");
    assert_eq!(texts[3], "Error: the user rejected tool \"bash\"");
    let kept = fs::read_dir(blobs.dir())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    assert!(
        texts[4].contains(&kept.display().to_string()),
        "{}",
        texts[4]
    );
    assert_eq!(fs::read_to_string(kept).unwrap().lines().count(), 100_000);
}

fn rules_that_allow_below(dir: &std::path::Path) -> offshoot_agent::PermissionRules {
    let rule = json!({
        "tool": "write",
        "path": format!("{}/**", dir.display()),
        "decision": "allow",
        "unsandboxed": true,
    });
    let rule = serde_json::from_value(rule).unwrap();
    offshoot_agent::PermissionRules::new([rule]).unwrap()
}
