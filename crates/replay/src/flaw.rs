//! What is wrong with a run of a scenario: said so that a person sees where.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a scenario did not come to what it should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flaw {
    /// The stable machine code.
    pub code: String,
    /// What is wrong, in one line.
    pub message: String,
    /// What belongs to it, such as a diff, in lines. May be empty.
    pub detail: String,
}

impl Flaw {
    /// Something was waited for in vain.
    pub const HUNG: &str = "SCENARIO_HUNG";
    /// A step could not be done.
    pub const STEP: &str = "SCENARIO_STEP";
    /// The logs or the output are other ones.
    pub const DIFFERS: &str = "SCENARIO_DIFFERS";
    /// There are other sessions than what is expected.
    pub const UNEXPECTED: &str = "SCENARIO_UNEXPECTED";
    /// A request is not the recorded one.
    pub const REQUEST: &str = "REQUEST_DIFFERS";
    /// There is a session that nothing in the scenario has made.
    pub const STRAY: &str = "SCENARIO_STRAY";

    /// A flaw of which one line says everything.
    #[must_use]
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            detail: String::new(),
        }
    }

    /// The same, with what belongs to it.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        Self {
            detail: detail.into(),
            ..self
        }
    }

    /// Whether the run itself was sound, and only came to something else than what is written down.
    #[must_use]
    pub fn is_difference(&self) -> bool {
        [Self::DIFFERS, Self::UNEXPECTED, Self::REQUEST].contains(&self.code.as_str())
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)?;
        for line in self.detail.lines() {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}
