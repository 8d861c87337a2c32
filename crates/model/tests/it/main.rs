//! What the crate promises, read from the outside.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod anthropic_decode;
mod anthropic_encode;
mod assemble;
#[cfg(feature = "http")]
mod behaviours;
mod corpus;
mod decode;
mod dialects;
mod encode;
mod grammar;
#[cfg(feature = "http")]
mod http;
mod message;
mod pictures;
mod prepare;
mod record;
mod retry;
mod script;
mod sse;
mod verify;
