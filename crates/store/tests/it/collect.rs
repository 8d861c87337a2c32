//! Collecting garbage: what is removed, and everything that never is.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use offshoot_format::Container;
use offshoot_store::{
    BlobId, Collected, Collecting, Garbage, JsonlStore, Kept, Persistence as _, Removed, Scope,
    Usage,
};

use crate::child::Holder;
use crate::faulty::{Fault, FaultyDisk};
use crate::pruned::fork;
use crate::support::{Home, NOW, PROJECT, event, events, file_bytes, header, write};
use crate::trash::LATER;

const HOUR: i64 = 60 * 60 * 1000;
pub(crate) const DAY: i64 = 24 * HOUR;
pub(crate) const MONTH: u64 = 30 * DAY.unsigned_abs();
pub(crate) const BRANCH: &str = "branch.o1.jsonl.zstd";
const DRAFT: &str = "session.v4.jsonl.zstd.00000a0b0c0d.tmp";

/// Says that a file or directory was last changed at `at`.
fn set_time(path: &Path, at: i64) {
    let at = UNIX_EPOCH + Duration::from_millis(at.unsigned_abs());
    File::open(path).unwrap().set_modified(at).unwrap();
}

fn put(home: &Home, id: &str) {
    let bytes = file_bytes(Container::Zstd, &header(id), &[&events(16)]);
    home.put_log(id, Container::Zstd, bytes);
}

/// A deleted session whose files all say that this was when it was deleted.
fn put_trashed(home: &Home, id: &str, at: i64) -> PathBuf {
    let store = home.store(Container::Zstd);
    put(home, id);
    set_time(&home.log(id, Container::Zstd), at);
    let trashed = store.move_to_trash(&id.into(), at).unwrap();
    let entry = store.trash_dir().join(trashed.entry);
    set_time(&entry.join("trash.json"), at);
    set_time(&entry, at);
    entry
}

pub(crate) fn collect(home: &Home, older_than: u64, now: i64) -> Collected {
    let store = home.store(Container::Zstd);
    let before = home.tree();
    let outlook = store.collect(older_than, Collecting::DryRun, now).unwrap();
    assert_eq!(home.tree(), before, "a dry run writes nothing");
    let done = store.collect(older_than, Collecting::Remove, now).unwrap();
    assert_eq!(outlook, done, "a dry run tells what will be");
    done
}

pub(crate) fn removed(done: &Collected) -> Vec<Garbage> {
    done.removed.iter().map(|one| one.what.clone()).collect()
}

pub(crate) fn session(id: &str, deleted_at: i64) -> Garbage {
    let id = id.into();
    Garbage::Session { id, deleted_at }
}

#[test]
fn deleted_sessions_are_removed_once_they_are_old_enough_and_nothing_else_is() {
    let home = Home::ours();
    put(&home, "there");
    put_trashed(&home, "old", LATER - 31 * DAY);
    put_trashed(&home, "just", LATER - 30 * DAY);
    put_trashed(&home, "young", LATER - 30 * DAY + 1);
    let there = home.tree();
    let size = |name: &str| there[name].len() as u64;
    let done = collect(&home, MONTH, LATER);
    let entry = |at: i64| format!("trash/{at}-0");
    let freed = [31, 30].map(|days| {
        let entry = entry(LATER - days * DAY);
        size(&format!("{entry}/trash.json"))
            + size(&format!("{entry}/session/session.v4.jsonl.zstd"))
    });
    let gone = |days: i64| {
        let store = home.store(Container::Zstd);
        store.trash_dir().join(format!("{}-0", LATER - days * DAY))
    };
    let expected = Collected {
        removed: vec![
            Removed {
                what: session("just", LATER - 30 * DAY),
                path: gone(30),
                freed: freed[1],
            },
            Removed {
                what: session("old", LATER - 31 * DAY),
                path: gone(31),
                freed: freed[0],
            },
        ],
        freed: freed.iter().sum(),
        ..Collected::default()
    };
    assert_eq!(done, expected);
    let mut left = there;
    left.retain(|name, _| !name.starts_with(&entry(LATER - 31 * DAY)));
    left.retain(|name, _| {
        !name.starts_with(&entry(LATER - 30 * DAY)) || name.contains("2000001-0")
    });
    let young = entry(LATER - 30 * DAY + 1);
    let mut expected = home.tree();
    assert!(expected.keys().any(|name| name.starts_with(&young)));
    expected.retain(|name, _| !name.starts_with(&young));
    left.retain(|name, _| !name.starts_with(&young));
    assert_eq!(expected, left);
    assert_eq!(collect(&home, MONTH, LATER), Collected::default());
}

#[test]
fn a_clock_that_goes_backwards_removes_nothing_early() {
    // Set back after the session was deleted.
    let home = Home::ours();
    let entry = put_trashed(&home, "demo", LATER);
    for now in [LATER - 1, LATER - 365 * DAY, 0, -LATER, i64::MIN] {
        assert_eq!(collect(&home, 0, now), Collected::default(), "{now}");
    }
    // Set back when it was deleted, and right again now: the log knows better.
    let note = entry.join("trash.json");
    let text = fs::read_to_string(&note).unwrap();
    write(&note, text.replace(&LATER.to_string(), "1000"));
    set_time(&note, 1_000);
    set_time(&entry.join("session/session.v4.jsonl.zstd"), LATER - DAY);
    assert_eq!(collect(&home, MONTH, LATER), Collected::default());
    let month = i64::try_from(MONTH).unwrap();
    let done = collect(&home, MONTH, LATER - DAY + month);
    assert_eq!(removed(&done), [session("demo", 1_000)]);
}

#[test]
fn what_a_deletion_has_left_half_done_is_finished_after_a_day() {
    let home = Home::ours();
    let trash = home.root().with_file_name("trash");
    let whole = put_trashed(&home, "demo", LATER);
    // An entry without a session; one whose removal had begun; and what is not ours.
    for name in ["5-0", "6-0.gone/session", "notes", "07-0", "x.gone"] {
        fs::create_dir_all(trash.join(name)).unwrap();
    }
    write(&trash.join("5-0/trash.json.00000a0b0c0d.tmp"), "{");
    write(&trash.join("6-0.gone/session/session.v4.jsonl"), "words");
    set_time(&trash.join("5-0"), LATER - DAY + 1);
    let done = collect(&home, 0, LATER - 1);
    assert_eq!(removed(&done), [Garbage::Entry]);
    assert_eq!(done.freed, 5);
    let done = collect(&home, 0, LATER);
    assert_eq!(removed(&done), [session("demo", LATER)]);
    let done = collect(&home, 0, LATER + 1);
    assert_eq!(removed(&done), [Garbage::Entry]);
    assert!(!whole.exists());
    let mut left: Vec<_> = fs::read_dir(&trash)
        .unwrap()
        .map(|one| one.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["07-0", "notes", "x.gone"]);
}

#[test]
fn an_entry_that_does_not_say_what_it_holds_is_kept_and_named() {
    let home = Home::ours();
    let entry = put_trashed(&home, "demo", NOW);
    fs::remove_file(entry.join("trash.json")).unwrap();
    let done = collect(&home, 0, LATER);
    assert_eq!(done.removed, []);
    let [Kept { path, reason }] = &done.kept[..] else {
        panic!("{done:?}");
    };
    assert_eq!(path, &entry);
    assert!(
        reason.contains("does not say which session it holds"),
        "{reason}"
    );
}

#[test]
fn drafts_go_when_they_are_a_day_old_and_nobody_writes_the_session() {
    for held in [true, false] {
        let home = Home::ours();
        put(&home, "demo");
        let dir = home.dir("demo");
        let others = [
            "notes.tmp",
            "x.00000a0b0c.tmp",
            ".00000a0b0c0d.tmp",
            // Of the right shape, but nothing that this program writes.
            "notes.00000a0b0c0d.tmp",
            "session.v3.jsonl.00000a0b0c0d.tmp",
            "base-00.jsonl.zstd.00000a0b0c0d.tmp",
            "base-0.notes",
            "session.repair",
        ];
        for name in others.into_iter().chain([DRAFT]) {
            write(&dir.join(name), "part");
        }
        let holder = held.then(|| Holder::start("hold", &home.root(), Container::Zstd));
        if held {
            // Opening the session has removed it.
            write(&dir.join(DRAFT), "part");
            write(&dir.join("session.lock"), "");
        }
        let changed = fs::metadata(&dir).unwrap().mtime() * 1_000;
        let young = collect(&home, 0, changed + DAY - 1);
        assert_eq!(young, Collected::default());
        let done = collect(&home, 0, LATER);
        let path = dir.join(DRAFT);
        let expected = match held {
            true => Vec::new(),
            false => vec![Removed {
                what: Garbage::Draft,
                path,
                freed: 4,
            }],
        };
        assert_eq!(done.removed, expected);
        assert_eq!(dir.join(DRAFT).exists(), held);
        // The lock's holder has finished that repair.
        assert!(others[..7].iter().all(|name| dir.join(name).exists()));
        assert_eq!(
            dir.join("session.lock").exists(),
            held,
            "none is created to collect"
        );
        if let Some(holder) = holder {
            holder.finish();
        }
    }
}

#[test]
fn a_home_that_another_tool_uses_loses_nothing_but_our_trash() {
    let home = Home::new();
    put_trashed(&home, "old", NOW);
    home.put_log("demo", Container::Raw, "somebody's");
    for name in [
        DRAFT,
        "notes.00000a0b0c0d.tmp",
        "base-0.jsonl.zstd.00000a0b0c0d.tmp",
    ] {
        home.put(format!("{PROJECT}/demo/{name}"), "part");
    }
    home.put(format!("{PROJECT}/fork/base-0.jsonl.zstd"), "base");
    home.put(format!("{PROJECT}/husk/session.lock"), "");
    let blobs = home.store(Container::Zstd).blobs();
    let id = blobs.put(b"unnamed", NOW).unwrap();
    write(
        &blobs
            .dir()
            .join(format!("{}.00000a0b0c0d.tmp", &id.to_string()[7..])),
        "part",
    );
    let mut before = home.tree();
    let done = collect(&home, 0, LATER);
    assert_eq!(removed(&done), [session("old", NOW)]);
    assert_eq!((done.scope, done.kept), (Scope::Trash, Vec::new()));
    before.retain(|name, _| !name.starts_with("trash/"));
    let mut left = home.tree();
    left.retain(|name, _| !name.starts_with("trash/"));
    assert_eq!(left, before);
}

/// A message that names a blob.
fn naming(seq: usize, id: &BlobId) -> std::sync::Arc<offshoot_session::Event> {
    event(&format!(
        r#"{{"type":"note/x","seq":{seq},"time":5,"data":{{"attachmentId":"{id}"}},"ignorable":true}}"#
    ))
}

#[test]
fn a_blob_stays_as_long_as_anything_names_it() {
    let home = Home::ours();
    let store = home.store(Container::Zstd);
    let blobs = store.blobs();
    let blob = |name: &str| blobs.put(name.as_bytes(), NOW).unwrap();
    let log = |id: &str, container, blob: &str| {
        let events = [naming(0, &self::BlobId::of(blob.as_bytes()))];
        file_bytes(container, &header(id), &[&events])
    };
    let raw = log("raw", Container::Raw, "in a raw log");
    home.put_log("raw", Container::Raw, raw);
    let packed = log("packed", Container::Zstd, "in a packed log");
    home.put_log("packed", Container::Zstd, &packed);
    let by_path = blobs.path(&blob("named by its path"));
    let result = format!(
        r#"{{"type":"note/x","seq":0,"time":5,"data":{{"text":"all of it is in `{}`"}},"ignorable":true}}"#,
        by_path.display()
    );
    let spilled = file_bytes(Container::Zstd, &header("spilled"), &[&[event(&result)]]);
    home.put_log("spilled", Container::Zstd, spilled);
    // An older generation, a file of the obsolete layout, a damaged log, a torn one, one of the future.
    let older = format!("{{\"x\":\"{}\"}}\n", blob("in an older log"));
    write(&home.dir("packed").join("session.jsonl"), older);
    home.put(
        format!("{PROJECT}/flat.jsonl"),
        format!("{}", blob("in a flat log")),
    );
    home.put_log(
        "damaged",
        Container::Raw,
        format!("x\ny {}\nz", blob("in a damaged log")),
    );
    let torn = log("torn", Container::Raw, "in a torn log");
    home.put_log("torn", Container::Raw, &torn[..torn.len() - 3]);
    let future = format!("{PROJECT}/future/session.v99.jsonl");
    home.put(future, format!("{}", blob("in a newer log")));
    // Of a fork the branch and the base; the session that the base is of is gone.
    let long = [
        naming(0, &blob("in a base")),
        naming(1, &blob("in a branch")),
    ];
    home.put_log(
        "parent",
        Container::Zstd,
        file_bytes(
            Container::Zstd,
            &header("parent"),
            &[&long[..1], &long[1..]],
        ),
    );
    fork(&home, "child", "parent", 0);
    let mut open = store.open(&"child".into(), NOW).unwrap();
    let next = usize::try_from(open.writer.stored().get()).unwrap();
    open.writer
        .append(&[naming(next, &blob("in a branch"))])
        .unwrap();
    drop(open);
    fs::remove_dir_all(home.dir("parent")).unwrap();
    // In the trash.
    home.put_log(
        "deleted",
        Container::Zstd,
        log("deleted", Container::Zstd, "in the trash"),
    );
    store.delete(&"deleted".into(), LATER).unwrap();
    let named: BTreeSet<_> = [
        "in a raw log",
        "in a packed log",
        "in an older log",
        "in a flat log",
        "in a damaged log",
        "in a torn log",
        "in a newer log",
        "in a base",
        "in a branch",
        "in the trash",
        "named by its path",
    ]
    .map(blob)
    .into();

    let (unnamed, young) = (blob("unnamed"), blob("young"));
    for id in named.iter().chain([&unnamed]) {
        set_time(&blobs.path(id), LATER - DAY);
    }
    set_time(&blobs.path(&young), LATER - DAY + 1);
    let draft = blobs
        .dir()
        .join(format!("{}.00000a0b0c0d.tmp", &unnamed.to_string()[7..]));
    write(&draft, "part");
    write(&blobs.dir().join("notes.txt"), "not ours");
    let done = collect(&home, MONTH, LATER);
    let expected = [
        Removed {
            what: Garbage::Draft,
            path: draft,
            freed: 4,
        },
        Removed {
            what: Garbage::Blob(unnamed),
            path: blobs.path(&unnamed),
            freed: 7,
        },
    ];
    assert_eq!(done.removed, expected);
    // The base whose own session is gone is cut as well.
    let cut: u64 = done.pruned.iter().map(|one| one.was - one.is).sum();
    assert_eq!((done.freed - cut, done.kept), (11, Vec::new()));
    for id in named.iter().chain([&young]) {
        blobs.get(id).unwrap();
    }
    assert!(blobs.dir().join("notes.txt").exists());
    // With the last one that names it, it goes.
    let done = collect(&home, 0, LATER + DAY);
    let gone = [&BlobId::of(b"in the trash"), &young];
    let gone: BTreeSet<_> = gone
        .into_iter()
        .map(|id| format!("{:?}", Garbage::Blob(*id)))
        .collect();
    let removed = removed(&done)
        .into_iter()
        .skip(1)
        .map(|what| format!("{what:?}"));
    assert_eq!(removed.collect::<BTreeSet<_>>(), gone);
}

#[test]
fn a_file_that_cannot_be_read_keeps_all_blobs() {
    let home = Home::ours();
    let store = home.store(Container::Zstd);
    let blobs = store.blobs();
    let id = blobs.put(b"unnamed", NOW).unwrap();
    let mut bytes = file_bytes(Container::Zstd, &header("demo"), &[&events(4), &events(4)]);
    let last = bytes.len() - 20;
    bytes[last] ^= 1;
    let path = home.put_log("demo", Container::Zstd, bytes);
    let done = collect(&home, 0, LATER);
    assert_eq!(done.removed, []);
    let [Kept { path: kept, reason }] = &done.kept[..] else {
        panic!("{done:?}");
    };
    assert_eq!(kept, blobs.dir());
    let start = format!(
        "all blobs are kept, because it is not known which ones `{}` names: ",
        path.display()
    );
    assert!(reason.starts_with(&start), "{reason}");
    blobs.get(&id).unwrap();
    fs::remove_dir_all(home.dir("demo")).unwrap();
    let done = collect(&home, 0, LATER);
    assert_eq!(removed(&done), [Garbage::Blob(id)]);
}

#[test]
fn a_blob_that_is_stored_again_is_as_good_as_new() {
    let home = Home::ours();
    let blobs = home.store(Container::Zstd).blobs();
    let id = blobs.put(b"x", NOW).unwrap();
    blobs.put(b"x", LATER - DAY + 1).unwrap();
    assert_eq!(collect(&home, 0, LATER), Collected::default());
    let done = collect(&home, 0, LATER + 1);
    assert_eq!(removed(&done), [Garbage::Blob(id)]);
}

#[test]
fn where_there_is_nothing_there_is_nothing_to_collect_or_to_count() {
    let home = Home::new();
    let nothing = Collected {
        scope: Scope::Trash,
        ..Collected::default()
    };
    assert_eq!(collect(&home, 0, LATER), nothing);
    let store = home.store(Container::Zstd);
    assert_eq!(store.usage(), Usage::default());
    let missing = store.usage_of(&["demo".into()]).unwrap_err();
    assert_eq!(missing.code(), "SESSION_NOT_FOUND");
    assert!(home.tree().is_empty());
}

#[test]
fn what_cannot_be_removed_is_said_and_stops_nothing_else() {
    let home = Home::ours();
    put_trashed(&home, "a", NOW);
    put_trashed(&home, "b", NOW + 1);
    let disk = FaultyDisk::new(Fault::Once, 0);
    let store = JsonlStore::on(home.root(), Container::Zstd, disk);
    let done = store.collect(0, Collecting::Remove, LATER).unwrap();
    assert_eq!(removed(&done), [session("a", NOW)]);
    assert_eq!(done.kept.len(), 1);
    assert!(done.kept[0].reason.contains("the disk is broken"));
    assert_eq!(removed(&collect(&home, 0, LATER)), [session("b", NOW + 1)]);
}

#[test]
fn a_directory_in_which_no_session_was_created_goes_after_a_day_unless_it_is_locked() {
    let home = Home::ours();
    put(&home, "demo");
    for (id, names) in [
        ("locked", &["session.lock"][..]),
        ("husk", &["session.lock"]),
        ("fork", &["session.lock", "base-0.jsonl.zstd"]),
        ("unlocked", &["base-0.jsonl.zstd"]),
        ("somebodys", &["session.lock", "notes"]),
        ("streaming", &["session.lock", "attempt.journal"]),
    ] {
        for name in names {
            home.put(format!("{PROJECT}/{id}/{name}"), "");
        }
    }
    let held = File::open(home.dir("locked").join("session.lock")).unwrap();
    held.lock().unwrap();
    // In the time of the file system.
    let changed = fs::metadata(home.dir("husk")).unwrap().mtime() * 1_000;
    assert_eq!(collect(&home, 0, changed + DAY - 1), Collected::default());
    let mut left = home.tree();
    let done = collect(&home, 0, LATER);
    let gone = |what: Garbage, path: PathBuf| Removed {
        what,
        path,
        freed: 0,
    };
    let base = |id: &str| home.dir(id).join("base-0.jsonl.zstd");
    let expected = [
        gone(Garbage::Base, base("fork")),
        gone(Garbage::Directory, home.dir("fork")),
        gone(Garbage::Directory, home.dir("husk")),
        gone(Garbage::Base, base("unlocked")),
        gone(Garbage::Directory, home.dir("unlocked")),
    ];
    assert_eq!((done.removed, done.kept), (expected.to_vec(), Vec::new()));
    left.retain(|name, _| {
        !["/fork/", "/husk/", "/unlocked/"]
            .iter()
            .any(|dir| name.contains(dir))
    });
    assert_eq!(home.tree(), left);
    drop(held);
    let done = collect(&home, 0, LATER);
    assert_eq!(removed(&done), [Garbage::Directory]);
}
