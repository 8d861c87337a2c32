//! What can be saved of a damaged file, and what it says is lost.

use offshoot_format::{Container, FormatError, Loss, Place, Salvage, salvage};
use offshoot_session::LogOffset;

use crate::support::{BOTH, FIXTURES, V0, either, encode, fixture, frames, packed, rows, stored};

#[track_caller]
fn saved(container: Container, bytes: &[u8]) -> Salvage {
    salvage(container, bytes).unwrap_or_else(|error| panic!("{error}"))
}

/// A raw file with one of its lines replaced, or taken out.
fn with_line(text: &str, number: usize, line: Option<&str>) -> String {
    let mut out = String::new();
    for (at, old) in text.split_inclusive('\n').enumerate() {
        match line {
            _ if at + 1 != number => out.push_str(old),
            Some(line) => out.extend([line, "\n"]),
            None => {}
        }
    }
    out
}

/// A line of a fixture with something in it replaced.
fn edited(text: &str, number: usize, from: &str, to: &str) -> String {
    let line = text.lines().nth(number - 1).unwrap();
    assert!(line.contains(from), "{line}");
    with_line(text, number, Some(&line.replace(from, to)))
}

/// Where a line of a raw file begins.
fn start(text: &str, number: usize) -> u64 {
    let before = text.split_inclusive('\n').take(number - 1);
    before.map(str::len).sum::<usize>() as u64
}

fn loss(text: &str, line: usize, seq: u64, reason: &str, rows: u64, turns: u64) -> Loss {
    let byte = start(text, line);
    Loss {
        place: Place {
            line: line as u64,
            seq: LogOffset::new(seq),
            byte,
        },
        reason: reason.to_owned(),
        rows,
        turns,
        bytes: text.len() as u64 - byte,
    }
}

#[test]
fn of_a_file_that_is_whole_nothing_is_lost() {
    for (name, text) in FIXTURES.iter().chain([&("v0", V0)]) {
        for container in BOTH {
            let bytes = either(container, text);
            let whole = stored(container, &bytes);
            let saved = saved(container, &bytes);
            assert_eq!(saved.version, whole.version, "{name}");
            assert_eq!(saved.header, whole.header, "{name}");
            assert_eq!(saved.inherited, whole.inherited, "{name}");
            assert_eq!(rows(&saved.log), rows(&whole.log), "{name}");
            let is_lost = saved.loss.is_some();
            assert_eq!(is_lost, whole.tail.is_some(), "{name}: {:?}", saved.loss);
        }
    }
}

#[test]
fn everything_ahead_of_the_first_fault_is_saved_and_what_is_lost_is_counted() {
    let text = fixture("two-calls");
    let no_row = "not a valid event row: expected ident (byte 2)";
    let torn = &text[..text.len() - 2];
    let cases = [
        (with_line(text, 10, Some("no row")), 10, 8, no_row, 15, 2),
        (with_line(text, 19, Some("no row")), 19, 17, no_row, 6, 1),
        (with_line(text, 2, Some("no row")), 2, 0, no_row, 23, 2),
        (
            with_line(text, 10, None),
            10,
            8,
            "expected seq 8, found 9",
            14,
            2,
        ),
        (
            edited(text, 8, "session/title", "gadget/blinked"),
            8,
            6,
            "the required type `gadget/blinked`, which this version does not know",
            17,
            2,
        ),
        (
            edited(text, 14, r#""step":1"#, r#""step":9"#),
            14,
            12,
            "event 12: names step 9 of turn 1, but step 1 is open",
            11,
            2,
        ),
        (
            edited(text, 21, r#""role":"user""#, r#""role":"guest""#),
            21,
            19,
            "`user/message`: role must be `user`, found `guest`",
            4,
            1,
        ),
        (torn.to_owned(), 24, 22, "the line was cut off", 1, 0),
    ];
    for (text, line, seq, reason, rows, turns) in cases {
        let saved = saved(Container::Raw, text.as_bytes());
        assert_eq!(
            saved.loss,
            Some(loss(&text, line, seq, reason, rows, turns))
        );
        assert_eq!(saved.log.end(), LogOffset::new(seq));
    }
}

#[test]
fn of_a_corrupt_frame_nothing_is_counted_and_the_frames_behind_it_are() {
    // Frames of four lines each: rows 0 to 3, 4 to 7 and so on.
    let (mut bytes, places) = frames(fixture("two-calls"), 4);
    bytes[places[3].end - 1] ^= 1;
    let saved = saved(Container::Zstd, &bytes);
    assert_eq!(saved.log.end(), LogOffset::new(8));
    let loss = saved.loss.unwrap();
    assert!(loss.reason.contains("does not decompress"), "{loss:?}");
    let start = places[3].start as u64;
    assert_eq!(
        loss,
        Loss {
            place: Place {
                line: 10,
                seq: LogOffset::new(8),
                byte: start,
            },
            reason: loss.reason.clone(),
            rows: 11,
            turns: 2,
            bytes: bytes.len() as u64 - start,
        }
    );
}

#[test]
fn a_frame_that_is_cut_off_is_lost_even_if_no_line_of_it_can_be_read() {
    let (bytes, places) = frames(fixture("two-calls"), 4);
    let last = places.last().unwrap();
    for cut in [last.start + 1, last.start + 7, last.end - 2] {
        let bytes = &bytes[..cut];
        let saved = saved(Container::Zstd, bytes);
        let whole = stored(Container::Zstd, bytes);
        assert_eq!(rows(&saved.log), rows(&whole.log), "cut at {cut}");
        let (loss, tail) = (saved.loss.unwrap(), whole.tail.unwrap());
        assert_eq!(
            (loss.place, loss.reason, loss.rows, loss.turns, loss.bytes),
            (tail.place, tail.reason, 0, 0, tail.bytes),
            "cut at {cut}"
        );
    }
}

#[test]
fn nothing_behind_a_frame_without_end_is_used() {
    let (mut bytes, places) = frames(fixture("two-calls"), 1);
    // Its block claims more bytes than it has; all of its one line is there.
    let header = places[5].start;
    let block = (6..16)
        .map(|at| header + at)
        .find(|&at| {
            let mut longer = bytes.clone();
            longer[at + 2] = 1;
            salvage(Container::Zstd, &longer).is_ok_and(|saved| {
                saved
                    .loss
                    .is_some_and(|loss| loss.reason.contains("cut off"))
            })
        })
        .unwrap();
    bytes[block + 2] = 1;
    let saved = saved(Container::Zstd, &bytes);
    let loss = saved.loss.unwrap();
    assert_eq!(loss.place.byte, header as u64);
    assert!(saved.log.end() <= LogOffset::new(5), "{loss:?}");
    assert_eq!(loss.turns, 2);
}

#[test]
fn without_a_header_there_is_no_session_to_save() {
    let text = fixture("two-calls");
    let error = salvage(Container::Raw, with_line(text, 1, Some("{}")).as_bytes()).unwrap_err();
    assert_eq!(error.code(), "MALFORMED_HEADER");
    let newer = edited(text, 1, r#""version":4"#, r#""version":5"#);
    let error = salvage(Container::Raw, newer.as_bytes()).unwrap_err();
    assert_eq!(error.code(), "UNSUPPORTED_VERSION");
    let (mut bytes, places) = frames(text, 4);
    bytes[places[0].end - 1] ^= 1;
    let error = salvage(Container::Zstd, &bytes).unwrap_err();
    assert!(matches!(error, FormatError::CorruptFrame { byte: 0, .. }));
}

#[test]
fn a_session_that_lost_its_marker_is_seeded_no_more_and_one_that_kept_it_is() {
    let text = fixture("fork-child");
    for (line, is_seeded, inherited) in [(11, false, 0), (12, true, 9), (20, true, 9)] {
        let damaged = with_line(text, line, Some("no row"));
        let saved = saved(Container::Raw, damaged.as_bytes());
        assert_eq!(saved.log.end(), LogOffset::new(line as u64 - 2));
        assert_eq!(
            (saved.header.is_seeded, saved.inherited),
            (is_seeded, LogOffset::new(inherited))
        );
        assert_eq!(saved.header.parent, Some("crash-in-call".into()));
    }
    // The last marker that is left ends what was inherited.
    let damaged = with_line(fixture("nested-fork"), 21, Some("no row"));
    let saved = saved(Container::Raw, damaged.as_bytes());
    assert_eq!(saved.inherited, LogOffset::new(9));
}

#[test]
fn an_older_file_is_saved_up_to_what_cannot_be_brought_up() {
    let descriptor = |seq: u64| {
        format!(
            r#"{{"type":"subagent/descriptor","seq":{seq},"time":{seq},"data":{{"version":1,"label":"digger"}}}}"#
        )
    };
    // In place of the second turn's start.
    let line = V0
        .lines()
        .position(|row| row.contains(r#""turn":2"#))
        .unwrap()
        + 1;
    let text = with_line(V0, line, Some(&descriptor(13)));
    let saved = saved(Container::Raw, text.as_bytes());
    let before: String = V0.split_inclusive('\n').take(line - 1).collect();
    let expected = stored(Container::Raw, before.as_bytes());
    assert_eq!(rows(&saved.log), rows(&expected.log));
    let told = saved.loss.unwrap();
    assert!(told.reason.contains("subagent/descriptor"), "{told:?}");
    let rows = V0.lines().count() - line + 1;
    let expected = loss(&text, line, 13, &told.reason, rows as u64, 1);
    assert_eq!(told, expected);
}

#[test]
fn a_v0_fork_that_ends_inside_of_what_it_inherited_is_seeded_no_more() {
    let text = V0.replace(
        r#""createdAt":90,"#,
        r#""createdAt":90,"parentSession":"origin","seedLength":13,"#,
    );
    let line = text
        .lines()
        .position(|row| row.contains("step/end"))
        .unwrap()
        + 1;
    let damaged = with_line(&text, line, Some("no row"));
    let saved = saved(Container::Raw, damaged.as_bytes());
    assert!(!saved.header.is_seeded);
    assert_eq!(saved.inherited, LogOffset::START);
    assert_eq!(saved.loss.unwrap().place.line, line as u64);
    let kinds: Vec<&str> = saved
        .log
        .events()
        .map(|event| event.kind().as_str())
        .collect();
    assert_eq!(kinds.last(), Some(&"assistant/message"));
}

/// What is saved is what the lines ahead of the loss say, and a file of it is whole.
#[track_caller]
fn check(text: &str, bytes: &[u8], container: Container) {
    let Ok(saved) = salvage(container, bytes) else {
        return;
    };
    let expected = match &saved.loss {
        // A cut between two lines leaves a file that is whole.
        None => stored(container, bytes),
        Some(loss) => {
            let kept = usize::try_from(loss.place.line).unwrap() - 1;
            let kept: String = text.split_inclusive('\n').take(kept).collect();
            stored(Container::Raw, kept.as_bytes())
        }
    };
    assert_eq!(rows(&saved.log), rows(&expected.log), "{:?}", saved.loss);
    let again = encode(container, &saved.header, &saved.log, 4);
    let again = salvage(container, &again).unwrap();
    assert_eq!(again.loss, None);
    assert_eq!(rows(&again.log), rows(&saved.log));
}

const SAMPLES: [&str; 3] = ["two-calls", "compaction", "tools-added"];

fn samples() -> impl Iterator<Item = &'static str> {
    SAMPLES.into_iter().map(fixture).chain([V0])
}

#[test]
fn of_a_file_that_is_cut_anywhere_the_lines_ahead_of_the_cut_are_saved() {
    for text in samples() {
        for container in BOTH {
            let bytes = packed(container, text, 3);
            for cut in (0..bytes.len()).step_by(19) {
                check(text, &bytes[..cut], container);
            }
        }
    }
}

#[test]
fn of_a_file_with_a_bad_byte_anywhere_the_lines_ahead_of_it_are_saved() {
    for text in samples() {
        // No text has this byte; what a letter of a raw file was before, nobody can tell.
        for at in (0..text.len()).step_by(41) {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] = 0xff;
            check(text, &bytes, Container::Raw);
        }
        let whole = packed(Container::Zstd, text, 3);
        for at in (0..whole.len()).step_by(17) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            check(text, &bytes, Container::Zstd);
        }
    }
}
