//! The specification of scenarios, as tests.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what went wrong by failing there"
)]

mod bench;
mod binding;
mod corpus;
mod delegating;
mod differing;
mod folders;
mod overriding;
mod playing;
mod recording;
mod retrying;
mod running;
mod runs;
