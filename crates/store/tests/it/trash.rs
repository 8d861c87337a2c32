//! Deleting and restoring: a session is whole in its place or whole in the trash, whatever happens.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use offshoot_format::Container;
use offshoot_session::{SessionHeader, SessionId};
use offshoot_store::{Choice, JsonlStore, Persistence as _, Query, StoreError, Trashed};

use crate::child;
use crate::faulty::{Fault, FaultyDisk};
use crate::support::{BOTH, Home, NOW, PROJECT, events, file_bytes, header, texts, write};

/// Far enough from anything that the clock of the file system may say.
pub(crate) const LATER: i64 = 4_000_000_000_000;

fn put(home: &Home, id: &str) {
    let container = Container::Zstd;
    let bytes = file_bytes(container, &header(id), &[&events(16)]);
    home.put_log(id, container, bytes);
}

/// Everything of a session that counts, with the directory cut off the names. The lock is nobody's content.
fn contents(home: &Home, dir: &str) -> BTreeMap<String, Vec<u8>> {
    let tree = home.tree().into_iter();
    let below = tree.filter_map(|(name, bytes)| Some((name.strip_prefix(dir)?.to_owned(), bytes)));
    below
        .filter(|(name, _)| !name.is_empty() && name != "session.lock")
        .collect()
}

fn demo() -> SessionId {
    "demo".into()
}

fn in_place() -> String {
    format!("sessions/{PROJECT}/demo/")
}

#[test]
fn a_deleted_session_is_gone_and_comes_back_as_it_was() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let bytes = file_bytes(container, &header("demo"), &[&events(16)]);
        home.put_log("demo", container, &bytes);
        // What lies beside the log goes with it: older generations, bases, journals.
        for name in ["session.v3.jsonl", "base-0.jsonl.zstd", "attempt.journal"] {
            write(&home.dir("demo").join(name), name);
        }
        let before = contents(&home, &in_place());
        store.delete(&demo(), NOW).unwrap();

        assert_eq!(store.read(&demo()).unwrap_err().code(), "SESSION_NOT_FOUND");
        assert_eq!(store.list(&Query::default()).unwrap().rows.len(), 0);
        let again = store.delete(&demo(), NOW).unwrap_err();
        assert_eq!(again.code(), "SESSION_NOT_FOUND");
        let trash = store.trashed().unwrap();
        assert!(trash.problems.is_empty());
        let [
            Trashed {
                entry,
                id,
                deleted_at,
                path,
                ..
            },
        ] = &trash.sessions[..]
        else {
            panic!("{trash:?}");
        };
        assert_eq!((&**entry, id, *deleted_at), ("9000-0", &demo(), NOW));
        assert_eq!(*path, store.trash_dir().join("9000-0/session"));
        assert_eq!(contents(&home, "trash/9000-0/session/"), before);
        assert_eq!(
            String::from_utf8_lossy(&home.tree()["trash/9000-0/trash.json"]),
            "{\"id\":\"demo\",\"project\":\"--work-demo--\",\"deletedAt\":9000}\n"
        );

        store.restore(&demo()).unwrap();
        assert_eq!(contents(&home, &in_place()), before);
        assert!(store.trashed().unwrap().sessions.is_empty());
        assert_eq!(fs::read_dir(store.trash_dir()).unwrap().count(), 0);
        let opened = store.open(&demo(), NOW).unwrap();
        assert_eq!(
            texts(opened.session.log().events())[..16],
            texts(&events(16))
        );
    }
}

#[test]
fn a_session_need_not_be_readable_to_be_deleted_and_restored() {
    let home = Home::new();
    let store = home.store(Container::Zstd);
    let cases = [
        ("session.v4.jsonl", "no session"),
        ("session.v99.jsonl", "of the future"),
        ("session.v4.jsonl.zstd", ""),
    ];
    for (name, bytes) in cases {
        let path = home.put(format!("{PROJECT}/demo/{name}"), bytes);
        store.delete(&demo(), NOW).unwrap();
        assert!(!path.exists());
        store.restore(&demo()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes.as_bytes());
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn sessions_that_come_from_a_deleted_one_stay() {
    let home = Home::new();
    let store = home.store(Container::Zstd);
    put(&home, "demo");
    let child = SessionHeader {
        parent: Some(demo()),
        ..header("child")
    };
    let bytes = file_bytes(Container::Zstd, &child, &[&events(16)]);
    home.put_log("child", Container::Zstd, bytes);
    store.delete(&demo(), NOW).unwrap();
    let listed: Vec<_> = store
        .list(&Query::default())
        .unwrap()
        .rows
        .into_iter()
        .map(|one| one.id)
        .collect();
    assert_eq!(listed, ["child".into()]);
    drop(store.open(&"child".into(), NOW).unwrap());
    store.restore(&demo()).unwrap();
    assert_eq!(store.list(&Query::default()).unwrap().rows.len(), 2);
}

#[test]
fn of_several_deleted_sessions_of_one_id_the_last_one_is_restored_unless_another_is_named() {
    let home = Home::new();
    let store = home.store(Container::Raw);
    let log = |text: &str| home.put(format!("{PROJECT}/demo/session.v4.jsonl"), text);
    // Two at the same moment, one before them: a clock may go backwards.
    for (text, now) in [("one", NOW), ("two", NOW), ("three", -1)] {
        log(text);
        store.delete(&demo(), now).unwrap();
    }
    let entries = |store: &JsonlStore| -> Vec<String> {
        let sessions = store.trashed().unwrap().sessions.into_iter();
        sessions.map(|one| one.entry).collect()
    };
    assert_eq!(entries(&store), ["9000-1", "9000-0", "0-0"]);
    let there = home.dir("demo").join("session.v4.jsonl");
    let read = || fs::read_to_string(&there).unwrap();

    let restored = store.restore_from_trash(&demo(), &Choice::Newest).unwrap();
    assert_eq!((read(), restored.path), ("two".into(), home.dir("demo")));
    assert_eq!(restored.from.entry, "9000-1");
    let others: Vec<_> = restored.others.into_iter().map(|one| one.entry).collect();
    assert_eq!(others, ["9000-0", "0-0"]);

    let before = home.tree();
    let taken = store.restore(&demo()).unwrap_err();
    assert_eq!(taken.code(), "SESSION_ALREADY_EXISTS");
    let missing = Choice::Entry("9000-7".into());
    let missing = store.restore_from_trash(&demo(), &missing).unwrap_err();
    assert_eq!(missing.code(), "NOT_IN_TRASH");
    // Of another session.
    let other = Choice::Entry("9000-0".into());
    let other = store
        .restore_from_trash(&"other".into(), &other)
        .unwrap_err();
    assert_eq!(
        other.to_string(),
        format!(
            "session `other` in the entry `9000-0` is not in the trash `{}`",
            store.trash_dir().display()
        )
    );
    assert_eq!(home.tree(), before);

    store.delete(&demo(), NOW + 1).unwrap();
    let choice = Choice::Entry("0-0".into());
    store.restore_from_trash(&demo(), &choice).unwrap();
    assert_eq!(read(), "three");
    assert_eq!(entries(&store), ["9001-0", "9000-0"]);
}

#[test]
fn a_restore_that_cannot_be_changes_nothing() {
    let home = Home::new();
    let store = home.store(Container::Raw);
    let nothing = store.restore(&demo()).unwrap_err();
    assert_eq!(nothing.code(), "NOT_IN_TRASH");
    assert!(home.tree().is_empty());
    put(&home, "demo");
    store.delete(&demo(), NOW).unwrap();
    // The same id in another project; and something without a log in the way.
    for path in [
        "--elsewhere--/demo/session.v4.jsonl".into(),
        format!("{PROJECT}/demo/notes.txt"),
    ] {
        let path = home.put(path, "");
        let before = home.tree();
        let taken = store.restore(&demo()).unwrap_err();
        assert_eq!(taken.code(), "SESSION_ALREADY_EXISTS");
        assert_eq!(home.tree(), before);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
    fs::remove_dir_all(home.root()).unwrap();
    store.restore(&demo()).unwrap();
    store.read(&demo()).unwrap();
}

#[test]
fn an_entry_that_does_not_say_what_it_holds_is_a_problem_and_hides_no_other() {
    let home = Home::new();
    let store = home.store(Container::Zstd);
    for (n, id) in ["demo", "a", "b", "c"].into_iter().enumerate() {
        put(&home, id);
        store.delete(&id.into(), i64::try_from(n).unwrap()).unwrap();
    }
    let note = |entry: &str| store.trash_dir().join(entry).join("trash.json");
    fs::remove_file(note("1-0")).unwrap();
    write(&note("2-0"), "{\"id\":");
    write(
        &note("3-0"),
        r#"{"id":"c","project":"../../elsewhere","deletedAt":3}"#,
    );
    // Not ours.
    fs::create_dir_all(store.trash_dir().join("notes/session")).unwrap();
    fs::create_dir_all(store.trash_dir().join("01-0/session")).unwrap();
    let trash = store.trashed().unwrap();
    assert_eq!(trash.sessions.len(), 1);
    let texts: Vec<_> = trash
        .problems
        .iter()
        .map(|one| {
            let text = one.to_string();
            assert_eq!(one.code(), "TRASH_DAMAGED");
            text.replace(&*store.trash_dir().to_string_lossy(), "<trash>")
        })
        .collect();
    insta::assert_snapshot!(texts.join("\n"), @r"
    `<trash>/1-0` in the trash does not say which session it holds: `trash.json`: No such file or directory (os error 2)
    `<trash>/2-0` in the trash does not say which session it holds: `trash.json`: EOF while parsing a value at line 1 column 6
    `<trash>/3-0` in the trash does not say which session it holds: `../../elsewhere` is not the name of a project directory
    ");
    assert_eq!(
        store.restore(&"c".into()).unwrap_err().code(),
        "TRASH_DAMAGED"
    );
    store.restore(&demo()).unwrap();
}

#[test]
fn the_trash_may_be_elsewhere() {
    let home = Home::new();
    let trash = home.root().with_file_name("bin");
    let store = home.store(Container::Zstd).with_trash(&trash);
    put(&home, "demo");
    let trashed = store.move_to_trash(&demo(), NOW).unwrap();
    assert_eq!(trashed.path, trash.join("9000-0/session"));
    store.restore(&demo()).unwrap();
    store.read(&demo()).unwrap();
}

#[test]
fn a_home_that_cannot_be_written_is_left_as_it_is() {
    // For root every directory can be written.
    assert!(child::as_nobody("read-only"));
}

pub(crate) fn a_home_that_cannot_be_written() {
    let home = Home::new();
    let store = home.store(Container::Zstd);
    for id in ["deleted", "demo"] {
        put(&home, id);
    }
    store.delete(&"deleted".into(), NOW).unwrap();
    let before = home.tree();
    let dirs: Vec<_> = before.keys().filter(|name| name.ends_with('/')).collect();
    let top = home.root().with_file_name("");
    let seal = |mode: u32| {
        for dir in &dirs {
            fs::set_permissions(top.join(dir), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(&top, fs::Permissions::from_mode(mode)).unwrap();
    };
    seal(0o500);
    let deleted = store.delete(&demo(), NOW).unwrap_err();
    let restored = store.restore(&"deleted".into()).unwrap_err();
    let collected = store
        .collect(0, offshoot_store::Collecting::Remove, LATER)
        .unwrap();
    let put = store.blobs().put(b"x", NOW).unwrap_err();
    seal(0o700);
    assert_eq!(home.tree(), before);
    for (error, says) in [
        (&deleted, "could not open the lock "),
        (&restored, "could not move out of the trash "),
        (&put, "could not create the directory "),
    ] {
        assert!(error.to_string().starts_with(says), "{error}");
        assert!(error.to_string().contains("Permission denied"), "{error}");
    }
    let [kept] = &collected.kept[..] else {
        panic!("{collected:?}");
    };
    assert_eq!(kept.path, store.trash_dir().join("9000-0"));
    assert!(collected.removed.is_empty() && kept.reason.contains("Permission denied"));
}

/// Where the session is, if it is whole there.
fn whole(home: &Home, log: &[u8]) -> Vec<PathBuf> {
    let tree = home.tree();
    let logs = tree
        .iter()
        .filter(|(name, _)| name.ends_with("/session.v4.jsonl.zstd"));
    logs.map(|(name, bytes)| {
        assert_eq!(bytes, log);
        PathBuf::from(name)
    })
    .collect()
}

/// What is done to a session that a disk fails at.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Job {
    Delete,
    Restore,
}

#[test]
fn a_fault_at_any_step_leaves_the_session_whole_in_one_place() {
    for job in [Job::Delete, Job::Restore] {
        for fault in [Fault::Once, Fault::Forever] {
            for step in 0.. {
                if !survives(job, fault, step) {
                    assert!(step > 4, "{job:?}: only {step} steps");
                    break;
                }
            }
        }
    }
}

/// Whether there is such a step.
fn survives(job: Job, fault: Fault, step: u64) -> bool {
    let home = Home::new();
    put(&home, "demo");
    let sound = home.store(Container::Zstd);
    let log = fs::read(home.log("demo", Container::Zstd)).unwrap();
    if job == Job::Restore {
        sound.delete(&demo(), NOW).unwrap();
        fs::remove_dir_all(home.root().join(PROJECT)).unwrap();
    }
    let disk = FaultyDisk::coarse(fault, step);
    let store = JsonlStore::on(home.root(), Container::Zstd, disk.clone());
    let done: Result<(), StoreError> = match job {
        Job::Delete => store.delete(&demo(), NOW),
        Job::Restore => store.restore(&demo()),
    };
    let (places, at) = (whole(&home, &log), format!("{job:?} {fault:?} {step}"));
    assert_eq!(places.len(), 1, "{at}: {places:?}");
    let in_trash = places[0].starts_with("trash");
    assert_eq!(in_trash, sound.read(&demo()).is_err(), "{at}");
    let trash = sound.trashed().unwrap();
    assert_eq!(
        (trash.sessions.len(), trash.problems.len()),
        (usize::from(in_trash), 0),
        "{at}"
    );
    // What is said is true, unless the disk that would have had to be told otherwise is gone.
    let moved = in_trash == (job == Job::Delete);
    assert!(
        fault == Fault::Forever || moved == done.is_ok(),
        "{at}: {done:?}"
    );
    assert!(done.is_err() || moved, "{at}");
    // What is left half done is in nobody's way and goes with the rest.
    if in_trash {
        sound.restore(&demo()).unwrap();
    }
    let collected = sound
        .collect(0, offshoot_store::Collecting::Remove, LATER)
        .unwrap();
    assert_eq!(collected.kept, [], "{at}");
    assert_eq!(
        fs::read_dir(sound.trash_dir()).map_or(0, Iterator::count),
        0,
        "{at}"
    );
    drop(sound.open(&demo(), NOW).unwrap());
    disk.steps() > step
}

#[test]
fn an_entry_never_gets_the_name_of_one_that_is_still_being_removed() {
    let home = Home::new();
    let store = home.store(Container::Zstd);
    let bytes = file_bytes(Container::Zstd, &header("demo"), &[&events(2)]);
    home.put_log("demo", Container::Zstd, bytes);
    let trash = home.root().parent().unwrap().join("trash");
    fs::create_dir_all(trash.join(format!("{NOW}-0.gone/session"))).unwrap();
    let trashed = store.move_to_trash(&"demo".into(), NOW).unwrap();
    assert_eq!(trashed.entry, format!("{NOW}-1"));
}

#[test]
fn a_directory_with_nothing_but_a_free_lock_is_taken_over() {
    let home = Home::new();
    let store = home.store(Container::Zstd);
    put(&home, "demo");
    store.delete(&demo(), NOW).unwrap();
    let husk = home.put(format!("{PROJECT}/demo/session.lock"), "");
    let holder = fs::File::open(&husk).unwrap();
    holder.lock().unwrap();
    let before = home.tree();
    let owned = store.restore(&demo()).unwrap_err();
    assert_eq!(owned.code(), "SESSION_ALREADY_OWNED");
    assert_eq!(home.tree(), before);
    drop(holder);
    let others = home.put(format!("{PROJECT}/demo/notes"), "");
    let taken = store.restore(&demo()).unwrap_err();
    assert_eq!(taken.code(), "SESSION_ALREADY_EXISTS");
    fs::remove_file(others).unwrap();
    store.restore(&demo()).unwrap();
    assert!(store.trashed().unwrap().sessions.is_empty());
    drop(store.open(&demo(), NOW).unwrap());
}
