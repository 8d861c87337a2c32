//! `offshoot run` against a real HTTP server: tools that really work, and requests that can be shown again.

use std::fs;

use insta::assert_snapshot;
use offshoot_test_support::{Reply, ScriptedModelServer, TestHome};
use serde_json::json;

use crate::support::{
    KEY, events, json_lines, run, scrub, seen, session_of, turn, types, without_retries, work,
};

fn writes_and_reads() -> [Reply; 3] {
    [
        Reply::text_then_tool_calls(
            "I write it.",
            [(
                "call_1",
                "write",
                r#"{"file_path":"note.txt","content":"alpha\n"}"#,
            )],
        ),
        Reply::tool_calls([
            ("call_2", "read", r#"{"file_path":"note.txt"}"#),
            (
                "call_3",
                "bash",
                r#"{"command":"cat note.txt >> twice.txt; cat twice.txt"}"#,
            ),
        ]),
        Reply::text("It says alpha."),
    ]
}

#[test]
fn a_new_session_works_with_its_tools_in_its_directory_and_answers() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start(writes_and_reads());
    let output = turn(&home, &server)
        .arg("Write alpha into note.txt, and check.")
        .run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    It says alpha.
    ----- stderr -----
    session session-[uuid]
    · write({"file_path":"note.txt","content":"alpha\n"})
    · read({"file_path":"note.txt"})
    · bash({"command":"cat note.txt >> twice.txt; cat twice.txt"})
    tokens: 42 in, 15 out, 9 from the cache
    "#);
    assert_eq!(
        fs::read_to_string(work(&home).join("note.txt")).unwrap(),
        "alpha\n"
    );
    assert_eq!(
        fs::read_to_string(work(&home).join("twice.txt")).unwrap(),
        "alpha\n"
    );

    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[0].path, "/chat/completions");
    assert_eq!(
        requests[0].header("authorization"),
        Some(&*format!("Bearer {KEY}"))
    );
    assert!(
        requests[2].json()["messages"]
            .to_string()
            .contains("1: alpha")
    );
    assert_snapshot!(scrub(&run(&home, ["ls", "--tree"]).stdout_text()), @r#"
    session-[uuid]  (25 events)  Write alpha into note.txt, and check.
    "#);
}

#[test]
fn as_json_every_event_is_a_line_and_the_result_is_the_last() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start(writes_and_reads());
    let output = turn(&home, &server)
        .args(["--output", "json", "Write it."])
        .run()
        .success();
    let (lines, result) = json_lines(&output);
    let id = session_of(&output);
    assert_eq!(lines, events(&home, &id));
    assert_eq!(
        result,
        json!({
            "type": "result",
            "session": id,
            "turn": 1,
            "reason": {"kind": "completed"},
            "text": "It says alpha.",
            "usage": {"inputTokens": 42, "outputTokens": 15, "cacheReadTokens": 9, "reasoningTokens": 6},
        })
    );
    // --json is the same.
    let server = ScriptedModelServer::start([Reply::text("Yes.")]);
    let output = turn(&home, &server)
        .args(["--json", "Sure?"])
        .run()
        .success();
    assert_eq!(json_lines(&output).1["text"], "Yes.");
}

#[test]
fn a_refusal_of_the_provider_ends_with_3_says_why_and_keeps_the_log() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::unauthorized()]);
    let output = turn(&home, &server)
        .arg("Hello?")
        .run()
        .replacing(server.base_url(), "[server]");
    assert_snapshot!(seen(&output), @r#"
    exit code: 3
    ----- stdout -----
    ----- stderr -----
    session session-[uuid]
    error: The API key is not valid. (AUTH)
    hint: provider `openai` is asked at [server], with the key in OPENAI_API_KEY
    hint: what was said so far is kept; go on with: offshoot run --session session-[uuid] PROMPT
    "#);
    let listed = run(&home, ["ls", "--json"]).success();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    let stored = events(&home, id);
    assert_eq!(types(&stored).last(), Some(&"turn/end"));
    assert_eq!(
        stored.last().unwrap()["data"]["reason"]["error"]["code"],
        "AUTH"
    );

    // The next turn goes on from there.
    server.push(Reply::text("Here I am."));
    let output = turn(&home, &server)
        .args(["--session", id, "Hello again?"])
        .run()
        .success();
    assert_eq!(output.stdout_text(), "Here I am.\n");
    assert!(
        server.requests()[1].json()["messages"]
            .to_string()
            .contains("Hello?")
    );
}

#[test]
fn a_refusal_as_json_is_a_result() {
    let home = without_retries();
    let server = ScriptedModelServer::start([Reply::rate_limited(None)]);
    let output = turn(&home, &server).args(["--json", "Hello?"]).run();
    assert_eq!(output.code(), Some(3));
    let (_, result) = json_lines(&output);
    assert_eq!(
        (&result["type"], &result["text"]),
        (&json!("result"), &json!(""))
    );
    assert_eq!(result["reason"]["kind"], "error");
    assert_eq!(result["reason"]["error"]["code"], "RATE_LIMIT");
}

#[test]
fn an_answer_that_was_cut_off_is_printed_and_said_to_be() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("Once upon a").finish_reason("length")]);
    let output = turn(&home, &server).arg("Tell me a story.").run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    Once upon a
    ----- stderr -----
    session session-[uuid]
    tokens: 14 in, 5 out, 3 from the cache
    note: the answer was cut off at the model's output limit
    "#);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let home = without_retries();
    let server = ScriptedModelServer::start([]);
    let command = turn(&home, &server).arg("Hello?");
    let url = server.base_url();
    server.finish();
    let output = command.run().replacing(url, "[server]");
    assert_eq!(output.code(), Some(3));
    let said = output.stderr_text();
    assert!(said.contains("(TRANSPORT)"), "{output}");
    assert!(
        said.contains(
            "hint: provider `openai` is asked at [server], with the key in OPENAI_API_KEY\n"
        ),
        "{output}"
    );
}

#[test]
fn the_key_is_neither_printed_nor_stored() {
    let home = without_retries();
    let server = ScriptedModelServer::start([
        Reply::unauthorized(),
        Reply::tool_calls([("call_1", "bash", r#"{"command":"echo seen"}"#)]),
        Reply::connection_reset(),
    ]);
    for prompt in ["one", "two"] {
        let output = turn(&home, &server).args(["--json", prompt]).run();
        for said in [&output.stdout, &output.stderr] {
            assert!(!String::from_utf8_lossy(said).contains(KEY), "{output}");
        }
    }
    assert_eq!(server.requests().len(), 3);
    let rows = run(&home, ["ls", "--json"]).success();
    let rows: serde_json::Value = serde_json::from_slice(&rows.stdout).unwrap();
    for row in rows.as_array().unwrap() {
        let stored = events(&home, row["id"].as_str().unwrap());
        assert!(!serde_json::to_string(&stored).unwrap().contains(KEY));
    }
}

#[test]
fn a_session_whose_directory_is_gone_warns_and_goes_on() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("Yes."), Reply::text("Still here.")]);
    let gone = work(&home).join("gone");
    fs::create_dir(&gone).unwrap();
    let output = turn(&home, &server)
        .args(["--json", "--cwd", gone.to_str().unwrap(), "Here?"])
        .run()
        .success();
    let id = session_of(&output);
    fs::remove_dir(&gone).unwrap();
    let output = turn(&home, &server)
        .args(["--session", &id, "And now?"])
        .run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    Still here.
    ----- stderr -----
    session session-[uuid]
    warning: the session works in `[user]/work/gone`, which is not a directory here
    tokens: 14 in, 5 out, 3 from the cache
    "#);
}

#[test]
fn a_failure_that_may_pass_is_told_and_the_call_is_made_again() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::rate_limited(Some(0)), Reply::text("Yes.")]);
    let output = turn(&home, &server).arg("Hello?").run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    Yes.
    ----- stderr -----
    session session-[uuid]
    · Too many requests, slow down. (RATE_LIMIT); try 1 of 5 in about 1 s
    tokens: 14 in, 5 out, 3 from the cache
    "#);
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_model_that_makes_the_same_call_again_and_again_is_reminded() {
    let home = TestHome::new();
    let looks = |id| Reply::tool_calls([(id, "ls", "{}")]);
    let server = ScriptedModelServer::start([
        looks("call_1"),
        looks("call_2"),
        looks("call_3"),
        Reply::text("I see."),
    ]);
    let output = turn(&home, &server).arg("Look.").run().success();
    assert_eq!(output.stdout_text(), "I see.\n");
    let requests = server.requests();
    let last_is_a_result = |request: usize| {
        let messages = requests[request].messages();
        messages.last().unwrap()["role"] == "tool"
    };
    assert_eq!([1, 2, 3].map(last_is_a_result), [true, true, false]);
}
