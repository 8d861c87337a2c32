//! `offshoot record` and `offshoot replay`, and the example of `docs/scenarios.md`.

use std::fs;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use offshoot_test_support::{OffshootCommand, Reply, ScriptedModelServer, TestHome};
use serde_json::{Value, json};

use crate::support::{Background, KEY, arrived, json as output_json, offshoot, run, seen};

/// A folder of a scenario beside the home.
fn folder(home: &TestHome, name: &str) -> PathBuf {
    home.user_path().join("scenarios").join(name)
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
    fs::write(path, text).unwrap();
}

/// What is written in `docs/scenarios.md` in a block of a language, in their order.
fn examples(language: &str) -> Vec<String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios.md");
    let docs = fs::read_to_string(docs).unwrap();
    let opening = format!("```{language}\n");
    let blocks = docs.split(&opening).skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect()
}

/// With the provider on the server.
fn record(home: &TestHome, server: &ScriptedModelServer, dir: &Path) -> OffshootCommand {
    offshoot(home)
        .env("OPENAI_BASE_URL", server.base_url())
        .env("OPENAI_API_KEY", KEY)
        .arg("record")
        .arg(dir)
}

fn shown(home: &TestHome, output: &offshoot_test_support::CommandOutput) -> String {
    let user = home.user_path();
    let shown = seen(output).replace(user.to_str().unwrap(), "[user]");
    // Where in a request something is depends on every description of a tool.
    match shown.split_once("from byte ") {
        Some((before, rest)) => {
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}from byte N{rest}")
        }
        None => shown,
    }
}

/// The files of a scenario, by their names.
fn files(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(here) = open.pop() {
        for entry in fs::read_dir(here).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => {
                    let below = path.strip_prefix(dir).unwrap();
                    found.push(below.display().to_string());
                }
            }
        }
    }
    found.sort();
    found
}

const READING: &str = r#"about = "A file is read."
[model]
name = "openai/scripted-1"

[[step]]
do = "prompt"
text = "What does a.txt say?"
"#;

/// A recorded scenario in which a file is read.
fn reading(home: &TestHome) -> PathBuf {
    let dir = folder(home, "reading");
    put(&dir.join("scenario.toml"), READING);
    put(&dir.join("workspace/a.txt"), "alpha\n");
    let server = ScriptedModelServer::start([
        Reply::tool_calls([("call_1", "read", r#"{"file_path":"a.txt"}"#)]),
        Reply::text("It says alpha."),
    ]);
    drop(record(home, &server, &dir).run().success());
    dir
}

#[test]
fn a_recorded_scenario_replays_without_a_provider_until_something_is_another() {
    let home = TestHome::new();
    let dir = reading(&home);
    assert_eq!(
        files(&dir),
        [
            "expected/main.jsonl",
            "expected/output.jsonl",
            "scenario.toml",
            "sessions/main.jsonl",
            "workspace/a.txt",
        ]
    );
    let dir = dir.to_str().unwrap();
    let replayed = run(&home, ["replay", dir]);
    assert_snapshot!(shown(&home, &replayed), @r#"
    exit code: 0
    ----- stdout -----
    ok       [user]/scenarios/reading
    ----- stderr -----
    "#);
    assert_eq!(
        output_json(&run(&home, ["replay", "--json", dir]).success()),
        json!([{"scenario": dir, "status": "ok"}])
    );

    put(&Path::new(dir).join("workspace/a.txt"), "beta\n");
    let differs = run(&home, ["replay", dir]);
    assert_snapshot!(shown(&home, &differs), @r#"
    exit code: 1
    ----- stdout -----
    differs  [user]/scenarios/reading
    ----- stderr -----
    [user]/scenarios/reading: session `main`, model call #2: the request differs from the recorded one from byte N on, in what event 12 of the recording says (REQUEST_DIFFERS)
      recorded: …path>\n<type>file</type>\n<content>\n1: alpha\n\n(End of file - total 1 lines)\n</content>"}],"toolCallId":"call_1","isE…
      now:      …path>\n<type>file</type>\n<content>\n1: beta\n\n(End of file - total 1 lines)\n</content>"}],"toolCallId":"call_1","isEr…
    [user]/scenarios/reading: `expected/main.jsonl` differs (SCENARIO_DIFFERS)
      @ lines 12 to 16
        {"type":"assistant/message","data":{"turn":1,"step":1,"message":{"id":"{{id:4}}","role":"assistant","content":[{"type":"tool-call","id":"call_1","name":"read","arguments":"{\"file_path\":\"a.txt\"}"}]…
        {"type":"tool/call","data":{"turn":1,"step":1,"callId":"call_1","name":"read","arguments":"{\"file_path\":\"a.txt\"}"}}
      ! {"type":"tool/result","data":{"turn":1,"step":1,"message":{"id":"{{id:5}}","role":"tool","toolCallId":"call_1","isError":false,"source":{"kind":"tool","callId":"call_1"},"content":[{"type":"text","tex…
          data.message.content[0].text
          - "<path>{{cwd}}/a.txt</path>\n<type>file</type>\n<content>\n1: alpha\n\n(End of file - total 1 lines)\n</content>"
          + "<path>{{cwd}}/a.txt</path>\n<type>file</type>\n<content>\n1: beta\n\n(End of file - total 1 lines)\n</content>"
          data.meta.lines[0].text
          - "alpha"
          + "beta"
          data.meta.digest
          - "sha256:b6a98d9ce9a2d9149288fa3df42d377c3e42737afdcdaf714e33c0a100b51060"
          + "sha256:f2c82decdd7181cf98945929a62598db7e6b477e11f6e0eb0ae97020eff151ad"
        {"type":"step/end","data":{"turn":1,"step":1}}
        {"type":"step/start","data":{"turn":1,"step":2}}
    "#);
    let reports = run(&home, ["replay", "--json", dir]);
    assert_eq!(reports.code(), Some(1));
    let reports = output_json(&reports);
    assert_eq!(reports[0]["status"], "differs");
    assert_eq!(reports[0]["flaws"][0]["code"], "REQUEST_DIFFERS");

    let refreshed = run(&home, ["replay", "--refresh", dir]);
    assert_snapshot!(shown(&home, &refreshed), @r#"
    exit code: 0
    ----- stdout -----
    written  [user]/scenarios/reading
             [user]/scenarios/reading/sessions/main.jsonl
             [user]/scenarios/reading/expected/main.jsonl
    ----- stderr -----
    "#);
    drop(run(&home, ["replay", dir]).success());
}

#[test]
fn what_is_configured_for_the_person_has_no_part_in_a_replay() {
    let home = TestHome::new();
    let dir = reading(&home);
    put(
        &home.path().join("config.toml"),
        "sandbox = \"danger-full-access\"\neffort = \"high\"\n[subagents]\nmax_depth = 0\n",
    );
    put(&home.path().join("AGENTS.md"), "Always rhyme.\n");
    let before = home.bytes_of_tree();
    let replayed = offshoot(&home)
        .env("OFFSHOOT_MODEL", "nobody/nothing")
        .env("OFFSHOOT_SANDBOX", "read-only")
        .arg("replay")
        .arg(&dir)
        .run();
    drop(replayed.success());
    assert_eq!(home.bytes_of_tree(), before, "the home is left alone");
}

#[test]
fn several_are_replayed_and_one_that_cannot_be_stops_no_other() {
    let home = TestHome::new();
    let dir = reading(&home);
    let all = dir.parent().unwrap().to_owned();
    put(
        &all.join("empty/scenario.toml"),
        "about = \"Nothing.\"\n[model]\nname = \"openai/scripted-1\"\n",
    );
    put(&all.join("unrecorded/scenario.toml"), READING);
    let replayed = offshoot(&home).arg("replay").arg(&all).run();
    assert_snapshot!(shown(&home, &replayed), @r#"
    exit code: 1
    ----- stdout -----
    failed   [user]/scenarios/empty
    ok       [user]/scenarios/reading
    failed   [user]/scenarios/unrecorded
    1 of 3 scenarios came to what is expected
    ----- stderr -----
    [user]/scenarios/empty: `[user]/scenarios/empty/scenario.toml`, line 4: nothing is done: add a `[[step]]` (INVALID_SCENARIO)
      hint: docs/scenarios.md describes this file
    [user]/scenarios/unrecorded: `[user]/scenarios/unrecorded/sessions/main.jsonl` is missing (SCENARIO_INCOMPLETE)
      hint: `offshoot record` makes recordings
    "#);
    let nothing = run(&home, ["replay", home.user_path().to_str().unwrap()]);
    assert_snapshot!(shown(&home, &nothing), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: there is no scenario in `[user]`: it has no `scenario.toml`
    hint: name the folder of a scenario, or one that holds such folders
    "#);
}

#[test]
fn what_was_recorded_is_replaced_only_on_request_and_a_key_is_never_recorded() {
    let home = TestHome::new();
    let dir = reading(&home);
    let server = ScriptedModelServer::start([]);
    let refused = record(&home, &server, &dir).run();
    assert_snapshot!(shown(&home, &refused), @r#"
    exit code: 1
    ----- stdout -----
    failed   [user]/scenarios/reading
    ----- stderr -----
    recording [user]/scenarios/reading
    [user]/scenarios/reading: it has been recorded before (ALREADY_RECORDED)
      hint: --replace records it anew
    "#);

    server.push(Reply::text(format!("The key is {KEY}.")));
    let before = fs::read(dir.join("sessions/main.jsonl")).unwrap();
    let refused = record(&home, &server, &dir).arg("--replace").run();
    assert_snapshot!(shown(&home, &refused), @r#"
    exit code: 1
    ----- stdout -----
    failed   [user]/scenarios/reading
    ----- stderr -----
    recording [user]/scenarios/reading
    [user]/scenarios/reading: the recording of `main` would hold a key, on line 12: nothing was written (RECORDING_HOLDS_KEY)
      hint: keep keys out of prompts and out of files that tools read
    "#);
    assert_eq!(fs::read(dir.join("sessions/main.jsonl")).unwrap(), before);

    server.push(Reply::text("It says alpha, I suppose."));
    drop(
        record(&home, &server, &dir)
            .arg("--replace")
            .run()
            .success(),
    );
    assert_ne!(fs::read(dir.join("sessions/main.jsonl")).unwrap(), before);
}

#[test]
fn a_provider_that_cannot_be_called_is_said_as_elsewhere() {
    let home = TestHome::new();
    let dir = folder(&home, "reading");
    put(&dir.join("scenario.toml"), READING);
    let refused = offshoot(&home).arg("record").arg(&dir).run();
    assert_snapshot!(shown(&home, &refused), @r#"
    exit code: 1
    ----- stdout -----
    failed   [user]/scenarios/reading
    ----- stderr -----
    recording [user]/scenarios/reading
    [user]/scenarios/reading: provider `openai` takes its key from OPENAI_API_KEY, which is not set (MISSING_API_KEY)
      hint: set OPENAI_API_KEY; or write openai = "KEY" into `[home]/credentials.toml`, which only you may be able to read
      hint: or set OPENAI_BASE_URL for a server that needs no key
    "#);
    assert_eq!(files(&dir), ["scenario.toml"]);
}

#[test]
fn subagents_side_sessions_and_a_killed_process_are_recorded_and_replayed() {
    let home = TestHome::new();
    let dir = folder(&home, "all");
    put(
        &dir.join("scenario.toml"),
        r#"about = "Two subagents at the same time, a note from the side, and a process that dies."
[model]
name = "openai/scripted-1"

[[step]]
do = "prompt"
text = "Count apples and pears."

[[step]]
do = "side"
of = "main"
as = "aside"

[[step]]
do = "prompt"
session = "aside"
text = "Are pears apples?"

[[step]]
do = "merge"
child = "aside"

[[step]]
do = "kill"

[[step]]
do = "open"
session = "main"

[[step]]
do = "prompt"
text = "And together?"
"#,
    );
    let two = Reply::tool_calls([
        ("call_1", "delegate", r#"{"prompt":"Count the apples."}"#),
        ("call_2", "delegate", r#"{"prompt":"Count the pears."}"#),
    ]);
    let server = ScriptedModelServer::start([
        two,
        Reply::text("Three apples.").asked("Count the apples."),
        Reply::text("Four pears.").asked("Count the pears."),
        Reply::text("Three and four."),
        Reply::text("No.").asked("Are pears apples?"),
        Reply::text("Seven.").asked("And together?"),
    ]);
    let recorded = record(&home, &server, &dir).arg("--json").run();
    let report = output_json(&recorded);
    assert_eq!(report["flaws"], Value::Null, "{recorded}");
    assert_eq!(
        files(&dir.join("sessions")),
        ["aside.jsonl", "main.1.jsonl", "main.2.jsonl", "main.jsonl"]
    );
    let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap();
    assert!(read("sessions/main.1.jsonl").contains("Three apples."));
    assert!(read("sessions/main.2.jsonl").contains("Four pears."));
    assert!(!read("sessions/main.jsonl").contains(home.user_path().to_str().unwrap()));
    for _ in 0..3 {
        drop(run(&home, ["replay", dir.to_str().unwrap()]).success());
    }
}

#[test]
fn ctrl_c_stops_a_recording_and_nothing_is_written() {
    let home = TestHome::new();
    let dir = folder(&home, "reading");
    put(&dir.join("scenario.toml"), READING);
    let server = ScriptedModelServer::start([Reply::text("Never.").stalled_after(1)]);
    let args = ["record", dir.to_str().unwrap()];
    let recording = Background::command(&home, &server, &args);
    arrived(&server, 1);
    recording.signal("-INT");
    let (code, out, said) = recording.end();
    assert_eq!((code, &*out), (Some(130), ""), "{said}");
    assert!(said.ends_with("stopped\n"), "{said}");
    assert_eq!(files(&dir), ["scenario.toml"]);
}

#[test]
fn ctrl_c_waits_for_no_part_that_runs_in_another_process() {
    let home = TestHome::new();
    let dir = folder(&home, "dying");
    let dies = format!("{READING}[[step]]\ndo = \"kill\"\n");
    put(&dir.join("scenario.toml"), &dies);
    let server = ScriptedModelServer::start([Reply::text("Never.").stalled_after(1)]);
    let args = ["record", dir.to_str().unwrap()];
    let recording = Background::command(&home, &server, &args);
    arrived(&server, 1);
    recording.signal("-INT");
    let (code, _, said) = recording.end();
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(files(&dir), ["scenario.toml"]);
}

#[test]
fn what_runs_leave_can_be_kept() {
    let home = TestHome::new();
    let dir = reading(&home);
    let keep = home.user_path().join("kept");
    let keep = keep.to_str().unwrap();
    drop(run(&home, ["replay", dir.to_str().unwrap(), "--keep", keep]).success());
    let kept = Path::new(keep).join("1-reading");
    assert!(kept.join("workspace/a.txt").is_file());
    let place = kept.join("home/sessions");
    assert!(place.is_dir(), "with the session in it");
    let refused = run(&home, ["replay", dir.to_str().unwrap(), "--keep", keep]);
    assert_snapshot!(shown(&home, &refused), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `[user]/kept`: it has to be empty
    hint: name a folder that is not there yet
    "#);
}

#[test]
fn the_example_of_the_documentation_records_and_replays() {
    let home = TestHome::new();
    let dir = folder(&home, "aside");
    let [scenario] = &examples("toml")[..] else {
        panic!("docs/scenarios.md has one scenario");
    };
    put(&dir.join("scenario.toml"), scenario);
    put(&dir.join("workspace/notes.txt"), "stamps: 3\n");
    let waits = r#"{"command":"until [ -e go ]; do sleep 0.02; done; cat notes.txt"}"#;
    let server = ScriptedModelServer::start([
        Reply::text("I am ready."),
        Reply::tool_calls([("call_1", "bash", waits)]),
        Reply::text("Stamps, not coins.").asked("Is it about stamps or coins?"),
        Reply::text("Three stamps."),
    ]);
    let recorded = record(&home, &server, &dir).run();
    drop(recorded.success());
    drop(run(&home, ["replay", dir.to_str().unwrap()]).success());
}
