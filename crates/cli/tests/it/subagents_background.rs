//! Subagents that nobody waits for: what a run and a chat do about them, and what is left behind.

use std::io::Write as _;

use insta::assert_snapshot;
use offshoot_test_support::{Reply, ScriptedModelServer, TestHome};
use serde_json::{Value, json};

use crate::subagents::{assert_ended, assert_sound, children, delegate, of_type, parent};
use crate::support::{Background, Fifo, arrived, events, json_lines, scrub, turn, work};
use crate::terminal::Terminal;

/// A call of `delegate` that does not wait.
fn in_background(id: &str, prompt: &str, label: &str) -> Reply {
    let arguments = json!({"prompt": prompt, "label": label, "run_in_background": true});
    delegate(id, &arguments)
}

#[test]
fn a_run_waits_for_what_goes_on_in_the_background_and_for_the_turn_that_it_brings_about() {
    let home = TestHome::new();
    let (counted, gate) = Reply::text("I have counted three.").hold_head();
    let server = ScriptedModelServer::start([
        in_background("call_1", "Count.", "counts"),
        Reply::text("It is being counted.").asked("How many?"),
        counted.asked("Count."),
        Reply::text("Three it is.").asked("How many?"),
    ]);
    let mut running = Background::command(&home, &server, &["run", "How many?"]);
    running.until_said("has started");
    // The child has asked, and its parent has nothing more to do but to wait.
    arrived(&server, 3);
    turn_has_ended(&home);
    gate.release();
    let (code, out, said) = running.end();
    assert_eq!((code, &*out), (Some(0), "Three it is.\n"), "{said}");
    assert_snapshot!(scrub(&said), @r#"
    session session-[uuid]
    · delegate({"prompt":"Count.","label":"counts","run_in_background":true})
    · subagent session-[uuid] (counts) has started
    · Subagent session-[uuid] (counts) has finished.
    tokens: 42 in, 15 out, 9 from the cache
    subagents (1): tokens: 14 in, 5 out, 3 from the cache
    "#);
    let rows = events(&home, &parent(&home));
    assert_eq!(of_type(&rows, "turn/end").len(), 2);
    assert_sound(&home);
}

/// Waits until a turn of the parent has ended, as another process sees it.
fn turn_has_ended(home: &TestHome) {
    while of_type(&events(home, &parent(home)), "turn/end").is_empty() {
        std::thread::yield_now();
    }
}

/// A subagent in the background whose command says that it runs, and where its process is, and waits for ever.
fn waiting_in_background() -> ScriptedModelServer {
    let waits = r#"{"command":"echo $$ > pid; echo here > started; sleep 1000"}"#;
    ScriptedModelServer::start([
        in_background("call_1", "Wait.", "waits"),
        Reply::tool_calls([("call_c", "bash", waits)]).asked("Wait."),
        Reply::text("Somebody waits.").asked("Delegate."),
    ])
}

#[test]
fn ctrl_c_and_a_limit_end_what_goes_on_in_the_background() {
    for limit in [None, Some("4s")] {
        let home = TestHome::new();
        let work = work(&home);
        let started = Fifo::new(&work, "started");
        let server = waiting_in_background();
        let mut args = vec!["Delegate."];
        args.extend(limit.iter().flat_map(|limit| ["--timeout", limit]));
        let running = Background::turn(&home, &server, &args);
        assert_eq!(started.read(), "here\n");
        arrived(&server, 3);
        if limit.is_none() {
            running.signal("-INT");
        }
        let (code, _, said) = running.finish();
        assert_eq!(code, Some(if limit.is_some() { 4 } else { 130 }), "{said}");
        assert_ended(&work.join("pid"));
        assert_eq!(server.requests().len(), 3, "nothing begins any more");
        let child = events(&home, &children(&home)[0]);
        let end = of_type(&child, "turn/end");
        assert_eq!(end[0]["data"]["reason"]["kind"], "aborted");
        // What became of it waits for whoever goes on.
        server.push(Reply::text("It was cancelled."));
        let args = ["--session", &parent(&home), "And?"];
        drop(turn(&home, &server).args(args).run().success());
        let last = server.requests().pop().unwrap().messages();
        let told = |one: &Value| {
            one.to_string()
                .contains("was cancelled before it had finished")
        };
        assert!(last.iter().any(told), "{last:?}");
        assert_sound(&home);
    }
}

#[test]
fn after_a_kill_a_subagent_of_the_background_is_found_and_sent_more() {
    let home = TestHome::new();
    let work = work(&home);
    let (started, hold) = (Fifo::new(&work, "started"), Fifo::new(&work, "hold"));
    let waits = r#"{"command":"echo here > started; cat hold"}"#;
    let call = json!({"prompt": "Wait.", "label": "waits", "mode": "continuable"});
    let server = ScriptedModelServer::start([
        delegate("call_1", &call),
        Reply::tool_calls([("call_c", "bash", waits)]).asked("Wait."),
        Reply::text("Somebody waits.").asked("Delegate."),
    ]);
    let running = Background::turn(&home, &server, &["Delegate."]);
    assert_eq!(started.read(), "here\n");
    arrived(&server, 3);
    running.kill();
    hold.release();
    let (id, child) = (parent(&home), children(&home).remove(0));

    let more = json!({"subagent_id": child, "message": "Stop waiting."});
    for reply in [
        Reply::tool_calls([("call_2", "list_agents", "{}")]).asked("Where were we?"),
        Reply::tool_calls([("call_3", "send_message", more.to_string().as_str())])
            .asked("Where were we?"),
        Reply::text("I have told it.").asked("Where were we?"),
        Reply::text("Stopped.").asked("Wait."),
        Reply::text("It has stopped.").asked("Where were we?"),
    ] {
        server.push(reply);
    }
    let output = turn(&home, &server)
        .args(["--output", "json", "--session", &id, "Where were we?"])
        .run()
        .success();
    let (rows, result) = json_lines(&output);
    assert_eq!(result["text"], "It has stopped.");
    assert_eq!(result["subagents"][0]["session"], json!(child));
    let listed = of_type(&rows, "tool/result")[0];
    let listed = listed["data"]["message"]["content"][0]["text"].as_str();
    assert!(listed.unwrap().contains("interrupted"), "{listed:?}");
    let types_of_child = events(&home, &child);
    assert_eq!(of_type(&types_of_child, "turn/end").len(), 2);
    assert_sound(&home);
}

#[test]
fn a_chat_shows_between_its_lines_what_a_subagent_brings_about() {
    let home = TestHome::new();
    let (counted, gate) = Reply::text("I have counted three.").hold_head();
    let server = ScriptedModelServer::start([
        in_background("call_1", "Count.", "counts"),
        Reply::text("It is being counted.").asked("How many?"),
        counted.asked("Count."),
        Reply::text("Three it is.").asked("How many?"),
        Reply::text("Yes, three.").asked("Sure?"),
    ]);
    let (mut chat, stdin) = Background::chat(&home, &server, "How many?\n");
    chat.until_said("tokens:");
    arrived(&server, 3);
    gate.release();
    // Nobody has said anything.
    chat.until_said("has finished");
    chat.until_said("subagents (1): tokens:");
    say(&stdin, "Sure?\n");
    drop(stdin);
    let (code, out, said) = chat.end();
    let expected = "It is being counted.\nThree it is.\nYes, three.\n";
    assert_eq!((code, &*out), (Some(0), expected), "{said}");
    assert_snapshot!(scrub(&said), @r#"
    session session-[uuid], with openai/scripted-1; /help lists what there is besides talking
    · delegate({"prompt":"Count.","label":"counts","run_in_background":true})
    · subagent session-[uuid] (counts) has started
    tokens: 28 in, 10 out, 6 from the cache
    · Subagent session-[uuid] (counts) has finished.
    tokens: 14 in, 5 out, 3 from the cache
    subagents (1): tokens: 14 in, 5 out, 3 from the cache
    tokens: 14 in, 5 out, 3 from the cache
    "#);
    assert_sound(&home);
}

fn say(mut to: &std::process::ChildStdin, line: &str) {
    to.write_all(line.as_bytes()).unwrap();
}

#[test]
fn a_chat_at_a_terminal_shows_it_above_the_line_that_is_typed_and_stops_the_rest_at_its_end() {
    let home = TestHome::new();
    let (counted, gate) = Reply::text("I have counted three.").hold_head();
    let server = ScriptedModelServer::start([
        in_background("call_1", "Count.", "counts"),
        Reply::text("It is being counted.").asked("How many?"),
        counted.asked("Count."),
        Reply::text("Three it is.").asked("How many?"),
        in_background("call_2", "Wait.", "waits").asked("Again."),
        Reply::text("Somebody waits.").asked("Again."),
        Reply::text("Never.").stalled_after(1).asked("Wait."),
    ]);
    let mut chat = Terminal::start(&home, &server, "chat");
    chat.until("> ");
    chat.press("How many?\r");
    chat.until("It is being counted.");
    chat.until("tokens:");
    chat.until("> ");
    chat.press("Aga");
    chat.until("Aga");
    gate.release();
    chat.until("has finished");
    chat.until("Three it is.");
    chat.until("Aga");
    chat.press("in.\r");
    chat.until("Somebody waits.");
    chat.until("> ");
    chat.press("/quit\r");
    let (code, shown) = chat.end();
    assert!(
        shown.contains("a subagent was at work and is stopped"),
        "{shown}"
    );
    assert_eq!(code, Some(0), "{shown}");
    assert_sound(&home);
}
