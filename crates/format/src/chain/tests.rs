//! The whole way up, held against what the released programs made of the recorded sessions.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use offshoot_test_support::corpus;
use serde_json::{Value, json};

use super::*;
use crate::Place;
use crate::codec::{Row, read_row};
use crate::{Container, Status, decode_as};

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// The rows of a whole file of any version below V4, read as they stand.
fn items(text: &str) -> (StoredHeader, Vec<Item>) {
    let mut lines = text.lines();
    let header = StoredHeader::read(lines.next().unwrap()).unwrap();
    let place = Place {
        line: 0,
        seq: offshoot_session::LogOffset::START,
        byte: 0,
    };
    let items = lines.map(
        |line| match read_row(line, header.version, place).unwrap() {
            Row::Older(item) => item,
            Row::Current(_) => panic!("no older version"),
        },
    );
    let items = items.collect();
    (header, items)
}

/// The file at V3, row by row.
fn at_v3(text: &str) -> Vec<Value> {
    let (header, items) = items(text);
    let mut chain = Chain::new(&header, Version::V3, &[]);
    let records = chain.records(items).unwrap();
    let rows = records.iter().map(|record| record.render(Version::V3));
    rows.map(|row| serde_json::from_str(&row).unwrap())
        .collect()
}

/// Splits every packed record of an embedded stream into single chunks, because the grouping of chunks that were stored
/// one by one is the one thing that is not known of the released programs.
fn expand_streams(row: &mut Value) {
    let Some(stream) = row
        .pointer_mut("/data/stream")
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    let single = |record: Value| -> Vec<Value> {
        let (kind, parts) = match record["type"].as_str().unwrap() {
            "chunk" => return vec![record],
            "text-chunks" => ("text-delta", "texts"),
            "reasoning-chunks" => ("reasoning-delta", "texts"),
            "tool-call-chunks" => ("tool-call-delta", "args"),
            other => panic!("unknown record {other}"),
        };
        let mut time = record["time0"].as_i64().unwrap();
        let steps = record["dt"].as_array().unwrap();
        let mut single = Vec::new();
        for (at, part) in record[parts].as_array().unwrap().iter().enumerate() {
            if at > 0 {
                time += steps[at - 1].as_i64().unwrap();
            }
            let mut chunk = json!({"type": kind, "index": record["index"]});
            if kind == "tool-call-delta" {
                chunk["id"] = record["id"].clone();
                if let Some(name) = record.get("name") {
                    chunk["name"] = name.clone();
                }
                chunk["argumentsDelta"] = part.clone();
            } else {
                chunk["text"] = part.clone();
            }
            single.push(json!({"type": "chunk", "time": time, "chunk": chunk}));
        }
        single
    };
    *stream = std::mem::take(stream)
        .into_iter()
        .flat_map(single)
        .collect();
}

#[test]
fn the_stage_at_v3_equals_what_the_released_programs_made() {
    let sources = ["v0", "v0-completed", "v1-completed", "v2-completed"];
    if corpus::corpus_dir().is_none() {
        return corpus::skip_notice("the_stage_at_v3_equals_what_the_released_programs_made");
    }
    let mut equal = BTreeMap::new();
    for source in sources {
        for expected in corpus::files(Path::new("expected-v3").join(source)) {
            let name = name(&expected);
            let stored = corpus::corpus_dir().unwrap().join(source).join(&name);
            let stored = fs::read_to_string(stored).unwrap();
            let expected = fs::read_to_string(expected).unwrap();
            let mut lines = expected.lines();
            let header = StoredHeader::read(lines.next().unwrap()).unwrap();
            assert_eq!(items(&stored).0.header, header.header, "{source}/{name}");
            let mut made = at_v3(&stored);
            let mut rows: Vec<Value> = lines
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            if source != "v2-completed" {
                made.iter_mut().for_each(expand_streams);
                rows.iter_mut().for_each(expand_streams);
            }
            for (made, row) in made.iter().zip(&rows) {
                assert_eq!(made, row, "{source}/{name}");
            }
            assert_eq!(made.len(), rows.len(), "{source}/{name}");
            *equal.entry(source).or_insert(0) += 1;
        }
    }
    println!("files whose V3 stage equals the released one: {equal:?}");
    assert_eq!(equal.len(), sources.len());
}

/// Why the released programs refuse a file on its way to V3, by the codes of the corpus's own table.
fn code_of(error: &FormatError) -> &'static str {
    let text = error.to_string();
    match error {
        FormatError::UnsupportedMigration { .. } if text.contains("subagent/descriptor") => "D",
        FormatError::UnsupportedMigration { .. } if text.contains("step/start") => "S",
        FormatError::UnsupportedMigration { .. } => "P",
        FormatError::Damaged { .. } if text.contains("not earlier") => "Q",
        FormatError::Damaged { .. } if text.contains("compact") => "K",
        FormatError::Damaged { .. } => "L",
        _ => "?",
    }
}

/// The codes in the table that comes with the corpus, by directory and file.
fn recorded_refusals(corpus: &Path) -> BTreeMap<(String, String), String> {
    let table = fs::read_to_string(corpus.join("CORPUS.md")).unwrap();
    let mut section = String::new();
    let mut codes = BTreeMap::new();
    for line in table.lines() {
        if let Some(version) = line.strip_prefix("## v") {
            section = format!("v{version}-completed");
        }
        let Some((_, code)) = line.split_once("refused: ") else {
            continue;
        };
        if let (Some(name), Some(code)) = (line.split('|').nth(1), code.split([' ', ',']).next()) {
            codes.insert((section.clone(), name.trim().to_owned()), code.to_owned());
        }
    }
    codes
}

#[test]
fn every_recorded_session_is_loaded_or_refused_as_the_released_programs_do() {
    let Some(corpus) = corpus::corpus_dir() else {
        return corpus::skip_notice(
            "every_recorded_session_is_loaded_or_refused_as_the_released_programs_do",
        );
    };
    let recorded = recorded_refusals(&corpus);
    let mut differing = Vec::new();
    for version in 0..=4 {
        let dir = format!("v{version}-completed");
        for path in corpus::files(&dir) {
            let (bytes, name) = (fs::read(&path).unwrap(), name(&path));
            let outcome = decode_as(Container::Raw, &bytes);
            let code = outcome.as_ref().err().map(code_of);
            let expected = recorded
                .get(&(dir.clone(), name.clone()))
                .map(String::as_str);
            let told = match &outcome {
                Ok(stored) => {
                    assert_eq!(stored.version, version, "{dir}/{name}");
                    assert_eq!(stored.tail, None, "{dir}/{name}");
                    format!("loaded, {} events", stored.log.end())
                }
                Err(error) => format!("{} {}: {error}", Status::from(error), code.unwrap_or("")),
            };
            println!("{dir:13} {name}: {told}");
            if code != expected {
                differing.push(format!("{dir}/{name}: expected {expected:?}, {told}"));
            }
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn rows_of_older_versions_are_written_again_byte_for_byte() {
    let dirs = [
        "v0-completed",
        "v1-completed",
        "v2-completed",
        "v3-completed",
    ];
    let expected = ["v0", "v0-completed", "v1-completed", "v2-completed"]
        .map(|dir| format!("expected-v3/{dir}"));
    let files: Vec<PathBuf> = dirs
        .map(str::to_owned)
        .iter()
        .chain(&expected)
        .flat_map(corpus::files)
        .collect();
    if files.is_empty() {
        return corpus::skip_notice("rows_of_older_versions_are_written_again_byte_for_byte");
    }
    let mut rows = 0;
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let (header, items) = items(&text);
        for (line, item) in text.lines().skip(1).zip(items) {
            if let Item::Event(record) = item {
                let again = record.render(header.version);
                // Early programs of V0 wrote plain lists of cited events; its released codec packs them.
                if header.version == Version::V0 && again != line {
                    let again = read_row(&again, Version::V0, record.place).unwrap();
                    assert!(matches!(again, Row::Older(Item::Event(again)) if again == record));
                } else {
                    assert_eq!(again, line, "{}", path.display());
                }
                rows += 1;
            }
        }
    }
    println!("{rows} rows");
}
