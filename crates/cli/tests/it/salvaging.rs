//! `offshoot salvage`: what is sound in a damaged file becomes a session of its own, and what is lost is said.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;
use offshoot_test_support::TestHome;
use serde_json::json;

use crate::support::{demo, file, json, run};

/// The recording with a row in its middle that is no JSON.
fn damaged() -> String {
    let demo = fs::read_to_string(demo()).unwrap();
    demo.replacen(r#"{"type":"tool/call""#, r#"{"type:"tool/call""#, 1)
}

#[test]
fn the_sound_beginning_becomes_a_session_that_can_go_on_and_the_loss_is_counted() {
    let home = TestHome::new();
    let text = damaged();
    file(&home, "bad.jsonl", &text);
    let saved = run(&home, ["salvage", "bad.jsonl", "--to", "rescue", "--json"]);
    let report = json(&saved.success());
    let line = 1 + text
        .lines()
        .position(|line| line.starts_with(r#"{"type:"#))
        .unwrap();
    let byte = text.find(r#"{"type:"#).unwrap();
    let reason = report["loss"]["reason"].clone();
    assert_eq!(
        report["loss"],
        json!({
            "line": line,
            "seq": line - 2,
            "byte": byte,
            "reason": reason,
            "rows": text.lines().count() - line + 1,
            "turns": 1,
            "bytes": text.len() - byte,
        })
    );
    assert_eq!(
        (&report["file"], &report["version"]),
        (&json!("bad.jsonl"), &json!(4))
    );
    assert_eq!(
        fs::read_to_string(home.user_path().join("bad.jsonl")).unwrap(),
        text
    );
    let marker = fs::read_to_string(home.user_path().join("rescue/offshoot-home"));
    assert_eq!(marker.unwrap(), "{\"layout\":1}\n");
    assert!(home.bytes_of_tree().is_empty());

    let id = report["session"].as_str().unwrap();
    let checked = run(&home, ["check", id, "--home", "rescue"]).success();
    let events = report["events"].as_u64().unwrap();
    assert!(
        checked
            .stdout_text()
            .ends_with(&format!(": ok ({events} events)\n")),
        "{checked}"
    );
    // As the last line of the text says.
    let saved = run(&home, ["salvage", "bad.jsonl", "--to", "rescue"]).success();
    let said = saved.stdout_text();
    let id = said.lines().next().unwrap();
    let rescue = home.user_path().join("rescue");
    let last = format!("\ngo on with it: offshoot run --session {id} --home ");
    assert!(said.contains(&last), "{said}");
    assert!(rescue.is_dir());
}

#[test]
fn a_salvage_that_cannot_be_says_why_and_creates_nothing() {
    let home = TestHome::new();
    fs::create_dir(home.user_path().join("folder")).unwrap();
    file(&home, "bad.jsonl", damaged());
    file(&home, "empty.jsonl", "");
    file(&home, "letter.txt", "Dear Anna,\n");
    let newer = damaged().replacen(r#""version":4"#, r#""version":5"#, 1);
    file(&home, "newer.jsonl", newer);
    let mut all = String::new();
    for args in [
        ["salvage", "missing.jsonl", "--to", "rescue"],
        ["salvage", "nobody", "--to", "rescue"],
        ["salvage", "folder", "--to", "rescue"],
        ["salvage", "/dev/zero", "--to", "rescue"],
        ["salvage", "empty.jsonl", "--to", "rescue"],
        ["salvage", "letter.txt", "--to", "rescue"],
        ["salvage", "newer.jsonl", "--to", "rescue"],
        ["salvage", "bad.jsonl", "--to", "letter.txt"],
    ] {
        let output = run(&home, args);
        assert_eq!(output.code(), Some(1), "{output}");
        all.push_str(&format!("{}\n{}\n", args.join(" "), output.stderr_text()));
    }
    assert!(!home.user_path().join("rescue").exists());
    assert_snapshot!(all, @r"
    salvage missing.jsonl --to rescue
    error: could not read `missing.jsonl`: No such file or directory (os error 2)
    hint: name a file that is there, or a session's id as `offshoot ls` shows it

    salvage nobody --to rescue
    error: session `nobody` was not found in `[home]/sessions`
    hint: `offshoot ls` shows the sessions that are there

    salvage folder --to rescue
    error: `folder` is a directory
    hint: name the session file in it, such as `session.v4.jsonl.zstd`

    salvage /dev/zero --to rescue
    error: `/dev/zero` is a device, not a session file

    salvage empty.jsonl --to rescue
    error: `empty.jsonl`: the file has no complete header line (0 bytes)
    hint: it never got as far as its first event; make sure that it is no other kind of file before you delete it

    salvage letter.txt --to rescue
    error: `letter.txt`: line 1: expected a session header: expected value (byte 1)
    hint: check that this is a session file

    salvage newer.jsonl --to rescue
    error: `newer.jsonl`: the file has format version 5; this program reads versions 0 to 4: it was written by a newer one
    hint: the file is intact; open it with the version that wrote it, or with a newer one

    salvage bad.jsonl --to letter.txt
    error: the home `[user]/letter.txt` is not a directory
    hint: name a directory that you can write to with --to
    ");
}

#[test]
fn a_home_that_cannot_be_made_is_named() {
    let home = TestHome::new();
    file(&home, "bad.jsonl", damaged());
    let parent = home.user_path().join("closed");
    fs::create_dir(&parent).unwrap();
    fs::set_permissions(&parent, fs::Permissions::from_mode(0o555)).unwrap();
    let probe = parent.join("probe");
    if fs::create_dir(&probe).is_ok() {
        // Whoever may write everywhere cannot see this fail.
        fs::remove_dir(&probe).unwrap();
        return;
    }
    let output = run(&home, ["salvage", "bad.jsonl", "--to", "closed/home"]);
    assert_eq!(output.code(), Some(1), "{output}");
    let said = output.stderr_text();
    assert!(
        said.starts_with("error: could not create the home `"),
        "{said}"
    );
    assert!(
        said.contains("\nhint: name a directory that you can write to with --to"),
        "{said}"
    );
}

#[test]
fn no_hint_suggests_a_salvage_where_there_is_nothing_to_save() {
    let home = TestHome::new();
    let good = fs::read_to_string(demo()).unwrap();
    let first_row = good.replacen(r#""seq":0,"#, r#""seq":1,"#, 1);
    let second_row = good.replacen(r#""seq":1,"#, r#""seq":2,"#, 1);
    for (name, bytes, suggests) in [
        ("empty.jsonl", String::new(), false),
        ("half.jsonl", good[..30].to_owned(), false),
        ("letter.txt", "Dear Anna,\n".to_owned(), false),
        (
            "newer.jsonl",
            good.replacen(r#""version":4"#, r#""version":5"#, 1),
            false,
        ),
        ("raw.zstd", good.clone(), false),
        ("first.jsonl", first_row, false),
        ("second row's.jsonl", second_row, true),
    ] {
        file(&home, name, bytes);
        let verdicts = json(&run(&home, ["check", "--json", name]));
        let hint = verdicts[0]["hint"].as_str().unwrap();
        assert_eq!(hint.contains("salvage"), suggests, "{name}: {hint}");
        if suggests {
            let quoted = r"`offshoot salvage 'second row'\''s.jsonl' --to HOME`";
            assert!(hint.contains(quoted), "{hint}");
        }
    }
}

#[test]
fn what_is_sound_of_a_fork_with_a_damaged_base_is_saved_and_the_file_of_the_damage_is_named() {
    let home = TestHome::new();
    drop(run(&home, ["fork", demo().to_str().unwrap(), "--id", "source"]).success());
    drop(run(&home, ["fork", "source", "--id", "child"]).success());
    let dir = home.path().join("sessions/--work-demo--/child");
    let base = dir.join("base-0.jsonl.zstd");
    let sound = run(&home, ["show", "child", "--stored"]).success();
    let bytes = fs::read(&base).unwrap();
    fs::remove_file(&base).unwrap();
    let header = match offshoot_format::scan_frame(&bytes).unwrap() {
        offshoot_format::FrameScan::Complete(length) => length,
        offshoot_format::FrameScan::Incomplete => panic!("no header"),
    };

    // Without its base the fork has only its own events, which are shown.
    let shown = run(&home, ["show", "child", "--stored"]);
    assert_eq!(shown.code(), Some(1));
    let sound = sound.stdout_text();
    let lines: Vec<&str> = sound.lines().collect();
    let is_marker = |line: &&str| line.contains("session/end-seed");
    let own = lines.iter().rposition(is_marker).unwrap();
    let expected = [&lines[..1], &lines[own..]].concat().join("\n") + "\n";
    assert_eq!(shown.stdout_text(), expected);
    let said = shown.stderr_text();
    assert!(
        said.contains("base-0.jsonl.zstd") && said.contains("it is not there"),
        "{said}"
    );
    let refused = run(&home, ["salvage", "child", "--to", "rescue"]);
    assert_eq!(refused.code(), Some(1));
    let said = refused.stderr_text();
    assert!(
        said.contains("line 1 of `[home]/sessions/--work-demo--/child/base-0.jsonl.zstd`: "),
        "{said}"
    );

    // Its only frame is cut off: whole lines in it are whole.
    #[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
    fs::write(&base, &bytes[..bytes.len() - 1]).unwrap();
    let saved = run(&home, ["salvage", "child", "--to", "rescue", "--json"]).success();
    let report = json(&saved);
    assert_eq!(report["loss"]["file"], json!(base));
    assert_eq!(report["loss"]["byte"], header);
    assert!(
        report["refused"]
            .as_str()
            .unwrap()
            .contains("base-0.jsonl.zstd")
    );
    let saved = run(&home, ["salvage", "child", "--to", "rescue"]).success();
    let of = format!("/child/base-0.jsonl.zstd` (byte {header}) on: ");
    assert!(saved.stdout_text().contains(&of), "{saved}");
    let checked = json(&run(&home, ["check", "child", "--json"]));
    assert_eq!(checked[0]["code"], "BASE_DAMAGED");
    let hint = checked[0]["hint"].as_str().unwrap();
    assert!(hint.contains("offshoot salvage "), "{hint}");
}
