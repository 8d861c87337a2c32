//! One line of an index.

use offshoot_session::{Origin, SessionHeader, SessionId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Revision;
use crate::summary::{Fault, Summary};

/// What is remembered of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) dir: Option<Directory>,
    pub(crate) log: Option<Log>,
}

/// What was in a session's directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Directory {
    #[serde(with = "text")]
    pub(crate) revision: Revision,
    /// The names of the logs of the highest version; none if it holds no log.
    pub(crate) logs: Vec<String>,
}

/// What was in a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Log {
    pub(crate) name: String,
    #[serde(with = "text")]
    pub(crate) revision: Revision,
    #[serde(with = "HeaderRow")]
    pub(crate) header: SessionHeader,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<Result<Summary, Fault>>,
    /// The files of the children that prove something about an older log, as they were when the body was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "texts")]
    pub(crate) evidence: Vec<Revision>,
}

/// A row with its name, on its way out.
#[derive(Serialize)]
struct Written<'a> {
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dir: &'a Option<Directory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: &'a Option<Log>,
}

/// A row with its name, on its way in.
#[derive(Deserialize)]
struct ReadBack {
    key: String,
    dir: Option<Directory>,
    log: Option<Log>,
}

impl Row {
    /// Adds the line of this row: checksum, blank, JSON, line feed.
    pub(crate) fn write(&self, key: &str, out: &mut String) {
        let Self { dir, log } = self;
        let json = serde_json::to_string(&Written { key, dir, log })
            .expect("BUG: a row has only strings and numbers");
        out.push_str(&format!("{:016x} {json}\n", checksum(json.as_bytes())));
    }

    /// Reads a line without its line feed; `None` if it is not whole and right.
    pub(crate) fn read(line: &[u8]) -> Option<(String, Self)> {
        let (sum, json) = line.split_at_checked(17)?;
        let sum = std::str::from_utf8(sum).ok()?.strip_suffix(' ')?;
        if u64::from_str_radix(sum, 16).ok()? != checksum(json) {
            return None;
        }
        let ReadBack { key, dir, log } = serde_json::from_slice(json).ok()?;
        Some((key, Self { dir, log }))
    }
}

/// The members of a header. The compiler says here when there are more of them.
#[derive(Serialize, Deserialize)]
#[serde(remote = "SessionHeader")]
struct HeaderRow {
    id: SessionId,
    created_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<SessionId>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_seeded: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
    #[serde(default)]
    delegation_depth: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent_preset: Option<String>,
}

/// A revision as its text.
mod text {
    use super::{Deserialize as _, Deserializer, Revision, Serializer};

    pub(super) fn serialize<S: Serializer>(revision: &Revision, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(revision)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Revision, D::Error> {
        // No revision has a character that JSON would escape.
        let text = <&str>::deserialize(from)?;
        Revision::parse(text).ok_or_else(|| serde::de::Error::custom("no revision"))
    }
}

/// Revisions as their texts.
mod texts {
    use super::{Deserialize, Deserializer, Revision, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct One(#[serde(with = "super::text")] Revision);

    pub(super) fn serialize<S: Serializer>(all: &[Revision], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(all.iter().copied().map(One))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Revision>, D::Error> {
        let all = Vec::<One>::deserialize(from)?;
        Ok(all.into_iter().map(|One(revision)| revision).collect())
    }
}

/// Tells a text from one that was damaged, and paths apart: quick, and nothing that withstands an enemy. Any change within
/// eight bytes that belong together changes it.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(bytes.len() as u64, |sum, word| {
        mix(sum, u64::from_le_bytes(*word))
    });
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let sum = mix(sum, u64::from_le_bytes(last));
    sum ^ (sum >> 32)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use offshoot_session::{LogOffset, Seq};

    use super::*;
    use crate::listing::Status;

    fn row() -> Row {
        let dir = tempfile::tempdir().unwrap();
        let revision = Revision::of(&fs::metadata(dir.path()).unwrap());
        let header = SessionHeader {
            cwd: Some("/srv/\"demo\"".into()),
            parent: Some("parent".into()),
            is_seeded: true,
            origin: Some(Origin::Subagent),
            delegation_depth: 2,
            agent_preset: Some("preset".into()),
            ..SessionHeader::new("ä\n".into(), 7)
        };
        let summary = Summary {
            version: 4,
            events: LogOffset::new(9),
            turns: 0,
            title: Some("a\tb".into()),
            last_activity: Some(-1),
            cut: Some(Seq::new(0)),
            boundary: None,
            side: true,
            open_turn: None,
            torn: None,
            findings: Vec::new(),
        };
        Row {
            dir: Some(Directory {
                revision,
                logs: vec!["session.v4.jsonl".into()],
            }),
            log: Some(Log {
                name: "session.v4.jsonl".into(),
                revision,
                header,
                body: Some(Ok(summary)),
                evidence: vec![revision],
            }),
        }
    }

    #[test]
    fn a_row_reads_back_whole_and_never_in_part_or_changed() {
        let fault = Fault {
            status: Status::Damaged,
            code: "DAMAGED_LOG".into(),
            reason: "line 3".into(),
        };
        let mut damaged = row();
        damaged.log.as_mut().unwrap().body = Some(Err(fault));
        for row in [row(), damaged, Row::default()] {
            let mut text = String::new();
            row.write("p/é", &mut text);
            let line = text.strip_suffix('\n').unwrap().as_bytes();
            assert_eq!(Row::read(line), Some(("p/é".to_owned(), row)));
            for at in 0..line.len() {
                assert_eq!(Row::read(&line[..at]), None, "cut at {at}");
                let mut changed = line.to_vec();
                changed[at] ^= 1;
                assert_eq!(Row::read(&changed), None, "changed at {at}");
            }
        }
    }
}
