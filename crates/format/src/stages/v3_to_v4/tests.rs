//! Rule by rule: what a log of V3 becomes, and what is refused (`reference/persistence.md` §2.6).

mod catalog;
mod messages;
mod results;

use offshoot_session::LogOffset;

use crate::chain::Chain;
use crate::codec::{Row, read_row};
use crate::evidence::ChildEvidence;
use crate::header::StoredHeader;
use crate::version::Version;
use crate::{Container, FormatError, Place, StoredSession, decode_as};

const HEADER: &str =
    r#"{"type":"session","version":3,"id":"s","createdAt":7,"isSeeded":false,"delegationDepth":0}"#;

/// The rows of V4 that these become, with what children prove.
fn upper_with(children: &[ChildEvidence], rows: &[String]) -> Result<Vec<String>, FormatError> {
    let header = StoredHeader::read(HEADER).unwrap();
    let items = (2..).zip(rows).map(|(line, row)| {
        let place = Place {
            line,
            seq: LogOffset::START,
            byte: 0,
        };
        match read_row(row, Version::V3, place) {
            Ok(Row::Older(item)) => item,
            other => panic!("{row}: {other:?}"),
        }
    });
    let items: Vec<_> = items.collect();
    let records = Chain::new(&header, Version::V4, children).records(items)?;
    let rows = records.iter().map(|record| record.render(Version::V4));
    Ok(rows.collect())
}

fn upper(rows: &[String]) -> Result<Vec<String>, FormatError> {
    upper_with(&[], rows)
}

#[track_caller]
fn assert_rises(rows: &[String], expected: &[String]) {
    assert_eq!(upper(rows), Ok(expected.to_vec()));
}

/// Asserts what one row with this type and payload becomes.
#[track_caller]
fn assert_becomes(kind: &str, data: &str, expected: &str) {
    assert_rises(&[row(kind, data)], &[row(kind, expected)]);
}

/// Why the row is intact, but cannot be brought up.
#[track_caller]
fn unsupported(row: String) -> String {
    match upper(&[row]) {
        Err(FormatError::UnsupportedMigration {
            version: 3,
            place: Some(Place { line: 2, .. }),
            reason,
        }) => reason,
        other => panic!("{other:#?}"),
    }
}

/// Why the row is damage.
#[track_caller]
fn damaged(row: String) -> String {
    match upper(&[row]) {
        Err(FormatError::Damaged {
            place: Place { line: 2, .. },
            reason,
        }) => reason,
        other => panic!("{other:#?}"),
    }
}

fn at(seq: u64, time: u64, kind: &str, data: &str) -> String {
    format!(r#"{{"type":"{kind}","seq":{seq},"time":{time},"data":{data}}}"#)
}

/// The row with more members at its end.
fn with(row: &str, members: &str) -> String {
    format!("{},{members}}}", row.strip_suffix('}').unwrap())
}

const APPEND: &str = r#""surfaceOp":"append""#;

/// A row at seq 0, appended to the surface if its type is on it.
fn row(kind: &str, data: &str) -> String {
    let row = at(0, 100, kind, data);
    match Version::V3.is_surface(kind) {
        true => with(&row, APPEND),
        false => row,
    }
}

/// A raw file of the version: its header, then the rows.
fn file(version: u64, rows: &[String]) -> String {
    let header = HEADER.replace(r#""version":3"#, &format!(r#""version":{version}"#));
    let lines = std::iter::once(&header).chain(rows);
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn load(text: &str) -> Result<StoredSession, FormatError> {
    decode_as(Container::Raw, text.as_bytes())
}

/// The file of V4 that holds the session.
fn written(stored: &StoredSession) -> String {
    let header = String::from_utf8(Container::Raw.header(&stored.header).unwrap()).unwrap();
    let events = stored.log.events().map(|event| &**event);
    header + std::str::from_utf8(&Container::Raw.batch(events)).unwrap()
}

fn turn(seq: u64, time: u64, number: u64) -> String {
    at(seq, time, "turn/start", &format!(r#"{{"turn":{number}}}"#))
}

fn queued(seq: u64, time: u64) -> String {
    let message = r#"{"id":"u","role":"user","content":[],"source":{"kind":"user"}}"#;
    let data = format!(r#"{{"target":"next-turn","start":0,"inserted":[{message}]}}"#);
    at(seq, time, "agent/inbox/spliced", &data)
}

#[test]
fn a_turn_that_a_restart_left_open_is_ended_and_every_reference_follows() {
    let end = at(
        3,
        103,
        "turn/end",
        r#"{"turn":1,"reason":{"kind":"interrupted"}}"#,
    );
    let ahead = vec![
        with(
            &at(
                0,
                100,
                "user/message",
                r#"{"id":"a","role":"user","content":[],"source":{"kind":"user"}}"#,
            ),
            APPEND,
        ),
        turn(1, 101, 1),
        queued(2, 102),
    ];
    let behind = |moved: u64| {
        let n = |seq: u64| seq + moved;
        let user = r#"{"id":"b","role":"user","content":[],"source":{"kind":"user"}}"#;
        let span = format!(
            r#"{{"shadowedRange":{{"start":0,"end":{0}}},"shadowedSeqs":[0,{0}]}}"#,
            n(4)
        );
        vec![
            turn(n(3), 103, 2),
            with(&at(n(4), 104, "user/message", user), APPEND),
            with(
                &at(n(5), 105, "user/message", user),
                &format!(
                    r#""sourceEventSeqs":[0,{0}],"surfaceOp":{{"op":"replace","startSeq":0,"endSeq":{0}}}"#,
                    n(4)
                ),
            ),
            at(n(6), 106, "compaction/summary", &span),
            at(n(7), 107, "compaction/prune", &span),
            at(
                n(8),
                108,
                "session/title",
                &format!(r#"{{"title":"t","messageSeqs":[0,{}]}}"#, n(4)),
            ),
            at(
                n(9),
                109,
                "session/title-llm-request",
                &format!(r#"{{"messageSeqs":[{}],"messages":[]}}"#, n(4)),
            ),
            at(
                n(10),
                110,
                "command/done",
                &format!(r#"{{"commandId":"c","sourceEventSeq":{}}}"#, n(3)),
            ),
            at(
                n(11),
                111,
                "image/offload",
                &format!(
                    r#"{{"targets":[{{"seq":0,"imageIndexes":[4]}},{{"seq":{},"imageIndexes":[0]}}]}}"#,
                    n(4)
                ),
            ),
        ]
    };
    assert_rises(
        &[ahead.clone(), behind(0)].concat(),
        &[ahead, vec![end], behind(1)].concat(),
    );
    let opaque = with(&at(3, 103, "gadget/blinked", "{}"), r#""ignorable":true"#);
    let kept = [
        vec![turn(0, 100, 1), queued(1, 101)],
        vec![at(2, 102, "todo/write", "{}"), turn(3, 103, 2)],
    ];
    assert_rises(&kept.concat(), &kept.concat());
    // An event that may be passed over is one as well.
    let rows = [turn(1, 101, 1), queued(2, 102), opaque, turn(4, 104, 2)];
    let mut expected = rows.clone();
    expected[2] = rows[2].replace("gadget", "plugin:gadget");
    let first = at(0, 100, "todo/write", "{}");
    assert_rises(
        &[std::slice::from_ref(&first), &rows[..]].concat(),
        &[std::slice::from_ref(&first), &expected[..]].concat(),
    );
}

#[test]
fn references_that_lead_nowhere_are_damage() {
    for (kind, data, reason) in [
        (
            "session/title",
            r#"{"messageSeqs":[0]}"#,
            "names event 0, which is not ahead of it",
        ),
        (
            "session/title",
            r#"{"messageSeqs":"0"}"#,
            "`messageSeqs` must name events",
        ),
        (
            "image/offload",
            r#"{"targets":{}}"#,
            "`targets` must name events",
        ),
        (
            "image/offload",
            r#"{"targets":[{}]}"#,
            "`targets` must name events",
        ),
        (
            "compaction/prune",
            r#"{"shadowedRange":{"start":"0"}}"#,
            "`shadowedRange` must name events",
        ),
        (
            "command/done",
            r#"{"sourceEventSeq":-1}"#,
            "`sourceEventSeq` must name events",
        ),
    ] {
        assert_eq!(damaged(row(kind, data)), format!("`{kind}`: {reason}"));
    }
}

#[test]
fn unknown_events_that_may_be_passed_over_are_renamed_and_nothing_else() {
    for (kind, data, members) in [
        ("gadget/blinked", "{}", String::new()),
        ("gadget/blinked", "[ 1.0 , null ]", String::new()),
        (
            "gadget/blinked",
            r#"{"source":{"kind":"plugin","plugin":"compact"},"content":[{"type":"audio"}]}"#,
            r#","sourceEventSeqs":[[0,9],3],"surfaceOp":{"op":"replace","start":77}"#.into(),
        ),
        (
            "tool/code-dispatch",
            r#"{"content":[{"type":"x"}]}"#,
            String::new(),
        ),
        (
            "developer/message",
            r#"{"message":{"id":"d"}}"#,
            format!(",{APPEND}"),
        ),
        ("plugin:mine", "0", String::new()),
    ] {
        let ignorable = format!(r#""ignorable":true{members}"#);
        let rows = [
            turn(0, 100, 1),
            queued(1, 101),
            turn(2, 102, 2),
            with(&at(3, 103, kind, data), &ignorable),
        ];
        let made = upper(&rows).unwrap();
        let members = match members.strip_prefix(',') {
            Some(members) => format!(r#"{members},"ignorable":true"#),
            None => r#""ignorable":true"#.to_owned(),
        };
        let renamed = with(&at(4, 103, &format!("plugin:{kind}"), data), &members);
        assert_eq!(made.last(), Some(&renamed));
    }
}

#[test]
fn unknown_events_that_a_reader_must_know_are_refused() {
    for kind in [
        "gadget/blinked",
        "developer/message",
        "tool/code-dispatch",
        "plugin:mine",
    ] {
        let unknown = with(&at(1, 101, kind, r#"{"id":"d"}"#), APPEND);
        let text = file(3, &[turn(0, 100, 1), unknown]);
        match load(&text) {
            Err(FormatError::UnknownRequiredEvent { place, kind: found }) => {
                assert_eq!((place.line, &*found), (3, kind));
            }
            other => panic!("{kind}: {other:#?}"),
        }
    }
}

#[test]
fn tools_that_were_deferred_mean_something_else_now() {
    let header = |tool: &str| {
        let data = format!(
            r#"{{"header":{{"config":{{"provider":"p","model":"m"}},"tools":[{{"name":"a"}},{tool}]}},"reason":"initial"}}"#
        );
        row("request/header", &data)
    };
    for deferred in ["true", "false", "null"] {
        let tool = format!(r#"{{"name":"b","deferLoading":{deferred}}}"#);
        assert_eq!(
            unsupported(header(&tool)),
            "`request/header`: `deferLoading` has another meaning since V4"
        );
    }
    let plain = [header(r#"{"name":"b","parameters":{"deferLoading":true}}"#)];
    assert_rises(&plain, &plain);
}

#[test]
fn a_log_cannot_have_been_delivered_as_the_version_above() {
    let delivered = |version: &str| {
        let data = format!(r#"{{"sessionId":"s","throughSeq":0{version}}}"#);
        row("session-log-deepseek/delivery-accepted", &data)
    };
    for version in [
        "",
        r#","sessionFormatVersion":0"#,
        r#","sessionFormatVersion":3"#,
    ] {
        let rows = [delivered(version)];
        assert_rises(&rows, &rows);
    }
    assert_eq!(
        unsupported(delivered(r#","sessionFormatVersion":4"#)),
        "`session-log-deepseek/delivery-accepted`: a V3 log cannot have been delivered as V4"
    );
}
