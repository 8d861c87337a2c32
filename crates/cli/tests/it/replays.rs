//! `offshoot run --replay`: a recording answers, and the tools run for real.

use std::fs;

use insta::assert_snapshot;
use offshoot_test_support::TestHome;

use crate::support::{demo, demo_up_to, file, fixture, offshoot, run, seen, work};

#[test]
fn a_recording_answers_and_its_calls_really_run() {
    let home = TestHome::new();
    let output = offshoot(&home)
        .current_dir(work(&home))
        .args(["run", "--replay", demo().to_str().unwrap(), "Once more."])
        .run();
    assert_snapshot!(seen(&output), @r##"
    exit code: 0
    ----- stdout -----
    `CHANGES.md` should have 3 lines now; `wc -l CHANGES.md` tells for sure.
    ----- stderr -----
    session session-[uuid]
    · write({"file_path":"CHANGES.md","content":"# Changes\n\n- forks at any event\n"})
    · bash({"command":"wc -l < CHANGES.md","description":"Count the lines"})
    tokens: 28 in, 10 out, 6 from the cache
    "##);
    let written = fs::read_to_string(work(&home).join("CHANGES.md")).unwrap();
    assert_eq!(written, "# Changes\n\n- forks at any event\n");
}

#[test]
fn a_named_model_in_the_environment_does_not_stand_in_the_way() {
    let home = TestHome::new();
    let output = offshoot(&home)
        .env("OFFSHOOT_MODEL", "nobody/nothing")
        .args([
            "run",
            "--replay",
            fixture("answer.jsonl").to_str().unwrap(),
            "How much?",
        ])
        .run()
        .success();
    assert_eq!(output.stdout_text(), "Two stamps.\n");
}

#[test]
fn a_session_of_the_home_can_be_the_recording_but_a_fork_only_with_answers_of_its_own() {
    let home = TestHome::new();
    let replayed = |id: &str| run(&home, ["run", "--replay", id, "--json", "How much?"]);
    let first = replayed(fixture("answer.jsonl").to_str().unwrap()).success();
    let first = crate::support::session_of(&first);
    let second = replayed(&first).success();
    assert_eq!(crate::support::json_lines(&second).1["text"], "Two stamps.");
    drop(run(&home, ["fork", &first, "--id", "silent"]).success());
    let output = run(&home, ["run", "--replay", "silent", "How much?"]);
    assert_eq!(output.code(), Some(1));
    assert!(
        output
            .stderr_text()
            .contains("it holds no answer of a model of its own"),
        "{output}"
    );
}

#[test]
fn a_recording_without_answers_is_refused_before_anything_is_made() {
    let home = TestHome::new();
    let silent = file(&home, "silent.jsonl", demo_up_to(9));
    let output = run(
        &home,
        ["run", "--replay", silent.to_str().unwrap(), "Hello?"],
    );
    assert_snapshot!(seen(&output), @r##"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `[user]/silent.jsonl`: it holds no answer of a model of its own
    hint: name a recording in which a model has answered
    "##);
    assert!(home.bytes_of_tree().is_empty());
}

#[test]
fn a_recording_that_is_used_up_fails_the_turn_and_keeps_the_log() {
    let home = TestHome::new();
    // Its one answer asks for tools; what comes then was not recorded.
    let short = file(&home, "short.jsonl", demo_up_to(15));
    let output = offshoot(&home)
        .current_dir(work(&home))
        .args(["run", "--replay", short.to_str().unwrap(), "Go."])
        .run();
    assert_snapshot!(seen(&output), @r##"
    exit code: 3
    ----- stdout -----
    I will write the file and then count its lines.
    ----- stderr -----
    session session-[uuid]
    · write({"file_path":"CHANGES.md","content":"# Changes\n\n- forks at any event\n"})
    · bash({"command":"wc -l < CHANGES.md","description":"Count the lines"})
    tokens: 14 in, 5 out, 3 from the cache
    error: session asked for model call #2 but its script has only 1 (SCRIPT_EXHAUSTED)
    hint: what was said so far is kept; go on with: offshoot run --session session-[uuid] PROMPT
    "##);
}
