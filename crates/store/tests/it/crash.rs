//! A process that ends at any step of a repair: whoever opens the session next comes to the same end.

use std::fs;
use std::sync::Arc;

use offshoot_format::Container;
use offshoot_store::{JsonlStore, Persistence as _};

use crate::child;
use crate::faulty::{Fault, FaultyDisk};
use crate::support::{
    Home, NOW, TWO_CALLS, event, events, file_bytes, file_name, header, texts, write,
};

/// A log as a crash left it.
struct Case {
    name: &'static str,
    container: Container,
    bytes: Vec<u8>,
}

/// Logs whose repair is short.
fn small_cases() -> Vec<Case> {
    let two = events(2);
    let row = TWO_CALLS.lines().nth(1).unwrap();
    let raw = file_bytes(Container::Raw, &header("demo"), &[&two]);
    let packed = file_bytes(Container::Zstd, &header("demo"), &[&two[..1], &two[1..]]);
    vec![
        Case {
            name: "raw, an open turn",
            container: Container::Raw,
            bytes: raw.clone(),
        },
        Case {
            name: "raw, a torn line",
            container: Container::Raw,
            bytes: [&raw[..], &row.as_bytes()[..9]].concat(),
        },
        Case {
            name: "zstd, an open turn",
            container: Container::Zstd,
            bytes: packed.clone(),
        },
        Case {
            name: "zstd, a torn frame without records",
            container: Container::Zstd,
            bytes: packed[..packed.len() - 20].to_vec(),
        },
        Case {
            name: "zstd, a torn frame with records",
            container: Container::Zstd,
            bytes: packed[..packed.len() - 2].to_vec(),
        },
    ]
}

/// Logs whose repair is long.
fn big_cases() -> Vec<Case> {
    let nine = events(9);
    let mut gap = nine[6..8].to_vec();
    gap.push(event(TWO_CALLS.lines().nth(9).unwrap()));
    vec![
        Case {
            name: "raw, two calls without a result",
            container: Container::Raw,
            bytes: file_bytes(Container::Raw, &header("demo"), &[&nine]),
        },
        Case {
            name: "zstd, a whole frame with a gap in it",
            container: Container::Zstd,
            bytes: file_bytes(Container::Zstd, &header("demo"), &[&nine[..6], &gap]),
        },
    ]
}

fn store(home: &Home, case: &Case, disk: Arc<FaultyDisk>) -> JsonlStore {
    JsonlStore::on(home.root(), case.container, disk)
}

/// The crashed log again, without anything beside it.
fn reset(home: &Home, case: &Case) {
    for entry in fs::read_dir(home.dir("demo")).into_iter().flatten() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    home.put_log("demo", case.container, &case.bytes);
}

/// What the crashed log holds, and what a repair that nothing disturbs makes of it.
struct Undisturbed {
    whole: Vec<String>,
    rows: Vec<String>,
    bytes: Vec<u8>,
    steps: u64,
}

fn undisturbed(case: &Case) -> Undisturbed {
    let home = Home::new();
    reset(&home, case);
    let disk = FaultyDisk::sound();
    let store = store(&home, case, disk.clone());
    let whole = store.read(&"demo".into()).unwrap();
    let opened = store.open(&"demo".into(), NOW).unwrap();
    Undisturbed {
        whole: texts(whole.stored.log.events()),
        rows: texts(opened.session.log().events()),
        bytes: fs::read(home.log("demo", case.container)).unwrap(),
        steps: disk.steps(),
    }
}

/// Checks the state that a crash at `step` has left, then repairs it at the same time and, from the same state, later.
fn check(home: &Home, case: &Case, expected: &Undisturbed, step: u64) {
    let left = home.tree();
    check_at_once(home, case, expected, step);
    for (name, bytes) in &left {
        if !name.ends_with('/') {
            write(&home.root().parent().unwrap().join(name), bytes);
        }
    }
    check_later(home, case, expected, step);
}

/// Repaired at the time at which the first attempt was made, the log is the same to the byte.
fn check_at_once(home: &Home, case: &Case, expected: &Undisturbed, step: u64) {
    let name = case.name;
    let sound = store(home, case, FaultyDisk::sound());
    let path = home.log("demo", case.container);
    let left = home.tree();

    let read = sound.read(&"demo".into()).unwrap();
    let seen = texts(read.stored.log.events());
    assert!(
        seen.starts_with(&expected.whole),
        "{name}, step {step}: a reader lost {seen:?}"
    );
    assert!(
        expected.rows.starts_with(&seen),
        "{name}, step {step}: a reader made up {seen:?}"
    );
    assert_eq!(home.tree(), left, "{name}, step {step}: a reader wrote");

    drop(sound.open(&"demo".into(), NOW).unwrap());
    assert_eq!(
        fs::read(&path).unwrap(),
        expected.bytes,
        "{name}, step {step}"
    );
    let names: Vec<_> = fs::read_dir(home.dir("demo"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "session.lock" && name != file_name(case.container))
        .collect();
    assert_eq!(names, [""; 0], "{name}, step {step}");
}

/// Repaired later, only the time of the marker may differ.
fn check_later(home: &Home, case: &Case, expected: &Undisturbed, step: u64) {
    let name = case.name;
    let sound = store(home, case, FaultyDisk::sound());
    let opened = sound.open(&"demo".into(), NOW + 1_000).unwrap();
    let later = texts(opened.session.log().events());
    let (marker, others) = later.split_last().unwrap();
    let (expected_marker, expected_others) = expected.rows.split_last().unwrap();
    assert_eq!(others, expected_others, "{name}, step {step}");
    let marker_later = expected_marker.replace("\"time\":9000", "\"time\":10000");
    assert!(
        marker == expected_marker || *marker == marker_later,
        "{name}, step {step}: {marker}"
    );
    drop(opened);
    let stored = sound.read(&"demo".into()).unwrap().stored;
    assert_eq!((texts(stored.log.events()), stored.tail), (later, None));
}

#[test]
fn a_repair_that_stops_at_any_step_is_finished_by_the_next_one() {
    for case in small_cases() {
        stop_at_steps(&case, 1, check);
    }
}

#[test]
fn a_long_repair_that_stops_anywhere_is_finished_by_the_next_one() {
    for case in big_cases() {
        stop_at_steps(&case, 5, check_at_once);
    }
}

fn stop_at_steps(case: &Case, stride: usize, check: fn(&Home, &Case, &Undisturbed, u64)) {
    let expected = undisturbed(case);
    let home = Home::new();
    for step in (0..expected.steps).step_by(stride) {
        reset(&home, case);
        let broken = store(&home, case, FaultyDisk::new(Fault::Forever, step));
        let stopped = broken.open(&"demo".into(), NOW);
        assert!(stopped.is_err(), "{}, step {step}", case.name);
        drop(stopped);
        check(&home, case, &expected, step);
    }
}

#[test]
fn a_repair_of_a_stopped_repair_may_stop_as_well() {
    for case in small_cases() {
        let expected = undisturbed(&case);
        let home = Home::new();
        for first in (0..expected.steps).step_by(23) {
            for second in (0..2 * expected.steps).step_by(29) {
                reset(&home, &case);
                for step in [first, second] {
                    let broken = store(&home, &case, FaultyDisk::new(Fault::Forever, step));
                    let _stopped_or_not = broken.open(&"demo".into(), NOW);
                }
                check(&home, &case, &expected, first);
            }
        }
    }
}

#[test]
fn a_repair_that_fails_at_any_step_leaves_a_log_that_the_next_one_finishes() {
    for case in small_cases() {
        let expected = undisturbed(&case);
        let home = Home::new();
        for step in 0..expected.steps {
            reset(&home, &case);
            let broken = store(&home, &case, FaultyDisk::new(Fault::Once, step));
            let _failed = broken.open(&"demo".into(), NOW);
            check(&home, &case, &expected, step);
        }
    }
}

#[test]
fn a_process_killed_at_any_step_of_a_repair_leaves_a_log_that_repairs_to_the_same_bytes() {
    let is_short = |case: &Case| !case.name.ends_with("a torn line");
    for case in small_cases().into_iter().filter(is_short) {
        let expected = undisturbed(&case);
        let home = Home::new();
        for step in 0..=expected.steps {
            reset(&home, &case);
            let killed = child::repair(&home.root(), case.container, step);
            assert_eq!(killed, step < expected.steps, "{}, step {step}", case.name);
            check(&home, &case, &expected, step);
        }
    }
}

#[test]
fn a_reader_beside_a_repair_never_sees_less_than_before() {
    for case in small_cases() {
        let expected = undisturbed(&case);
        let home = Home::new();
        for _ in 0..25 {
            reset(&home, &case);
            let sound = store(&home, &case, FaultyDisk::sound());
            std::thread::scope(|scope| {
                let repair = scope.spawn(|| drop(sound.open(&"demo".into(), NOW).unwrap()));
                loop {
                    let finished = repair.is_finished();
                    let read = sound.read(&"demo".into()).unwrap();
                    let seen = texts(read.stored.log.events());
                    assert!(seen.starts_with(&expected.whole), "{}: {seen:?}", case.name);
                    if finished {
                        assert_eq!(seen, expected.rows);
                        break;
                    }
                }
            });
        }
    }
}
