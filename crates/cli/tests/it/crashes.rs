//! What is true after the process has been killed, or interrupted, in the middle of a tool call.

use std::fs;

use insta::assert_snapshot;
use offshoot_test_support::{Reply, ScriptedModelServer, TestHome};
use serde_json::json;

use crate::support::{Background, Fifo, events, json, run, seen, turn, types, work};

const OUTCOME_UNKNOWN: &str =
    "it was interrupted before a result was recorded, so its outcome is unknown";
const NOT_STARTED: &str =
    "The tool call was interrupted before the Harness recorded it as started.";
const FORKED: &str = "This conversation was branched off";

/// A first call that counts its runs, says that it runs, and then waits; and a second one.
fn waiting_call() -> Reply {
    let waits = r#"{"command":"echo ran >> runs.txt; echo here > started; cat hold"}"#;
    let second = r#"{"command":"echo ran >> second.txt"}"#;
    Reply::text_then_tool_calls(
        "I wait.",
        [
            ("call_wait", "bash", waits),
            ("call_second", "bash", second),
        ],
    )
}

fn only_session(home: &TestHome) -> String {
    let rows = json(&run(home, ["ls", "--json"]).success());
    assert_eq!(rows.as_array().unwrap().len(), 1);
    rows[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_killed_call_is_told_as_unknown_and_nothing_runs_twice() {
    let home = TestHome::new();
    let work = work(&home);
    let (started, hold) = (Fifo::new(&work, "started"), Fifo::new(&work, "hold"));
    let server = ScriptedModelServer::start([waiting_call()]);
    let running = Background::turn(&home, &server, &["Wait for me."]);
    assert_eq!(started.read(), "here\n");
    running.kill();
    // The shell has outlived its parent, as it would for real.
    hold.release();

    let id = only_session(&home);
    let checked = run(&home, ["check", &id, "--json"]);
    let status = json(&checked)[0]["status"].clone();
    assert!(status == "ok" || status == "torn", "{checked}");
    let shown = run(&home, ["show", &id, "--from", "11"]).success();
    assert_snapshot!(seen(&shown), @r#"
    exit code: 0
    ----- stdout -----
    session  session-[uuid]
    title    Wait for me.
    works in [user]/work
    created  [moment]
    events   12

        11  tool/call              call_wait: bash({"command":"echo ran >> runs.txt; echo here > started; cat hold"})

    note: turn 1 is open; going on with the session, or forking it, closes it truthfully
    ----- stderr -----
    "#);

    let before = events(&home, &id);
    server.push(Reply::text("I look what is true now."));
    let output = turn(&home, &server)
        .args(["--session", &id, "What happened?"])
        .run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    I look what is true now.
    ----- stderr -----
    note: the session had ended in the middle of something; 4 events close its open turn
    session session-[uuid]
    tokens: 14 in, 5 out, 3 from the cache
    "#);

    // What was there stays; five events close it; the request is valid, or the server would say so.
    let after = events(&home, &id);
    assert_eq!(after[..before.len()], before);
    assert_eq!(
        types(&after[before.len()..])[..5],
        [
            "tool/result",
            "tool/result",
            "step/end",
            "turn/end",
            "session/end-seed"
        ]
    );
    assert_eq!(
        after[before.len() + 3]["data"]["reason"],
        json!({"kind": "interrupted"})
    );
    let sent = server.requests();
    assert_eq!(sent.len(), 2);
    let told = String::from_utf8_lossy(&sent[1].body);
    assert!(
        told.contains(OUTCOME_UNKNOWN) && told.contains(NOT_STARTED),
        "{told}"
    );
    assert!(!told.contains(FORKED), "{told}");
    assert_eq!(
        run(&home, ["show", &id, "--request", "2"]).stdout,
        sent[1].body
    );
    assert_eq!(fs::read_to_string(work.join("runs.txt")).unwrap(), "ran\n");
    assert!(!work.join("second.txt").exists());
}

#[test]
fn after_a_kill_the_open_turn_can_be_forked_instead() {
    let home = TestHome::new();
    let work = work(&home);
    let (started, hold) = (Fifo::new(&work, "started"), Fifo::new(&work, "hold"));
    let server = ScriptedModelServer::start([waiting_call(), Reply::text("I look first.")]);
    let running = Background::turn(&home, &server, &["Wait for me."]);
    started.read();
    running.kill();
    hold.release();
    let id = only_session(&home);
    let before = home.bytes_of_tree();
    let last = (events(&home, &id).len() - 1).to_string();
    let output = turn(&home, &server)
        .args(["--fork", &id, "--at", &last, "Go on."])
        .run()
        .success();
    assert_eq!(output.stdout_text(), "I look first.\n");
    let told = server.requests()[1].json()["messages"].to_string();
    assert!(
        told.contains(FORKED) && !told.contains(OUTCOME_UNKNOWN),
        "{told}"
    );
    let after = home.bytes_of_tree();
    assert!(
        before
            .iter()
            .all(|(name, bytes)| after.get(name) == Some(bytes))
    );
}

#[test]
fn ctrl_c_ends_the_turn_and_leaves_a_log_that_goes_on() {
    stopped_by("-INT");
}

#[test]
fn so_does_a_supervisor_that_terminates_it() {
    stopped_by("-TERM");
}

fn stopped_by(signal: &str) {
    let home = TestHome::new();
    let work = work(&home);
    let (started, _hold) = (Fifo::new(&work, "started"), Fifo::new(&work, "hold"));
    let server = ScriptedModelServer::start([waiting_call()]);
    let running = Background::turn(&home, &server, &["Wait for me."]);
    started.read();
    running.signal(signal);
    let (code, result, said) = running.finish();
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(
        result["reason"],
        json!({"kind": "aborted", "reason": {"kind": "user"}})
    );
    assert!(
        said.contains("cancelling; press Ctrl-C again to stop at once"),
        "{said}"
    );

    let id = only_session(&home);
    assert_eq!(
        json(&run(&home, ["check", &id, "--json"]).success())[0]["status"],
        "ok"
    );
    let stored = events(&home, &id);
    assert_eq!(types(&stored).last(), Some(&"turn/end"));
    let codes: Vec<_> = stored
        .iter()
        .filter(|event| event["type"] == "tool/result")
        .map(|event| event["data"]["error"]["code"].as_str())
        .collect();
    assert_eq!(codes, [Some("ABORTED"), Some("ABORTED_BEFORE_DISPATCH")]);

    server.push(Reply::text("Stopped."));
    let output = turn(&home, &server)
        .args(["--session", &id, "What now?"])
        .run()
        .success();
    assert_eq!(output.stdout_text(), "Stopped.\n");
    assert!(!work.join("second.txt").exists());
}
