//! A process that ends at any step of a migration: the source stays as it is, a reader sees a whole session, and whoever
//! opens the session next comes to the same current file.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use offshoot_format::{Container, decode_as};
use offshoot_store::{JsonlStore, Locking, Persistence as _, convert};

use crate::child;
use crate::faulty::{Fault, FaultyDisk};
use crate::older::{V0, V3, V3_FORK, file, name, put};
use crate::support::{Home, NOW, texts};

struct Case {
    version: u64,
    container: Container,
    text: String,
}

/// Small sessions: every byte that is written is a step.
fn cases() -> Vec<Case> {
    let case = |version, container, text: &str| Case {
        version,
        container,
        text: text.to_owned(),
    };
    let torn = V3.trim_end_matches("}\n");
    vec![
        case(0, Container::Zstd, V0),
        case(3, Container::Raw, torn),
        case(3, Container::Zstd, V3_FORK),
    ]
}

fn reset(home: &Home, case: &Case) {
    for entry in fs::read_dir(home.dir("demo")).into_iter().flatten() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    put(home, "demo", case.version, case.container, &case.text);
}

fn store(home: &Home, case: &Case, disk: Arc<FaultyDisk>) -> JsonlStore {
    JsonlStore::on(home.root(), case.container, disk)
}

/// What there is to be seen of the session, and what opening it makes of it if nothing disturbs that.
struct Undisturbed {
    seen: Vec<String>,
    rows: Vec<String>,
    bytes: Vec<u8>,
    steps: u64,
    /// How many of the steps are bytes of the draft; creating it is the one ahead of them.
    draft: u64,
}

impl Undisturbed {
    /// Every operation, and a byte of the draft here and there: what is in a half draft makes no difference.
    fn steps(&self, stride: u64) -> impl Iterator<Item = u64> {
        let draft = 3..self.draft - 2;
        (0..self.steps).filter(move |step| !draft.contains(step) || step % stride == 0)
    }
}

fn undisturbed(case: &Case) -> Undisturbed {
    let home = Home::new();
    reset(&home, case);
    let disk = FaultyDisk::sound();
    let store = store(&home, case, disk.clone());
    let read = store.read(&"demo".into()).unwrap();
    let elsewhere = home.root().join("elsewhere");
    let draft = convert(&read.path, Some(&elsewhere), Locking::Flock)
        .unwrap()
        .path;
    let opened = store.open(&"demo".into(), NOW).unwrap();
    Undisturbed {
        seen: texts(read.stored.log.events()),
        rows: texts(opened.session.log().events()),
        bytes: fs::read(home.log("demo", case.container)).unwrap(),
        steps: disk.steps(),
        draft: fs::metadata(draft).unwrap().len(),
    }
}

fn files(home: &Home) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(home.dir("demo")).unwrap();
    entries
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// Checks what a disturbance at `step` has left, and that a sound opening ends as an undisturbed one does.
fn check(home: &Home, case: &Case, expected: &Undisturbed, step: u64) {
    let at = format!("V{} {:?}, step {step}", case.version, case.container);
    let source = name(case.version, case.container);
    let current = name(4, case.container);
    let left = files(home);
    assert_eq!(left[&source], file(case.container, &case.text), "{at}");
    if let Some(bytes) = left.get(&current) {
        let stored = decode_as(case.container, bytes).unwrap();
        let rows = texts(stored.log.events());
        assert!(rows.starts_with(&expected.seen), "{at}: a half target");
    }
    for name in left.keys() {
        let is_temporary = name.starts_with(&current) && name.ends_with(".tmp");
        assert!(
            is_temporary || [&source, &current, "session.lock"].contains(&&**name),
            "{at}: {name}"
        );
    }

    let sound = store(home, case, FaultyDisk::sound());
    let seen = texts(sound.read(&"demo".into()).unwrap().stored.log.events());
    assert!(seen.starts_with(&expected.seen), "{at}: {seen:?}");
    assert!(expected.rows.starts_with(&seen), "{at}: {seen:?}");
    assert_eq!(files(home), left, "{at}: a reader wrote");

    let was_published = left.contains_key(&current);
    drop(sound.open(&"demo".into(), NOW).unwrap());
    let mut after = files(home);
    assert_eq!(after.remove(&current), Some(expected.bytes.clone()), "{at}");
    assert_eq!(after.remove(&source), left.get(&source).cloned(), "{at}");
    assert_eq!(after.remove("session.lock"), Some(Vec::new()), "{at}");
    // The second name of a file that is there whole may stay: there is no next publication.
    after.retain(|name, _| !(was_published && left.contains_key(name)));
    assert_eq!(after, BTreeMap::new(), "{at}");
}

fn disturb_every_step(fault: Fault) {
    for case in cases() {
        let expected = undisturbed(&case);
        let home = Home::new();
        for step in expected.steps(19) {
            reset(&home, &case);
            let broken = store(&home, &case, FaultyDisk::new(fault, step));
            let opened = broken.open(&"demo".into(), NOW);
            if fault == Fault::Forever {
                assert!(opened.is_err(), "step {step}");
            }
            drop(opened);
            check(&home, &case, &expected, step);
        }
    }
}

#[test]
fn a_migration_that_fails_at_any_step_is_made_by_the_next_one() {
    disturb_every_step(Fault::Once);
}

#[test]
fn a_migration_that_stops_at_any_step_is_made_by_the_next_one() {
    disturb_every_step(Fault::Forever);
}

#[test]
fn a_migration_after_a_stopped_migration_may_stop_as_well() {
    for case in cases() {
        let expected = undisturbed(&case);
        let home = Home::new();
        for first in (0..expected.steps).step_by(211) {
            for second in (0..expected.steps + 2).step_by(257) {
                reset(&home, &case);
                for step in [first, second] {
                    let broken = store(&home, &case, FaultyDisk::new(Fault::Forever, step));
                    let _stopped_or_not = broken.open(&"demo".into(), NOW);
                }
                check(&home, &case, &expected, second);
            }
        }
    }
}

#[test]
fn a_process_killed_at_a_step_of_a_migration_leaves_what_the_next_one_makes_the_same_of() {
    for case in cases() {
        let expected = undisturbed(&case);
        let home = Home::new();
        for step in expected.steps(311).step_by(3).chain([expected.steps]) {
            reset(&home, &case);
            let killed = child::repair(&home.root(), case.container, step);
            assert_eq!(killed, step < expected.steps, "step {step}");
            check(&home, &case, &expected, step);
        }
    }
}

#[test]
fn a_reader_beside_a_migration_sees_one_generation_or_the_other() {
    for case in cases() {
        let expected = undisturbed(&case);
        let home = Home::new();
        for _ in 0..15 {
            reset(&home, &case);
            let sound = store(&home, &case, FaultyDisk::sound());
            std::thread::scope(|scope| {
                let migration = scope.spawn(|| drop(sound.open(&"demo".into(), NOW).unwrap()));
                loop {
                    let finished = migration.is_finished();
                    let read = sound.read(&"demo".into()).unwrap();
                    let seen = texts(read.stored.log.events());
                    assert!(seen.starts_with(&expected.seen), "{seen:?}");
                    if finished {
                        assert_eq!(seen, expected.rows);
                        break;
                    }
                }
            });
        }
    }
}
