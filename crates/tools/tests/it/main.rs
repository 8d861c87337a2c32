//! The built-in tools, called as an agent calls them.
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

mod bash;
mod bash_output;
mod bash_processes;
mod builtin;
#[cfg(feature = "web")]
mod declared;
mod edit;
mod glob;
mod grep;
mod instructions;
mod jobs;
mod limits;
mod ls;
mod read;
mod read_recorded;
mod todo_write;
#[cfg(feature = "web")]
mod web_fetch;
mod workbench;
mod write;
