//! The real clock and the real source of ids and chance: the one place in the program that reads either.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use offshoot_agent::{Clock, Env, IdSource};

#[derive(Debug)]
struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that everybody else is given"
    )]
    fn now(&self) -> i64 {
        // A clock before 1970 counts backwards: times in a log may be negative.
        let millis =
            |duration: std::time::Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => millis(since),
            Err(before) => -millis(before.duration()),
        }
    }
}

#[derive(Debug)]
struct RandomIds;

impl IdSource for RandomIds {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the source of ids that everybody else is given"
    )]
    fn fresh(&self) -> String {
        uuid::Uuid::now_v7().to_string()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the source of chance that everybody else is given"
    )]
    fn random(&self) -> f64 {
        // The last 32 bits of such an id are random whatever the clock says.
        let [.., a, b, c, d] = *uuid::Uuid::now_v7().as_bytes();
        f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX)
    }
}

/// The environment of a real run.
pub(crate) fn env() -> Env {
    Env {
        clock: std::sync::Arc::new(SystemClock),
        ids: std::sync::Arc::new(RandomIds),
    }
}

/// Where agents run.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("could not start the async runtime")
}
