//! What the log costs: reading, forking, closing, writing. Run by `cargo xtask bench`; prints the tables of
//! `docs/performance.md`.
//!
//! Every figure stands beside a baseline of the same run, because only ratios travel between machines. Rounds of the two
//! are interleaved, so that a noisy moment hits both; the median of the rounds counts.

#![expect(clippy::print_stdout, reason = "printing is what a benchmark is for")]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock; its baselines write plain files"
)]
#![expect(
    clippy::expect_used,
    reason = "a benchmark that cannot go on has nothing better to do"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use offshoot_format::{Container, decode_as};
use offshoot_session::{
    CloseCause, Event, EventDraft, EventKind, EventLog, LogOffset, Seq, Session, SessionHeader,
    build_fork_seed, open_turn_closers,
};
use offshoot_store::{JsonlStore, Persistence as _};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

const LARGE: u64 = 100_000;
const SMALL: u64 = 1_000;

fn main() {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("Measured with `cargo xtask bench` on {cores} cores; medians.\n");
    let session = generate(LARGE);
    reading(&session);
    forking(&session);
    closing(&session);
    writing(&session);
}

/// A log as our driver writes it: turns of two steps, the first with two tool calls.
fn generate(events: u64) -> Session {
    let header = SessionHeader {
        cwd: Some("/work/demo".into()),
        ..SessionHeader::new("bench".into(), 1)
    };
    let mut session = Session::new(header).expect("a valid header");
    let mut turn = 0;
    while session.log().end().get() < events {
        turn += 1;
        for (kind, data, shown) in turn_events(turn) {
            if session.log().end().get() == events {
                break;
            }
            let draft = if shown {
                EventDraft::message(kind, &data)
            } else {
                EventDraft::log_only(kind, &data)
            };
            let mut draft = draft.expect("plain JSON");
            if *draft.kind() == EventKind::ToolResult {
                let end = session.log().end().get();
                draft = draft.with_sources([Seq::new(end - 2)]);
            }
            let time = i64::try_from(session.log().end().get()).expect("a small number");
            session.append(draft, time).expect("a valid event");
        }
    }
    session
}

fn turn_events(turn: u64) -> Vec<(EventKind, Value, bool)> {
    let user = json!({"id": format!("u-{turn}"), "role": "user", "source": {"kind": "user"},
        "content": [{"type": "text", "text": format!("Please look at module {turn} and tell me what it does; then fix the test.")}]});
    let call = |n: u64| {
        json!({"type": "tool-call", "id": format!("c-{turn}-{n}"), "name": "read",
        "arguments": format!("{{\"file_path\":\"src/module_{turn}_{n}.rs\",\"limit\":200}}")})
    };
    let start = |n: u64| {
        json!({"turn": turn, "step": 1, "callId": format!("c-{turn}-{n}"), "name": "read",
        "arguments": format!("{{\"file_path\":\"src/module_{turn}_{n}.rs\",\"limit\":200}}")})
    };
    let result = |n: u64| {
        json!({"turn": turn, "step": 1, "message": {"id": format!("r-{turn}-{n}"), "role": "tool",
        "toolCallId": format!("c-{turn}-{n}"), "isError": false, "source": {"kind": "tool", "callId": format!("c-{turn}-{n}")},
        "content": [{"type": "text", "text": "1: fn answer() -> u32 {\n2:     42\n3: }\n".repeat(12)}]}})
    };
    let model = json!({"kind": "model", "provider": "demo", "model": "demo-1"});
    let words: Vec<String> = (0..24).map(|n| format!("word{n} ")).collect();
    let text = words.concat();
    let stream = json!([
        {"type": "chunk", "time": 5, "chunk": {"type": "block-start", "index": 0, "blockType": "text"}},
        {"type": "text-chunks", "time0": 6, "index": 0, "dt": vec![1; words.len() - 1], "texts": words},
        {"type": "chunk", "time": 30, "chunk": {"type": "block-end", "index": 0, "block": {"type": "text", "text": text}}},
        {"type": "chunk", "time": 31, "chunk": {"type": "finish", "reason": {"kind": "stop"}}},
    ]);
    let at = |step: u64| json!({"turn": turn, "step": step});
    let mut events = vec![
        (
            EventKind::InboxSpliced,
            json!({"target": "next-turn", "start": 0, "inserted": [user]}),
            false,
        ),
        (EventKind::TurnStart, json!({"turn": turn}), false),
        (
            EventKind::InboxSpliced,
            json!({"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}),
            false,
        ),
        (EventKind::StepStart, at(1), false),
        (EventKind::UserMessage, user, true),
        (
            EventKind::AssistantMessage,
            json!({"turn": turn, "step": 1, "stream": stream, "message": {"id": format!("a-{turn}-1"),
            "role": "assistant", "source": model, "content": [call(1), call(2)]}}),
            true,
        ),
        (EventKind::ToolCall, start(1), false),
        (EventKind::ToolCall, start(2), false),
        (EventKind::ToolResult, result(1), true),
        (EventKind::ToolResult, result(2), true),
        (EventKind::StepEnd, at(1), false),
        (EventKind::StepStart, at(2), false),
        (
            EventKind::AssistantMessage,
            json!({"turn": turn, "step": 2, "stream": stream, "message": {"id": format!("a-{turn}-2"),
            "role": "assistant", "source": model, "content": [{"type": "text", "text": text}]}}),
            true,
        ),
        (EventKind::StepEnd, at(2), false),
        (
            EventKind::TurnEnd,
            json!({"turn": turn, "reason": {"kind": "completed"}}),
            false,
        ),
    ];
    if turn == 1 {
        let system = json!({"turn": 1, "step": 1, "message": {"id": "s-1", "role": "system", "source": {"kind": "system-prompt"},
            "content": [{"type": "text", "text": "Be brief."}]}});
        let header = json!({"header": {"config": {"provider": "demo", "model": "demo-1"}}, "reason": "initial"});
        events.insert(5, (EventKind::RequestHeader, header, false));
        events.insert(4, (EventKind::SystemMessage, system, true));
    }
    events
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type", borrow)]
    kind: &'a str,
    seq: u64,
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

fn file(container: Container, header: &SessionHeader, log: &EventLog) -> Vec<u8> {
    let mut bytes = container.header(header).expect("a valid header");
    let events: Vec<&Arc<Event>> = log.events().collect();
    // Batches as a driver writes them: one per few steps.
    for batch in events.chunks(32) {
        bytes.extend(container.batch(batch.iter().map(|event| &***event)));
    }
    bytes
}

fn reading(session: &Session) {
    let raw = file(Container::Raw, session.header(), session.log());
    let packed = file(Container::Zstd, session.header(), session.log());
    println!("### Reading a V4 session of {LARGE} events\n");
    println!(
        "{:.1} MB raw, {:.1} MB as zstd. The baseline splits each line of the same bytes into its envelope.\n",
        mb(raw.len()),
        mb(packed.len())
    );
    println!("| | time | MB/s of raw text | ratio to the baseline |\n|---|---|---|---|");
    let [base, full] = interleave(
        7,
        [
            &mut || {
                black_box(envelopes(&raw));
            },
            &mut || {
                black_box(decode_as(Container::Raw, &raw).expect("a valid session"));
            },
        ],
    );
    let [unpack, full_packed] = interleave(
        7,
        [
            &mut || {
                let mut text = Vec::new();
                let mut at = 0;
                while let Ok(offshoot_format::FrameScan::Complete(length)) =
                    offshoot_format::scan_frame(&packed[at..])
                {
                    text.extend(zstd_frame(&packed[at..at + length]));
                    at += length;
                }
                black_box(envelopes(&text));
            },
            &mut || {
                black_box(decode_as(Container::Zstd, &packed).expect("a valid session"));
            },
        ],
    );
    for (what, time, baseline) in [
        ("raw: envelopes only (baseline)", base, base),
        ("raw: parse and validate", full, base),
        ("zstd: unpack, envelopes only (baseline)", unpack, unpack),
        ("zstd: parse and validate", full_packed, unpack),
    ] {
        println!(
            "| {what} | {} | {:.0} | {:.2} |",
            show(time),
            mb(raw.len()) / time.as_secs_f64(),
            ratio(time, baseline)
        );
    }
    println!();
}

fn zstd_frame(frame: &[u8]) -> Vec<u8> {
    zstd::decode_all(frame).expect("a valid frame")
}

fn forking(large: &Session) {
    let small = generate(SMALL);
    println!("### Forking in memory, up to the child's first append\n");
    println!(
        "The baseline is what a fork costs that copies its prefix event by event (references only).\n"
    );
    println!("| log | cut | fork | a copying fork | ratio |\n|---|---|---|---|---|");
    for session in [&small, large] {
        let end = session.log().end().get();
        for percent in [1, 25, 50, 75, 100] {
            let cut = Seq::new((end * percent / 100).max(1) - 1);
            let [forked, copied] = each_timed(
                400,
                [&mut || fork_once(session, cut), &mut || {
                    let start = Instant::now();
                    let copy: Vec<Arc<Event>> = session
                        .log()
                        .events()
                        .take(cut.after().get() as usize)
                        .cloned()
                        .collect();
                    let time = start.elapsed();
                    drop(black_box(copy));
                    time
                }],
            );
            println!(
                "| {end} events | {percent} % | {} | {} | {:.3} |",
                show(forked),
                show(copied),
                ratio(forked, copied)
            );
        }
    }
    println!();
}

/// One fork; dropping the child is not part of it.
fn fork_once(session: &Session, cut: Seq) -> Duration {
    let draft =
        EventDraft::log_only(EventKind::PlanMode, &json!({"active": true})).expect("plain JSON");
    let start = Instant::now();
    let seed = session.fork_seed(Some(cut)).expect("an event of the log");
    let mut child = Session::from_seed(session.header().forked("child".into(), 2), seed, 2)
        .expect("a valid seed");
    child.append(draft, 3).expect("a valid event");
    let time = start.elapsed();
    drop(black_box(child));
    time
}

fn closing(session: &Session) {
    // Cut inside a step with two calls, near the end of the log.
    let calls = session
        .log()
        .events()
        .filter(|event| *event.kind() == EventKind::ToolCall);
    let cut = calls.last().expect("the log has calls").seq();
    let open = session.log().prefix(cut.before());
    println!("### Closing an open turn of {} events\n", open.end());
    println!("| | time | ratio |\n|---|---|---|");
    let [scanned, folded] = each_timed(
        60,
        [
            &mut || {
                timed(|| {
                    open_turn_closers(open.events().map(|event| &**event), CloseCause::Interrupted)
                })
            },
            &mut || timed(|| open.interrupted_closers()),
        ],
    );
    println!("| scan the events (baseline) | {} | 1.000 |", show(scanned));
    println!(
        "| from the log's own fold | {} | {:.5} |\n",
        show(folded),
        ratio(folded, scanned)
    );
}

fn writing(session: &Session) {
    println!("### Writing a fork as a self-contained file\n");
    println!("The baseline writes and syncs the same bytes into a plain file.\n");
    println!(
        "| fork | container | bytes | time | write + fsync alone | ratio |\n|---|---|---|---|---|---|"
    );
    for percent in [1, 50, 100] {
        for container in [Container::Raw, Container::Zstd] {
            write_fork(session, percent, container);
        }
    }
}

fn write_fork(session: &Session, percent: u64, container: Container) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let cut = Seq::new((session.log().end().get() * percent / 100).max(1) - 1);
    let seed = build_fork_seed(session.log(), cut).expect("an event of the log");
    let events: Vec<Arc<Event>> = seed.log().events_from(LogOffset::START).cloned().collect();
    let mut count = 0;
    let mut bytes = Vec::new();
    let mut forked = Vec::new();
    let mut plain = Vec::new();
    for _ in 0..7 {
        count += 1;
        let store = JsonlStore::new(dir.path().join("sessions"), container);
        let header = session
            .header()
            .forked(format!("child-{count}").as_str().into(), 2);
        forked.push(timed(|| {
            let mut writer = store.create(&header).expect("a free id");
            writer.append(&events).expect("a working disk");
        }));
        bytes = std::fs::read(store.locate(&header.id).expect("it was written"))
            .expect("it can be read");
        let path = dir.path().join(format!("plain-{count}"));
        plain.push(timed(|| {
            let mut file = std::fs::File::create(&path).expect("a working disk");
            std::io::Write::write_all(&mut file, &bytes).expect("a working disk");
            file.sync_all().expect("a working disk");
        }));
    }
    let (forked, plain) = (median(forked), median(plain));
    println!(
        "| {percent} % of {} events | {container:?} | {:.2} MB | {} | {} | {:.2} |",
        session.log().end(),
        mb(bytes.len()),
        show(forked),
        show(plain),
        ratio(forked, plain)
    );
}

/// Runs each of the two a few times, turn by turn, and gives the median of each.
fn interleave(rounds: usize, work: [&mut dyn FnMut(); 2]) -> [Duration; 2] {
    let [a, b] = work;
    each_timed(rounds, [&mut || timed(&mut *a), &mut || timed(&mut *b)])
}

fn each_timed(rounds: usize, work: [&mut dyn FnMut() -> Duration; 2]) -> [Duration; 2] {
    let [a, b] = work;
    let (mut first, mut second) = (Vec::new(), Vec::new());
    a();
    b();
    for _ in 0..rounds {
        first.push(a());
        second.push(b());
    }
    [median(first), median(second)]
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    let result = work();
    let time = start.elapsed();
    drop(black_box(result));
    time
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ratio(time: Duration, baseline: Duration) -> f64 {
    time.as_secs_f64() / baseline.as_secs_f64().max(f64::MIN_POSITIVE)
}

fn mb(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

fn show(time: Duration) -> String {
    match time.as_nanos() {
        0..10_000 => format!("{} ns", time.as_nanos()),
        10_000..10_000_000 => format!("{:.1} µs", time.as_secs_f64() * 1e6),
        _ => format!("{:.1} ms", time.as_secs_f64() * 1e3),
    }
}
