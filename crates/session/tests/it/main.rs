//! The specification of the session log, as tests (`reference/persistence.md` §3–§8).

#![allow(
    clippy::unwrap_used,
    reason = "a test says what went wrong by failing there"
)]

mod admission;
mod boundaries;
mod closers;
mod findings;
mod forks;
mod json_facts;
mod listener;
mod payloads;
mod prefixes;
mod rows;
mod seeds;
mod side_marks;
mod store;
mod store_forks;
mod support;
mod surface;
