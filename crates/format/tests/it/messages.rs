//! What a person reads about each kind of bad file: code, message, hint.

use offshoot_format::Container;

use crate::support::{HEADER, file, first_lines, fixture, frame, frames, refused, row, stored};

const RESTORE: &str = "the file was left as it is; restore it from a backup, or make a new session of its good part with `offshoot salvage FILE --to HOME`";
const INTACT: &str =
    "the file is intact; open it with the version that wrote it, or with a newer one";

#[track_caller]
fn says(bytes: &[u8], expected: [&str; 3]) {
    let error = refused(Container::detect(bytes), bytes);
    assert_eq!([error.code(), &error.to_string(), error.hint()], expected);
}

#[test]
fn no_header_line() {
    let hint = "it never got as far as its first event; make sure that it is no other kind of file before you delete it";
    says(
        b"",
        [
            "EMPTY_LOG",
            "the file has no complete header line (0 bytes)",
            hint,
        ],
    );
    says(
        HEADER.as_bytes(),
        [
            "EMPTY_LOG",
            "the file has no complete header line (91 bytes)",
            hint,
        ],
    );
    says(
        &frame(format!("{HEADER}\n"))[..50],
        [
            "EMPTY_LOG",
            "the file has no complete header line (50 bytes)",
            hint,
        ],
    );
}

#[test]
fn no_session_header() {
    let hint = "check that this is a session file";
    says(
        b"# Notes\n\nMilk.\n",
        [
            "MALFORMED_HEADER",
            "line 1: expected a session header: expected value (byte 1)",
            hint,
        ],
    );
    says(
        b"\xff\xfe\n",
        ["MALFORMED_HEADER", "line 1: not UTF-8 (byte 0)", hint],
    );
}

#[test]
fn another_version() {
    says(
        b"{\"type\":\"session\",\"version\":9}\n",
        [
            "UNSUPPORTED_VERSION",
            "the file has format version 9; this program reads versions 0 to 4: it was written by a newer one",
            INTACT,
        ],
    );
    says(
        b"{\"type\":\"session\",\"version\":0.5}\n",
        [
            "UNSUPPORTED_VERSION",
            "the file has format version 0.5; this program reads versions 0 to 4 and has no way up from there",
            INTACT,
        ],
    );
}

#[test]
fn an_event_of_a_newer_version() {
    says(
        file(&[&row("gadget/blinked", 0, "{}")]).as_bytes(),
        [
            "UNKNOWN_REQUIRED_EVENT",
            "line 2: event 0 has the required type `gadget/blinked`, which this version does not know",
            INTACT,
        ],
    );
}

#[test]
fn rows_ahead_of_a_turn_end() {
    let text = fixture("two-calls");
    says(
        text.replacen(r#""time":104,"#, r#""time":104"#, 1)
            .as_bytes(),
        [
            "DAMAGED_LOG",
            "line 5: not a valid event row: expected `,` or `}` (byte 42); a later turn/end (event 16) shows that this was \
             committed",
            RESTORE,
        ],
    );
    says(
        text.replacen(r#""seq":5,"#, r#""seq":6,"#, 1).as_bytes(),
        [
            "DAMAGED_LOG",
            "line 7: expected seq 5, found 6; a later turn/end (event 16) shows that this was committed",
            RESTORE,
        ],
    );
    says(
        text.replacen(r#""seq":5,"#, r#""seq":4,"#, 1).as_bytes(),
        [
            "DAMAGED_LOG",
            "line 7: expected seq 5, found 4; a later turn/end (event 16) shows that this was committed",
            RESTORE,
        ],
    );
    let mut bytes = text.as_bytes().to_vec();
    let at = text.find("Answer in").unwrap();
    bytes[at] = 0xff;
    says(
        &bytes,
        [
            "DAMAGED_LOG",
            "line 4: not UTF-8 (byte 176 of the line); a later turn/end (event 16) shows that this was committed",
            RESTORE,
        ],
    );
}

#[test]
fn a_row_that_breaks_a_rule() {
    says(
        fixture("two-calls")
            .replacen(r#""role":"user""#, r#""role":"assistant""#, 1)
            .as_bytes(),
        [
            "DAMAGED_LOG",
            "line 5: `user/message`: role must be `user`, found `assistant`",
            RESTORE,
        ],
    );
}

#[test]
fn events_that_contradict_each_other() {
    says(
        fixture("two-calls")
            .replacen(r#""step":2"#, r#""step":3"#, 1)
            .as_bytes(),
        [
            "DAMAGED_LOG",
            "line 15: event 13: expected step 2 of turn 1 to start, found step 3",
            RESTORE,
        ],
    );
}

#[test]
fn frames_that_are_damaged() {
    let (bytes, places) = frames(fixture("two-calls"), 5);
    let mut wrong = bytes.clone();
    wrong[places[1].end - 1] ^= 1;
    says(
        &wrong,
        [
            "CORRUPT_FRAME",
            &format!(
                "byte {}: the zstd frame does not decompress: Restored data doesn't match checksum",
                places[1].start
            ),
            RESTORE,
        ],
    );
    says(
        &[&bytes[..], b"\n"].concat(),
        [
            "CORRUPT_FRAME",
            &format!("byte {}: expected the start of a zstd frame", bytes.len()),
            RESTORE,
        ],
    );
}

#[test]
fn a_header_that_contradicts_the_log() {
    let fork = fixture("fork-child");
    says(
        fork.replacen(r#""isSeeded":true"#, r#""isSeeded":false"#, 1)
            .as_bytes(),
        [
            "INCONSISTENT_LOG",
            "the header says that the session is not seeded, but event 9 ends an inherited part",
            RESTORE,
        ],
    );
    says(
        first_lines("fork-child", 8).as_bytes(),
        [
            "INCONSISTENT_LOG",
            "the header says that the session is seeded, but no `session/end-seed` with `inherited` ends the inherited \
             part",
            RESTORE,
        ],
    );
}

#[test]
fn a_torn_tail_says_where_and_why() {
    let tail = stored(Container::Raw, fixture("crash-in-call").as_bytes())
        .tail
        .unwrap();
    assert_eq!(
        (tail.place.line, tail.reason.as_str()),
        (11, "the line was cut off")
    );
}
