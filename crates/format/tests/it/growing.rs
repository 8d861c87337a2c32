//! A file that is read as it grows is the file that is read at once.

use offshoot_format::{Container, GrowingLog, Rest, decode_as};

use crate::support::{BOTH, FIXTURES, V0, fixture, frame, frames, packed, row, whole_lines};

/// Reads `bytes` as they come: first so many of them, then `step` more each time, at most up to their end.
fn grown(container: Container, bytes: &[u8], first: usize, step: usize) -> (GrowingLog, Rest) {
    let first = first.min(bytes.len());
    let begun = GrowingLog::begin(container, &bytes[..first]);
    let (mut log, mut rest) = begun.unwrap().expect("a current file");
    let mut end = first;
    while end < bytes.len() {
        end = (end + step).min(bytes.len());
        let offset = usize::try_from(log.offset()).unwrap();
        rest = log.go_on(&bytes[offset..end]).unwrap();
    }
    (log, rest)
}

/// How long the header of a file is.
fn header_length(container: Container, text: &str) -> usize {
    match container {
        Container::Raw => text.find('\n').unwrap() + 1,
        Container::Zstd => frames(text, 1).1[0].end,
    }
}

/// One batch, as a writer appends it.
fn batch(container: Container, rows: &str) -> Vec<u8> {
    match container {
        Container::Raw => rows.as_bytes().to_vec(),
        Container::Zstd => frame(rows),
    }
}

#[test]
fn however_it_comes_it_is_the_same_log() {
    for (name, text) in FIXTURES {
        for container in BOTH {
            let text = whole_lines(text);
            let bytes = packed(container, text, 3);
            let header = header_length(container, text);
            let whole = decode_as(container, &bytes).unwrap();
            for (first, step) in [
                (header, 1),
                (header, 97),
                (header + 200, 4_000),
                (bytes.len(), 1),
            ] {
                // A seeded file appears with its whole inherited part.
                let first = if whole.header.is_seeded {
                    bytes.len()
                } else {
                    first
                };
                let (log, rest) = grown(container, &bytes, first, step);
                assert_eq!(rest, Rest::Nothing, "{name}");
                assert!(log.log().events().eq(whole.log.events()), "{name}");
                assert_eq!(log.header(), &whole.header, "{name}");
                assert_eq!(log.inherited(), whole.inherited, "{name}");
                assert_eq!(log.offset(), bytes.len() as u64, "{name}");
            }
        }
    }
}

#[test]
fn what_is_not_whole_yet_waits_and_is_measured() {
    let text = fixture("two-calls");
    for container in BOTH {
        let bytes = packed(container, text, 4);
        let header = header_length(container, text);
        for end in header..=bytes.len() {
            let begun = GrowingLog::begin(container, &bytes[..end]).unwrap();
            let (log, rest) = begun.unwrap();
            let whole = &bytes[..usize::try_from(log.offset()).unwrap()];
            let stored = decode_as(container, whole).unwrap();
            assert_eq!(stored.tail, None, "up to {end}");
            assert!(log.log().events().eq(stored.log.events()), "up to {end}");
            let length = (end - whole.len()) as u64;
            match length {
                0 => assert_eq!(rest, Rest::Nothing),
                length => assert_eq!(rest, Rest::Begun(length)),
            }
        }
    }
}

#[test]
fn a_row_that_breaks_a_rule_is_refused_at_its_place_in_the_whole_file() {
    let text = whole_lines(fixture("two-calls"));
    let next = text.lines().count() as u64 - 1;
    // A step outside of a turn: a rule between events, which no row shows by itself.
    let bad = row("step/start", next, r#"{"turn":9,"step":1}"#) + "\n";
    for container in BOTH {
        let sound = packed(container, text, 4);
        let added = batch(container, &bad);
        let begun = GrowingLog::begin(container, &sound).unwrap();
        let (mut log, _) = begun.unwrap();
        let found = log.go_on(&added).unwrap_err();
        let whole = decode_as(container, &[sound, added].concat()).unwrap_err();
        assert_eq!(found.to_string(), whole.to_string());
        assert_eq!(found.place(), whole.place());
        assert!(found.place().is_some());
    }
}

#[test]
fn what_only_the_whole_file_can_tell_is_left_to_it() {
    let text = whole_lines(fixture("two-calls"));
    for container in BOTH {
        let sound = packed(container, text, 4);
        let (mut log, _) = GrowingLog::begin(container, &sound).unwrap().unwrap();
        let end = log.log().end();
        assert_eq!(
            log.go_on(&batch(container, "no row\n")).unwrap(),
            Rest::Doubtful
        );
        assert_eq!(log.go_on(b"").unwrap(), Rest::Doubtful, "for good");
        assert_eq!(log.log().end(), end);
    }
    // A frame goes on, by what it says, but another one begins in its middle.
    let long: String = (0..400_u32).map(|n| format!("{n} ")).collect();
    let cut = &frame(format!("{{\"lost\":\"{long}\"}}\n"))[..20];
    let behind = [cut, &frame("{\"found\":1}\n")].concat();
    let sound = packed(Container::Zstd, text, 4);
    let (mut log, _) = GrowingLog::begin(Container::Zstd, &sound).unwrap().unwrap();
    assert_eq!(log.go_on(cut).unwrap(), Rest::Begun(20));
    assert_eq!(log.go_on(&behind).unwrap(), Rest::Doubtful);
}

#[test]
fn damage_is_told_as_the_whole_file_tells_it() {
    let text = whole_lines(fixture("two-calls"));
    let (mut refused, mut left) = (0, 0);
    for container in BOTH {
        let sound = packed(container, text, 4);
        let header = header_length(container, text);
        for at in (header..sound.len()).step_by(7) {
            let mut bytes = sound.clone();
            bytes[at] ^= 0x15;
            let (mut log, _) = GrowingLog::begin(container, &bytes[..header])
                .unwrap()
                .unwrap();
            let mut end = header;
            let mut rest = Rest::Nothing;
            while end < bytes.len() && rest != Rest::Doubtful {
                end = (end + 301).min(bytes.len());
                let offset = usize::try_from(log.offset()).unwrap();
                match log.go_on(&bytes[offset..end]) {
                    Ok(found) => rest = found,
                    Err(error) => {
                        let whole = decode_as(container, &bytes[..end]).unwrap_err();
                        assert_eq!(error.to_string(), whole.to_string(), "byte {at}");
                        refused += 1;
                        break;
                    }
                }
                if rest == Rest::Doubtful {
                    left += 1;
                    continue;
                }
                let whole = decode_as(container, &bytes[..end]).unwrap();
                let saved = whole.tail.map_or(0, |tail| tail.recovered);
                assert_eq!(log.log().end().get(), whole.log.end().get() - saved);
            }
        }
    }
    assert!(refused > 50 && left > 50, "{refused} and {left}");
}

#[test]
fn a_file_of_an_older_version_is_not_begun() {
    let begun = GrowingLog::begin(Container::Raw, V0.as_bytes()).unwrap();
    assert!(begun.is_none());
}
