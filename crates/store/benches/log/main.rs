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

mod appending;
mod driver;
mod forks;
mod listing;
#[path = "../../tests/it/many.rs"]
#[allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on has nothing better to do"
)]
mod many;
mod opening;
mod reading;
mod timing;
mod v0;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use offshoot_format::Container;
use offshoot_session::{
    CloseCause, Event, EventDraft, EventKind, LogOffset, Seq, Session, build_fork_seed,
    open_turn_closers,
};
use offshoot_store::{JsonlStore, Persistence as _};
use serde_json::json;

use crate::driver::generate;
use crate::timing::{each_timed, mb, median, ratio, show, timed};

const LARGE: u64 = 100_000;
const SMALL: u64 = 1_000;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(memory) = reading::load_and_tell_memory(&args) {
        return println!("{memory}");
    }
    if let Some(memory) = opening::open_and_tell_memory(&args) {
        return println!("{memory}");
    }
    // The names of parts to run; cargo adds an option of its own.
    let named = |part: &str| args.iter().any(|arg| arg == part);
    let wanted = |part: &str| named(part) || args.iter().all(|arg| arg.starts_with('-'));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("Measured with `cargo xtask bench` on {cores} cores; medians.\n");
    if wanted("reading") {
        reading::run();
    }
    if wanted("opening") {
        opening::run();
    }
    if wanted("appending") {
        appending::run();
    }
    if wanted("forks") {
        forks::run();
    }
    if wanted("listing") {
        listing::run();
    }
    if !["forking", "closing", "writing"]
        .iter()
        .any(|part| wanted(part))
    {
        return;
    }
    let session = generate(LARGE);
    if wanted("forking") {
        forking(&session);
    }
    if wanted("closing") {
        closing(&session);
    }
    if wanted("writing") {
        writing(&session);
    }
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
