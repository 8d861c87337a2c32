//! `offshoot ls`: every session, also beside damaged ones.

use std::fs;

use insta::assert_snapshot;
use offshoot_format::Container;
use offshoot_store::{JsonlStore, Persistence as _, Summary};
use offshoot_test_support::TestHome;
use serde_json::{Value, json};

use crate::support::{demo, demo_up_to, fixture, json, offshoot, run, seen};

fn fork(home: &TestHome, source: &str, at: &str, id: &str) {
    drop(run(home, ["fork", source, "--at", at, "--id", id]).success());
}

fn family(home: &TestHome) {
    fork(home, demo().to_str().unwrap(), "19", "first");
    fork(home, "first", "11", "second");
    fork(home, "first", "14", "third");
    fork(home, "second", "3", "fourth");
}

#[test]
fn an_empty_home_says_how_to_begin_and_is_not_created() {
    let home = TestHome::new();
    fs::remove_dir(home.path()).unwrap();
    assert_snapshot!(seen(&run(&home, ["ls"]).success()), @r#"
    exit code: 0
    ----- stdout -----
    no sessions in `[home]`
    start one with: offshoot run PROMPT    or look at: offshoot demo
    ----- stderr -----
    "#);
    assert!(!home.path().exists());
    assert_eq!(json(&run(&home, ["ls", "--json"]).success()), json!([]));
}

#[test]
fn a_home_is_marked_by_whoever_finds_it_empty_and_by_nobody_else() {
    let empty = TestHome::new();
    fork(&empty, demo().to_str().unwrap(), "19", "first");
    let marker = fs::read_to_string(empty.path().join("offshoot-home"));
    assert_eq!(marker.unwrap(), "{\"layout\":1}\n");
    let foreign = TestHome::new();
    fs::create_dir(foreign.path().join("sessions")).unwrap();
    fork(&foreign, demo().to_str().unwrap(), "19", "first");
    assert!(!foreign.path().join("offshoot-home").exists());
}

#[test]
fn a_tree_shows_forks_below_their_parents() {
    let home = TestHome::new();
    family(&home);
    assert_snapshot!(seen(&run(&home, ["ls", "--tree"]).success()), @r#"
    exit code: 0
    ----- stdout -----
    first @19  (21 events)  Start a CHANGES.md that says forks work at
    ├─ second @11  (17 events)  Start a CHANGES.md that says forks work at
    │  └─ fourth @3  (7 events)
    └─ third @14  (18 events)  Start a CHANGES.md that says forks work at
    ----- stderr -----
    "#);
}

#[test]
fn a_table_has_a_line_for_each_session() {
    let home = TestHome::new();
    fork(&home, demo().to_str().unwrap(), "19", "first");
    assert_snapshot!(seen(&run(&home, ["ls"]).success()), @r#"
    exit code: 0
    ----- stdout -----
    ID     UPDATED               EVENTS  STATUS  PARENT            TITLE
    first  [moment]  21      ok      session-demo @19  Start a CHANGES.md that says forks work at
    ----- stderr -----
    "#);
}

#[test]
fn a_list_as_json_has_stable_names() {
    let home = TestHome::new();
    fork(&home, demo().to_str().unwrap(), "11", "child");
    let mut listed = json(&run(&home, ["ls", "--json"]).success());
    let row = listed[0].as_object_mut().unwrap();
    let created = row.remove("created_at").and_then(|at| at.as_u64()).unwrap();
    let updated = row.remove("updated_at").and_then(|at| at.as_u64()).unwrap();
    let last = row.remove("last_event_at").and_then(|at| at.as_i64());
    assert!(created > 1_700_000_000_000 && updated >= created);
    assert!(last.is_some_and(|last| last > 1_700_000_000_000));
    assert_eq!(
        listed,
        json!([{
            "id": "child",
            "parent": "session-demo",
            "cut": 11,
            "title": "Start a CHANGES.md that says forks work at",
            "cwd": "/work/demo",
            "events": 17, "turns": 1,
            "status": "ok", "version": 4,
        }])
    );
}

#[test]
fn a_list_that_is_cut_off_says_how_to_go_on() {
    let home = TestHome::new();
    family(&home);
    let first = run(&home, ["ls", "--limit", "3", "--grep", "WORK"]).success();
    assert_eq!(first.stdout_text().lines().count(), 4);
    let note = first.stderr_text();
    let begins =
        "3 of 4 sessions are shown; the next ones: offshoot ls --limit 3 --grep WORK --cursor ";
    assert!(note.starts_with(begins), "{note}");
    let cursor = note[begins.len()..].trim().trim_matches('\'');
    let args = ["ls", "--limit", "3", "--grep", "WORK", "--cursor", cursor];
    let second = run(&home, args).success();
    assert_eq!(second.stdout_text().lines().count(), 2);
    assert_eq!(second.stderr_text(), "");

    // For programs the cursor is a member of the note; without a limit there is no such note.
    let mut ids: Vec<String> = Vec::new();
    let mut args = vec!["ls".to_owned(), "--json".to_owned()];
    let all = run(&home, &args).success();
    assert_eq!(all.stderr_text(), "");
    args.extend(["--limit".to_owned(), "3".to_owned()]);
    loop {
        let page = run(&home, &args).success();
        let rows = json(&page);
        let rows = rows.as_array().unwrap().iter();
        ids.extend(rows.map(|row| row["id"].as_str().unwrap().to_owned()));
        if page.stderr_text().is_empty() {
            break;
        }
        let note: Value = serde_json::from_str(&page.stderr_text()).unwrap();
        assert_eq!(note["type"], "note");
        let next = note["next"].as_str().unwrap().to_owned();
        args.extend(["--cursor".to_owned(), next]);
    }
    let expected = json(&all);
    let expected: Vec<&str> = expected
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, expected);
}

/// A session that `first` has delegated work to.
fn subagent(home: &TestHome) {
    let place = home.path().join("sessions/--work-demo--/helper");
    fs::create_dir_all(&place).unwrap();
    let text = demo_up_to(19)
        .replacen("session-demo", "helper", 1)
        .replacen(
            r#""delegationDepth":0"#,
            r#""parentSession":"first","origin":"subagent","delegationDepth":1"#,
            1,
        );
    replace(&place.join("session.v4.jsonl"), text.as_bytes());
}

#[test]
fn subagents_are_shown_in_the_tree_and_in_lists_when_asked_for() {
    let home = TestHome::new();
    fork(&home, demo().to_str().unwrap(), "19", "first");
    subagent(&home);
    assert_eq!(chosen(&home, &[]), ["first"]);
    assert_eq!(chosen(&home, &["--subagents"]), ["first", "helper"]);
    assert_eq!(chosen(&home, &["--all"]), ["first", "helper"]);
    assert_eq!(chosen(&home, &["--tree"]), ["first", "helper"]);
    let rows = json(&run(&home, ["ls", "--json", "--subagents"]).success());
    let rows = rows.as_array().unwrap().iter();
    let mut origins: Vec<_> = rows.map(|row| (&row["id"], &row["origin"])).collect();
    origins.sort_by_key(|(id, _)| id.as_str());
    let (first, helper) = (json!("first"), json!("helper"));
    assert_eq!(
        origins,
        [(&first, &Value::Null), (&helper, &json!("subagent"))]
    );
    let mut shown = seen(&run(&home, ["ls", "--tree"]).success());
    shown.push_str(&seen(
        &run(&home, ["ls", "--subagents", "--grep", "helper"]).success(),
    ));
    shown.push_str(&seen(&run(&home, ["ls", "--grep", "helper"]).success()));
    assert_snapshot!(shown, @r"
    exit code: 0
    ----- stdout -----
    first @19  (21 events)  Start a CHANGES.md that says forks work at
    └─ helper  (subagent, 20 events)  Start a CHANGES.md that says forks work at
    ----- stderr -----
    exit code: 0
    ----- stdout -----
    ID      UPDATED               EVENTS  STATUS  PARENT            TITLE
    helper  [moment]  20      ok      first (subagent)  Start a CHANGES.md that says forks work at
    ----- stderr -----
    exit code: 0
    ----- stdout -----
    only subagents (1) in `[home]`; to see them too: offshoot ls --subagents
    ----- stderr -----
    ");
}

#[test]
fn a_list_with_subagents_goes_on_with_subagents() {
    let home = TestHome::new();
    fork(&home, demo().to_str().unwrap(), "19", "first");
    subagent(&home);
    let output = run(&home, ["ls", "--subagents", "--limit", "1"]).success();
    let note = output.stderr_text();
    let begins =
        "1 of 2 sessions are shown; the next ones: offshoot ls --subagents --limit 1 --cursor ";
    assert!(note.starts_with(begins), "{note}");
}

#[test]
fn a_cursor_that_is_none_is_refused() {
    let home = TestHome::new();
    assert_snapshot!(seen(&run(&home, ["ls", "--cursor", "x"])), @r#"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `x` is not the place of a page in a list
    hint: leave it out to begin with the first page, which names the next one
    "#);
}

fn chosen(home: &TestHome, args: &[&str]) -> Vec<String> {
    let args = ["ls", "--json"].iter().chain(args);
    let rows = json(&run(home, args).success());
    let rows = rows.as_array().unwrap().iter();
    let mut ids: Vec<String> = rows
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort_unstable();
    ids
}

#[test]
fn lists_are_chosen_by_directory_text_and_status() {
    let home = TestHome::new();
    family(&home);
    let place = home.path().join("sessions/--work-demo--/open");
    fs::create_dir_all(&place).unwrap();
    let text = demo_up_to(11).replacen("session-demo", "open", 1);
    replace(&place.join("session.v4.jsonl"), text.as_bytes());

    let all = ["first", "fourth", "open", "second", "third"];
    assert_eq!(chosen(&home, &["--cwd", "/work"]), all);
    assert_eq!(chosen(&home, &["--cwd", "/work/demo/"]), all);
    assert_eq!(chosen(&home, &["--cwd", "/wor"]), [""; 0]);
    assert_eq!(
        chosen(&home, &["--grep", "changes.MD", "--limit", "9"]),
        ["first", "open", "second", "third"]
    );
    assert_eq!(chosen(&home, &["--grep", "FOURTH"]), ["fourth"]);
    assert_eq!(chosen(&home, &["--status", "open"]), ["open"]);
    assert_eq!(chosen(&home, &["--status", "needs-repair"]), ["open"]);
    assert_eq!(
        chosen(&home, &["--status", "ok", "--status", "open", "--all"]),
        all
    );
    assert_snapshot!(seen(&run(&home, ["ls", "--status", "damaged"]).success()), @r#"
    exit code: 0
    ----- stdout -----
    no such session in `[home]`
    ----- stderr -----
    "#);
    assert_snapshot!(seen(&run(&home, ["ls", "--status", "open"]).success()), @r#"
    exit code: 0
    ----- stdout -----
    ID    UPDATED               EVENTS  STATUS  PARENT  TITLE
    open  [moment]  12      open            Start a CHANGES.md that says forks work at

    open: open: turn 1 has no end: it is running, or going on with the session closes it
    ----- stderr -----
    "#);
}

#[test]
fn what_is_too_much_to_read_at_once_stays_unknown_and_a_note_says_what_to_do() {
    let home = TestHome::new();
    let put = |id: &str, bytes: usize, modified: u64| {
        let dir = home.path().join("sessions/_no-cwd").join(id);
        fs::create_dir_all(&dir).unwrap();
        let filling = "x".repeat(bytes);
        let text = format!(
            "{{\"type\":\"session\",\"version\":4,\"id\":\"{id}\",\"createdAt\":1,\"isSeeded\":false,\"delegationDepth\":0}}\n\
             {{\"type\":\"filling\",\"seq\":0,\"time\":1,\"data\":{{\"x\":\"{filling}\"}},\"ignorable\":true}}\n"
        );
        let path = dir.join("session.v4.jsonl");
        replace(&path, text.as_bytes());
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(modified);
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(time).unwrap();
    };
    put("large", 33 << 20, 2_000_000_000);
    put("small", 1, 1_000_000_000);
    assert_snapshot!(seen(&run(&home, ["ls"]).success()), @r#"
    exit code: 0
    ----- stdout -----
    ID     UPDATED               EVENTS  STATUS   PARENT  TITLE
    large  [moment]  1       ok
    small  [moment]          unknown
    ----- stderr -----
    1 session has not been read yet: do this again to read on, or with --all to read everything
    "#);
    assert_snapshot!(seen(&run(&home, ["ls", "--grep", "small", "--json"]).success()), @r#"
    exit code: 0
    ----- stdout -----
    [
      {
        "id": "small",
        "created_at": 1,
        "updated_at": 1000000000000,
        "status": "unknown"
      }
    ]
    ----- stderr -----
    {"type":"note","message":"1 session has not been read yet, and may fit too: do this again to read on, or with --all to read everything"}
    "#);
    assert_eq!(chosen(&home, &["--status", "unknown"]), ["small"]);
    let all = run(&home, ["ls", "--all"]).success();
    assert_eq!(all.stderr_text(), "");
    assert!(!all.stdout_text().contains("unknown"), "{all}");
}

#[test]
fn what_is_remembered_lies_in_the_cache_folder_and_nothing_in_the_home() {
    let shared = |home: &TestHome| home.user_path().join("shared");
    let own = |home: &TestHome| home.user_path().join("own");
    let variables = |home: &TestHome| {
        [
            (vec![], home.user_path().join(".cache/offshoot")),
            (
                vec![("XDG_CACHE_HOME", shared(home))],
                shared(home).join("offshoot"),
            ),
            (
                vec![("XDG_CACHE_HOME", "relative".into())],
                home.user_path().join(".cache/offshoot"),
            ),
            (
                vec![
                    ("XDG_CACHE_HOME", shared(home)),
                    ("OFFSHOOT_CACHE", own(home)),
                ],
                own(home),
            ),
            (
                vec![
                    ("XDG_CACHE_HOME", shared(home)),
                    ("OFFSHOOT_CACHE", " ".into()),
                ],
                shared(home).join("offshoot"),
            ),
            (
                vec![("OFFSHOOT_CACHE", "~/mine".into())],
                home.user_path().join("mine"),
            ),
        ]
    };
    for case in 0..6 {
        let home = TestHome::new();
        fork(&home, demo().to_str().unwrap(), "19", "first");
        let (env, cache) = variables(&home)[case].clone();
        // Whoever writes a session knows what it says.
        let store = JsonlStore::new(home.path().join("sessions"), Container::Zstd);
        let read = store.read(&"first".into()).unwrap();
        let noted = Summary {
            title: Some("as it was noted".into()),
            ..Summary::of(&read.stored)
        };
        store
            .with_cache(&cache)
            .note_summary(&"first".into(), &noted);
        let before = home.bytes_of_tree();
        let mut command = offshoot(&home);
        for (name, value) in env {
            command = command.env(name, value);
        }
        let listed = command.args(["ls", "--json"]).run().success();
        assert_eq!(json(&listed)[0]["title"], "as it was noted", "{case}");
        assert_eq!(home.bytes_of_tree(), before);
    }
}

#[test]
fn damaged_sessions_are_listed_with_their_reason_and_hide_no_other() {
    let home = TestHome::new();
    family(&home);
    let place = |id: &str| {
        let listed = home.path().join("sessions").join("--work-demo--").join(id);
        listed.join("session.v4.jsonl.zstd")
    };
    // One with the beginning of a frame at its end, one that is another version's, one that is nothing.
    let bytes = fs::read(place("second")).unwrap();
    replace(&place("second"), &[&bytes[..], &bytes[..9]].concat());
    let foreign = place("third").with_file_name("session.v4.jsonl");
    fs::remove_file(place("third")).unwrap();
    let answer = fs::read_to_string(fixture("answer.jsonl")).unwrap();
    replace(
        &foreign,
        answer
            .replacen(r#""version":4"#, r#""version":5"#, 1)
            .as_bytes(),
    );
    replace(&place("fourth"), b"");

    let rows = json(&run(&home, ["ls", "--json"]).success());
    let mut rows: Vec<(&str, &str)> = rows.as_array().unwrap().iter().map(row).collect();
    rows.sort_unstable();
    assert_eq!(
        rows,
        [
            ("first", "ok"),
            ("fourth", "damaged"),
            ("second", "torn"),
            ("third", "unsupported")
        ]
    );
    let people = run(&home, ["ls", "--tree"]).success();
    for id in ["first", "second", "third", "fourth"] {
        assert!(people.stdout_text().contains(id), "{people}");
    }
    assert!(
        people
            .stdout_text()
            .contains("third: unsupported: `[home]/sessions/"),
        "{people}"
    );
}

fn row(row: &Value) -> (&str, &str) {
    (row["id"].as_str().unwrap(), row["status"].as_str().unwrap())
}

fn replace(path: &std::path::Path, bytes: &[u8]) {
    #[expect(clippy::disallowed_methods, reason = "damage is what this is about")]
    fs::write(path, bytes).unwrap();
}

#[test]
fn the_next_page_of_a_tree_is_one_too() {
    let home = TestHome::new();
    family(&home);
    let said = run(&home, ["ls", "--tree", "--limit", "3"]).success();
    let said = said.stderr_text();
    let next = "the next ones: offshoot ls --tree --limit 3 --cursor ";
    assert!(said.contains(next), "{said}");
}
