//! Disks that take nothing: full, read-only, or not there. Each is named, and nothing stored is lost.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use offshoot_format::Container;
use offshoot_session::{EventLog, LogOffset};
use offshoot_store::{JsonlStore, Persistence as _, StoreError};

use crate::child;
use crate::support::{
    BOTH, Home, NOW, PROJECT, all, events, file_bytes, header, log, next_events, texts, write,
};

/// Room for a few sessions, and no more.
const TINY: &str =
    r#"mount -t tmpfs -o size=256k none "$OFFSHOOT_STORE_TEST_ROOT" && exec "$0" "$@""#;
/// A file may have 16 blocks of 512 bytes; writing more is an error and no signal.
const LIMITED: &str = r#"trap '' XFSZ && ulimit -f 16 && exec "$0" "$@""#;

fn kind_of(error: &StoreError) -> std::io::ErrorKind {
    match error {
        StoreError::Io { source, .. } => source.kind(),
        other => panic!("{other}"),
    }
}

fn rows(store: &JsonlStore, id: &str) -> Vec<String> {
    texts(store.read(&id.into()).unwrap().stored.log.events())
}

/// Appends turns with messages of this size until one does not go in. What was acknowledged by then, and why.
fn append_until_it_fails(
    store: &JsonlStore,
    id: &str,
    size: usize,
) -> (EventLog, Box<dyn offshoot_store::SessionWriter>, StoreError) {
    let mut writer = store.create(&header(id)).unwrap();
    let mut done = EventLog::new();
    loop {
        let batch = next_events(&done, &[size]);
        if let Err(error) = writer.append(&batch) {
            return (done, writer, error);
        }
        for event in batch {
            done.push(event).unwrap();
        }
    }
}

#[test]
fn a_disk_that_is_really_full_is_named_and_takes_nothing_back() {
    let root = tempfile::tempdir().unwrap();
    // In a name space of its own, so that the mount goes with the process.
    let shell = ["unshare", "--mount", "sh", "-c", TINY];
    let (went_well, errors) = match std::process::Command::new("unshare")
        .arg("--version")
        .output()
    {
        Ok(_) => child::by_shell("full", root.path(), &shell),
        Err(error) => (false, format!("unshare: {error}")),
    };
    let is_forbidden = ["unshare:", "mount:"]
        .iter()
        .any(|who| errors.contains(who));
    if !went_well && is_forbidden {
        eprintln!("skipped, because no file system can be mounted here: {errors}");
        return;
    }
    assert!(went_well, "{errors}");
}

pub(crate) fn a_full_disk_takes_nothing_back(mounted: &Path) {
    let root = mounted.join("sessions");
    let store = JsonlStore::new(&root, Container::Raw);
    let filler = mounted.join("filler");
    write(&filler, vec![0; 64 << 10]);
    let (done, mut writer, error) = append_until_it_fails(&store, "demo", 10_000);
    assert_eq!(kind_of(&error), std::io::ErrorKind::StorageFull, "{error}");
    assert!(done.end() > LogOffset::START);
    assert_eq!(writer.stored(), done.end());
    assert_eq!(rows(&store, "demo"), texts(done.events()));
    let size = fs::metadata(store.locate(&"demo".into()).unwrap())
        .unwrap()
        .len();
    assert_eq!(
        size,
        file_bytes(Container::Raw, &header("demo"), &[&events_of(&done)]).len() as u64
    );
    // Another session finds no room either, and leaves nothing of itself.
    let mut other = store.create(&header("other")).unwrap();
    let refused = other
        .append(&next_events(&EventLog::new(), &[100_000]))
        .unwrap_err();
    assert_eq!(
        kind_of(&refused),
        std::io::ErrorKind::StorageFull,
        "{refused}"
    );
    assert!(store.read(&"other".into()).is_err());

    fs::remove_file(filler).unwrap();
    let batch = next_events(&done, &[10_000]);
    writer.append(&batch).unwrap();
    let mut expected = texts(done.events());
    expected.extend(texts(&batch));
    assert_eq!(rows(&store, "demo"), expected);
    drop(writer);
    let opened = store.open(&"demo".into(), NOW).unwrap();
    assert_eq!(
        texts(opened.session.log().events())[..expected.len()],
        expected
    );
}

fn events_of(log: &EventLog) -> Vec<std::sync::Arc<offshoot_session::Event>> {
    log.events().cloned().collect()
}

#[test]
fn a_file_that_may_not_grow_is_named_and_goes_on_where_it_may() {
    let home = Home::new();
    let (went_well, errors) = child::by_shell("limited", &home.root(), &["sh", "-c", LIMITED]);
    assert!(went_well, "{errors}");
    let store = home.store(Container::Raw);
    let stored = rows(&store, "demo");
    assert!(!stored.is_empty());
    let mut opened = store.open(&"demo".into(), NOW).unwrap();
    assert_eq!(texts(opened.session.log().events())[..stored.len()], stored);
    let more = next_events(opened.session.log(), &[20_000]);
    opened.writer.append(&more).unwrap();
    assert_eq!(
        rows(&store, "demo").last().map(String::as_str),
        more.last().map(|last| last.text())
    );
}

pub(crate) fn a_limit_on_files_stops_an_append(root: &Path) {
    let store = JsonlStore::new(root, Container::Raw);
    let (done, mut writer, error) = append_until_it_fails(&store, "demo", 1_500);
    assert_eq!(kind_of(&error), std::io::ErrorKind::FileTooLarge, "{error}");
    assert!(done.end() > LogOffset::START);
    assert_eq!(rows(&store, "demo"), texts(done.events()));
    let again = writer.append(&next_events(&done, &[1_500])).unwrap_err();
    assert_eq!(kind_of(&again), std::io::ErrorKind::FileTooLarge, "{again}");
    // What fits goes in: a failed append is taken back whole.
    let little = next_events(&done, &[]);
    writer.append(&little).unwrap();
    let mut expected = texts(done.events());
    expected.extend(texts(&little));
    assert_eq!(rows(&store, "demo"), expected);
}

#[test]
fn a_read_only_home_is_read_and_says_why_it_cannot_be_written() {
    // For root every directory can be written.
    if crate::locks::is_root() {
        assert!(child::as_nobody("read_only"));
    } else {
        a_home_that_cannot_be_written_is_read_and_named();
    }
}

pub(crate) fn a_home_that_cannot_be_written_is_read_and_named() {
    for container in BOTH {
        let home = Home::new();
        home.put_log(
            "demo",
            container,
            file_bytes(container, &header("demo"), &[&events(9)]),
        );
        let dirs = [home.dir("demo"), home.root().join(PROJECT), home.root()];
        let set = |mode| {
            for dir in &dirs {
                fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
            }
        };
        set(0o500);
        let before = home.tree();
        let store = home.store(container);
        let read = store
            .read(&"demo".into())
            .map(|read| texts(read.stored.log.events()));
        let listed = all(&store).len();
        let opened = store.open(&"demo".into(), NOW).unwrap_err();
        let source = log(&events(9));
        let created: BTreeMap<_, _> = ["/work/demo", "/project/other"]
            .map(|cwd| {
                let header = offshoot_session::SessionHeader {
                    cwd: Some(cwd.into()),
                    ..header("new")
                };
                let mut writer = store.create(&header).unwrap();
                (cwd, writer.append(&events_of(&source)).unwrap_err())
            })
            .into();
        let after = home.tree();
        set(0o700);

        assert_eq!(read.unwrap(), texts(&events(9)));
        assert_eq!(listed, 1);
        assert_eq!(after, before);
        let said = |error: &StoreError| home.shorten(&error.to_string());
        assert_eq!(
            said(&opened),
            "could not open the lock `<root>/--work-demo--/demo/session.lock`: Permission denied (os error 13)"
        );
        assert_eq!(
            said(&created["/work/demo"]),
            "could not create the directory `<root>/--work-demo--/new`: Permission denied (os error 13)"
        );
        assert_eq!(
            said(&created["/project/other"]),
            "could not create the directory `<root>/--project-other--`: Permission denied (os error 13)"
        );
        store.open(&"demo".into(), NOW).unwrap();
    }
}

#[test]
fn a_home_that_is_not_there_holds_nothing_and_is_not_made_by_looking() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonlStore::new(dir.path().join("mount/home/sessions"), Container::Zstd);
    assert!(all(&store).is_empty());
    for error in [
        store.read(&"demo".into()).unwrap_err(),
        store.open(&"demo".into(), NOW).unwrap_err(),
    ] {
        assert_eq!(error.code(), "SESSION_NOT_FOUND");
        assert!(error.to_string().contains("mount/home/sessions"), "{error}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_home_that_goes_away_under_a_writer_is_named_and_takes_nothing() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let mut writer = store.create(&header("demo")).unwrap();
        writer.append(&events(9)).unwrap();
        let away = home.root().with_file_name("away");
        let back = |from: &Path, to: &Path| {
            #[expect(
                clippy::disallowed_methods,
                reason = "a home that is moved by its owner"
            )]
            fs::rename(from, to).unwrap();
        };
        back(&home.root(), &away);
        let refused = writer.append(&events(16)[9..]).unwrap_err();
        assert_eq!(refused.code(), "SESSION_CHANGED", "{refused}");
        assert_eq!(writer.stored(), LogOffset::new(9));
        back(&away, &home.root());
        writer.append(&events(16)[9..]).unwrap();
        assert_eq!(rows(&store, "demo"), texts(&events(16)));
    }
}
