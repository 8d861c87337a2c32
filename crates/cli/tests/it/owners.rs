//! One writer: a second process reads, forks and lists a session that runs, and never writes to it.

use insta::assert_snapshot;
use offshoot_test_support::{Reply, ScriptedModelServer, TestHome};
use serde_json::json;

use crate::support::{Background, arrived, demo, events, json, run, seen, turn, types};

#[test]
fn a_second_run_is_refused_while_reading_and_forking_go_on() {
    let home = TestHome::new();
    let (held, gate) = Reply::text("At last.").hold_head();
    let server = ScriptedModelServer::start([held, Reply::text("In the fork.")]);
    let id = "busy".to_owned();
    drop(
        run(
            &home,
            [
                "fork".as_ref(),
                demo().as_os_str(),
                "--id".as_ref(),
                "busy".as_ref(),
            ],
        )
        .success(),
    );
    let running = Background::turn(&home, &server, &["--session", &id, "Second."]);
    arrived(&server, 1);

    let before = home.bytes_of_tree();
    let output = turn(&home, &server)
        .args(["--session", &id, "Third."])
        .run();
    let process = format!("process {}", running.id());
    let output = output.replacing(process, "process [pid]");
    assert_snapshot!(seen(&output), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: session `busy` is open for writing in process [pid] (`[home]/sessions/--work-demo--/busy/session.lock` is locked)
    hint: wait until it is closed there, or go on in a fork, which needs no lock on its source: offshoot run --fork busy PROMPT
    "#);
    let output = turn(&home, &server)
        .args(["--json", "--session", &id, "Third."])
        .run();
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(
        (&error["type"], &error["code"]),
        (&json!("error"), &json!("SESSION_ALREADY_OWNED"))
    );

    let shown = run(&home, ["show", &id]).success();
    assert!(
        shown.stdout_text().contains("note: turn 2 is open"),
        "{shown}"
    );
    let listed = json(&run(&home, ["ls", "--json"]).success());
    assert_eq!(listed[0]["status"], "open");
    assert_eq!(
        json(&run(&home, ["check", &id, "--json"]).success())[0]["status"],
        "ok"
    );
    assert_eq!(
        home.bytes_of_tree(),
        before,
        "who is refused and who reads leaves no trace"
    );

    // By default the fork is cut at the turn that has completed.
    let forked = json(&run(&home, ["fork", &id, "--json"]).success());
    let stored = events(&home, &id);
    let cut = usize::try_from(forked["cut"].as_u64().unwrap()).unwrap();
    // The marker of the second run belongs to no turn; what follows it waits for the second turn.
    let around = &types(&stored)[cut - 1..cut + 2];
    assert_eq!(
        around,
        ["turn/end", "session/end-seed", "agent/inbox/spliced"]
    );
    gate.release();
    let (code, result, said) = running.finish();
    assert_eq!(
        (code, &result["text"]),
        (Some(0), &json!("At last.")),
        "{said}"
    );
    let fork = forked["session"].as_str().unwrap();
    let output = turn(&home, &server)
        .args(["--session", fork, "Go on."])
        .run()
        .success();
    assert_eq!(output.stdout_text(), "In the fork.\n");
    // Once it is closed there, it opens here.
    server.push(Reply::text("Now it is mine."));
    drop(
        turn(&home, &server)
            .args(["--session", &id, "Third."])
            .run()
            .success(),
    );
}
