//! The specification of session files, as tests (`reference/persistence.md` §1.3–§1.7, §2.1, §3, §5).
//!
//! The fixtures are our own; the recorded sessions of the corpus prove the same things when they are there.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what went wrong by failing there"
)]

mod bombs;
mod corpus;
mod cuts;
mod damage;
mod documented;
mod fixtures;
mod frames;
mod growing;
mod headers;
mod hostile;
mod messages;
mod places;
mod properties;
mod round_trips;
mod salvage;
mod stored_lines;
mod suffix;
mod support;
mod tails;
mod threads;
mod torn_files;
