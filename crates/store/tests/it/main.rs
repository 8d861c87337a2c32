//! The specification of the store, as tests: what is on disk after every way in which an operation can end
//! (`reference/persistence.md` §1, §4.3, §8.2).

#![allow(
    clippy::unwrap_used,
    reason = "a test says what went wrong by failing there"
)]

mod bad_input;
mod behind;
mod blobs;
mod child;
mod collect;
mod conformance;
mod crash;
mod dsh_home;
mod evidence;
mod exports;
mod faulty;
mod files;
mod filters;
mod follow;
mod follow_files;
mod follow_random;
mod generations;
mod hooked;
mod index;
mod inspect;
mod journal;
mod layout;
mod linked;
mod linked_chain;
mod linked_damage;
mod listing;
mod locks;
mod many;
mod migration_crash;
mod moving;
mod older;
mod processes;
mod pruned;
mod remains;
mod rollback;
mod salvaged;
mod simulated;
mod summaries;
mod support;
mod torn;
mod torture;
mod trash;
mod unread;
mod unwritable;
mod usage;
mod writing;
