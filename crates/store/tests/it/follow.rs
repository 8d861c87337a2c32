//! Following a session that somebody else writes: every event once, in order, whatever happens to the file meanwhile.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use offshoot_format::Container;
use offshoot_session::{Event, LogOffset, Seq};
use offshoot_store::{Follower, JsonlStore, News, Notice, Persistence as _, StoreError, WITNESS};

use crate::faulty::{Fault, FaultyDisk};
use crate::hooked::HookedDisk;
use crate::support::{BOTH, Home, NOW, event, events, file_bytes, header, texts};
use crate::writing::Writing;

pub(crate) fn follow(store: &JsonlStore) -> Follower {
    store.follow(&"demo".into(), LogOffset::START)
}

#[track_caller]
pub(crate) fn poll(follower: &mut Follower) -> News {
    follower.poll().unwrap_or_else(|error| panic!("{error}"))
}

/// Polls, and nothing but these events has happened.
#[track_caller]
pub(crate) fn expect(follower: &mut Follower, events: &[Arc<Event>]) {
    let news = poll(follower);
    assert_eq!(news.notices, []);
    assert_eq!(texts(&news.events), texts(events));
}

#[track_caller]
pub(crate) fn quiet(follower: &mut Follower) {
    let read = follower.bytes_read();
    assert_eq!(poll(follower), News::default());
    assert_eq!(follower.bytes_read(), read, "nothing was read");
}

pub(crate) fn add(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

pub(crate) fn cut(path: &Path, length: usize) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(length as u64).unwrap();
}

pub(crate) fn batch(container: Container, events: &[Arc<Event>]) -> Vec<u8> {
    container.batch(events.iter().map(|event| &**event))
}

/// Steps of a disk: the first and last ones, where most happens, and some of the many bytes in between.
fn sampled(first: u64, end: u64) -> impl Iterator<Item = u64> {
    (first..end).filter(move |step| step - first < 4 || end - step < 8 || step % 9 == 0)
}

#[test]
fn what_is_there_comes_first_and_then_what_is_appended() {
    let all = events(16);
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let mut writer = store.create(&header("demo")).unwrap();
        writer.append(&all[..5]).unwrap();
        let id = "demo".into();
        let mut whole = follow(&store);
        let mut later = store.follow(&id, LogOffset::new(3));
        let mut latest = store.follow(&id, LogOffset::new(9));
        expect(&mut whole, &all[..5]);
        expect(&mut later, &all[3..5]);
        expect(&mut latest, &[]);
        quiet(&mut whole);
        writer.append(&all[5..7]).unwrap();
        writer.append(&all[7..11]).unwrap();
        expect(&mut whole, &all[5..11]);
        expect(&mut later, &all[5..11]);
        expect(&mut latest, &all[9..11]);
        quiet(&mut latest);
        writer.append(&all[11..]).unwrap();
        for follower in [&mut whole, &mut later, &mut latest] {
            expect(follower, &all[11..]);
            quiet(follower);
            assert!(follower.log().events().eq(all.iter()));
            assert_eq!(follower.header(), Some(&header("demo")));
            assert_eq!(
                (follower.version(), follower.inherited()),
                (Some(4), LogOffset::START)
            );
            assert_eq!(follower.path(), Some(&*home.log("demo", container)));
        }
    }
}

#[test]
fn a_poll_costs_what_was_added_however_long_the_log_is() {
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let mut writing = Writing::create(&store);
        writing.append(4_000);
        let mut follower = follow(&store);
        assert_eq!(poll(&mut follower).events.len(), 4_000);
        let path = home.log("demo", container);
        let size = || fs::metadata(&path).unwrap().len();
        let (start, at_first) = (size(), follower.bytes_read());
        assert_eq!(at_first, start, "the whole file, once");
        let polls = 50;
        for _ in 0..polls {
            writing.append(2);
            assert_eq!(poll(&mut follower).events.len(), 2);
            quiet(&mut follower);
        }
        let read = follower.bytes_read() - at_first;
        let added = size() - start;
        assert!(
            read <= added + polls * WITNESS as u64,
            "{read} bytes for {added}"
        );
    }
}

#[test]
fn a_batch_that_is_being_written_waits_for_the_end_of_its_pieces() {
    let all = events(8);
    for container in BOTH {
        let home = Home::new();
        let path = home.put_log(
            "demo",
            container,
            file_bytes(container, &header("demo"), &[&all[..5]]),
        );
        let mut follower = follow(&home.store(container));
        expect(&mut follower, &all[..5]);
        let batch = batch(container, &all[5..]);
        let mut handed = Vec::new();
        for (at, byte) in batch.iter().enumerate() {
            add(&path, &[*byte]);
            let news = poll(&mut follower);
            assert_eq!(news.notices, []);
            handed.extend(news.events);
            let whole = match container {
                Container::Raw => batch[..=at].iter().filter(|&&byte| byte == b'\n').count(),
                Container::Zstd => 3 * usize::from(at + 1 == batch.len()),
            };
            assert_eq!(texts(&handed), texts(&all[5..5 + whole]), "byte {at}");
        }
    }
}

#[test]
fn an_append_that_fails_between_polls_leaves_no_trace_in_what_is_handed_out() {
    for container in BOTH {
        // Which steps of the disk the second batch takes: looking at the size, each byte, and the sync.
        let sound = FaultyDisk::sound();
        let home = Home::new();
        let store = JsonlStore::on(home.root(), container, sound.clone());
        let mut writing = Writing::create(&store);
        writing.append(3);
        let first = sound.steps();
        writing.append(2);
        for step in sampled(first, sound.steps()) {
            let home = Home::new();
            let disk = FaultyDisk::new(Fault::Once, step);
            let store = JsonlStore::on(home.root(), container, disk);
            let mut writing = Writing::create(&store);
            writing.append(3);
            let mut follower = follow(&store);
            assert_eq!(poll(&mut follower).events.len(), 3);
            let events = writing.next(2);
            let error = writing.store(&events).unwrap_err();
            assert_eq!(error.code(), "IO_ERROR", "step {step}: {error}");
            assert_eq!(poll(&mut follower), News::default(), "step {step}");
            writing.store(&events).unwrap();
            expect(&mut follower, &events);
        }
    }
}

#[test]
fn an_append_that_could_not_be_taken_back_is_waited_for_until_the_session_is_opened_anew() {
    for container in BOTH {
        let sound = FaultyDisk::sound();
        let home = Home::new();
        let store = JsonlStore::on(home.root(), container, sound.clone());
        let mut writing = Writing::create(&store);
        writing.append(3);
        let first = sound.steps();
        writing.append(2);
        for step in sampled(first + 1, sound.steps()) {
            let home = Home::new();
            let disk = FaultyDisk::new(Fault::Forever, step);
            let store = JsonlStore::on(home.root(), container, disk);
            let mut writing = Writing::create(&store);
            writing.append(3);
            let mut follower = follow(&store);
            let mut handed = poll(&mut follower).events;
            let events = writing.next(2);
            let error = writing.store(&events).unwrap_err();
            assert_eq!(error.code(), "WRITER_POISONED", "step {step}: {error}");
            let news = poll(&mut follower);
            assert_eq!(news.notices, [], "step {step}");
            handed.extend(news.events);
            let opened = home.store(container).open(&"demo".into(), NOW).unwrap();
            let news = poll(&mut follower);
            handed.extend(news.events);
            assert_eq!(
                texts(&handed),
                texts(opened.session.log().events()),
                "step {step}"
            );
        }
    }
}

#[test]
fn events_that_were_read_before_their_sync_failed_are_taken_back() {
    let all = events(9);
    let other = event(
        r#"{"type":"request/context","seq":5,"time":999,"data":{"provider":"acme","model":"acme-large","contextWindow":64000}}"#,
    );
    for container in BOTH {
        let home = Home::new();
        let disk = HookedDisk::new();
        let store = JsonlStore::on(home.root(), container, disk.clone());
        let mut writer = store.create(&header("demo")).unwrap();
        writer.append(&all[..5]).unwrap();
        let mut follower = follow(&store);
        let mut silent = follow(&store);
        let mut late = store.follow(&"demo".into(), LogOffset::new(6));
        expect(&mut follower, &all[..5]);
        expect(&mut silent, &all[..5]);
        expect(&mut late, &[]);
        // The bytes are there, and then the sync fails.
        let mut seen = Vec::new();
        disk.at_next_sync(
            || {
                seen.extend(poll(&mut follower).events);
                expect(&mut late, &all[6..7]);
                false
            },
            || writer.append(&all[5..7]).unwrap_err(),
        );
        assert_eq!(texts(&seen), texts(&all[5..7]));
        let taken = |from, count| Notice::TakenBack {
            from: Seq::new(from),
            count,
        };
        let news = poll(&mut follower);
        assert_eq!((news.notices, news.events), (vec![taken(5, 2)], vec![]));
        let news = poll(&mut late);
        assert_eq!((news.notices, news.events), (vec![taken(6, 1)], vec![]));
        assert_eq!(follower.log().end(), LogOffset::new(5));
        // What has their seqs later is new.
        writer.append(&[Arc::clone(&other)]).unwrap();
        expect(&mut follower, &[Arc::clone(&other)]);
        expect(&mut silent, &[Arc::clone(&other)]);
        expect(&mut late, &[]);
        quiet(&mut follower);
    }
}

#[test]
fn events_that_were_taken_back_and_replaced_between_two_polls_are_told_of_too() {
    let all = events(9);
    let other = event(
        r#"{"type":"request/context","seq":5,"time":999,"data":{"provider":"acme","model":"a-model-of-a-longer-name","contextWindow":64000}}"#,
    );
    for container in BOTH {
        let home = Home::new();
        let good = file_bytes(container, &header("demo"), &[&all[..5]]);
        let path = home.put_log("demo", container, &good);
        let mut follower = follow(&home.store(container));
        expect(&mut follower, &all[..5]);
        add(&path, &batch(container, &all[5..6]));
        expect(&mut follower, &all[5..6]);
        cut(&path, good.len());
        add(&path, &batch(container, &[Arc::clone(&other)]));
        let news = poll(&mut follower);
        assert_eq!(
            news.notices,
            [Notice::TakenBack {
                from: Seq::new(5),
                count: 1
            }]
        );
        assert_eq!(texts(&news.events), texts([&other]));
        quiet(&mut follower);
    }
}

#[test]
fn the_same_batch_written_again_is_not_handed_out_again() {
    let all = events(9);
    for container in BOTH {
        let home = Home::new();
        let good = file_bytes(container, &header("demo"), &[&all[..5]]);
        let path = home.put_log("demo", container, &good);
        let mut follower = follow(&home.store(container));
        expect(&mut follower, &all[..5]);
        add(&path, &batch(container, &all[5..7]));
        expect(&mut follower, &all[5..7]);
        cut(&path, good.len());
        add(&path, &batch(container, &all[5..9]));
        expect(&mut follower, &all[7..9]);
    }
}

#[test]
fn a_torn_end_is_waited_for_until_a_repair_cuts_it() {
    let all = events(9);
    for container in BOTH {
        let torn = batch(container, &all[5..]);
        // Of a frame without its checksum every record is saved, of a line without its end none.
        let torn = &torn[..torn.len() - 2];
        let home = Home::new();
        let store = home.store(container);
        let good = file_bytes(container, &header("demo"), &[&all[..5]]);
        let path = home.put_log("demo", container, [&good, torn].concat());
        let mut follower = follow(&store);
        let whole = match container {
            Container::Raw => 8,
            Container::Zstd => 5,
        };
        expect(&mut follower, &all[..whole]);
        quiet(&mut follower);
        let opened = store.open(&"demo".into(), NOW).unwrap();
        let news = poll(&mut follower);
        let marker = opened.session.log().end().last().unwrap();
        let bytes = opened.repair.unwrap().torn_bytes;
        assert_eq!(
            news.notices,
            [Notice::CutBack { bytes }, Notice::Repaired { marker }]
        );
        let handed: Vec<_> = all[..whole].iter().chain(&news.events).cloned().collect();
        assert_eq!(texts(&handed), texts(opened.session.log().events()));
        quiet(&mut follower);
        assert!(fs::metadata(&path).unwrap().len() > good.len() as u64);
    }
}

#[test]
fn a_frame_with_whole_records_that_is_repaired_through_a_note_is_handed_out_once() {
    let all = events(9);
    let container = Container::Zstd;
    let home = Home::new();
    let store = home.store(container);
    let good = file_bytes(container, &header("demo"), &[&all[..5]]);
    let whole = batch(container, &all[5..]);
    home.put_log(
        "demo",
        container,
        [&good, &whole[..whole.len() - 1]].concat(),
    );
    let mut follower = follow(&store);
    expect(&mut follower, &all[..5]);
    // Each step of the repair, as a crash there would leave it.
    let steps = FaultyDisk::sound();
    let copy = Home::new();
    copy.put_log(
        "demo",
        container,
        [&good, &whole[..whole.len() - 1]].concat(),
    );
    drop(
        JsonlStore::on(copy.root(), container, steps.clone())
            .open(&"demo".into(), NOW)
            .unwrap(),
    );
    let mut handed = all[..5].to_vec();
    for step in sampled(0, steps.steps()) {
        let disk = FaultyDisk::new(Fault::Forever, step);
        let broken = JsonlStore::on(home.root(), container, disk);
        let _ended_early = broken.open(&"demo".into(), NOW);
        let news = poll(&mut follower);
        handed.extend(news.events);
    }
    drop(store.open(&"demo".into(), NOW).unwrap());
    let news = poll(&mut follower);
    handed.extend(news.events);
    let stored = store.read(&"demo".into()).unwrap().stored;
    assert_eq!(texts(&handed), texts(stored.log.events()));
    quiet(&mut follower);
}

#[test]
fn a_line_that_is_no_row_is_waited_for_until_it_is_cut_or_proves_to_be_damage() {
    let all = events(16);
    for container in BOTH {
        let home = Home::new();
        let store = home.store(container);
        let good = file_bytes(container, &header("demo"), &[&all[..5]]);
        let garbage = match container {
            Container::Raw => b"no row\n".to_vec(),
            Container::Zstd => zstd_frame("no row\n"),
        };
        let path = home.put_log("demo", container, &good);
        let mut follower = follow(&store);
        expect(&mut follower, &all[..5]);
        add(&path, &garbage);
        expect(&mut follower, &[]);
        add(&path, &batch(container, &all[5..7]));
        expect(&mut follower, &[]);
        // Behind this nobody can say that it was never committed.
        add(&path, &batch(container, &all[15..]));
        let error = follower.poll().unwrap_err();
        let StoreError::Format { source, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(error.code(), "DAMAGED_LOG");
        let place = source.place().unwrap();
        assert_eq!((place.line, place.byte), (7, good.len() as u64));
        // Told once; and again when the file has changed.
        quiet(&mut follower);
        add(&path, &garbage);
        assert_eq!(follower.poll().unwrap_err().code(), "DAMAGED_LOG");
        // Somebody restores it.
        cut(&path, good.len());
        add(&path, &batch(container, &all[5..7]));
        expect(&mut follower, &all[5..7]);
    }
}

pub(crate) fn zstd_frame(text: &str) -> Vec<u8> {
    let mut compressor = zstd::bulk::Compressor::new(3).unwrap();
    compressor.include_checksum(true).unwrap();
    compressor.compress(text.as_bytes()).unwrap()
}

#[test]
fn a_whole_row_that_breaks_a_rule_is_damage_at_once() {
    let all = events(8);
    let bad = event(r#"{"type":"turn/start","seq":8,"time":100,"data":{"turn":7}}"#);
    for container in BOTH {
        let home = Home::new();
        let good = file_bytes(container, &header("demo"), &[&all]);
        let path = home.put_log("demo", container, &good);
        let mut follower = follow(&home.store(container));
        expect(&mut follower, &all);
        add(&path, &batch(container, std::slice::from_ref(&bad)));
        let error = follower.poll().unwrap_err();
        assert_eq!(error.code(), "DAMAGED_LOG");
        let read = home.store(container).read(&"demo".into()).unwrap_err();
        assert_eq!(error.to_string(), read.to_string());
        quiet(&mut follower);
    }
}
