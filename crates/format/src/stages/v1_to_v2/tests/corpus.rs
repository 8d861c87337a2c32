//! The recorded sessions against what the released programs made of them.

use std::fs;
use std::path::Path;

use offshoot_model::{Chunk, StreamRecord, expand};
use offshoot_test_support::corpus;
use serde_json::Value;

use super::risen;
use crate::version::Version;

/// What the steps around this one leave as it is.
#[derive(Debug, PartialEq)]
struct Trace {
    kind: String,
    time: i64,
    /// Delta by delta, because runs may be cut in several ways.
    stream: Option<Vec<(i64, Chunk)>>,
    /// The events that the record names, counted without `system/message`, which the next step inserts.
    named: Vec<u64>,
    marked: bool,
}

fn traces<'a>(rows: impl IntoIterator<Item = &'a str>) -> Vec<Trace> {
    let rows = rows
        .into_iter()
        .map(|row| serde_json::from_str(row).unwrap());
    let rows: Vec<Value> = rows.collect();
    let is_inserted = |row: &Value| row["type"] == "system/message";
    let rank = |seq: u64| {
        let ahead = rows[..seq as usize].iter().filter(|row| is_inserted(row));
        seq - ahead.count() as u64
    };
    let trace = |row: &Value| {
        let data = &row["data"];
        let stream = data.get("stream").map(|stream| {
            let records: Vec<StreamRecord> = serde_json::from_value(stream.clone()).unwrap();
            expand(&records)
        });
        let mut named = Vec::new();
        for place in [
            &row["sourceEventSeqs"],
            &row["surfaceOp"],
            &data["messageSeqs"],
            &data["shadowedSeqs"],
            &data["shadowedRange"],
            &data["sourceEventSeq"],
        ] {
            seqs(place, &mut named);
        }
        Trace {
            kind: row["type"]
                .as_str()
                .unwrap()
                .replace("code-dispatch", "ptc-dispatch"),
            time: row["time"].as_i64().unwrap(),
            stream,
            named: named.into_iter().map(rank).collect(),
            marked: data["inherited"] == true,
        }
    };
    rows.iter()
        .filter(|row| !is_inserted(row))
        .map(trace)
        .collect()
}

/// Every number in the value, in its order.
fn seqs(value: &Value, found: &mut Vec<u64>) {
    match value {
        Value::Number(seq) => found.extend(seq.as_u64()),
        Value::Array(items) => items.iter().for_each(|item| seqs(item, found)),
        Value::Object(members) => members.values().for_each(|item| seqs(item, found)),
        _ => {}
    }
}

#[test]
fn recorded_streams_become_what_the_released_programs_made_of_them() {
    let (mut streams, mut named) = (0, 0);
    for directory in ["v0", "v0-completed", "v1-completed"] {
        for path in corpus::files(Path::new("expected-v3").join(directory)) {
            let name = format!("{directory}/{}", path.file_name().unwrap().display());
            let source = corpus::corpus_dir().unwrap().join(&name);
            let text = fs::read_to_string(source).unwrap();
            let (header, rows) = text.split_once('\n').unwrap();
            let rows: Vec<&str> = rows.lines().collect();
            let records = risen(header, &rows).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(
                (0..).zip(&records).all(|(seq, record)| record.seq == seq),
                "{name}"
            );

            let found: Vec<String> = records.iter().map(|it| it.render(Version::V2)).collect();
            let found = traces(found.iter().map(String::as_str));
            let expected = fs::read_to_string(&path).unwrap();
            assert_eq!(found, traces(expected.lines().skip(1)), "{name}");
            streams += found.iter().filter(|trace| trace.stream.is_some()).count();
            named += found.iter().map(|trace| trace.named.len()).sum::<usize>();
        }
    }
    if streams + named == 0 {
        corpus::skip_notice("recorded_streams_become_what_the_released_programs_made_of_them");
    }
}
