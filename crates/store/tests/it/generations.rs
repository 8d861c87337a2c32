//! Logs of older versions: read without a trace, and gone on with in a current file beside them
//! (`reference/persistence.md` §1.12).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use offshoot_format::{Container, FormatError, decode, decode_as};
use offshoot_session::LogOffset;
use offshoot_store::{
    Converted, Disk, JsonlStore, Locking, LogFile, Persistence as _, RealDisk, StoreError, convert,
};

use crate::older::{REFUSED, V0, V0_FORK, V0_KINDS, V3, V3_FORK, file, name, put};
use crate::support::{BOTH, Home, NOW, all, event, file_bytes, header, texts, write};

/// Every older session, with its version.
const OLDER: [(u64, &str); 4] = [(0, V0), (0, V0_FORK), (3, V3), (3, V3_FORK)];

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn reading_and_listing_an_older_session_writes_nothing() {
    for (version, text) in OLDER {
        for container in BOTH {
            let home = Home::new();
            put(&home, "demo", version, container, text);
            let before = home.tree();
            let store = home.store(container);

            let listed = all(&store);
            assert_eq!(listed.len(), 1);
            let read = store.read(&"demo".into()).unwrap();
            assert_eq!(listed[0].header.as_ref().unwrap().id, read.stored.header.id);
            assert_eq!(read.stored.version, version);
            assert_eq!(
                read.path,
                home.dir("demo").join(name(version, container)),
                "what was read is the older file"
            );
            assert_eq!(home.tree(), before);
        }
    }
}

#[test]
fn opening_an_older_session_publishes_a_current_file_beside_it_packed_the_same_way() {
    for (version, text) in OLDER {
        for container in BOTH {
            let home = Home::new();
            put(&home, "demo", version, container, text);
            let source = home.dir("demo").join(name(version, container));
            let store = home.store(Container::Zstd);
            let read = store.read(&"demo".into()).unwrap().stored;

            let opened = store.open(&"demo".into(), NOW).unwrap();
            let rows = texts(opened.session.log().events());
            assert_eq!(*opened.session.header(), read.header);
            drop(opened);

            assert_eq!(fs::read(&source).unwrap(), file(container, text));
            let current = name(4, container);
            let mut expected = vec![name(version, container), "session.lock".into(), current];
            expected.sort();
            assert_eq!(names(&home.dir("demo")), expected);
            let written = fs::read(home.log("demo", container)).unwrap();
            let written = decode_as(container, &written).unwrap();
            assert_eq!((written.version, written.tail), (4, None));
            assert_eq!(written.header, read.header);
            assert_eq!(written.inherited, read.inherited);
            assert_eq!(texts(written.log.events()), rows);
            assert!(rows.starts_with(&texts(read.log.events())));
        }
    }
}

#[test]
fn an_older_session_is_what_its_rows_say_and_its_open_turn_is_closed_in_the_current_file() {
    let home = Home::new();
    put(&home, "demo", 0, Container::Raw, V0);
    let opened = home
        .store(Container::Raw)
        .open(&"demo".into(), NOW)
        .unwrap();
    let log = opened.session.log();
    let kinds: Vec<&str> = log.events().map(|event| event.kind().as_str()).collect();
    assert_eq!(kinds, [&V0_KINDS[..], &["session/end-seed"]].concat());
    let repair = opened.repair.unwrap();
    assert_eq!((repair.torn_bytes, repair.closers.len()), (0, 1));
}

#[test]
fn the_cut_of_an_older_fork_becomes_its_marker() {
    for (version, text, inherited) in [(0, V0_FORK, 6), (3, V3_FORK, 2)] {
        let home = Home::new();
        put(&home, "demo", version, Container::Raw, text);
        let store = home.store(Container::Raw);
        drop(store.open(&"demo".into(), NOW).unwrap());
        let stored = store.read(&"demo".into()).unwrap().stored;
        assert_eq!(stored.version, 4);
        assert!(stored.header.is_seeded);
        assert_eq!(stored.header.parent, Some("origin".into()));
        // V0 has gained an empty system message ahead of its cut.
        assert_eq!(stored.inherited, LogOffset::new(inherited), "V{version}");
        let marker = stored.log.get(stored.inherited.seq()).unwrap();
        let marker = (marker.kind().as_str(), marker.time(), marker.data());
        assert_eq!(
            marker,
            ("session/end-seed", 301, r#"{"inherited":true}"#),
            "V{version}"
        );
    }
}

#[test]
fn the_second_time_the_current_file_is_opened() {
    let home = Home::new();
    put(&home, "demo", 0, Container::Raw, V0);
    let store = home.store(Container::Raw);
    drop(store.open(&"demo".into(), NOW).unwrap());
    let before = home.tree();

    let mut opened = store.open(&"demo".into(), NOW + 1).unwrap();
    assert_eq!(opened.repair.as_ref().map(|repair| repair.torn_bytes), None);
    let end = opened.session.log().end();
    let turn = event(&format!(
        r#"{{"type":"turn/start","seq":{end},"time":9001,"data":{{"turn":3}}}}"#
    ));
    opened.writer.append(&[turn]).unwrap();
    drop(opened);

    let after = home.tree();
    let changed: Vec<&str> = after
        .iter()
        .filter(|(name, bytes)| before.get(*name) != Some(*bytes))
        .map(|(name, _)| name.rsplit('/').next().unwrap())
        .collect();
    assert_eq!(changed, ["session.v4.jsonl"]);
    assert_eq!(
        store.locate(&"demo".into()).unwrap(),
        home.log("demo", Container::Raw)
    );
}

#[test]
fn a_session_that_cannot_be_brought_up_is_refused_without_a_trace() {
    for container in BOTH {
        let home = Home::new();
        put(&home, "demo", 0, container, REFUSED);
        let before = home.tree();
        let store = home.store(container);
        for error in [
            store.read(&"demo".into()).unwrap_err(),
            store.open(&"demo".into(), NOW).unwrap_err(),
        ] {
            assert_eq!(error.code(), "UNSUPPORTED_MIGRATION");
        }
        assert_eq!(home.tree(), before, "not even a lock");
    }
}

#[test]
fn an_older_session_that_somebody_else_has_open_stays_as_it_is() {
    let home = Home::new();
    put(&home, "demo", 3, Container::Raw, V3);
    write(&home.dir("demo").join("session.lock"), "");
    let lock = fs::File::open(home.dir("demo").join("session.lock")).unwrap();
    lock.lock().unwrap();
    let before = home.tree();
    let refused = home.store(Container::Raw).open(&"demo".into(), NOW);
    assert_eq!(refused.unwrap_err().code(), "SESSION_ALREADY_OWNED");
    assert_eq!(home.tree(), before);
}

/// A disk on which a program that ignores locks writes, just when this one writes its draft.
#[derive(Debug)]
struct Meddled {
    path: PathBuf,
    bytes: &'static str,
}

impl Disk for Meddled {
    fn open_log(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        RealDisk.open_log(path)
    }

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        write(&self.path, self.bytes);
        RealDisk.create_file(path)
    }
}

fn meddled(home: &Home, name: &str, bytes: &'static str) -> JsonlStore {
    let path = home.dir("demo").join(name);
    JsonlStore::on(
        home.root(),
        Container::Raw,
        Arc::new(Meddled { path, bytes }),
    )
}

#[test]
fn nothing_is_published_of_a_source_that_has_changed_meanwhile() {
    let home = Home::new();
    put(&home, "demo", 0, Container::Raw, V0);
    let store = meddled(&home, "session.jsonl", V0_FORK);
    let refused = store.open(&"demo".into(), NOW).unwrap_err();
    assert_eq!(refused.code(), "SESSION_CHANGED");
    assert_eq!(names(&home.dir("demo")), ["session.jsonl", "session.lock"]);
    let source = home.dir("demo").join("session.jsonl");
    assert_eq!(fs::read_to_string(source).unwrap(), V0_FORK);
}

/// A disk that writes other bytes than it was given, and says nothing.
#[derive(Debug)]
struct Forgetful;

impl Disk for Forgetful {
    fn open_log(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        // Between the sync of the draft and its publication.
        if path.extension().is_some_and(|end| end == "tmp") {
            let mut bytes = fs::read(path)?;
            *bytes.last_mut().unwrap() ^= 1;
            write(path, bytes);
        }
        RealDisk.open_log(path)
    }
}

#[test]
fn a_draft_that_the_disk_does_not_hold_as_it_was_written_is_not_published() {
    let home = Home::new();
    put(&home, "demo", 3, Container::Zstd, V3);
    let store = JsonlStore::on(home.root(), Container::Zstd, Arc::new(Forgetful));
    let refused = store.open(&"demo".into(), NOW).unwrap_err();
    assert_eq!(refused.code(), "SESSION_CHANGED");
    let left = ["session.lock", "session.v3.jsonl.zstd"];
    assert_eq!(names(&home.dir("demo")), left);
}

#[test]
fn a_current_file_that_appears_meanwhile_is_not_replaced() {
    let home = Home::new();
    put(&home, "demo", 0, Container::Raw, V0);
    let store = meddled(&home, "session.v4.jsonl", "somebody else's\n");
    let refused = store.open(&"demo".into(), NOW).unwrap_err();
    assert_eq!(refused.code(), "GENERATION_CONFLICT");
    assert_eq!(
        names(&home.dir("demo")),
        ["session.jsonl", "session.lock", "session.v4.jsonl"]
    );
    let target = fs::read_to_string(home.log("demo", Container::Raw)).unwrap();
    assert_eq!(target, "somebody else's\n");
}

#[test]
fn what_a_publication_has_left_behind_is_removed_by_the_next_one_and_nothing_else_is() {
    let home = Home::new();
    put(&home, "demo", 3, Container::Zstd, V3);
    let theirs = [
        "session.v3.jsonl.zstd.0123456789ab.tmp",
        "session.v4.jsonl.0123456789.tmp",
        "session.v4.jsonl.0123456789xy.tmp",
        "session.v4.jsonl.bak",
        "notes.tmp",
    ];
    let leftovers = [
        "session.v4.jsonl.0123456789ab.tmp",
        "session.v4.jsonl.zstd.ba9876543210.tmp",
    ];
    for name in theirs.iter().chain(&leftovers) {
        write(&home.dir("demo").join(name), "half of a");
    }
    drop(
        home.store(Container::Raw)
            .open(&"demo".into(), NOW)
            .unwrap(),
    );
    let ours = [
        "session.lock",
        "session.v3.jsonl.zstd",
        "session.v4.jsonl.zstd",
    ];
    let mut expected: Vec<&str> = ours.into_iter().chain(theirs).collect();
    expected.sort_unstable();
    assert_eq!(names(&home.dir("demo")), expected);
}

#[test]
fn of_several_generations_the_highest_is_the_session() {
    let home = Home::new();
    put(&home, "demo", 0, Container::Raw, V0);
    put(&home, "demo", 3, Container::Zstd, V3);
    let store = home.store(Container::Raw);
    assert_eq!(store.read(&"demo".into()).unwrap().stored.version, 3);

    let current = file_bytes(Container::Raw, &header("demo"), &[]);
    home.put_log("demo", Container::Raw, &current);
    assert_eq!(store.read(&"demo".into()).unwrap().stored.version, 4);
    drop(store.open(&"demo".into(), NOW).unwrap());
    let dir = home.dir("demo");
    assert_eq!(fs::read_to_string(dir.join("session.jsonl")).unwrap(), V0);
    let v3 = fs::read(dir.join("session.v3.jsonl.zstd")).unwrap();
    assert_eq!(v3, file(Container::Zstd, V3));

    write(&dir.join("session.v5.jsonl"), "from the future\n");
    let before = home.tree();
    for error in [
        store.read(&"demo".into()).unwrap_err(),
        store.open(&"demo".into(), NOW).unwrap_err(),
    ] {
        assert_eq!(error.code(), "UNSUPPORTED_VERSION");
    }
    assert_eq!(home.tree(), before);
}

#[test]
fn two_packings_of_one_older_version_are_neither_read_nor_brought_up() {
    let home = Home::new();
    for container in BOTH {
        put(&home, "demo", 0, container, V0);
    }
    let before = home.tree();
    let store = home.store(Container::Raw);
    for error in [
        store.read(&"demo".into()).unwrap_err(),
        store.open(&"demo".into(), NOW).unwrap_err(),
    ] {
        assert_eq!(error.code(), "SESSION_AMBIGUOUS");
    }
    assert_eq!(home.tree(), before);
}

#[test]
fn the_name_and_the_header_of_an_older_file_must_say_the_same_version() {
    let home = Home::new();
    put(&home, "demo", 2, Container::Raw, V3);
    let before = home.tree();
    let refused = home.store(Container::Raw).open(&"demo".into(), NOW);
    let Err(StoreError::Format { source, .. }) = refused else {
        panic!("{refused:?}");
    };
    let FormatError::Inconsistent { reason } = source else {
        panic!("{source:?}");
    };
    assert_eq!(reason, "the file name says version 2, the header says 3");
    assert_eq!(home.tree(), before);
}

#[test]
fn a_conversion_publishes_beside_the_source_or_in_a_directory_that_it_creates() {
    for container in BOTH {
        let home = Home::new();
        put(&home, "demo", 0, container, V0);
        let source = home.dir("demo").join(name(0, container));
        let elsewhere = home.root().join("a/b");
        for to in [None, Some(&*elsewhere)] {
            let path = to.unwrap_or(&home.dir("demo")).join(name(4, container));
            let done = |already| Converted {
                path: path.clone(),
                version: 0,
                events: 9,
                already,
            };
            assert_eq!(convert(&source, to, Locking::Flock).unwrap(), done(false));
            let stored = decode_as(container, &fs::read(&path).unwrap()).unwrap();
            assert_eq!((stored.version, stored.log.end().get()), (4, 9));
            assert_eq!(convert(&source, to, Locking::Flock).unwrap(), done(true));
        }
        assert_eq!(fs::read(&source).unwrap(), file(container, V0));
        assert_eq!(names(&elsewhere), [name(4, container)]);
        assert_eq!(
            fs::read(elsewhere.join(name(4, container))).unwrap(),
            fs::read(home.log("demo", container)).unwrap()
        );
    }
}

#[test]
fn a_conversion_never_replaces_a_file_nor_makes_a_session_that_is_there_twice() {
    let home = Home::new();
    put(&home, "demo", 0, Container::Raw, V0);
    let source = home.dir("demo").join("session.jsonl");
    for container in BOTH {
        let in_the_way = home.put_log("demo", container, "another\n");
        let before = home.tree();
        let refused = convert(&source, None, Locking::Flock).unwrap_err();
        assert_eq!(refused.code(), "GENERATION_CONFLICT");
        let StoreError::GenerationConflict { target, .. } = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(target, in_the_way);
        assert_eq!(home.tree(), before);
        fs::remove_file(in_the_way).unwrap();
    }
}

#[test]
fn a_conversion_refuses_a_current_file_and_one_that_cannot_be_brought_up() {
    let home = Home::new();
    let current = file_bytes(Container::Raw, &header("demo"), &[]);
    let current = home.put_log("demo", Container::Raw, current);
    put(&home, "refused", 0, Container::Raw, REFUSED);
    let refused = home.dir("refused").join("session.jsonl");
    let elsewhere = home.root().join("a");
    let before = home.tree();
    for (path, code) in [
        (&current, "ALREADY_CURRENT"),
        (&refused, "UNSUPPORTED_MIGRATION"),
    ] {
        for to in [None, Some(&*elsewhere)] {
            assert_eq!(convert(path, to, Locking::Flock).unwrap_err().code(), code);
        }
    }
    assert_eq!(home.tree(), before);
}

#[test]
fn a_session_of_a_home_is_not_converted_while_somebody_is_writing_to_it() {
    let home = Home::new();
    put(&home, "demo", 3, Container::Raw, V3);
    write(&home.dir("demo").join("session.lock"), "");
    let lock = fs::File::open(home.dir("demo").join("session.lock")).unwrap();
    lock.lock().unwrap();
    let before = home.tree();
    let file = home.dir("demo").join("session.v3.jsonl");
    let refused = convert(&file, None, Locking::Flock).unwrap_err();
    assert_eq!(refused.code(), "SESSION_ALREADY_OWNED");
    assert_eq!(home.tree(), before);
    // A copy elsewhere is nobody's session.
    let elsewhere = home.root().parent().unwrap().join("elsewhere");
    assert_eq!(
        convert(&file, Some(&elsewhere), Locking::Flock)
            .unwrap()
            .events,
        7
    );
}

#[test]
fn a_draft_that_a_crash_has_left_beside_its_current_file_is_removed_when_the_session_is_opened() {
    let home = Home::new();
    put(&home, "demo", 3, Container::Raw, V3);
    let open = || {
        let opened = home.store(Container::Raw).open(&"demo".into(), NOW);
        drop(opened.unwrap());
    };
    open();
    let before = names(&home.dir("demo"));
    write(
        &home.dir("demo").join("session.v4.jsonl.0123456789ab.tmp"),
        "all of a",
    );
    open();
    assert_eq!(names(&home.dir("demo")), before);
}

#[test]
fn what_a_crash_left_at_the_end_of_an_older_log_is_reported_when_it_is_brought_up() {
    let home = Home::new();
    let torn = format!("{V3}{{\"ty");
    put(&home, "demo", 3, Container::Raw, &torn);
    let opened = home
        .store(Container::Raw)
        .open(&"demo".into(), NOW)
        .unwrap();
    assert_eq!(opened.repair.unwrap().torn_bytes, 4);
    let old = fs::read_to_string(home.dir("demo").join("session.v3.jsonl")).unwrap();
    assert_eq!(old, torn);
}

#[test]
fn a_conversion_that_is_there_in_other_frames_is_there() {
    let home = Home::new();
    put(&home, "demo", 3, Container::Zstd, V3);
    let file = home.dir("demo").join("session.v3.jsonl.zstd");
    let made = convert(&file, None, Locking::Flock).unwrap();
    let stored = decode(&fs::read(&made.path).unwrap()).unwrap();
    let mut other = Container::Zstd.header(&stored.header).unwrap();
    for event in stored.log.events() {
        other.extend(Container::Zstd.batch([&**event]));
    }
    write(&made.path, &other);
    assert!(convert(&file, None, Locking::Flock).unwrap().already);
    assert_eq!(fs::read(&made.path).unwrap(), other);
}
