//! `offshoot show`: the ledger, the messages, the rows as they are stored.

use insta::assert_snapshot;
use offshoot_test_support::TestHome;
use serde_json::Value;

use crate::support::{demo, demo_up_to, file, fixture, json, run, seen};

fn shown(args: &[&str]) -> String {
    let home = TestHome::new();
    let demo = demo();
    let mut all = vec!["show", demo.to_str().unwrap()];
    all.extend(args);
    let output = run(&home, all).success();
    assert!(home.bytes_of_tree().is_empty(), "reading writes nothing");
    seen(&output)
}

#[test]
fn the_ledger_has_a_line_for_each_event() {
    assert_snapshot!(shown(&[]), @r##"
    exit code: 0
    ----- stdout -----
    session  session-demo
    title    Start a CHANGES.md that says forks work at
    works in /work/demo
    created  [moment]
    events   20

         0  agent/inbox/spliced    next-turn: 1 queued
         1  turn/start             turn 1
         2  agent/inbox/spliced    next-turn: 1 claimed
         3  step/start             turn 1, step 1
         4  system/message         You are Offshoot, an agent that works on a person's files through tools. - Look before yo…
         5  user/message           Start a CHANGES.md that says forks work at any event, and tell me how long it is.
         6  user/message           (runtime-context) This is where you work now; it replaces what was said before. Current w…
         7  request/header         initial: scripted/scripted-1
         8  request/context        scripted-1
         9  session/title          Start a CHANGES.md that says forks work at
        10  assistant/message      I will write the file and then count its lines. [write call_write] [bash call_count]
        11  tool/call              call_write: write({"file_path":"CHANGES.md","content":"# Changes\n\n- forks at any event\…
        12  tool/result            call_write: <path>/work/demo/CHANGES.md</path> <type>file</type> <content> Created file <…
        13  tool/call              call_count: bash({"command":"wc -l < CHANGES.md","description":"Count the lines"})
        14  tool/result            call_count: 3
        15  step/end               turn 1, step 1
        16  step/start             turn 1, step 2
        17  assistant/message      `CHANGES.md` should have 3 lines now; `wc -l CHANGES.md` tells for sure.
        18  step/end               turn 1, step 2
        19  turn/end               turn 1: completed
    ----- stderr -----
    "##);
    assert_eq!(shown(&["--events"]), shown(&[]));
}

#[test]
fn a_range_is_shown_alone_and_includes_both_ends() {
    assert_snapshot!(shown(&["--from", "11", "--to", "13"]), @r##"
    exit code: 0
    ----- stdout -----
    session  session-demo
    title    Start a CHANGES.md that says forks work at
    works in /work/demo
    created  [moment]
    events   20

        11  tool/call              call_write: write({"file_path":"CHANGES.md","content":"# Changes\n\n- forks at any event\…
        12  tool/result            call_write: <path>/work/demo/CHANGES.md</path> <type>file</type> <content> Created file <…
        13  tool/call              call_count: bash({"command":"wc -l < CHANGES.md","description":"Count the lines"})
    ----- stderr -----
    "##);
}

#[test]
fn messages_are_told_in_full_with_who_answers_what() {
    assert_snapshot!(shown(&["--messages", "--from", "5"]), @r##"
    exit code: 0
    ----- stdout -----
    ── 5 (user)
    Start a CHANGES.md that says forks work at any event, and tell me how long it is.

    ── 6 (user)
    This is where you work now; it replaces what was said before.

    Current working directory: /work/demo

    Tools may change files below the working directory and temporary files, and no others. A call that needs more has to ask for permission.

    ── 10 (assistant)
    I will write the file and then count its lines.

    [call call_write: write({"file_path":"CHANGES.md","content":"# Changes\n\n- forks at any event\n"})]

    [call call_count: bash({"command":"wc -l < CHANGES.md","description":"Count the lines"})]

    ── 12 (tool, answers call_write)
    <path>/work/demo/CHANGES.md</path>
    <type>file</type>
    <content>
    Created file
    </content>

    ── 14 (tool, answers call_count)
    3

    ── 17 (assistant)
    `CHANGES.md` should have 3 lines now; `wc -l CHANGES.md` tells for sure.

    ----- stderr -----
    "##);
}

#[test]
fn events_as_json_are_the_rows_exactly_as_they_are_stored() {
    let home = TestHome::new();
    let output = run(
        &home,
        [
            "show".as_ref(),
            demo().as_os_str(),
            "--events".as_ref(),
            "--json".as_ref(),
        ],
    )
    .success();
    let stored = std::fs::read_to_string(demo()).unwrap();
    let rows: Vec<&str> = stored.lines().skip(1).collect();
    assert_eq!(
        output.stdout_text(),
        format!("[\n{}\n]\n", rows.join(",\n"))
    );
    assert_eq!(json(&output).as_array().unwrap().len(), 20);
}

#[test]
fn messages_as_json_are_what_the_model_is_told_exactly_as_it_is_stored() {
    let home = TestHome::new();
    let output = run(
        &home,
        [
            "show".as_ref(),
            demo().as_os_str(),
            "--messages".as_ref(),
            "--json".as_ref(),
            "--from".as_ref(),
            "10".as_ref(),
            "--to".as_ref(),
            "14".as_ref(),
        ],
    )
    .success();
    let shown = json(&output);
    let stored = std::fs::read_to_string(demo()).unwrap();
    let stored: Vec<Value> = [10, 12, 14]
        .map(|seq| stored.lines().nth(seq + 1).unwrap())
        .map(|row| serde_json::from_str::<Value>(row).unwrap()["data"]["message"].take())
        .to_vec();
    assert_eq!(shown, Value::Array(stored));
}

#[test]
fn what_is_left_open_is_said_below_the_ledger() {
    let home = TestHome::new();
    let crashed = file(&home, "crashed.jsonl", demo_up_to(13));
    let output = run(&home, ["show", crashed.to_str().unwrap(), "--from", "13"]).success();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    session  session-demo
    title    Start a CHANGES.md that says forks work at
    works in /work/demo
    created  [moment]
    events   14

        13  tool/call              call_count: bash({"command":"wc -l < CHANGES.md","description":"Count the lines"})

    note: turn 1 is open; going on with the session, or forking it, closes it truthfully
    ----- stderr -----
    "#);

    let mut torn = demo_up_to(11);
    torn.push_str(r#"{"type":"tool/resu"#);
    let torn = file(&home, "torn.jsonl", torn);
    let output = run(&home, ["show", torn.to_str().unwrap(), "--from", "11"]).success();
    assert_snapshot!(seen(&output), @r##"
    exit code: 0
    ----- stdout -----
    session  session-demo
    title    Start a CHANGES.md that says forks work at
    works in /work/demo
    created  [moment]
    events   12

        11  tool/call              call_write: write({"file_path":"CHANGES.md","content":"# Changes\n\n- forks at any event\…

    note: the line was cut off (18 bytes); going on with the session repairs it

    note: turn 1 is open; going on with the session, or forking it, closes it truthfully
    ----- stderr -----
    "##);
}

#[test]
fn a_session_that_cannot_go_on_says_where_to_fork_it() {
    let home = TestHome::new();
    let broken = fixture("closed-step.jsonl");
    let output = run(&home, ["show", broken.to_str().unwrap(), "--from", "6"]).success();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    session  closed-step
    created  [moment]
    events   9

         6  tool/call              call_weigh: weigh({})
         7  step/end               turn 1, step 1
         8  turn/end               turn 1: error

    note: this session cannot be continued: event 7 closed a step although the tool call `call_weigh` had no result; a provider refuses such a conversation; fork it at 6 instead
    ----- stderr -----
    "#);
}

#[test]
fn a_log_cannot_move_the_cursor_of_whoever_reads_it() {
    let home = TestHome::new();
    let answer = std::fs::read_to_string(fixture("answer.jsonl")).unwrap();
    let answer = answer.replace("Two stamps.", r"Two\u001b[31m stamps\u0007.\r\nYes.");
    let answer = file(&home, "answer.jsonl", answer);
    let output = run(
        &home,
        ["show", answer.to_str().unwrap(), "--from", "5", "--to", "5"],
    );
    assert_snapshot!(seen(&output.success()), @r#"
    exit code: 0
    ----- stdout -----
    session  answer
    created  [moment]
    events   8

         5  assistant/message      Two [31m stamps . Yes.
    ----- stderr -----
    "#);
    let output = run(
        &home,
        [
            "show",
            answer.to_str().unwrap(),
            "--messages",
            "--from",
            "5",
        ],
    );
    assert_snapshot!(seen(&output.success()), @r#"
    exit code: 0
    ----- stdout -----
    ── 5 (assistant)
    Two␛[31m stamps␇.
    Yes.

    ----- stderr -----
    "#);
}
