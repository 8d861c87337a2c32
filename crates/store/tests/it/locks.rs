//! One writer, in this process and between processes; readers need no lock and leave no trace.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use offshoot_format::Container;
use offshoot_store::{Disk, JsonlStore, Locking, LogFile, Persistence as _, RealDisk, StoreError};

use crate::child::{self, Holder};
use crate::support::{BOTH, Home, NOW, all, events, file_bytes, header, texts};

fn put(home: &Home, container: Container) {
    let bytes = file_bytes(container, &header("demo"), &[&events(16)]);
    home.put_log("demo", container, bytes);
}

/// A second writer is refused and nothing changes, while everything that only reads goes on.
fn check_held(home: &Home, store: &JsonlStore, holder: u32) {
    let before = home.tree();
    let refused = store.open(&"demo".into(), NOW).unwrap_err();
    assert_eq!(
        home.shorten(&refused.to_string()),
        format!(
            "session `demo` is open for writing in process {holder} (`<root>/--work-demo--/demo/session.lock` is locked)"
        )
    );
    assert_eq!(refused.code(), "SESSION_ALREADY_OWNED");
    assert_eq!(
        refused.hint().unwrap(),
        "close it there, or fork it: a fork needs no lock on its source"
    );
    let again = store.create(&header("demo")).unwrap_err();
    assert_eq!(again.code(), "SESSION_ALREADY_EXISTS");
    let kept = store.delete(&"demo".into(), NOW).unwrap_err();
    assert_eq!(kept.to_string(), refused.to_string());
    store.read(&"demo".into()).unwrap();
    let list = all(store);
    assert_eq!(list.len(), 1);
    assert!(list[0].header.is_ok());
    assert_eq!(home.tree(), before);
}

#[test]
fn a_second_writer_in_this_process_is_refused_until_the_first_is_dropped() {
    for container in BOTH {
        let home = Home::new();
        put(&home, container);
        let store = home.store(container);
        let opened = store.open(&"demo".into(), NOW).unwrap();
        let this = std::process::id();
        check_held(&home, &store, this);
        check_held(&home, &home.store(container), this);
        drop(opened.session);
        check_held(&home, &store, this);
        drop(opened.writer);
        store.open(&"demo".into(), NOW).unwrap();
    }
}

#[test]
fn the_creator_of_a_session_is_its_writer() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let mut writer = store.create(&header("demo")).unwrap();
        writer.append(&events(2)).unwrap();
        check_held(&home, &store, std::process::id());
        drop(writer);
        store.open(&"demo".into(), NOW).unwrap();
    }
}

#[test]
fn a_second_writer_in_another_process_is_refused_until_the_first_ends_or_is_killed() {
    for container in BOTH {
        for job in ["hold", "create"] {
            let home = Home::new();
            if job == "hold" {
                put(&home, container);
            }
            let holder = Holder::start(job, &home.root(), container);
            let store = home.store(container);
            check_held(&home, &store, holder.id());
            holder.kill();
            let opened = store.open(&"demo".into(), NOW + 1).unwrap();
            let rows = texts(opened.session.log().events());
            let written = if job == "hold" { 16 } else { 2 };
            assert_eq!(rows[..written], texts(&events(written)));
            drop(opened);

            let holder = Holder::start("hold", &home.root(), container);
            check_held(&home, &store, holder.id());
            holder.finish();
            store.open(&"demo".into(), NOW).unwrap();
        }
    }
}

#[test]
fn the_same_id_in_two_processes_is_created_once() {
    for cwd in [Some("/work/demo"), None] {
        for container in BOTH {
            let home = Home::new();
            let other = offshoot_session::SessionHeader {
                cwd: cwd.map(str::to_owned),
                ..header("demo")
            };
            let store = home.store(container);
            let mut loser = store.create(&other).unwrap();
            let holder = Holder::start("create", &home.root(), Container::Zstd);
            let before = home.tree();
            let failure = loser.append(&events(2)).unwrap_err();
            assert_eq!(failure.code(), "SESSION_ALREADY_EXISTS", "{failure}");
            assert_eq!(home.tree(), before);
            holder.kill();
        }
    }
}

#[test]
fn of_many_that_create_one_id_at_once_exactly_one_succeeds() {
    let home = Home::new();
    let start = std::sync::Barrier::new(8);
    let race = |n: usize| {
        let header = offshoot_session::SessionHeader {
            cwd: Some(format!("/project/{n}")),
            ..header("demo")
        };
        // Each thread has a store of its own, as another process would.
        let store = home.store(BOTH[n % 2]);
        let mut writer = store.create(&header).unwrap();
        start.wait();
        writer.append(&events(2)).is_ok()
    };
    let race = &race;
    let results: Vec<bool> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || race(n))).collect();
        threads.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|&&won| won).count(), 1);
    let store = home.store(Container::Zstd);
    assert_eq!(all(&store).len(), 1);
    assert!(store.read(&"demo".into()).is_ok());
}

#[test]
fn a_reader_leaves_no_trace_and_waits_for_nobody() {
    for container in BOTH {
        let home = Home::new();
        put(&home, container);
        let before = home.tree();
        let store = home.store(container);
        store.read(&"demo".into()).unwrap();
        all(&store);
        store.locate(&"demo".into()).unwrap();
        assert_eq!(home.tree(), before);
        let writer = store.open(&"demo".into(), NOW).unwrap();
        let read = store.read(&"demo".into()).unwrap();
        assert_eq!(
            texts(read.stored.log.events()),
            texts(writer.session.log().events())
        );
    }
}

/// A disk whose file system has no locks, and says so in its own way.
#[derive(Debug)]
struct NoLocks(io::ErrorKind);

impl Disk for NoLocks {
    fn open_log(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        RealDisk.open_log(path)
    }

    fn try_lock(&self, _: &File) -> Result<(), TryLockError> {
        Err(TryLockError::Error(self.0.into()))
    }
}

/// As [`NoLocks`], with the number that the system gives if all its locks are in use.
#[derive(Debug)]
struct NoLocksLeft;

impl Disk for NoLocksLeft {
    fn open_log(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        RealDisk.open_log(path)
    }

    fn try_lock(&self, _: &File) -> Result<(), TryLockError> {
        Err(TryLockError::Error(io::Error::from_raw_os_error(37)))
    }
}

fn without_locks() -> [Arc<dyn Disk>; 3] {
    [
        Arc::new(NoLocks(io::ErrorKind::Unsupported)),
        Arc::new(NoLocks(io::ErrorKind::InvalidInput)),
        Arc::new(NoLocksLeft),
    ]
}

fn code<T: std::fmt::Debug>(result: Result<T, StoreError>) -> &'static str {
    result.unwrap_err().code()
}

#[test]
fn without_locks_nothing_is_written_and_nothing_is_left_behind() {
    for disk in without_locks() {
        let home = Home::new();
        let store = JsonlStore::on(home.root(), Container::Raw, disk);
        let mut writer = store.create(&header("new")).unwrap();
        assert_eq!(code(writer.append(&events(2))), "LOCKS_UNSUPPORTED");
        assert_eq!(home.tree().into_keys().collect::<Vec<_>>(), [""; 0]);

        put(&home, Container::Raw);
        let before = home.tree();
        let refused = store.open(&"demo".into(), NOW).unwrap_err();
        let text = home.shorten(&refused.to_string());
        let lock = "<root>/--work-demo--/demo/session.lock";
        assert!(
            text.starts_with(&format!(
                "the file system of `{lock}` does not support locks (flock): "
            )),
            "{text}"
        );
        assert!(refused.hint().unwrap().ends_with("say --unsafe-no-lock"));
        assert_eq!(code(store.delete(&"demo".into(), NOW)), "LOCKS_UNSUPPORTED");
        assert_eq!(code(writer.append(&events(2))), "LOCKS_UNSUPPORTED");
        store.read(&"demo".into()).unwrap();
        assert_eq!(home.tree(), before);
    }
}

#[test]
fn whoever_answers_for_it_writes_without_locks_but_never_twice_in_one_process() {
    for disk in without_locks() {
        let home = Home::new();
        let store = || {
            JsonlStore::on(home.root(), Container::Raw, Arc::clone(&disk))
                .with_locking(Locking::UnsafeNone)
        };
        let mut writer = store().create(&header("demo")).unwrap();
        writer.append(&events(2)).unwrap();
        assert_eq!(
            code(store().open(&"demo".into(), NOW)),
            "SESSION_ALREADY_OWNED"
        );
        assert_eq!(
            code(store().delete(&"demo".into(), NOW)),
            "SESSION_ALREADY_OWNED"
        );
        drop(writer);
        drop(store().open(&"demo".into(), NOW).unwrap());
        store().delete(&"demo".into(), NOW).unwrap();
    }
}

#[test]
fn where_there_are_locks_nobody_can_ask_to_pass_them_over() {
    let home = Home::new();
    put(&home, Container::Raw);
    let holder = Holder::start("hold", &home.root(), Container::Raw);
    let store = home.store(Container::Raw).with_locking(Locking::UnsafeNone);
    check_held(&home, &store, holder.id());
    holder.kill();
}

#[test]
fn two_handles_on_the_lock_exclude_each_other_in_one_process() {
    // What the store relies on, without the store: the lock belongs to the open file, not to the process.
    let home = Home::new();
    let path = home.put("lock", "");
    let (one, other) = (File::open(&path).unwrap(), File::open(&path).unwrap());
    RealDisk.try_lock(&one).unwrap();
    assert!(matches!(
        RealDisk.try_lock(&other),
        Err(TryLockError::WouldBlock)
    ));
    drop(one);
    RealDisk.try_lock(&other).unwrap();
}

#[test]
fn whoever_has_the_lock_without_being_known_is_called_somebody_elsewhere() {
    let home = Home::new();
    put(&home, Container::Raw);
    #[derive(Debug)]
    struct Taken;
    impl Disk for Taken {
        fn open_log(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
            RealDisk.open_log(path)
        }
        fn try_lock(&self, _: &File) -> Result<(), TryLockError> {
            Err(TryLockError::WouldBlock)
        }
    }
    let store = JsonlStore::on(home.root(), Container::Raw, Arc::new(Taken));
    let refused = store.open(&"demo".into(), NOW).unwrap_err();
    assert!(matches!(
        refused,
        StoreError::AlreadyOwned { holder: None, .. }
    ));
    assert_eq!(
        home.shorten(&refused.to_string()),
        "session `demo` is open for writing elsewhere (`<root>/--work-demo--/demo/session.lock` is locked)"
    );
}

#[test]
fn an_unreadable_directory_is_listed_as_a_problem_and_hides_nothing_else() {
    // For root every directory is readable.
    if is_root() {
        assert!(child::as_nobody("unreadable"));
    } else {
        one_unreadable_directory_hides_nothing_else();
    }
}

pub(crate) fn is_root() -> bool {
    let home = Home::new();
    let dir = home.root();
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o000)).unwrap();
    fs::read_dir(&dir).is_ok()
}

pub(crate) fn one_unreadable_directory_hides_nothing_else() {
    let home = Home::new();
    put(&home, Container::Raw);
    home.put("--locked--/inside/session.v4.jsonl", "");
    home.put("--work-demo--/sealed/session.v4.jsonl", "");
    let locked = [home.root().join("--locked--"), home.dir("sealed")];
    for dir in &locked {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o000)).unwrap();
    }
    let store = home.store(Container::Raw);
    let listed: Vec<_> = all(&store)
        .into_iter()
        .map(|one| {
            let state = one
                .header
                .map_or_else(|error| error.to_string(), |_| "ok".into());
            home.shorten(&format!("{} {state}", one.id))
        })
        .collect();
    let missing = store.read(&"inside".into()).unwrap_err().to_string();
    let sealed = store.open(&"sealed".into(), NOW).unwrap_err().to_string();
    let good = store.open(&"demo".into(), NOW).map(drop);
    let created = store.create(&header("new")).map(drop);
    for dir in &locked {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let denied =
        |dir: &str| format!("could not list `<root>/{dir}`: Permission denied (os error 13)");
    assert_eq!(
        listed,
        [
            format!("--locked-- {}", denied("--locked--")),
            "demo ok".to_owned(),
            format!("sealed {}", denied("--work-demo--/sealed")),
        ]
    );
    assert_eq!(home.shorten(&missing), denied("--locked--/inside"));
    assert_eq!(home.shorten(&sealed), denied("--locked--/sealed"));
    good.unwrap();
    created.unwrap();
}

/// A disk on which a fork is being stored until somebody has asked for its source's lock twice.
#[derive(Debug)]
struct Forking {
    shared: Mutex<(usize, Option<File>)>,
}

impl Disk for Forking {
    fn open_log(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        RealDisk.open_log(path)
    }

    fn try_lock(&self, file: &File) -> Result<(), TryLockError> {
        let tried = RealDisk.try_lock(file);
        let mut shared = self.shared.lock().unwrap();
        if tried.is_err() {
            shared.0 += 1;
        }
        if shared.0 == 2 {
            shared.1 = None;
        }
        tried
    }
}

#[test]
fn a_writer_waits_for_a_fork_that_is_being_stored_and_is_turned_away_by_another_writer() {
    let home = Home::new();
    let bytes = file_bytes(Container::Zstd, &header("demo"), &[&events(9)]);
    home.put_log("demo", Container::Zstd, bytes);
    let lock = home.dir("demo").join("session.lock");
    drop(
        home.store(Container::Zstd)
            .open(&"demo".into(), NOW)
            .unwrap(),
    );
    let shared = File::open(&lock).unwrap();
    shared.lock_shared().unwrap();
    let disk = Arc::new(Forking {
        shared: Mutex::new((0, Some(shared))),
    });
    let store = JsonlStore::on(home.root(), Container::Zstd, disk.clone());
    let opened = store.open(&"demo".into(), NOW).unwrap();
    assert_eq!(disk.shared.lock().unwrap().0, 2);
    drop(opened);

    let held = File::open(&lock).unwrap();
    held.lock().unwrap();
    let refused = store.open(&"demo".into(), NOW).unwrap_err();
    assert_eq!(refused.code(), "SESSION_ALREADY_OWNED");
    assert_eq!(disk.shared.lock().unwrap().0, 3);
}

#[test]
fn whether_somebody_writes_is_seen_without_a_lock_also_of_another_process() {
    let home = Home::new();
    let store = home.store(Container::Zstd);
    let id = "demo".into();
    assert!(!store.is_being_written(&id), "not there");
    let holder = Holder::start("create", &home.root(), Container::Zstd);
    assert!(store.is_being_written(&id), "another process");
    holder.kill();
    assert!(!store.is_being_written(&id));
    let opened = store.open(&id, NOW).unwrap();
    assert!(
        home.store(Container::Zstd).is_being_written(&id),
        "this one"
    );
    drop(opened);
    // A fork is no writer.
    let shared = File::open(home.dir("demo").join("session.lock")).unwrap();
    shared.lock_shared().unwrap();
    assert!(!store.is_being_written(&id));
}
