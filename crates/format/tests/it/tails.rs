//! What a fault in a row means: the tail of a crash, or damage to what a `turn/end` has committed (§1.6).

use offshoot_format::{Container, FormatError};
use offshoot_session::LogOffset;

use crate::support::{BOTH, file, packed, refused, row, rows, stored};

/// Three events that end a turn, and the fourth row that a test spoils.
fn committed() -> Vec<String> {
    vec![
        row("turn/start", 0, r#"{"turn":1}"#),
        row("feedback/record", 1, r#"{"text":"good"}"#),
        row("turn/end", 2, r#"{"turn":1,"reason":{"kind":"completed"}}"#),
    ]
}

fn with(rows: &[&str]) -> String {
    let committed = committed();
    let before = committed.iter().map(String::as_str);
    file(&before.chain(rows.iter().copied()).collect::<Vec<_>>())
}

/// Rows that are no rows, each with the reason that is given for it.
const NO_ROWS: [(&str, &str); 12] = [
    (
        "",
        "not a valid event row: EOF while parsing a value (byte 0)",
    ),
    ("\0\0\0\0", "not a valid event row: expected value (byte 1)"),
    (
        r#"{"type":"turn/st"#,
        "not a valid event row: EOF while parsing a string (byte 16)",
    ),
    (
        "[]",
        "not a valid event row: invalid type: sequence, expected an object (byte 0)",
    ),
    (
        "null",
        "not a valid event row: invalid type: null, expected an object (byte 4)",
    ),
    (
        r#"{"type":"plan/mode","seq":3,"time":3}"#,
        "not a valid event row: missing field `data` (byte 37)",
    ),
    (
        r#"{"type":"plan/mode","seq":-0,"time":3,"data":{}}"#,
        "not a valid event row: invalid type: floating point `-0.0`, expected u64 (byte 28)",
    ),
    (
        r#"{"type":"plan/mode","seq":3,"time":1.5,"data":{}}"#,
        "not a valid event row: invalid type: floating point `1.5`, expected i64 (byte 38)",
    ),
    (
        r#"{"type":"plan/mode","seq":3,"time":3,"data":{},"ignorable":false}"#,
        "not a valid event row: `ignorable` may only be true, found false",
    ),
    (
        r#"{"type":"plan/mode","seq":3,"time":3,"data":{},"seq":3}"#,
        "not a valid event row: duplicate field `seq` (byte 52)",
    ),
    (
        r#"{"type":"plan/mode","seq":4,"time":3,"data":{}}"#,
        "expected seq 3, found 4",
    ),
    (
        r#"{"type":"plan/mode","seq":2,"time":3,"data":{}}"#,
        "expected seq 3, found 2",
    ),
];

#[test]
fn a_fault_behind_the_last_turn_end_is_a_tail() {
    for (bad, reason) in NO_ROWS {
        let after = row("plan/mode", 4, r#"{"active":true}"#);
        let text = with(&[bad, &after]);
        let keep = with(&[]).len() as u64;
        for container in BOTH {
            let bytes = packed(container, &text, 1);
            let torn = stored(container, &bytes);
            assert_eq!(rows(&torn.log), committed(), "{bad}");
            let tail = torn.tail.unwrap();
            assert_eq!(
                (tail.place.line, tail.place.seq),
                (5, LogOffset::new(3)),
                "{bad}"
            );
            assert_eq!((tail.reason.as_str(), tail.recovered), (reason, 0), "{bad}");
            assert_eq!(tail.keep, tail.place.byte, "{bad}");
            if container == Container::Raw {
                assert_eq!(
                    (tail.keep, tail.bytes),
                    (keep, text.len() as u64 - keep),
                    "{bad}"
                );
            }
        }
    }
}

#[test]
fn a_fault_ahead_of_a_turn_end_is_damage_whatever_seq_that_has() {
    for (bad, reason) in NO_ROWS {
        for seq in [3, 4, 2, 77] {
            let witness = row(
                "turn/end",
                seq,
                r#"{"turn":9,"reason":{"kind":"completed"}}"#,
            );
            let text = with(&[bad, "no row either", &witness]);
            for container in BOTH {
                for batch in [1, 2, usize::MAX] {
                    let error = refused(container, &packed(container, &text, batch));
                    assert_eq!(
                        error.to_string(),
                        format!(
                            "line 5: {reason}; a later turn/end (event {seq}) shows that this was committed"
                        )
                    );
                    assert_eq!(error.code(), "DAMAGED_LOG");
                }
            }
        }
    }
}

#[test]
fn a_turn_end_that_leaves_a_gap_is_its_own_witness() {
    let gap = row("turn/end", 4, r#"{"turn":1,"reason":{"kind":"completed"}}"#);
    for container in BOTH {
        assert_eq!(
            refused(container, &packed(container, &with(&[&gap]), 1)).to_string(),
            "line 5: expected seq 3, found 4; this turn/end (event 4) shows that this was committed"
        );
    }
}

#[test]
fn a_turn_end_that_is_torn_itself_witnesses_nothing() {
    let torn = &row("turn/end", 4, r#"{"turn":1,"reason":{"kind":"completed"}}"#)[..40];
    for container in BOTH {
        let stored = stored(container, &packed(container, &with(&["{", torn]), 1));
        assert_eq!(rows(&stored.log), committed());
    }
}

#[test]
fn the_row_of_a_line_that_is_not_utf8_is_no_row() {
    let mut bytes = with(&[]).into_bytes();
    let keep = bytes.len() as u64;
    bytes.extend(br#"{"type":"feedback/record","seq":3,"time":3,"data":{"text":""#);
    bytes.extend(b"\xff\xfe\"}}\n");
    let tail = stored(Container::Raw, &bytes).tail.unwrap();
    assert_eq!(tail.reason, "not UTF-8 (byte 59 of the line)");
    assert_eq!((tail.keep, tail.place.line), (keep, 5));
    bytes.extend(
        row(
            "turn/end",
            4,
            "{\"turn\":1,\"reason\":{\"kind\":\"completed\"}}\n",
        )
        .bytes(),
    );
    bytes.push(b'\n');
    let bytes: Vec<u8> = bytes.into_iter().collect();
    assert!(
        stored(Container::Raw, &bytes).tail.is_some(),
        "a line feed inside tears the witness"
    );
}

#[test]
fn a_row_that_breaks_a_rule_is_damage_also_behind_a_tail() {
    for (bad, reason) in [
        (
            row("turn/start", 9, r#"{"turn":-1}"#),
            "line 7: `turn/start`: invalid value: integer `-1`, expected u64 (byte 10)",
        ),
        (
            row("tool/code-dispatch", 9, "{}"),
            "line 7: `tool/code-dispatch`: the type `tool/code-dispatch` is retired: since V3 it is \
             `tool/ptc-dispatch`",
        ),
        (
            row(
                "request/header",
                9,
                r#"{"header":{"config":{"provider":"p","model":"m"},"system":""},"reason":"initial"}"#,
            ),
            "line 7: `request/header`: `header.system` is retired: the prompt is a system/message",
        ),
    ] {
        for container in BOTH {
            let text = with(&["no row", "{}", &bad]);
            assert_eq!(
                refused(container, &packed(container, &text, 1)).to_string(),
                reason
            );
        }
    }
}

#[test]
fn an_unknown_required_event_is_never_a_tail() {
    for container in BOTH {
        for (rows, line, seq) in [
            (vec![row("gadget/blinked", 3, "{}")], 5, 3),
            (vec![row("gadget/blinked", 8, "{}")], 5, 8),
            (
                vec!["no row".to_owned(), row("gadget/blinked", 4, "{}")],
                6,
                4,
            ),
        ] {
            let text = with(&rows.iter().map(String::as_str).collect::<Vec<_>>());
            let error = refused(container, &packed(container, &text, 1));
            assert_eq!(
                error.to_string(),
                format!(
                    "line {line}: event {seq} has the required type `gadget/blinked`, which this version does not know"
                )
            );
            assert!(error.is_unsupported());
        }
    }
}

#[test]
fn an_unknown_ignorable_event_behind_a_tail_is_part_of_it() {
    let ignorable = r#"{"type":"gadget/blinked","seq":4,"time":4,"data":{},"ignorable":true}"#;
    let torn = stored(Container::Raw, with(&["no row", ignorable]).as_bytes());
    assert_eq!(rows(&torn.log), committed());
}

#[test]
fn a_marker_behind_the_fault_does_not_count() {
    let header = crate::support::HEADER.replace("false", "true");
    let start = row("turn/start", 0, r#"{"turn":1}"#);
    let marker = row("session/end-seed", 1, r#"{"inherited":true}"#);
    let text = |rows: &[&str]| {
        let lines = std::iter::once(header.as_str()).chain(rows.iter().copied());
        lines.flat_map(|line| [line, "\n"]).collect::<String>()
    };
    let whole = stored(Container::Raw, text(&[&start, &marker]).as_bytes());
    assert_eq!(whole.inherited, LogOffset::new(1));
    let error = refused(
        Container::Raw,
        text(&[&start, "no row", &marker]).as_bytes(),
    );
    assert_eq!(error.code(), "INCONSISTENT_LOG");
    assert!(matches!(error, FormatError::Inconsistent { .. }));
}

#[test]
fn whole_records_ahead_of_a_fault_in_the_same_frame_are_saved() {
    let more = row("plan/mode", 3, r#"{"active":true}"#);
    let text = with(&[&more, "no row"]);
    let (bytes, places) = crate::support::frames(&text, 3);
    let torn = stored(Container::Zstd, &bytes);
    assert_eq!(torn.log.end(), LogOffset::new(4));
    let tail = torn.tail.unwrap();
    assert_eq!((tail.keep, tail.recovered), (places[2].start as u64, 1));
    assert_eq!(tail.bytes, places[2].len() as u64);
}
