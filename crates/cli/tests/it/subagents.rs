//! Subagents in the binary: what a model delegates, what a person sees of it, and what is left behind.

use std::fs;

use insta::assert_snapshot;
use offshoot_test_support::{Reply, ScriptedModelServer, TestHome};
use serde_json::{Value, json};

use crate::support::{
    Background, Fifo, arrived, events, json as output_json, json_lines, offshoot, run, seen,
    session_of, turn, types, work,
};

/// A call of `delegate`.
pub(crate) fn delegate(id: &str, arguments: &Value) -> Reply {
    Reply::tool_calls([(id, "delegate", arguments.to_string().as_str())])
}

/// The sessions of a home with subagents, the oldest first.
fn sessions(home: &TestHome) -> Vec<Value> {
    let listed = output_json(&run(home, ["ls", "--json", "--all"]).success());
    let mut rows = listed.as_array().unwrap().clone();
    rows.sort_by_key(|row| (row["created_at"].as_u64(), row["id"].to_string()));
    rows
}

/// The ids of the subagents.
pub(crate) fn children(home: &TestHome) -> Vec<String> {
    let rows = sessions(home);
    let rows = rows.iter().filter(|row| row["origin"] == "subagent");
    rows.map(|row| row["id"].as_str().unwrap().to_owned())
        .collect()
}

pub(crate) fn parent(home: &TestHome) -> String {
    let rows = sessions(home);
    let mut own = rows.iter().filter(|row| row["origin"].is_null());
    let id = own.next().unwrap()["id"].as_str().unwrap().to_owned();
    assert!(own.next().is_none());
    id
}

/// Every session file of the home is sound and says so.
pub(crate) fn assert_sound(home: &TestHome) {
    let checked = output_json(&run(home, ["check", "--deep", "--json"]).success());
    for one in checked.as_array().unwrap() {
        assert_eq!(one["status"], "ok", "{one}");
    }
}

pub(crate) fn of_type<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events
        .iter()
        .filter(|event| event["type"] == name)
        .collect()
}

#[test]
fn a_person_sees_that_a_subagent_has_started_and_how_it_ended_and_its_own_words_only_on_request() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([
        delegate(
            "call_1",
            &json!({"prompt": "Count the stamps.", "label": "count stamps"}),
        ),
        Reply::tool_calls([("call_c", "bash", r#"{"command":"echo three"}"#)]),
        Reply::text("There are three."),
        Reply::text("Three stamps, I am told."),
    ]);
    let output = turn(&home, &server).arg("How many stamps?").run();
    let told = seen(&output);
    assert_snapshot!(told, @r#"
    exit code: 0
    ----- stdout -----
    Three stamps, I am told.
    ----- stderr -----
    session session-[uuid]
    · delegate({"prompt":"Count the stamps.","label":"count stamps"})
    · subagent session-[uuid] (count stamps) has started
    · subagent session-[uuid] (count stamps): completed
    tokens: 28 in, 10 out, 6 from the cache
    subagents (1): tokens: 28 in, 10 out, 6 from the cache
    "#);

    let child = children(&home).remove(0);
    let shown = run(&home, ["show", &child]).success().stdout_text();
    assert!(shown.contains("There are three."), "{shown}");
    assert_snapshot!(seen(&run(&home, ["ls", "--tree"]).success()), @r#"
    exit code: 0
    ----- stdout -----
    session-[uuid]  (19 events)  How many stamps?
    └─ session-[uuid]  (subagent, 20 events)  Count the stamps.
    ----- stderr -----
    "#);
    assert_eq!(
        output_json(&run(&home, ["ls", "--json"]).success())
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_sound(&home);
}

#[test]
fn a_program_gets_the_rows_of_its_own_session_and_what_subagents_have_used() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([
        delegate("call_1", &json!({"prompt": "Count the stamps."})),
        Reply::text("There are three."),
        Reply::text("Three."),
    ]);
    let output = turn(&home, &server)
        .args(["--output", "json", "How many stamps?"])
        .run()
        .success();
    let (rows, result) = json_lines(&output);
    let id = session_of(&output);
    assert_eq!(rows, events(&home, &id));
    let child = children(&home).remove(0);
    assert_eq!(
        result["subagents"],
        json!([{
            "session": child,
            "parent": id,
            "usage": {
                "inputTokens": 14, "outputTokens": 5,
                "cacheReadTokens": 3, "reasoningTokens": 2,
            },
        }])
    );
    assert_eq!(result["usage"]["inputTokens"], 28, "its own, and no more");
    let catalog = of_type(&rows, "subagent/catalog");
    assert_eq!(catalog.len(), 1);
    assert_eq!(catalog[0]["data"]["childId"], json!(child));
    let answer = of_type(&rows, "tool/result")[0];
    assert_eq!(
        answer["data"]["message"]["content"][0]["text"],
        "There are three."
    );
    assert_eq!(
        answer["data"]["meta"]["subagent"]["sessionId"],
        json!(child)
    );
}

#[test]
fn a_subagent_has_the_same_tools_and_model_and_one_with_the_conversation_the_same_beginning() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([
        Reply::text("Hello."),
        delegate(
            "call_1",
            &json!({"prompt": "Say it again.", "context": "conversation"}),
        ),
        Reply::text("Hello again."),
        Reply::text("Done."),
        delegate("call_2", &json!({"prompt": "Say anything."})),
        Reply::text("Anything."),
        Reply::text("Done."),
    ]);
    let first = turn(&home, &server)
        .args(["--output", "json", "Hello?"])
        .run()
        .success();
    let id = session_of(&first);
    for prompt in ["Delegate it.", "And another."] {
        let args = ["--output", "json", "--session", &id, prompt];
        let output = turn(&home, &server).args(args).run().success();
        let used = &json_lines(&output).1["subagents"][0]["usage"];
        assert_eq!(used["inputTokens"], 14, "what it inherited was paid for");
    }
    let requests = server.requests();
    let bodies: Vec<Value> = requests.iter().map(|request| request.json()).collect();
    for body in &bodies {
        assert_eq!(body["tools"], bodies[0]["tools"]);
        assert_eq!(body["model"], bodies[0]["model"]);
    }
    // The fork begins as the parent's first turn did, and knows nothing of the turn that delegates.
    let parent = bodies[1]["messages"].as_array().unwrap();
    let fork = bodies[2]["messages"].as_array().unwrap();
    assert_eq!(fork[..4], parent[..4]);
    assert!(!fork.iter().any(|one| one["content"] == "Delegate it."));
    assert!(fork.iter().any(|one| one["content"] == "Say it again."));
    let fresh = bodies[5]["messages"].as_array().unwrap();
    assert_eq!(fresh[0], parent[0], "the same system prompt");
    assert!(!fresh.iter().any(|one| one["content"] == "Hello?"));
    let [fork, fresh] = &children(&home)[..] else {
        panic!("there are two");
    };
    let row = |id: &str| {
        let rows = sessions(&home);
        rows.into_iter().find(|row| row["id"] == id).unwrap()
    };
    let inherited = events(&home, &id);
    let cut = of_type(&inherited, "turn/end")[0]["seq"].clone();
    assert_eq!(row(fork)["cut"], cut);
    assert_eq!(row(fresh)["cut"], Value::Null);
    assert_sound(&home);
}

#[test]
fn two_subagents_of_one_answer_work_at_the_same_time() {
    let home = TestHome::new();
    let (first, first_gate) = Reply::text("Done.").hold_head();
    let (second, second_gate) = Reply::text("Done.").hold_head();
    let two = Reply::tool_calls([
        ("call_1", "delegate", r#"{"prompt":"One.","label":"one"}"#),
        ("call_2", "delegate", r#"{"prompt":"Two.","label":"two"}"#),
    ]);
    let server = ScriptedModelServer::start([two, first, second, Reply::text("Both are done.")]);
    let running = Background::turn(&home, &server, &["Do two things."]);
    // Neither is answered before both have asked.
    arrived(&server, 3);
    first_gate.release();
    second_gate.release();
    let (code, result, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(result["text"], "Both are done.");
    let used = result["subagents"].as_array().unwrap();
    let used: Vec<&Value> = used.iter().map(|one| &one["session"]).collect();
    let rows = events(&home, result["session"].as_str().unwrap());
    let catalog = of_type(&rows, "subagent/catalog");
    let labels: Vec<&Value> = catalog.iter().map(|one| &one["data"]["label"]).collect();
    assert_eq!(labels, ["one", "two"], "in the order of the calls");
    let ids: Vec<&Value> = catalog.iter().map(|one| &one["data"]["childId"]).collect();
    assert_eq!(used, ids);
    assert_sound(&home);
}

#[test]
fn what_a_subagent_of_a_subagent_starts_is_shown_too_down_to_the_limit() {
    let home = TestHome::new();
    fs::create_dir_all(home.path()).unwrap();
    config(&home, "[subagents]\nmax_depth = 2\n");
    let deeper = |id: &str, label: &str| delegate(id, &json!({"prompt": "Go on.", "label": label}));
    let server = ScriptedModelServer::start([
        deeper("call_1", "first"),
        deeper("call_2", "second"),
        deeper("call_3", "third"),
        Reply::text("No deeper."),
        Reply::text("Second is back."),
        Reply::text("All are back."),
    ]);
    let output = turn(&home, &server).arg("Go.").run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    All are back.
    ----- stderr -----
    session session-[uuid]
    · delegate({"prompt":"Go on.","label":"first"})
    · subagent session-[uuid] (first) has started
    · subagent session-[uuid] (second) has started
    · subagent session-[uuid] (second): completed
    · subagent session-[uuid] (first): completed
    tokens: 28 in, 10 out, 6 from the cache
    subagents (2): tokens: 56 in, 20 out, 12 from the cache
    "#);
    let requests = server.requests();
    let refused = requests[3].messages().pop().unwrap();
    assert_eq!(
        refused["content"],
        "Error: a subagent of this session would be at depth 3, and the limit is 2; do the work here instead"
    );
    assert_snapshot!(seen(&run(&home, ["ls", "--tree"]).success()), @r#"
    exit code: 0
    ----- stdout -----
    session-[uuid]  (19 events)  Go.
    └─ session-[uuid]  (subagent, 21 events)  Go on.
       └─ session-[uuid]  (subagent, 20 events)  Go on.
    ----- stderr -----
    "#);
}

fn config(home: &TestHome, text: &str) {
    #[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
    fs::write(home.path().join("config.toml"), text).unwrap();
}

#[test]
fn ctrl_c_cancels_a_subagent_with_the_turn_that_waits_for_it() {
    let home = TestHome::new();
    let work = work(&home);
    let started = Fifo::new(&work, "started");
    let waits = r#"{"command":"echo $$ > pid; echo here > started; sleep 1000"}"#;
    let server = ScriptedModelServer::start([
        delegate("call_1", &json!({"prompt": "Wait.", "label": "waits"})),
        Reply::tool_calls([("call_c", "bash", waits)]),
    ]);
    let running = Background::turn(&home, &server, &["Delegate."]);
    assert_eq!(started.read(), "here\n");
    running.signal("-INT");
    let (code, result, said) = running.finish();
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(
        result["reason"],
        json!({"kind": "aborted", "reason": {"kind": "user"}})
    );
    assert_ended(&work.join("pid"));
    let child = children(&home).remove(0);
    let rows = events(&home, &child);
    let end = of_type(&rows, "turn/end");
    assert_eq!(
        end[0]["data"]["reason"],
        json!({"kind": "aborted", "reason": {"kind": "parent"}})
    );
    let rows = events(&home, &parent(&home));
    let answer = of_type(&rows, "tool/result")[0];
    assert_eq!(answer["data"]["meta"]["subagent"]["stopReason"], "aborted");
    assert_sound(&home);
}

/// Nothing of a process whose id is in a file is left.
pub(crate) fn assert_ended(pid: &std::path::Path) {
    let pid = fs::read_to_string(pid).unwrap();
    let place = std::path::Path::new("/proc").join(pid.trim());
    assert!(!place.exists(), "{}", place.display());
}

#[test]
fn a_limit_of_answers_counts_those_of_subagents() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([
        delegate("call_1", &json!({"prompt": "Look."})),
        Reply::tool_calls([("call_c", "bash", r#"{"command":"echo one"}"#)]),
    ]);
    let output = turn(&home, &server)
        .args(["--max-turns", "2", "--output", "json", "Delegate."])
        .run();
    assert_eq!(output.code(), Some(4), "{output}");
    assert_eq!(server.requests().len(), 2);
    let child = children(&home).remove(0);
    let rows = events(&home, &child);
    assert_eq!(types(&rows).last(), Some(&"turn/end"));
    assert_sound(&home);
}

#[test]
fn after_a_kill_the_call_is_told_as_unknown_and_both_sessions_go_on() {
    let home = TestHome::new();
    let work = work(&home);
    let (started, hold) = (Fifo::new(&work, "started"), Fifo::new(&work, "hold"));
    let waits = r#"{"command":"echo here > started; cat hold"}"#;
    let server = ScriptedModelServer::start([
        delegate("call_1", &json!({"prompt": "Wait.", "label": "waits"})),
        Reply::tool_calls([("call_c", "bash", waits)]),
    ]);
    let running = Background::turn(&home, &server, &["Delegate."]);
    assert_eq!(started.read(), "here\n");
    running.kill();
    hold.release();
    let (id, child) = (parent(&home), children(&home).remove(0));

    server.push(Reply::text("I look what is true now."));
    let output = turn(&home, &server)
        .args(["--session", &id, "What happened?"])
        .run()
        .success();
    assert!(
        output.stderr_text().contains("close its open turn"),
        "{output}"
    );
    let rows = events(&home, &id);
    let answer = of_type(&rows, "tool/result")[0];
    let told = answer["data"]["message"]["content"][0]["text"]
        .as_str()
        .unwrap();
    assert!(told.contains("its outcome is unknown"), "{told}");

    server.push(Reply::text("Going on."));
    let output = turn(&home, &server)
        .args(["--session", &child, "Go on yourself."])
        .run()
        .success();
    assert_eq!(output.stdout_text(), "Going on.\n");
    assert_sound(&home);
}

#[test]
fn a_recording_of_one_session_answers_no_subagent() {
    let home = TestHome::new();
    let server = ScriptedModelServer::start([
        delegate("call_1", &json!({"prompt": "Count."})),
        Reply::text("Three."),
        Reply::text("Three, I am told."),
    ]);
    let output = turn(&home, &server)
        .args(["--output", "json", "How many?"])
        .run()
        .success();
    let id = session_of(&output);
    let replayed = offshoot(&home)
        .current_dir(work(&home))
        .args(["run", "--replay", &id, "How many?"])
        .run();
    assert_snapshot!(seen(&replayed), @r#"
    exit code: 0
    ----- stdout -----
    Three, I am told.
    ----- stderr -----
    session session-[uuid]
    · delegate({"prompt":"Count."})
    · delegate: Error: a recording has no answers for subagents; `offshoot replay` replays seve…
    tokens: 28 in, 10 out, 6 from the cache
    "#);
    assert_eq!(children(&home).len(), 1, "none was made for it");
}

#[test]
fn nobody_is_asked_for_a_subagent_unless_everything_was_allowed() {
    let outside = r#"{"file_path":"/nowhere/at/all.txt","content":"x"}"#;
    for (mode, expected) in [(None, "never"), (Some("allow"), "ask")] {
        let home = TestHome::new();
        let server = ScriptedModelServer::start([
            delegate("call_1", &json!({"prompt": "Write it."})),
            Reply::tool_calls([("call_c", "write", outside)]),
            Reply::text("I tried."),
            Reply::text("It tried."),
        ]);
        let mut command = turn(&home, &server);
        if let Some(mode) = mode {
            command = command.args(["--permission-mode", mode]);
        }
        drop(command.arg("Delegate.").run().success());
        let rows = events(&home, &children(&home)[0]);
        let policy = of_type(&rows, "approval/policy");
        assert_eq!(
            policy[0]["data"],
            json!({"policy": expected, "source": "delegation"})
        );
        let asked = of_type(&rows, "approval/asked").len();
        assert_eq!(asked, usize::from(mode.is_some()), "{mode:?}");
    }
}

#[test]
fn a_project_can_lower_the_limits_and_not_raise_them() {
    let home = TestHome::new();
    let work = work(&home);
    fs::create_dir_all(work.join(".offshoot")).unwrap();
    #[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
    fs::write(
        work.join(".offshoot/config.toml"),
        "[subagents]\nmax_depth = 0\nmax_running = 9\n",
    )
    .unwrap();
    let server = ScriptedModelServer::start([
        delegate("call_1", &json!({"prompt": "Count."})),
        Reply::text("So I count myself."),
    ]);
    let output = turn(&home, &server).arg("How many?").run();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    So I count myself.
    ----- stderr -----
    warning: `[user]/work/.offshoot/config.toml`, line 3: `subagents.max_running` is ignored: a project may only allow less than you do yourself; to set it yourself: `[home]/config.toml`
    session session-[uuid]
    · delegate({"prompt":"Count."})
    · delegate: Error: a subagent of this session would be at depth 1, and the limit is 0; do t…
    tokens: 28 in, 10 out, 6 from the cache
    "#);
}

#[test]
fn what_a_subagent_has_changed_is_read_again_before_it_is_edited() {
    let home = TestHome::new();
    let file = work(&home).join("a.txt");
    #[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
    fs::write(&file, "one\n").unwrap();
    let reads = |id| Reply::tool_calls([(id, "read", r#"{"file_path":"a.txt"}"#)]);
    let edits = |id, new: &str| {
        let arguments = json!({"file_path": "a.txt", "old_string": "one", "new_string": new});
        Reply::tool_calls([(id, "edit", arguments.to_string().as_str())])
    };
    let server = ScriptedModelServer::start([
        reads("call_1"),
        delegate("call_2", &json!({"prompt": "Make it one and two."})),
        reads("call_c"),
        edits("call_d", "one two"),
        Reply::text("It is."),
        edits("call_3", "none"),
        Reply::text("I was told so."),
    ]);
    let output = turn(&home, &server)
        .args(["--output", "json", "Work."])
        .run()
        .success();
    let rows = json_lines(&output).0;
    let codes: Vec<&Value> = of_type(&rows, "tool/result")
        .into_iter()
        .map(|result| &result["data"]["error"]["code"])
        .collect();
    assert_eq!(codes, [&json!(null), &json!(null), &json!("FS_STALE")]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "one two\n");
    assert_sound(&home);
}

#[test]
fn what_a_model_calls_a_subagent_does_not_move_the_cursor_of_who_reads_it() {
    for more in [json!({}), json!({"run_in_background": true})] {
        let home = TestHome::new();
        let mut arguments =
            json!({"prompt": "\u{1b}]0;Count\u{7}.", "label": "\u{1b}[2J\r\ncounts\u{9b}"});
        let members = arguments.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        let waits = members.len() == 2;
        let mut replies = vec![
            delegate("call_1", &arguments),
            Reply::text("Three.").asked("\u{1b}]0;Count\u{7}."),
            Reply::text("Three it is.").asked("How many?"),
        ];
        if !waits {
            replies.push(Reply::text("Three it is.").asked("How many?"));
        }
        let server = ScriptedModelServer::start(replies);
        let output = turn(&home, &server).arg("How many?").run().success();
        let listed = run(&home, ["ls", "--tree"]).success();
        let shown = run(&home, ["show", &parent(&home)]).success();
        for output in [output, listed, shown] {
            let seen = output.to_string();
            assert!(
                !seen.chars().any(|c| c.is_control() && c != '\n'),
                "{seen:?}"
            );
        }
    }
}
