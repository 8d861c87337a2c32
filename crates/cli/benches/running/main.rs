//! What a turn costs beyond the model and the disk. Run by `cargo xtask bench running`; prints a part of
//! `docs/performance.md`.
//!
//! Every figure stands beside a baseline of the same run: the same request sent bare to the same model on loopback, and
//! the same number of writes that are waited for. Rounds of the two are interleaved.

#![expect(clippy::print_stdout, reason = "printing is what a benchmark is for")]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock; its baselines write plain files"
)]
#![expect(
    clippy::expect_used,
    reason = "a benchmark that cannot go on has nothing better to do"
)]

mod history;
/// The log whose reading and forking is measured, too.
#[path = "../../../store/benches/log/driver.rs"]
mod log;
mod memory;
mod provider;
mod start;
mod turns;

use std::time::Duration;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(memory) = memory::open_and_tell(&args) {
        return println!("{memory}");
    }
    let wanted = |part: &str| {
        let named = |arg: &String| arg == part;
        args.iter().any(named)
            || args
                .iter()
                .all(|arg| arg.starts_with('-') || arg == "running")
    };
    if wanted("turns") {
        turns::run();
    }
    if wanted("start") {
        start::run();
    }
    if wanted("memory") {
        memory::run();
    }
}

/// The share of the times that is at most this, as a time.
fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
