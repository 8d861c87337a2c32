//! Sessions of every format version: they open, say which version they have, and are left as they are.

use std::fs;

use insta::assert_snapshot;
use offshoot_test_support::{Reply, ScriptedModelServer, TestHome};
use serde_json::{Value, json};

use crate::support::{events, file, json, of_version, run, seen, turn, types};

fn with_all_versions() -> TestHome {
    let home = TestHome::new();
    for version in 0..=4 {
        file(&home, &format!("v{version}.jsonl"), of_version(version));
    }
    home
}

const FILES: [&str; 5] = ["v0.jsonl", "v1.jsonl", "v2.jsonl", "v3.jsonl", "v4.jsonl"];

#[test]
fn a_check_names_the_version_and_what_it_takes_to_read_it() {
    let home = with_all_versions();
    let checked = run(&home, ["check", "--json"].iter().chain(&FILES)).success();
    let verdict = |version: usize, format| json!({"file": FILES[version], "status": "ok", "format": format, "version": version});
    assert_eq!(
        json(&checked),
        json!([
            verdict(0, "migration-required"),
            verdict(1, "migration-required"),
            verdict(2, "migration-required"),
            verdict(3, "migration-required"),
            verdict(4, "current"),
        ])
    );
    assert_snapshot!(seen(&run(&home, ["check"].iter().chain(&FILES))), @r"
    exit code: 0
    ----- stdout -----
    v0.jsonl: ok (9 events)
      stored in format version 0, read as version 4, whose seqs are shown; `offshoot convert v0.jsonl` writes that as a file
    v1.jsonl: ok (9 events)
      stored in format version 1, read as version 4, whose seqs are shown; `offshoot convert v1.jsonl` writes that as a file
    v2.jsonl: ok (9 events)
      stored in format version 2, read as version 4, whose seqs are shown; `offshoot convert v2.jsonl` writes that as a file
    v3.jsonl: ok (8 events)
      stored in format version 3, read as version 4, whose seqs are shown; `offshoot convert v3.jsonl` writes that as a file
    v4.jsonl: ok (8 events)
    ----- stderr -----
    ");
    for (version, name) in FILES.iter().enumerate() {
        let bytes = fs::read_to_string(home.user_path().join(name)).unwrap();
        assert_eq!(bytes, of_version(version));
    }
    assert!(home.bytes_of_tree().is_empty());
}

#[test]
fn every_version_is_shown_as_the_same_conversation() {
    let home = with_all_versions();
    let messages = |name: &str| -> Vec<Value> {
        let shown = json(&run(&home, ["show", name, "--messages", "--json"]).success());
        let texts = shown.as_array().unwrap().iter();
        texts.map(|message| message["content"].clone()).collect()
    };
    let current = messages("v4.jsonl");
    for name in FILES {
        assert_eq!(messages(name), current, "{name}");
    }
    assert_eq!(
        types(&events(&home, "v0.jsonl")),
        [
            "turn/start",
            "step/start",
            "system/message",
            "user/message",
            "system/message",
            "request/header",
            "assistant/message",
            "step/end",
            "turn/end"
        ]
    );
    let shown = run(&home, ["show", "v0.jsonl"]).success().stdout_text();
    let said = "format   version 0, read as version 4; --stored shows the rows of the file\n";
    assert!(shown.contains(said), "{shown}");
}

#[test]
fn the_end_of_an_older_file_that_a_crash_has_cut_has_the_seq_of_the_current_version() {
    let home = TestHome::new();
    let whole = of_version(0);
    let end = whole.find(r#"{"type":"step/end""#).unwrap();
    file(&home, "torn.jsonl", &whole[..end + 20]);
    let checked = run(&home, ["check", "torn.jsonl"]);
    assert_eq!(checked.code(), Some(1));
    assert_snapshot!(seen(&checked), @r"
    exit code: 1
    ----- stdout -----
    torn.jsonl: torn (7 events)
      stored in format version 0, read as version 4, whose seqs are shown; `offshoot convert torn.jsonl` writes that as a file
      line 9: the line was cut off; 20 bytes from byte 1096 on
      where: line 9, seq 7, byte 1096; what a crash left of a record, nothing that was committed
      hint: everything before it is sound; going on with the session repairs it
    ----- stderr -----
    ");
}

#[test]
fn damage_in_an_older_file_has_the_seq_of_the_file() {
    let home = TestHome::new();
    let gap = of_version(2).replacen(r#""seq":3,"#, r#""seq":5,"#, 1);
    file(&home, "gap.jsonl", gap);
    assert_snapshot!(seen(&run(&home, ["check", "gap.jsonl"])), @r"
    exit code: 1
    ----- stdout -----
    gap.jsonl: damaged
      stored in format version 2
      line 5: expected seq 3, found 5; a later turn/end (event 6) shows that this was committed
      where: line 5, seq 3 of the file, byte 422; damage, not what a crash leaves at the end
      hint: the file was left as it is; restore it from a backup, or make a new session of its good part with `offshoot salvage gap.jsonl --to HOME`
    ----- stderr -----
    ");
    let verdicts = json(&run(&home, ["check", "--json", "gap.jsonl"]));
    assert_eq!(
        (&verdicts[0]["format"], &verdicts[0]["version"]),
        (&json!("malformed"), &json!(2))
    );
}

#[test]
fn what_no_version_of_this_program_reads_is_unsupported_whatever_its_number() {
    let home = TestHome::new();
    let alien = of_version(3).replacen("request/header", "alien/landed", 1);
    file(&home, "alien.jsonl", alien);
    let newer = of_version(4).replacen(r#""version":4"#, r#""version":5"#, 1);
    file(&home, "newer.jsonl", newer);
    let checked = run(&home, ["check", "--json", "alien.jsonl", "newer.jsonl"]);
    assert_eq!(checked.code(), Some(1));
    let verdicts = json(&checked);
    let verdicts = verdicts.as_array().unwrap().iter().map(|verdict| {
        (
            verdict["status"].as_str().unwrap(),
            verdict["format"].as_str().unwrap(),
            verdict["version"].as_u64().unwrap(),
            verdict["code"].as_str().unwrap(),
        )
    });
    assert_eq!(
        verdicts.collect::<Vec<_>>(),
        [
            ("unsupported", "unsupported", 3, "UNKNOWN_REQUIRED_EVENT"),
            ("unsupported", "unsupported", 5, "UNSUPPORTED_VERSION"),
        ]
    );
}

#[test]
fn a_check_without_arguments_judges_every_session_of_the_home() {
    let home = TestHome::new();
    assert_eq!(
        run(&home, ["check"]).success().stdout_text(),
        "no sessions in `[home]`\n"
    );
    assert_eq!(json(&run(&home, ["check", "--json"]).success()), json!([]));
    file(&home, "v4.jsonl", of_version(4));
    for id in ["good", "torn", "bad"] {
        drop(run(&home, ["fork", "v4.jsonl", "--id", id]).success());
    }
    let place = |id: &str| {
        let project = home.path().join("sessions/--work-demo--");
        project.join(id).join("session.v4.jsonl.zstd")
    };
    let sound = fs::read(place("good")).unwrap();
    let mut bad = sound.clone();
    *bad.last_mut().unwrap() ^= 1;
    overwrite(&place("bad"), &bad);
    let torn = [&fs::read(place("torn")).unwrap()[..], &sound[..9]].concat();
    overwrite(&place("torn"), &torn);
    let before = home.bytes_of_tree();
    let checked = run(&home, ["check", "--json"]);
    assert_eq!(checked.code(), Some(1));
    let verdicts = json(&checked);
    let verdicts = verdicts.as_array().unwrap().iter();
    let statuses: Vec<_> = verdicts.map(|verdict| verdict["status"].clone()).collect();
    assert_eq!(statuses, ["damaged", "ok", "torn"]);
    assert_eq!(home.bytes_of_tree(), before);
}

#[test]
fn an_older_session_of_the_home_is_listed_with_its_version() {
    let home = TestHome::new();
    let dir = home.path().join("sessions/--work-demo--/old");
    fs::create_dir_all(&dir).unwrap();
    overwrite(&dir.join("session.jsonl"), of_version(0).as_bytes());
    let listed = json(&run(&home, ["ls", "--json"]).success());
    assert_eq!(
        (
            &listed[0]["status"],
            &listed[0]["version"],
            &listed[0]["events"]
        ),
        (&json!("ok"), &json!(0), &json!(9))
    );
    let table = run(&home, ["ls"]).success().stdout_text();
    assert!(table.contains("  ok (v0)"), "{table}");
}

#[test]
fn a_conversion_writes_a_current_file_beside_the_old_one() {
    let home = TestHome::new();
    let dir = home.user_path().join("old");
    fs::create_dir(&dir).unwrap();
    overwrite(&dir.join("session.jsonl"), of_version(0).as_bytes());
    assert_snapshot!(seen(&run(&home, ["convert", "old/session.jsonl"])), @r"
    exit code: 0
    ----- stdout -----
    old/session.v4.jsonl
      9 events in format version 4, from version 0; `old/session.jsonl` was left as it is
    ----- stderr -----
    ");
    let source = fs::read_to_string(dir.join("session.jsonl")).unwrap();
    assert_eq!(source, of_version(0));
    assert_eq!(
        events(&home, "old/session.v4.jsonl"),
        events(&home, "old/session.jsonl")
    );
    assert_snapshot!(seen(&run(&home, ["convert", "old/session.jsonl"])), @r"
    exit code: 0
    ----- stdout -----
    old/session.v4.jsonl
      is there already, in format version 4 (9 events); nothing was written
    ----- stderr -----
    ");
    fs::create_dir(home.user_path().join("new")).unwrap();
    let converted = run(
        &home,
        ["convert", "old/session.jsonl", "--to", "new", "--json"],
    );
    assert_eq!(
        json(&converted.success()),
        json!({"file": "old/session.jsonl", "version": 0, "path": "new/session.v4.jsonl", "events": 9, "already": false})
    );
}

#[test]
fn a_conversion_that_cannot_be_says_why() {
    let home = TestHome::new();
    fs::create_dir(home.user_path().join("folder")).unwrap();
    file(&home, "v0.jsonl", of_version(0));
    file(&home, "letter.txt", "Dear Anna,\n");
    let mut all = String::new();
    for args in [
        vec!["convert", "missing.jsonl"],
        vec!["convert", "nobody"],
        vec!["convert", "folder"],
        vec!["convert", "letter.txt"],
        vec!["convert", "/dev/zero"],
        vec!["convert", "v0.jsonl", "--to", "letter.txt"],
    ] {
        let output = run(&home, &args);
        assert_eq!(output.code(), Some(1), "{output}");
        all.push_str(&format!("{}\n{}\n", args.join(" "), output.stderr_text()));
    }
    assert_snapshot!(all, @r"
    convert missing.jsonl
    error: could not read `missing.jsonl`: No such file or directory (os error 2)
    hint: name a file that is there, or a session's id as `offshoot ls` shows it

    convert nobody
    error: session `nobody` was not found in `[home]/sessions`
    hint: `offshoot ls` shows the sessions that are there

    convert folder
    error: `folder` is a directory
    hint: name the session file in it, such as `session.v4.jsonl.zstd`

    convert letter.txt
    error: `letter.txt`: line 1: expected a session header: expected value (byte 1)
    hint: check that this is a session file

    convert /dev/zero
    error: `/dev/zero` is a device, not a session file

    convert v0.jsonl --to letter.txt
    error: `letter.txt` is not a directory
    hint: --to names the directory for the new file, whose name follows from its version
    ");
    assert!(home.bytes_of_tree().is_empty());
}

fn overwrite(path: &std::path::Path, bytes: &[u8]) {
    #[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
    fs::write(path, bytes).unwrap();
}

#[test]
fn an_older_session_goes_on_in_a_current_file_beside_its_own_and_so_does_a_fork_of_it() {
    for version in 0..=3 {
        let home = TestHome::new();
        let dir = home.path().join("sessions/--work-demo--/old");
        fs::create_dir_all(&dir).unwrap();
        let name = match version {
            0 => "session.jsonl".to_owned(),
            version => format!("session.v{version}.jsonl"),
        };
        let text = of_version(version);
        overwrite(&dir.join(&name), text.as_bytes());
        let server =
            ScriptedModelServer::start([Reply::text("Still here."), Reply::text("Me too.")]);
        let went_on = turn(&home, &server).args(["--session", "old", "Are you there?"]);
        let went_on = went_on.run().success();
        assert_eq!(went_on.stdout_text(), "Still here.\n");
        assert_eq!(fs::read_to_string(dir.join(&name)).unwrap(), text);
        assert!(dir.join("session.v4.jsonl").is_file());
        let forked = turn(&home, &server).args(["--fork", "old", "And you?"]);
        let forked = forked.run().success();
        assert_eq!(forked.stdout_text(), "Me too.\n");

        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        // The whole conversation is there, and the new words behind it.
        for (request, asked) in requests.iter().zip(["Are you there?", "And you?"]) {
            let text = std::str::from_utf8(&request.body).unwrap();
            let places = ["Be brief.", "How heavy is it?", "Two hundred grams.", asked];
            let places = places.map(|said| text.find(said));
            assert!(
                places.is_sorted() && places[0].is_some(),
                "version {version}: {text}"
            );
        }
        let listed = json(&run(&home, ["ls", "--json"]).success());
        let old = listed
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["id"] == "old");
        assert_eq!(old.unwrap()["version"], 4);
        server.finish();
    }
}
