//! The specification of the session log, as tests (`reference/persistence.md` §3–§8).

mod boundaries;
mod closers;
mod findings;
mod forks;
mod json_facts;
mod prefixes;
mod rows;
mod seeds;
mod store;
mod support;
mod surface;
