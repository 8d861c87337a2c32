//! What is in the files, raw or packed, after what every store does (`conformance.rs`).

use std::fs;

use offshoot_session::{LogOffset, Seq, Session, SessionHeader, SessionId, build_fork_seed};
use offshoot_store::{Persistence as _, Repair};

use crate::support::{BOTH, Home, NOW, all, event, events, file_bytes, header, log, texts};

#[test]
fn creating_writes_nothing_before_the_first_batch_and_then_header_and_batch_together() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let before = home.tree();

        let mut writer = store.create(&header("demo")).unwrap();
        assert_eq!(home.tree(), before);

        let batch = events(3);
        writer.append(&batch).unwrap();
        assert_eq!(writer.stored(), LogOffset::new(3));
        assert_eq!(
            fs::read(home.log("demo", container)).unwrap(),
            file_bytes(container, &header("demo"), &[&batch])
        );
        let names: Vec<_> = home.tree().into_keys().collect();
        let log = home.log("demo", container);
        let log = log.strip_prefix(home.root().parent().unwrap()).unwrap();
        assert_eq!(
            names,
            [
                "sessions/",
                "sessions/--work-demo--/",
                "sessions/--work-demo--/demo/",
                "sessions/--work-demo--/demo/session.lock",
                log.to_str().unwrap(),
            ]
        );
    }
}

#[test]
fn each_append_adds_one_batch_and_leaves_earlier_bytes_alone() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let all = events(16);
        let (first, second, third) = (&all[..3], &all[3..9], &all[9..]);

        let mut writer = store.create(&header("demo")).unwrap();
        for batch in [first, second, &[], third] {
            writer.append(batch).unwrap();
        }
        assert_eq!(writer.stored(), LogOffset::new(16));
        assert_eq!(
            fs::read(home.log("demo", container)).unwrap(),
            file_bytes(container, &header("demo"), &[first, second, third])
        );
    }
}

#[test]
fn flushing_a_session_without_events_makes_it_exist() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let mut writer = store.create(&header("demo")).unwrap();
        writer.flush().unwrap();
        writer.flush().unwrap();
        assert_eq!(
            fs::read(home.log("demo", container)).unwrap(),
            file_bytes(container, &header("demo"), &[])
        );
        drop(writer);

        let read = store.read(&"demo".into()).unwrap();
        assert_eq!(read.stored.log.end(), LogOffset::START);
        let opened = store.open(&"demo".into(), NOW).unwrap();
        assert_eq!(
            texts(opened.session.log().events()),
            [r#"{"type":"session/end-seed","seq":0,"time":9000,"data":{}}"#]
        );
    }
}

#[test]
fn what_was_appended_is_read_back_to_the_byte() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let mut writer = store.create(&header("demo")).unwrap();
        writer.append(&events(16)).unwrap();

        let read = store.read(&"demo".into()).unwrap();
        assert_eq!(texts(read.stored.log.events()), texts(&events(16)));
        assert_eq!(read.stored.header, header("demo"));
        assert_eq!(read.stored.tail, None);
        assert_eq!(read.path, home.log("demo", container));
        assert_eq!(store.locate(&"demo".into()).unwrap(), read.path);
    }
}

#[test]
fn opening_closes_the_open_turn_in_one_batch_and_the_session_goes_on() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let crashed = events(9);
        let bytes = file_bytes(container, &header("demo"), &[&crashed]);
        let path = home.put_log("demo", container, &bytes);

        let mut opened = store.open(&"demo".into(), NOW).unwrap();
        let kinds: Vec<String> = opened
            .session
            .log()
            .events_from(LogOffset::new(9))
            .map(|event| event.kind().to_string())
            .collect();
        assert_eq!(
            kinds,
            [
                "tool/result",
                "tool/result",
                "step/end",
                "turn/end",
                "session/end-seed"
            ]
        );
        let added: Vec<_> = opened
            .session
            .log()
            .events_from(LogOffset::new(9))
            .cloned()
            .collect();
        assert_eq!(
            opened.repair,
            Some(Repair {
                torn_bytes: 0,
                recovered: 0,
                closers: added[..4].to_vec(),
                ..Repair::default()
            })
        );
        assert_eq!(
            fs::read(&path).unwrap(),
            file_bytes(container, &header("demo"), &[&crashed, &added])
        );

        let next = event(r#"{"type":"turn/start","seq":14,"time":9100,"data":{"turn":2}}"#);
        assert_eq!(opened.writer.stored(), LogOffset::new(14));
        opened.writer.append(std::slice::from_ref(&next)).unwrap();
        assert_eq!(
            fs::read(&path).unwrap(),
            file_bytes(container, &header("demo"), &[&crashed, &added, &[next]])
        );
    }
}

#[test]
fn a_completed_session_gains_one_resume_marker_and_then_nothing_more() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let whole = events(16);
        let path = home.put_log(
            "demo",
            container,
            file_bytes(container, &header("demo"), &[&whole]),
        );
        let marker = event(r#"{"type":"session/end-seed","seq":16,"time":9000,"data":{}}"#);
        let expected = file_bytes(container, &header("demo"), &[&whole, &[marker]]);
        for now in [NOW, NOW + 1] {
            let opened = store.open(&"demo".into(), now).unwrap();
            assert_eq!(opened.repair, None);
            assert_eq!(opened.session.log().end(), LogOffset::new(17));
            drop(opened);
            assert_eq!(fs::read(&path).unwrap(), expected);
        }
    }
}

#[test]
fn a_fork_is_published_whole_and_opens_without_another_marker() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let source = log(&events(16));
        let seed = build_fork_seed(&source, Seq::new(7)).unwrap();
        let expected: Vec<_> = seed.log().events().cloned().collect();
        let child = header("demo").forked("child".into(), 2);
        let session = Session::from_seed(child.clone(), seed, NOW).unwrap();

        let mut writer = store.create(&child).unwrap();
        writer.append(&expected).unwrap();
        drop(writer);
        let bytes = file_bytes(container, &child, &[&expected]);
        assert_eq!(fs::read(home.log("child", container)).unwrap(), bytes);

        let opened = store.open(&"child".into(), NOW + 1).unwrap();
        assert_eq!(opened.repair, None);
        assert_eq!(
            opened.session.inherited_event_count(),
            session.inherited_event_count()
        );
        // The closers of the fork stand behind its marker, so the resume marker of this lifecycle is still due.
        let last = opened.session.log().last().unwrap();
        assert_eq!(
            last.text(),
            r#"{"type":"session/end-seed","seq":13,"time":9001,"data":{}}"#
        );
    }
}

#[test]
fn of_two_stores_that_create_the_same_id_the_second_to_write_is_refused() {
    // Each has its own packing, and one its own project: no two of the file names are the same.
    for first in BOTH {
        for second in BOTH {
            for cwd in [Some("/work/demo"), None] {
                let home = Home::new();
                let other = SessionHeader {
                    cwd: cwd.map(str::to_owned),
                    ..header("demo")
                };
                let mut winner = home.store(first).create(&header("demo")).unwrap();
                let mut loser = home.store(second).create(&other).unwrap();
                winner.append(&events(2)).unwrap();
                let before = home.tree();
                for _ in 0..2 {
                    let failure = loser.append(&events(2)).unwrap_err();
                    assert_eq!(failure.code(), "SESSION_ALREADY_EXISTS", "{failure}");
                }
                drop(winner);
                let failure = loser.append(&events(2)).unwrap_err();
                assert_eq!(failure.code(), "SESSION_ALREADY_EXISTS", "{failure}");
                assert_eq!(home.tree(), before);
            }
        }
    }
}

#[test]
fn every_session_is_listed_with_its_header_and_no_body_is_read() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let long = SessionHeader {
            agent_preset: Some("p".repeat(20 << 10)),
            ..header("long")
        };
        let headers = [
            header("a"),
            long,
            SessionHeader {
                cwd: None,
                ..header("z")
            },
        ];
        for header in &headers {
            let mut bytes = file_bytes(container, header, &[]);
            bytes.extend_from_slice(b"no event and no frame\n");
            let project = if header.cwd.is_some() {
                "--work-demo--"
            } else {
                "_no-cwd"
            };
            let file = crate::support::file_name(container);
            home.put(format!("{project}/{}/{file}", header.id), bytes);
        }
        let listed: Vec<_> = all(&store)
            .into_iter()
            .map(|listed| (listed.id, listed.header.unwrap()))
            .collect();
        let expected: Vec<(SessionId, SessionHeader)> = headers
            .iter()
            .map(|header| (header.id.clone(), header.clone()))
            .collect();
        assert_eq!(listed, expected);
    }
}
