//! The index: it saves reading what has not changed, and whatever is wrong with it costs time alone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use offshoot_format::Container;
use offshoot_session::{LogOffset, Seq};
use offshoot_store::{JsonlStore, Persistence as _, Query, Status, Summary};

use crate::faulty::{Fault, FaultyDisk};
use crate::many::put_many;
use crate::older::{V3, put};
use crate::support::{BOTH, Home, TWO_CALLS, event, events, file_bytes, header, write};

/// Long after everything that a test does.
const LATER: i64 = 9_000_000_000_000;

/// A home with sessions, and a cache folder beside it.
struct Bench {
    home: Home,
    cache: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self {
            home: Home::new(),
            cache: tempfile::tempdir().unwrap(),
        }
    }

    /// As a new process finds it.
    fn store(&self) -> JsonlStore {
        self.home
            .store(Container::Zstd)
            .with_cache(self.cache.path())
    }

    fn put(&self, id: &str, len: usize) {
        let bytes = file_bytes(Container::Zstd, &header(id), &[&events(len)]);
        self.home.put_log(id, Container::Zstd, bytes);
    }

    /// What a new process lists without reading bodies: id, and how many events, or the status.
    fn listed(&self) -> Vec<String> {
        known(&self.store())
    }

    /// Lists and reads everything.
    fn fill(&self) {
        fill(&self.store());
    }

    /// The file of the index; there is one home in this cache.
    fn index(&self) -> PathBuf {
        let dirs = fs::read_dir(self.cache.path()).unwrap();
        let dirs: Vec<PathBuf> = dirs.map(|dir| dir.unwrap().path()).collect();
        assert_eq!(dirs.len(), 1, "{dirs:?}");
        dirs[0].join("index.v2.jsonl")
    }
}

fn later() -> Query {
    Query {
        now: LATER,
        ..Query::default()
    }
}

fn known(store: &JsonlStore) -> Vec<String> {
    let rows = store.list(&later()).unwrap().rows;
    let mut told: Vec<String> = rows
        .iter()
        .map(|row| match row.summary() {
            Some(summary) => format!("{} {}", row.id, summary.events),
            None => format!("{} {}", row.id, row.status().as_str()),
        })
        .collect();
    told.sort();
    told
}

fn fill(store: &JsonlStore) {
    let filled = store.list_filled(&later(), u64::MAX).unwrap();
    assert_eq!(filled.unread, 0);
}

fn note(title: &str) -> Summary {
    Summary {
        version: 4,
        events: LogOffset::new(77),
        turns: 9,
        title: Some(title.to_owned()),
        last_activity: Some(-5),
        cut: Some(Seq::new(3)),
        boundary: None,
        side: true,
        open_turn: None,
        torn: None,
        findings: Vec::new(),
    }
}

#[test]
fn what_was_read_once_is_known_to_the_next_process_until_the_file_changes() {
    let bench = Bench::new();
    bench.put("a", 16);
    bench.put("b", 9);
    assert_eq!(bench.listed(), ["a unknown", "b unknown"]);
    bench.fill();
    assert_eq!(bench.listed(), ["a 16", "b 9"]);
    bench.put("b", 16);
    assert_eq!(bench.listed(), ["a 16", "b unknown"]);
    bench.fill();
    assert_eq!(bench.listed(), ["a 16", "b 16"]);
}

#[test]
fn a_damaged_body_is_remembered_with_its_reason() {
    let bench = Bench::new();
    let text = file_bytes(Container::Raw, &header("bad"), &[&events(16)]);
    let text = String::from_utf8(text).unwrap();
    let text = text.replacen(r#""seq":3"#, r#""seq":4"#, 1);
    bench.home.put_log("bad", Container::Raw, text);
    bench.fill();
    let rows = bench.store().list(&later()).unwrap().rows;
    let fault = rows[0].body.as_ref().unwrap().as_ref().unwrap_err();
    assert_eq!(
        (fault.status, &*fault.code),
        (Status::Damaged, "DAMAGED_LOG")
    );
    let read = bench.store().read(&"bad".into()).unwrap_err();
    assert_eq!(fault.reason, read.to_string());
}

#[test]
fn what_changed_within_a_tick_of_the_clock_is_not_trusted_the_next_time() {
    let bench = Bench::new();
    bench.put("demo", 16);
    let meta = fs::metadata(bench.home.log("demo", Container::Zstd)).unwrap();
    let changed = meta.ctime() * 1_000 + meta.ctime_nsec() / 1_000_000;
    for (now, expected) in [
        (0, "demo unknown"),
        (changed, "demo unknown"),
        (changed - 60_000, "demo unknown"),
        (changed + 1_999, "demo unknown"),
        (changed + 2_001, "demo 16"),
    ] {
        let query = Query {
            now,
            ..Query::default()
        };
        let filled = bench.store().list_filled(&query, u64::MAX).unwrap();
        assert_eq!(filled.page.rows[0].status(), Status::Ok, "it is told");
        assert_eq!(bench.listed(), [expected], "{now}");
    }
}

#[test]
fn a_directory_that_changed_within_a_tick_is_looked_into_again() {
    let bench = Bench::new();
    bench.put("demo", 16);
    let young = Query::default();
    assert_eq!(bench.store().list(&young).unwrap().rows.len(), 1);
    assert!(
        fs::read_dir(bench.cache.path()).unwrap().next().is_none(),
        "nothing is remembered of what is so young"
    );
}

#[test]
fn a_file_whose_time_was_set_back_is_read_again() {
    let bench = Bench::new();
    bench.put("demo", 9);
    bench.fill();
    let path = bench.home.log("demo", Container::Zstd);
    let (before, size) = (
        fs::metadata(&path).unwrap().modified().unwrap(),
        fs::metadata(&path).unwrap().len(),
    );
    write(&path, vec![0; usize::try_from(size).unwrap()]);
    let file = fs::File::options().append(true).open(&path).unwrap();
    file.set_modified(before).unwrap();
    assert_eq!(bench.listed(), ["demo damaged"]);
}

#[test]
fn sessions_that_come_go_or_change_their_shape_are_seen() {
    let bench = Bench::new();
    for id in ["a", "b", "c"] {
        bench.put(id, 16);
    }
    bench.fill();
    fs::remove_dir_all(bench.home.dir("a")).unwrap();
    let raw = file_bytes(Container::Raw, &header("b"), &[]);
    bench.home.put_log("b", Container::Raw, raw);
    bench
        .home
        .put("--work-demo--/c/session.v9.jsonl", "of another program");
    bench.put("d", 3);
    let expected = ["b damaged", "c unsupported", "d unknown"];
    assert_eq!(bench.listed(), expected);
    assert_eq!(bench.listed(), expected);
    fs::remove_file(bench.home.log("b", Container::Raw)).unwrap();
    fs::remove_file(bench.home.dir("c").join("session.v9.jsonl")).unwrap();
    assert_eq!(bench.listed(), ["b unknown", "c unknown", "d unknown"]);
    bench.fill();
    assert_eq!(bench.listed(), ["b 16", "c 16", "d 3"]);
}

#[test]
fn a_writer_that_knows_its_log_saves_the_next_list_from_reading_it() {
    let bench = Bench::new();
    let store = bench.store();
    let mut writer = store.create(&header("demo")).unwrap();
    writer.append(&events(16)).unwrap();
    store.note_summary(&"demo".into(), &note("as noted"));
    drop(writer);
    for store in [store, bench.store()] {
        let rows = store.list(&Query::default()).unwrap().rows;
        assert_eq!(rows[0].summary(), Some(&note("as noted")));
    }
    let mut writer = bench.store().open(&"demo".into(), 5_000).unwrap().writer;
    writer.flush().unwrap();
    assert_eq!(bench.listed(), ["demo unknown"]);
    // Nobody is listed who is not there.
    bench.store().note_summary(&"nobody".into(), &note("x"));
    assert_eq!(bench.listed(), ["demo unknown"]);
}

#[test]
fn nothing_is_taken_from_the_index_while_a_repair_is_under_way() {
    let bench = Bench::new();
    bench.put("demo", 16);
    bench.fill();
    for name in ["session.repair", "attempt.journal"] {
        let beside = bench.home.dir("demo").join(name);
        write(&beside, "something");
        assert_eq!(bench.listed(), ["demo unknown"], "{name}");
        bench.fill();
        bench
            .store()
            .note_summary(&"demo".into(), &note("not to be kept"));
        assert_eq!(bench.listed(), ["demo unknown"], "{name}");
        fs::remove_file(beside).unwrap();
        assert_eq!(bench.listed(), ["demo 16"], "{name}");
    }
}

#[test]
fn what_an_older_session_says_is_known_only_while_its_children_are_what_they_were() {
    let bench = Bench::new();
    put(&bench.home, "demo", 3, Container::Raw, V3);
    let kid = |mode: &str| {
        format!(
            "{{\"type\":\"session\",\"version\":3,\"id\":\"kid\",\"createdAt\":95,\"cwd\":\"/work/demo\",\"parentSession\":\"demo\",\"isSeeded\":false,\"origin\":\"subagent\",\"delegationDepth\":1}}\n\
             {{\"type\":\"subagent/descriptor\",\"seq\":0,\"time\":1,\"data\":{{\"version\":3,\"mode\":\"{mode}\"}}}}\n"
        )
    };
    bench.fill();
    let alone = bench.listed();
    assert_eq!(alone.len(), 1);
    put(&bench.home, "kid", 3, Container::Raw, &kid("one-shot"));
    assert_eq!(bench.listed(), ["demo unknown", "kid unknown"]);
    bench.fill();
    let both = bench.listed();
    assert_ne!(both[0], alone[0], "the child is in the parent's catalog");
    put(&bench.home, "kid", 3, Container::Raw, &kid("continuable"));
    assert_eq!(bench.listed(), ["demo unknown", "kid unknown"]);
    bench.fill();
    assert_eq!(bench.listed(), both);
}

#[test]
fn a_linked_fork_is_known_while_its_directory_is_what_it_was() {
    let bench = Bench {
        home: Home::ours(),
        cache: tempfile::tempdir().unwrap(),
    };
    let all = events(16);
    let bytes = file_bytes(Container::Zstd, &header("demo"), &[&all[..9], &all[9..]]);
    bench.home.put_log("demo", Container::Zstd, bytes);
    let store = bench.store();
    let source = store.read(&"demo".into()).unwrap();
    let seed = offshoot_session::build_fork_seed(&source.stored.log, Seq::new(15)).unwrap();
    let forked = header("demo").forked("child".into(), 2);
    let mut writer = store.fork(&forked, &seed, &source.shareable).unwrap();
    writer.flush().unwrap();
    drop(writer);
    let base = bench.home.dir("child").join("base-0.jsonl.zstd");
    assert!(base.is_file(), "it is linked");
    bench.fill();
    assert_eq!(bench.listed(), ["child 17", "demo 16"]);
    fs::remove_file(base).unwrap();
    for _ in 0..2 {
        assert_eq!(bench.listed(), ["child unknown", "demo 16"]);
        let page = bench.store().list_filled(&Query::default(), u64::MAX);
        let statuses: Vec<_> = page
            .unwrap()
            .page
            .rows
            .iter()
            .map(|row| row.status())
            .collect();
        assert!(statuses.contains(&Status::Damaged), "{statuses:?}");
    }
}

#[test]
fn a_cut_or_changed_index_says_what_is_true_or_nothing() {
    let bench = Bench::new();
    bench.put("a", 16);
    bench.put("b", 9);
    bench.fill();
    let index = bench.index();
    let whole = fs::read(&index).unwrap();
    let truths = [["a 16", "a unknown"], ["b 9", "b unknown"]];
    let check = |bytes: &[u8], what: &str| {
        write(&index, bytes);
        let listed = bench.listed();
        assert_eq!(listed.len(), 2, "{what}");
        for (listed, truths) in listed.iter().zip(truths) {
            assert!(truths.contains(&&**listed), "{what}: {listed}");
        }
    };
    for at in 0..whole.len() {
        check(&whole[..at], &format!("cut at {at}"));
    }
    for at in (0..whole.len()).step_by(5) {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        check(&changed, &format!("changed at {at}"));
        check(&whole[at..], &format!("without the first {at}"));
    }
    // An append behind a line that was cut off is a line of its own.
    write(&index, &whole[..whole.len() - 9]);
    bench.fill();
    assert_eq!(bench.listed(), ["a 16", "b 9"]);
}

#[test]
fn what_an_earlier_version_wrote_is_not_kept() {
    let bench = Bench::new();
    bench.put("a", 16);
    bench.fill();
    let old = bench.index().with_file_name("index.v1.jsonl");
    write(&old, fs::read(bench.index()).unwrap());
    fs::remove_file(bench.index()).unwrap();
    assert_eq!(bench.listed(), ["a unknown"]);
    bench.fill();
    assert_eq!(bench.listed(), ["a 16"]);
    assert!(!old.exists());
}

#[test]
fn whatever_lies_where_the_index_belongs_is_no_error() {
    let other_version = |bench: &Bench| {
        bench.fill();
        let text = fs::read_to_string(bench.index()).unwrap();
        let text = text.replacen("\"offshoot-index\":2", "\"offshoot-index\":3", 1);
        write(&bench.index(), text);
    };
    let a_directory = |bench: &Bench| {
        bench.fill();
        fs::remove_file(bench.index()).unwrap();
        fs::create_dir(bench.index()).unwrap();
    };
    let a_file_for_a_folder = |bench: &Bench| {
        fs::remove_dir(bench.cache.path()).unwrap();
        write(bench.cache.path(), "no folder");
    };
    let a_deleted_folder = |bench: &Bench| {
        bench.fill();
        fs::remove_dir_all(bench.cache.path()).unwrap();
    };
    let noise = |bench: &Bench| {
        bench.fill();
        write(&bench.index(), [0xFF, 0, b'\n', b'{']);
    };
    type Case<'a> = (&'a str, &'a dyn Fn(&Bench), bool);
    let cases: [Case<'_>; 5] = [
        ("another version", &other_version, true),
        ("a directory", &a_directory, false),
        ("a file", &a_file_for_a_folder, false),
        ("nothing", &a_deleted_folder, true),
        ("noise", &noise, true),
    ];
    for (name, spoil, heals) in cases {
        let bench = Bench::new();
        bench.put("a", 16);
        spoil(&bench);
        assert_eq!(bench.listed(), ["a unknown"], "{name}");
        bench.fill();
        let expected = if heals { "a 16" } else { "a unknown" };
        assert_eq!(bench.listed(), [expected], "{name}");
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_no_error_at_any_step() {
    let steps = |fault, at| {
        let bench = Bench::new();
        bench.put("a", 16);
        bench.put("b", 9);
        let disk = FaultyDisk::new(fault, at);
        let store = JsonlStore::on(bench.home.root(), Container::Zstd, disk.clone());
        let store = store.with_cache(bench.cache.path());
        fill(&store);
        assert_eq!(known(&store), ["a 16", "b 9"], "in memory it is known");
        bench.put("b", 16);
        fill(&store);
        assert_eq!(known(&store), ["a 16", "b 16"]);
        for line in bench.listed() {
            let truths = ["a 16", "a unknown", "b 16", "b unknown"];
            assert!(truths.contains(&&*line), "step {at}: {line}");
        }
        bench.fill();
        assert_eq!(bench.listed(), ["a 16", "b 16"], "step {at}");
        disk.steps()
    };
    let all = steps(Fault::Once, u64::MAX);
    assert!(all > 1_000, "each byte is a step: {all}");
    // Every operation, and some of the bytes.
    for at in (0..12).chain((12..all).step_by(41)).chain(all - 5..all) {
        steps(Fault::Once, at);
        steps(Fault::Forever, at);
    }
}

#[test]
fn processes_that_share_a_cache_lose_rows_at_most() {
    let bench = Bench::new();
    put_many(&bench.home.root(), Container::Raw, 0..40);
    std::thread::scope(|scope| {
        for n in 0..6 {
            let bench = &bench;
            scope.spawn(move || {
                for round in 0..10 {
                    bench
                        .store()
                        .list_filled(&later(), 400 * (n + round))
                        .unwrap();
                }
            });
        }
    });
    bench.fill();
    let listed = bench.listed();
    assert_eq!(listed.len(), 40);
    for line in listed {
        assert!(line.ends_with(" 17"), "{line}");
    }
}

#[test]
fn two_processes_that_read_different_sessions_keep_the_rows_of_both() {
    let bench = Bench::new();
    bench.put("a", 16);
    bench.put("b", 9);
    drop(known(&bench.store()));
    let (one, other) = (bench.store(), bench.store());
    let mut of_one = one.list(&later()).unwrap().rows;
    let mut of_other = other.list(&later()).unwrap().rows;
    of_one.retain(|row| row.id.as_str() == "a");
    of_other.retain(|row| row.id.as_str() == "b");
    one.fill(&mut of_one, u64::MAX);
    other.fill(&mut of_other, u64::MAX);
    assert_eq!(bench.listed(), ["a 16", "b 9"]);
}

#[test]
fn an_index_does_not_grow_beyond_what_it_holds() {
    let bench = Bench::new();
    bench.put("still", 16);
    let all: Vec<_> = TWO_CALLS.lines().map(event).collect();
    let store = bench.store();
    let mut longest = 0;
    for round in 0..400 {
        let bytes = file_bytes(Container::Raw, &header("busy"), &[&all[..round % 16]]);
        bench.home.put_log("busy", Container::Raw, bytes);
        fill(&store);
        let lines = fs::read_to_string(bench.index()).unwrap().lines().count();
        longest = longest.max(lines);
    }
    // Blank lines count too: each append begins with one.
    assert!((200..500).contains(&longest), "{longest}");
    assert_eq!(bench.listed(), ["busy 15", "still 16"]);
    let names = fs::read_dir(bench.index().parent().unwrap()).unwrap();
    assert_eq!(names.count(), 1, "no temporary file is left");
}

#[test]
fn a_temporary_file_of_a_killed_process_is_removed() {
    let bench = Bench::new();
    bench.put("a", 16);
    bench.fill();
    let leftover = bench.index().with_extension("jsonl.00000001.tmp");
    write(&leftover, "half");
    write(&bench.index(), "no index");
    bench.fill();
    assert!(!leftover.exists());
    assert_eq!(bench.listed(), ["a 16"]);
}

#[test]
fn homes_have_an_index_each() {
    let (one, other) = (Bench::new(), Bench::new());
    one.put("a", 16);
    other.put("a", 9);
    let cache = one.cache.path();
    let at = |bench: &Bench| bench.home.store(Container::Zstd).with_cache(cache);
    fill(&at(&one));
    fill(&at(&other));
    assert_eq!(known(&at(&one)), ["a 16"]);
    assert_eq!(known(&at(&other)), ["a 9"]);
    assert_eq!(fs::read_dir(cache).unwrap().count(), 2);
}

#[test]
fn a_cache_is_for_its_owner_alone_and_never_below_the_sessions() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = Bench::new();
    bench.put("a", 16);
    bench.fill();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&bench.index()), 0o600);
    assert_eq!(mode(bench.index().parent().unwrap()), 0o700);
    let before = bench.home.tree();
    let inside = bench.home.root().join("cache");
    let store = bench.home.store(Container::Zstd).with_cache(&inside);
    fill(&store);
    assert_eq!(known(&store), ["a unknown"]);
    assert_eq!(bench.home.tree(), before);
}

#[test]
fn a_reader_changes_neither_a_byte_nor_a_time_of_a_home() {
    for container in BOTH {
        let bench = Bench::new();
        bench.put("a", 16);
        let torn = file_bytes(container, &header("b"), &[&events(9)]);
        bench.home.put_log("b", container, &torn[..torn.len() - 9]);
        bench.home.put_log("c", container, "");
        put(&bench.home, "old", 3, container, V3);
        let before = (bench.home.tree(), times(&bench.home));
        for _ in 0..2 {
            let text = Query {
                text: Some("x".into()),
                ..later()
            };
            let store = bench.store();
            store.list(&later()).unwrap();
            store.list_filled(&text, u64::MAX).unwrap();
        }
        assert_eq!((bench.home.tree(), times(&bench.home)), before);
    }
}

fn times(home: &Home) -> BTreeMap<String, (SystemTime, i64, i64)> {
    let root = home.root().parent().unwrap().to_owned();
    let names = home.tree().into_keys();
    let times = names.map(|name| {
        let meta = fs::metadata(root.join(&name)).unwrap();
        let times = (meta.modified().unwrap(), meta.ctime(), meta.ctime_nsec());
        (name, times)
    });
    times.collect()
}

#[test]
fn threads_that_list_with_one_store_see_the_same() {
    let bench = Bench::new();
    put_many(&bench.home.root(), Container::Raw, 0..60);
    let store = Arc::new(bench.store());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let store = Arc::clone(&store);
            scope.spawn(move || fill(&store));
        }
    });
    let known = known(&store);
    assert_eq!(known.len(), 60);
    assert!(known.iter().all(|line| line.ends_with(" 17")), "{known:?}");
    assert_eq!(bench.listed(), known);
}
