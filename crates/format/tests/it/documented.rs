//! `docs/format.md` says nothing about bytes that is not tried here.

use std::ops::Range;

use offshoot_format::{Container, FormatError, Status, StoredSession, decode, encode_header};
use offshoot_model::verify_stream;
use offshoot_session::{
    Event, EventKind, Seq, build_fork_seed, decode_sources, encode_sources, open_turn_closers,
};
use serde_json::Value;

use crate::support::rows;

const DOCUMENT: &str = include_str!("../../../../docs/format.md");

/// A fenced block: what stands behind the fence, where, and what is in it.
struct Block {
    tag: Vec<&'static str>,
    line: usize,
    text: &'static str,
}

fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<(Vec<&str>, usize, usize)> = None;
    let mut at = 0;
    for (line, text) in (1..).zip(DOCUMENT.split_inclusive('\n')) {
        let start = at;
        at += text.len();
        let Some(info) = text.strip_prefix("```") else {
            continue;
        };
        match open.take() {
            None => open = Some((info.split_whitespace().collect(), line, at)),
            Some((tag, line, from)) => blocks.push(Block {
                tag,
                line,
                text: &DOCUMENT[from..start],
            }),
        }
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

/// The blocks of rows, by what their tag says of them.
fn rows_tagged(tag: &str) -> impl Iterator<Item = Block> {
    let tag = tag.to_owned();
    blocks().into_iter().filter(move |block| {
        block.tag[0] == "jsonl" && block.tag.get(1).copied().unwrap_or("whole") == tag
    })
}

impl Block {
    /// A word of the tag, from 1 on.
    fn word(&self, at: usize) -> &'static str {
        self.tag[at]
    }

    fn number(&self, at: usize) -> u64 {
        self.word(at).parse().unwrap()
    }

    #[track_caller]
    fn stored(&self) -> StoredSession {
        self.decoded()
            .unwrap_or_else(|error| panic!("the block at line {}: {error}", self.line))
    }

    fn decoded(&self) -> Result<StoredSession, FormatError> {
        decode(self.text.as_bytes())
    }

    fn is_file(&self) -> bool {
        self.text.starts_with(r#"{"type":"session","#)
    }

    fn lines(&self) -> Vec<&'static str> {
        self.text.lines().collect()
    }
}

/// The rows of the only table with this head, cell by cell.
fn table(head: &str) -> Vec<Vec<&'static str>> {
    let mut tables = DOCUMENT
        .split("\n\n")
        .filter_map(|part| part.trim_start().strip_prefix(head));
    let body = tables.next().unwrap_or_else(|| panic!("no table {head}"));
    assert!(tables.next().is_none(), "two tables {head}");
    let lines = body.lines().skip(2);
    lines
        .map(|line| {
            line.trim_matches('|')
                .split(" | ")
                .map(str::trim)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// What a cell says as code.
fn code(cell: &'static str) -> &'static str {
    cell.trim_matches('`')
}

#[test]
fn every_block_of_rows_says_what_it_is() {
    let known = [
        "whole", "cut", "torn", "refused", "before", "after", "open", "repaired", "forked",
    ];
    let tags: Vec<&str> = blocks()
        .iter()
        .filter(|block| block.tag[0] == "jsonl")
        .map(|block| block.tag.get(1).copied().unwrap_or("whole"))
        .collect();
    for tag in &tags {
        assert!(known.contains(tag), "{tag}");
    }
    for tag in known {
        assert!(tags.contains(&tag), "no block is `{tag}`");
    }
}

#[test]
fn whole_files_are_accepted_as_they_stand() {
    for block in rows_tagged("whole").chain(rows_tagged("open")) {
        if !block.is_file() {
            for line in block.lines() {
                Event::from_row(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            }
            continue;
        }
        let stored = block.stored();
        assert_eq!(stored.status(), Status::Current);
        assert_eq!(stored.tail, None, "the block at line {}", block.line);
        let lines = block.lines();
        assert_eq!(rows(&stored.log), lines[1..]);
        assert_eq!(
            encode_header(&stored.header).unwrap(),
            format!("{}\n", lines[0])
        );
    }
}

#[test]
fn refused_files_are_refused_with_their_code_at_their_line() {
    for block in rows_tagged("refused") {
        let error = block
            .decoded()
            .expect_err(&format!("line {} of the document", block.line));
        let found = (error.code(), error.place().map(|place| place.line));
        let line = block.tag.get(3).map(|_| block.number(3));
        assert_eq!(found, (block.word(2), line), "{error}");
    }
}

#[test]
fn what_a_crash_left_is_a_torn_tail_from_the_line_that_is_named() {
    for block in rows_tagged("cut").chain(rows_tagged("torn")) {
        let text = match block.word(1) {
            "cut" => block.text.trim_end_matches('\n'),
            _ => block.text,
        };
        let stored = decode(text.as_bytes()).unwrap();
        let line = block.number(2);
        assert_eq!(stored.tail.unwrap().place.line, line);
        let kept = &block.lines()[1..line as usize - 1];
        assert_eq!(rows(&stored.log), kept);
    }
}

#[test]
fn what_is_brought_up_is_what_the_document_shows_behind_it() {
    let pairs: Vec<(Block, Block)> = rows_tagged("before").zip(rows_tagged("after")).collect();
    assert_eq!(pairs.len(), rows_tagged("before").count());
    assert_eq!(pairs.len(), rows_tagged("after").count());
    for (before, after) in pairs {
        assert!(before.line < after.line);
        let stored = before.stored();
        let version = stored.version;
        assert_eq!(
            stored.status(),
            Status::MigrationRequired { stored: version }
        );
        assert_eq!(stored.tail, None);
        let header = encode_header(&stored.header).unwrap();
        let expected = after.lines();
        assert_eq!(header.trim_end(), expected[0]);
        let found = rows(&stored.log);
        for (found, expected) in found.iter().zip(&expected[1..]) {
            let [found, expected] =
                [found, expected].map(|row| serde_json::from_str::<Value>(row).unwrap());
            assert_eq!(found, expected, "from version {version}");
        }
        assert_eq!(found.len(), expected.len() - 1, "from version {version}");
        let again = after.stored();
        assert_eq!(again.status(), Status::Current);
        assert_eq!(again.inherited, stored.inherited);
    }
}

#[test]
fn answers_are_what_their_streams_give() {
    let files = ["whole", "open", "before", "after"];
    for block in files.iter().flat_map(|tag| rows_tagged(tag)) {
        if !block.is_file() {
            continue;
        }
        let stored = block.stored();
        for event in stored.log.events() {
            if *event.kind() == EventKind::AssistantMessage {
                verify_stream(event.data()).unwrap();
            }
        }
    }
}

#[test]
fn closers_are_those_of_a_repair_and_of_a_fork() {
    let open = rows_tagged("open").next().unwrap().stored();
    let repaired = rows_tagged("repaired").next().unwrap();
    let closers = open.closers();
    let texts: Vec<&str> = closers.iter().map(Event::text).collect();
    assert_eq!(texts, repaired.lines());

    let forked = rows_tagged("forked").next().unwrap();
    let boundary = Seq::new(forked.number(2));
    let seed = build_fork_seed(&open.log, boundary).unwrap();
    let texts: Vec<&str> = seed.closers().map(|event| event.text()).collect();
    assert_eq!(texts, forked.lines());

    for (block, cause) in [
        (&repaired, offshoot_session::CloseCause::Interrupted),
        (&forked, offshoot_session::CloseCause::Forked),
    ] {
        let events = open.log.events().map(|event| event.text());
        let events = events.chain(block.lines()).map(|row| {
            Event::from_row(row).unwrap_or_else(|error| panic!("line {}: {error}", block.line))
        });
        assert_eq!(open_turn_closers(events, cause), Vec::<Event>::new());
    }
}

/// The bytes of the dump.
fn dumped() -> Vec<u8> {
    let dump = blocks().into_iter().find(|block| block.tag[0] == "hex");
    let mut bytes = Vec::new();
    for line in dump.unwrap().text.lines() {
        let columns = line.trim_start().split_once("  ").unwrap();
        assert_eq!(columns.0.parse::<usize>().unwrap(), bytes.len(), "{line}");
        let (pairs, _) = columns.1.split_once("  ").unwrap();
        bytes.extend(
            pairs
                .split(' ')
                .map(|pair| u8::from_str_radix(pair, 16).unwrap()),
        );
    }
    bytes
}

#[test]
fn the_dump_is_the_first_file_in_two_frames() {
    let bytes = dumped();
    assert_eq!(Container::detect(&bytes), Container::Zstd);
    let stored = decode(&bytes).unwrap();
    assert_eq!(stored.tail, None);
    let text: Vec<&str> = std::iter::once(&*stored.header_line)
        .chain(rows(&stored.log))
        .collect();
    let first = rows_tagged("whole").next().unwrap();
    assert_eq!(text, first.lines());
}

#[test]
fn a_dump_that_ends_too_early_is_read_as_the_table_says() {
    let bytes = dumped();
    let cuts = table("| first bytes | events | what becomes of the rest |");
    assert!(cuts.len() > 5);
    for cut in cuts {
        let [length, events, rest] = cut[..] else {
            panic!("{cut:?}");
        };
        let found = match decode(&bytes[..length.parse().unwrap()]) {
            Err(error) => ("–".to_owned(), format!("`{}`", error.code())),
            Ok(stored) => {
                let rest = match stored.tail {
                    None => "nothing is left".to_owned(),
                    Some(tail) => format!("torn from byte {} on", tail.keep),
                };
                (stored.log.end().to_string(), rest)
            }
        };
        assert_eq!(found, (events.to_owned(), rest.to_owned()), "{length}");
    }
}

#[test]
fn lists_of_cited_events_are_packed_as_the_table_says() {
    for row in table("| events | written |") {
        let [events, written] = row[..] else {
            panic!("{row:?}");
        };
        let seqs: Vec<Seq> = events
            .split(' ')
            .map(|seq| Seq::new(seq.parse().unwrap()))
            .collect();
        let mut text = String::new();
        encode_sources(&seqs, &mut text);
        assert_eq!(text, code(written));
        assert_eq!(*decode_sources(&text, Seq::new(10)).unwrap(), *seqs);
    }
}

/// The types of the document, and the versions that know them.
fn types() -> Vec<(&'static str, Range<u64>)> {
    let rows = DOCUMENT.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let name = cells.next()?.strip_suffix('`')?;
        let versions = cells.next()?.strip_prefix('V')?;
        let (first, last) = versions.split_once("–V").unwrap_or((versions, versions));
        Some((name, first.parse().ok()?..last.parse::<u64>().ok()? + 1))
    });
    rows.collect()
}

/// Whether a reader of the version knows the type: the log is not refused for it.
fn knows(version: u64, kind: &str) -> bool {
    if version == 4 {
        return EventKind::from_name(kind).is_known();
    }
    let seeded = if version < 2 {
        ""
    } else {
        r#""isSeeded":false,"#
    };
    let text = format!(
        "{{\"type\":\"session\",\"version\":{version},\"id\":\"me\",\"createdAt\":1,{seeded}\"delegationDepth\":0}}\n\
         {{\"type\":\"{kind}\",\"seq\":0,\"time\":1,\"data\":{{}}}}\n"
    );
    !matches!(
        decode(text.as_bytes()),
        Err(FormatError::UnknownRequiredEvent { .. })
    )
}

#[test]
fn every_type_is_known_to_the_versions_that_the_tables_name() {
    let types = types();
    for (name, versions) in &types {
        let known: Vec<u64> = (0..=4).filter(|version| knows(*version, name)).collect();
        assert_eq!(known, versions.clone().collect::<Vec<_>>(), "{name}");
    }
    let mut current: Vec<&str> = types
        .iter()
        .filter(|(_, versions)| versions.contains(&4))
        .map(|(name, _)| *name)
        .collect();
    current.sort_unstable();
    let mut expected: Vec<&str> = EventKind::KNOWN.iter().map(EventKind::as_str).collect();
    expected.sort_unstable();
    assert_eq!(current, expected);
}

#[test]
fn every_code_of_a_refused_file_has_its_status_in_the_table() {
    for row in table("| status | what a reader can do | codes |") {
        let [status, _, codes] = row[..] else {
            panic!("{row:?}");
        };
        for name in codes.split(", ").map(code).filter(|name| *name != "–") {
            for block in rows_tagged("refused").filter(|block| block.word(2) == name) {
                let error = block.decoded().unwrap_err();
                assert_eq!(Status::from(&error).as_str(), code(status));
            }
        }
    }
    let documented: Vec<&str> = table("| status | what a reader can do | codes |")
        .iter()
        .flat_map(|row| row[2].split(", ").map(code))
        .collect();
    for block in rows_tagged("refused") {
        assert!(documented.contains(&block.word(2)), "{}", block.word(2));
    }
}

#[test]
fn a_step_that_ended_with_an_open_call_is_a_finding() {
    let block = rows_tagged("whole").find(|block| block.text.contains(r#""id":"odd""#));
    let stored = block.unwrap().stored();
    assert_eq!(stored.log.findings().count(), 1);
    assert_eq!(stored.closers(), []);
}
