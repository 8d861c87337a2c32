//! The lines of a file as they stand in it, whatever is wrong with it.

use offshoot_format::{Container, FormatError, StoredLine, stored_lines};

use crate::support::{BOTH, FIXTURES, fixture, frame, frames, packed};

/// Every line with its line feed if it has one, and every fault.
fn read(container: Container, bytes: &[u8]) -> (Vec<u8>, Vec<FormatError>) {
    let (mut text, mut faults) = (Vec::new(), Vec::new());
    for line in stored_lines(container, bytes) {
        match line {
            Ok(line) => {
                text.extend_from_slice(&line.text);
                if line.is_whole {
                    text.push(b'\n');
                }
            }
            Err(error) => faults.push(error),
        }
    }
    (text, faults)
}

#[test]
fn every_file_is_given_back_to_the_byte() {
    for (name, text) in FIXTURES {
        for container in BOTH {
            let bytes = packed(container, text, 2);
            assert_eq!(
                read(container, &bytes),
                (text.as_bytes().to_vec(), Vec::new()),
                "{name}"
            );
        }
    }
}

#[test]
fn every_line_says_where_it_stands() {
    let line = |line, byte: usize, text: &'static str, is_whole| {
        Ok(StoredLine {
            line,
            byte: byte as u64,
            text: text.as_bytes().into(),
            is_whole,
        })
    };
    let found: Vec<_> = stored_lines(Container::Raw, b"head\n\ntwo\nto").collect();
    assert_eq!(
        found,
        [
            line(1, 0, "head", true),
            line(2, 5, "", true),
            line(3, 6, "two", true),
            line(4, 10, "to", false),
        ]
    );
    let (bytes, places) = frames("head\none\ntwo\nthree\n", 2);
    let found: Vec<_> = stored_lines(Container::Zstd, &bytes).collect();
    assert_eq!(
        found,
        [
            line(1, 0, "head", true),
            line(2, places[1].start, "one", true),
            line(3, places[1].start, "two", true),
            line(4, places[2].start, "three", true),
        ]
    );
}

#[test]
fn nothing_has_no_lines_and_what_is_no_session_has_its_own() {
    for container in BOTH {
        assert_eq!(read(container, b""), (Vec::new(), Vec::new()));
    }
    let letter = b"Dear Anna,\n\xff\xfe";
    assert_eq!(read(Container::Raw, letter), (letter.to_vec(), Vec::new()));
}

#[test]
fn of_a_frame_that_was_cut_off_its_lines_are_read_as_far_as_they_go() {
    let text = fixture("two-calls");
    let (bytes, places) = frames(text, 100);
    let last = places.last().unwrap();
    for cut in last.clone() {
        let (read, faults) = read(Container::Zstd, &bytes[..cut]);
        assert!(text.as_bytes().starts_with(&read), "cut at {cut}");
        assert_eq!(faults, []);
    }
    // Without its checksum the whole text is there.
    let (read, _) = read(Container::Zstd, &bytes[..last.end - 2]);
    assert_eq!(read, text.as_bytes());
}

#[test]
fn a_damaged_frame_is_a_fault_in_its_place_and_the_lines_behind_it_follow() {
    let (bytes, places) = frames("head\none\ntwo\nthree\n", 1);
    let start = places[2].start;
    let mut checksum = bytes.clone();
    checksum[places[2].end - 1] ^= 1;
    let mut magic = bytes.clone();
    magic[start] ^= 1;
    let mut endless = bytes;
    // The block in it is larger than the file.
    endless[start + 7] = 0xff;
    for (bytes, reason) in [
        (checksum, Some("the zstd frame does not decompress")),
        (magic, Some("expected the start of a zstd frame")),
        (endless, None),
    ] {
        let (text, faults) = read(Container::Zstd, &bytes);
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("head\none\n"), "{text}");
        assert!(text.ends_with("three\n"), "{text}");
        match (faults.as_slice(), reason) {
            ([], None) => {}
            ([FormatError::CorruptFrame { byte, reason: said }], Some(reason)) => {
                assert_eq!(*byte, start as u64);
                assert!(said.starts_with(reason), "{said}");
            }
            (faults, _) => panic!("{reason:?}: {faults:?}"),
        }
    }
}

#[test]
fn a_raw_file_with_the_name_of_a_compressed_one_is_one_fault() {
    let (text, faults) = read(Container::Zstd, fixture("two-calls").as_bytes());
    assert_eq!((text.len(), faults.len()), (0, 1));
}

#[test]
fn a_whole_frame_that_ends_in_the_middle_of_a_line_ends_that_line() {
    let bytes = [frame("head\n"), frame("on"), frame("two\n")].concat();
    let found = stored_lines(Container::Zstd, &bytes).map(Result::unwrap);
    let found: Vec<_> = found
        .map(|line| (line.line, line.text.into_owned(), line.is_whole))
        .collect();
    let expected: [(u64, &[u8], bool); 3] =
        [(1, b"head", true), (2, b"on", false), (3, b"two", true)];
    assert_eq!(
        found,
        expected.map(|(line, text, is_whole)| (line, text.to_vec(), is_whole))
    );
}
