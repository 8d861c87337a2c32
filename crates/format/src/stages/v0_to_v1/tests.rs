//! Rule by rule (`reference/persistence.md` §2.3): whole rows before and after.

mod corpus;
mod legacy;
mod refusals;

use offshoot_session::LogOffset;

use crate::chain::{Chain, Item};
use crate::codec::{Row, read_row};
use crate::header::StoredHeader;
use crate::version::Version;
use crate::{FormatError, Place};

/// The rows of V1 that rows of V0 become, for the session `s`. `header` is what its header has besides.
fn risen(header: &str, rows: &[impl AsRef<str>]) -> Result<Vec<String>, FormatError> {
    let header = format!(
        r#"{{"type":"session","version":0,"id":"s","createdAt":77,{header}"delegationDepth":0}}"#
    );
    let header = StoredHeader::read(&header).unwrap();
    let items: Vec<Item> = (2..)
        .zip(rows)
        .map(|(line, row)| {
            let place = Place {
                line,
                seq: LogOffset::START,
                byte: 0,
            };
            match read_row(row.as_ref(), Version::V0, place) {
                Ok(Row::Older(item)) => item,
                other => panic!("{}: {other:?}", row.as_ref()),
            }
        })
        .collect();
    let records = Chain::new(&header, Version::V1, &[]).records(items)?;
    let rows = records.iter().map(|record| record.render(Version::V1));
    Ok(rows.collect())
}

fn event(seq: u64, kind: &str, data: &str) -> String {
    let time = seq + 100;
    let surface = match kind {
        "user/message" | "steering/message" | "assistant/message" | "tool/result" => {
            r#","surfaceOp":"append""#
        }
        _ => "",
    };
    format!(r#"{{"type":"{kind}","seq":{seq},"time":{time},"data":{data}{surface}}}"#)
}

/// The payload of the only event, which is at seq 7, before and after; the type before and after.
#[track_caller]
fn assert_becomes(before: [&str; 2], after: [&str; 2]) {
    let row = |[kind, data]: [&str; 2]| event(7, kind, data);
    assert_eq!(risen("", &[row(before)]), Ok(vec![row(after)]));
}

#[track_caller]
fn assert_stays(kind: &str, data: &str) {
    assert_becomes([kind, data], [kind, data]);
}

/// Why an event of this type is not brought up.
#[track_caller]
fn unsupported(kind: &str, data: &str) -> String {
    match risen("", &[event(7, kind, data)]) {
        Err(FormatError::UnsupportedMigration {
            version: 0,
            place: Some(place),
            reason,
        }) => {
            assert_eq!(place.line, 2);
            let reason = reason.strip_prefix(&format!("`{kind}`: "));
            reason.expect("the reason begins with the type").into()
        }
        other => panic!("{other:#?}"),
    }
}

#[test]
fn what_needs_nothing_keeps_its_text_and_its_number() {
    let rows = [
        event(0, "turn/start", r#"{ "turn" : 1 }"#),
        event(1, "step/start", r#"{"step":1,  "tu\u0072n":1}"#),
        event(
            2,
            "user/message",
            r#"{"source":{"kind":"vendor","x":1.50},"id":"m","role":"user","content":[{"type":"vendor:x","y":-0}]}"#,
        ),
        event(
            3,
            "assistant/chunk",
            r#"{"turn":1,"step":1,"chunk":{"type":"block-start","index":0,"blockType":"\ud800"}}"#,
        ),
        event(
            4,
            "assistant/message",
            r#"{"turn":1,"step":1,"message":{"id":"a","role":"assistant","content":[],"source":{"kind":"model","provider":"p","model":"m"}}}"#,
        ),
        event(
            5,
            "tool/call",
            r#"{"turn":1,"step":1,"callId":"c","name":"ls","arguments":"{"}"#,
        ),
        event(
            6,
            "tool/result",
            r#"{"turn":1,"step":1,"message":{"id":"r","role":"user","source":{"kind":"tool","callId":"c"},"content":[{"type":"tool-result","toolCallId":"c","content":[]}]},"meta":{"a":1e2}}"#,
        ),
        event(7, "compaction/start", r#"{"compactionId":"k","turn":1}"#),
        event(
            8,
            "compaction/end",
            r#"{"compactionId":"k","turn":1,"error":"e"}"#,
        ),
        event(
            9,
            "turn/end",
            r#"{"turn":1,"reason":{"kind":"vendor:bored","x":[]}}"#,
        ),
        event(10, "session/end-seed", "{}"),
    ];
    assert_eq!(risen("", &rows), Ok(rows.to_vec()));
}

#[test]
fn numbers_go_on_behind_what_is_normalised_and_behind_packed_rows() {
    let packed = r#"{"type":"text-chunks","seq0":1,"time0":5,"data":{"turn":1,"step":1,"index":0,"dt":[1,1],"texts":["a","b","c"]}}"#;
    let place = Place {
        line: 3,
        seq: LogOffset::START,
        byte: 0,
    };
    let header = r#"{"type":"session","version":0,"id":"s","createdAt":77,"delegationDepth":0}"#;
    let header = StoredHeader::read(header).unwrap();
    let read = |row: &str| match read_row(row, Version::V0, place) {
        Ok(Row::Older(item)) => item,
        other => panic!("{other:?}"),
    };
    let mut stage = super::V0ToV1::new(&crate::chain::Context {
        header: &header.header,
        seed_length: None,
        children: &[],
    });
    let mut out = Vec::new();
    let started = event(0, "turn/start", r#"{"turn":1,"trigger":{"kind":"user"}}"#);
    let ended = event(4, "turn/end", r#"{"turn":1,"reason":{"kind":"disposed"}}"#);
    for row in [&*started, packed, &*ended] {
        crate::chain::Stage::take(&mut stage, read(row), &mut out).unwrap();
    }
    let reason = r#"{"turn":1,"reason":{"kind":"aborted","reason":{"kind":"disposed"}}}"#;
    assert_eq!(
        out,
        [
            read(&event(0, "turn/start", r#"{"turn":1}"#)),
            read(packed),
            read(&event(4, "turn/end", reason)),
        ]
    );
}
