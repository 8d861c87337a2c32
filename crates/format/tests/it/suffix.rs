//! The end of a log alone is the end of the log.

use offshoot_format::{Container, FormatError, StoredSession, Suffix, decode_suffix};
use offshoot_session::LogOffset;

use crate::support::{
    BOTH, FIXTURES, V0, either, file, fixture, frames, packed, refused, row, stored,
};

#[track_caller]
fn suffix(container: Container, bytes: &[u8], from: u64) -> Suffix {
    decode_suffix(container, bytes, LogOffset::new(from)).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn check(whole: &StoredSession, found: &Suffix, from: u64) {
    let tail: Vec<&str> = whole
        .log
        .events()
        .skip(usize::try_from(from).unwrap())
        .map(|event| event.text())
        .collect();
    let events: Vec<&str> = found.events.iter().map(|event| event.text()).collect();
    assert_eq!(events, tail, "from {from}");
    assert_eq!(found.header, whole.header);
    assert_eq!(found.status, whole.status());
    assert_eq!(found.tail, whole.tail, "from {from}");
}

#[test]
fn from_every_event_it_is_what_the_whole_file_ends_in() {
    for (name, text) in FIXTURES.iter().chain([&("v0", V0)]) {
        for container in BOTH {
            let bytes = either(container, text);
            let whole = stored(container, &bytes);
            for from in 0..=whole.log.end().get() + 2 {
                let found = suffix(container, &bytes, from);
                assert_eq!(found.tail, whole.tail, "{name}");
                check(&whole, &found, from);
            }
        }
    }
}

#[test]
fn a_torn_tail_is_told_as_the_whole_file_tells_it() {
    let text = fixture("two-calls");
    for container in BOTH {
        let bytes = packed(container, text, 4);
        for cut in (0..bytes.len()).step_by(31) {
            let bytes = &bytes[..cut];
            for from in [0, 2, 8, 9, 17, 20, 40] {
                match decode_suffix(container, bytes, LogOffset::new(from)) {
                    Ok(found) => check(&stored(container, bytes), &found, from),
                    Err(error) => assert_eq!(
                        error.to_string(),
                        refused(container, bytes).to_string(),
                        "cut at {cut}"
                    ),
                }
            }
        }
    }
}

#[test]
fn damage_behind_the_first_event_that_is_read_is_the_damage_of_the_whole_file() {
    let text = fixture("two-calls");
    let spoil = |line: usize, with: &str| -> String {
        let lines = text.split_inclusive('\n').enumerate();
        lines
            .map(|(at, old)| if at + 1 == line { with } else { old })
            .collect()
    };
    let unknown = row("gadget/blinked", 10, "{}") + "\n";
    for with in ["no row\n", "", &unknown, "\u{0}\n"] {
        let damaged = spoil(12, with);
        for container in BOTH {
            let bytes = packed(container, &damaged, 4);
            let expected = refused(container, &bytes);
            for from in 0..=10 {
                let found = decode_suffix(container, &bytes, LogOffset::new(from)).unwrap_err();
                assert_eq!(found.to_string(), expected.to_string());
                assert_eq!(found.place(), expected.place());
            }
        }
    }
    let (bytes, places) = frames(text, 4);
    for frame in 1..places.len() {
        let mut bytes = bytes.clone();
        bytes[places[frame].end - 1] ^= 1;
        let found = decode_suffix(Container::Zstd, &bytes, LogOffset::new(20)).unwrap_err();
        let FormatError::CorruptFrame { byte, .. } = found else {
            panic!("{found:?}");
        };
        assert_eq!(byte, places[frame].start as u64, "also ahead of it");
    }
}

#[test]
fn a_row_ahead_of_it_is_counted_and_not_looked_at() {
    let rows: Vec<String> = (0..6)
        .map(|seq| row("feedback/record", seq, r#"{"text":"good"}"#))
        .collect();
    let mut rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    rows[1] = "no row";
    let bytes = file(&rows);
    for from in 3..=6 {
        let found = suffix(Container::Raw, bytes.as_bytes(), from);
        let seqs: Vec<u64> = found.events.iter().map(|event| event.seq().get()).collect();
        assert_eq!(seqs, (from..6).collect::<Vec<_>>());
        assert_eq!(found.tail, None);
    }
    // Except for the last one: what follows something that is no event is none either.
    let found = suffix(Container::Raw, bytes.as_bytes(), 2);
    assert_eq!(found.events.len(), 0);
    assert_eq!(found.tail.unwrap().place.line, 3);
    // A row that is missing is one too few.
    rows.remove(1);
    let bytes = file(&rows);
    let found = suffix(Container::Raw, bytes.as_bytes(), 3);
    assert_eq!(found.events.len(), 0);
    assert_eq!(found.tail.unwrap().reason, "expected seq 1, found 2");
}

#[test]
fn a_frame_without_end_ends_the_log_and_what_is_behind_it_only_witnesses() {
    let (bytes, places) = frames(fixture("two-calls"), 1);
    for frame in [3, 6, 19, 22] {
        for at in places[frame].start + 6..places[frame].start + 12 {
            let mut bytes = bytes.clone();
            bytes[at] = 1;
            let whole = offshoot_format::decode_as(Container::Zstd, &bytes);
            match (
                decode_suffix(Container::Zstd, &bytes, LogOffset::START),
                whole,
            ) {
                (Ok(found), Ok(whole)) => check(&whole, &found, 0),
                (Err(found), Err(whole)) => assert_eq!(found.to_string(), whole.to_string()),
                (found, whole) => panic!("byte {at}: {found:?}, but {whole:?}"),
            }
        }
    }
}

#[test]
fn an_older_file_is_read_as_a_whole() {
    let damaged = V0.replacen("request/header", "request/headers", 1);
    let expected = refused(Container::Raw, damaged.as_bytes());
    let found = decode_suffix(Container::Raw, damaged.as_bytes(), LogOffset::new(9));
    assert_eq!(found.unwrap_err().to_string(), expected.to_string());
}
