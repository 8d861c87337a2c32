//! What becomes of `offshoot side` that was asked for before, was killed, or cannot be.

use std::fs;

use insta::assert_snapshot;
use offshoot_test_support::{Reply, ScriptedModelServer, TestHome};
use serde_json::{Value, json};

use crate::side::{assert_sound, conversation, ids, marks, side};
use crate::support::{Background, Fifo, arrived, demo, events, file, fixture, seen, work};

#[test]
fn the_same_id_again_goes_on_with_the_same_side_session() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let parent = conversation(
        &home,
        &server,
        &[("Which colour?", "Blue."), ("Sure?", "Sure.")],
    );
    server.push(Reply::text("Because of the sky."));
    drop(side(&home, &server, &[&parent, "--child", "aside", "Why blue?"]).success());
    server.push(Reply::text("I said so."));
    let output = side(&home, &server, &[&parent, "--child", "aside", "Why blue?"]);
    assert_snapshot!(seen(&output), @"
    exit code: 0
    ----- stdout -----
    I said so.
    ----- stderr -----
    session aside
    note: a side session of session-[uuid] that is there already: this is asked in it; it explains, and its tools may only look
    tokens: 14 in, 5 out, 3 from the cache
    hint: ask on with: offshoot run --session aside PROMPT
    hint: bring the answer back with: offshoot merge aside
    ");
    assert_eq!(ids(&home), ["aside", &parent]);
    assert_eq!(marks(&events(&home, "aside")), ["framing"]);
    // Elsewhere is another one.
    let before = home.bytes_of_tree();
    let output = side(
        &home,
        &server,
        &[&parent, "--at", "3", "--child", "aside", "Why blue?"],
    );
    assert_snapshot!(seen(&output), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: session `aside` exists already and is not a fresh side session of `session-[uuid]` at this place
    hint: choose another id, or leave --child out for a new one; to go on with that one: offshoot run --session aside PROMPT
    ");
    assert_eq!(home.bytes_of_tree(), before);
}

#[test]
fn one_that_was_killed_can_be_asked_again_under_its_id() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let parent = conversation(&home, &server, &[("Which colour?", "Blue.")]);
    let (held, _gate) = Reply::text("Never said.").hold_head();
    server.push(held);
    let args = ["side", &parent, "--child", "aside", "Why blue?"];
    let asking = Background::command(&home, &server, &args);
    arrived(&server, 2);
    asking.kill();
    server.push(Reply::text("Because of the sky."));
    let output = side(&home, &server, &args[1..]).success();
    assert_eq!(output.stdout_text(), "Because of the sky.\n");
    assert_eq!(ids(&home), ["aside", &parent]);
    let own = events(&home, "aside");
    assert_eq!(marks(&own), ["framing"]);
    let ends: Vec<_> = own
        .iter()
        .filter(|event| event["type"] == "turn/end")
        .map(|event| &event["data"]["reason"]["kind"])
        .collect();
    assert_eq!(ends, ["completed", "interrupted", "completed"]);
    assert_sound(&home);
}

#[test]
fn what_cannot_be_asked_on_the_side_is_refused_before_anything_is_made() {
    let home = TestHome::new();
    let work = work(&home);
    let (started, hold) = (Fifo::new(&work, "started"), Fifo::new(&work, "hold"));
    let server = ScriptedModelServer::start([]);
    let parent = conversation(&home, &server, &[("Which colour?", "Blue.")]);
    let other = conversation(&home, &server, &[("What else?", "Nothing.")]);
    let waits = r#"{"command":"echo here > started; cat hold"}"#;
    server.push(Reply::tool_calls([("call_wait", "bash", waits)]));
    let running = Background::turn(&home, &server, &["--session", &parent, "Paint it."]);
    assert_eq!(started.read(), "here\n");
    let open = (events(&home, &parent).len() - 1).to_string();
    let before = home.bytes_of_tree();
    let asked = server.requests().len();
    let place = fs::read_dir(home.path().join("sessions")).unwrap().next();
    let place = place.unwrap().unwrap().file_name().into_string().unwrap();
    let mut all = String::new();
    for args in [
        &["nobody", "Why?"][..],
        &[&parent, "--at", "9999", "Why?"],
        &[&parent, "--at", "-1", "Why?"],
        &[&parent, "--at", &open, "Why?"],
        &[&parent, "--child", &other, "Why?"],
        &[&parent, "--child", &parent, "Why?"],
        &[&parent, "--child", "", "Why?"],
        &[&parent, "--model", "nobody/x", "Why?"],
        &[&parent, "--session", "x", "Why?"],
        &[&parent, " "],
        &[&parent],
        &[],
    ] {
        let output = side(&home, &server, args);
        assert!(output.stdout.is_empty(), "{output}");
        let said = output
            .to_string()
            .replace(&*place, "[place]")
            .replace(&parent, "[parent]")
            .replace(&other, "[other]");
        let said = said.split("\n\nUsage:").next().unwrap();
        all.push_str(&format!(
            "{}\n\n",
            said.replace("----- stdout -----\n----- stderr -----\n", "")
                .trim_end()
        ));
    }
    assert_snapshot!(all, @"
    exit code: 1
    error: session `nobody` was not found in `[home]/sessions`
    hint: `offshoot ls` shows the sessions that are there

    exit code: 1
    error: `[home]/sessions/[place]/[parent]/session.v4.jsonl.zstd`: event 9999 does not exist: the last one is 21
    hint: these are its events: offshoot show [parent]

    exit code: 2
    error: invalid value '-1' for '--at <SEQ>': an event's seq is a whole number from 0 on, as `offshoot show` prints it

    For more information, try '--help'.

    exit code: 1
    error: event 21 of session `[parent]` is in turn 2, which has not ended; a side session begins where no turn is open
    hint: without --at it begins at the last completed turn
    hint: these are its events: offshoot show [parent]

    exit code: 1
    error: session `[other]` exists already and is not a fresh side session of `[parent]` at this place
    hint: choose another id, or leave --child out for a new one; to go on with that one: offshoot run --session [other] PROMPT

    exit code: 1
    error: session `[parent]` exists already and is not a fresh side session of `[parent]` at this place
    hint: choose another id, or leave --child out for a new one; to go on with that one: offshoot run --session [parent] PROMPT

    exit code: 2
    error: a value is required for '--child <NEW_ID>' but none was supplied

    For more information, try '--help'.

    exit code: 1
    error: provider `nobody` is not configured
    hint: known are: anthropic, deepseek, llama-cpp, ollama, openai, openrouter, vllm; others go into `[home]/config.toml`

    exit code: 2
    error: unexpected argument '--session' found

      tip: to pass '--session' as a value, use '-- --session'

    exit code: 2
    error: invalid value ' ' for '[PROMPT]': the prompt is empty: say what the agent is to do

    For more information, try '--help'.

    exit code: 2
    error: there is no prompt: say what the agent is to do
    hint: offshoot side [parent] PROMPT, or give it on standard input: offshoot side [parent] < FILE

    exit code: 2
    error: the following required arguments were not provided:
      <ID|FILE>
    ");
    assert_eq!(home.bytes_of_tree(), before);
    assert_eq!(server.requests().len(), asked);
    server.push(Reply::text("Painted."));
    hold.release();
    assert_eq!(running.finish().0, Some(0));
}

#[test]
fn a_bad_cut_of_a_file_makes_no_home() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let file = demo();
    let output = side(
        &home,
        &server,
        &[file.to_str().unwrap(), "--at", "9999", "Why?"],
    );
    assert_eq!(output.code(), Some(1));
    assert!(home.bytes_of_tree().is_empty());
}

#[test]
fn what_no_provider_would_accept_begins_no_side_session() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let broken = fixture("closed-step.jsonl");
    let lines = fs::read_to_string(&broken).unwrap();
    // A turn that went well, and then the one with the call without a result.
    let mut rows: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let well = [
        json!({"type": "turn/start", "seq": 0, "time": 1, "data": {"turn": 1}}),
        json!({"type": "turn/end", "seq": 1, "time": 1, "data": {"turn": 1, "reason": {"kind": "completed"}}}),
    ];
    for row in &mut rows[1..] {
        row["seq"] = json!(row["seq"].as_u64().unwrap() + 2);
        row["data"]["turn"] = json!(2);
    }
    rows.splice(1..1, well);
    let rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    let second = file(&home, "second.jsonl", rows.join("\n") + "\n");
    let mut all = String::new();
    for (source, at) in [
        (&broken, None),
        (&broken, Some("6")),
        (&second, None),
        (&second, Some("3")),
    ] {
        let mut args = vec![source.to_str().unwrap(), "Why?"];
        args.extend(at.iter().flat_map(|at| ["--at", at]));
        let output = side(&home, &server, &args).replacing(source.to_string_lossy(), "[source]");
        assert!(output.stdout.is_empty(), "{output}");
        let said = output.stderr_text();
        all.push_str(&format!("{}\n\n", said.trim_end()));
    }
    assert_snapshot!(all, @"
    error: a side session could not go on there: event 7 closed a step although the tool call `call_weigh` had no result; a provider refuses such a conversation
    hint: ask in a fork from before that: offshoot run --fork [source] --at 6 PROMPT

    error: a side session could not go on there: event 7 closed a step although the tool call `call_weigh` had no result; a provider refuses such a conversation
    hint: ask in a fork from before that: offshoot run --fork [source] --at 6 PROMPT

    error: a side session could not go on there: event 9 closed a step although the tool call `call_weigh` had no result; a provider refuses such a conversation
    hint: begin at an earlier turn, before that: --at 1

    error: a side session could not go on there: event 9 closed a step although the tool call `call_weigh` had no result; a provider refuses such a conversation
    hint: begin at an earlier turn, before that: --at 1
    ");
    assert!(home.bytes_of_tree().is_empty(), "nothing was made");
    server.push(Reply::text("It is."));
    let args = [second.to_str().unwrap(), "--at", "1", "Is it?"];
    let answered = side(&home, &server, &args).success();
    assert_eq!(answered.stdout_text(), "It is.\n");
}
