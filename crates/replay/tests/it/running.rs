//! Steps over real sessions: what each comes to, and what is said when one does not come to its end.

use std::fs;

use offshoot_replay::{Existing, Flaw, RunError, Scenario, record, refresh, replay};
use serde_json::{Value, json};

use crate::bench::{
    Bench, Folder, HEAD, begins, calls, output, recorded, refreshed, replayed, says, scratch,
};

const HELLO: &str = "[[step]]\ndo = \"prompt\"\ntext = \"Hello.\"\n";

fn codes(flaws: &[Flaw]) -> Vec<&str> {
    flaws.iter().map(|flaw| flaw.code.as_str()).collect()
}

fn hello() -> Bench {
    Bench::saying([("Hello.", says("Good day."))])
}

/// A folder in which a greeting was recorded.
async fn greeting(steps: &str) -> Folder {
    let folder = Folder::new(HELLO);
    assert_eq!(recorded(&folder, &hello()).await.flaws, []);
    folder.write("scenario.toml", format!("{HEAD}{steps}"));
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_comes_to_its_turn() {
    let folder = greeting(HELLO).await;
    assert_eq!(
        output(&folder),
        [json!({
            "step": 1, "do": "prompt", "session": "main",
            "turns": [{"turn": 1, "reason": {"kind": "completed"}, "text": "Good day."}],
        })]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_wait_is_told_at_the_end() {
    let folder = greeting(&format!("{HELLO}wait = false\n")).await;
    refreshed(&folder).await;
    let turn = json!({"turn": 1, "reason": {"kind": "completed"}, "text": "Good day."});
    assert_eq!(
        output(&folder),
        [json!({"do": "end", "session": "main", "turns": [turn]})]
    );
    let waits = format!("{HELLO}wait = false\n[[step]]\ndo = \"wait\"\nidle = true\n");
    folder.write("scenario.toml", format!("{HEAD}{waits}"));
    refreshed(&folder).await;
    assert_eq!(
        output(&folder),
        [json!({"step": 2, "do": "wait", "session": "main", "turns": [turn]})]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_differs_is_a_flaw_unless_the_scenario_does_not_compare_requests() {
    let folder = greeting(HELLO).await;
    refreshed(&folder).await;
    let other = HELLO.replace("Hello.", "Good evening.");
    for (compared, differs) in [
        ("", true),
        ("compare_requests = \"conversation\"\n", true),
        ("compare_requests = false\n", false),
    ] {
        folder.write("scenario.toml", format!("{compared}{HEAD}{other}"));
        let flaws = replayed(&folder).await.flaws;
        let told = flaws.iter().find(|flaw| flaw.code == "REQUEST_DIFFERS");
        assert_eq!(told.is_some(), differs, "{flaws:?}");
        let details = told.map(|flaw| {
            (
                flaw.detail.contains("Hello."),
                flaw.detail.contains("evening"),
            )
        });
        assert_eq!(details, differs.then_some((true, true)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_prompt_and_other_tools_are_flaws_unless_only_the_conversation_is_compared() {
    let folder = greeting(HELLO).await;
    let recording = folder.read("sessions/main.jsonl");
    let other = recording.replacen("You are Offshoot", "You are another", 1);
    let other = other.replacen("\"name\":\"bash\"", "\"name\":\"shell\"", 1);
    assert_ne!(recording, other);
    folder.write("sessions/main.jsonl", &other);
    let told = replayed(&folder).await.flaws;
    assert_eq!(codes(&told), ["REQUEST_DIFFERS"]);
    let scenario = format!("compare_requests = \"conversation\"\n{HEAD}{HELLO}");
    folder.write("scenario.toml", &scenario);
    assert_eq!(replayed(&folder).await.flaws, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_hangs_is_cancelled_and_replays_with_an_override() {
    let folder = Folder::new(&format!(
        "{HELLO}wait = false\n[[step]]\ndo = \"wait\"\nfile = \"hangs\"\n[[step]]\ndo = \"cancel\"\n"
    ));
    let bench = Bench::saying([("Hello.", begins("Good d"))]);
    let recording = recorded(&folder, &bench).await;
    assert_eq!(codes(&recording.flaws), ["REPLAY_UNFINISHED"]);
    assert_eq!(recording.changed, Vec::<std::path::PathBuf>::new());
    assert!(
        recording.flaws[0]
            .detail
            .starts_with("write `overrides/main.json`: ")
    );

    folder.write(
        "overrides/main.json",
        r#"{"patches": [{"at": 0, "entry": {"kind": "hang", "chunks": "recorded", "readyFile": "hangs"}}]}"#,
    );
    refreshed(&folder).await;
    assert_eq!(replayed(&folder).await.flaws, []);
    assert_eq!(
        output(&folder),
        [json!({
            "step": 3, "do": "cancel", "session": "main",
            "turns": [{"turn": 1, "reason": {"kind": "aborted", "reason": {"kind": "user"}}, "text": "Good d"}],
        })]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_answers_from_its_own_script_also_while_its_source_runs() {
    let steps = format!(
        r#"{HELLO}
[[step]]
do = "prompt"
text = "Go on."
wait = false
[[step]]
do = "wait"
file = "held"
[[step]]
do = "fork"
as = "branch"
[[step]]
do = "prompt"
session = "branch"
text = "Another way."
[[step]]
do = "write"
path = "go"
text = "now"
[[step]]
do = "wait"
idle = true
"#
    );
    let folder = Folder::new(&steps.replace(
        "do = \"wait\"\nfile = \"held\"",
        "do = \"wait\"\nidle = true",
    ));
    let bench = Bench::saying([
        ("Hello.", says("Good day.")),
        ("Go on.", says("I go on.")),
        ("Another way.", says("Aside.")),
    ]);
    assert_eq!(recorded(&folder, &bench).await.flaws, []);
    folder.write("scenario.toml", format!("{HEAD}{steps}"));
    folder.write(
        "overrides/main.json",
        r#"{"patches": [{"at": 1, "entry": {"kind": "chunks", "chunks": "recorded", "readyFile": "held", "holdAfter": 2, "holdUntil": "go"}}]}"#,
    );
    // The fork is made at another place now: before the turn that is running.
    let (_dir, place) = scratch();
    let ran = replay(&folder.load(), &Bench::default(), &place, None)
        .await
        .unwrap();
    assert_eq!(
        codes(&ran.flaws),
        ["REQUEST_DIFFERS", "SCENARIO_DIFFERS", "SCENARIO_DIFFERS"]
    );
    refreshed(&folder).await;
    assert_eq!(replayed(&folder).await.flaws, []);
    let lines = output(&folder);
    assert_eq!(
        lines[1],
        json!({"step": 4, "do": "fork", "session": "branch", "cut": 13})
    );
    assert_eq!(lines[2]["turns"][0]["text"], "Aside.");
    assert_eq!(lines[3]["turns"][0]["text"], "I go on.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_of_a_side_session_comes_back_while_the_parent_runs() {
    let steps = format!(
        r#"{HELLO}
[[step]]
do = "side"
as = "side"
[[step]]
do = "prompt"
session = "side"
text = "Why?"
[[step]]
do = "merge"
child = "side"
[[step]]
do = "merge"
child = "side"
[[step]]
do = "merge"
child = "main"
note = "Nothing."
[[step]]
do = "merge"
child = "side"
ask = true
[[step]]
do = "promote"
session = "side"
[[step]]
do = "prompt"
text = "Go on."
"#
    );
    let folder = Folder::new(&steps);
    let bench = Bench::saying([
        ("Hello.", says("Good day.")),
        ("Why?", says("Because.")),
        ("Write the note", says("In short: because.")),
        ("Go on.", says("I go on.")),
    ]);
    assert_eq!(recorded(&folder, &bench).await.flaws, []);
    assert_eq!(replayed(&folder).await.flaws, []);
    insta::assert_snapshot!(folder.read("expected/output.jsonl"));
    let main = folder.read("expected/main.jsonl");
    assert_eq!(
        main.matches("\"act\":\"handback\"").count(),
        4,
        "two notes, each queued and said"
    );
    assert!(main.contains("{{session:side}}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_side_session_that_does_not_answer_has_no_note() {
    let steps = format!(
        "{HELLO}[[step]]\ndo = \"side\"\nas = \"side\"\n[[step]]\ndo = \"merge\"\nchild = \"side\"\nask = true\n"
    );
    let folder = Folder::new(&steps);
    assert_eq!(recorded(&folder, &hello()).await.flaws, []);
    let line = &output(&folder)[2];
    assert_eq!(line["turns"][0]["reason"]["kind"], "error");
    assert_eq!(
        line["error"],
        json!({
            "code": "HANDBACK_UNANSWERED",
            "message": "the side session has not answered: there is no note to bring back",
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn subagents_that_start_together_have_the_names_of_their_calls() {
    let folder = Folder::new("[[step]]\ndo = \"prompt\"\ntext = \"Both, please.\"\n");
    let task = |prompt: &str| json!({"prompt": prompt, "context": "fresh"});
    let bench = Bench::saying([
        (
            "Both, please.",
            calls(&[
                ("call-1", "delegate", task("First task.")),
                ("call-2", "delegate", task("Second task.")),
            ]),
        ),
        ("First task.", says("First done.")),
        ("Second task.", says("Second done.")),
        ("First done.", says("Both are done.")),
    ]);
    assert_eq!(recorded(&folder, &bench).await.flaws, []);
    for _ in 0..5 {
        assert_eq!(replayed(&folder).await.flaws, []);
    }
    assert!(folder.read("expected/main.1.jsonl").contains("First done."));
    assert!(
        folder
            .read("expected/main.2.jsonl")
            .contains("Second done.")
    );
    assert!(
        folder
            .read("sessions/main.2.jsonl")
            .contains("Second task.")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_subagent_that_has_been_closed_since_are_there_all_the_same() {
    let folder = Folder::new(
        r#"
[[step]]
do = "prompt"
text = "Ask somebody."
[[step]]
do = "wait"
event = "turn/end"
session = "main.1"
timeout = 1
"#,
    );
    let task = json!({"prompt": "The task.", "context": "fresh"});
    let bench = Bench::saying([
        ("Ask somebody.", calls(&[("call-1", "delegate", task)])),
        ("The task.", says("Done.")),
        ("Done.", says("It is done.")),
    ]);
    assert_eq!(recorded(&folder, &bench).await.flaws, []);
    assert_eq!(replayed(&folder).await.flaws, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_compacted() {
    let long = "word ".repeat(3000);
    let steps = format!(
        "[[step]]\ndo = \"compact\"\n[[step]]\ndo = \"prompt\"\ntext = \"Hello. {long}\"\n{HELLO}[[step]]\ndo = \"compact\"\n[[step]]\ndo = \"prompt\"\ntext = \"More.\"\n"
    );
    let folder = Folder::new(&steps);
    let bench = Bench::saying([
        ("Hello. word", says("Good day.")),
        ("Hello.", says("Again.")),
        ("", says("It was about greetings.")),
        ("More.", says("More.")),
    ]);
    assert_eq!(recorded(&folder, &bench).await.flaws, []);
    assert_eq!(replayed(&folder).await.flaws, []);
    let lines = output(&folder);
    assert_eq!(lines[0]["compacted"], Value::Null);
    assert_eq!(lines[3]["compacted"]["messages"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_in_vain_says_for_what_and_how_things_stand() {
    let folder = greeting(&format!(
        "{HELLO}wait = false\n[[step]]\ndo = \"wait\"\nfile = \"never\"\ntimeout = 1\n"
    ))
    .await;
    folder.write(
        "overrides/main.json",
        r#"{"patches": [{"at": 0, "entry": {"kind": "chunks", "chunks": "recorded", "holdAfter": 2, "holdUntil": "go"}}]}"#,
    );
    let flaws = replayed(&folder).await.flaws;
    assert_eq!(codes(&flaws), ["SCENARIO_HUNG"]);
    let shown = flaws[0].to_string();
    insta::with_settings!({filters => vec![(r"message_id.*", "…")]}, {
        insta::assert_snapshot!(shown);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hangs_at_the_end_is_said_as_well() {
    let folder = greeting(&format!("{HELLO}wait = false\n")).await;
    folder.write(
        "scenario.toml",
        format!("timeout = 1\n{HEAD}{HELLO}wait = false\n"),
    );
    folder.write(
        "overrides/main.json",
        r#"{"patches": [{"at": 0, "entry": {"kind": "hang"}}]}"#,
    );
    let flaws = replayed(&folder).await.flaws;
    assert_eq!(
        flaws[0].message,
        "the end: waited 1 s for `main` and what runs below it to be idle"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_asks_for_and_questions_without_an_answer_are_flaws() {
    let folder = greeting("[[step]]\ndo = \"compact\"\n").await;
    let flaws = replayed(&folder).await.flaws;
    assert_eq!(
        flaws.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["session `main` never made a model call; its script has 1 (SCRIPT_UNUSED)"]
    );
    let more = "[[step]]\ndo = \"prompt\"\ntext = \"More.\"\n";
    folder.write("scenario.toml", format!("{HEAD}{HELLO}{more}"));
    let (_dir, place) = scratch();
    let ran = refresh(&folder.load(), &Bench::default(), &place, None)
        .await
        .unwrap();
    assert_eq!(
        ran.flaws
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["session `main` requested model call #2, but its script has only 1 (SCRIPT_EXHAUSTED)"]
    );
    assert_eq!(
        ran.changed,
        Vec::<std::path::PathBuf>::new(),
        "nothing is written"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_a_recording_and_one_that_is_not_expected_are_flaws() {
    let fork = "[[step]]\ndo = \"fork\"\nas = \"branch\"\n";
    let folder = greeting(&format!("{HELLO}{fork}")).await;
    let flaws = replayed(&folder).await.flaws;
    let shown: Vec<String> = flaws.iter().map(|flaw| flaw.message.clone()).collect();
    assert_eq!(
        shown,
        [
            "session `branch` is not expected",
            "`expected/output.jsonl` differs"
        ]
    );
    let asks = "[[step]]\ndo = \"prompt\"\nsession = \"branch\"\ntext = \"More.\"\n";
    folder.write("scenario.toml", format!("{HEAD}{HELLO}{fork}{asks}"));
    let flaws = replayed(&folder).await.flaws;
    assert_eq!(codes(&flaws)[0], "UNRECORDED_SESSION");

    folder.write("scenario.toml", format!("{HEAD}{HELLO}{fork}"));
    refreshed(&folder).await;
    assert_eq!(replayed(&folder).await.flaws, []);
    folder.write(
        "scenario.toml",
        format!("{HEAD}{HELLO}[[step]]\ndo = \"side\"\nas = \"branch\"\nat = 2\n"),
    );
    let flaws = replayed(&folder).await.flaws;
    assert!(!flaws.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_step_is_refused_is_its_output() {
    let folder = greeting(&format!(
        "{HELLO}[[step]]\ndo = \"fork\"\nas = \"branch\"\nat = 900\n[[step]]\ndo = \"promote\"\n"
    ))
    .await;
    refreshed(&folder).await;
    insta::assert_snapshot!(folder.read("expected/output.jsonl"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scenario_that_cannot_be_run_says_why() {
    let kills = greeting(&format!("{HELLO}[[step]]\ndo = \"kill\"\n")).await;
    let told = |error: &RunError| (error.code().to_owned(), error.hint());
    let (_dir, place) = scratch();
    let error = replay(&kills.load(), &Bench::default(), &place, None)
        .await
        .unwrap_err();
    assert_eq!(told(&error), ("NEEDS_PROCESSES".to_owned(), None));

    let folder = greeting(HELLO).await;
    let error = replay(&folder.load(), &Bench::default(), &place, None)
        .await
        .unwrap_err();
    assert_eq!(told(&error), ("NOT_EMPTY".to_owned(), None));

    let (_dir, place) = scratch();
    folder.write("sessions/main.jsonl", "not a session\n");
    let error = replay(&folder.load(), &Bench::default(), &place, None)
        .await
        .unwrap_err();
    assert_eq!(error.code(), "MALFORMED_HEADER");

    let (_dir, place) = scratch();
    let broken = Folder::new(&format!("[settings]\nbroken = true\n{HELLO}"));
    let bench = Bench::default();
    let error = record(broken.path(), Existing::Keep, &bench, &place, None)
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.to_string()),
        ("BROKEN", "the settings are broken".to_owned())
    );
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_only_in_a_folder_can_be_written_in_its_copy() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = greeting(HELLO).await;
    folder.write("workspace/in/run.sh", "true\n");
    let file = folder.path().join("workspace/in/run.sh");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o555)).unwrap();
    let (_dir, place) = scratch();
    let (scenario, bench) = (folder.load(), Bench::default());
    let replayed = Box::pin(replay(&scenario, &bench, &place, None));
    assert_eq!(replayed.await.unwrap().flaws, []);
    let copied = fs::metadata(place.join("workspace/in/run.sh")).unwrap();
    assert_eq!(copied.permissions().mode() & 0o777, 0o755);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_that_was_cut_off_in_a_line_is_refused() {
    let folder = greeting(HELLO).await;
    let whole = folder.read("sessions/main.jsonl");
    let lines = whole.lines().count();
    for (torn, line) in [
        (&whole[..whole.len() - 9], lines),
        (&format!("{whole}{{"), lines + 1),
    ] {
        folder.write("sessions/main.jsonl", torn);
        let (_dir, place) = scratch();
        let (scenario, bench) = (folder.load(), Bench::default());
        let refused = Box::pin(replay(&scenario, &bench, &place, None)).await;
        let error = refused.unwrap_err();
        assert_eq!(error.code(), "RECORDING_TORN");
        let told = format!("main.jsonl`: line {line}: the file is cut off here");
        assert!(error.to_string().ends_with(&told), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_a_scenario_name_the_places_of_the_run() {
    let folder = Folder::new(
        "[[step]]\ndo = \"write\"\npath = \"deep/note.txt\"\ntext = \"in {{cwd}}\"\n[[step]]\ndo = \"prompt\"\ntext = \"Read {{cwd}}/deep/note.txt.\"\n",
    );
    let bench = Bench::saying([("Read /", says("Done."))]);
    assert_eq!(recorded(&folder, &bench).await.flaws, []);
    let (_dir, place) = scratch();
    replay(&folder.load(), &Bench::default(), &place, None)
        .await
        .unwrap();
    let workspace = place.canonicalize().unwrap().join("workspace");
    assert_eq!(
        fs::read_to_string(workspace.join("deep/note.txt")).unwrap(),
        format!("in {}", workspace.display())
    );
    let recording = folder.read("sessions/main.jsonl");
    assert!(recording.contains("Read {{cwd}}/deep/note.txt."));
    let scenario = Scenario::load(folder.path()).unwrap();
    assert_eq!(
        scenario.name(),
        folder.path().file_name().unwrap().to_string_lossy()
    );
}
