//! The binary as a person uses it, the recording that it brings, and the promises of `docs/cli.md`.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod bad_files;
mod bad_input;
mod chatting;
mod checks;
mod cold;
mod compacting;
mod config;
mod continuing;
mod crashes;
mod deep;
mod demo;
mod docs;
mod following;
mod forks;
mod headless;
mod help;
mod layers;
mod ledger;
mod listing;
mod merging;
mod old_formats;
mod owners;
mod permissions;
mod promoting;
mod recording;
mod replaying;
mod replays;
mod requests;
mod salvaging;
mod sandbox;
mod sandboxed_bash;
mod scenarios;
mod side;
mod side_again;
mod side_chat;
mod stored;
mod streams;
mod subagents;
mod subagents_background;
mod support;
mod terminal;
mod trash;
mod turns;
mod worktrees;
