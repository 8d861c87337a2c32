//! What the crate promises, read from the outside.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod assemble;
mod corpus;
mod decode;
mod encode;
#[cfg(feature = "http")]
mod http;
mod message;
mod record;
mod script;
mod sse;
mod verify;
