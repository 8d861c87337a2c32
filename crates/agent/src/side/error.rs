//! Why something about a side session is not possible.

use offshoot_session::{Seq, SessionId};

/// Why something about a side session is not possible. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SideError {
    /// The cut lies in a turn that has not ended.
    #[error(
        "event {at} of session `{session}` is in turn {turn}, which has not ended; a side session begins where no turn is open"
    )]
    CutUnavailable {
        /// The source.
        session: SessionId,
        /// What was asked for.
        at: Seq,
        /// The open turn.
        turn: u64,
    },
    /// The session explains nothing on the side: it never did, or it was promoted.
    #[error("session `{0}` is not a side session")]
    NotASideSession(SessionId),
    /// The id that the child shall have is another session's, or the child has gone on already.
    #[error(
        "session `{child}` exists already and is not a fresh side session of `{parent}` at this place"
    )]
    ChildExists {
        /// The id.
        child: SessionId,
        /// The source.
        parent: SessionId,
    },
    /// There is nothing to bring back.
    #[error("the handback of side session `{0}` would be empty")]
    HandbackEmpty(SessionId),
    /// A handback for somebody else.
    #[error("side session `{child}` was branched off from `{parent}`, not from `{asked}`")]
    ForeignChild {
        /// The side session.
        child: SessionId,
        /// Whose it is.
        parent: SessionId,
        /// Who was to get the handback.
        asked: SessionId,
    },
    /// A side session of nobody: there is nowhere to bring anything back to.
    #[error("session `{0}` was branched off from no other session")]
    NoParent(SessionId),
    /// Somebody else has the parent open for writing.
    #[error("the note was not handed back: {reason}")]
    ParentElsewhere {
        /// Who has it, in words.
        reason: String,
    },
}

impl SideError {
    /// The stable machine code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::CutUnavailable { .. } => "SIDE_CUT_UNAVAILABLE",
            Self::NotASideSession(_) => "NOT_A_SIDE_SESSION",
            Self::ChildExists { .. } => "SIDE_CHILD_EXISTS",
            Self::HandbackEmpty(_) => "HANDBACK_EMPTY",
            Self::ForeignChild { .. } => "FOREIGN_CHILD",
            Self::NoParent(_) => "NO_PARENT",
            // As of the store's error that it explains.
            Self::ParentElsewhere { .. } => "SESSION_ALREADY_OWNED",
        }
    }

    /// What a person can do about it, if there is something.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::CutUnavailable { .. } => Some(
                "name an event of a completed turn, or none to begin at the last completed one"
                    .into(),
            ),
            Self::ChildExists { .. } => {
                Some("choose another id, or go on with that session".into())
            }
            Self::HandbackEmpty(_) => {
                Some("say what to bring back, or ask the side session something first".into())
            }
            Self::ParentElsewhere { .. } => Some(
                "merge from the program that has it open, or close it there and merge again".into(),
            ),
            Self::NotASideSession(_) => {
                Some("`offshoot ls` marks side sessions with `(side)`".into())
            }
            Self::ForeignChild { .. } | Self::NoParent(_) => None,
        }
    }
}
