//! Rule by rule (`reference/persistence.md` §2.4), and the recorded sessions.

mod attempts;
mod corpus;
mod log;

use super::V1ToV2;
use crate::FormatError;
use crate::Place;
use crate::chain::{Chain, Context, Item, Stage};
use crate::codec::{Row, read_row};
use crate::header::StoredHeader;
use crate::record::Record;
use crate::version::Version;
use offshoot_session::LogOffset;

fn items(header: &StoredHeader, rows: &[impl AsRef<str>]) -> Vec<Item> {
    let items = (2..).zip(rows).map(|(line, row)| {
        let place = Place {
            line,
            seq: LogOffset::START,
            byte: 0,
        };
        match read_row(row.as_ref(), header.version, place) {
            Ok(Row::Older(item)) => item,
            other => panic!("{}: {other:?}", row.as_ref()),
        }
    });
    items.collect()
}

/// The records of V2 that the rows of an older version become.
fn risen(header: &str, rows: &[impl AsRef<str>]) -> Result<Vec<Record>, FormatError> {
    let header = StoredHeader::read(header).unwrap();
    let items = items(&header, rows);
    Chain::new(&header, Version::V2, &[]).records(items)
}

/// How many events of V2 are there when that many rows have been read, and more may come.
fn written_so_far(rows: &[String]) -> usize {
    let stored = StoredHeader::read(&header(None)).unwrap();
    let mut stage = V1ToV2::new(&Context {
        header: &stored.header,
        seed_length: None,
        children: &[],
    });
    let mut out = Vec::new();
    for item in items(&stored, rows) {
        stage.take(item, &mut out).unwrap();
    }
    out.len()
}

fn header(seed_length: Option<u64>) -> String {
    let seed = seed_length.map_or_else(String::new, |length| format!(r#""seedLength":{length},"#));
    format!(r#"{{"type":"session","version":1,"id":"s","createdAt":77,{seed}"delegationDepth":0}}"#)
}

/// The rows of V2 that these become. The times are the seqs and a hundred.
fn upper(seed_length: Option<u64>, rows: &[String]) -> Result<Vec<String>, FormatError> {
    let records = risen(&header(seed_length), rows)?;
    Ok(records
        .iter()
        .map(|record| record.render(Version::V2))
        .collect())
}

#[track_caller]
fn assert_rises(rows: &[String], expected: &[String]) {
    assert_eq!(upper(None, rows), Ok(expected.to_vec()));
}

#[track_caller]
fn unsupported(seed_length: Option<u64>, rows: &[String]) -> String {
    match upper(seed_length, rows) {
        Err(FormatError::UnsupportedMigration {
            version: 1,
            place: Some(place),
            reason,
        }) => format!("{}: {reason}", place.line),
        other => panic!("{other:#?}"),
    }
}

#[track_caller]
fn damaged(rows: &[String]) -> String {
    match upper(None, rows) {
        Err(FormatError::Damaged { place, reason }) => format!("{}: {reason}", place.line),
        other => panic!("{other:#?}"),
    }
}

fn at(seq: u64, time: u64, kind: &str, data: &str) -> String {
    format!(r#"{{"type":"{kind}","seq":{seq},"time":{time},"data":{data}}}"#)
}

fn event(seq: u64, kind: &str, data: &str) -> String {
    at(seq, seq + 100, kind, data)
}

/// The row with more members at its end.
fn with(row: &str, members: &str) -> String {
    format!("{},{members}}}", row.strip_suffix('}').unwrap())
}

fn chunk_in(seq: u64, step: u64, chunk: &str) -> String {
    let data = format!(r#"{{"turn":1,"step":{step},"chunk":{chunk}}}"#);
    event(seq, "assistant/chunk", &data)
}

fn chunk(seq: u64, chunk: &str) -> String {
    chunk_in(seq, 1, chunk)
}

const TEXT: &str = r#"{"type":"text-delta","index":0,"text":"a"}"#;
const FINISH: &str = r#"{"type":"finish","reason":{"kind":"stop"}}"#;

fn text_record(time0: u64) -> String {
    format!(r#"{{"type":"text-chunks","time0":{time0},"index":0,"dt":[],"texts":["a"]}}"#)
}

fn finish_record(time: u64) -> String {
    format!(r#"{{"type":"chunk","time":{time},"chunk":{FINISH}}}"#)
}

/// An assistant message with a payload of its own turn and step, `members` of the envelope, and a stream if it has one.
fn message_at(seq: u64, time: u64, stream: Option<&str>, members: &str) -> String {
    let stream = stream.map_or_else(String::new, |stream| format!(r#","stream":{stream}"#));
    let data = format!(r#"{{"turn":1,"step":1,"message":{{"id":"m"}}{stream}}}"#);
    with(&at(seq, time, "assistant/message", &data), members)
}

fn message(seq: u64, members: &str) -> String {
    message_at(seq, seq + 100, None, members)
}

fn attempt(seq: u64, time: u64, records: &[String]) -> String {
    let records = records.join(",");
    let data = format!(r#"{{"turn":1,"step":1,"stream":[{records}]}}"#);
    at(seq, time, "assistant/attempt", &data)
}

const APPEND: &str = r#""surfaceOp":"append""#;

fn citing(sources: &str) -> String {
    format!(r#""sourceEventSeqs":{sources},{APPEND}"#)
}

/// A user message that the surface holds.
fn user(seq: u64, time: u64) -> String {
    with(&at(seq, time, "user/message", r#"{"id":"u"}"#), APPEND)
}
