//! The time by which batches are due. It has nothing to do with the time of day.

use std::fmt;
use std::time::{Duration, Instant};

/// A clock that only goes forward.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The time since some fixed moment.
    fn now(&self) -> Duration;
}

/// The system's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct SystemClock {
    start: Instant,
}

impl SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "when a batch is due is no part of what is stored"
    )]
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}
