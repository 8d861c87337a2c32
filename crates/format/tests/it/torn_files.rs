//! A file cut off at any byte: what is left is a prefix, and cutting it to what is good and writing again what was saved
//! behind that gives the same log.

use offshoot_format::{Container, FormatError, StoredSession, TornTail, decode_as};
use offshoot_session::LogOffset;

use crate::support::{
    BOTH, FIXTURES, first_lines, fixture, frames, packed, rows, stored, whole_lines,
};

/// Does what a writer does on opening, and reads the result.
fn repaired(container: Container, torn: &StoredSession, bytes: &[u8]) -> StoredSession {
    let (keep, recovered) = match &torn.tail {
        None => (bytes.len() as u64, 0),
        Some(tail) => {
            assert_eq!(tail.bytes, bytes.len() as u64 - tail.keep);
            (tail.keep, tail.recovered)
        }
    };
    let durable = LogOffset::new(torn.log.end().get() - recovered);
    let closers = torn.closers();
    let saved = torn.log.events_from(durable).map(|event| &**event);
    let mut file = bytes[..keep as usize].to_vec();
    file.extend(container.batch(saved.chain(&closers)));
    stored(container, &file)
}

fn is_kept_whole(place: &str, container: Container, torn: &StoredSession, bytes: &[u8]) {
    let repaired = repaired(container, torn, bytes);
    let closers = torn.closers();
    let closers = closers.iter().map(|event| event.text());
    let expected: Vec<&str> = rows(&torn.log).into_iter().chain(closers).collect();
    assert_eq!(rows(&repaired.log), expected, "{place}");
    assert_eq!(
        (&repaired.tail, repaired.closers()),
        (&None, vec![]),
        "{place}"
    );
    assert_eq!(repaired.inherited, torn.inherited, "{place}");
}

/// Every length that a crash may leave; of a raw file those around the ends of lines, and a sample of the others.
fn cuts(container: Container, bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    (0..bytes.len()).filter(move |&cut| {
        let around = &bytes[cut.saturating_sub(2)..bytes.len().min(cut + 2)];
        container == Container::Zstd || cut % 31 == 0 || around.contains(&b'\n')
    })
}

#[test]
fn a_file_cut_anywhere_is_a_prefix_that_repair_keeps_whole() {
    for (name, text) in FIXTURES {
        let text = whole_lines(text);
        let whole: Vec<&str> = text.lines().skip(1).collect();
        for (container, batch) in [(BOTH[0], 1), (BOTH[1], 4), (BOTH[1], usize::MAX)] {
            let bytes = packed(container, text, batch);
            let mut last = None;
            for cut in cuts(container, &bytes) {
                let place = format!("{name}, {container:?} by {batch}, cut at {cut}");
                match decode_as(container, &bytes[..cut]) {
                    Ok(torn) => {
                        let left = rows(&torn.log);
                        assert_eq!(left, whole[..left.len()], "{place}");
                        let repair = (left.len(), torn.tail.as_ref().map(|tail| tail.keep));
                        if last.replace(repair) != Some(repair) {
                            is_kept_whole(&place, container, &torn, &bytes[..cut]);
                        }
                    }
                    Err(FormatError::Empty { bytes }) => assert_eq!(bytes, cut as u64, "{place}"),
                    // A fork that lost its marker does not say any more what it inherited.
                    Err(FormatError::Inconsistent { .. }) => {
                        assert!(text.contains(r#""isSeeded":true"#), "{place}");
                    }
                    Err(error) => panic!("{place}: {error}"),
                }
            }
        }
    }
}

#[test]
fn a_line_without_its_end_is_left_out_even_if_it_is_whole_otherwise() {
    let text = first_lines("two-calls", 17);
    let torn = stored(Container::Raw, text.trim_end().as_bytes());
    let keep = first_lines("two-calls", 16).len() as u64;
    assert_eq!(torn.log.end(), LogOffset::new(15));
    let tail = torn.tail.unwrap();
    assert_eq!(
        (tail.place.line, tail.place.seq.get(), tail.place.byte),
        (17, 15, keep)
    );
    assert_eq!((tail.keep, tail.recovered), (keep, 0));
    assert_eq!(tail.bytes, text.len() as u64 - 1 - keep);
    assert_eq!(tail.reason, "the line was cut off");
}

#[test]
fn a_frame_torn_only_in_its_checksum_gives_all_its_records() {
    let text = first_lines("two-calls", 9);
    let (bytes, places) = frames(&text, 4);
    let torn = stored(Container::Zstd, &bytes[..bytes.len() - 1]);
    assert_eq!(rows(&torn.log), text.lines().skip(1).collect::<Vec<_>>());
    let last = places[2].start as u64;
    let TornTail {
        place,
        reason,
        keep,
        recovered,
        bytes: size,
    } = torn.tail.unwrap();
    assert_eq!((place.line, place.seq.get(), place.byte), (10, 8, last));
    assert_eq!(reason, "the frame was cut off");
    assert_eq!((keep, recovered), (last, 4));
    assert_eq!(size, bytes.len() as u64 - 1 - last);
}

#[test]
fn a_frame_torn_in_its_head_gives_nothing() {
    let text = first_lines("two-calls", 9);
    let (bytes, places) = frames(&text, 4);
    for behind in 1..9 {
        let torn = stored(Container::Zstd, &bytes[..places[2].start + behind]);
        assert_eq!(torn.log.end(), LogOffset::new(4));
        let tail = torn.tail.unwrap();
        assert_eq!((tail.place.line, tail.place.seq.get()), (6, 4));
        assert_eq!((tail.keep, tail.recovered), (places[2].start as u64, 0));
        assert_eq!(tail.bytes, behind as u64);
    }
}

#[test]
fn of_a_torn_frame_every_whole_block_is_read() {
    // Noise does not compress, so that the frame has blocks enough to be cut between.
    let mut state = 1_u64;
    let mut noise = |length: usize| -> String {
        let letters = std::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            char::from(b'!' + (state >> 59) as u8 * 2 + 1)
        });
        letters
            .filter(|letter| !matches!(letter, '"' | '\\'))
            .take(length)
            .collect()
    };
    let rows_of: Vec<String> = (0..40)
        .map(|seq| {
            let data = format!(r#"{{"text":"{}"}}"#, noise(40_000));
            crate::support::row("feedback/record", seq, &data)
        })
        .collect();
    let text = crate::support::file(&rows_of.iter().map(String::as_str).collect::<Vec<_>>());
    let (bytes, places) = frames(&text, usize::MAX);
    let mut seen = Vec::new();
    for part in 1..8 {
        let cut = places[1].start + places[1].len() * part / 8;
        let torn = stored(Container::Zstd, &bytes[..cut]);
        let left = rows(&torn.log);
        assert_eq!(left, rows_of[..left.len()]);
        seen.push(left.len());
        let repaired = repaired(Container::Zstd, &torn, &bytes[..cut]);
        assert_eq!(rows(&repaired.log), left);
    }
    assert!(seen.is_sorted(), "{seen:?}");
    assert!(seen[0] > 0 && seen[6] > 30, "{seen:?}");
}

#[test]
fn what_is_saved_from_a_whole_frame_with_a_faulty_row_is_written_again() {
    let lines: Vec<&str> = fixture("crash-in-call").lines().take(10).collect();
    for bad in 1..lines.len() {
        let mut spoilt = lines.clone();
        spoilt.insert(bad, "no row");
        let text: String = spoilt.iter().flat_map(|line| [*line, "\n"]).collect();
        for (container, batch) in [(BOTH[0], 1), (BOTH[1], 3), (BOTH[1], usize::MAX)] {
            let bytes = packed(container, &text, batch);
            let torn = stored(container, &bytes);
            assert_eq!(rows(&torn.log), lines[1..bad]);
            is_kept_whole(&format!("line {bad}"), container, &torn, &bytes);
        }
    }
}
