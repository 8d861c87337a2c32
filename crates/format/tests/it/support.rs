//! Files as bytes, written without the code under test where they have to be wrong.

use std::ops::Range;
use std::sync::Arc;

use offshoot_format::{Container, FormatError, StoredSession, decode_as};
use offshoot_session::{Event, EventLog, SessionHeader};

pub(crate) const BOTH: [Container; 2] = [Container::Raw, Container::Zstd];

macro_rules! fixtures {
    ($($name:literal,)*) => {
        /// Every hand-written file, by its name.
        pub(crate) const FIXTURES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../fixtures/", $name, ".jsonl"))),)*];
    };
}

fixtures![
    "closed-step",
    "compaction",
    "crash-in-call",
    "fork-child",
    "header-only",
    "inbox-and-retries",
    "nested-fork",
    "opaque",
    "repaired",
    "tools-added",
    "two-calls",
];

pub(crate) fn fixture(name: &str) -> &'static str {
    let found = FIXTURES.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no fixture {name}")).1
}

/// The first `count` lines of a fixture.
pub(crate) fn first_lines(name: &str, count: usize) -> String {
    fixture(name).split_inclusive('\n').take(count).collect()
}

/// The whole lines of a text, each with its line feed.
pub(crate) fn whole_lines(text: &str) -> &str {
    &text[..text.rfind('\n').map_or(0, |end| end + 1)]
}

#[track_caller]
pub(crate) fn stored(container: Container, bytes: &[u8]) -> StoredSession {
    decode_as(container, bytes).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
pub(crate) fn refused(container: Container, bytes: &[u8]) -> FormatError {
    match decode_as(container, bytes) {
        Err(error) => error,
        Ok(stored) => panic!("read {} events, tail {:?}", stored.log.end(), stored.tail),
    }
}

pub(crate) fn rows(log: &EventLog) -> Vec<&str> {
    log.events().map(|event| event.text()).collect()
}

/// The file that a session came from, as text.
pub(crate) fn text_of(stored: &StoredSession) -> String {
    let lines = std::iter::once(&*stored.header_line).chain(rows(&stored.log));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// A file as the crate writes it: a header, then batches of `batch` events.
pub(crate) fn encode(
    container: Container,
    header: &SessionHeader,
    log: &EventLog,
    batch: usize,
) -> Vec<u8> {
    let events: Vec<&Event> = log.events().map(Arc::as_ref).collect();
    let mut bytes = container.header(header).unwrap();
    for batch in events.chunks(batch) {
        bytes.extend(container.batch(batch.iter().copied()));
    }
    bytes
}

/// One frame with a checksum around any bytes.
pub(crate) fn frame(text: impl AsRef<[u8]>) -> Vec<u8> {
    let mut compressor = zstd::bulk::Compressor::new(3).unwrap();
    compressor.include_checksum(true).unwrap();
    compressor.compress(text.as_ref()).unwrap()
}

/// A compressed file of a text, whole lines and all: the header's frame, then one frame per `batch` lines. Also says
/// where each frame lies.
pub(crate) fn frames(text: &str, batch: usize) -> (Vec<u8>, Vec<Range<usize>>) {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (header, rows) = lines.split_at(1);
    let mut bytes = frame(header.concat());
    let mut places = Vec::from([Range {
        start: 0,
        end: bytes.len(),
    }]);
    for rows in rows.chunks(batch) {
        let start = bytes.len();
        bytes.extend(frame(rows.concat()));
        places.push(start..bytes.len());
    }
    (bytes, places)
}

/// The same file in either container.
pub(crate) fn packed(container: Container, text: &str, batch: usize) -> Vec<u8> {
    match container {
        Container::Raw => text.as_bytes().to_vec(),
        Container::Zstd => frames(text, batch).0,
    }
}

/// The same file in either container; no frame has half of a line.
pub(crate) fn either(container: Container, text: &str) -> Vec<u8> {
    match container {
        Container::Raw => text.as_bytes().to_vec(),
        Container::Zstd => frames(whole_lines(text), 3).0,
    }
}

pub(crate) const HEADER: &str = r#"{"type":"session","version":4,"id":"me","createdAt":1,"isSeeded":false,"delegationDepth":0}"#;

/// A raw file: [`HEADER`], then lines as they are.
pub(crate) fn file(rows: &[&str]) -> String {
    let lines = std::iter::once(HEADER).chain(rows.iter().copied());
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// A row without surface operation.
pub(crate) fn row(kind: &str, seq: u64, data: &str) -> String {
    format!(r#"{{"type":"{kind}","seq":{seq},"time":{seq},"data":{data}}}"#)
}

/// A V0 file with packed chunks and two turns.
pub(crate) const V0: &str = r#"{"type":"session","version":0,"id":"demo","createdAt":90,"cwd":"/work/demo","delegationDepth":0}
{"type":"turn/start","seq":0,"time":100,"data":{"turn":1}}
{"type":"step/start","seq":1,"time":101,"data":{"turn":1,"step":1}}
{"type":"user/message","seq":2,"time":102,"data":{"id":"u-1","role":"user","content":[{"type":"text","text":"How many figs?"}],"source":{"kind":"user"}},"surfaceOp":"append"}
{"type":"request/header","seq":3,"time":103,"data":{"header":{"config":{"provider":"acme","model":"acme-small"}},"reason":"initial"}}
{"type":"assistant/chunk","seq":4,"time":110,"data":{"turn":1,"step":1,"chunk":{"type":"block-start","index":0,"blockType":"text"}}}
{"type":"text-chunks","seq0":5,"time0":111,"data":{"turn":1,"step":1,"index":0,"dt":[1,2],"texts":["Three ","figs","."]}}
{"type":"assistant/chunk","seq":8,"time":115,"data":{"turn":1,"step":1,"chunk":{"type":"block-end","index":0,"block":{"type":"text","text":"Three figs."}}}}
{"type":"assistant/chunk","seq":9,"time":116,"data":{"turn":1,"step":1,"chunk":{"type":"finish","reason":{"kind":"stop"}}}}
{"type":"assistant/message","seq":10,"time":117,"data":{"turn":1,"step":1,"message":{"id":"a-1","role":"assistant","content":[{"type":"text","text":"Three figs."}],"source":{"kind":"model","provider":"acme","model":"acme-small"}}},"sourceEventSeqs":[[4,9]],"surfaceOp":"append"}
{"type":"step/end","seq":11,"time":118,"data":{"turn":1,"step":1}}
{"type":"turn/end","seq":12,"time":119,"data":{"turn":1,"reason":{"kind":"completed"}}}
{"type":"turn/start","seq":13,"time":200,"data":{"turn":2}}
{"type":"step/start","seq":14,"time":201,"data":{"turn":2,"step":1}}
{"type":"user/message","seq":15,"time":202,"data":{"id":"u-2","role":"user","content":[{"type":"text","text":"And dates?"}],"source":{"kind":"user"}},"surfaceOp":"append"}
{"type":"step/end","seq":16,"time":203,"data":{"turn":2,"step":1}}
{"type":"turn/end","seq":17,"time":204,"data":{"turn":2,"reason":{"kind":"completed"}}}
"#;
