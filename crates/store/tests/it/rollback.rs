//! A disk that fails at any operation and any byte: a batch is there whole, or it is taken back.

use std::fs;
use std::sync::Arc;

use offshoot_format::Container;
use offshoot_session::{Event, LogOffset, Seq, build_fork_seed};
use offshoot_store::{JsonlStore, Persistence as _, StoreError};

use crate::faulty::{Fault, FaultyDisk};
use crate::support::{BOTH, Home, NOW, all, event, events, file_bytes, header, texts, write};

/// Three small batches of one log.
fn batches() -> [Vec<Arc<Event>>; 3] {
    let tail = event(r#"{"type":"step/end","seq":2,"time":102,"data":{"turn":1,"step":1}}"#);
    let two = events(2);
    [
        vec![Arc::clone(&two[0])],
        vec![Arc::clone(&two[1])],
        vec![tail],
    ]
}

/// The content of the file after each number of batches.
fn contents(container: Container) -> Vec<Option<Vec<u8>>> {
    let batches = batches();
    let slices: Vec<&[Arc<Event>]> = batches.iter().map(Vec::as_slice).collect();
    let after = |n| (n > 0).then(|| file_bytes(container, &header("demo"), &slices[..n]));
    (0..=slices.len()).map(after).collect()
}

fn file(home: &Home, container: Container) -> Option<Vec<u8>> {
    fs::read(home.log("demo", container)).ok()
}

/// How many steps the whole scenario takes on a sound disk.
fn steps(container: Container) -> u64 {
    let home = Home::new();
    let disk = FaultyDisk::sound();
    let store = JsonlStore::on(home.root(), container, disk.clone());
    let mut writer = store.create(&header("demo")).unwrap();
    for batch in &batches() {
        writer.append(batch).unwrap();
    }
    disk.steps()
}

#[test]
fn after_a_failure_the_file_is_as_before_and_trying_again_leaves_no_gap() {
    for container in BOTH {
        let contents = contents(container);
        let mut failed = 0;
        for at in 0..steps(container) {
            let home = Home::new();
            let store = JsonlStore::on(home.root(), container, FaultyDisk::new(Fault::Once, at));
            let mut writer = store.create(&header("demo")).unwrap();
            for (n, batch) in batches().iter().enumerate() {
                if let Err(error) = writer.append(batch) {
                    failed += 1;
                    assert_eq!(error.code(), "IO_ERROR", "step {at}: {error}");
                    assert_eq!(file(&home, container), contents[n], "step {at}");
                    assert_eq!(writer.stored(), LogOffset::new(n as u64));
                    writer.append(batch).unwrap();
                }
                assert_eq!(file(&home, container), contents[n + 1], "step {at}");
            }
            drop(writer);
            let opened = home.store(container).read(&"demo".into()).unwrap();
            assert_eq!(opened.stored.tail, None);
        }
        // Only the removal of a temporary name may fail without anybody being told.
        assert_eq!(failed, steps(container) - 1);
    }
}

#[test]
fn when_the_failure_cannot_be_taken_back_the_writer_says_both_and_is_shut_until_reopened() {
    let mut poisoned = 0;
    for container in BOTH {
        let contents = contents(container);
        for at in 0..steps(container) {
            let home = Home::new();
            let disk = FaultyDisk::new(Fault::Forever, at);
            let store = JsonlStore::on(home.root(), container, disk);
            let mut writer = store.create(&header("demo")).unwrap();
            let batches = batches();
            let acknowledged = batches
                .iter()
                .take_while(|batch| writer.append(batch).is_ok())
                .count();
            let error = writer.append(&batches[acknowledged.min(2)]).unwrap_err();
            if let StoreError::Poisoned { .. } = error {
                poisoned += 1;
                assert_eq!(
                    home.shorten(&error.to_string()),
                    format!(
                        "could not append to `<root>/--work-demo--/demo/{}` (the disk is broken), \
                         nor take the failed append back (the disk is broken)",
                        crate::support::file_name(container)
                    )
                );
                assert_eq!(writer.flush().unwrap_err().to_string(), error.to_string());
            } else {
                assert_eq!(file(&home, container), contents[acknowledged], "step {at}");
            }
            // Still alive, but no longer in the way: the lock is free for whoever opens the session again.
            if let StoreError::Poisoned { .. } = error
                && acknowledged > 0
            {
                check_reopens(&home, container, acknowledged);
            }
            drop(writer);
            if file(&home, container).is_some() {
                check_reopens(&home, container, acknowledged);
            } else {
                assert_eq!(acknowledged, 0);
                let sound = JsonlStore::on(home.root(), container, FaultyDisk::sound());
                sound.create(&header("demo")).unwrap();
            }
        }
    }
    assert!(poisoned > 0);
}

/// Everything acknowledged is there, perhaps more of what was not, and the log goes on without a gap.
fn check_reopens(home: &Home, container: Container, acknowledged: usize) {
    let store = JsonlStore::on(home.root(), container, FaultyDisk::sound());
    let mut opened = store.open(&"demo".into(), NOW).unwrap();
    let all: Vec<_> = batches().concat();
    assert_eq!(
        texts(opened.session.log().events())[..acknowledged],
        texts(&all)[..acknowledged]
    );
    let next = opened.session.log().end();
    let row = format!(r#"{{"type":"turn/start","seq":{next},"time":9100,"data":{{"turn":2}}}}"#);
    if opened.session.log().last_turn() == 1 {
        opened.writer.append(&[event(&row)]).unwrap();
        drop(opened);
        assert_eq!(store.read(&"demo".into()).unwrap().stored.tail, None);
    }
}

#[test]
fn bytes_of_a_stranger_are_neither_written_behind_nor_taken_away() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let [first, second, _] = batches();
        let mut writer = store.create(&header("demo")).unwrap();
        writer.append(&first).unwrap();
        let path = home.log("demo", container);
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend(container.batch(second.iter().map(|event| &**event)));
        write(&path, &bytes);

        let before = home.tree();
        let error = writer.append(&second).unwrap_err();
        assert_eq!(
            home.shorten(&error.to_string()),
            format!(
                "`<root>/--work-demo--/demo/{}` was changed by another program while this one was writing to it",
                crate::support::file_name(container)
            )
        );
        assert_eq!(error.code(), "SESSION_CHANGED");
        assert_eq!(home.tree(), before);
    }
}

#[test]
fn a_new_session_passes_over_temporary_names_that_a_crash_has_left() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        // Crash between writing and linking, and between linking and unlinking, by a process with this one's number.
        let name = |count: u64| {
            format!(
                "--work-demo--/demo/{}.{:08x}{count:04x}.tmp",
                crate::support::file_name(container),
                std::process::id()
            )
        };
        for count in 0..64 {
            home.put(name(count), "left behind");
        }
        let mut writer = store.create(&header("demo")).unwrap();
        writer.append(&batches()[0]).unwrap();
        drop(writer);
        assert_eq!(file(&home, container), contents(container)[1]);
        for count in 0..64 {
            assert_eq!(
                fs::read(home.root().join(name(count))).unwrap(),
                b"left behind"
            );
        }
        fs::hard_link(home.log("demo", container), home.dir("demo").join("x.tmp")).unwrap();
        assert!(store.open(&"demo".into(), NOW).is_ok());
    }
}

#[test]
fn a_creation_that_is_killed_at_any_step_leaves_the_whole_file_or_none() {
    for container in BOTH {
        let contents = contents(container);
        for at in 0.. {
            let home = Home::new();
            let disk = FaultyDisk::new(Fault::Forever, at);
            let store = JsonlStore::on(home.root(), container, disk.clone());
            let mut writer = store.create(&header("demo")).unwrap();
            let written = writer.append(&batches()[0]).is_ok();
            drop(writer);
            let found = file(&home, container);
            assert!(
                found == contents[1] || (found.is_none() && !written),
                "step {at}"
            );
            let store = JsonlStore::on(home.root(), container, FaultyDisk::sound());
            match found {
                Some(_) => assert!(store.read(&"demo".into()).is_ok()),
                None => {
                    assert!(all(&store).is_empty());
                    let mut again = store.create(&header("demo")).unwrap();
                    again.append(&batches()[0]).unwrap();
                }
            }
            // The step that never came was the last one.
            if disk.steps() <= at {
                break;
            }
        }
    }
}

#[test]
fn a_creation_or_a_fork_that_fails_at_any_step_leaves_nothing() {
    let create = |store: &JsonlStore| {
        let mut writer = store.create(&header("child"))?;
        writer.append(&events(16))
    };
    let fork = |store: &JsonlStore| {
        let source = store.read(&"demo".into())?;
        let seed = build_fork_seed(&source.stored.log, Seq::new(9)).unwrap();
        let child = header("demo").forked("child".into(), 2);
        store.fork(&child, &seed, &source.shareable).map(drop)
    };
    let empty = Home::ours;
    let with_source = || {
        let home = Home::ours();
        let all = events(16);
        let bytes = file_bytes(Container::Zstd, &header("demo"), &[&all[..5], &all[5..]]);
        home.put_log("demo", Container::Zstd, bytes);
        home
    };
    type Act<'a> = &'a dyn Fn(&JsonlStore) -> Result<(), StoreError>;
    let cases: [(&dyn Fn() -> Home, Act<'_>); 3] = [
        (&empty, &create),
        (&with_source, &create),
        (&with_source, &fork),
    ];
    for (home, act) in cases {
        let run = |home: &Home, disk| {
            act(&JsonlStore::on(home.root(), Container::Zstd, disk)).map_err(|error| error.code())
        };
        let disk = FaultyDisk::coarse(Fault::Once, u64::MAX);
        run(&home(), disk.clone()).unwrap();
        let mut failed = 0;
        for at in 0..disk.steps() {
            let home = home();
            let before = home.tree();
            if run(&home, FaultyDisk::coarse(Fault::Once, at)).is_err() {
                failed += 1;
                assert_eq!(home.tree(), before, "step {at}");
                run(&home, FaultyDisk::sound()).unwrap();
            }
            drop(
                home.store(Container::Zstd)
                    .open(&"child".into(), NOW)
                    .unwrap(),
            );
        }
        // Only the removal of a temporary name may fail without anybody being told.
        assert_eq!(failed, disk.steps() - 1);
    }
}
