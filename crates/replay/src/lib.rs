//! Scenarios: folders in which a run of an agent is written down, so that it runs again without a key and is compared with
//! what it was (`reference/agent.md` §8).
//!
//! A scenario says what people do (`scenario.toml`), what the models answer (recorded sessions, each the script of its own
//! session, and overrides for what a recording cannot tell), and what has to come of it. Every live session answers from its
//! own script: a fork from what was recorded behind its cut, a subagent from the session of the call that has started it.
//!
//! What this crate is not: it knows no tools, no configuration and no terminal. Whoever runs a scenario says what an agent is
//! made of besides its model.
