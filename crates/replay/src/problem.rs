//! What went differently from what was recorded.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::divergence::Divergence;

/// Something of a replay that is not as its scenario says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Problem {
    /// A model was called by a session that nobody has recorded.
    #[error(
        "a model call arrived from an unrecorded session ({session}); the scenario has {scripts}",
        scripts = scripts(.recorded)
    )]
    Unrecorded {
        /// What is known of the session.
        session: String,
        /// The sessions that there are scripts for.
        recorded: Vec<String>,
    },
    /// A model was called more often than was recorded.
    #[error("session `{session}` requested model call #{call}, but its script has only {length}")]
    Exhausted {
        /// The session.
        session: String,
        /// Which call, from 1.
        call: usize,
        /// How many answers there are.
        length: usize,
    },
    /// A request is not the recorded one.
    #[error(transparent)]
    Differs(#[from] Divergence),
    /// A file that stands for a halt could not be written.
    #[error("session `{session}`, model call #{call}: cannot write `{file}`: {reason}")]
    Unready {
        /// The session.
        session: String,
        /// Which call, from 1.
        call: usize,
        /// The file.
        file: String,
        /// Why not.
        reason: String,
    },
    /// There are answers left.
    #[error("session `{session}` has made {made} of the {length} model calls of its script")]
    Unconsumed {
        /// The session.
        session: String,
        /// How many calls it has made.
        made: usize,
        /// How many answers there are.
        length: usize,
    },
    /// A session that has a script did not run.
    #[error(
        "session `{session}` never made a model call; its script has {length}{}",
        started(.started_by.as_ref())
    )]
    NeverBound {
        /// The session.
        session: String,
        /// How many answers there are.
        length: usize,
        /// Which session has started it in the recording, and with which tool: one that there is not here starts nobody.
        started_by: Option<(String, String)>,
    },
}

impl Problem {
    /// The stable machine code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unrecorded { .. } => "UNRECORDED_SESSION",
            Self::Exhausted { .. } => offshoot_model::codes::SCRIPT_EXHAUSTED,
            Self::Differs(_) => "REQUEST_DIFFERS",
            Self::Unready { .. } => "READY_FILE",
            Self::Unconsumed { .. } => "SCRIPT_UNCONSUMED",
            Self::NeverBound { .. } => "SCRIPT_UNUSED",
        }
    }
}

/// What a message adds about a session that another one has started.
fn started(by: Option<&(String, String)>) -> String {
    by.map_or_else(String::new, |(caller, tool)| {
        format!(", and in the recording `{caller}` has started it with the tool `{tool}`")
    })
}

/// The names of scripts, as a message lists them.
fn scripts(names: &[String]) -> impl fmt::Display {
    match names {
        [] => "no script at all".to_owned(),
        names => format!("scripts for {}", names.join(", ")),
    }
}
