//! `offshoot run` in full: prompts from anywhere, pictures, limits, text as it comes in, and what it costs.

use std::fs;
use std::process::{Command, Stdio};

use insta::assert_snapshot;
use offshoot_test_support::{Reply, ScriptedModelServer, TestHome};
use serde_json::{Value, json};

use crate::support::{
    BINARY, Background, Fifo, KEY, arrived, events, file, json as output_json, json_lines, run,
    seen, session_of, turn, types, work,
};
use crate::terminal::Terminal;

/// What the person says in the last request.
fn asked(server: &ScriptedModelServer) -> Vec<Value> {
    let requests = server.requests();
    let messages = requests.last().unwrap().messages();
    let users = messages.iter().filter(|message| message["role"] == "user");
    users.map(|message| message["content"].clone()).collect()
}

#[test]
fn the_prompt_may_come_from_standard_input_or_from_both() {
    let server = ScriptedModelServer::start([Reply::text("Yes.")]);
    server.repeat_last();
    let home = TestHome::new();
    for (args, stdin, expected) in [
        (&[][..], "From a pipe.\n", "From a pipe."),
        (&["-"], "From a pipe.\n", "From a pipe."),
        (&["Sum this up:"], "one\ntwo\n", "Sum this up:\n\none\ntwo"),
        (&["Alone."], "", "Alone."),
    ] {
        let output = turn(&home, &server).args(args).stdin(stdin).run();
        drop(output.success());
        assert!(asked(&server).contains(&json!(expected)), "{args:?}");
    }
}

#[test]
fn what_cannot_be_a_prompt_is_refused_before_anything_is_made() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let mut all = String::new();
    for stdin in [&b""[..], b" \n", b"\xff\xfe"] {
        let output = turn(&home, &server).arg("-").stdin(stdin).run();
        all.push_str(&seen(&output));
    }
    assert_snapshot!(all, @r#"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: there is no prompt: say what the agent is to do
    hint: offshoot run PROMPT, or give it on standard input: offshoot run < FILE
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: there is no prompt: say what the agent is to do
    hint: offshoot run PROMPT, or give it on standard input: offshoot run < FILE
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: standard input is not text in UTF-8
    hint: pictures are given with --image
    "#);
    assert!(home.bytes_of_tree().is_empty());
}

/// The smallest picture: one pixel.
pub(crate) const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\nIDATx\x9cc\0\x01\0\0\x05\0\x01\r\n-\xb4\0\0\0\0IEND\xaeB`\x82";

#[test]
fn a_picture_is_stored_by_its_content_and_belongs_to_the_message() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("A dot.")]);
    let picture = file(&home, "dot.png", PIXEL);
    let output = turn(&home, &server)
        .args([
            "--json",
            "--image",
            picture.to_str().unwrap(),
            "What is this?",
        ])
        .run()
        .success();
    let stored = events(&home, &session_of(&output));
    let message = stored
        .iter()
        .find(|event| event["type"] == "user/message" && event["data"]["source"]["kind"] == "user")
        .unwrap();
    let attachment = &message["data"]["content"][1];
    let id = attachment["attachment"]["attachmentId"].as_str().unwrap();
    assert_eq!(
        *attachment,
        json!({
            "type": "image",
            "attachment": {
                "attachmentId": id,
                "mediaType": "image/png",
                "bytes": PIXEL.len(),
                "width": 1,
                "height": 1,
                "name": "dot.png",
            },
        })
    );
    let hex = id.strip_prefix("sha256:").unwrap();
    let kept = home.bytes_of_tree();
    let blob = kept.iter().find(|(name, _)| name.contains(hex)).unwrap();
    assert_eq!(blob.1, PIXEL);
}

#[test]
fn what_is_no_picture_is_refused_before_anything_is_made() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let text = file(&home, "note.png", "just text");
    let cut = file(&home, "cut.png", &PIXEL[..12]);
    let mut all = String::new();
    let paths = [
        text.to_str().unwrap(),
        cut.to_str().unwrap(),
        "nowhere.png",
        "/dev/zero",
    ];
    for path in paths {
        let output = turn(&home, &server).args(["--image", path, "?"]).run();
        all.push_str(&seen(&output));
    }
    assert_snapshot!(all, @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `[user]/note.png`: it is none of the pictures that can be sent
    hint: pictures are PNG, JPEG, WebP or GIF files
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `[user]/cut.png`: its size cannot be found: failed to fill whole buffer
    hint: pictures are PNG, JPEG, WebP or GIF files
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `nowhere.png`: No such file or directory (os error 2)
    hint: pictures are PNG, JPEG, WebP or GIF files
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `/dev/zero`: it is larger than 20 MiB
    hint: pictures are PNG, JPEG, WebP or GIF files
    "#);
    assert!(home.bytes_of_tree().is_empty());
}

#[test]
fn after_so_many_answers_the_turn_is_stopped_with_4_and_can_go_on() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([
        Reply::tool_calls([("call_1", "bash", r#"{"command":"echo one"}"#)]),
        Reply::tool_calls([("call_2", "bash", r#"{"command":"echo two"}"#)]),
        Reply::text("Done."),
    ]);
    let output = turn(&home, &server)
        .args(["--max-turns", "2", "Work."])
        .run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 4
    ----- stdout -----
    ----- stderr -----
    session session-[uuid]
    · bash({"command":"echo one"})
    · bash({"command":"echo two"})
    tokens: 28 in, 10 out, 6 from the cache
    the turn was stopped: the model has answered as often as --max-turns lets it
    hint: what was said so far is kept; go on with: offshoot run --session session-[uuid] PROMPT
    "#);
    assert_eq!(server.requests().len(), 2);
    let listed = output_json(&run(&home, ["ls", "--json"]).success());
    let id = listed[0]["id"].as_str().unwrap();
    assert_eq!(listed[0]["status"], "ok");
    let stored = events(&home, id);
    assert_eq!(types(&stored).last(), Some(&"turn/end"));
    let reason = &stored.last().unwrap()["data"]["reason"];
    assert_eq!(reason["kind"], "aborted");
    assert_eq!(reason["reason"]["kind"], "hook");
    let output = turn(&home, &server)
        .args(["--max-turns", "1", "--session", id, "Go on."])
        .run()
        .success();
    assert_eq!(output.stdout_text(), "Done.\n");
}

#[test]
fn after_so_long_the_turn_is_stopped_with_4() {
    let home = TestHome::new();
    let (reply, _gate) = Reply::text("One two three four.").stall_after(3);
    let server = ScriptedModelServer::start([reply]);
    let output = turn(&home, &server)
        .args(["--json", "--timeout", "1s", "Count."])
        .run();
    assert_eq!(output.code(), Some(4), "{output}");
    let (_, result) = json_lines(&output);
    assert_eq!(
        result["reason"],
        json!({"kind": "aborted", "reason": {"kind": "hook", "reason": "the time that --timeout gives it is over"}})
    );
}

#[test]
fn limits_that_cannot_be_are_refused() {
    let home = TestHome::new();
    for args in [
        ["--max-turns", "0"],
        ["--max-turns", "-1"],
        ["--timeout", "0s"],
        ["--timeout", "10"],
        ["--sandbox", "none"],
        ["--permission-mode", "sometimes"],
    ] {
        let output = run(&home, ["run", args[0], args[1], "x"]);
        assert_eq!(output.code(), Some(2), "{output}");
    }
}

#[test]
fn what_a_turn_costs_is_said_where_prices_are_known() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("Yes.")]);
    server.repeat_last();
    let settings = "[providers.openai.models.\"scripted-1\"]\nprices = { input = 1000, output = 2000, cache_read = 100 }\n";
    drop(file(&home, "settings", settings));
    fs::create_dir_all(home.path()).unwrap();
    fs::copy(
        home.user_path().join("settings"),
        home.path().join("config.toml"),
    )
    .unwrap();
    let output = turn(&home, &server).arg("Sure?").run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    Yes.
    ----- stderr -----
    session session-[uuid]
    tokens: 14 in, 5 out, 3 from the cache; 0.0243 USD
    "#);
    let output = turn(&home, &server).args(["--json", "Sure?"]).run();
    assert_eq!(json_lines(&output.success()).1["cost_usd"], json!(0.0243));
}

#[test]
fn at_a_terminal_the_text_is_seen_while_it_comes_in_and_once() {
    let home = TestHome::new();
    let (reply, gate) = Reply::text("One two three four.").stall_after(3);
    let server = ScriptedModelServer::start([reply]);
    let mut terminal = Terminal::start(&home, &server, "run Count.");
    // What the server has sent, while the rest of the answer stands at the gate.
    terminal.until("One two");
    gate.release();
    let (code, text) = terminal.end();
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(text.matches("One two three four.").count(), 1, "{text}");
}

#[test]
fn a_second_ctrl_c_ends_the_program_at_once() {
    let home = TestHome::new();
    let work = work(&home);
    let (started, _hold) = (Fifo::new(&work, "started"), Fifo::new(&work, "hold"));
    // A command that does not listen when it is asked to end.
    let command = json!({"command": "trap '' TERM INT; echo here > started; cat hold; cat hold"});
    let server =
        ScriptedModelServer::start([Reply::tool_calls([("call_1", "bash", command.to_string())])]);
    let mut running = Background::turn(&home, &server, &["Wait."]);
    started.read();
    running.signal("-INT");
    running.until_said("press Ctrl-C again");
    // What comes at once counts as the same one.
    running.signal_until_it_ends("-INT");
    let (code, _, _) = running.finish();
    assert_eq!(code, Some(130));
}

#[test]
fn the_same_signal_twice_at_once_is_one() {
    let home = TestHome::new();
    let (reply, _gate) = Reply::text("One two three four.").stall_after(3);
    let server = ScriptedModelServer::start([reply]);
    let running = Background::turn(&home, &server, &["Count."]);
    arrived(&server, 1);
    // As `timeout` does: to the process, and to the group that it is in.
    let pid = running.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid, &pid]).status();
    assert!(sent.unwrap().success());
    let (code, result, said) = running.finish();
    assert_eq!(
        (code, &result["reason"]["kind"]),
        (Some(130), &json!("aborted")),
        "{said}"
    );
}

#[test]
fn a_turn_goes_on_where_nothing_can_be_said_of_it() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("Yes.")]);
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = Command::new(BINARY);
    command
        .arg("--home")
        .arg(home.path())
        .args(["run", "Sure?"]);
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .env("OPENAI_API_KEY", KEY);
    command
        .env("OFFSHOOT_MODEL", "openai/scripted-1")
        .current_dir(work(&home));
    let output = command.stdin(Stdio::null()).stderr(full).output().unwrap();
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(0), &b"Yes.\n"[..])
    );
}

#[test]
fn settings_of_a_run_go_before_those_of_the_environment() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("Yes.")]);
    let output = turn(&home, &server)
        .env("OFFSHOOT_EFFORT", "low")
        .args(["--effort", "high", "--model", "openai/other", "Sure?"])
        .run();
    drop(output.success());
    let sent = server.requests()[0].json();
    assert_eq!(sent["reasoning_effort"], "high");
    assert_eq!(sent["model"], "other");
}
