//! Deleting, restoring, collecting and counting, as a person does it.

use std::fs;
use std::time::Duration;

use insta::assert_snapshot;
use offshoot_test_support::{CommandOutput, TestHome};
use serde_json::json;

use crate::support::{demo, json, run, seen};

/// A home with the session `one` and its fork `two`.
fn home() -> TestHome {
    let home = TestHome::new();
    let demo = demo();
    let source = demo.to_str().unwrap();
    drop(run(&home, ["fork", source, "--id", "one"]).success());
    drop(run(&home, ["fork", "one", "--id", "two"]).success());
    home
}

/// As [`seen`], with names for the entries of the trash.
fn shown(home: &TestHome, mut output: CommandOutput) -> String {
    let entries = fs::read_dir(home.path().join("trash"))
        .into_iter()
        .flatten();
    let mut entries: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    entries.sort();
    for (n, entry) in entries.into_iter().enumerate() {
        output = output.replacing(entry, format!("[entry {n}]"));
    }
    seen(&output)
}

#[test]
fn a_deleted_session_is_listed_and_restored() {
    let home = home();
    assert_snapshot!(shown(&home, run(&home, ["rm", "one"])), @r"
    exit code: 0
    ----- stdout -----
    one
      moved to the trash: `[home]/trash/[entry 0]/session`
      `offshoot gc` removes it for good once it has been there for 30 days

    bring it back: offshoot restore one
    ----- stderr -----
    ");
    let again = run(&home, ["rm", "one"]);
    assert_snapshot!(shown(&home, again), @r"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: session `one` was not found in `[home]/sessions`
    hint: it is in the trash since [moment]; bring it back with: offshoot restore one
    ");
    let listed = json(&run(&home, ["ls", "--json"]).success());
    assert_eq!(listed.as_array().unwrap().len(), 1);
    drop(run(&home, ["show", "two"]).success());
    let trash = json(&run(&home, ["restore", "--json"]).success());
    assert_eq!(trash["trash"][0]["session"], "one");
    let list = run(&home, ["restore"]);
    assert_snapshot!(shown(&home, list), @r"
    exit code: 0
    ----- stdout -----
    ID   DELETED               ENTRY
    one  [moment]  [entry 0]

    bring one back: offshoot restore ID
    ----- stderr -----
    ");
    let entry = trash["trash"][0]["entry"].as_str().unwrap();
    let restored = json(&run(&home, ["restore", "one", "--json"]).success());
    let path = home.path().join("sessions/--work-demo--/one");
    let expected = json!({
        "session": "one",
        "path": path,
        "entry": entry,
        "deleted_at": trash["trash"][0]["deleted_at"],
        "others": [],
    });
    assert_eq!(restored, expected);
    drop(run(&home, ["show", "one"]).success());
    assert_snapshot!(shown(&home, run(&home, ["restore"])), @r"
    exit code: 0
    ----- stdout -----
    nothing in the trash of `[home]`
    ----- stderr -----
    ");
}

#[test]
fn a_restore_that_cannot_be_says_what_can() {
    let home = home();
    let demo = demo();
    let source = demo.to_str().unwrap();
    drop(run(&home, ["rm", "one"]).success());
    drop(run(&home, ["fork", source, "--id", "one"]).success());
    let mut all = String::new();
    for args in [
        &["restore", "one"][..],
        &["restore", "nobody"],
        &["restore", "one", "--entry", "7-7"],
        &["restore", "nobody", "--entry", "7-7"],
        &["restore", "--entry", "7-7"],
    ] {
        let output = run(&home, args);
        all.push_str(&format!("$ offshoot {}\n", args.join(" ")));
        all.push_str(&shown(&home, output));
    }
    assert_snapshot!(all, @r"
    $ offshoot restore one
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: session `one` exists already at `[home]/sessions/--work-demo--/one/session.v4.jsonl.zstd`
    hint: delete the one that is there, and name the entry of this one: offshoot rm one && offshoot restore one --entry [entry 0]
    $ offshoot restore nobody
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: session `nobody` is not in the trash `[home]/trash`
    hint: `offshoot restore` without an id shows what is in the trash
    $ offshoot restore one --entry 7-7
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: session `one` in the entry `7-7` is not in the trash `[home]/trash`
    hint: it is in these entries: [entry 0]
    $ offshoot restore nobody --entry 7-7
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: session `nobody` in the entry `7-7` is not in the trash `[home]/trash`
    hint: `offshoot restore` without an id shows what is in the trash
    $ offshoot restore --entry 7-7
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: the following required arguments were not provided:
      <ID>

    Usage: offshoot restore --entry <ENTRY> <ID>

    For more information, try '--help'.
    ");
    // What the hint says works.
    let error = run(&home, ["restore", "one", "--json"]);
    let error: serde_json::Value = serde_json::from_slice(&error.stderr).unwrap();
    let hint = error["hint"].as_str().unwrap();
    let entry = hint.rsplit(' ').next().unwrap();
    drop(run(&home, ["rm", "one"]).success());
    drop(run(&home, ["restore", "one", "--entry", entry]).success());
    let list = run(&home, ["restore"]).success();
    let list = list.stdout_text();
    let rows = list.lines().filter(|line| line.starts_with("one "));
    assert_eq!(rows.count(), 1, "{list}");
}

#[test]
fn collecting_empties_the_trash_when_it_is_told_to() {
    let home = home();
    drop(run(&home, ["rm", "one"]).success());
    let mut all = String::new();
    for args in [
        &["gc", "--dry-run"][..],
        &["gc"],
        &["gc", "--dry-run", "--older-than", "0s"],
        &["gc", "--older-than", "0s"],
        &["gc", "--older-than", "0w"],
        &["restore", "one"],
        &["gc", "--older-than", "nonsense"],
        &["gc", "--older-than", "30"],
        &["gc", "--older-than", "d"],
        &["gc", "--older-than", "99999999999999w"],
    ] {
        let output = run(&home, args);
        all.push_str(&format!("$ offshoot {}\n", args.join(" ")));
        all.push_str(&shown(&home, output));
    }
    assert_snapshot!(all, @r"
    $ offshoot gc --dry-run
    exit code: 0
    ----- stdout -----
    nothing to remove in `[home]`
    1 deleted session stays in the trash, because it was deleted not so long ago
    ----- stderr -----
    $ offshoot gc
    exit code: 0
    ----- stdout -----
    nothing to remove in `[home]`
    1 deleted session stays in the trash, because it was deleted not so long ago
    ----- stderr -----
    $ offshoot gc --dry-run --older-than 0s
    exit code: 0
    ----- stdout -----
    would remove session one, deleted [moment] (65 B)
    65 B would come free
    ----- stderr -----
    $ offshoot gc --older-than 0s
    exit code: 0
    ----- stdout -----
    removed session one, deleted [moment] (65 B)
    65 B came free
    ----- stderr -----
    $ offshoot gc --older-than 0w
    exit code: 0
    ----- stdout -----
    nothing to remove in `[home]`
    ----- stderr -----
    $ offshoot restore one
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: session `one` is not in the trash `[home]/trash`
    hint: `offshoot restore` without an id shows what is in the trash
    $ offshoot gc --older-than nonsense
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: invalid value 'nonsense' for '--older-than <AGE>': an age is a whole number and a unit (s, m, h, d or w), such as 12h or 30d

    For more information, try '--help'.
    $ offshoot gc --older-than 30
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: invalid value '30' for '--older-than <AGE>': an age is a whole number and a unit (s, m, h, d or w), such as 12h or 30d

    For more information, try '--help'.
    $ offshoot gc --older-than d
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: invalid value 'd' for '--older-than <AGE>': an age is a whole number and a unit (s, m, h, d or w), such as 12h or 30d

    For more information, try '--help'.
    $ offshoot gc --older-than 99999999999999w
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: invalid value '99999999999999w' for '--older-than <AGE>': that is longer than anything lasts

    For more information, try '--help'.
    ");
    drop(run(&home, ["rm", "two"]).success());
    let done = json(&run(&home, ["gc", "--older-than", "0s", "--json"]).success());
    assert_eq!(done["removed"][0]["kind"], "session");
    assert_eq!(done["removed"][0]["id"], "two");
    assert_eq!(
        (&done["kept"], &done["dry_run"]),
        (&json!([]), &json!(false))
    );
    assert_eq!(done["freed"], done["removed"][0]["freed"]);
}

#[test]
fn what_has_to_be_kept_is_said_and_the_exit_code_tells() {
    let home = home();
    drop(run(&home, ["rm", "one"]).success());
    let entry = fs::read_dir(home.path().join("trash"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    fs::remove_file(entry.path().join("trash.json")).unwrap();
    let mut all = String::new();
    for args in [&["gc"][..], &["restore"], &["restore", "one"]] {
        let output = run(&home, args);
        all.push_str(&shown(&home, output));
    }
    assert_snapshot!(all, @r"
    exit code: 1
    ----- stdout -----
    kept `[home]/trash/[entry 0]`: `[home]/trash/[entry 0]` in the trash does not say which session it holds: `trash.json`: No such file or directory (os error 2)
    nothing to remove in `[home]`
    ----- stderr -----
    exit code: 1
    ----- stdout -----

    problem: `[home]/trash/[entry 0]` in the trash does not say which session it holds: `trash.json`: No such file or directory (os error 2)
    hint: the session is whole in `[home]/trash/[entry 0]/session`: move that directory back to `sessions/<project>/<session>` by hand, or delete it
    ----- stderr -----
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `[home]/trash/[entry 0]` in the trash does not say which session it holds: `trash.json`: No such file or directory (os error 2)
    hint: the session is whole in `[home]/trash/[entry 0]/session`: move that directory back to `sessions/<project>/<session>` by hand, or delete it
    ");
}

#[test]
fn in_a_home_of_another_tool_only_the_trash_is_emptied_and_that_is_said() {
    let home = home();
    fs::remove_file(home.path().join("offshoot-home")).unwrap();
    drop(run(&home, ["rm", "one"]).success());
    let output = run(&home, ["gc"]);
    assert_snapshot!(shown(&home, output), @r"
    exit code: 0
    ----- stdout -----
    nothing to remove in `[home]`
    looked at the trash alone: Offshoot did not create this home, and the rest may be another tool's
    1 deleted session stays in the trash, because it was deleted not so long ago
    ----- stderr -----
    ");
    let done = json(&run(&home, ["gc", "--older-than", "0s", "--json"]).success());
    assert_eq!(done["scope"], "trash");
    assert_eq!(done["removed"][0]["kind"], "session");
}

#[test]
fn a_directory_without_a_session_is_in_nobodys_way_and_goes() {
    let home = home();
    drop(run(&home, ["rm", "one"]).success());
    let project = home.path().join("sessions/--work-demo--");
    let husk = |id: &str| {
        let dir = project.join(id);
        fs::create_dir(&dir).unwrap();
        drop(fs::File::create_new(dir.join("session.lock")).unwrap());
        dir
    };
    husk("one");
    drop(run(&home, ["restore", "one"]).success());
    drop(run(&home, ["show", "one"]).success());
    let dir = husk("three");
    let now = fs::metadata(&dir).unwrap().modified().unwrap();
    let long_ago = now - Duration::from_secs(2 * 24 * 60 * 60);
    fs::File::open(&dir)
        .unwrap()
        .set_modified(long_ago)
        .unwrap();
    assert_snapshot!(shown(&home, run(&home, ["gc"])), @r"
    exit code: 0
    ----- stdout -----
    removed directory `[home]/sessions/--work-demo--/three` (0 B)
    0 B came free
    ----- stderr -----
    ");
    assert!(!dir.exists());
}

#[test]
fn usage_is_a_table_with_totals() {
    let home = home();
    drop(run(&home, ["rm", "one"]).success());
    let usage = json(&run(&home, ["du", "--json"]).success());
    let log = home.path().join("sessions/--work-demo--/two");
    let size: u64 = fs::read_dir(&log)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert_eq!(usage["in_sessions"], size);
    assert_eq!(usage["sessions"][0]["path"], json!(log));
    let number = |name: &str| usage[name].as_u64().unwrap();
    assert_eq!(number("total"), size + number("blobs") + number("trash"));
    let table = run(&home, ["du"]).success().stdout_text();
    let names: Vec<_> = table
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "ID", "two", "", "what", "", "sessions", "blobs", "trash", "total"
        ]
    );
    let some = json(&run(&home, ["du", "two", "--json"]).success());
    assert_eq!(
        (&some["blobs"], &some["total"]),
        (&json!(null), &json!(size))
    );
    assert_snapshot!(seen(&run(&home, ["du", "one"])), @r"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: session `one` was not found in `[home]/sessions`
    hint: it is in the trash since [moment]; bring it back with: offshoot restore one
    ");
}

#[test]
fn a_home_that_is_not_there_stays_away() {
    let home = TestHome::new();
    fs::remove_dir(home.path()).unwrap();
    let mut all = String::new();
    for args in [
        &["rm", "x"][..],
        &["restore"],
        &["restore", "x"],
        &["gc"],
        &["du"],
    ] {
        all.push_str(&format!("$ offshoot {}\n", args.join(" ")));
        all.push_str(&seen(&run(&home, args)));
    }
    assert_snapshot!(all, @r"
    $ offshoot rm x
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: session `x` was not found in `[home]/sessions`
    hint: `offshoot ls` shows the sessions that are there
    $ offshoot restore
    exit code: 0
    ----- stdout -----
    nothing in the trash of `[home]`
    ----- stderr -----
    $ offshoot restore x
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: session `x` is not in the trash `[home]/trash`
    hint: `offshoot restore` without an id shows what is in the trash
    $ offshoot gc
    exit code: 0
    ----- stdout -----
    nothing to remove in `[home]`
    ----- stderr -----
    $ offshoot du
    exit code: 0
    ----- stdout -----
    no sessions in `[home]`

    sessions       0 B
    blobs          0 B
    trash          0 B
    total          0 B
    ----- stderr -----
    ");
    assert!(!home.path().exists());
}

#[test]
fn the_flag_for_homes_without_locks_says_that_it_is_unsafe_and_takes_locks_where_there_are_some() {
    let home = home();
    let help = run(&home, ["rm", "--help"]).success().stdout_text();
    assert!(
        help.contains("--unsafe-no-lock") && help.contains("UNSAFE"),
        "{help}"
    );
    drop(run(&home, ["--unsafe-no-lock", "rm", "one"]).success());
    drop(run(&home, ["restore", "one", "--unsafe-no-lock"]).success());
}

#[test]
fn every_command_that_looks_for_a_deleted_session_says_how_to_bring_it_back() {
    let home = home();
    drop(run(&home, ["rm", "one"]).success());
    let hint = "hint: it is in the trash since ";
    let command = "; bring it back with: offshoot restore one\n";
    for args in [
        &["show", "one"][..],
        &["show", "one", "--stored"],
        &["show", "one", "--follow"],
        &["check", "one"],
        &["fork", "one"],
        &["export", "one", "--to", "copy.jsonl"],
        &["convert", "one"],
        &["salvage", "one", "--to", "rescue"],
        &["rm", "one"],
        &["rm", "one", "nobody"],
        &["du", "one"],
        &["run", "--session", "one", "Go on."],
        &["run", "--fork", "one", "Go on."],
        &["run", "--replay", "one", "Go on."],
    ] {
        let output = run(&home, args);
        assert_eq!(output.code(), Some(1), "{args:?}: {output}");
        let said = output.stdout_text() + &output.stderr_text();
        assert!(
            said.contains(hint) && said.contains(command),
            "{args:?}: {said}"
        );
    }
    let checked = json(&run(&home, ["check", "one", "nobody", "--json"]));
    let hints: Vec<_> = (0..2)
        .map(|n| checked[n]["hint"].as_str().unwrap())
        .collect();
    assert!(hints[0].ends_with("offshoot restore one"), "{hints:?}");
    assert!(!hints[1].contains("restore"), "{hints:?}");
}

#[test]
fn a_file_is_not_deleted_by_its_path() {
    let home = home();
    let file = home
        .path()
        .join("sessions/--work-demo--/one/session.v4.jsonl.zstd");
    let output = run(&home, ["rm".as_ref(), file.as_os_str()]);
    assert_snapshot!(seen(&output), @r"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: session `[home]/sessions/--work-demo--/one/session.v4.jsonl.zstd` was not found in `[home]/sessions`
    hint: name the session by its id, as `offshoot ls` shows it, and not by its file
    ");
    assert!(file.exists());
}

#[test]
fn several_sessions_are_deleted_each_for_itself() {
    let home = home();
    let demo = demo();
    drop(run(&home, ["fork", demo.to_str().unwrap(), "--id", "three"]).success());
    assert_snapshot!(shown(&home, run(&home, ["rm", "one", "nobody", "two", "one"])), @r"
    exit code: 1
    ----- stdout -----
    one
      moved to the trash: `[home]/trash/[entry 0]/session`
      `offshoot gc` removes it for good once it has been there for 30 days

    bring it back: offshoot restore one

    nobody
      not deleted: session `nobody` was not found in `[home]/sessions`
      hint: `offshoot ls` shows the sessions that are there

    two
      moved to the trash: `[home]/trash/[entry 1]/session`
      `offshoot gc` removes it for good once it has been there for 30 days

    bring it back: offshoot restore two
    ----- stderr -----
    ");
    drop(run(&home, ["restore", "one"]).success());
    let output = run(&home, ["rm", "one", "two", "three", "--json"]);
    assert_eq!(output.code(), Some(1));
    let rows = json(&output);
    assert_eq!(rows[0]["session"], "one");
    assert!(rows[0]["deleted_at"].is_i64() && rows[0]["entry"].is_string());
    assert_eq!(
        (&rows[1]["session"], &rows[1]["code"]),
        (&json!("two"), &json!("SESSION_NOT_FOUND"))
    );
    assert!(
        rows[1]["hint"]
            .as_str()
            .unwrap()
            .ends_with("offshoot restore two")
    );
    assert_eq!(rows[2]["session"], "three");
    assert_eq!(json(&run(&home, ["ls", "--json"]).success()), json!([]));
    drop(run(&home, ["restore", "two"]).success());
    drop(run(&home, ["restore", "three"]).success());
    let all = json(&run(&home, ["rm", "two", "three", "--json"]).success());
    assert_eq!(all.as_array().unwrap().len(), 2);
}

#[test]
fn usage_says_what_becomes_of_what_is_shared_where_something_is() {
    let home = home();
    let line = "\nwhat is shared stays when a session is deleted, for those that share it\n";
    let told = |home: &TestHome| run(home, ["du"]).success().stdout_text().contains(line);
    assert!(told(&home));
    drop(run(&home, ["rm", "two"]).success());
    drop(run(&home, ["gc", "--older-than", "0s"]).success());
    assert!(!told(&home));
}
