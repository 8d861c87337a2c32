//! Forks whose beginning is damaged: what is saved of them, and what can still be seen.

use std::fs;
use std::path::{Path, PathBuf};

use offshoot_format::Container;
use offshoot_store::{JsonlStore, Persistence as _, Remains, Salvaged, salvage_into};

use crate::linked::{BRANCH, fork, home_with, read, source_bytes, turn_start};
use crate::support::{Home, NOW, write};

/// What was saved: its rows that are the damaged session's, and where the loss begins.
#[derive(Debug, PartialEq, Eq)]
struct Saved {
    rows: Vec<String>,
    /// File, line, seq and byte.
    place: (PathBuf, u64, u64, u64),
    /// Rows and bytes.
    lost: (u64, u64),
    reason: String,
}

fn salvage(store: &JsonlStore, file: &Path) -> Saved {
    let salvaged = salvage_into(store, file, "saved".into(), NOW).unwrap();
    let rows = read(store, "saved");
    store.delete(&"saved".into(), NOW).unwrap();
    let Salvaged {
        loss,
        loss_in,
        saved,
        ..
    } = salvaged;
    let loss = loss.unwrap();
    let saved = usize::try_from(saved).unwrap();
    Saved {
        rows: rows[..saved].to_vec(),
        place: (
            loss_in,
            loss.place.line,
            loss.place.seq.get(),
            loss.place.byte,
        ),
        lost: (loss.rows, loss.bytes),
        reason: loss.reason,
    }
}

/// The rows that can be seen of a file, without the header, and the number of pieces that cannot.
fn seen(file: &Path) -> (Vec<String>, usize) {
    let bytes = fs::read(file).unwrap();
    let remains = Remains::of_file(file, &bytes);
    let (lines, faults): (Vec<_>, Vec<_>) = remains.lines().partition(Result::is_ok);
    let lines = lines.into_iter().map(|line| line.unwrap().text.to_vec());
    let rows = lines.skip(1).map(|line| String::from_utf8(line).unwrap());
    (rows.collect(), faults.len())
}

fn len(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

/// The source as somebody's copy, so that the base can be damaged alone.
fn part(home: &Home, id: &str, index: usize, bytes: Option<&[u8]>) -> PathBuf {
    let path = home.dir(id).join(format!("base-{index}.jsonl.zstd"));
    fs::remove_file(&path).unwrap();
    if let Some(bytes) = bytes {
        write(&path, bytes);
    }
    path
}

/// What a branch has behind its first frame.
fn own_len(home: &Home, id: &str) -> u64 {
    let bytes = fs::read(home.dir(id).join(BRANCH)).unwrap();
    let header = match offshoot_format::scan_frame(&bytes).unwrap() {
        offshoot_format::FrameScan::Complete(length) => length,
        offshoot_format::FrameScan::Incomplete => panic!("no header"),
    };
    (bytes.len() - header) as u64
}

#[test]
fn a_damaged_frame_of_a_base_costs_what_stands_from_there_on_and_hides_nothing_else() {
    let home = home_with(&[3, 9, 11, 16]);
    let store = home.store(Container::Zstd);
    let rows = fork(&store, "child", "demo", 12);
    let file = home.dir("child").join(BRANCH);
    let whole = fs::read(home.log("demo", Container::Zstd)).unwrap();
    for (ahead, next, sound, line) in [(0, 3, 0, 2), (3, 9, 3, 5), (9, 11, 9, 11)] {
        let at =
            source_bytes(&[3, 9, 11, 16][..[0, 3, 9].iter().position(|n| *n == ahead).unwrap()])
                .len();
        let mut bytes = whole.clone();
        bytes[at + 20] ^= 1;
        let base = part(&home, "child", 0, Some(&bytes));
        let refused = store.read(&"child".into()).unwrap_err();
        assert_eq!(refused.code(), "BASE_DAMAGED");

        let mut visible = rows.clone();
        visible.drain(ahead..next);
        assert_eq!(seen(&file), (visible, 1), "{ahead}");
        if sound == 0 {
            let refused = salvage_into(&store, &file, "saved".into(), NOW).unwrap_err();
            assert_eq!(refused.code(), "NOTHING_SOUND");
            let place = format!("line 2 of `{}`: ", base.display());
            assert!(refused.to_string().contains(&place), "{refused}");
            continue;
        }
        let shared = source_bytes(&[3, 9, 11]).len() as u64;
        let saved = salvage(&store, &file);
        assert_eq!(saved.rows, rows[..sound]);
        assert_eq!(saved.place, (base, line, sound as u64, at as u64));
        let lost = (rows.len() - next) as u64;
        let bytes = shared - at as u64 + own_len(&home, "child");
        assert_eq!(saved.lost, (lost, bytes));
        assert!(saved.reason.contains("does not decompress"), "{saved:?}");
    }
    assert_eq!(read(&store, "demo").len(), 16);
}

#[test]
fn a_base_that_is_gone_or_too_short_costs_what_stands_behind_its_end() {
    let home = home_with(&[3, 9, 16]);
    let store = home.store(Container::Zstd);
    fork(&store, "a", "demo", 11);
    let mut opened = store.open(&"a".into(), NOW).unwrap();
    let next = turn_start(opened.session.log());
    opened.writer.append(&[next]).unwrap();
    let late = opened.session.log().end().get();
    drop(opened);
    let rows = fork(&store, "b", "a", late);
    let file = home.dir("b").join(BRANCH);
    let base_1 = home.dir("b").join("base-1.jsonl.zstd");
    let middle = fs::read(&base_1).unwrap();
    // One more row than the base has is the branch's own: the marker and what closes the turn.
    let own = rows.len() - usize::try_from(late + 1).unwrap();

    let gone = part(&home, "b", 1, None);
    let visible = [&rows[..9], &rows[rows.len() - own..]].concat();
    assert_eq!(seen(&file), (visible, 1));
    let saved = salvage(&store, &file);
    assert_eq!(saved.rows, rows[..9]);
    assert_eq!(saved.place, (gone, 1, 9, 0));
    assert_eq!(saved.lost, (own as u64, own_len(&home, "b")));
    let reason = "its base `base-1.jsonl.zstd` cannot be used: it is not there";
    assert_eq!(saved.reason, reason);

    write(&base_1, &middle);
    store.read(&"b".into()).unwrap();
    // At the end of a frame, and in the middle of the next one.
    let first = source_bytes(&[3]).len();
    let base = part(&home, "b", 0, Some(&source_bytes(&[3])));
    let visible = [&rows[..3], &rows[9..]].concat();
    assert_eq!(seen(&file), (visible.clone(), 1));
    let saved = salvage(&store, &file);
    assert_eq!(saved.rows, rows[..3]);
    assert_eq!(saved.place, (base.clone(), 5, 3, first as u64));
    assert_eq!(saved.lost.0, (rows.len() - 9) as u64);
    assert!(saved.reason.contains("it is shorter than"), "{saved:?}");

    part(&home, "b", 0, Some(&source_bytes(&[3, 9])[..first + 20]));
    assert_eq!(seen(&file), (visible, 1));
    let saved = salvage(&store, &file);
    assert_eq!(saved.rows, rows[..3]);
    assert_eq!(saved.place, (base.clone(), 5, 3, first as u64));
    assert_eq!(saved.reason, "the frame was cut off");

    // Nothing but a piece of its header.
    part(&home, "b", 0, Some(&source_bytes(&[])[..9]));
    assert_eq!(seen(&file), (rows[9..].to_vec(), 1));
    let refused = salvage_into(&store, &file, "saved".into(), NOW).unwrap_err();
    assert_eq!(refused.code(), "NOTHING_SOUND");
    assert_eq!(len(&base), 9);
}

#[test]
fn damage_in_the_last_part_of_a_fork_is_told_with_its_place_there() {
    let home = home_with(&[3, 9, 16]);
    let store = home.store(Container::Zstd);
    let rows = fork(&store, "child", "demo", 11);
    let file = home.dir("child").join(BRANCH);
    let mut bytes = fs::read(&file).unwrap();
    let start = bytes.len() - usize::try_from(own_len(&home, "child")).unwrap();
    bytes[start + 20] ^= 1;
    write(&file, &bytes);
    let saved = salvage(&store, &file);
    assert_eq!(saved.rows, rows[..9]);
    assert_eq!(saved.place, (file.clone(), 2, 9, start as u64));
    assert_eq!(seen(&file), (rows[..9].to_vec(), 1));
}

#[test]
fn a_base_with_other_rows_that_fit_is_saved_and_said_to_be_another() {
    let home = home_with(&[3, 9, 16]);
    let store = home.store(Container::Zstd);
    let rows = fork(&store, "child", "demo", 8);
    let file = home.dir("child").join(BRANCH);
    let whole = fs::read(home.dir("child").join("base-0.jsonl.zstd")).unwrap();
    let header = source_bytes(&[]).len();
    let behind = source_bytes(&[3]).len();
    // A letter of a message is another one, and the frame has the checksum for it.
    let text = zstd::decode_all(&whole[header..behind]).unwrap();
    let text = String::from_utf8(text).unwrap();
    let other = ('a'..='z').find_map(|letter| {
        let frame = encode(
            text.replacen("Answer", &format!("A{letter}swer"), 1)
                .as_bytes(),
        );
        let other = [&whole[..header], &frame[..], &whole[behind..]].concat();
        (other != whole && other.len() == whole.len()).then_some(other)
    });
    let other = other.unwrap();
    part(&home, "child", 0, Some(&other));
    let salvaged = salvage_into(&store, &file, "saved".into(), NOW).unwrap();
    assert_eq!((salvaged.loss, salvaged.saved), (None, rows.len() as u64));
    let refused = store.read(&"child".into()).unwrap_err().to_string();
    assert_eq!(salvaged.refused, Some(refused));
    assert_eq!(read(&store, "saved").len(), rows.len() + 1);
}

/// A frame as the store packs it.
fn encode(text: &[u8]) -> Vec<u8> {
    let mut compressor = zstd::bulk::Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL).unwrap();
    compressor.include_checksum(true).unwrap();
    compressor.compress(text).unwrap()
}
