//! How the program ends. The codes are stable: see `docs/cli.md`.

use std::process::ExitCode;

use offshoot_agent::{TurnEndReason, TurnReport};

/// The exit code of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// It did not work, or a check has found something.
    Failed = 1,
    /// The command line was wrong.
    Usage = 2,
    /// The turn ended because the model, or the way to it, failed.
    Model = 3,
    /// The turn was ended by a limit that was set for it.
    Limit = 4,
    /// Somebody stopped it.
    Cancelled = 130,
}

impl Exit {
    /// Of a command that says whether everything is well.
    pub(crate) const fn of(is_good: bool) -> Self {
        match is_good {
            true => Self::Done,
            false => Self::Failed,
        }
    }

    /// Of a turn that nothing but itself has ended.
    pub(crate) const fn of_turn(report: &TurnReport) -> Self {
        match report.reason {
            TurnEndReason::Completed | TurnEndReason::MaxTokens => Self::Done,
            TurnEndReason::Aborted { .. } => Self::Cancelled,
            TurnEndReason::Error { .. } => Self::Model,
            _ => Self::Failed,
        }
    }

    /// Ends the process at once, whatever hangs.
    pub(crate) fn at_once(self) -> ! {
        std::process::exit(self as i32)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
