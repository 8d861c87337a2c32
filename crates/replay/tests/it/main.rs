//! The specification of scenarios, as tests.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what went wrong by failing there"
)]
