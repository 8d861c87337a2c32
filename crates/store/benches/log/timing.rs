//! Taking times, and showing them.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Runs each a few times, turn by turn, and gives the median of each.
pub(crate) fn each_timed<const N: usize>(
    rounds: usize,
    mut work: [&mut dyn FnMut() -> Duration; N],
) -> [Duration; N] {
    let mut times: [Vec<Duration>; N] = std::array::from_fn(|_| Vec::new());
    for work in &mut work {
        work();
    }
    for _ in 0..rounds {
        for (times, work) in times.iter_mut().zip(&mut work) {
            times.push(work());
        }
    }
    times.map(median)
}

/// How long it takes. Dropping the result is no part of it.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    let result = work();
    let time = start.elapsed();
    drop(black_box(result));
    time
}

pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

pub(crate) fn ratio(time: Duration, baseline: Duration) -> f64 {
    time.as_secs_f64() / baseline.as_secs_f64().max(f64::MIN_POSITIVE)
}

pub(crate) fn mb(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

pub(crate) fn show(time: Duration) -> String {
    match time.as_nanos() {
        0..10_000 => format!("{} ns", time.as_nanos()),
        10_000..10_000_000 => format!("{:.1} µs", time.as_secs_f64() * 1e6),
        _ => format!("{:.1} ms", time.as_secs_f64() * 1e3),
    }
}
