//! The driver, read like a specification. Every log that a test writes is read back and validated when the test ends.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod abandoned;
mod bench;
mod builtin;
mod cancel;
mod corpus;
mod failures;
mod forks;
mod headers;
mod inbox;
mod once;
mod order;
mod prefix;
mod replay;
mod requests;
mod scheduling;
mod sessions;
mod settlement;
mod storage;
mod streaming;
mod support;
