//! What forks use of a session that is gone for good, and that nothing else of it can be read.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use offshoot_format::Container;
use offshoot_session::{Seq, build_fork_seed};
use offshoot_store::{Collected, Collecting, Garbage, JsonlStore, Persistence as _, Pruned};

use crate::collect::{BRANCH, DAY, MONTH, collect, removed, session};
use crate::faulty::{Fault, FaultyDisk};
use crate::support::{Home, NOW, events, file_bytes, header, texts, write};
use crate::trash::LATER;

/// Forks a stored session.
pub(crate) fn fork(home: &Home, id: &str, parent: &str, cut: u64) -> Vec<String> {
    let store = home.store(Container::Zstd);
    let source = store.read(&parent.into()).unwrap();
    let seed = build_fork_seed(&source.stored.log, Seq::new(cut)).unwrap();
    let header = header(parent).forked(id.into(), 2);
    drop(store.fork(&header, &seed, &source.shareable).unwrap());
    read(home, id)
}

fn read(home: &Home, id: &str) -> Vec<String> {
    let read = home.store(Container::Zstd).read(&id.into()).unwrap();
    texts(read.stored.log.events())
}

/// A home of our own with the session `demo`, in frames that end behind these events.
fn home_with(ends: &[usize]) -> Home {
    let home = Home::ours();
    let all = events(16);
    let mut start = 0;
    let batches: Vec<_> = ends
        .iter()
        .map(|end| &all[std::mem::replace(&mut start, *end)..*end])
        .collect();
    let bytes = file_bytes(Container::Zstd, &header("demo"), &batches);
    home.put_log("demo", Container::Zstd, bytes);
    home
}

/// Everything that can be read in the home: every file as it is, and unpacked.
fn words(home: &Home) -> String {
    let mut words = String::new();
    for bytes in home.tree().into_values() {
        words.push_str(&String::from_utf8_lossy(&bytes));
        let mut unpacked = Vec::new();
        if let Ok(mut decoder) = zstd::Decoder::new(&bytes[..]) {
            // Of what is no frame nothing comes.
            let _as_far_as_it_goes = decoder.read_to_end(&mut unpacked);
        }
        words.push_str(&String::from_utf8_lossy(&unpacked));
    }
    words
}

/// How many of the source's events can be read anywhere in the home, from the first on.
fn readable(home: &Home) -> usize {
    let words = words(home);
    let all = texts(&events(16));
    let readable: Vec<_> = all.iter().map(|row| words.contains(row)).collect();
    let count = readable.iter().filter(|found| **found).count();
    assert!(readable[..count].iter().all(|found| *found));
    count
}

pub(crate) fn base(home: &Home, id: &str) -> PathBuf {
    home.dir(id).join("base-0.jsonl.zstd")
}

#[test]
fn nothing_of_a_deleted_session_beyond_the_largest_cut_in_use_is_readable_after_collecting() {
    let home = home_with(&[3, 9, 11, 14, 16]);
    let expected: BTreeMap<_, _> = [("early", 4), ("late", 10)]
        .map(|(id, cut)| (id, fork(&home, id, "demo", cut)))
        .into();
    // A fork of a fork has the same file as its base.
    let nested = fork(&home, "nested", "late", 9);
    let was = fs::metadata(base(&home, "late")).unwrap();
    assert_eq!((was.nlink(), readable(&home)), (4, 16));
    // A reader that has opened it, and a backup that has linked it, keep what they have.
    let mut reader = File::open(base(&home, "early")).unwrap();
    let backup = home.root().with_file_name("backup");
    fs::hard_link(base(&home, "early"), &backup).unwrap();

    // While it is there or can be restored it is whole.
    assert_eq!(collect(&home, MONTH, LATER), Collected::default());
    let store = home.store(Container::Zstd);
    store.delete(&"demo".into(), LATER).unwrap();
    assert_eq!(collect(&home, MONTH, LATER), Collected::default());
    assert_eq!(fs::metadata(base(&home, "late")).unwrap().ino(), was.ino());

    let done = collect(&home, MONTH, LATER + 31 * DAY);
    assert_eq!(removed(&done), [session("demo", LATER)]);
    let is = fs::metadata(base(&home, "late")).unwrap();
    let bases = ["early", "late", "nested"].map(|id| base(&home, id));
    let pruned = Pruned {
        bases: bases.to_vec(),
        was: was.len(),
        is: is.len(),
    };
    assert_eq!(done.pruned, [pruned]);
    // The backup has the file still; only the note is gone.
    assert!(done.freed < 100, "{done:?}");
    for path in &bases {
        let meta = fs::metadata(path).unwrap();
        assert_eq!((meta.ino(), meta.nlink()), (is.ino(), 3));
    }
    assert!(is.len() < was.len());
    let mut whole = Vec::new();
    reader.read_to_end(&mut whole).unwrap();
    assert_eq!(
        (whole.len() as u64, fs::metadata(&backup).unwrap().len()),
        (was.len(), was.len())
    );
    fs::remove_file(backup).unwrap();
    assert_eq!(readable(&home), 11);
    for (id, rows) in expected.iter().chain([(&"nested", &nested)]) {
        assert_eq!(read(&home, id), *rows);
        drop(store.open(&(*id).into(), NOW).unwrap());
    }
    assert_eq!(collect(&home, 0, LATER + 32 * DAY), Collected::default());

    // With the latest fork its part goes too, once that is gone for good.
    let all = read(&home, "early");
    for id in ["late", "nested"] {
        store.delete(&id.into(), LATER).unwrap();
    }
    assert_eq!(collect(&home, MONTH, LATER + DAY), Collected::default());
    assert_eq!(readable(&home), 11);
    let done = collect(&home, 0, LATER + 32 * DAY);
    assert_eq!(
        removed(&done),
        [session("nested", LATER), session("late", LATER)]
    );
    assert_eq!(readable(&home), 5);
    assert_eq!(read(&home, "early"), all);
    store.delete(&"early".into(), LATER).unwrap();
    collect(&home, 0, LATER + 32 * DAY);
    assert_eq!(readable(&home), 0);
}

#[test]
fn what_comes_free_is_what_nobody_else_holds() {
    let home = home_with(&[3, 9, 16]);
    fork(&home, "child", "demo", 4);
    let len = fs::metadata(home.log("demo", Container::Zstd))
        .unwrap()
        .len();
    home.store(Container::Zstd)
        .delete(&"demo".into(), LATER)
        .unwrap();
    let note = fs::metadata(
        home.root()
            .with_file_name("trash")
            .join(format!("{LATER}-0/trash.json")),
    );
    let done = collect(&home, 0, LATER);
    let is = fs::metadata(base(&home, "child")).unwrap().len();
    assert_eq!(done.freed, note.unwrap().len() + len - is);
}

#[test]
fn a_crash_while_bases_are_cut_is_finished_by_the_next_collection() {
    for fault in [Fault::Once, Fault::Forever] {
        for step in 0.. {
            let home = home_with(&[3, 9, 11, 14, 16]);
            let ids = ["early", "late"];
            let expected =
                [("early", 4), ("late", 10)].map(|(id, cut)| fork(&home, id, "demo", cut));
            home.store(Container::Zstd)
                .delete(&"demo".into(), NOW)
                .unwrap();
            let disk = FaultyDisk::coarse(fault, step);
            let store = JsonlStore::on(home.root(), Container::Zstd, disk.clone());
            let done = store.collect(0, Collecting::Remove, LATER).unwrap();
            assert_eq!(ids.map(|id| read(&home, id)), expected, "step {step}");
            // What was left out is said; a crashed process cannot say it.
            let complete = readable(&home) == 11;
            assert!(complete || !done.kept.is_empty(), "step {step}: {done:?}");
            let store = home.store(Container::Zstd);
            let again = store
                .collect(0, Collecting::Remove, LATER + 2 * DAY)
                .unwrap();
            assert_eq!(again.kept, [], "step {step}");
            assert_eq!(readable(&home), 11, "step {step}");
            assert_eq!(ids.map(|id| read(&home, id)), expected, "step {step}");
            let drafts = home
                .tree()
                .into_keys()
                .filter(|name| name.ends_with(".tmp"));
            assert_eq!(drafts.count(), 0, "step {step}");
            if disk.steps() <= step {
                assert!(step > 15, "only {step} steps");
                break;
            }
        }
    }
}

#[test]
fn bases_of_which_it_is_not_known_how_much_counts_are_not_cut() {
    let home = home_with(&[3, 9, 16]);
    fork(&home, "good", "demo", 4);
    fork(&home, "bad", "demo", 4);
    write(&home.dir("bad").join(BRANCH), "no branch");
    fs::remove_dir_all(home.dir("demo")).unwrap();
    let done = collect(&home, 0, LATER);
    assert_eq!((done.pruned, done.removed), (Vec::new(), Vec::new()));
    assert_eq!(done.kept[0].path, home.dir("bad"));
    assert_eq!(readable(&home), 16);
    // Once it is gone, the other one is cut.
    fs::remove_dir_all(home.dir("bad")).unwrap();
    let done = collect(&home, 0, LATER);
    assert_eq!(done.pruned.len(), 1);
    assert_eq!(readable(&home), 5);
}

#[test]
fn bases_of_a_fork_that_was_never_finished_go_after_a_day() {
    let home = home_with(&[3, 9, 16]);
    fork(&home, "child", "demo", 4);
    fork(&home, "cut-off", "demo", 4);
    fs::remove_file(home.dir("cut-off").join(BRANCH)).unwrap();
    fs::remove_dir_all(home.dir("demo")).unwrap();
    let made = fs::metadata(home.dir("cut-off")).unwrap().mtime() * 1_000;
    let young = collect(&home, 0, made + DAY - 1);
    assert_eq!(young, Collected::default());
    let done = collect(&home, 0, LATER);
    assert_eq!(removed(&done), [Garbage::Base, Garbage::Directory]);
    assert_eq!(done.removed[0].path, base(&home, "cut-off"));
    assert_eq!((done.pruned.len(), readable(&home)), (1, 5));
}

#[test]
fn a_draft_that_is_somebody_elses_is_not_taken_for_our_own() {
    let home = home_with(&[3, 9, 16]);
    let expected = fork(&home, "child", "demo", 4);
    home.store(Container::Zstd)
        .delete(&"demo".into(), NOW)
        .unwrap();
    // A process in another container has the same number.
    let name = format!("base-0.jsonl.zstd.{:08x}ffff.tmp", std::process::id());
    let theirs = home.dir("child").join(name);
    write(&theirs, "theirs");
    let now = fs::metadata(&theirs).unwrap().mtime() * 1_000 + 2_000;
    let store = home.store(Container::Zstd);
    let done = store.collect(0, Collecting::Remove, now).unwrap();
    assert_eq!((done.pruned.len(), done.kept), (1, Vec::new()));
    assert_eq!(fs::read(theirs).unwrap(), b"theirs");
    assert_eq!(read(&home, "child"), expected);
}
