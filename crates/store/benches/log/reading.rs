//! Reading whole files: time on one thread and on two, and memory.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use offshoot_format::{Container, FrameScan, StoredSession, Threads, decode_on, scan_frame};
use offshoot_session::{EventLog, SessionHeader};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::timing::{each_timed, mb, ratio, show, timed};
use crate::{driver, v0};

/// How many events the V0 log has; its model deltas are events there.
const OLD: u64 = 204_000;

/// More than any frame here stands for, in bytes.
const LARGEST: usize = 64 << 20;

/// The first argument of a process that only loads a file.
const LOAD: &str = "load-and-tell-memory";

pub(crate) fn run() {
    let session = driver::generate(crate::LARGE);
    let log = Log::new(session.header(), session.log());
    log.measure(&format!(
        "a V4 session of {} events, as our driver writes it",
        crate::LARGE
    ));

    let raw = v0::generate(OLD);
    let stored = load(Threads::One, Container::Raw, &raw);
    let current = Log::new(&stored.header, &stored.log);
    let events = stored.log.end();
    drop(stored);
    let packed = v0::packed(&raw);
    Log { raw, packed }.measure(&format!("a V0 session of {OLD} events"));
    current.measure(&format!("the same session as V4: {events} events"));
}

fn load(threads: Threads, container: Container, bytes: &[u8]) -> StoredSession {
    decode_on(threads, container, bytes, &[]).expect("a valid session")
}

/// One log in both containers.
struct Log {
    raw: Vec<u8>,
    packed: Vec<u8>,
}

impl Log {
    fn new(header: &SessionHeader, log: &EventLog) -> Self {
        Self {
            raw: file(Container::Raw, header, log),
            packed: file(Container::Zstd, header, log),
        }
    }

    fn measure(&self, what: &str) {
        println!("### Reading {what}\n");
        println!(
            "{:.1} MB raw, {:.1} MB as zstd.\n",
            mb(self.raw.len()),
            mb(self.packed.len())
        );
        println!(
            "| | time | MB/s of raw text | ratio to the baseline | peak memory | of the raw size |\n|---|---|---|---|---|---|"
        );
        for (container, bytes) in [(Container::Raw, &self.raw), (Container::Zstd, &self.packed)] {
            let [base, one, two] = each_timed(
                9,
                [
                    &mut || match container {
                        Container::Raw => timed(|| envelopes(bytes)),
                        Container::Zstd => timed(|| envelopes(&unpacked(bytes))),
                    },
                    &mut || timed(|| load(Threads::One, container, bytes)),
                    &mut || timed(|| load(Threads::Two, container, bytes)),
                ],
            );
            for (what, time, threads) in [
                ("envelopes only (baseline)", base, None),
                ("read and validate, one thread", one, Some(Threads::One)),
                ("read and validate, two threads", two, Some(Threads::Two)),
            ] {
                let memory = threads.map(|threads| peak(threads, container, bytes));
                println!(
                    "| {container:?}: {what} | {} | {:.0} | {:.2} | {} |",
                    show(time),
                    mb(self.raw.len()) / time.as_secs_f64(),
                    ratio(time, base),
                    memory.map_or_else(|| "|".into(), |memory| self.memory(memory)),
                );
            }
        }
        println!();
    }

    fn memory(&self, peak: Option<usize>) -> String {
        peak.map_or_else(
            || "not told by this platform |".into(),
            |peak| {
                let part = peak as f64 / self.raw.len() as f64;
                format!("{:.1} MB | {part:.2}", mb(peak))
            },
        )
    }
}

/// The most memory that a process of its own had while it read the file: its code, the bytes of the file, and what they
/// became.
fn peak(threads: Threads, container: Container, bytes: &[u8]) -> Option<usize> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("log");
    fs::write(&path, bytes).expect("a working disk");
    let program = std::env::current_exe().expect("it runs");
    let output = Command::new(program)
        .arg(LOAD)
        .arg(format!("{threads:?}"))
        .arg(format!("{container:?}"))
        .arg(path)
        .output()
        .expect("it starts once more");
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// Loads the file that the arguments of a process say, if they do; gives its peak of memory in bytes, if the platform
/// tells.
pub(crate) fn load_and_tell_memory(args: &[String]) -> Option<String> {
    let [LOAD, threads, container, path] = args.iter().map(String::as_str).collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let mut both = [Threads::One, Threads::Two].into_iter();
    let threads = both.find(|known| format!("{known:?}") == threads)?;
    let mut both = [Container::Raw, Container::Zstd].into_iter();
    let container = both.find(|known| format!("{known:?}") == container)?;
    let bytes = fs::read(Path::new(path)).expect("it was written");
    black_box(load(threads, container, &bytes));
    peak_of_this_process()
}

/// In bytes; empty if the platform does not tell.
pub(crate) fn peak_of_this_process() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|peak| peak.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    Some(peak.map_or_else(String::new, |peak| (peak << 10).to_string()))
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type", borrow)]
    kind: &'a str,
    #[serde(alias = "seq0")]
    seq: u64,
    #[serde(alias = "time0")]
    time: i64,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// What any reader has to do at least: find the lines and split each into its members.
fn envelopes(bytes: &[u8]) -> u64 {
    let lines = bytes
        .split(|&byte| byte == b'\n')
        .skip(1)
        .filter(|line| !line.is_empty());
    lines.fold(0, |sum, line| {
        let row: Envelope<'_> = serde_json::from_slice(line).expect("a valid row");
        sum + row.seq + row.time.unsigned_abs() + (row.kind.len() + row.data.get().len()) as u64
    })
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut unpacker = zstd::bulk::Decompressor::new().expect("nothing but memory is needed");
    let mut text = Vec::new();
    let mut at = 0;
    while let Ok(FrameScan::Complete(length)) = scan_frame(&packed[at..]) {
        let frame = unpacker.decompress(&packed[at..at + length], LARGEST);
        text.extend(frame.expect("a valid frame"));
        at += length;
    }
    text
}

fn file(container: Container, header: &SessionHeader, log: &EventLog) -> Vec<u8> {
    let mut bytes = container.header(header).expect("a valid header");
    let events: Vec<_> = log.events().collect();
    // Batches as a driver writes them: one per few steps.
    for batch in events.chunks(32) {
        bytes.extend(container.batch(batch.iter().map(|event| &***event)));
    }
    bytes
}
