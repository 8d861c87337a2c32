//! `offshoot ls`: every session, also beside damaged ones.

use std::fs;

use insta::assert_snapshot;
use offshoot_test_support::TestHome;
use serde_json::{Value, json};

use crate::support::{demo, fixture, json, run, seen};

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
    assert!(created > 1_700_000_000_000 && updated >= created);
    assert_eq!(
        listed,
        json!([{
            "id": "child",
            "parent": "session-demo",
            "cut": 11,
            "title": "Start a CHANGES.md that says forks work at",
            "cwd": "/work/demo",
            "events": 17,
            "status": "ok", "version": 4,
        }])
    );
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
