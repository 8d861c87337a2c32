//! Side sessions in `offshoot chat`.

use insta::assert_snapshot;
use offshoot_test_support::{CommandOutput, Reply, ScriptedModelServer, TestHome};
use serde_json::json;

use crate::side::{assert_sound, conversation, marks, side, told};
use crate::support::{
    Background, Fifo, arrived, calling, events, json as output_json, run, seen, turn, work,
};
use crate::terminal::Terminal;

fn chat(
    home: &TestHome,
    server: &ScriptedModelServer,
    args: &[&str],
    lines: &str,
) -> CommandOutput {
    calling(home, server)
        .arg("chat")
        .args(args)
        .stdin(lines)
        .run()
}

/// The session of each kind: the one that is no side session, and the one that is.
fn parent_and_side(home: &TestHome) -> (String, String) {
    let listed = output_json(&run(home, ["ls", "--json"]).success());
    let rows = listed.as_array().unwrap();
    assert_eq!(rows.len(), 2, "{listed}");
    let of = |is_side: bool| {
        let row = rows
            .iter()
            .find(|row| row["side"].as_bool().unwrap_or_default() == is_side);
        row.unwrap()["id"].as_str().unwrap().to_owned()
    };
    (of(false), of(true))
}

#[test]
fn one_asks_on_the_side_brings_a_note_back_and_goes_on() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([
        Reply::text("Blue."),
        Reply::text("Because of the sky."),
        Reply::text("By day."),
        Reply::text("Good to know."),
    ]);
    let lines = "Which colour?\n/side Why blue?\nAnd when?\n/tree\n/merge\n/back\nGo on.\n/tree\n";
    let output = chat(&home, &server, &[], lines);
    assert_snapshot!(seen(&output), @"
    exit code: 0
    ----- stdout -----
    Blue.
    Because of the sky.
    By day.
    Good to know.
    ----- stderr -----
    session session-[uuid], with openai/scripted-1; /help lists what there is besides talking
    tokens: 14 in, 5 out, 3 from the cache
    now in session session-[uuid]
    a side session of session-[uuid], cut at event 12; it explains, and its tools may only look
    /merge brings its latest answer back, or a note; /back returns
    tokens: 14 in, 5 out, 3 from the cache
    tokens: 14 in, 5 out, 3 from the cache
    session-[uuid]  (13 events)  Which colour?
    └─ session-[uuid] @12  (side, 33 events)  Which colour?
    queued: session-[uuid] sees it in its next step
    now in session session-[uuid]
    tokens: 14 in, 5 out, 3 from the cache
    session-[uuid]  (24 events)  Which colour?
    └─ session-[uuid] @12  (side, 33 events)  Which colour?
    ");
    let (parent, aside) = parent_and_side(&home);
    assert_eq!(marks(&events(&home, &aside)), ["framing"]);
    assert_eq!(marks(&events(&home, &parent)), ["handback"]);
    let asked = told(&server.requests()[3]);
    assert!(
        asked.iter().any(|one| one.ends_with("\n\nBy day.")),
        "{asked:?}"
    );
    assert!(
        !asked
            .iter()
            .any(|one| one == "Why blue?" || one == "And when?"),
        "{asked:?}"
    );
    assert_sound(&home);
}

#[test]
fn a_note_can_be_said_and_mistakes_cost_nothing() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("Blue."), Reply::text("Good to know.")]);
    let lines = "/merge It is.\n/back\nWhich colour?\n/side\n/merge\n/merge It is the sky.\n/merge It is the sky.\n/back now\n/back\n/back\nGo on.\n";
    let output = chat(&home, &server, &[], lines);
    assert_snapshot!(seen(&output), @"
    exit code: 0
    ----- stdout -----
    Blue.
    Good to know.
    ----- stderr -----
    session session-[uuid], with openai/scripted-1; /help lists what there is besides talking
    error: session `session-[uuid]` is not a side session
    hint: /side goes into one; /tree shows those that are there
    error: this is no side session
    hint: /switch ID goes on in another session; /tree shows some
    tokens: 14 in, 5 out, 3 from the cache
    now in session session-[uuid]
    a side session of session-[uuid], cut at event 12; it explains, and its tools may only look
    /merge brings its latest answer back, or a note; /back returns
    error: the handback of side session `session-[uuid]` would be empty
    hint: say what to bring back, or ask the side session something first
    queued: session-[uuid] sees it in its next step
    queued: session-[uuid] sees it in its next step
    error: /back takes nothing else
    now in session session-[uuid]
    error: this is no side session
    hint: /switch ID goes on in another session; /tree shows some
    tokens: 14 in, 5 out, 3 from the cache
    ");
    let asked = told(&server.requests()[1]);
    let notes = asked
        .iter()
        .filter(|one| one.ends_with("\n\nIt is the sky."));
    assert_eq!(notes.count(), 1, "{asked:?}");
}

#[test]
fn before_anything_was_said_it_starts_from_nothing() {
    let home = TestHome::new();
    let server =
        ScriptedModelServer::start([Reply::text("I cannot know."), Reply::text("Good to know.")]);
    let output = chat(
        &home,
        &server,
        &[],
        "/side What is it about?\n/merge\n/back\nHello.\n",
    );
    assert_snapshot!(seen(&output), @"
    exit code: 0
    ----- stdout -----
    I cannot know.
    Good to know.
    ----- stderr -----
    session session-[uuid], with openai/scripted-1; /help lists what there is besides talking
    now in session session-[uuid]
    a side session of session-[uuid], in which no turn has been completed: it starts from nothing; it explains, and its tools may only look
    /merge brings its latest answer back, or a note; /back returns
    tokens: 14 in, 5 out, 3 from the cache
    queued: session-[uuid] sees it in its next step
    now in session session-[uuid]
    tokens: 14 in, 5 out, 3 from the cache
    ");
    let (parent, aside) = parent_and_side(&home);
    assert_eq!(marks(&events(&home, &aside)), ["framing"]);
    assert_eq!(marks(&events(&home, &parent)), ["handback"]);
    assert_sound(&home);
}

#[test]
fn side_sessions_may_have_side_sessions_and_one_returns_step_by_step_or_at_once() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("Yes.")]);
    server.repeat_last();
    let output = chat(
        &home,
        &server,
        &[],
        "One?\n/side Two?\n/side Three?\n/merge\n/back\nFour?\n/merge\n/back\nFive?\n/tree\n",
    );
    let said = output.success().stderr_text();
    assert_eq!(said.matches("queued: ").count(), 2, "{said}");
    let requests = server.requests();
    let last = told(&requests[4]);
    assert!(
        last.contains(&"Five?".to_owned()) && !last.contains(&"Two?".to_owned()),
        "{last:?}"
    );
    assert!(
        told(&requests[3])
            .iter()
            .any(|one| one.starts_with("A note from the side session"))
    );

    // By name one leaves all of them at once.
    let listed = output_json(&run(&home, ["ls", "--json"]).success());
    let first = listed
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["parent"].is_null())
        .unwrap();
    let first = first["id"].as_str().unwrap();
    let lines = format!("/side\n/side\n/switch {first}\nSix?\n/back\n");
    let output = chat(&home, &server, &["--session", first], &lines).success();
    assert!(told(server.requests().last().unwrap()).contains(&"Five?".to_owned()));
    assert!(
        output
            .stderr_text()
            .contains("error: this is no side session"),
        "{output}"
    );
    assert_sound(&home);
}

#[test]
fn in_a_stored_side_session_the_parent_is_opened_when_it_is_needed() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let parent = conversation(&home, &server, &[("Which colour?", "Blue.")]);
    server.push(Reply::text("Because of the sky."));
    drop(side(&home, &server, &[&parent, "--child", "aside", "Why blue?"]).success());
    server.push(Reply::text("Good to know."));
    let output = chat(
        &home,
        &server,
        &["--session", "aside"],
        "/merge\n/back\nGo on.\n",
    );
    assert_snapshot!(seen(&output), @"
    exit code: 0
    ----- stdout -----
    Good to know.
    ----- stderr -----
    session aside, with openai/scripted-1; /help lists what there is besides talking
    note: this is a side session: it explains, and its tools may only look; this ends that: offshoot promote aside
    queued: session-[uuid] sees it in its next step
    now in session session-[uuid]
    tokens: 14 in, 5 out, 3 from the cache
    ");
    assert!(
        told(server.requests().last().unwrap())
            .iter()
            .any(|one| one.ends_with("\n\nBecause of the sky."))
    );
}

#[test]
fn who_undoes_a_turn_on_the_side_still_finds_back() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("Yes.")]);
    server.repeat_last();
    // The fork belongs to the side session, and that to the conversation.
    let output = chat(
        &home,
        &server,
        &[],
        "One?\n/side Two?\n/undo-turn\nThree?\n/merge\n/back\n/merge It is.\n/back\nFour?\n",
    );
    let said = output.success().stderr_text();
    assert!(!said.contains("error:"), "{said}");
    let asked = told(&server.requests()[3]);
    assert!(
        asked.iter().any(|one| one.ends_with("\n\nIt is."))
            && !asked.contains(&"Three?".to_owned()),
        "{asked:?}"
    );
    assert_sound(&home);
}

#[test]
fn the_parent_stays_open_meanwhile() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("Yes.")]);
    server.repeat_last();
    let (mut chat, stdin) = Background::chat(&home, &server, "One?\n/side Two?\n");
    chat.until_said("/merge brings");
    // The answer to the first line is told of before, that to the second afterwards.
    chat.until_said_times("tokens:", 2);
    let (parent, aside) = parent_and_side(&home);
    for id in [&parent, &aside] {
        let output = turn(&home, &server)
            .args(["--session", id, "Elsewhere?"])
            .run();
        assert!(
            output.stderr_text().contains("is open for writing"),
            "{output}"
        );
    }
    let output = run(&home, ["merge", &aside, "--json"]);
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(error["code"], json!("SESSION_ALREADY_OWNED"));
    drop(stdin);
    let (code, _, said) = chat.end();
    assert_eq!(code, Some(0), "{said}");
    drop(run(&home, ["merge", &aside]).success());
}

#[test]
fn at_a_terminal_the_prompt_says_so() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("Blue."), Reply::text("The sky.")]);
    let mut terminal = Terminal::start(&home, &server, "chat");
    terminal.until("> ");
    terminal.press("Which colour?\r");
    terminal.until("Blue.");
    terminal.until("> ");
    terminal.press("/side Why?\r");
    terminal.until("The sky.");
    terminal.until("side> ");
    terminal.press("/merge\r");
    terminal.until("queued: ");
    terminal.until("side> ");
    terminal.press("/back\r");
    terminal.until("now in session");
    terminal.until("> ");
    terminal.press("/quit\r");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    let behind = shown.rsplit("now in session").next().unwrap();
    assert!(!behind.contains("side> "), "{shown}");
}

#[test]
fn what_goes_on_below_the_parent_is_waited_for_also_where_one_ends_on_the_side() {
    let home = TestHome::new();
    let hold = Fifo::new(&work(&home), "hold");
    let task = json!({"prompt": "Count.", "label": "counts", "run_in_background": true});
    let (counted, count) = Reply::text("Three.").hold_head();
    let server = ScriptedModelServer::start([
        Reply::tool_calls([
            ("call_1", "delegate", task.to_string().as_str()),
            ("call_2", "bash", r#"{"command":"cat hold"}"#),
        ]),
        counted,
        Reply::text("Meanwhile."),
        Reply::text("Because of the sky."),
        Reply::text("Three, I am told."),
    ]);
    let (mut chat, stdin) = Background::chat(&home, &server, "Delegate.\n/side Why?\n");
    // The subagent has asked before its parent asks again.
    arrived(&server, 2);
    hold.release();
    arrived(&server, 4);
    drop(stdin);
    chat.until_said_times("now in session", 2);
    count.release();
    let (code, out, said) = chat.end();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(
        out, "Meanwhile.\nBecause of the sky.\nThree, I am told.\n",
        "{said}"
    );
    assert_sound(&home);
}
