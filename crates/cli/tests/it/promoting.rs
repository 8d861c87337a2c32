//! `offshoot promote`: a side session becomes an ordinary one.

use insta::assert_snapshot;
use offshoot_test_support::{Reply, ScriptedModelServer, TestHome};
use serde_json::{Value, json};

use crate::side::{assert_sound, conversation, marks, side, told};
use crate::support::{Background, arrived, events, json as output_json, run, seen, turn, work};

/// A side session `aside` that has answered a question, and its parent.
fn with_side(home: &TestHome, server: &ScriptedModelServer) -> String {
    let parent = conversation(home, server, &[("Which colour?", "Blue.")]);
    server.push(Reply::text("Because of the sky."));
    drop(side(home, server, &[&parent, "--child", "aside", "Why blue?"]).success());
    parent
}

#[test]
fn from_then_on_it_may_act_and_is_told_so() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    with_side(&home, &server);
    assert_snapshot!(seen(&run(&home, ["promote", "aside"])), @"
    exit code: 0
    ----- stdout -----
    an ordinary session from event 26 on: it may act

    go on with it: offshoot run --session aside PROMPT
    ----- stderr -----
    ");
    server.push(Reply::tool_calls([(
        "call_1",
        "bash",
        r#"{"command":"echo ran > ran.txt"}"#,
    )]));
    server.push(Reply::text("Painted."));
    let output = turn(&home, &server)
        .args(["--session", "aside", "Paint it."])
        .run()
        .success();
    assert!(!output.stderr_text().contains("side session"), "{output}");
    assert!(work(&home).join("ran.txt").exists());
    let asked = told(server.requests().last().unwrap());
    assert!(
        asked
            .iter()
            .any(|one| one.contains("no longer a side session")),
        "{asked:?}"
    );
    let own = events(&home, "aside");
    assert_eq!(marks(&own), ["framing", "promote"]);
    let listed = output_json(&run(&home, ["ls", "--json"]).success());
    assert!(
        listed
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["side"].is_null()),
        "{listed}"
    );
    let shown = run(&home, ["show", "aside"]).success().stdout_text();
    assert!(!shown.contains("\nside "), "{shown}");
    assert_sound(&home);
}

#[test]
fn a_fork_of_it_is_ordinary_too_whatever_waits_in_it() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    with_side(&home, &server);
    server.push(Reply::text("It scatters."));
    drop(side(&home, &server, &["aside", "--child", "deeper", "How?"]).success());
    drop(run(&home, ["merge", "deeper"]).success());
    drop(run(&home, ["promote", "aside"]).success());
    drop(run(&home, ["fork", "aside", "--id", "fork"]).success());
    assert_eq!(marks(&events(&home, "fork")), ["framing", "promote"]);
    assert_sound(&home);
}

#[test]
fn programs_get_the_event() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    with_side(&home, &server);
    let told = output_json(&run(&home, ["promote", "aside", "--json"]).success());
    let own = events(&home, "aside");
    let event = own
        .iter()
        .find(|event| event["data"]["source"]["act"] == "promote")
        .unwrap();
    assert_eq!(
        told,
        json!({"session": "aside", "state": "logged", "seq": event["seq"]})
    );
}

#[test]
fn what_is_no_side_session_is_left_alone() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let parent = with_side(&home, &server);
    drop(run(&home, ["promote", "aside"]).success());
    let before = home.bytes_of_tree();
    let mut all = String::new();
    for id in ["aside", &parent, "nobody", ""] {
        let output = run(&home, ["promote", id]);
        all.push_str(&seen(&output));
    }
    assert_snapshot!(all, @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: session `aside` is not a side session
    hint: `offshoot ls` marks side sessions with `(side)`
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: session `session-[uuid]` is not a side session
    hint: `offshoot ls` marks side sessions with `(side)`
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: session `nobody` was not found in `[home]/sessions`
    hint: `offshoot ls` shows the sessions that are there
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: a value is required for '<CHILD>' but none was supplied

    For more information, try '--help'.
    ");
    assert_eq!(home.bytes_of_tree(), before);
}

#[test]
fn one_that_runs_elsewhere_is_left_alone() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    with_side(&home, &server);
    let (held, gate) = Reply::text("At last.").hold_head();
    server.push(held);
    let running = Background::turn(&home, &server, &["--session", "aside", "And at night?"]);
    arrived(&server, 3);
    let output = run(&home, ["promote", "aside", "--json"]);
    let error: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(
        (output.code(), &error["code"], &error["hint"]),
        (
            Some(1),
            &json!("SESSION_ALREADY_OWNED"),
            &json!("wait until it is closed there")
        )
    );
    gate.release();
    assert_eq!(running.finish().0, Some(0));
    assert_eq!(marks(&events(&home, "aside")), ["framing"]);
}
