//! The driver, read like a specification. Every log that a test writes is read back and validated when the test ends.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod abandoned;
mod append_failures;
mod approvals;
mod bench;
mod builtin;
mod cancel;
mod cancel_points;
mod corpus;
mod failures;
mod forks;
mod frames;
mod golden;
mod handle;
mod headers;
mod hooks;
mod inbox;
mod inbox_ops;
mod kept;
mod once;
mod order;
mod outline;
mod phases;
mod pipeline;
mod points;
mod prefix;
mod replay;
mod requests;
mod rules;
mod scene;
mod scheduling;
mod sessions;
mod settlement;
mod spilling;
mod storage;
mod streaming;
mod support;
mod turn_rules;
