//! The built-in tools, called as an agent calls them.
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

mod bash;
mod bash_processes;
mod builtin;
mod read;
mod read_recorded;
mod workbench;
mod write;
