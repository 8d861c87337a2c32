//! A damaged session goes on as a fork of what is sound in it, and itself stays as it is.

use std::fs;

use offshoot_format::Container;
use offshoot_session::LogOffset;
use offshoot_store::{Persistence as _, StoreError, salvage_into};

use crate::older::{V0, V3, put};
use crate::support::{BOTH, Home, NOW, TWO_CALLS, file_bytes, header, texts};

/// A damaged session `demo`: the line has become something else.
fn damaged(home: &Home, line: usize) -> std::path::PathBuf {
    let mut text = String::from_utf8(file_bytes(Container::Raw, &header("demo"), &[])).unwrap();
    for row in TWO_CALLS.lines() {
        text.push_str(row);
        text.push('\n');
    }
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let spoiled = [&lines[..line - 1], &["no row\n"], &lines[line..]].concat();
    home.put_log("demo", Container::Raw, spoiled.concat())
}

#[test]
fn what_is_sound_becomes_a_fork_whose_open_calls_are_answered_and_that_goes_on() {
    for container in BOTH {
        let (source, target) = (Home::new(), Home::new());
        // Both calls have begun; the first result is lost.
        let file = damaged(&source, 11);
        let before = source.tree();
        assert_eq!(
            source
                .store(container)
                .read(&"demo".into())
                .unwrap_err()
                .code(),
            "DAMAGED_LOG"
        );

        let store = target.store(container);
        let salvaged = salvage_into(&store, &file, "saved".into(), NOW).unwrap();
        assert_eq!(source.tree(), before);
        assert_eq!(
            (salvaged.version, salvaged.saved, salvaged.events),
            (4, 9, 14)
        );
        assert_eq!(salvaged.path, store.locate(&"saved".into()).unwrap());
        let loss = salvaged.loss.unwrap();
        assert_eq!((loss.place.line, loss.place.seq), (11, LogOffset::new(9)));
        assert_eq!((loss.rows, loss.turns), (7, 1));
        let size = fs::metadata(&file).unwrap().len();
        assert_eq!(loss.bytes, size - loss.place.byte);

        let opened = store.open(&"saved".into(), NOW + 1).unwrap();
        let header = opened.session.header();
        assert_eq!(header.parent, Some("demo".into()));
        assert_eq!((header.is_seeded, header.created_at), (true, 9_000));
        assert_eq!(header.cwd.as_deref(), Some("/work/demo"));
        let rows = texts(opened.session.log().events());
        let sound: Vec<&str> = TWO_CALLS.lines().take(9).collect();
        assert_eq!(rows[..9], sound);
        let added: Vec<&str> = opened
            .session
            .log()
            .events_from(LogOffset::new(9))
            .map(|event| event.kind().as_str())
            .collect();
        assert_eq!(
            added,
            [
                "session/end-seed",
                "tool/result",
                "tool/result",
                "step/end",
                "turn/end",
                "session/end-seed"
            ]
        );
        assert!(rows[13].contains(r#""kind":"forked""#), "{}", rows[13]);
        assert!(opened.session.log().continuable().is_ok());
        assert_eq!(opened.repair, None);
    }
}

#[test]
fn a_file_that_is_whole_is_saved_whole_and_may_be_of_any_version() {
    for (version, text, saved) in [(0, V0, 9), (3, V3, 7)] {
        for container in BOTH {
            let home = Home::new();
            put(&home, "demo", version, container, text);
            let store = home.store(container);
            let source = store.read(&"demo".into()).unwrap();
            let salvaged = salvage_into(&store, &source.path, "saved".into(), NOW).unwrap();
            assert_eq!(salvaged.loss, None);
            assert_eq!((salvaged.version, salvaged.saved), (version, saved));
            let rows = texts(store.read(&"saved".into()).unwrap().stored.log.events());
            assert!(rows.starts_with(&texts(source.stored.log.events())));
            assert_eq!(store.read(&"demo".into()).unwrap().stored.version, version);
        }
    }
}

#[test]
fn where_nothing_is_sound_or_the_name_is_taken_nothing_is_written() {
    let home = Home::new();
    let file = damaged(&home, 2);
    let before = home.tree();
    let store = home.store(Container::Raw);
    let refused = salvage_into(&store, &file, "saved".into(), NOW).unwrap_err();
    assert_eq!(refused.code(), "NOTHING_SOUND");
    let StoreError::NothingSound { path, reason } = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!(*path, file);
    assert!(
        reason.starts_with("line 2: not a valid event row"),
        "{reason}"
    );

    let empty = file_bytes(Container::Raw, &header("empty"), &[]);
    let empty = home.put_log("empty", Container::Raw, empty);
    let refused = salvage_into(&store, &empty, "saved".into(), NOW).unwrap_err();
    assert!(
        refused.to_string().ends_with("it has no event"),
        "{refused}"
    );
    fs::remove_dir_all(home.dir("empty")).unwrap();
    assert_eq!(home.tree(), before);

    let file = damaged(&home, 9);
    let before = home.tree();
    let refused = salvage_into(&store, &file, "demo".into(), NOW).unwrap_err();
    assert_eq!(refused.code(), "SESSION_ALREADY_EXISTS");
    let headless = home.root().join("headless.jsonl");
    let refused = salvage_into(&store, &headless, "saved".into(), NOW).unwrap_err();
    assert_eq!(refused.code(), "IO_ERROR");
    assert_eq!(home.tree(), before);
}

#[test]
fn a_moment_that_no_header_can_hold_is_refused_and_nothing_is_written() {
    let (source, target) = (Home::new(), Home::new());
    let file = damaged(&source, 11);
    for now in [-1, i64::MAX] {
        let refused = salvage_into(&target.store(Container::Raw), &file, "kid".into(), now);
        assert_eq!(refused.unwrap_err().code(), "INVALID_SEED");
    }
    assert!(target.tree().is_empty());
}
