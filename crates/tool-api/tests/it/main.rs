//! The vocabulary of tools, tested as tools and drivers use it.
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

mod arguments;
mod errors;
mod limits;
mod registry;
