//! `offshoot check`: every argument gets its verdict, and nothing is written.

use std::fs;

use insta::assert_snapshot;
use offshoot_test_support::{TestHome, corpus};
use serde_json::json;

use crate::support::{Fifo, demo, demo_up_to, file, fixture, json, run, seen};

#[test]
fn every_argument_is_judged_whatever_is_wrong_with_the_others() {
    let home = TestHome::new();
    drop(
        run(
            &home,
            [
                "fork".as_ref(),
                demo().as_os_str(),
                "--id".as_ref(),
                "stored".as_ref(),
            ],
        )
        .success(),
    );
    let before = home.bytes_of_tree();
    file(&home, "open.jsonl", demo_up_to(13));
    file(&home, "torn.jsonl", &demo_up_to(13).as_bytes()[..8_000]);
    file(
        &home,
        "closed-step.jsonl",
        fs::read(fixture("closed-step.jsonl")).unwrap(),
    );
    let output = run(
        &home,
        [
            "check",
            "missing.jsonl",
            "stored",
            "nobody",
            ".",
            "open.jsonl",
            "torn.jsonl",
            "closed-step.jsonl",
        ],
    );
    assert_eq!(output.code(), Some(1));
    assert_snapshot!(seen(&output), @r#"
    exit code: 1
    ----- stdout -----
    missing.jsonl: unreadable
      could not read `missing.jsonl`: No such file or directory (os error 2)
      hint: name a file that is there, or a session's id as `offshoot ls` shows it
    [home]/sessions/--work-demo--/stored/session.v4.jsonl.zstd: ok (21 events)
    nobody: unreadable
      session `nobody` was not found in `[home]/sessions`
      hint: `offshoot ls` shows the sessions that are there
    .: unreadable
      `.` is a directory
      hint: name the session file in it, such as `session.v4.jsonl.zstd`
    open.jsonl: ok (14 events)
    torn.jsonl: torn (7 events)
      line 9: the line was cut off; 5520 bytes from byte 2480 on
      where: line 9, seq 7, byte 2480; what a crash left of a record, nothing that was committed
      hint: everything before it is sound; going on with the session repairs it
    closed-step.jsonl: ok (9 events)
      UNANSWERED_CALLS: event 7 closed a step although `call_weigh` had no result
      hint: it cannot go on as it is; a fork at 6, where the step is still open, can
    ----- stderr -----
    "#);
    assert_eq!(home.bytes_of_tree(), before);
}

#[test]
fn sound_files_alone_give_0() {
    let home = TestHome::new();
    let output = run(&home, ["check".as_ref(), demo().as_os_str()]);
    assert_snapshot!(seen(&output), @r#"
    exit code: 0
    ----- stdout -----
    [cli]/assets/demo.jsonl: ok (20 events)
    ----- stderr -----
    "#);
}

#[test]
fn verdicts_as_json_have_stable_names() {
    let home = TestHome::new();
    file(&home, "ok.jsonl", fs::read(demo()).unwrap());
    file(
        &home,
        "torn.jsonl",
        [demo_up_to(11).as_bytes(), b"{\"type\""].concat(),
    );
    file(
        &home,
        "findings.jsonl",
        fs::read(fixture("closed-step.jsonl")).unwrap(),
    );
    file(
        &home,
        "gap.jsonl",
        fs::read_to_string(demo())
            .unwrap()
            .replacen(r#""seq":3,"#, r#""seq":4,"#, 1),
    );
    let output = run(
        &home,
        [
            "check",
            "--json",
            "ok.jsonl",
            "torn.jsonl",
            "findings.jsonl",
            "gap.jsonl",
            "missing.jsonl",
        ],
    );
    assert_eq!(output.code(), Some(1));
    let mut verdicts = json(&output);
    // What is said in words is shown elsewhere; here it only has to be there.
    for verdict in verdicts.as_array_mut().unwrap() {
        for name in ["reason", "hint"] {
            if let Some(text) = verdict.get_mut(name) {
                assert!(!text.as_str().unwrap().is_empty());
                *text = json!("…");
            }
        }
    }
    assert_eq!(
        verdicts,
        json!([
            {"file": "ok.jsonl", "status": "ok", "format": "current", "version": 4},
            {"file": "torn.jsonl", "status": "torn", "format": "current", "version": 4, "line": 14, "seq": 12, "byte": 15487, "code": "TORN_TAIL", "reason": "…", "hint": "…"},
            {"file": "findings.jsonl", "status": "ok", "format": "current", "version": 4, "findings": [{
                "code": "UNANSWERED_CALLS",
                "seq": 7,
                "reason": "event 7 closed a step although `call_weigh` had no result",
                "hint": "it cannot go on as it is; a fork at 6, where the step is still open, can",
            }]},
            {"file": "gap.jsonl", "status": "damaged", "format": "malformed", "version": 4, "line": 5, "seq": 3, "byte": 623, "code": "DAMAGED_LOG", "reason": "…", "hint": "…"},
            {"file": "missing.jsonl", "status": "unreadable", "code": "IO_ERROR", "reason": "…", "hint": "…"},
        ])
    );
}

#[test]
fn recorded_sessions_of_other_programs_are_sound_or_older_ones_say_why_they_cannot_be_brought_up() {
    let Some(_) = corpus::corpus_dir() else {
        return corpus::skip_notice(
            "recorded_sessions_of_other_programs_are_sound_or_older_ones_say_why_they_cannot_be_brought_up",
        );
    };
    let home = TestHome::new();
    for (version, format) in [
        "migration-required",
        "migration-required",
        "migration-required",
        "migration-required",
        "current",
    ]
    .into_iter()
    .enumerate()
    {
        let files = corpus::files(format!("v{version}-completed"));
        let mut args = vec!["check".into(), "--deep".into(), "--json".into()];
        args.extend(files.iter().map(|file| file.as_os_str().to_owned()));
        let verdicts = json(&run(&home, args));
        assert_eq!(verdicts.as_array().unwrap().len(), files.len());
        let mut opened = 0;
        for verdict in verdicts.as_array().unwrap() {
            assert_eq!(verdict["version"], version, "{verdict}");
            match verdict["status"].as_str().unwrap() {
                "ok" => {
                    opened += 1;
                    assert_eq!(verdict["format"], format, "{verdict}");
                }
                // See the corpus's own table of refusals.
                "unsupported" if version < 4 => assert_eq!(verdict["format"], "unsupported"),
                "damaged" if version < 4 => assert_eq!(verdict["format"], "malformed"),
                _ => panic!("{verdict}"),
            }
        }
        assert!(opened * 2 > files.len(), "version {version}: {opened}");
    }
    assert!(home.bytes_of_tree().is_empty());
}

#[test]
fn of_two_bad_steps_the_hint_names_the_cut_that_a_fork_can_go_on_from() {
    let home = TestHome::new();
    let mut text = fs::read_to_string(fixture("closed-step.jsonl")).unwrap();
    for (seq, kind, data, shown) in [
        (9, "turn/start", json!({"turn": 2}), false),
        (10, "step/start", json!({"turn": 2, "step": 1}), false),
        (
            11,
            "assistant/message",
            json!({"turn": 2, "step": 1, "stream": [], "message": {"id": "m4", "role": "assistant",
                "content": [{"type": "tool-call", "id": "call_again", "name": "weigh", "arguments": "{}"}],
                "source": {"kind": "model", "provider": "post", "model": "clerk-1"}}}),
            true,
        ),
        (12, "step/end", json!({"turn": 2, "step": 1}), false),
        (
            13,
            "turn/end",
            json!({"turn": 2, "reason": {"kind": "completed"}}),
            false,
        ),
    ] {
        let op = if shown {
            r#","surfaceOp":"append""#
        } else {
            ""
        };
        text += &format!(r#"{{"type":"{kind}","seq":{seq},"time":0,"data":{data}{op}}}"#);
        text.push('\n');
    }
    file(&home, "two.jsonl", text);
    let verdicts = json(&run(&home, ["check", "two.jsonl", "--json"]).success());
    let findings = verdicts[0]["findings"].as_array().unwrap();
    let seqs: Vec<_> = findings.iter().map(|finding| &finding["seq"]).collect();
    assert_eq!(seqs, [7, 12]);
    for finding in findings {
        let hint = finding["hint"].as_str().unwrap();
        assert!(hint.contains("a fork at 6,"), "{hint}");
    }
    let fork = run(&home, ["fork", "two.jsonl", "--at", "6", "--id", "good"]);
    drop(fork.success());
    let verdicts = json(&run(&home, ["check", "good", "--json"]).success());
    assert_eq!(verdicts[0].get("findings"), None);
}

#[test]
fn a_session_that_is_deleted_while_the_home_is_checked_is_left_out_with_a_note() {
    let home = TestHome::new();
    for id in ["first", "second"] {
        drop(run(&home, ["fork", demo().to_str().unwrap(), "--id", id]).success());
    }
    // Whoever reads the first session waits here, when the list of sessions is made.
    let dir = home.path().join("sessions/--work-demo--/first");
    Fifo::new(&dir, "attempt.journal");
    let output = std::thread::scope(|scope| {
        let checking = scope.spawn(|| run(&home, ["check", "--json"]));
        let held = fs::OpenOptions::new()
            .write(true)
            .open(dir.join("attempt.journal"));
        drop(run(&home, ["rm", "second"]).success());
        drop(held.unwrap());
        checking.join().unwrap()
    })
    .success();
    let checked = json(&output);
    assert_eq!(checked.as_array().unwrap().len(), 1, "{output}");
    assert_eq!(checked[0]["status"], "ok");
    let note: serde_json::Value = serde_json::from_str(&output.stderr_text()).unwrap();
    let expected = "note: session `second` was deleted meanwhile and is left out";
    assert_eq!(note["message"], expected);
}
