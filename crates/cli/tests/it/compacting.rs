//! `offshoot compact`, and `/compact`.

use insta::assert_snapshot;
use offshoot_test_support::{Reply, ScriptedModelServer, TestHome};

use crate::support::{KEY, events, json, offshoot, run, seen, session_of, turn, types, work};

/// A session of several long turns.
fn long_session(home: &TestHome, server: &ScriptedModelServer) -> String {
    let mut id = None::<String>;
    for n in 0..4 {
        server.push(Reply::text(format!(
            "Answer {n}. {}",
            "It goes on and on. ".repeat(200)
        )));
        let prompt = format!("Question {n}? {}", "And so on. ".repeat(200));
        let mut command = turn(home, server).arg("--json");
        if let Some(id) = &id {
            command = command.args(["--session", id]);
        }
        id = Some(session_of(&command.arg(prompt).run().success()));
    }
    id.unwrap()
}

fn compact(
    home: &TestHome,
    server: &ScriptedModelServer,
    args: &[&str],
) -> offshoot_test_support::CommandOutput {
    offshoot(home)
        .current_dir(work(home))
        .env("OPENAI_BASE_URL", server.base_url())
        .env("OPENAI_API_KEY", KEY)
        .arg("compact")
        .args(args)
        .run()
}

#[test]
fn older_history_gives_way_to_a_summary_and_the_log_keeps_it() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let id = long_session(&home, &server);
    let before = events(&home, &id);
    server.push(Reply::text("They talked about questions, at length."));
    let output = compact(&home, &server, &[&id]);
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    7 messages of about 4665 tokens gave way to a summary of about 116, event 46; the log keeps them
    ----- stderr -----
    "#);
    let after = events(&home, &id);
    assert_eq!(after[..before.len()], before);
    assert!(types(&after).contains(&"compaction/summary"));
    // The next request has the summary in place of the first question.
    server.push(Reply::text("Yes."));
    drop(
        turn(&home, &server)
            .args(["--session", &id, "Still there?"])
            .run()
            .success(),
    );
    let requests = server.requests();
    let asked = requests.last().unwrap().json()["messages"].to_string();
    assert!(asked.contains("They talked about questions"), "{asked}");
    assert!(!asked.contains("Question 0?"), "{asked}");
}

#[test]
fn a_session_without_a_request_has_nothing_to_compact() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::unauthorized()]);
    let output = compact(&home, &server, &["nobody"]);
    assert_eq!(output.code(), Some(1));
    let output = turn(&home, &server).args(["--json", "Hello?"]).run();
    let id = session_of(&output);
    let output = compact(&home, &server, &[&id, "--json"]);
    assert_eq!(
        json(&output.success())["compacted"],
        serde_json::Value::Null
    );
}

#[test]
fn a_summary_that_does_not_come_leaves_everything_as_it_was() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let id = long_session(&home, &server);
    let shown = run(&home, ["show", &id, "--messages"]).success().stdout;
    server.push(Reply::unauthorized());
    server.repeat_last();
    let output = compact(&home, &server, &[&id]);
    assert_eq!(output.code(), Some(1), "{output}");
    assert!(
        output.stderr_text().contains("there is no summary"),
        "{output}"
    );
    assert_eq!(
        run(&home, ["show", &id, "--messages"]).success().stdout,
        shown
    );
}
