//! Errors point to the line and to its byte in the file, or to the byte of the frame that holds it.

use offshoot_format::{Container, Place};
use offshoot_session::LogOffset;

use crate::support::{file, frames, refused, row};

/// A log whose event 2 ends a step that is not open, with umlauts ahead of it so that bytes are not characters.
fn misplaced_step() -> String {
    file(&[
        &row("feedback/record", 0, r#"{"text":"größer, schöner"}"#),
        &row("turn/start", 1, r#"{"turn":1}"#),
        &row("step/end", 2, r#"{"turn":1,"step":1}"#),
        &row("turn/end", 3, r#"{"turn":1,"reason":{"kind":"completed"}}"#),
    ])
}

/// A log whose event 1 replaces what is not on the surface.
fn misplaced_message() -> String {
    file(&[
        &row("turn/start", 0, r#"{"turn":1}"#),
        r#"{"type":"user/message","seq":1,"time":1,"data":{"id":"u","role":"user","content":[],"source":{"kind":"user"}},"surfaceOp":{"op":"replace","startSeq":0,"endSeq":0},"sourceEventSeqs":[0]}"#,
    ])
}

/// A log in which a compaction is crossed by a turn, which only its end shows.
fn crossed_compaction() -> String {
    file(&[
        &row("compaction/start", 0, r#"{"compactionId":"k","turn":null}"#),
        &row("turn/start", 1, r#"{"turn":1}"#),
        &row("turn/end", 2, r#"{"turn":1,"reason":{"kind":"completed"}}"#),
    ])
}

#[test]
fn a_contradiction_between_events_has_the_place_of_the_later_one() {
    for (text, event) in [
        (misplaced_step(), 2),
        (misplaced_message(), 1),
        (crossed_compaction(), 1),
    ] {
        let line = text.lines().nth(event + 1).unwrap();
        let place = |byte: usize| Place {
            line: event as u64 + 2,
            seq: LogOffset::new(event as u64),
            byte: byte as u64,
        };
        let raw = refused(Container::Raw, text.as_bytes());
        assert_eq!(raw.place(), Some(place(text.find(line).unwrap())), "{raw}");
        for batch in [1, 2, 3] {
            let (bytes, places) = frames(&text, batch);
            let error = refused(Container::Zstd, &bytes);
            let frame = &places[1 + event / batch];
            assert_eq!(error.place(), Some(place(frame.start)), "{error}");
            assert_eq!(error.to_string(), raw.to_string());
        }
    }
}

#[test]
fn behind_a_fault_lines_are_counted_on_and_rows_speak_for_their_own_seq() {
    let text = file(&[
        &row("turn/start", 0, r#"{"turn":1}"#),
        "no row",
        &row("plan/mode", 7, r#"{"active":true}"#),
        "no row",
        &row("turn/start", 9, r#"{"turn":[]}"#),
    ]);
    let error = refused(Container::Raw, text.as_bytes());
    let byte = text.rfind(r#"{"type""#).unwrap() as u64;
    assert_eq!(
        error.place(),
        Some(Place {
            line: 6,
            seq: LogOffset::new(9),
            byte
        }),
        "{error}"
    );
    let text = file(&["no row", &row("gadget/blinked", 5, "{}")]);
    let error = refused(Container::Raw, text.as_bytes());
    assert_eq!(error.place().unwrap().seq, LogOffset::new(5));
}
