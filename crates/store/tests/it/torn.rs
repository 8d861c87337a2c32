//! Logs that a crash cut off: at each byte, every whole record is kept and the turn is closed.

use std::fs;
use std::sync::Arc;

use offshoot_format::Container;
use offshoot_session::{Event, EventLog, LogOffset};
use offshoot_store::{JsonlStore, Persistence as _, Repair};

use crate::faulty::FaultyDisk;
use crate::support::{BOTH, Home, NOW, events, file_bytes, header, log, texts};

/// The rows that opening a log of these events at [`NOW`] leads to.
fn expected(whole: &[Arc<Event>]) -> (Vec<String>, Vec<Arc<Event>>) {
    let mut log: EventLog = log(whole);
    let closers: Vec<_> = log
        .interrupted_closers()
        .into_iter()
        .map(Arc::new)
        .collect();
    for closer in &closers {
        log.push(Arc::clone(closer)).unwrap();
    }
    let mut rows = texts(log.events());
    let seq = rows.len();
    rows.push(format!(
        r#"{{"type":"session/end-seed","seq":{seq},"time":{NOW},"data":{{}}}}"#
    ));
    (rows, closers)
}

#[test]
fn a_log_cut_off_at_any_byte_of_its_last_batch_keeps_every_whole_record() {
    let all = events(11);
    let (first, last) = all.split_at(6);
    for container in BOTH {
        let good = file_bytes(container, &header("demo"), &[first]);
        let whole = file_bytes(container, &header("demo"), &[first, last]);
        let home = Home::new();
        let store = JsonlStore::on(home.root(), container, FaultyDisk::sound());
        let mut kept_at = Vec::new();
        for len in good.len()..=whole.len() {
            let torn = &whole[..len];
            let path = home.put_log("demo", container, torn);
            let kept = match container {
                Container::Raw => torn.iter().filter(|&&byte| byte == b'\n').count() - 1,
                // One block: it decompresses when all of it is there, and only its checksum may be missing.
                Container::Zstd if len + 4 < whole.len() => 6,
                Container::Zstd => 11,
            };
            kept_at.push(kept);
            let (rows, closers) = expected(&all[..kept]);

            let before = home.tree();
            let read = store.read(&"demo".into()).unwrap();
            assert_eq!(
                texts(read.stored.log.events()),
                texts(&all[..kept]),
                "{len}"
            );
            assert_eq!(home.tree(), before);

            let opened = store.open(&"demo".into(), NOW).unwrap();
            assert_eq!(texts(opened.session.log().events()), rows, "{len}");
            let tail = read
                .stored
                .tail
                .map_or((0, 0), |tail| (tail.bytes, tail.recovered));
            assert_eq!(
                opened.repair,
                Some(Repair {
                    torn_bytes: tail.0,
                    recovered: tail.1,
                    closers,
                    ..Repair::default()
                })
            );
            drop(opened);
            let repaired = home.tree();
            assert!(!repaired.keys().any(|name| name.ends_with("session.repair")));
            let stored = store.read(&"demo".into()).unwrap().stored;
            assert_eq!((texts(stored.log.events()), stored.tail), (rows, None));

            // A log that ends in a marker gains nothing.
            let again = store.open(&"demo".into(), NOW + 1).unwrap();
            assert_eq!(again.repair, None);
            drop(again);
            assert_eq!(home.tree(), repaired);
            assert!(fs::read(&path).unwrap().starts_with(&good));
        }
        assert_eq!((kept_at[0], kept_at[kept_at.len() - 1]), (6, 11));
    }
}

#[test]
fn a_torn_frame_of_many_blocks_gives_back_the_records_that_are_whole() {
    let first = events(2);
    let big: Vec<_> = (0..40)
        .map(|n| {
            // Text that hardly packs, so that the frame has several blocks.
            let mut noise = String::new();
            let mut state = 0x9E37_79B9_u32.wrapping_mul(n + 1);
            for _ in 0..8 << 10 {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                noise.push(char::from(b'0' + u8::try_from(state % 75).unwrap()).to_ascii_lowercase());
            }
            let noise = noise.replace('\\', "-");
            crate::support::event(&format!(
                r#"{{"type":"note/kept","seq":{},"time":101,"data":{{"noise":"{noise}"}},"ignorable":true}}"#,
                n + 2
            ))
        })
        .collect();
    let good = file_bytes(Container::Zstd, &header("demo"), &[&first]);
    let whole = file_bytes(Container::Zstd, &header("demo"), &[&first, &big]);
    let home = Home::new();
    let store = JsonlStore::on(home.root(), Container::Zstd, FaultyDisk::sound());
    let mut recovered = Vec::new();
    for part in 1..8 {
        let len = good.len() + (whole.len() - good.len()) * part / 8;
        home.put_log("demo", Container::Zstd, &whole[..len]);
        let opened = store.open(&"demo".into(), NOW).unwrap();
        let repair = opened.repair.clone().unwrap();
        let saved = usize::try_from(repair.recovered).unwrap();
        recovered.push(saved);
        let kept: Vec<_> = first.iter().chain(&big[..saved]).cloned().collect();
        let (rows, closers) = expected(&kept);
        assert_eq!(texts(opened.session.log().events()), rows);
        assert_eq!(repair.closers, closers);
        assert_eq!(opened.writer.stored(), LogOffset::new(rows.len() as u64));
        drop(opened);
        let tail = container_of(&rows[first.len()..]);
        assert_eq!(
            fs::read(home.log("demo", Container::Zstd)).unwrap(),
            [good.clone(), tail].concat()
        );
    }
    // Blocks are 128 KiB, and each gives its records at once.
    assert!(
        recovered.is_sorted() && recovered[6] > recovered[3] && recovered[3] > 0,
        "{recovered:?}"
    );
}

fn container_of(rows: &[String]) -> Vec<u8> {
    let events: Vec<_> = rows.iter().map(|row| crate::support::event(row)).collect();
    Container::Zstd.batch(events.iter().map(|event| &**event))
}

#[test]
fn a_torn_tail_behind_a_marker_is_cut_and_nothing_is_added() {
    for container in BOTH {
        let mut all = events(16);
        all.push(crate::support::event(
            r#"{"type":"session/end-seed","seq":16,"time":200,"data":{}}"#,
        ));
        let good = file_bytes(container, &header("demo"), &[&all]);
        let next =
            crate::support::event(r#"{"type":"turn/start","seq":17,"time":300,"data":{"turn":2}}"#);
        let batch = container.batch([&*next]);
        let home = Home::new();
        let torn = [&good[..], &batch[..batch.len() / 2]].concat();
        let path = home.put_log("demo", container, torn);
        let opened = home.store(container).open(&"demo".into(), NOW).unwrap();
        assert_eq!(
            opened.repair,
            Some(Repair {
                torn_bytes: (batch.len() / 2) as u64,
                recovered: 0,
                closers: Vec::new(),
                ..Repair::default()
            })
        );
        assert_eq!(fs::read(path).unwrap(), good);
    }
}

#[test]
fn a_repair_note_that_no_longer_applies_is_dropped_and_never_applied() {
    let whole = events(16);
    let bytes = file_bytes(Container::Zstd, &header("demo"), &[&whole]);
    let note = {
        let mut note = b"offshoot-repair 1\n".to_vec();
        for number in [3_u64, 4, 5] {
            note.extend(number.to_le_bytes());
        }
        note.extend(b"tornbytes");
        note
    };
    for note in [&note[..], &note[..20], b"", b"something else"] {
        let home = Home::new();
        let path = home.put_log("demo", Container::Zstd, &bytes);
        let at = home.put("--work-demo--/demo/session.repair", note);
        let store = home.store(Container::Zstd);
        let before = home.tree();
        let read = store.read(&"demo".into()).unwrap();
        assert_eq!(texts(read.stored.log.events()), texts(&whole));
        assert_eq!(home.tree(), before);
        let opened = store.open(&"demo".into(), NOW).unwrap();
        assert_eq!(texts(opened.session.log().events()), expected(&whole).0);
        assert!(!at.exists());
        assert!(fs::read(path).unwrap().starts_with(&bytes));
    }
}
