//! Inspections: a state of a file is decoded once, and what is handed out is never older than the call.

use std::cell::Cell;
use std::fs::{self, File};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, SystemTime};

use offshoot_format::Container;
use offshoot_session::{EventLog, LogOffset, SessionId};
use offshoot_store::{
    Inspection, Inspector, InspectorLimits, InspectorWork, JsonlStore, LiveSessions, LiveView,
    Persistence as _, Revision, SETTLED_AFTER,
};

use crate::older::{V3, put};
use crate::support::{BOTH, Home, NOW, events, file_bytes, header, log, texts, write};

const LIMITS: InspectorLimits = InspectorLimits {
    sessions: 8,
    bytes: 1 << 20,
};

/// Nothing is live.
fn cold(_: &SessionId) -> Option<LiveView> {
    None
}

fn view(log: EventLog) -> LiveView {
    LiveView {
        header: header("demo"),
        log,
        inherited: LogOffset::START,
    }
}

/// When the log of a session changed last, by the file system's clock.
fn changed(home: &Home, id: &str, container: Container) -> i64 {
    let meta = fs::metadata(home.log(id, container)).unwrap();
    Revision::of(&meta).last_change()
}

/// Long after it.
fn settled(home: &Home, id: &str, container: Container) -> i64 {
    changed(home, id, container) + SETTLED_AFTER
}

fn session(home: &Home, id: &str, container: Container, count: usize) {
    let bytes = file_bytes(container, &header(id), &[&events(count)]);
    home.put_log(id, container, bytes);
}

#[track_caller]
fn rows(inspection: &Inspection) -> Vec<String> {
    texts(inspection.log().events())
}

fn counts(work: InspectorWork) -> (u64, u64, usize) {
    (work.reads, work.decodes, work.kept)
}

#[test]
fn a_state_of_a_file_is_decoded_once_and_a_new_one_is_seen_at_once() {
    for container in BOTH {
        let home = Home::new();
        session(&home, "demo", container, 5);
        let inspector = Inspector::new(home.store(container), LIMITS);
        let id = "demo".into();
        let now = settled(&home, "demo", container);
        let first = inspector.inspect(&id, &cold, now).unwrap();
        let again = inspector.inspect(&id, &cold, now).unwrap();
        let (Inspection::Cold(one), Inspection::Cold(other)) = (&first, &again) else {
            panic!("nothing is live");
        };
        assert!(std::sync::Arc::ptr_eq(one, other));
        assert_eq!(rows(&first), texts(&events(5)));
        assert_eq!(first.header(), &header("demo"));
        assert_eq!(first.inherited(), LogOffset::START);
        assert_eq!(counts(inspector.work()), (1, 1, 1));

        session(&home, "demo", container, 8);
        let now = settled(&home, "demo", container);
        let third = inspector.inspect(&id, &cold, now).unwrap();
        assert_eq!(rows(&third), texts(&events(8)));
        assert_eq!(rows(&first), texts(&events(5)), "it does not change");
        assert_eq!(counts(inspector.work()), (2, 2, 1));
        let size = fs::metadata(home.log("demo", container)).unwrap().len();
        assert_eq!(inspector.work().kept_bytes, size);
    }
}

#[test]
fn callers_at_the_same_time_share_one_decoding() {
    let home = Home::new();
    session(&home, "demo", Container::Zstd, 16);
    let inspector = Inspector::new(home.store(Container::Zstd), LIMITS);
    let now = settled(&home, "demo", Container::Zstd);
    let together = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                together.wait();
                let found = inspector.inspect(&"demo".into(), &cold, now).unwrap();
                assert_eq!(rows(&found), texts(&events(16)));
            });
        }
    });
    assert_eq!(counts(inspector.work()), (1, 1, 1));
}

#[test]
fn a_file_that_has_just_changed_is_read_again_until_it_has_settled() {
    for container in BOTH {
        let home = Home::new();
        session(&home, "demo", container, 5);
        let inspector = Inspector::new(home.store(container), LIMITS);
        let changed = changed(&home, "demo", container);
        let inspect = |now| {
            let found = inspector.inspect(&"demo".into(), &cold, now).unwrap();
            assert_eq!(rows(&found), texts(&events(5)));
            counts(inspector.work())
        };
        // A clock that is behind that of the file system proves nothing.
        assert_eq!(inspect(changed - 60_000), (1, 1, 1));
        assert_eq!(inspect(changed), (2, 1, 1), "its bytes are compared");
        assert_eq!(inspect(changed + SETTLED_AFTER - 1), (3, 1, 1));
        assert_eq!(inspect(changed + SETTLED_AFTER), (4, 1, 1));
        assert_eq!(inspect(changed + SETTLED_AFTER), (4, 1, 1), "settled");
        assert_eq!(inspect(changed), (4, 1, 1), "and it stays so");
    }
}

#[test]
fn a_time_that_was_set_says_nothing_about_when_the_file_was_changed() {
    let home = Home::new();
    session(&home, "demo", Container::Raw, 5);
    let path = home.log("demo", Container::Raw);
    let set = |time: SystemTime| {
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(time).unwrap();
    };
    let inspector = Inspector::new(home.store(Container::Raw), LIMITS);
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
    set(long_ago);
    // By its time it is old, but it was changed just now.
    let now = changed(&home, "demo", Container::Raw);
    for reads in 1..4 {
        inspector.inspect(&"demo".into(), &cold, now).unwrap();
        assert_eq!(counts(inspector.work()), (reads, 1, 1));
    }
    let far_ahead = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 33);
    set(far_ahead);
    // By its time it is never old enough, but nobody has changed it for long.
    let now = changed(&home, "demo", Container::Raw);
    for (later, reads) in [
        (SETTLED_AFTER - 1, 4),
        (SETTLED_AFTER, 5),
        (SETTLED_AFTER, 5),
    ] {
        inspector
            .inspect(&"demo".into(), &cold, now + later)
            .unwrap();
        assert_eq!(counts(inspector.work()), (reads, 2, 1));
    }
}

/// Where the clock of the file system is coarse, many of these states look alike.
#[test]
fn no_change_of_the_same_size_is_missed_however_fast_it_comes() {
    for container in BOTH {
        let home = Home::new();
        session(&home, "demo", container, 1);
        let path = home.log("demo", container);
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let inspector = Inspector::new(home.store(container), LIMITS);
        for n in 100..300 {
            let row = format!(r#"{{"type":"turn/start","seq":0,"time":{n},"data":{{"turn":1}}}}"#);
            let events = [crate::support::event(&row)];
            write(&path, file_bytes(container, &header("demo"), &[&events]));
            let file = File::options().write(true).open(&path).unwrap();
            file.set_modified(time).unwrap();
            let now = changed(&home, "demo", container);
            let found = inspector.inspect(&"demo".into(), &cold, now).unwrap();
            assert_eq!(rows(&found), [row]);
        }
    }
}

#[test]
fn the_last_used_are_kept_by_number_and_by_size() {
    let home = Home::new();
    let container = Container::Raw;
    let ids = ["a", "b", "c"];
    for id in ids {
        session(&home, id, container, 5);
    }
    let now = settled(&home, "c", container) + SETTLED_AFTER;
    let size = fs::metadata(home.log("a", container)).unwrap().len();
    let two_by_number = InspectorLimits {
        sessions: 2,
        bytes: 1 << 20,
    };
    let two_by_size = InspectorLimits {
        sessions: 8,
        bytes: 2 * size,
    };
    for limits in [two_by_number, two_by_size] {
        let inspector = Inspector::new(home.store(container), limits);
        let inspect = |id: &str| {
            inspector.inspect(&id.into(), &cold, now).unwrap();
            inspector.work().decodes
        };
        assert_eq!((inspect("a"), inspect("b"), inspect("a")), (1, 2, 2));
        assert_eq!(inspect("c"), 3);
        let work = inspector.work();
        assert_eq!((work.kept, work.kept_bytes), (2, 2 * size));
        // `b` was not used for the longest time.
        assert_eq!((inspect("a"), inspect("c"), inspect("b")), (3, 3, 4));
    }
    for limits in [
        InspectorLimits {
            sessions: 0,
            bytes: 1 << 20,
        },
        InspectorLimits {
            sessions: 8,
            bytes: size - 1,
        },
    ] {
        let inspector = Inspector::new(home.store(container), limits);
        for decodes in 1..3 {
            inspector.inspect(&"a".into(), &cold, now).unwrap();
            assert_eq!(counts(inspector.work()), (decodes, decodes, 0));
        }
    }
}

#[test]
fn a_live_session_is_the_answer_and_its_file_is_not_touched() {
    let home = Home::new();
    let inspector = Inspector::new(home.store(Container::Zstd), LIMITS);
    let live = |_: &SessionId| Some(view(log(&events(7))));
    let found = inspector.inspect(&"demo".into(), &live, NOW).unwrap();
    assert!(matches!(found, Inspection::Live(_)));
    assert_eq!(rows(&found), texts(&events(7)));
    assert_eq!(found.header(), &header("demo"));
    assert_eq!(counts(inspector.work()), (0, 0, 0));
}

#[test]
fn a_session_that_goes_live_while_its_file_is_read_is_answered_live() {
    /// Live from the second question on.
    struct GoesLive(Cell<u32>);
    impl LiveSessions for GoesLive {
        fn live(&self, _: &SessionId) -> Option<LiveView> {
            self.0.set(self.0.get() + 1);
            (self.0.get() > 1).then(|| view(log(&events(9))))
        }
    }
    let home = Home::new();
    session(&home, "demo", Container::Zstd, 5);
    let inspector = Inspector::new(home.store(Container::Zstd), LIMITS);
    let now = settled(&home, "demo", Container::Zstd);
    for reads in [1, 1] {
        let live = GoesLive(Cell::new(0));
        let found = inspector.inspect(&"demo".into(), &live, now).unwrap();
        assert_eq!(rows(&found), texts(&events(9)));
        assert_eq!(live.0.get(), 2);
        assert_eq!(inspector.work().reads, reads, "also when it was kept");
    }
    // One that was created just now has no file yet.
    let found = inspector.inspect(&"new".into(), &GoesLive(Cell::new(0)), now);
    assert!(matches!(found, Ok(Inspection::Live(_))));
    // When it is cold again, its file is what counts.
    session(&home, "demo", Container::Zstd, 9);
    let now = settled(&home, "demo", Container::Zstd);
    let found = inspector.inspect(&"demo".into(), &cold, now).unwrap();
    assert!(matches!(found, Inspection::Cold(_)));
    assert_eq!(rows(&found), texts(&events(9)));
}

#[test]
fn what_cannot_be_read_is_told_every_time_and_not_kept() {
    let home = Home::new();
    let container = Container::Raw;
    session(&home, "demo", container, 5);
    let inspector = Inspector::new(home.store(container), LIMITS);
    let now = settled(&home, "demo", container);
    inspector.inspect(&"demo".into(), &cold, now).unwrap();
    home.put_log("demo", container, "no session\n");
    let now = settled(&home, "demo", container);
    for _ in 0..2 {
        let error = inspector.inspect(&"demo".into(), &cold, now).unwrap_err();
        assert_eq!(error.code(), "MALFORMED_HEADER");
        assert_eq!(inspector.work().kept, 0);
    }
    fs::remove_file(home.log("demo", container)).unwrap();
    let error = inspector.inspect(&"demo".into(), &cold, now).unwrap_err();
    assert_eq!(error.code(), "SESSION_NOT_FOUND");
}

#[test]
fn an_older_file_is_read_each_time_because_its_children_count_too() {
    let child = concat!(
        r#"{"type":"session","version":3,"id":"kid","createdAt":95,"cwd":"/work/demo","parentSession":"demo","isSeeded":false,"origin":"subagent","delegationDepth":1}"#,
        "\n",
        r#"{"type":"subagent/descriptor","seq":0,"time":1,"data":{"version":3,"mode":"one-shot","label":"the digger"}}"#,
        "\n"
    );
    for container in BOTH {
        let home = Home::new();
        put(&home, "demo", 3, container, V3);
        let inspector = Inspector::new(home.store(container), LIMITS);
        let store = home.store(container);
        let inspect = || {
            let found = inspector.inspect(&"demo".into(), &cold, i64::MAX).unwrap();
            let read = store.read(&"demo".into()).unwrap().stored;
            assert_eq!(rows(&found), texts(read.log.events()));
            rows(&found).len()
        };
        let alone = inspect();
        put(&home, "kid", 3, container, child);
        assert_eq!(inspect(), alone + 1, "the child is in the catalog");
        assert_eq!(counts(inspector.work()), (2, 2, 0));
    }
}

#[test]
fn a_repair_that_is_announced_beside_an_unchanged_log_is_seen() {
    let all = events(9);
    let container = Container::Zstd;
    let home = Home::new();
    let good = file_bytes(container, &header("demo"), &[&all[..5]]);
    let last = container.batch(all[5..].iter().map(|event| &**event));
    let torn = &last[..last.len() - 1];
    home.put_log("demo", container, [&good, torn].concat());
    let inspector = Inspector::new(home.store(container), LIMITS);
    let inspect = || {
        let found = inspector.inspect(&"demo".into(), &cold, i64::MAX).unwrap();
        let Inspection::Cold(read) = found else {
            panic!("nothing is live");
        };
        read.stored.tail.is_some()
    };
    assert!(inspect(), "it is torn");
    let mut note = b"offshoot-repair 1\n".to_vec();
    for number in [good.len(), torn.len(), last.len()] {
        note.extend((number as u64).to_le_bytes());
    }
    note.extend([torn, &last[..]].concat());
    write(&home.dir("demo").join("session.repair"), note);
    assert!(!inspect(), "it is as it will be");
}

#[test]
fn it_shows_what_it_keeps() {
    let home = Home::new();
    let store: JsonlStore = home.store(Container::Raw);
    let shown = format!("{:?}", Inspector::new(store, LIMITS));
    assert!(shown.contains("kept_bytes: 0"), "{shown}");
}
