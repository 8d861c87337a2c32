//! Scenarios: folders in which a run of an agent is written down, so that it runs again without a key and is compared with
//! what it was (`reference/agent.md` §8).
//!
//! A scenario says what people do (`scenario.toml`), what the models answer (recorded sessions, each the script of its own
//! session, and overrides for what a recording cannot tell), and what has to come of it. Every live session answers from its
//! own script: a fork from what was recorded behind its cut, a subagent from the session of the call that has started it.
//!
//! What this crate is not: it knows no tools, no configuration and no terminal. Whoever runs a scenario says what an agent is
//! made of besides its model ([`Wiring`]), and gets back what was wrong ([`Flaw`]). It prints nothing.
//!
//! Read first: `scenario.rs` (the folder), `steps.rs` (what is done), `runner.rs` (how), `scripts.rs` (who answers what),
//! `normal.rs` (what is compared).
//!
//! ```
//! use offshoot_replay::{Action, SCENARIO_FILE, Scenario};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let dir = folder.path();
//! # #[expect(clippy::disallowed_methods, reason = "an example")]
//! std::fs::write(dir.join(SCENARIO_FILE), r#"
//!     about = "One question."
//!     [model]
//!     name = "demo/demo-1"
//!     [[step]]
//!     do = "prompt"
//!     text = "How many files are here?"
//! "#)?;
//! let scenario = Scenario::load(dir)?;
//! assert!(matches!(&scenario.steps[0].action, Action::Prompt { text, .. } if text == "How many files are here?"));
//!
//! // Nothing was recorded yet, so there is nothing to replay.
//! let missing = scenario.check_recorded().unwrap_err();
//! assert_eq!(missing.code(), "SCENARIO_INCOMPLETE");
//! assert_eq!(missing.hint(), Some("`offshoot record` makes recordings"));
//! # Ok(())
//! # }
//! ```

mod answers;
mod binding;
mod compare;
mod divergence;
mod entry;
mod flaw;
mod live;
mod model;
mod names;
mod normal;
mod overrides;
mod playing;
mod problem;
mod publish;
mod record;
mod replay;
mod routing;
mod run;
mod runner;
mod scenario;
mod script;
mod scripts;
mod steps;
mod text;
mod tokens;
mod wiring;

pub use binding::SessionKey;
pub use divergence::Divergence;
pub use entry::{End, Entry, Hold, Recorded};
pub use flaw::Flaw;
pub use names::SessionName;
pub use normal::NotJson;
pub use overrides::Overrides;
pub use problem::Problem;
pub use record::{Existing, Recording, record};
pub use replay::{Refreshed, Replayed, refresh, replay};
pub use run::{Ran, RunError};
pub use runner::run_stage;
pub use scenario::{SCENARIO_FILE, Scenario, ScenarioError, ScenarioModel};
pub use script::{Script, ScriptError};
pub use scripts::{Comparing, Progress, Replaying, Scripts, Waiting};
pub use steps::{Action, Note, Step, Until};
pub use tokens::Tokens;
pub use wiring::{Parts, Place, Processes, Wiring, WiringError};
