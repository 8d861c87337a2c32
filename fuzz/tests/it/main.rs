//! The bodies of the fuzz targets on a stable toolchain: on arbitrary bytes, on damaged files, and on what was found once.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what went wrong by failing there"
)]

mod bounded;
mod regressions;
