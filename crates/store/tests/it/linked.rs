//! Linked forks: what is shared, what is written, and that nothing which happens to the source reaches the child.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use offshoot_format::{BranchHeader, Container, FrameScan, decode, read_header, scan_frame};
use offshoot_session::{Event, EventLog, ForkSeed, LogOffset, Seq, SessionHeader, build_fork_seed};
use offshoot_store::{ForkLayout, JsonlStore, Persistence, Prefix, StoreError};

use crate::faulty::{Fault, FaultyDisk};
use crate::support::{Home, NOW, PROJECT, event, events, file_bytes, header, log, texts};

pub(crate) const BRANCH: &str = "branch.o1.jsonl.zstd";

pub(crate) fn child(id: &str, parent: &str) -> SessionHeader {
    header(parent).forked(id.into(), 2)
}

/// A home with the session `demo`: its events in frames that end behind these.
pub(crate) fn home_with(ends: &[usize]) -> Home {
    let home = Home::ours();
    home.put_log("demo", Container::Zstd, source_bytes(ends));
    home
}

pub(crate) fn source_bytes(ends: &[usize]) -> Vec<u8> {
    let all = events(16);
    let mut start = 0;
    let batches: Vec<_> = ends
        .iter()
        .map(|end| &all[std::mem::replace(&mut start, *end)..*end])
        .collect();
    file_bytes(Container::Zstd, &header("demo"), &batches)
}

/// Forks a stored session as somebody who does not write it.
pub(crate) fn fork(store: &JsonlStore, id: &str, parent: &str, cut: u64) -> Vec<String> {
    let source = store.read(&parent.into()).unwrap();
    let seed = build_fork_seed(&source.stored.log, Seq::new(cut)).unwrap();
    drop(
        store
            .fork(&child(id, parent), &seed, &source.shareable)
            .unwrap(),
    );
    texts(seed.log().events())
}

pub(crate) fn read(store: &JsonlStore, id: &str) -> Vec<String> {
    texts(store.read(&id.into()).unwrap().stored.log.events())
}

fn names(home: &Home, id: &str) -> Vec<String> {
    let entries = fs::read_dir(home.dir(id)).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub(crate) fn branch_header(home: &Home, id: &str) -> BranchHeader {
    let bytes = fs::read(home.dir(id).join(BRANCH)).unwrap();
    BranchHeader::read(&read_header(Container::Zstd, &bytes).unwrap()).unwrap()
}

/// The rows in a compressed file behind its header.
fn own_rows(path: &Path) -> Vec<String> {
    let bytes = fs::read(path).unwrap();
    let Ok(FrameScan::Complete(header)) = scan_frame(&bytes) else {
        panic!("no header");
    };
    let text = zstd::decode_all(&bytes[header..]).unwrap();
    let text = String::from_utf8(text).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_fork_links_its_source_and_writes_only_what_no_whole_frame_of_it_holds() {
    let home = home_with(&[3, 9, 11, 16]);
    let store = home.store(Container::Zstd);
    let expected = fork(&store, "child", "demo", 9);

    assert_eq!(
        names(&home, "child"),
        ["base-0.jsonl.zstd", BRANCH, "session.lock"]
    );
    let base = fs::metadata(home.dir("child").join("base-0.jsonl.zstd")).unwrap();
    let source = fs::metadata(home.log("demo", Container::Zstd)).unwrap();
    assert_eq!((base.ino(), base.nlink()), (source.ino(), 2));

    let header = branch_header(&home, "child");
    assert_eq!(header.session, child("child", "demo"));
    let [shared] = header.bases[..] else {
        panic!("one base: {header:?}");
    };
    assert_eq!((shared.frames, shared.events.get()), (2, 9));
    assert_eq!(shared.bytes, source_bytes(&[3, 9]).len() as u64);
    assert_eq!(own_rows(&home.dir("child").join(BRANCH)), expected[9..]);

    assert_eq!(read(&store, "child"), expected);
    let stored = store.read(&"child".into()).unwrap().stored;
    assert_eq!(stored.inherited, LogOffset::new(10));
    assert_eq!(stored.tail, None);
}

#[test]
fn the_file_of_a_branch_has_these_bytes() {
    let home = home_with(&[3, 9, 16]);
    let store = home.store(Container::Zstd);
    fork(&store, "child", "demo", 4);
    let bytes = fs::read(home.dir("child").join(BRANCH)).unwrap();
    insta::assert_snapshot!(read_header(Container::Zstd, &bytes).unwrap(), @r#"{"type":"offshoot-branch","version":1,"session":{"type":"session","version":4,"id":"child","createdAt":2,"cwd":"/work/demo","parentSession":"demo","isSeeded":true,"delegationDepth":0},"bases":[{"file":"base-0.jsonl.zstd","frames":1,"bytes":309,"events":3,"digest":"abe82265c78da47ab441ce5753d77351c94f417c41d00195a2d0d1b75b56dcc2"}]}"#);
    // What was written once is read for ever.
    let golden = Home::ours();
    golden.put(
        format!("{PROJECT}/child/{BRANCH}"),
        include_bytes!("golden/branch.o1.jsonl.zstd"),
    );
    golden.put(
        format!("{PROJECT}/child/base-0.jsonl.zstd"),
        include_bytes!("golden/base-0.jsonl.zstd"),
    );
    let reread = golden.store(Container::Zstd);
    assert_eq!(read(&reread, "child"), read(&store, "child"));
}

#[test]
fn every_cut_three_deep_reads_back_as_its_seed_whatever_the_sources_do_afterwards() {
    let home = home_with(&[1, 3, 4, 9, 11, 12, 16]);
    let store = home.store(Container::Zstd);
    let mut expected = BTreeMap::new();
    for cut in 0..16 {
        let id = format!("child-{cut}");
        let rows = fork(&store, &id, "demo", cut);
        for second in (0..rows.len() as u64).step_by(3) {
            let nested = format!("{id}-{second}");
            let rows = fork(&store, &nested, &id, second);
            let last = rows.len() as u64 - 1;
            let third = format!("{nested}-{last}");
            expected.insert(third.clone(), fork(&store, &third, &nested, last));
            expected.insert(nested, rows);
        }
        expected.insert(id, rows);
    }
    let check = |when: &str| {
        for (id, rows) in &expected {
            assert_eq!(&read(&store, id), rows, "{id} {when}");
        }
    };
    check("at first");
    drop(store.open(&"demo".into(), NOW).unwrap());
    for id in ["child-3", "child-9-0", "child-12-6"] {
        let mut opened = store.open(&id.into(), NOW).unwrap();
        let next = turn_start(opened.session.log());
        opened.writer.append(&[next]).unwrap();
        drop(opened);
        expected_grows(&store, &expected[id], id);
    }
    for id in ["child-3", "child-9-0", "child-12-6"] {
        expected.get(id).unwrap();
    }
    fs::remove_dir_all(home.dir("demo")).unwrap();
    fs::remove_dir_all(home.dir("child-9")).unwrap();
    for (id, rows) in &expected {
        if id != "child-9" {
            assert!(
                read(&store, id).starts_with(rows),
                "{id} without its source"
            );
        }
    }
}

fn expected_grows(store: &JsonlStore, rows: &[String], id: &str) {
    let now = read(store, id);
    assert!(now.starts_with(rows) && now.len() > rows.len(), "{id}");
}

pub(crate) fn turn_start(log: &EventLog) -> Arc<Event> {
    let (seq, turn) = (log.end(), log.last_turn() + 1);
    event(&format!(
        r#"{{"type":"turn/start","seq":{seq},"time":9500,"data":{{"turn":{turn}}}}}"#
    ))
}

#[test]
fn nested_forks_link_every_base_and_each_only_as_far_as_the_cut() {
    let home = home_with(&[3, 9, 16]);
    let store = home.store(Container::Zstd);
    fork(&store, "a", "demo", 11);
    let mut opened = store.open(&"a".into(), NOW).unwrap();
    let end = opened.session.log().end();
    opened
        .writer
        .append(&[turn_start(opened.session.log())])
        .unwrap();
    let late = opened.session.log().end().get();
    drop(opened);
    fork(&store, "b", "a", late);
    fork(&store, "c", "b", 5);
    let bases = |id: &str| -> Vec<(u64, u64)> {
        let bases = branch_header(&home, id).bases;
        bases
            .iter()
            .map(|base| (base.frames, base.events.get()))
            .collect()
    };
    let a = store.read(&"a".into()).unwrap().stored;
    assert_eq!(bases("a"), [(2, 9)]);
    // Its own first frame has the rest of what it inherited, marker and closers; its second one the resume marker.
    let first = a
        .frames
        .iter()
        .map(|frame| frame.first.get())
        .collect::<Vec<_>>();
    assert_eq!(first, [0, 3, 9, end.get() - 1, end.get()]);
    assert_eq!(bases("b"), [(2, 9), (3, late + 1)]);
    assert_eq!(bases("c"), [(1, 3)]);
    assert_eq!(
        names(&home, "b"),
        [
            "base-0.jsonl.zstd",
            "base-1.jsonl.zstd",
            BRANCH,
            "session.lock"
        ]
    );
}

#[test]
fn who_writes_a_session_forks_it_with_all_that_is_durable_and_what_is_not_goes_into_the_fork() {
    let home = Home::ours();
    let store = home.store(Container::Zstd);
    let all = events(16);
    let mut writer = store.create(&header("demo")).unwrap();
    writer.append(&all[..4]).unwrap();
    writer.append(&all[4..9]).unwrap();
    // Events 9 and 10 wait to be written: the fork is cut behind them.
    let seed = build_fork_seed(&log(&all[..11]), Seq::new(10)).unwrap();
    drop(
        store
            .fork(&child("live", "demo"), &seed, &writer.shareable())
            .unwrap(),
    );
    assert_eq!(branch_header(&home, "live").shared().get(), 9);
    assert_eq!(read(&store, "live"), texts(seed.log().events()));

    // Somebody else cannot know that the last frame is durable, as long as nothing stands behind it.
    let expected = fork(&store, "other", "demo", 8);
    assert_eq!(branch_header(&home, "other").shared().get(), 4);
    assert_eq!(read(&store, "other"), expected);

    // What is appended to the source, or taken back there, is not in the forks.
    writer.append(&all[9..]).unwrap();
    assert_eq!(read(&store, "live"), texts(seed.log().events()));
    assert_eq!(read(&store, "other"), expected);
    // The forks of a fork that is still open are linked as well.
    let seed = build_fork_seed(&log(&all), Seq::new(8)).unwrap();
    let open = store
        .fork(&child("open", "demo"), &seed, &writer.shareable())
        .unwrap();
    let nested = build_fork_seed(seed.log(), seed.log().end().last().unwrap()).unwrap();
    let header = child("open", "demo").forked("nested".into(), 3);
    drop(store.fork(&header, &nested, &open.shareable()).unwrap());
    assert_eq!(branch_header(&home, "nested").bases.len(), 2);
    assert_eq!(read(&store, "nested"), texts(nested.log().events()));
    let early = build_fork_seed(seed.log(), Seq::new(3)).unwrap();
    let header = child("open", "demo").forked("early".into(), 3);
    drop(store.fork(&header, &early, &open.shareable()).unwrap());
    assert_eq!(branch_header(&home, "early").shared().get(), 4);
    assert_eq!(read(&store, "early"), texts(early.log().events()));
}

#[test]
fn a_source_that_nobody_writes_is_shared_to_its_end_and_a_writer_finds_it_free_again() {
    let home = Home::ours();
    let store = home.store(Container::Zstd);
    let mut writer = store.create(&header("demo")).unwrap();
    writer.append(&events(16)).unwrap();
    drop(writer);
    let before = home.tree();
    let expected = fork(&store, "child", "demo", 15);
    assert_eq!(branch_header(&home, "child").shared().get(), 16);
    assert_eq!(own_rows(&home.dir("child").join(BRANCH)), expected[16..]);
    let changed: Vec<_> = home
        .tree()
        .into_iter()
        .filter(|(name, bytes)| before.get(name) != Some(bytes))
        .collect();
    assert!(
        changed.iter().all(|(name, _)| name.contains("/child/")),
        "{changed:?}"
    );
    drop(store.open(&"demo".into(), NOW).unwrap());
    assert_eq!(read(&store, "child"), expected);
}

#[test]
fn a_source_of_an_older_version_becomes_a_self_contained_file() {
    for (version, rows) in [(0, crate::older::V0), (3, crate::older::V3)] {
        let home = Home::ours();
        let name = if version == 0 {
            "session.jsonl".into()
        } else {
            format!("session.v{version}.jsonl")
        };
        home.put(format!("{PROJECT}/demo/{name}"), rows);
        let store = home.store(Container::Zstd);
        let expected = fork(&store, "child", "demo", 2);
        assert_eq!(
            names(&home, "child"),
            ["session.lock", "session.v4.jsonl.zstd"]
        );
        // The parent is brought up and repaired: the fork stays.
        drop(store.open(&"demo".into(), NOW).unwrap());
        assert_eq!(read(&store, "child"), expected, "{version}");
    }
}

/// Forks a session whose writer was killed, repairs that session, and checks that the fork is as it was.
fn fork_then_repair(bytes: &[u8], cut: u64, shared: u64) {
    let home = Home::ours();
    home.put_log("demo", Container::Zstd, bytes);
    let store = home.store(Container::Zstd);
    let expected = fork(&store, "child", "demo", cut);
    assert_eq!(branch_header(&home, "child").shared().get(), shared);
    drop(store.open(&"demo".into(), NOW).unwrap());
    assert_eq!(read(&store, "child"), expected);
    // On the tail that was repaired.
    let repaired = read(&store, "demo");
    let last = repaired.len() as u64 - 1;
    let expected = fork(&store, "late", "demo", last);
    assert_eq!(expected[..repaired.len()], repaired);
    drop(store.open(&"demo".into(), NOW + 1).unwrap());
    assert_eq!(read(&store, "late"), expected);
    let mut opened = store.open(&"late".into(), NOW + 2).unwrap();
    let end = opened.session.log().end();
    opened
        .writer
        .append(&[turn_start(opened.session.log())])
        .unwrap();
    assert_eq!(read(&store, "late").len() as u64, end.get() + 1);
}

#[test]
fn a_cut_in_a_torn_frame_is_copied_and_outlives_its_repair() {
    let whole = source_bytes(&[3, 7, 9]);
    // All records of the torn frame are there, only its checksum is not whole.
    fork_then_repair(&whole[..whole.len() - 2], 8, 7);
}

#[test]
fn a_cut_ahead_of_a_torn_end_or_of_a_frame_with_a_gap_shares_what_is_sound() {
    let whole = source_bytes(&[3, 7]);
    let torn = [&whole[..], &[0x28, 0xB5][..]].concat();
    fork_then_repair(&torn, 6, 7);
    let all = events(16);
    let gap = [Arc::clone(&all[7]), Arc::clone(&all[9])];
    let with_gap = file_bytes(
        Container::Zstd,
        &header("demo"),
        &[&all[..3], &all[3..7], &gap],
    );
    fork_then_repair(&with_gap, 7, 7);
}

#[test]
fn a_process_killed_while_it_writes_leaves_a_source_whose_forks_stay_what_they_are() {
    let home = Home::ours();
    let store = home.store(Container::Zstd);
    let holder = crate::child::Holder::start("create", &home.root(), Container::Zstd);
    let expected = fork(&store, "child", "demo", 1);
    holder.kill();
    let opened = store.open(&"demo".into(), NOW).unwrap();
    assert_eq!(opened.repair.unwrap().closers.len(), 2);
    assert_eq!(read(&store, "child"), expected);
}

fn with_disk(home: &Home, disk: Arc<FaultyDisk>) -> JsonlStore {
    JsonlStore::on(home.root(), Container::Zstd, disk)
}

/// The fork of `demo` behind event 9, and the store that it is made with.
fn seed_of(home: &Home) -> (ForkSeed, Prefix) {
    let source = home.store(Container::Zstd).read(&"demo".into()).unwrap();
    let seed = build_fork_seed(&source.stored.log, Seq::new(9)).unwrap();
    (seed, source.shareable)
}

#[test]
fn a_fork_that_stops_or_fails_at_any_step_is_there_whole_or_not_at_all_and_can_be_made_again() {
    for fault in [Fault::Forever, Fault::Once] {
        let sound = FaultyDisk::sound();
        let home = home_with(&[3, 9, 16]);
        let (seed, shareable) = seed_of(&home);
        let header = child("child", "demo");
        drop(
            with_disk(&home, sound.clone())
                .fork(&header, &seed, &shareable)
                .unwrap(),
        );
        let expected = texts(seed.log().events());
        // Nearly all steps are bytes of the one file: few of those are tried, and all that is ahead of it and behind it.
        let (first, last) = (40, sound.steps() - 12);
        let bytes = (first..last).step_by(41);
        for step in (0..first).chain(bytes).chain(last..sound.steps()) {
            let home = home_with(&[3, 9, 16]);
            let (seed, shareable) = seed_of(&home);
            let broken = with_disk(&home, FaultyDisk::new(fault, step));
            let failed = broken.fork(&header, &seed, &shareable);
            let store = home.store(Container::Zstd);
            match store.read(&"child".into()) {
                Ok(read) => assert_eq!(texts(read.stored.log.events()), expected, "step {step}"),
                Err(StoreError::NotFound { .. }) => {
                    assert!(failed.is_err(), "step {step}");
                    drop(failed);
                    drop(store.fork(&header, &seed, &shareable).unwrap());
                    assert_eq!(read(&store, "child"), expected, "step {step}");
                }
                Err(error) => panic!("step {step}: {error}"),
            }
            assert_eq!(read(&store, "demo"), texts(&events(16)), "step {step}");
        }
    }
}

#[test]
fn where_forks_are_not_to_be_linked_the_frames_are_copied_as_they_are() {
    let others = Home::new();
    others.put_log("demo", Container::Zstd, source_bytes(&[3, 9, 16]));
    let ours = home_with(&[3, 9, 16]);
    let cases = [
        (&others, others.store(Container::Zstd)),
        (
            &ours,
            ours.store(Container::Zstd)
                .keeping_forks(ForkLayout::Portable),
        ),
    ];
    for (home, store) in cases {
        let before = fs::read(home.log("demo", Container::Zstd)).unwrap();
        let expected = fork(&store, "child", "demo", 9);
        let bytes = fs::read(home.log("child", Container::Zstd)).unwrap();
        let mut parts = Container::Zstd.header(&child("child", "demo")).unwrap();
        let source_header = Container::Zstd.header(&header("demo")).unwrap().len();
        parts.extend(&source_bytes(&[3, 9])[source_header..]);
        assert!(bytes.starts_with(&parts));
        assert_eq!(
            names(home, "child"),
            ["session.lock", "session.v4.jsonl.zstd"]
        );
        assert_eq!(texts(decode(&bytes).unwrap().log.events()), expected);
        assert_eq!(read(&store, "child"), expected);
        assert_eq!(fs::read(home.log("demo", Container::Zstd)).unwrap(), before);
        // Its frames can be shared like those of any other session.
        let expected = fork(&store, "nested", "child", 5);
        assert_eq!(read(&store, "nested"), expected);
        let open = store.open(&"child".into(), NOW).unwrap();
        assert_eq!(open.writer.shareable().events(), open.session.log().end());
    }
}

#[test]
fn a_file_with_as_many_links_as_it_can_have_or_that_has_gone_is_copied() {
    for kind in [
        std::io::ErrorKind::TooManyLinks,
        std::io::ErrorKind::CrossesDevices,
        std::io::ErrorKind::Unsupported,
    ] {
        let home = home_with(&[3, 9, 16]);
        let (seed, shareable) = seed_of(&home);
        let disk = FaultyDisk::refusing_links_to("base-0.jsonl.zstd", kind);
        drop(
            with_disk(&home, disk)
                .fork(&child("child", "demo"), &seed, &shareable)
                .unwrap(),
        );
        assert_eq!(
            names(&home, "child"),
            ["session.lock", "session.v4.jsonl.zstd"],
            "{kind}"
        );
        assert_eq!(
            read(&home.store(Container::Zstd), "child"),
            texts(seed.log().events())
        );
    }
    // A log that is itself a symbolic link.
    let home = home_with(&[3, 9, 16]);
    let elsewhere = home.root().join("../elsewhere");
    fs::copy(home.log("demo", Container::Zstd), &elsewhere).unwrap();
    fs::remove_file(home.log("demo", Container::Zstd)).unwrap();
    std::os::unix::fs::symlink(&elsewhere, home.log("demo", Container::Zstd)).unwrap();
    let (seed, shareable) = seed_of(&home);
    let store = home.store(Container::Zstd);
    drop(
        store
            .fork(&child("child", "demo"), &seed, &shareable)
            .unwrap(),
    );
    assert_eq!(
        names(&home, "child"),
        ["session.lock", "session.v4.jsonl.zstd"]
    );
    fs::remove_file(elsewhere).unwrap();
    assert_eq!(read(&store, "child"), texts(seed.log().events()));
    // Meanwhile the source was deleted, or another session took its place.
    let takes_place = |home: &Home| {
        home.put_log("demo", Container::Zstd, source_bytes(&[3]));
    };
    let changes: [&dyn Fn(&Home); 2] = [&|_| {}, &takes_place];
    for change in changes {
        let home = home_with(&[3, 9, 16]);
        let (seed, shareable) = seed_of(&home);
        fs::remove_dir_all(home.dir("demo")).unwrap();
        change(&home);
        let store = home.store(Container::Zstd);
        drop(
            store
                .fork(&child("child", "demo"), &seed, &shareable)
                .unwrap(),
        );
        assert_eq!(
            names(&home, "child"),
            ["session.lock", "session.v4.jsonl.zstd"]
        );
        assert_eq!(read(&store, "child"), texts(seed.log().events()));
    }
}

#[test]
fn a_raw_source_becomes_a_self_contained_file() {
    let home = Home::ours();
    home.put_log(
        "demo",
        Container::Raw,
        file_bytes(Container::Raw, &header("demo"), &[&events(16)]),
    );
    let store = home.store(Container::Zstd);
    let expected = fork(&store, "child", "demo", 9);
    assert_eq!(
        names(&home, "child"),
        ["session.lock", "session.v4.jsonl.zstd"]
    );
    assert_eq!(read(&store, "child"), expected);
}

#[test]
fn a_long_log_is_published_in_frames_that_can_be_shared() {
    let home = Home::ours();
    let store = home.store(Container::Zstd);
    let filler = "x".repeat(300 << 10);
    let mut long = EventLog::new();
    for seq in 0..12 {
        let row = format!(
            r#"{{"type":"user/message","seq":{seq},"time":1,"data":{{"id":"m-{seq}","role":"user","content":[{{"type":"text","text":"{filler}"}}],"source":{{"kind":"user"}}}},"surfaceOp":"append"}}"#
        );
        long.push(event(&row)).unwrap();
    }
    let seed = build_fork_seed(&long, Seq::new(11)).unwrap();
    drop(
        store
            .fork(&child("long", "gone"), &seed, &Prefix::default())
            .unwrap(),
    );
    let frames = store.read(&"long".into()).unwrap().stored.frames;
    let first: Vec<u64> = frames.iter().map(|frame| frame.first.get()).collect();
    assert_eq!(first, [0, 4, 8, 12]);
    fork(&store, "child", "long", 9);
    assert_eq!(branch_header(&home, "child").shared().get(), 8);
}
