//! Files that are no session, or a damaged one: every command says the same, exactly where and why, and writes nothing.

use std::ffi::OsString;
use std::fs;

use insta::assert_snapshot;
use offshoot_test_support::TestHome;

use crate::support::{demo, file, fixture, json, run};

fn rows() -> Vec<String> {
    let demo = fs::read_to_string(demo()).unwrap();
    demo.lines().map(str::to_owned).collect()
}

fn lines(rows: &[String]) -> Vec<u8> {
    format!("{}\n", rows.join("\n")).into_bytes()
}

/// Name, and what is in it.
fn bad_files() -> Vec<(&'static str, Vec<u8>)> {
    let good = rows();
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut rows = good.clone();
        change(&mut rows);
        lines(&rows)
    };
    let mut not_utf8 = lines(&good);
    let at = not_utf8
        .windows(6)
        .position(|bytes| bytes == b"I will")
        .unwrap();
    not_utf8[at] = 0xff;
    vec![
        ("empty.jsonl", Vec::new()),
        ("half-header.jsonl", good[0].as_bytes()[..40].to_vec()),
        ("letter.txt", b"Dear Anna,\nthe weather is fine.\n".to_vec()),
        ("bad-json.jsonl", with(&|rows| rows[3] = "{nope".to_owned())),
        (
            "unknown-event.jsonl",
            with(&|rows| {
                rows.insert(
                    3,
                    r#"{"type":"alien/landed","seq":2,"time":1,"data":{}}"#.to_owned(),
                );
            }),
        ),
        (
            "newer.jsonl",
            with(&|rows| rows[0] = rows[0].replace(r#""version":4"#, r#""version":5"#)),
        ),
        (
            "no-version.jsonl",
            with(&|rows| rows[0] = rows[0].replace(r#""version":4,"#, "")),
        ),
        ("seq-gap.jsonl", with(&|rows| drop(rows.remove(5)))),
        (
            "seq-twice.jsonl",
            with(&|rows| rows.insert(5, rows[5].clone())),
        ),
        ("not-utf8.jsonl", not_utf8),
        (
            "lone-surrogate.jsonl",
            with(&|rows| rows[0] = rows[0].replace("session-demo", r"a\ud800b")),
        ),
        ("raw.zstd", lines(&good)),
    ]
}

#[test]
fn each_is_refused_with_its_path_its_line_and_the_reason_and_nothing_is_written() {
    let home = TestHome::new();
    drop(
        run(
            &home,
            [
                "fork".as_ref(),
                demo().as_os_str(),
                "--id".as_ref(),
                "neighbour".as_ref(),
            ],
        )
        .success(),
    );
    let before = home.bytes_of_tree();
    let replay = fixture("answer.jsonl").into_os_string();
    let mut all = String::new();
    for (name, bytes) in bad_files() {
        let path = file(&home, name, &bytes);
        let shown = run(&home, ["show", name]);
        let said = shown.stderr_text();
        all.push_str(&said);
        all.push('\n');
        let others: [&[OsString]; 5] = [
            &["show".into(), name.into(), "--messages".into()],
            &["show".into(), name.into(), "--request".into(), "1".into()],
            &["fork".into(), name.into(), "--at".into(), "1".into()],
            &[
                "run".into(),
                "--fork".into(),
                name.into(),
                "--replay".into(),
                replay.clone(),
                "Go.".into(),
            ],
            &["demo".into(), "--from".into(), name.into()],
        ];
        for args in others {
            let output = run(&home, args);
            assert_eq!(
                (output.code(), output.stderr_text()),
                (Some(1), said.clone()),
                "{args:?}"
            );
            assert!(output.stdout.is_empty(), "{output}");
        }
        assert_eq!(shown.code(), Some(1));
        let replayed = run(&home, ["run", "--replay", name, "Go."]);
        assert_eq!(
            (replayed.code(), replayed.stderr_text()),
            (Some(1), said.clone())
        );

        // The verdict says the same, and a list beside it is complete.
        let checked = run(&home, ["check", "--json", name, "neighbour"]);
        let verdicts = json(&checked);
        let reason = verdicts[0]["reason"].as_str().unwrap();
        assert!(said.contains(reason), "{said}{reason}");
        assert_eq!(verdicts[1]["status"], "ok");
        assert_eq!(fs::read(path).unwrap(), bytes);
    }
    assert_eq!(home.bytes_of_tree(), before);
    assert_eq!(
        json(&run(&home, ["ls", "--json"]).success())[0]["id"],
        "neighbour"
    );
    assert_snapshot!(all, @r#"
    error: `empty.jsonl`: the file has no complete header line (0 bytes)
    hint: it never got as far as its first event; make sure that it is no other kind of file before you delete it

    error: `half-header.jsonl`: the file has no complete header line (40 bytes)
    hint: it never got as far as its first event; make sure that it is no other kind of file before you delete it

    error: `letter.txt`: line 1: expected a session header: expected value (byte 1)
    hint: check that this is a session file

    error: `bad-json.jsonl`: line 4: not a valid event row: key must be a string (byte 2); a later turn/end (event 19) shows that this was committed
    hint: the file was left as it is; restore it from a backup, or make a new session of its good part with `offshoot salvage bad-json.jsonl --to HOME`

    error: `unknown-event.jsonl`: line 4: event 2 has the required type `alien/landed`, which this version does not know
    hint: the file is intact; open it with the version that wrote it, or with a newer one

    error: `newer.jsonl`: the file has format version 5; this program reads versions 0 to 4: it was written by a newer one
    hint: the file is intact; open it with the version that wrote it, or with a newer one

    error: `no-version.jsonl`: line 1: expected a session header, found no numeric `version`
    hint: check that this is a session file

    error: `seq-gap.jsonl`: line 6: expected seq 4, found 5; a later turn/end (event 19) shows that this was committed
    hint: the file was left as it is; restore it from a backup, or make a new session of its good part with `offshoot salvage seq-gap.jsonl --to HOME`

    error: `seq-twice.jsonl`: line 7: expected seq 5, found 4; a later turn/end (event 19) shows that this was committed
    hint: the file was left as it is; restore it from a backup, or make a new session of its good part with `offshoot salvage seq-twice.jsonl --to HOME`

    error: `not-utf8.jsonl`: line 12: not UTF-8 (byte 165 of the line); a later turn/end (event 19) shows that this was committed
    hint: the file was left as it is; restore it from a backup, or make a new session of its good part with `offshoot salvage not-utf8.jsonl --to HOME`

    error: `lone-surrogate.jsonl`: line 1: a string has half of a surrogate pair, which is no character (byte 44)
    hint: check that this is a session file

    error: `raw.zstd`: byte 0: expected the start of a zstd frame
    hint: the file was left as it is; restore it from a backup, or check that this is a session file
    "#);
}

#[test]
fn files_that_are_not_there_or_no_files_are_named() {
    let home = TestHome::new();
    fs::create_dir(home.user_path().join("folder")).unwrap();
    let mut all = String::new();
    for args in [
        vec!["show", "missing.jsonl"],
        vec!["fork", "no/such/file"],
        vec!["run", "--replay", "missing.jsonl", "Go."],
        vec!["demo", "--from", "missing.jsonl"],
        vec!["show", "folder"],
        vec!["fork", "./folder"],
        vec!["run", "--replay", "folder", "Go."],
        vec!["demo", "--from", "folder"],
        vec!["show", "/dev/zero"],
        vec!["show", "nobody"],
        vec!["fork", "nobody"],
        vec!["run", "--session", "nobody", "Go."],
        vec!["run", "--fork", "nobody", "Go."],
    ] {
        let output = run(&home, &args);
        assert_eq!(output.code(), Some(1), "{output}");
        all.push_str(&format!("{}\n{}\n", args.join(" "), output.stderr_text()));
    }
    assert_snapshot!(all, @r#"
    show missing.jsonl
    error: could not read `missing.jsonl`: No such file or directory (os error 2)
    hint: name a file that is there, or a session's id as `offshoot ls` shows it

    fork no/such/file
    error: could not read `no/such/file`: No such file or directory (os error 2)
    hint: name a file that is there, or a session's id as `offshoot ls` shows it

    run --replay missing.jsonl Go.
    error: could not read `missing.jsonl`: No such file or directory (os error 2)
    hint: name a file that is there, or a session's id as `offshoot ls` shows it

    demo --from missing.jsonl
    error: could not read `missing.jsonl`: No such file or directory (os error 2)
    hint: name a file that is there, or a session's id as `offshoot ls` shows it

    show folder
    error: `folder` is a directory
    hint: name the session file in it, such as `session.v4.jsonl.zstd`

    fork ./folder
    error: `./folder` is a directory
    hint: name the session file in it, such as `session.v4.jsonl.zstd`

    run --replay folder Go.
    error: `folder` is a directory
    hint: name the session file in it, such as `session.v4.jsonl.zstd`

    demo --from folder
    error: `folder` is a directory
    hint: name the session file in it, such as `session.v4.jsonl.zstd`

    show /dev/zero
    error: `/dev/zero` is a device, not a session file

    show nobody
    error: session `nobody` was not found in `[home]/sessions`
    hint: `offshoot ls` shows the sessions that are there

    fork nobody
    error: session `nobody` was not found in `[home]/sessions`
    hint: `offshoot ls` shows the sessions that are there

    run --session nobody Go.
    error: session `nobody` was not found in `[home]/sessions`
    hint: `offshoot ls` shows the sessions that are there

    run --fork nobody Go.
    error: session `nobody` was not found in `[home]/sessions`
    hint: `offshoot ls` shows the sessions that are there
    "#);
    assert!(home.bytes_of_tree().is_empty());
}

#[test]
fn a_header_alone_is_an_empty_session() {
    let home = TestHome::new();
    file(&home, "header.jsonl", lines(&rows()[..1]));
    let output = run(&home, ["check", "header.jsonl"]).success();
    assert_eq!(output.stdout_text(), "header.jsonl: ok (0 events)\n");
    assert_eq!(
        json(&run(&home, ["show", "header.jsonl", "--json"]).success()),
        serde_json::json!([])
    );
    let mut all = String::new();
    for args in [
        vec!["fork", "header.jsonl"],
        vec!["fork", "header.jsonl", "--at", "0"],
        vec!["show", "header.jsonl", "--request", "1"],
        vec!["show", "header.jsonl", "--from", "0"],
        vec!["demo", "--from", "header.jsonl"],
    ] {
        let output = run(&home, &args);
        assert_eq!(output.code(), Some(1), "{output}");
        all.push_str(&output.stderr_text());
    }
    assert_snapshot!(all, @r#"
    error: `header.jsonl`: no turn of session `session-demo` has ended, so there is no cut to fork at by default
    hint: it has no events, so there is nothing to fork yet
    error: `header.jsonl`: event 0 does not exist: the session has no events
    hint: it has no events, so there is nothing to fork yet
    error: `header.jsonl`: the session made 0 requests; there is no request 1
    error: `header.jsonl`: event 0 does not exist: the session has no events
    error: `header.jsonl` has no tool call to cut at
    hint: name a session in which a tool was called, or leave --from out
    "#);
    assert!(home.bytes_of_tree().is_empty());
}
