//! The helpers, tested as the tests of other crates use them.
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

mod client;
mod command;
mod home;
mod messages_broken;
mod messages_replies;
mod replies;
mod server;
mod transcript;
mod transcript_broken;
