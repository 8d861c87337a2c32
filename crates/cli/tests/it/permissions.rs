//! What tools may do: sandbox modes, questions and their answers, and rules that have decided beforehand.

use std::fs;

use insta::assert_snapshot;
use offshoot_test_support::{OffshootCommand, Reply, ScriptedModelServer, TestHome};

use crate::support::{KEY, events, file, json_lines, offshoot, seen, session_of, turn, work};

fn writes() -> [Reply; 2] {
    [
        Reply::tool_calls([(
            "call_1",
            "write",
            r#"{"file_path":"note.txt","content":"alpha\n"}"#,
        )]),
        Reply::text("Done."),
    ]
}

fn put(home: &TestHome, name: &str, text: &str) {
    fs::create_dir_all(home.path()).unwrap();
    fs::create_dir_all(work(home).join(".offshoot")).unwrap();
    drop(file(home, "put", text));
    let to = match name.strip_prefix("project/") {
        Some(name) => work(home).join(".offshoot").join(name),
        None => home.path().join(name),
    };
    fs::copy(home.user_path().join("put"), to).unwrap();
}

/// What the model was told of a call.
fn told(server: &ScriptedModelServer) -> String {
    let requests = server.requests();
    let messages = requests.last().unwrap().messages();
    let tool = messages.iter().rfind(|one| one["role"] == "tool").unwrap();
    tool["content"].as_str().unwrap().to_owned()
}

#[test]
fn nobody_is_there_to_be_asked_so_more_than_the_mode_allows_is_rejected_and_the_model_is_told() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start(writes());
    let output = turn(&home, &server)
        .args(["--json", "--sandbox", "read-only", "Write it."])
        .run()
        .success();
    assert!(!work(&home).join("note.txt").exists());
    assert_snapshot!(told(&server), @r#"
    Error: tool "write" requires approval, but no approval channel is available
    "#);
    let (lines, _) = json_lines(&output);
    // A person is told, too.
    server.push(writes()[0].clone());
    server.push(Reply::text("Done."));
    let said = turn(&home, &server)
        .args(["--sandbox", "read-only", "Write it."])
        .run();
    assert_snapshot!(seen(&said), @r#"
    exit code: 0
    ----- stdout -----
    Done.
    ----- stderr -----
    session session-[uuid]
    note: this call asked for more than it may do, and nobody was there to allow it; `--permission-mode allow` does, and so can rules
    · write({"file_path":"note.txt","content":"alpha\n"})
    · write: Error: tool "write" requires approval, but no approval channel is available
    tokens: 28 in, 10 out, 6 from the cache
    "#);
    let mode = lines.iter().find(|one| one["type"] == "sandbox/mode");
    assert_eq!(mode.unwrap()["data"]["mode"], "read-only");
}

#[test]
fn with_permission_mode_allow_it_runs_and_the_log_has_the_question() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start(writes());
    let output = turn(&home, &server)
        .args([
            "--json",
            "--sandbox",
            "read-only",
            "--permission-mode",
            "allow",
            "Write it.",
        ])
        .run()
        .success();
    assert_eq!(
        fs::read_to_string(work(&home).join("note.txt")).unwrap(),
        "alpha\n"
    );
    let stored = events(&home, &session_of(&output));
    let decided = stored.iter().find(|one| one["type"] == "approval/decided");
    assert_eq!(decided.unwrap()["data"]["outcome"], "allowed-once");
}

#[test]
fn commands_are_confined_as_the_mode_says_and_do_not_get_keys() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([
        Reply::tool_calls([(
            "call_1",
            "bash",
            r#"{"command":"echo key=$OPENAI_API_KEY kept=$GH_TOKEN; echo x > here.txt"}"#,
        )]),
        Reply::text("Done."),
    ]);
    put(&home, "config.toml", "environment_keep = [\"GH_TOKEN\"]\n");
    let output = turn(&home, &server)
        .env("GH_TOKEN", "kept-token")
        .args(["--sandbox", "read-only", "Try."])
        .run();
    drop(output.success());
    let told = told(&server);
    assert!(told.contains("key= kept=kept-token"), "{told}");
    assert!(!work(&home).join("here.txt").exists(), "{told}");
}

#[test]
fn rules_decide_beforehand_and_a_projects_rules_only_deny() {
    let home = TestHome::new();
    put(
        &home,
        "permissions.toml",
        "[[rule]]\ntool = \"bash\"\ncommand = \"echo one\"\ndecision = \"deny\"\nreason = \"one is enough\"\n",
    );
    put(
        &home,
        "project/permissions.toml",
        "[[rule]]\ntool = \"*\"\ndecision = \"allow\"\nunsandboxed = true\n[[rule]]\ntool = \"ls\"\ndecision = \"deny\"\n",
    );
    let server = ScriptedModelServer::start([
        Reply::tool_calls([
            ("call_1", "bash", r#"{"command":"echo one"}"#),
            ("call_2", "ls", r#"{"path":"."}"#),
            ("call_3", "bash", r#"{"command":"echo two"}"#),
        ]),
        Reply::text("Done."),
    ]);
    let output = turn(&home, &server).arg("Try.").run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    Done.
    ----- stderr -----
    warning: `[user]/work/.offshoot/permissions.toml`: a rule that allows `*` is ignored: a project may only allow less than you do yourself; to allow it yourself: `[home]/permissions.toml`
    session session-[uuid]
    · bash({"command":"echo one"})
    · bash: Error: one is enough
    · ls({"path":"."})
    · ls: Error: tool "ls" is denied by a rule
    · bash({"command":"echo two"})
    tokens: 28 in, 10 out, 6 from the cache
    "#);
    let requests = server.requests();
    let messages = requests.last().unwrap().messages();
    let results = messages.iter().filter(|one| one["role"] == "tool");
    let results: Vec<&str> = results
        .map(|one| one["content"].as_str().unwrap())
        .collect();
    assert_snapshot!(results.join("\n"), @r#"
    Error: one is enough
    Error: tool "ls" is denied by a rule
    two
    "#);
}

#[test]
fn a_file_of_rules_that_cannot_be_understood_is_named_with_its_line() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let mut all = String::new();
    for text in [
        "\n[[rule]]\ntool = \"bash\"\n",
        "[[rule]]\ntool = \"bash\"\ndecision = \"maybe\"\n",
        "[[rule]]\ntool = \"{\"\ndecision = \"deny\"\n",
    ] {
        put(&home, "permissions.toml", text);
        all.push_str(&seen(&turn(&home, &server).arg("Try.").run()));
    }
    assert_snapshot!(all, @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `[home]/permissions.toml`: line 2: missing field `decision`
    hint: docs/cli.md describes this file, in "Permissions"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `[home]/permissions.toml`: line 3: unknown variant `maybe`, expected one of `allow`, `ask`, `deny`
    hint: docs/cli.md describes this file, in "Permissions"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `[home]/permissions.toml`: rule 1 (`{`): `tool` is no pattern: error parsing glob '{': unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)
    hint: docs/cli.md describes this file, in "Permissions"
    "#);
}

fn chat(home: &TestHome, server: &ScriptedModelServer) -> OffshootCommand {
    offshoot(home)
        .current_dir(work(home))
        .env("OPENAI_BASE_URL", server.base_url())
        .env("OPENAI_API_KEY", KEY)
        .env("OFFSHOOT_MODEL", "openai/scripted-1")
        .args(["chat", "--sandbox", "read-only"])
}

#[test]
fn in_a_chat_the_person_is_asked() {
    for (answers, is_written) in [("maybe\ny\n", true), ("n\n", false), ("", false)] {
        let home = TestHome::new();
        let server = ScriptedModelServer::start(writes());
        let output = chat(&home, &server)
            .stdin(format!("Write it.\n{answers}"))
            .run()
            .success();
        assert_eq!(
            work(&home).join("note.txt").exists(),
            is_written,
            "{output}"
        );
        if is_written {
            assert_snapshot!(seen(&output), @r#"
            exit code: 0
            ----- stdout -----
            Done.
            ----- stderr -----
            session session-[uuid], with openai/scripted-1; /help lists what there is besides talking
            write asks for more than it may do: {"file_path":"note.txt","content":"alpha\n"}
            why: write `[user]/work/note.txt`: nothing may be changed (mode read-only)
            allow it? [y] once, [a] for this session, [n] no:
            say y, a or n
            allow it? [y] once, [a] for this session, [n] no:
            · write({"file_path":"note.txt","content":"alpha\n"})
            tokens: 28 in, 10 out, 6 from the cache
            "#);
        }
    }
}

#[test]
fn an_answer_for_the_session_covers_like_calls() {
    let home = TestHome::new();
    let again = |call: &str| {
        Reply::tool_calls([(
            call,
            "write",
            r#"{"file_path":"note.txt","content":"alpha\n"}"#,
        )])
    };
    let server =
        ScriptedModelServer::start([again("call_1"), again("call_2"), Reply::text("Done.")]);
    let output = chat(&home, &server)
        .stdin("Write it twice.\na\n")
        .run()
        .success();
    let asked = output.stderr_text();
    assert_eq!(asked.matches("allow it?").count(), 1, "{asked}");
    assert!(work(&home).join("note.txt").exists());
}

#[test]
fn a_home_in_the_workspace_is_warned_of_because_commands_can_change_it() {
    let home = TestHome::new();
    let warned = |mode: &str| {
        let server = ScriptedModelServer::start([Reply::text("Done.")]);
        let above = home.path().parent().unwrap();
        let output = turn(&home, &server)
            .current_dir(above)
            .args(["--sandbox", mode, "Look around."])
            .run();
        let stderr = output.success().stderr_text();
        stderr.lines().any(|line| {
            line.starts_with("warning: the home `") && line.contains("is in the workspace")
        })
    };
    let modes = ["read-only", "workspace-write", "danger-full-access"];
    assert_eq!(modes.map(warned), [false, true, false]);
}
