//! Following a session through what happens to its file as a whole, and to the process that writes it.

use std::fs;

use offshoot_format::Container;
use offshoot_session::{LogOffset, Seq, build_fork_seed};
use offshoot_store::{News, Notice, Persistence as _, WITNESS};

use crate::child::Feeder;
use crate::follow::{add, batch, expect, follow, poll, quiet, zstd_frame};
use crate::older::{V3, put};
use crate::support::{
    BOTH, Home, NOW, PROJECT, event, events, file_bytes, file_name, header, texts, write,
};
use crate::writing::Writing;

#[test]
fn a_session_that_is_not_there_yet_is_waited_for() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let mut follower = follow(&store);
        assert_eq!(poll(&mut follower).notices, [Notice::Absent]);
        quiet(&mut follower);
        assert_eq!(follower.path(), None);
        let mut writer = store.create(&header("demo")).unwrap();
        quiet(&mut follower);
        writer.append(&events(3)).unwrap();
        let news = poll(&mut follower);
        let path = home.log("demo", container);
        assert_eq!(news.notices, [Notice::Appeared { path }]);
        assert_eq!(texts(&news.events), texts(&events(3)));
    }
}

#[test]
fn a_deleted_session_is_told_of_once_and_goes_on_where_it_was_when_it_is_restored() {
    let all = events(9);
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let mut writer = store.create(&header("demo")).unwrap();
        writer.append(&all[..5]).unwrap();
        let mut follower = follow(&store);
        expect(&mut follower, &all[..5]);
        let trash = home.root().with_file_name("trash");
        #[expect(clippy::disallowed_methods, reason = "what deleting a session does")]
        fs::rename(home.dir("demo"), &trash).unwrap();
        assert_eq!(poll(&mut follower).notices, [Notice::Absent]);
        quiet(&mut follower);
        #[expect(clippy::disallowed_methods, reason = "what restoring a session does")]
        fs::rename(&trash, home.dir("demo")).unwrap();
        let path = home.log("demo", container);
        assert_eq!(
            poll(&mut follower),
            News {
                notices: vec![Notice::Appeared { path: path.clone() }],
                events: vec![]
            }
        );
        writer.append(&all[5..]).unwrap();
        expect(&mut follower, &all[5..]);
        fs::remove_file(&path).unwrap();
        assert_eq!(poll(&mut follower).notices, [Notice::Absent]);
    }
}

#[test]
fn another_file_in_its_place_is_compared_with_what_was_handed_out() {
    let all = events(9);
    for container in BOTH {
        let home = Home::new();
        let good = file_bytes(container, &header("demo"), &[&all[..5]]);
        let path = home.put_log("demo", container, &good);
        let mut follower = follow(&home.store(container));
        expect(&mut follower, &all[..5]);
        let other = home.root().join("other");
        write(&other, file_bytes(container, &header("demo"), &[&all]));
        #[expect(clippy::disallowed_methods, reason = "what a restored backup does")]
        fs::rename(&other, &path).unwrap();
        let news = poll(&mut follower);
        assert_eq!(news.notices, [Notice::Replaced { path }]);
        assert_eq!(texts(&news.events), texts(&all[5..]));
    }
}

#[test]
fn an_older_generation_is_read_as_a_whole_and_left_for_the_newer_one_beside_it() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        put(&home, "demo", 3, container, V3);
        let name = file_name(container).replace("v4", "v3");
        let old = home.dir("demo").join(name);
        let mut follower = follow(&store);
        let first = poll(&mut follower);
        let read = store.read(&"demo".into()).unwrap().stored;
        assert_eq!(texts(&first.events), texts(read.log.events()));
        assert_eq!(follower.version(), Some(3));
        // It grows as it did in its time.
        let row = format!(
            "{{\"type\":\"llm/retry/custom\",\"seq\":{},\"time\":300,\"data\":{{}},\"ignorable\":true}}\n",
            V3.lines().count() - 1
        );
        match container {
            Container::Raw => add(&old, row.as_bytes()),
            Container::Zstd => add(&old, &zstd_frame(&row)),
        }
        let second = poll(&mut follower);
        assert_eq!((second.notices.len(), second.events.len()), (0, 1));
        quiet(&mut follower);

        let opened = store.open(&"demo".into(), NOW).unwrap();
        let news = poll(&mut follower);
        let path = home.log("demo", container);
        let marker = opened.session.log().end().last().unwrap();
        assert_eq!(
            news.notices,
            [Notice::Replaced { path }, Notice::Repaired { marker }]
        );
        assert_eq!(follower.version(), Some(4));
        let handed: Vec<_> = [first.events, second.events, news.events].concat();
        assert_eq!(texts(&handed), texts(opened.session.log().events()));
        quiet(&mut follower);
    }
}

#[test]
fn a_session_that_becomes_two_is_refused_until_it_is_one_again() {
    let all = events(5);
    let home = Home::new();
    let bytes = |container| file_bytes(container, &header("demo"), &[&all]);
    home.put_log("demo", Container::Raw, bytes(Container::Raw));
    let mut follower = follow(&home.store(Container::Raw));
    expect(&mut follower, &all);
    let twin = home.put_log("demo", Container::Zstd, bytes(Container::Zstd));
    assert_eq!(follower.poll().unwrap_err().code(), "SESSION_AMBIGUOUS");
    fs::remove_file(twin).unwrap();
    expect(&mut follower, &[]);
}

#[test]
fn a_file_that_is_not_the_session_is_refused() {
    let home = Home::new();
    let bytes = file_bytes(Container::Raw, &header("other"), &[&events(3)]);
    home.put(
        format!("{PROJECT}/demo/{}", file_name(Container::Raw)),
        bytes,
    );
    let mut follower = follow(&home.store(Container::Raw));
    assert_eq!(follower.poll().unwrap_err().code(), "SESSION_MISPLACED");
    home.put(format!("{PROJECT}/demo/session.v5.jsonl"), "from later");
    assert_eq!(follower.poll().unwrap_err().code(), "UNSUPPORTED_VERSION");
}

#[test]
fn another_process_is_followed_through_its_end_the_repair_and_going_on() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let mut follower = follow(&store);
        let mut feeder = Feeder::start(&home.root(), container);
        let mut handed = Vec::new();
        let mut stored = 1;
        for count in [0, 1, 4, 2, 3] {
            feeder.append(count);
            stored += count;
            handed.extend(poll(&mut follower).events);
            assert_eq!(handed.len(), stored, "what is acknowledged is visible");
        }
        feeder.kill();
        quiet(&mut follower);
        // Killed in the middle of the next batch.
        let end = r#"{"type":"turn/end","seq":11,"time":1,"data":{"turn":6,"reason":{"kind":"completed"}}}"#;
        let torn = batch(container, &[event(end)]);
        add(&home.log("demo", container), &torn[..torn.len() / 2]);
        let news = poll(&mut follower);
        assert_eq!(news.notices, []);
        handed.extend(news.events);

        let mut opened = store.open(&"demo".into(), NOW).unwrap();
        let news = poll(&mut follower);
        assert!(matches!(
            news.notices[..],
            [Notice::CutBack { .. }, Notice::Repaired { .. }]
        ));
        handed.extend(news.events);
        assert_eq!(texts(&handed), texts(opened.session.log().events()));
        let mut writing = Writing::new(opened.session, opened.writer);
        writing.append(3);
        handed.extend(poll(&mut follower).events);
        assert_eq!(texts(&handed), texts(writing.log().events()));
        opened.repair.take().unwrap();
    }
}

#[test]
fn a_linked_fork_is_followed_in_its_own_file() {
    let home = Home::ours();
    let store = home.store(Container::Zstd);
    let mut parent = Writing::create(&store);
    parent.append(3_000);
    // Only behind another one a frame is known to be durable.
    parent.append(1);
    let source = store.read(&"demo".into()).unwrap();
    let seed = build_fork_seed(&source.stored.log, Seq::new(2_999)).unwrap();
    let child = header("demo").forked("child".into(), 2);
    drop(store.fork(&child, &seed, &source.shareable).unwrap());
    let path = home.dir("child").join("branch.o1.jsonl.zstd");
    let size = || fs::metadata(&path).unwrap().len();

    let id = "child".into();
    let opened = store.open(&id, NOW).unwrap();
    let mut writing = Writing::new(opened.session, opened.writer);
    let mut follower = store.follow(&id, LogOffset::START);
    let mut handed = poll(&mut follower).events;
    assert_eq!(texts(&handed), texts(writing.log().events()));
    assert_eq!(follower.inherited(), LogOffset::new(3_000));
    let (start, at_first) = (size(), follower.bytes_read());
    let polls = 20;
    for _ in 0..polls {
        // What the parent does is nothing to the child.
        parent.append(5);
        quiet(&mut follower);
        writing.append(2);
        handed.extend(poll(&mut follower).events);
    }
    assert_eq!(texts(&handed), texts(writing.log().events()));
    let read = follower.bytes_read() - at_first;
    assert!(read <= size() - start + polls * WITNESS as u64, "{read}");

    let events = writing.next(3);
    drop(writing);
    let torn = batch(Container::Zstd, &events);
    add(&path, &torn[..torn.len() - 9]);
    assert_eq!(poll(&mut follower), News::default());
    let opened = store.open(&id, NOW).unwrap();
    let news = poll(&mut follower);
    assert_eq!(
        news.notices[0],
        Notice::CutBack {
            bytes: torn.len() as u64 - 9
        }
    );
    handed.extend(news.events);
    assert_eq!(texts(&handed), texts(opened.session.log().events()));
    drop(opened);

    let next = handed.len();
    let bad = event(&format!(
        r#"{{"type":"step/end","seq":{next},"time":1,"data":{{"turn":1,"step":1}}}}"#
    ));
    add(&path, &batch(Container::Zstd, &[bad]));
    let error = follower.poll().unwrap_err();
    assert_eq!(error.code(), "DAMAGED_LOG");
    let told = store.read(&id).unwrap_err();
    assert_eq!(
        error.to_string(),
        told.to_string(),
        "at its place in the own file"
    );
}
