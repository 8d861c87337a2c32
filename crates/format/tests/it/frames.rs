//! The compressed container: where frames end, and what is wrong with those that are wrong (§1.4).

use offshoot_format::{
    Container, FormatError, FrameScan, decode, looks_compressed, read_header, scan_frame,
};

use crate::support::{
    HEADER, first_lines, fixture, frame, frames, packed, refused, rows, stored, text_of,
};

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

fn header_frame() -> Vec<u8> {
    frame(format!("{HEADER}\n"))
}

fn corrupt(byte: usize, reason: &str) -> FormatError {
    FormatError::CorruptFrame {
        byte: byte as u64,
        reason: reason.to_owned(),
    }
}

/// A frame by hand: descriptor, the rest of the head, then blocks as (last, type, size, content).
fn by_hand(
    descriptor: u8,
    head: &[u8],
    blocks: &[(bool, u32, u32, &[u8])],
    behind: &[u8],
) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.push(descriptor);
    bytes.extend(head);
    for (last, kind, size, content) in blocks {
        let header = u32::from(*last) | kind << 1 | size << 3;
        bytes.extend(&header.to_le_bytes()[..3]);
        bytes.extend(*content);
    }
    bytes.extend(behind);
    bytes
}

#[test]
fn the_container_is_told_by_the_first_bytes() {
    assert_eq!(Container::detect(&header_frame()), Container::Zstd);
    assert_eq!(Container::detect(HEADER.as_bytes()), Container::Raw);
    assert_eq!(Container::detect(b""), Container::Raw);
    assert!(!looks_compressed(&MAGIC[..3]));
}

#[test]
fn every_form_of_frame_header_is_measured() {
    let block: (bool, u32, u32, &[u8]) = (true, 0, 2, b"{}");
    for (descriptor, head) in [
        (0x00, 1),     // a window
        (0x20, 1),     // a single segment
        (0x01, 1 + 1), // a dictionary id of one byte,
        (0x02, 1 + 2), // of two,
        (0x03, 1 + 4), // of four
        (0x40, 1 + 2), // a content size of two bytes,
        (0x80, 1 + 4), // of four,
        (0xc0, 1 + 8), // of eight
        (0xe3, 4 + 8), // most of it at once
    ] {
        for checksum in [0, 4] {
            let descriptor = descriptor | if checksum == 0 { 0 } else { 0x04 };
            let bytes = by_hand(descriptor, &vec![0; head], &[block], &vec![7; checksum]);
            assert_eq!(
                scan_frame(&bytes),
                Ok(FrameScan::Complete(bytes.len())),
                "{descriptor:#x}"
            );
            for len in 0..bytes.len() {
                assert_eq!(
                    scan_frame(&bytes[..len]),
                    Ok(FrameScan::Incomplete),
                    "{descriptor:#x}"
                );
            }
            let mut more = bytes.clone();
            more.extend(b"and more");
            assert_eq!(
                scan_frame(&more),
                Ok(FrameScan::Complete(bytes.len())),
                "{descriptor:#x}"
            );
        }
    }
}

#[test]
fn raw_repeated_and_empty_blocks_are_measured() {
    let bytes = by_hand(
        0x20,
        &[9],
        &[
            (false, 0, 4, b"abcd"),
            (false, 1, 5, b"x"),
            (false, 0, 0, b""),
            (true, 0, 0, b""),
        ],
        b"",
    );
    assert_eq!(scan_frame(&bytes), Ok(FrameScan::Complete(bytes.len())));
}

#[test]
fn what_no_frame_can_start_with_is_told_apart_from_a_torn_one() {
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0];
    for (bytes, reason) in [
        (&b"{"[..], "expected the start of a zstd frame"),
        (&MAGIC[1..], "expected the start of a zstd frame"),
        (&skippable, "expected the start of a zstd frame"),
        (
            &by_hand(0x08, &[], &[], b""),
            "the zstd frame header sets reserved bits",
        ),
        (
            &by_hand(0x10, &[], &[], b""),
            "the zstd frame header sets reserved bits",
        ),
        (
            &by_hand(0x20, &[0], &[(true, 3, 0, b"")], b""),
            "a zstd block has the reserved type",
        ),
        (
            &by_hand(0x20, &[0], &[(true, 0, (1 << 17) + 1, b"")], b""),
            "a zstd block is larger than 128 KiB",
        ),
    ] {
        assert_eq!(scan_frame(bytes), Err(reason));
    }
    let largest = by_hand(0x20, &[0], &[(true, 0, 1 << 17, b"")], b"");
    assert_eq!(scan_frame(&largest), Ok(FrameScan::Incomplete));
}

#[test]
fn empty_frames_and_frames_without_checksum_are_read() {
    let row = format!(
        "{}\n",
        crate::support::row("turn/start", 0, r#"{"turn":1}"#)
    );
    let mut bytes = header_frame();
    bytes.extend(frame(""));
    bytes.extend(zstd::bulk::compress(row.as_bytes(), 1).unwrap());
    bytes.extend(frame(""));
    let stored = decode(&bytes).unwrap();
    assert_eq!(rows(&stored.log), [row.trim_end()]);
    assert_eq!(stored.tail, None);
}

#[test]
fn the_first_frame_holds_exactly_the_header_line() {
    let row = crate::support::row("turn/start", 0, r#"{"turn":1}"#);
    for first in [
        format!("{HEADER}\n{row}\n"),
        format!("{HEADER}\n{row}"),
        format!("{HEADER}\n\n"),
        HEADER.to_owned(),
        String::new(),
    ] {
        assert_eq!(
            refused(Container::Zstd, &frame(&first)),
            corrupt(0, "the first frame must hold exactly the header line"),
            "{first}"
        );
    }
}

#[test]
fn a_whole_frame_that_ends_in_the_middle_of_a_line_is_damage() {
    let mut bytes = header_frame();
    let start = bytes.len();
    bytes.extend(frame(format!(
        "{}\n{{",
        crate::support::row("turn/start", 0, r#"{"turn":1}"#)
    )));
    assert_eq!(
        refused(Container::Zstd, &bytes),
        corrupt(start, "a whole frame ends in the middle of a line")
    );
}

#[test]
fn a_whole_frame_with_a_wrong_checksum_is_damage_also_at_the_end() {
    let (bytes, places) = frames(&first_lines("two-calls", 9), 4);
    for place in places {
        let mut bytes = bytes.clone();
        bytes[place.end - 1] ^= 1;
        assert_eq!(
            refused(Container::Zstd, &bytes),
            corrupt(
                place.start,
                "the zstd frame does not decompress: Restored data doesn't match checksum"
            )
        );
    }
}

#[test]
fn a_frame_that_needs_a_dictionary_is_damage() {
    let mut bytes = header_frame();
    let start = bytes.len();
    bytes.extend(by_hand(0x21, &[5, 2], &[(true, 0, 2, b"{}")], b""));
    assert_eq!(
        refused(Container::Zstd, &bytes),
        corrupt(
            start,
            "the zstd frame does not decompress: Dictionary mismatch"
        )
    );
}

#[test]
fn anything_but_a_frame_behind_the_last_one_is_damage() {
    let (bytes, _) = frames(&first_lines("two-calls", 9), 4);
    for garbage in [
        &b"\n"[..],
        b"{\"type\"",
        &[0; 4096],
        &[0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0],
    ] {
        let mut garbled = bytes.clone();
        garbled.extend(garbage);
        assert_eq!(
            refused(Container::Zstd, &garbled),
            corrupt(bytes.len(), "expected the start of a zstd frame")
        );
    }
}

/// The length in a block header of the frame at `start`, made so large that the frame seems to be cut off.
fn overlong(bytes: &[u8], start: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let head = match bytes[start + 4] >> 6 {
        0 => 1,
        1 => 2,
        _ => 4,
    };
    bytes[start + 5 + head + 2] |= 0x0f;
    bytes
}

#[test]
fn a_damaged_length_does_not_make_committed_turns_a_torn_tail() {
    let (bytes, places) = frames(fixture("two-calls"), 4);
    // The last `turn/end` is event 22, in the last frame; the one before it event 16.
    for (at, place) in places.iter().enumerate().skip(1).rev().skip(1) {
        let overlong = overlong(&bytes, place.start);
        assert_eq!(
            scan_frame(&overlong[place.start..]),
            Ok(FrameScan::Incomplete)
        );
        let error = refused(Container::Zstd, &overlong);
        let (line, witness) = (2 + 4 * (at - 1), if at <= 4 { 16 } else { 22 });
        assert_eq!(
            error.to_string(),
            format!(
                "line {line}: the frame was cut off; a later turn/end (event {witness}) shows that this was committed"
            )
        );
    }
    let last = places.last().unwrap();
    let torn = stored(Container::Zstd, &overlong(&bytes, last.start));
    assert_eq!(
        torn.tail.unwrap().keep,
        last.start as u64,
        "behind the last frame nothing says so"
    );
}

#[test]
fn a_damaged_length_in_the_header_does_not_make_a_file_empty() {
    let (bytes, _) = frames(fixture("two-calls"), 4);
    let overlong = overlong(&bytes, 0);
    let error = corrupt(0, "the first frame has no end, but whole frames follow");
    assert_eq!(refused(Container::Zstd, &overlong), error);
    assert_eq!(read_header(Container::Zstd, &overlong), Err(error));
}

#[test]
fn the_header_is_read_from_the_first_frame_or_line_alone() {
    let header = fixture("two-calls").lines().next().unwrap();
    let (mut bytes, places) = frames(fixture("two-calls"), 4);
    bytes[places[1].start + 9] ^= 0xff;
    assert_eq!(read_header(Container::Zstd, &bytes).unwrap(), header);
    let raw = fixture("two-calls").as_bytes();
    assert_eq!(read_header(Container::Raw, raw).unwrap(), header);
    assert_eq!(
        read_header(Container::Raw, &[raw, b"\xff\n"].concat()).unwrap(),
        header
    );

    for (container, torn) in [
        (Container::Raw, &raw[..20]),
        (Container::Zstd, &bytes[..20]),
    ] {
        let error = FormatError::Empty { bytes: 20 };
        assert_eq!(read_header(container, torn), Err(error.clone()));
        assert_eq!(refused(container, torn), error);
    }
}

#[test]
fn a_record_may_be_split_over_any_number_of_blocks() {
    let long = "x".repeat(1 << 20);
    let text = crate::support::file(&[&crate::support::row(
        "feedback/record",
        0,
        &format!(r#"{{"text":"{long}"}}"#),
    )]);
    let bytes = packed(Container::Zstd, &text, 1);
    assert_eq!(text_of(&decode(&bytes).unwrap()), text);
}
