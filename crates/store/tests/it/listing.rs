//! Lists: what they say of each session, in which order, and page by page.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, SystemTime};

use offshoot_format::Container;
use offshoot_session::{Seq, SessionHeader, SessionId};
use offshoot_store::{
    Fault, JsonlStore, Listed, Noticed, Page, Persistence, Query, Status, Summary,
};

use crate::many::{id, put_many};
use crate::support::{Home, TWO_CALLS, event, events, file_bytes, header, write};

/// Puts sessions whose files changed at these seconds.
pub(crate) fn put_at(home: &Home, sessions: &[(&str, u64)]) {
    for (id, seconds) in sessions {
        let bytes = file_bytes(Container::Raw, &header(id), &[&events(16)]);
        let path = home.put_log(id, Container::Raw, bytes);
        set_time(&path, *seconds);
    }
}

fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let file = File::options().append(true).open(path).unwrap();
    file.set_modified(time).unwrap();
}

pub(crate) fn ids(page: &Page) -> Vec<&str> {
    page.rows.iter().map(|row| row.id.as_str()).collect()
}

fn limit(rows: usize) -> Query {
    Query {
        limit: NonZeroUsize::new(rows),
        ..Query::default()
    }
}

fn behind(page: &Page, rows: usize) -> Query {
    Query {
        cursor: page.next.clone(),
        ..limit(rows)
    }
}

/// Ids and states of a list whose bodies were read.
fn states(store: &JsonlStore) -> Vec<(String, &'static str)> {
    let filled = store.list_filled(&Query::default(), u64::MAX).unwrap();
    assert_eq!(filled.unread, 0);
    let rows = filled.page.rows.iter();
    let mut states: Vec<_> = rows
        .map(|row| (row.id.to_string(), row.status().as_str()))
        .collect();
    states.sort();
    states
}

#[test]
fn the_last_changed_session_comes_first_and_ties_go_by_id() {
    let home = Home::new();
    put_at(
        &home,
        &[("b", 50), ("old", 1), ("a", 50), ("new", 99), ("c", 50)],
    );
    let store = home.store(Container::Raw);
    let page = store.list(&Query::default()).unwrap();
    assert_eq!(ids(&page), ["new", "a", "b", "c", "old"]);
    assert_eq!((page.next, page.matching), (None, 5));
}

#[test]
fn pages_follow_one_another_and_the_last_one_says_so() {
    let home = Home::new();
    put_at(&home, &[("a", 5), ("b", 4), ("c", 3), ("d", 2)]);
    let store = home.store(Container::Raw);
    let first = store.list(&limit(2)).unwrap();
    assert_eq!((ids(&first), first.matching), (vec!["a", "b"], 4));
    let second = store.list(&behind(&first, 2)).unwrap();
    assert_eq!((ids(&second), second.matching), (vec!["c", "d"], 4));
    assert_eq!(second.next, None);
}

#[test]
fn a_cursor_stays_valid_when_sessions_come_and_go_and_change() {
    let home = Home::new();
    put_at(&home, &[("a", 60), ("b", 50), ("c", 40), ("d", 30)]);
    let store = home.store(Container::Raw);
    let first = store.list(&limit(2)).unwrap();
    assert_eq!(ids(&first), ["a", "b"]);
    // The row that the cursor stands behind goes; one comes on either side of it; one that was to come is written to.
    fs::remove_dir_all(home.dir("b")).unwrap();
    put_at(&home, &[("newer", 70), ("older", 35), ("c", 80)]);
    let rest = store.list(&behind(&first, 9)).unwrap();
    assert_eq!(ids(&rest), ["older", "d"]);
    let again = store.list(&limit(2)).unwrap();
    assert_eq!(
        ids(&again),
        ["c", "newer"],
        "what was written to is in front"
    );
}

#[test]
fn a_cursor_names_any_id_and_of_two_files_of_one_id_the_right_one() {
    let home = Home::new();
    for id in ["a.b%c", "ä/ö", "..", "twice"] {
        let bytes = file_bytes(Container::Raw, &header(id), &[]);
        let name = match id {
            "a.b%c" => "a.b~0025c",
            "ä/ö" => "~00E4~002F~00F6",
            ".." => "~002E~002E",
            id => id,
        };
        set_time(&home.put_log(name, Container::Raw, bytes), 7);
    }
    let elsewhere = SessionHeader {
        cwd: None,
        ..header("twice")
    };
    let bytes = file_bytes(Container::Raw, &elsewhere, &[]);
    set_time(&home.put("_no-cwd/twice/session.v4.jsonl", bytes), 7);
    let store = home.store(Container::Raw);
    let mut page = store.list(&limit(1)).unwrap();
    let mut seen: Vec<(String, String)> = Vec::new();
    loop {
        let row = &page.rows[0];
        seen.push((row.id.to_string(), row.path.display().to_string()));
        if page.next.is_none() {
            break;
        }
        page = store.list(&behind(&page, 1)).unwrap();
    }
    let ids: Vec<&str> = seen.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["..", "a.b%c", "twice", "twice", "ä/ö"]);
    let paths: BTreeSet<&String> = seen.iter().map(|(_, path)| path).collect();
    assert_eq!(paths.len(), 5, "{paths:?}");
}

#[test]
fn what_is_no_cursor_is_refused_by_name() {
    let store = Home::new().store(Container::Raw);
    for text in [
        "",
        "1",
        "1.2",
        "x.0000000000000000.a",
        "1.zz.a",
        "1.0.%",
        "1.0.%4",
        "1.0.%zz",
        "1.0.%ff",
    ] {
        let query = Query {
            cursor: Some(text.to_owned()),
            ..Query::default()
        };
        let error = store.list(&query).unwrap_err();
        assert_eq!(error.code(), "INVALID_CURSOR", "{text}");
        assert_eq!(
            error.to_string(),
            format!("`{text}` is not the place of a page in a list")
        );
        assert_eq!(
            error.hint().unwrap(),
            "leave it out to begin with the first page, which names the next one"
        );
    }
}

#[test]
fn ten_thousand_sessions_page_completely_while_others_are_added() {
    let home = Home::new();
    put_many(&home.root(), Container::Raw, 0..10_000);
    let cache = tempfile::tempdir().unwrap();
    let store = home.store(Container::Zstd).with_cache(cache.path());
    let mut seen: Vec<String> = Vec::new();
    let mut query = Query {
        now: 9_000_000_000_000,
        ..limit(2_500)
    };
    let mut added = 10_000;
    loop {
        let page = store.list(&query).unwrap();
        seen.extend(page.rows.iter().map(|row| row.id.to_string()));
        if page.next.is_none() {
            break;
        }
        query.cursor = page.next;
        put_many(&home.root(), Container::Raw, added..added + 20);
        added += 20;
    }
    seen.sort();
    let expected: Vec<String> = (0..10_000).map(id).collect();
    seen.retain(|id| *id <= expected[9_999]);
    assert_eq!(seen, expected, "each of them, and none twice");
}

#[test]
fn a_clock_that_was_wrong_changes_the_order_and_nothing_else() {
    let home = Home::new();
    put_at(
        &home,
        &[
            ("future", 9_000_000_000),
            ("now", 1_800_000_000),
            ("epoch", 0),
        ],
    );
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let store = home.store(Container::Raw).with_cache(dir.path());
        // Some of the files are younger than the moment of the list, as if the clock had gone back.
        for now in [0, 1_000, 1_800_000_000_000, i64::MAX, i64::MIN] {
            let query = Query {
                now,
                ..Query::default()
            };
            let page = store.list_filled(&query, u64::MAX).unwrap().page;
            assert_eq!(ids(&page), ["future", "now", "epoch"]);
            assert!(page.rows.iter().all(|row| row.status() == Status::Ok));
            let times: Vec<i64> = page.rows.iter().map(Listed::activity).collect();
            assert_eq!(times, [9_000_000_000_000, 1_800_000_000_000, 1]);
        }
    }
}

#[test]
fn a_summary_of_an_open_session_is_that_of_its_file() {
    let home = Home::new();
    let store = home.store(Container::Zstd);
    let bytes = file_bytes(Container::Zstd, &header("demo"), &[&events(9)]);
    home.put_log("demo", Container::Zstd, bytes);
    let opened = store.open(&"demo".into(), 5_000).unwrap();
    let read = store.read(&"demo".into()).unwrap();
    assert_eq!(
        Summary::of_session(&opened.session),
        Summary::of(&read.stored)
    );
    let seed = opened.session.fork_seed(Some(Seq::new(7))).unwrap();
    let forked = opened.session.header().forked("child".into(), 2);
    let mut writer = store.fork(&forked, &seed, &read.shareable).unwrap();
    writer.flush().unwrap();
    let child = store.read(&"child".into()).unwrap();
    assert_eq!(Summary::of(&child.stored).cut, Some(Seq::new(7)));
    let session = offshoot_session::Session::from_seed(forked, seed, 3).unwrap();
    assert_eq!(Summary::of_session(&session), Summary::of(&child.stored));
}

#[test]
fn a_finding_is_told_with_its_event() {
    let home = Home::new();
    let rows = TWO_CALLS.lines().take(9).map(str::to_owned);
    let closing = [
        r#"{"type":"step/end","seq":9,"time":122,"data":{"turn":1,"step":1}}"#,
        r#"{"type":"turn/end","seq":10,"time":132,"data":{"turn":1,"reason":{"kind":"completed"}}}"#,
    ];
    let rows: Vec<_> = rows.chain(closing.map(str::to_owned)).collect();
    let rows: Vec<_> = rows.iter().map(|row| event(row)).collect();
    let bytes = file_bytes(Container::Raw, &header("demo"), &[&rows]);
    home.put_log("demo", Container::Raw, bytes);
    let store = home.store(Container::Raw);
    let page = store.list_filled(&Query::default(), u64::MAX).unwrap().page;
    let found = &page.rows[0].summary().unwrap().findings;
    assert_eq!(
        *found,
        [Noticed {
            code: "UNANSWERED_CALLS".into(),
            seq: Seq::new(9)
        }]
    );
}

#[test]
fn bad_files_are_rows_with_their_reason_and_hide_no_other() {
    let home = Home::new();
    put_at(&home, &[("good", 9), ("fine", 8)]);
    let whole = file_bytes(Container::Raw, &header("damaged"), &[&events(16)]);
    let text = String::from_utf8(whole).unwrap();
    let damaged = text.replacen(r#""seq":3"#, r#""seq":4"#, 1);
    home.put_log("damaged", Container::Raw, damaged);
    home.put_log("half", Container::Raw, &text.as_bytes()[..40]);
    home.put_log("empty", Container::Raw, "");
    home.put_log("noise", Container::Zstd, "no frame");
    home.put("--work-demo--/newer/session.v7.jsonl", "anything");
    home.put("--work-demo--/flat.jsonl", "{}");
    let twice = file_bytes(Container::Raw, &header("twice"), &[]);
    home.put_log("twice", Container::Raw, &twice);
    home.put("--copies--/twice/session.v4.jsonl", &twice);
    let before = home.tree();

    let cache = tempfile::tempdir().unwrap();
    let expected = [
        ("damaged", "damaged"),
        ("empty", "damaged"),
        ("fine", "ok"),
        ("flat", "damaged"),
        ("good", "ok"),
        ("half", "damaged"),
        ("newer", "unsupported"),
        ("noise", "damaged"),
        ("twice", "damaged"),
        ("twice", "damaged"),
    ]
    .map(|(id, status)| (id.to_owned(), status));
    assert_eq!(states(&home.store(Container::Raw)), expected);
    for _ in 0..2 {
        let store = home.store(Container::Raw).with_cache(cache.path());
        assert_eq!(states(&store), expected);
    }
    let page = home
        .store(Container::Raw)
        .list_filled(&Query::default(), u64::MAX);
    let rows = page.unwrap().page.rows;
    let damaged = rows.into_iter().find(|row| row.id.as_str() == "damaged");
    let fault = damaged.unwrap().body.unwrap().unwrap_err();
    assert_eq!(
        Fault {
            reason: home.shorten(&fault.reason),
            ..fault
        },
        Fault {
            status: Status::Damaged,
            code: "DAMAGED_LOG".into(),
            reason:
                "`<root>/--work-demo--/damaged/session.v4.jsonl`: line 5: expected seq 3, found 4; \
                     a later turn/end (event 15) shows that this was committed"
                    .into(),
        }
    );
    assert_eq!(home.tree(), before);
}

#[test]
fn text_is_looked_for_in_titles_too_once_they_are_read() {
    let home = Home::new();
    put_many(&home.root(), Container::Raw, 0..3);
    let store = home.store(Container::Zstd);
    let query = Query {
        text: Some("A Small".into()),
        ..limit(2)
    };
    assert_eq!(store.list(&query).unwrap().matching, 0);
    let filled = store.list_filled(&query, u64::MAX).unwrap();
    assert_eq!((filled.page.matching, filled.page.rows.len()), (3, 2));
    let rest = Query {
        cursor: filled.page.next,
        ..query
    };
    let rest = store.list_filled(&rest, u64::MAX).unwrap().page;
    assert_eq!((rest.matching, rest.rows.len(), rest.next), (3, 1, None));
}

#[test]
fn bodies_are_read_newest_first_up_to_the_budget_and_the_first_always() {
    let home = Home::new();
    put_at(&home, &[("first", 30), ("second", 20), ("third", 10)]);
    let size = fs::metadata(home.log("first", Container::Raw))
        .unwrap()
        .len();
    let store = home.store(Container::Raw);
    for (budget, read) in [(0, 0), (1, 1), (size, 1), (size + 1, 2), (u64::MAX, 3)] {
        let filled = store.list_filled(&Query::default(), budget).unwrap();
        let rows = &filled.page.rows;
        let known: Vec<bool> = rows.iter().map(|row| row.summary().is_some()).collect();
        assert_eq!(known, [read > 0, read > 1, read > 2], "{budget}");
        assert_eq!(filled.unread, 3 - read);
    }
}

#[test]
fn rows_that_somebody_else_has_in_hand_page_in_the_same_way() {
    let row = |id: &str, modified| {
        let header = SessionHeader::new(id.into(), 1);
        Listed::new(SessionId::from(id), "/x".into(), modified, Ok(header))
    };
    let rows = || vec![row("b", 2), row("c", 1), row("a", 2)];
    let first = Page::of(rows(), &limit(2)).unwrap();
    assert_eq!((ids(&first), first.matching), (vec!["a", "b"], 3));
    let second = Page::of(rows(), &behind(&first, 2)).unwrap();
    assert_eq!((ids(&second), second.next.as_deref()), (vec!["c"], None));

    // Without an index of its own a backend reads what it lists.
    let home = Home::new();
    put_at(&home, &[("a", 5)]);
    let store = home.store(Container::Raw);
    let mut rows = vec![row("a", 5), row("gone", 4)];
    store.fill(&mut rows, u64::MAX);
    let states: Vec<_> = rows.iter().map(Listed::status).collect();
    assert_eq!(states, [Status::Ok, Status::Unreadable]);
    write(&home.log("a", Container::Raw), "");
    let mut rows = vec![row("a", 5)];
    store.fill(&mut rows, u64::MAX);
    assert_eq!(rows[0].status(), Status::Damaged);
}
