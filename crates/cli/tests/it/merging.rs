//! `offshoot merge`: a note of a side session comes back to its parent, once.

use insta::assert_snapshot;
use offshoot_test_support::{CommandOutput, Reply, ScriptedModelServer, TestHome};
use serde_json::{Value, json};

use crate::side::{assert_sound, conversation, marks, side, told};
use crate::support::{
    Background, Fifo, arrived, calling, events, file, json as output_json, offshoot, run, seen,
    turn, without_retries, work,
};

/// A conversation with a side session `aside` that has answered a question.
fn with_side(home: &TestHome, server: &ScriptedModelServer) -> String {
    let parent = conversation(home, server, &[("Which colour?", "Blue.")]);
    server.push(Reply::text("Because of the sky."));
    drop(side(home, server, &[&parent, "--child", "aside", "Why blue?"]).success());
    parent
}

fn merge(home: &TestHome, server: &ScriptedModelServer, args: &[&str]) -> CommandOutput {
    calling(home, server).arg("merge").args(args).run()
}

/// The notes that a session has in its conversation.
fn notes(home: &TestHome, id: &str) -> Vec<String> {
    let said = events(home, id);
    let notes = said
        .iter()
        .filter(|event| event["data"]["source"]["act"] == "handback");
    let texts = notes.map(|event| {
        event["data"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned()
    });
    texts.collect()
}

/// What is said of these, all with this exit code and without a trace.
fn refused(home: &TestHome, server: &ScriptedModelServer, cases: &[&[&str]]) -> String {
    let before = home.bytes_of_tree();
    let asked = server.requests().len();
    let mut all = String::new();
    for args in cases {
        let output = merge(home, server, args);
        assert!(output.stdout.is_empty(), "{output}");
        let said = seen(&output).replace("----- stdout -----\n----- stderr -----\n", "");
        all.push_str(said.split("\n\n").next().unwrap());
        all.push_str("\n\n");
    }
    assert_eq!(home.bytes_of_tree(), before);
    assert_eq!(server.requests().len(), asked);
    all
}

#[test]
fn the_latest_answer_waits_for_the_parents_next_step_and_is_said_once() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let parent = with_side(&home, &server);
    assert_snapshot!(seen(&merge(&home, &server, &["aside"])), @"
    exit code: 0
    ----- stdout -----
    queued: session-[uuid] sees it in its next step

    Because of the sky.
    ----- stderr -----
    ");
    assert_eq!(notes(&home, &parent), Vec::<String>::new());

    server.push(Reply::text("Good to know."));
    drop(
        turn(&home, &server)
            .args(["--session", &parent, "Go on."])
            .run()
            .success(),
    );
    let asked = told(server.requests().last().unwrap());
    let note = "A note from the side session `aside` of this conversation:\n\nBecause of the sky.";
    assert!(asked.contains(&note.to_owned()), "{asked:?}");
    assert_eq!(notes(&home, &parent), [note]);
    // Doing it again brings nothing, and says where it is.
    assert_snapshot!(seen(&merge(&home, &server, &["aside"])), @"
    exit code: 0
    ----- stdout -----
    logged at event 21 of session-[uuid]

    Because of the sky.
    ----- stderr -----
    ");
    assert_eq!(notes(&home, &parent), [note]);
    assert!(marks(&events(&home, &parent)).contains(&"handback"));
    // The parent has been told, and is no side session because of it.
    let output = turn(&home, &server);
    server.push(Reply::text("Yes."));
    let output = output
        .args(["--session", &parent, "Still there?"])
        .run()
        .success();
    assert!(!output.stderr_text().contains("side session"), "{output}");
    assert_sound(&home);
}

#[test]
fn a_note_can_be_given_and_the_same_one_is_queued_once() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let parent = with_side(&home, &server);
    let give = || {
        output_json(
            &merge(
                &home,
                &server,
                &["aside", "--note", " It is the sky. ", "--json"],
            )
            .success(),
        )
    };
    let first = give();
    assert_eq!(
        first,
        json!({
            "session": "aside",
            "parent": parent,
            "cut": first["cut"],
            "handback": first["handback"],
            "text": "It is the sky.",
            "state": "queued",
        })
    );
    assert_eq!(give(), first);
    // Another one, by another name; and the first under a name of one's own is the one with that name.
    for note in ["By night?", "Never mind."] {
        let told = output_json(
            &merge(
                &home,
                &server,
                &["aside", "--note", note, "--id", "night", "--json"],
            )
            .success(),
        );
        assert_eq!(
            (&told["handback"], &told["state"]),
            (&json!("night"), &json!("queued"))
        );
    }
    server.push(Reply::text("Good to know."));
    drop(
        turn(&home, &server)
            .args(["--session", &parent, "Go on."])
            .run()
            .success(),
    );
    let said: Vec<_> = notes(&home, &parent)
        .iter()
        .map(|note| note.split("\n\n").nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(said, ["It is the sky.", "By night?"]);
    let again = give();
    assert_eq!(again["state"], "logged");
    let seq = usize::try_from(again["seq"].as_u64().unwrap()).unwrap();
    assert_eq!(
        events(&home, &parent)[seq]["data"]["source"]["handbackId"],
        first["handback"]
    );
}

#[test]
fn a_note_is_as_long_as_it_may_be() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    with_side(&home, &server);
    let long = "ä".repeat(2001);
    let text = |output: &CommandOutput| output_json(output)["text"].as_str().unwrap().to_owned();
    let output = merge(&home, &server, &["aside", "--note", &long, "--json"]).success();
    assert_eq!(text(&output), format!("{}…", "ä".repeat(1999)));
    let cut_off = json!({
        "type": "note",
        "message": "note: it was cut off, because `handback_max_chars` in config.toml lets it have no more characters than 2000",
    });
    let told: Value = serde_json::from_str(&output.stderr_text()).unwrap();
    assert_eq!(told, cut_off);
    file(&home, "../home/config.toml", "handback_max_chars = 3\n");
    let output = merge(&home, &server, &["aside", "--note", "äöüß", "--json"]).success();
    assert_eq!(text(&output), "äö…");
    let output = offshoot(&home)
        .env("OFFSHOOT_HANDBACK_MAX_CHARS", "4")
        .args(["merge", "aside", "--note", "äöüß", "--json"])
        .run()
        .success();
    assert_eq!(text(&output), "äöüß");
    assert!(output.stderr.is_empty(), "{output}");
    let output = run(&home, ["config", "show", "--origin"]).success();
    let line = output.stdout_text();
    let line = line
        .lines()
        .find(|line| line.contains("handback_max_chars"))
        .unwrap();
    assert!(
        line.contains("= 3") && line.contains("config.toml"),
        "{line}"
    );
    let output = offshoot(&home)
        .env("OFFSHOOT_HANDBACK_MAX_CHARS", "0")
        .args(["merge", "aside"])
        .run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: OFFSHOOT_HANDBACK_MAX_CHARS is "0", expected a whole number from 1 on
    "#);
}

#[test]
fn the_side_session_can_be_asked_for_the_note() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let parent = with_side(&home, &server);
    server.push(Reply::text("The colour was chosen for the sky."));
    let output = merge(&home, &server, &["aside", "--ask"]);
    assert_snapshot!(seen(&output), @"
    exit code: 0
    ----- stdout -----
    queued: session-[uuid] sees it in its next step

    The colour was chosen for the sky.
    ----- stderr -----
    tokens: 14 in, 5 out, 3 from the cache
    ");
    let asked = told(server.requests().last().unwrap());
    assert!(
        asked.last().unwrap().contains("at most 2000 characters"),
        "{asked:?}"
    );
    // What was asked for and has come is not asked for again.
    let output = merge(&home, &server, &["aside"]).success();
    assert!(output.stdout_text().starts_with("queued: "), "{output}");
    server.push(Reply::text("Good to know."));
    drop(
        turn(&home, &server)
            .args(["--session", &parent, "Go on."])
            .run()
            .success(),
    );
    assert_eq!(
        notes(&home, &parent),
        [
            "A note from the side session `aside` of this conversation:\n\nThe colour was chosen for the sky."
        ]
    );
    assert_eq!(marks(&events(&home, "aside")), ["framing", "ask"]);
}

#[test]
fn if_asking_fails_nothing_is_brought_back() {
    let home = without_retries();
    let server = ScriptedModelServer::start([]);
    let parent = with_side(&home, &server);
    let before = events(&home, &parent);
    server.push(Reply::server_error());
    let output = merge(&home, &server, &["aside", "--ask"]);
    assert_eq!(output.code(), Some(3), "{output}");
    assert!(
        output.stdout.is_empty()
            && output
                .stderr_text()
                .contains("note: nothing was brought back"),
        "{output}"
    );
    server.push(Reply::server_error());
    let output = merge(&home, &server, &["aside", "--ask", "--json"]);
    let told = output_json(&output);
    assert_eq!(
        (output.code(), &told),
        (
            Some(3),
            &json!({"session": "aside", "parent": parent, "state": null, "reason": told["reason"]})
        )
    );
    assert_eq!(told["reason"]["kind"], "error");
    assert_eq!(events(&home, &parent), before);
}

#[test]
fn what_cannot_be_brought_back_is_refused() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let parent = with_side(&home, &server);
    drop(run(&home, ["fork", &parent, "--id", "fork"]).success());
    assert_snapshot!(refused(&home, &server, &[
        &["nobody"],
        &[&parent],
        &["fork"],
        &["fork", "--ask"],
        &["aside", "--note", " \n"],
        &["aside", "--note", ""],
        &["aside", "--note", "x", "--ask"],
        &["aside", "--model", "openai/scripted-1"],
        &["aside", "--id", ""],
        &[""],
        &[],
    ]), @"
    exit code: 1
    error: session `nobody` was not found in `[home]/sessions`
    hint: `offshoot ls` shows the sessions that are there


    exit code: 1
    error: session `session-[uuid]` is not a side session
    hint: `offshoot ls` marks side sessions with `(side)`


    exit code: 1
    error: session `fork` is not a side session
    hint: `offshoot ls` marks side sessions with `(side)`


    exit code: 1
    error: session `fork` is not a side session
    hint: `offshoot ls` marks side sessions with `(side)`


    exit code: 1
    error: the handback of side session `aside` would be empty
    hint: give it with --note, or have it written with --ask; without them it is the latest answer


    exit code: 1
    error: the handback of side session `aside` would be empty
    hint: give it with --note, or have it written with --ask; without them it is the latest answer


    exit code: 2
    error: the argument '--note <TEXT>' cannot be used with '--ask'

    exit code: 2
    error: --model is about the model that --ask calls
    hint: without --ask no model is called: leave it out, or ask


    exit code: 2
    error: a value is required for '--id <KEY>' but none was supplied

    exit code: 2
    error: a value is required for '<CHILD>' but none was supplied

    exit code: 2
    error: the following required arguments were not provided:
      <CHILD>
    ");
    drop(run(&home, ["promote", "aside"]).success());
    assert_snapshot!(refused(&home, &server, &[&["aside"]]), @"
    exit code: 1
    error: session `aside` is not a side session
    hint: `offshoot ls` marks side sessions with `(side)`
    ");
}

#[test]
fn without_an_answer_of_its_own_there_is_nothing_to_bring_back() {
    let home = without_retries();
    let server = ScriptedModelServer::start([]);
    let parent = conversation(&home, &server, &[("Which colour?", "Blue.")]);
    server.push(Reply::server_error());
    let output = side(&home, &server, &[&parent, "--child", "aside", "Why blue?"]);
    assert_eq!(output.code(), Some(3), "{output}");
    // What its parent has said is no news to the parent.
    assert_snapshot!(refused(&home, &server, &[&["aside"]]), @"
    exit code: 1
    error: the handback of side session `aside` would be empty
    hint: give it with --note, or have it written with --ask; without them it is the latest answer
    ");
}

#[test]
fn a_parent_that_is_gone_is_named_with_the_way_to_get_it_back() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let parent = with_side(&home, &server);
    drop(run(&home, ["rm", &parent]).success());
    assert_snapshot!(refused(&home, &server, &[&["aside"], &["aside", "--ask"]]), @"
    exit code: 1
    error: there is nobody to bring the note to: session `session-[uuid]` was not found in `[home]/sessions`
    hint: it is in the trash since [moment]; bring it back with: offshoot restore session-[uuid]


    exit code: 1
    error: there is nobody to bring the note to: session `session-[uuid]` was not found in `[home]/sessions`
    hint: it is in the trash since [moment]; bring it back with: offshoot restore session-[uuid]
    ");
    drop(run(&home, ["restore", &parent]).success());
    drop(merge(&home, &server, &["aside"]).success());
}

#[test]
fn while_the_parent_runs_in_another_process_nothing_is_brought_back() {
    let home = TestHome::new();
    let work = work(&home);
    let (started, hold) = (Fifo::new(&work, "started"), Fifo::new(&work, "hold"));
    let server = ScriptedModelServer::start([]);
    let parent = with_side(&home, &server);
    let waits = r#"{"command":"echo here > started; cat hold"}"#;
    server.push(Reply::tool_calls([("call_wait", "bash", waits)]));
    let running = Background::turn(&home, &server, &["--session", &parent, "Paint it."]);
    assert_eq!(started.read(), "here\n");
    let process = format!("process {}", running.id());
    let told = refused(&home, &server, &[&["aside"], &["aside", "--ask"]]);
    let place = work.to_str().unwrap().replace('/', "-");
    let told = told
        .replace(&process, "process [pid]")
        .replace(&*format!("-{place}--"), "[place]");
    assert_snapshot!(told, @"
    exit code: 1
    error: the note was not handed back: session `session-[uuid]` is open for writing in process [pid] (`[home]/sessions/[place]/session-[uuid]/session.lock` is locked)
    hint: merge from the program that has it open, or close it there and merge again


    exit code: 1
    error: session `session-[uuid]`, which the note is for, is open in another process
    hint: close it there and do this again; a chat that has it open does the same with /side and /merge
    ");
    server.push(Reply::text("Painted."));
    hold.release();
    assert_eq!(running.finish().0, Some(0));
    drop(merge(&home, &server, &["aside"]).success());
    server.push(Reply::text("Good to know."));
    drop(
        turn(&home, &server)
            .args(["--session", &parent, "Go on."])
            .run()
            .success(),
    );
    assert_eq!(notes(&home, &parent).len(), 1);
    assert_sound(&home);
}

#[test]
fn a_parent_that_a_crash_has_left_open_is_closed_truthfully_and_gets_the_note() {
    let home = TestHome::new();
    let work = work(&home);
    let (started, hold) = (Fifo::new(&work, "started"), Fifo::new(&work, "hold"));
    let server = ScriptedModelServer::start([]);
    let parent = with_side(&home, &server);
    let waits = r#"{"command":"echo here > started; cat hold"}"#;
    server.push(Reply::tool_calls([("call_wait", "bash", waits)]));
    let running = Background::turn(&home, &server, &["--session", &parent, "Paint it."]);
    assert_eq!(started.read(), "here\n");
    running.kill();
    hold.release();
    drop(merge(&home, &server, &["aside"]).success());
    drop(merge(&home, &server, &["aside"]).success());
    server.push(Reply::text("Good to know."));
    drop(
        turn(&home, &server)
            .args(["--session", &parent, "Go on."])
            .run()
            .success(),
    );
    assert_eq!(notes(&home, &parent).len(), 1);
    assert_sound(&home);
}

#[test]
fn one_that_was_killed_while_the_note_was_written_can_be_made_again() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let parent = with_side(&home, &server);
    let (held, _gate) = Reply::text("Never said.").hold_head();
    server.push(held);
    let asking = Background::command(&home, &server, &["merge", "aside", "--ask"]);
    arrived(&server, 3);
    asking.kill();
    let before = events(&home, &parent);
    server.push(Reply::text("The sky."));
    let told = output_json(&merge(&home, &server, &["aside", "--ask", "--json"]).success());
    assert_eq!(
        (&told["text"], &told["state"]),
        (&json!("The sky."), &json!("queued"))
    );
    assert_eq!(events(&home, &parent)[..before.len()], before);
    server.push(Reply::text("Good to know."));
    drop(
        turn(&home, &server)
            .args(["--session", &parent, "Go on."])
            .run()
            .success(),
    );
    assert_eq!(notes(&home, &parent).len(), 1);
    assert_sound(&home);
}

#[test]
fn nested_side_sessions_bring_their_notes_up_one_by_one() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let parent = with_side(&home, &server);
    server.push(Reply::text("It scatters."));
    drop(
        side(
            &home,
            &server,
            &["aside", "--child", "deeper", "Why the sky?"],
        )
        .success(),
    );
    let told = output_json(&merge(&home, &server, &["deeper", "--json"]).success());
    assert_eq!(
        (&told["parent"], &told["text"]),
        (&json!("aside"), &json!("It scatters."))
    );
    server.push(Reply::text("Light scatters."));
    drop(
        turn(&home, &server)
            .args(["--session", "aside", "In short?"])
            .run()
            .success(),
    );
    let told: Value = output_json(&merge(&home, &server, &["aside", "--json"]).success());
    assert_eq!(
        (&told["parent"], &told["text"]),
        (&json!(parent), &json!("Light scatters."))
    );
    assert_eq!(marks(&events(&home, "aside")), ["framing", "handback"]);
    // A note that has come in does not end what its session is.
    let listed = output_json(&run(&home, ["ls", "--json"]).success());
    let aside = listed
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["id"] == "aside")
        .unwrap();
    assert_eq!(aside["side"], true);
}
