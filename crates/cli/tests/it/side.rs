//! `offshoot side`: a question beside a conversation, which goes on undisturbed.

use std::fs;

use insta::assert_snapshot;
use offshoot_test_support::{CapturedRequest, CommandOutput, Reply, ScriptedModelServer, TestHome};
use serde_json::{Value, json};

use crate::support::{
    Background, Fifo, arrived, calling, demo, events, json as output_json, json_lines, run, seen,
    session_of, turn, types, work,
};

/// `offshoot side` with these arguments.
pub(crate) fn side(home: &TestHome, server: &ScriptedModelServer, args: &[&str]) -> CommandOutput {
    calling(home, server).arg("side").args(args).run()
}

/// A session in which this was asked and answered.
pub(crate) fn conversation(
    home: &TestHome,
    server: &ScriptedModelServer,
    turns: &[(&str, &str)],
) -> String {
    let mut id = None::<String>;
    for (asked, answered) in turns {
        server.push(Reply::text(*answered));
        let mut command = turn(home, server).arg("--json");
        if let Some(id) = &id {
            command = command.args(["--session", id]);
        }
        id = Some(session_of(&command.arg(asked).run().success()));
    }
    id.unwrap()
}

/// What a session's own model was told by a user, in a request.
pub(crate) fn told(request: &CapturedRequest) -> Vec<String> {
    let messages = request.messages();
    let users = messages.iter().filter(|one| one["role"] == "user");
    let texts = users.filter_map(|one| one["content"].as_str());
    texts.map(str::to_owned).collect()
}

/// All messages of a session that make it a side session, or an ordinary one again, by their acts.
pub(crate) fn marks(events: &[Value]) -> Vec<&str> {
    let said = events
        .iter()
        .filter(|event| event["type"] == "user/message");
    let sources = said.map(|event| &event["data"]["source"]);
    let of_sides = sources.filter(|source| source["kind"] == "sidechat");
    of_sides
        .filter_map(|source| source["act"].as_str())
        .collect()
}

/// Every session file of the home is sound.
pub(crate) fn assert_sound(home: &TestHome) {
    let checked = output_json(&run(home, ["check", "--deep", "--json"]).success());
    for one in checked.as_array().unwrap() {
        assert_eq!(one["status"], "ok", "{one}");
    }
}

pub(crate) fn ids(home: &TestHome) -> Vec<String> {
    let listed = output_json(&run(home, ["ls", "--json"]).success());
    let rows = listed.as_array().unwrap().iter();
    let mut ids: Vec<_> = rows
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids
}

#[test]
fn a_program_is_not_told_what_a_person_may_do_next() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let parent = conversation(&home, &server, &[("Which colour?", "Blue.")]);
    server.push(Reply::text("Because of the sky."));
    let asked = [&parent, "--child", "aside", "--json", "Why blue?"];
    let output = side(&home, &server, &asked).success();
    let notes = output.stderr_text();
    let [session, note] = &notes.lines().collect::<Vec<_>>()[..] else {
        panic!("more or fewer notes: {output}");
    };
    assert_eq!(*session, r#"{"type":"note","message":"session aside"}"#);
    assert!(note.contains("a side session of"), "{output}");
}

#[test]
fn a_question_is_answered_in_a_fork_and_the_session_stays_as_it_is() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let parent = conversation(&home, &server, &[("Which colour?", "Blue.")]);
    let before = events(&home, &parent);
    server.push(Reply::text("Because of the sky."));
    let output = side(&home, &server, &[&parent, "--child", "aside", "Why blue?"]);
    assert_snapshot!(seen(&output), @"
    exit code: 0
    ----- stdout -----
    Because of the sky.
    ----- stderr -----
    session aside
    note: a side session of session-[uuid], cut at event 12; it explains, and its tools may only look
    tokens: 14 in, 5 out, 3 from the cache
    hint: ask on with: offshoot run --session aside PROMPT
    hint: bring the answer back with: offshoot merge aside
    ");
    assert_eq!(events(&home, &parent), before);
    // The provider sees the same beginning as in the parent's own request, to the byte.
    let [asked, aside] = &server.requests()[..] else {
        panic!("two requests")
    };
    let messages = asked.messages();
    assert_eq!(aside.messages()[..messages.len()], messages);
    assert_eq!(aside.json()["tools"], asked.json()["tools"]);
    let own = events(&home, "aside").split_off(before.len());
    assert_eq!(types(&own)[..2], ["session/end-seed", "user/message"]);
    assert_eq!(marks(&own), ["framing"]);
    assert_sound(&home);
}

#[test]
fn for_programs_it_ends_with_the_same_line_as_a_run() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let parent = conversation(&home, &server, &[("Which colour?", "Blue.")]);
    server.push(Reply::text("Because of the sky."));
    let args = [
        &*parent,
        "--child",
        "aside",
        "--output",
        "json",
        "Why blue?",
    ];
    let output = side(&home, &server, &args).success();
    let (lines, result) = json_lines(&output);
    assert_eq!(
        result,
        json!({
            "type": "result",
            "session": "aside",
            "turn": 2,
            "reason": {"kind": "completed"},
            "text": "Because of the sky.",
            "usage": result["usage"],
        })
    );
    assert!(lines.iter().all(|line| line["seq"].is_u64()));
    let notes = output.stderr_text();
    for note in notes.lines() {
        let note: Value = serde_json::from_str(note).unwrap();
        assert_eq!(note["type"], "note");
    }
    assert!(notes.contains("session aside"), "{notes}");
}

#[test]
fn it_works_while_the_session_is_in_the_middle_of_a_tool_in_another_process() {
    let home = TestHome::new();
    let work = work(&home);
    let (started, hold) = (Fifo::new(&work, "started"), Fifo::new(&work, "hold"));
    let server = ScriptedModelServer::start([]);
    let parent = conversation(&home, &server, &[("Which colour?", "Blue.")]);
    let waits = r#"{"command":"echo here > started; cat hold"}"#;
    server.push(Reply::tool_calls([("call_wait", "bash", waits)]));
    let running = Background::turn(&home, &server, &["--session", &parent, "Paint it."]);
    assert_eq!(started.read(), "here\n");
    let before = events(&home, &parent);

    server.push(Reply::text("Because of the sky."));
    let output = side(&home, &server, &[&parent, "--child", "aside", "Why blue?"]);
    assert_snapshot!(seen(&output), @"
    exit code: 0
    ----- stdout -----
    Because of the sky.
    ----- stderr -----
    session aside
    note: a side session of session-[uuid], cut at event 13; it explains, and its tools may only look
    note: the original also ran commands behind the cut; what they changed is not known
    tokens: 14 in, 5 out, 3 from the cache
    hint: ask on with: offshoot run --session aside PROMPT
    hint: bring the answer back with: offshoot merge aside
    ");
    assert_eq!(events(&home, &parent), before);
    // What runs is none of its business.
    let asked = server.requests()[2].json()["messages"].to_string();
    assert!(
        asked.contains("Which colour?") && asked.contains("Why blue?"),
        "{asked}"
    );
    assert!(!asked.contains("Paint it."), "{asked}");

    // And what is said on the side is none of the parent's.
    server.push(Reply::text("Painted."));
    hold.release();
    let (code, result, said) = running.finish();
    assert_eq!(
        (code, &result["text"]),
        (Some(0), &json!("Painted.")),
        "{said}"
    );
    let told = server.requests()[3].json()["messages"].to_string();
    assert!(
        !told.contains("Why blue?") && !told.contains("sky"),
        "{told}"
    );
    assert_sound(&home);
}

#[test]
fn its_tools_may_only_look_whatever_is_allowed() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let parent = conversation(&home, &server, &[("Which colour?", "Blue.")]);
    crate::support::file(&home, "work/notes.txt", "blue paint: two tins\n");
    server.push(Reply::tool_calls([
        ("call_bash", "bash", r#"{"command":"echo ran > ran.txt"}"#),
        (
            "call_write",
            "write",
            r#"{"file_path":"written.txt","content":"written"}"#,
        ),
        ("call_delegate", "delegate", r#"{"prompt":"Paint it."}"#),
        ("call_read", "read", r#"{"file_path":"notes.txt"}"#),
        ("call_grep", "grep", r#"{"pattern":"tins"}"#),
    ]));
    server.push(Reply::text("Two tins are there."));
    let everything = [
        "--permission-mode",
        "allow",
        "--sandbox",
        "danger-full-access",
    ];
    let args = [
        &[&*parent, "--child", "aside"],
        &everything[..],
        &["Have we paint?"],
    ]
    .concat();
    let output = side(&home, &server, &args);
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    Two tins are there.
    ----- stderr -----
    session aside
    note: a side session of session-[uuid], cut at event 12; it explains, and its tools may only look
    · bash({"command":"echo ran > ran.txt"})
    · bash: Error: tool "bash" can change things, and a side session may only look: say what sh…
    · write({"file_path":"written.txt","content":"written"})
    · write: Error: tool "write" can change things, and a side session may only look: say what …
    · delegate({"prompt":"Paint it."})
    · delegate: Error: tool "delegate" hands work to another agent, and a side session may only…
    · read({"file_path":"notes.txt"})
    · grep({"pattern":"tins"})
    tokens: 28 in, 10 out, 6 from the cache
    hint: ask on with: offshoot run --session aside PROMPT
    hint: bring the answer back with: offshoot merge aside
    "#);
    assert!(!work(&home).join("ran.txt").exists());
    assert!(!work(&home).join("written.txt").exists());
    assert_eq!(ids(&home), ["aside", &parent]);
    let results = server.requests()[2].messages();
    let result = |call: &str| {
        let found = results
            .iter()
            .find(|one| one["tool_call_id"] == call)
            .unwrap();
        found["content"].as_str().unwrap().to_owned()
    };
    for refused in ["call_bash", "call_write", "call_delegate"] {
        assert!(
            result(refused).contains("a side session may only look"),
            "{refused}"
        );
    }
    assert!(result("call_read").contains("two tins"));
    assert!(result("call_grep").contains("two tins"));
}

#[test]
fn without_a_completed_turn_it_starts_from_nothing_and_says_so() {
    let home = TestHome::new();
    let (held, gate) = Reply::text("At last.").hold_head();
    let server = ScriptedModelServer::start([held, Reply::text("I cannot know.")]);
    let running = Background::turn(&home, &server, &["First."]);
    arrived(&server, 1);
    let parent = ids(&home).remove(0);
    let output = side(
        &home,
        &server,
        &[&parent, "--child", "aside", "What is it about?"],
    );
    assert_snapshot!(seen(&output), @"
    exit code: 0
    ----- stdout -----
    I cannot know.
    ----- stderr -----
    session aside
    note: a side session of session-[uuid], in which no turn has been completed: it starts from nothing; it explains, and its tools may only look
    tokens: 14 in, 5 out, 3 from the cache
    hint: ask on with: offshoot run --session aside PROMPT
    hint: bring the answer back with: offshoot merge aside
    ");
    gate.release();
    assert_eq!(running.finish().0, Some(0));
    let asked = told(&server.requests()[1]);
    assert!(!asked.iter().any(|one| one.contains("First.")), "{asked:?}");
    let own = events(&home, "aside");
    assert_eq!(marks(&own), ["framing"]);
    let listed = output_json(&run(&home, ["ls", "--json"]).success());
    let aside = listed
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["id"] == "aside")
        .unwrap();
    assert_eq!(
        (&aside["parent"], &aside["cut"], &aside["side"]),
        (&json!(parent), &Value::Null, &json!(true))
    );
    assert_sound(&home);
}

#[test]
fn of_a_compacted_session_it_has_summaries_and_says_so() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let long = |what: &str| format!("{what} {}", "And so on. ".repeat(200));
    let turns: Vec<_> = (0..4)
        .map(|n| {
            (
                long(&format!("Question {n}?")),
                long(&format!("Answer {n}.")),
            )
        })
        .collect();
    let turns: Vec<_> = turns
        .iter()
        .map(|(asked, answered)| (&**asked, &**answered))
        .collect();
    let parent = conversation(&home, &server, &turns);
    server.push(Reply::text("They talked about questions."));
    drop(
        calling(&home, &server)
            .args(["compact", &parent])
            .run()
            .success(),
    );
    server.push(Reply::text("Questions."));
    let output = side(
        &home,
        &server,
        &[&parent, "--child", "aside", "What about?"],
    )
    .success();
    let said = output.stderr_text();
    let note = said
        .lines()
        .find(|line| line.contains("compacted"))
        .unwrap();
    assert_snapshot!(crate::support::scrub(note), @"note: session-[uuid] was compacted: the side session has summaries in place of the turns that they stand for");
    assert!(
        told(server.requests().last().unwrap())
            .iter()
            .any(|one| one.contains("They talked about questions."))
    );
}

#[test]
fn it_says_which_files_have_changed_behind_its_cut() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let parent = conversation(&home, &server, &[("Which colour?", "Blue.")]);
    let cut = events(&home, &parent).len() - 1;
    server.push(Reply::tool_calls([(
        "call_1",
        "write",
        r#"{"file_path":"plan.txt","content":"blue"}"#,
    )]));
    server.push(Reply::text("Written."));
    drop(
        turn(&home, &server)
            .args(["--session", &parent, "Write it."])
            .run()
            .success(),
    );
    // Any event of the first turn means all of it, with what follows it and belongs to no turn: that it was opened again.
    for (at, begins, child) in [(cut, cut, "at-its-end"), (3, cut + 1, "within-it")] {
        server.push(Reply::text("Blue."));
        let at = at.to_string();
        let output = side(
            &home,
            &server,
            &[&parent, "--at", &at, "--child", child, "Which?"],
        );
        let said = output.success().stderr_text();
        let expected = format!("cut at event {begins};");
        assert!(
            said.contains(&expected) && said.contains("plan.txt` (made there)"),
            "{said}"
        );
        let asked = told(server.requests().last().unwrap());
        assert!(!asked.contains(&"Write it.".to_owned()), "{asked:?}");
    }
}

#[test]
fn a_provider_gets_the_same_bytes_as_from_the_session_whatever_has_changed_meanwhile() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    work(&home);
    crate::support::file(&home, "work/AGENTS.md", "Be kind.\n");
    let turns = [("Which colour?", "Blue."), ("And the door?", "Red.")];
    let parent = conversation(&home, &server, &turns);
    crate::support::file(&home, "work/AGENTS.md", "Be brief.\n");
    server.push(Reply::text("So it is."));
    let args = [&*parent, "--sandbox", "read-only", "Why red?"];
    drop(side(&home, &server, &args).success());
    let [_, asked, aside] = &server.requests()[..] else {
        panic!("three requests")
    };
    let text = |request: &CapturedRequest| String::from_utf8(request.body.to_vec()).unwrap();
    let (asked, aside) = (text(asked), text(aside));
    // In what is said, quotation marks are escaped: these are the members.
    let parts = |body: &str| {
        let (messages, tools) = body.split_once(r#"],"tools":["#).unwrap();
        (messages.to_owned(), tools.to_owned())
    };
    let ((said, tools), (said_aside, tools_aside)) = (parts(&asked), parts(&aside));
    assert_eq!(tools_aside, tools);
    let own = said_aside.strip_prefix(&*said);
    let own = own.unwrap_or_else(|| panic!("{said}\n\n{said_aside}"));
    assert!(
        own.contains("Be brief.") && !own.contains("Be kind."),
        "{own}"
    );
}

#[test]
fn who_goes_on_with_a_side_session_is_told_what_it_is() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let parent = conversation(&home, &server, &[("Which colour?", "Blue.")]);
    server.push(Reply::text("Because of the sky."));
    drop(side(&home, &server, &[&parent, "--child", "aside", "Why blue?"]).success());
    server.push(Reply::text("It is not."));
    let output = turn(&home, &server)
        .args(["--session", "aside", "And at night?"])
        .run();
    assert_snapshot!(seen(&output), @"
    exit code: 0
    ----- stdout -----
    It is not.
    ----- stderr -----
    session aside
    note: this is a side session: it explains, and its tools may only look; this ends that: offshoot promote aside
    tokens: 14 in, 5 out, 3 from the cache
    ");
    // A fork of one is one too.
    server.push(Reply::text("Dark."));
    let output = turn(&home, &server)
        .args(["--fork", "aside", "And in caves?"])
        .run()
        .success();
    assert!(
        output
            .stderr_text()
            .contains("note: this is a side session"),
        "{output}"
    );
    let output = run(&home, ["ls", "--tree"]).success();
    assert_snapshot!(seen(&output), @"
    exit code: 0
    ----- stdout -----
    session-[uuid]  (13 events)  Which colour?
    └─ aside @12  (side, 35 events)  Which colour?
       └─ session-[uuid] @34  (side, 45 events)  Which colour?
    ----- stderr -----
    ");
    let output = run(&home, ["ls"]).success();
    assert_eq!(
        output.stdout_text().matches("(side)").count(),
        2,
        "{output}"
    );
    let shown = run(&home, ["show", "aside"]).success().stdout_text();
    let head = shown.lines().take_while(|line| !line.is_empty());
    assert!(
        head.clone()
            .any(|line| line.starts_with("side     since event ")),
        "{shown}"
    );
}

#[test]
fn a_side_session_may_have_side_sessions() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([]);
    let parent = conversation(&home, &server, &[("Which colour?", "Blue.")]);
    for (of, child, asked) in [
        (&*parent, "aside", "Why blue?"),
        ("aside", "deeper", "Why the sky?"),
    ] {
        server.push(Reply::text("So it is."));
        drop(side(&home, &server, &[of, "--child", child, asked]).success());
    }
    let asked = told(server.requests().last().unwrap());
    assert!(
        asked.contains(&"Why blue?".to_owned()) && asked.contains(&"Why the sky?".to_owned()),
        "{asked:?}"
    );
    assert_eq!(marks(&events(&home, "deeper")), ["framing", "framing"]);
}

#[test]
fn a_session_file_can_be_asked_about_too() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([Reply::text("A list.")]);
    let before = fs::read(demo()).unwrap();
    let args = [
        demo().to_str().unwrap(),
        "--child",
        "aside",
        "--model",
        "openai/scripted-1",
        "What is it?",
    ]
    .map(str::to_owned);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = side(&home, &server, &args);
    assert_snapshot!(seen(&output), @"
    exit code: 0
    ----- stdout -----
    A list.
    ----- stderr -----
    session aside
    warning: the session works in `/work/demo`, which is not a directory here
    note: a side session of session-demo, cut at event 19; it explains, and its tools may only look
    note: session-demo is not in the home, so nothing can be brought back to it from here
    tokens: 14 in, 5 out, 3 from the cache
    hint: ask on with: offshoot run --session aside PROMPT
    ");
    assert_eq!(fs::read(demo()).unwrap(), before);
}
