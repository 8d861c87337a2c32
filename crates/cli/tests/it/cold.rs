//! The first `offshoot run` of somebody new, and what is said when it cannot work.

use std::process::{Command, Output};

use insta::assert_snapshot;
use offshoot_test_support::{Reply, ScriptedModelServer, TestHome};
use serde_json::json;

use crate::support::{
    BINARY, KEY, json as output_json, offshoot, run, scrub, seen, turn, without_retries, work,
};

#[test]
fn with_nothing_configured_it_says_what_to_set_and_makes_nothing() {
    let home = TestHome::new();
    let output = run(&home, ["run", "What is in this directory?"]);
    assert_snapshot!(seen(&output), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: no model provider is configured
    hint: set DEEPSEEK_API_KEY; or ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY, and pass --model PROVIDER/MODEL; keys may also stand in `[home]/credentials.toml`
    hint: for a server of your own: OPENAI_BASE_URL and --model openai/MODEL, or --model ollama/MODEL, or describe it in `[home]/config.toml`
    hint: `offshoot models` lists what can be called, and what it takes
    hint: to try without a key: `offshoot demo`, or `offshoot run --replay FILE PROMPT`
    "#);
    assert!(home.bytes_of_tree().is_empty());
    // As a program sees it.
    let output = run(&home, ["run", "--json", "What is in this directory?"]);
    let said: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(said["code"], "NO_PROVIDER");
}

#[test]
fn with_a_key_alone_it_says_how_to_name_a_model() {
    let home = TestHome::new();
    let mut all = String::new();
    for variable in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"] {
        let output = offshoot(&home)
            .env(variable, KEY)
            .args(["run", "Hello?"])
            .run();
        all.push_str(&format!("{variable}\n{}", seen(&output)));
    }
    assert_snapshot!(all, @r#"
    ANTHROPIC_API_KEY
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: no model was named
    hint: pass --model anthropic/claude-haiku-4-5, or set OFFSHOOT_MODEL, or default_model in `[home]/config.toml`
    hint: `offshoot models` lists what can be called
    OPENAI_API_KEY
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: no model was named
    hint: pass --model openai/gpt-4.1, or set OFFSHOOT_MODEL, or default_model in `[home]/config.toml`
    hint: `offshoot models` lists what can be called
    OPENROUTER_API_KEY
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: no model was named
    hint: pass --model openrouter/MODEL, or set OFFSHOOT_MODEL, or default_model in `[home]/config.toml`
    hint: `offshoot models` lists what can be called
    "#);
    assert!(home.bytes_of_tree().is_empty());
}

#[test]
fn a_wrong_key_is_named_by_its_place_and_not_shown() {
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
    assert_eq!(server.requests().len(), 1, "a wrong key stays wrong");
}

#[test]
fn how_long_a_provider_asks_to_wait_is_said_where_that_is_too_long() {
    let home = without_retries();
    let server = ScriptedModelServer::start([Reply::rate_limited(Some(3600))]);
    let output = turn(&home, &server).arg("Hello?").run();
    assert_eq!(output.code(), Some(3), "{output}");
    let said = output.stderr_text();
    let expected = "hint: the provider asks to wait for 3600 s";
    assert!(said.lines().any(|line| line == expected), "{said}");
}

#[test]
fn a_host_that_cannot_be_reached_is_named() {
    let home = without_retries();
    // Nobody listens on a port that was just given back.
    let server = ScriptedModelServer::start([]);
    let command = turn(&home, &server).args(["--json", "Hello?"]);
    server.finish();
    let output = command.run();
    assert_eq!(output.code(), Some(3), "{output}");
    let result = output.stdout_text();
    let result: serde_json::Value = serde_json::from_str(result.lines().last().unwrap()).unwrap();
    assert_eq!(result["reason"]["error"]["code"], "TRANSPORT");
}

/// As on a full disk: no file of the process can grow beyond so many blocks of 512 bytes.
fn with_little_room(home: &TestHome, server: &ScriptedModelServer, blocks: u64) -> Output {
    Command::new("sh")
        .args([
            "-c",
            &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\""),
            "sh",
            BINARY,
        ])
        .arg("--home")
        .arg(home.path())
        .args(["run", "Tell me everything."])
        .env("HOME", home.user_path())
        .env("OPENAI_BASE_URL", server.base_url())
        .env("OFFSHOOT_MODEL", "openai/scripted-1")
        .current_dir(work(home))
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn on_a_full_disk_the_turn_fails_with_its_reason_and_what_was_stored_stays_good() {
    let home = TestHome::new();
    // Text that cannot be packed into the room there is.
    let long: Vec<String> = (0..4000_u64)
        .map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    let server = ScriptedModelServer::start([Reply::text(long.join(" ")), Reply::text("Yes.")]);
    let output = with_little_room(&home, &server, 12);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last: Vec<&str> = said.lines().rev().take(2).collect();
    let id = output_json(&run(&home, ["ls", "--json"]).success())[0]["id"].clone();
    let id = id.as_str().unwrap();
    assert_eq!(
        scrub(last[0]),
        "hint: what was said so far is kept; go on with: offshoot run --session session-[uuid] PROMPT"
    );
    assert!(
        last[1].starts_with("error: could not append to `"),
        "{said}"
    );
    assert!(last[1].contains("session.v4.jsonl.zstd"), "{said}");

    // With room again it goes on.
    let output = turn(&home, &server)
        .args(["--session", id, "Are you there?"])
        .run()
        .success();
    assert_eq!(output.stdout_text(), "Yes.\n");
    let checked = output_json(&run(&home, ["check", id, "--json"]).success());
    assert_eq!(checked[0]["status"], json!("ok"));
}

#[test]
fn on_a_disk_that_was_full_before_no_session_is_promised() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("Yes.")]);
    let output = with_little_room(&home, &server, 1);
    let said = scrub(&String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.lines().last();
    let expected = "hint: nothing of the session was stored: there is none to go on with";
    assert_eq!(last, Some(expected), "{said}");
    assert_eq!(
        output_json(&run(&home, ["ls", "--json"]).success()),
        json!([])
    );
}

#[test]
fn a_key_that_cannot_be_sent_is_named_by_its_place_and_not_shown() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let output = turn(&home, &server)
        .env("OPENAI_API_KEY", "sk-secret\nsk-secret")
        .arg("Hello?")
        .run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: API key contains characters that an HTTP header cannot carry
    hint: the key is in OPENAI_API_KEY
    "#);
    assert!(home.bytes_of_tree().is_empty());
}
