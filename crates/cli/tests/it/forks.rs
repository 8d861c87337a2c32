//! `offshoot fork`: any event, with truthful closers, and the source untouched.

use std::fs;

use insta::assert_snapshot;
use offshoot_test_support::TestHome;
use serde_json::{Value, json};

use crate::support::{demo, demo_up_to, events, file, fixture, json, run, seen, types};

#[test]
fn a_fork_in_the_middle_of_a_call_says_what_closed_it() {
    let home = TestHome::new();
    let before = fs::read(demo()).unwrap();
    let output = run(
        &home,
        [
            "fork".as_ref(),
            demo().as_os_str(),
            "--at".as_ref(),
            "11".as_ref(),
            "--id".as_ref(),
            "child".as_ref(),
        ],
    );
    assert_snapshot!(seen(&output.success()), @r#"
    exit code: 0
    ----- stdout -----
    child
      forked from session-demo at event 11: 12 events inherited
        12  session/end-seed       inherited up to here
        13  tool/result            call_write: TOOL_OUTCOME_UNKNOWN This conversation was branched off while the tool call w…
        14  tool/result            call_count: TOOL_NOT_STARTED This conversation was branched off before the tool call was …
        15  step/end               turn 1, step 1
        16  turn/end               turn 1: forked

    go on with it: offshoot run --session child PROMPT
    ----- stderr -----
    note: files that the original changed behind the cut, which the fork finds as they are now: `/work/demo/CHANGES.md` (made there)
    note: the original also ran commands behind the cut; what they changed is not known
    "#);
    assert_eq!(fs::read(demo()).unwrap(), before);
}

#[test]
fn a_fork_as_json_is_its_cut_and_its_closers_as_they_are_stored() {
    let home = TestHome::new();
    let output = run(
        &home,
        [
            "fork".as_ref(),
            demo().as_os_str(),
            "--at".as_ref(),
            "11".as_ref(),
            "--id".as_ref(),
            "child".as_ref(),
            "--json".as_ref(),
        ],
    )
    .success();
    let report = json(&output);
    let stored = events(&home, "child");
    assert_eq!(
        report,
        json!({
            "session": "child",
            "parent": "session-demo",
            "cut": 11,
            "inherited_event_count": 12,
            "closers": stored[12..],
            "changed_after_cut": report["changed_after_cut"],
        })
    );
    assert_eq!(
        types(&stored[12..]),
        [
            "session/end-seed",
            "tool/result",
            "tool/result",
            "step/end",
            "turn/end"
        ]
    );
    let closers = &stored[12..];
    assert_eq!(closers[0]["data"], json!({"inherited": true}));
    assert_eq!(closers[1]["data"]["error"]["code"], "TOOL_OUTCOME_UNKNOWN");
    assert_eq!(closers[1]["sourceEventSeqs"], json!([11]));
    assert_eq!(closers[2]["data"]["error"]["code"], "TOOL_NOT_STARTED");
    assert_eq!(closers[2].get("sourceEventSeqs"), None);
    assert_eq!(closers[4]["data"]["reason"], json!({"kind": "forked"}));
    let boundary = &stored[11]["time"];
    assert!(closers.iter().all(|closer| closer["time"] == *boundary));
}

#[test]
fn without_a_cut_the_last_completed_turn_is_it() {
    let home = TestHome::new();
    let report = json(&run(
        &home,
        ["fork".as_ref(), demo().as_os_str(), "--json".as_ref()],
    ));
    assert_eq!(
        (&report["cut"], &report["inherited_event_count"]),
        (&json!(19), &json!(20))
    );
    let session = report["session"].as_str().unwrap();

    // A fork of a fork, by its id, with what it inherited and what is its own.
    let again = json(&run(&home, ["fork", session, "--json"]).success());
    assert_eq!(
        (&again["parent"], &again["cut"]),
        (&json!(session), &json!(20))
    );
}

#[test]
fn every_event_can_be_the_cut() {
    let home = TestHome::new();
    for cut in 0..20_u64 {
        let id = format!("at-{cut}");
        let cut_text = cut.to_string();
        let args = [
            "fork".into(),
            demo().into_os_string(),
            "--at".into(),
            cut_text.into(),
            "--id".into(),
            id.clone().into(),
            "--json".into(),
        ];
        let report = json(&run(&home, args).success());
        assert_eq!(report["inherited_event_count"], cut + 1);
        let checked = json(&run(&home, ["check", &id, "--json"]).success());
        assert_eq!(checked[0]["status"], "ok");
    }
}

#[test]
fn a_fork_that_no_provider_would_accept_says_so() {
    let home = TestHome::new();
    let broken = fixture("closed-step.jsonl");
    let broken = broken.to_str().unwrap();
    let output = run(&home, ["fork", broken, "--id", "stuck"]).success();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    stuck
      forked from closed-step at event 8: 9 events inherited
         9  session/end-seed       inherited up to here

    note: this session cannot be continued: event 7 closed a step although the tool call `call_weigh` had no result; a provider refuses such a conversation; fork it at 6 instead
    ----- stderr -----
    "#);

    // The cut that it names goes on.
    let output = run(&home, ["fork", broken, "--at", "6", "--id", "free"]).success();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    free
      forked from closed-step at event 6: 7 events inherited
         7  session/end-seed       inherited up to here
         8  tool/result            call_weigh: TOOL_OUTCOME_UNKNOWN This conversation was branched off while the tool call w…
         9  step/end               turn 1, step 1
        10  turn/end               turn 1: forked

    go on with it: offshoot run --session free PROMPT
    ----- stderr -----
    "#);
}

#[test]
fn where_no_turn_has_ended_a_cut_must_be_named() {
    let home = TestHome::new();
    let crashed = file(&home, "crashed.jsonl", demo_up_to(13));
    let output = run(&home, ["fork", crashed.to_str().unwrap()]);
    assert_snapshot!(seen(&output), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `[user]/crashed.jsonl`: no turn of session `session-demo` has ended, so there is no cut to fork at by default
    hint: name an event with --at; these are its events: offshoot show [user]/crashed.jsonl
    "#);
    assert!(home.bytes_of_tree().is_empty());
}

#[test]
fn ids_stay_in_the_home_whatever_they_look_like() {
    let home = TestHome::new();
    for id in ["../../escaped", ".", "..", "/etc/x", "a b'c", "ä😀"] {
        let args = [
            "fork".into(),
            demo().into_os_string(),
            "--id".into(),
            id.into(),
            "--json".into(),
        ];
        assert_eq!(json(&run(&home, args).success())["session"], id);
        let listed = json(&run(&home, ["ls", "--json"]).success());
        let listed = listed.as_array().unwrap();
        assert!(
            listed
                .iter()
                .any(|row| row["id"] == id && row["status"] == "ok")
        );
        assert_eq!(events(&home, id).len(), 21, "{id}");
    }
    let parent = home.path().parent().unwrap();
    let mut beside: Vec<_> = fs::read_dir(parent)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    beside.sort();
    assert_eq!(beside, ["home", "user"]);
}

#[test]
fn an_id_that_is_taken_is_refused_and_the_session_stays_as_it_is() {
    let home = TestHome::new();
    let args = [
        "fork".into(),
        demo().into_os_string(),
        "--id".into(),
        "child".into(),
    ];
    drop(run(&home, args.clone()).success());
    let before = home.bytes_of_tree();
    assert_snapshot!(seen(&run(&home, args)), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: session `child` exists already at `[home]/sessions/--work-demo--/child/session.v4.jsonl.zstd`
    hint: choose another id, or leave --id out for a new one
    "#);
    assert_eq!(home.bytes_of_tree(), before);
}

#[test]
fn a_name_that_is_a_session_and_a_file_is_the_session_and_says_so() {
    let home = TestHome::new();
    drop(
        run(
            &home,
            [
                "fork".as_ref(),
                demo().as_os_str(),
                "--id".as_ref(),
                "answer.jsonl".as_ref(),
            ],
        )
        .success(),
    );
    file(
        &home,
        "answer.jsonl",
        fs::read(fixture("answer.jsonl")).unwrap(),
    );

    let output = run(&home, ["show", "answer.jsonl", "--from", "20"]).success();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    session  answer.jsonl
    title    Start a CHANGES.md that says forks work at
    parent   session-demo, forked at 19
    works in /work/demo
    created  [moment]
    events   21

        20  session/end-seed       inherited up to here
    ----- stderr -----
    note: answer.jsonl is a session of the home, and a file here; this is the session; the file would be ./answer.jsonl
    "#);
    let output = run(&home, ["show", "./answer.jsonl", "--from", "7"]).success();
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    session  answer
    created  [moment]
    events   8

         7  turn/end               turn 1: completed
    ----- stderr -----
    "#);
    // Notes are JSON where JSON was asked for, and never in the output.
    let output = run(&home, ["show", "answer.jsonl", "--json", "--from", "20"]).success();
    assert_eq!(json(&output).as_array().unwrap().len(), 1);
    let note: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(note["type"], "note");
}
