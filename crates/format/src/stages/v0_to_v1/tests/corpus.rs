//! The recorded sessions: which of them rise to V1.

use std::collections::BTreeMap;
use std::fs;

use offshoot_session::LogOffset;
use offshoot_test_support::corpus;

use crate::chain::{Context, Stage};
use crate::codec::{Row, read_row};
use crate::header::StoredHeader;
use crate::record::Refusal;
use crate::stages::V0ToV1;
use crate::version::Version;
use crate::{FormatError, Place};

/// Takes every row of a file to V1.
fn rise(text: &str) -> Result<(), FormatError> {
    let (header, rows) = text.split_once('\n').unwrap();
    let stored = StoredHeader::read(header).unwrap();
    let mut stage = V0ToV1::new(&Context {
        header: &stored.header,
        seed_length: stored.seed_length,
        children: &[],
    });
    let failed = |refusal: Refusal| refusal.into_error(Version::V0);
    for (line, row) in (2..).zip(rows.lines()) {
        let place = Place {
            line,
            seq: LogOffset::START,
            byte: 0,
        };
        let item = match read_row(row, Version::V0, place) {
            Ok(Row::Older(item)) => item,
            other => panic!("{row}: {other:?}"),
        };
        let mut out = Vec::new();
        stage.take(item.clone(), &mut out).map_err(failed)?;
        assert_eq!(out.len(), 1, "every event stays, and stays alone: {row}");
    }
    stage.finish(&mut Vec::new()).map_err(failed)
}

/// The files of V0 that the table of the corpus says are refused by this step: for an early descriptor, or for payloads of
/// another shape. What it says of other files happens later on the way up, or before it.
fn recorded(table: &str) -> BTreeMap<String, &'static str> {
    let section = table.split("\n## ").find(|part| part.starts_with("v0\n"));
    let refusal = |line: &str| {
        let (_, code) = line.split_once("refused: ")?;
        let code = match code.chars().next()? {
            'D' => "D",
            'P' => "P",
            _ => return None,
        };
        Some((line.split('|').nth(1)?.trim().to_owned(), code))
    };
    section.unwrap().lines().filter_map(refusal).collect()
}

#[test]
fn recorded_sessions_rise_unless_their_payloads_were_never_frozen() {
    let name = "recorded_sessions_rise_unless_their_payloads_were_never_frozen";
    let Some(dir) = corpus::corpus_dir() else {
        return corpus::skip_notice(name);
    };
    let recorded = recorded(&fs::read_to_string(dir.join("CORPUS.md")).unwrap());
    let (mut found, mut expected) = (BTreeMap::new(), BTreeMap::new());
    for path in corpus::files("v0-completed") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let code = rise(&fs::read_to_string(&path).unwrap())
            .err()
            .map(|error| match error {
                FormatError::UnsupportedMigration { reason, .. } => {
                    match reason.starts_with("`subagent/descriptor`") {
                        true => "D",
                        false => "P",
                    }
                }
                other => panic!("{name}: {other}"),
            });
        expected.insert(name.clone(), recorded.get(&name).copied());
        found.insert(name, code);
    }
    assert_eq!(found, expected);
    let refused = found.values().flatten().count();
    println!("{refused} of {} files are refused", found.len());
}
