//! Forks that are deleted, restored or replaced between two looks of somebody who reads them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use offshoot_format::Container;
use offshoot_store::{ForkLayout, JsonlStore, Persistence as _, Query, StoreError};

use crate::linked::{fork, home_with, read};
use crate::support::{Home, NOW};

/// A pipe with the name of a note that readers look for between the session's own file and its bases: there they wait.
fn pipe(home: &Home) -> PathBuf {
    let path = home.dir("child").join("session.repair");
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    path
}

/// Reads on a thread of its own, and runs `between` when it has read the session's own file and nothing of its bases.
fn between_file_and_bases<T: Send>(
    pipe: &Path,
    between: impl FnOnce(),
    read: impl FnOnce() -> T + Send,
) -> T {
    thread::scope(|scope| {
        let reading = scope.spawn(read);
        // This returns once somebody reads from it.
        let held = fs::OpenOptions::new().write(true).open(pipe).unwrap();
        between();
        drop(held);
        reading.join().unwrap()
    })
}

fn home() -> (Home, JsonlStore, Vec<String>) {
    let home = home_with(&[3, 9, 16]);
    let store = home.store(Container::Zstd);
    let rows = fork(&store, "child", "demo", 9);
    (home, store, rows)
}

#[test]
fn a_fork_that_is_deleted_while_it_is_read_is_not_found_and_not_damaged() {
    let (home, store, rows) = home();
    let pipe = pipe(&home);
    let deleted = || store.delete(&"child".into(), NOW).unwrap();
    let told = between_file_and_bases(&pipe, deleted, || store.read(&"child".into()));
    let told = told.unwrap_err();
    assert!(matches!(told, StoreError::NotFound { .. }), "{told:?}");

    store.restore(&"child".into()).unwrap();
    let deleted = || store.delete(&"child".into(), NOW).unwrap();
    let told = between_file_and_bases(&pipe, deleted, || store.open(&"child".into(), NOW));
    assert_eq!(told.unwrap_err().code(), "SESSION_NOT_FOUND");

    store.restore(&"child".into()).unwrap();
    let deleted = || store.delete(&"child".into(), NOW).unwrap();
    let listed = between_file_and_bases(&pipe, deleted, || {
        store.list_filled(&Query::default(), u64::MAX).unwrap()
    });
    let told = listed
        .page
        .rows
        .into_iter()
        .find(|row| row.id == "child".into());
    let body = told.unwrap().body.unwrap();
    assert_eq!(body.unwrap_err().code, "SESSION_NOT_FOUND");

    store.restore(&"child".into()).unwrap();
    fs::remove_file(pipe).unwrap();
    assert_eq!(read(&store, "child"), rows);
}

#[test]
fn a_fork_whose_place_another_one_takes_is_read_as_that_one() {
    let (home, store, rows) = home();
    let pipe = pipe(&home);
    let mut other = Vec::new();
    let replaced = || {
        store.delete(&"child".into(), NOW).unwrap();
        let portable = store.clone().keeping_forks(ForkLayout::Portable);
        other = fork(&portable, "child", "demo", 4);
    };
    let seen = between_file_and_bases(&pipe, replaced, || read(&store, "child"));
    assert_eq!(seen, other);
    assert_ne!(seen, rows);
}

#[test]
fn a_base_that_is_gone_while_the_session_stays_is_damage() {
    let (home, store, _) = home();
    fs::remove_file(home.dir("child").join("base-0.jsonl.zstd")).unwrap();
    let told = store.read(&"child".into()).unwrap_err();
    assert_eq!(told.code(), "BASE_DAMAGED");
}
