//! Why bytes are not a session this version can use, and where in them the reason stands.

use offshoot_session::LogOffset;

/// A place in a session file. Lines count from 1, and line 1 is the header; in a compressed file they count in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The seq that the line has or should have.
    pub seq: LogOffset,
    /// The offset in the file: of the line itself, or in a compressed file of the frame that holds it.
    pub byte: u64,
}

impl Place {
    /// The same place in a file that is part of another one: what is byte `from` of that one is its byte `to`, and `lines` of
    /// that one lie ahead of it.
    #[must_use]
    pub const fn moved(self, from: u64, to: u64, lines: u64) -> Self {
        Self {
            line: self.line.saturating_sub(lines),
            seq: self.seq,
            byte: (self.byte + to).saturating_sub(from),
        }
    }
}

/// Why bytes are not a session this version can use. Nothing was changed and nothing was dropped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// No header line that was ever finished.
    #[error("the file has no complete header line ({bytes} bytes)")]
    Empty {
        /// The size of the file.
        bytes: u64,
    },
    /// The first line is not a session header.
    #[error("line 1: {reason}")]
    MalformedHeader {
        /// What is wrong.
        reason: String,
    },
    /// A version that this program does not read.
    #[error("{}", unsupported(version, *current))]
    UnsupportedVersion {
        /// The version that the header names, as it is written there.
        version: String,
        /// The version that this program writes.
        current: u64,
    },
    /// A linked fork in a version of that format which this program does not read.
    #[error(
        "the file is a branch of version {version}, and this program reads version {}",
        crate::BRANCH_VERSION
    )]
    UnsupportedBranch {
        /// The version that the file has.
        version: u64,
    },
    /// The beginning of a linked fork, which lies in another file, is not what it was.
    #[error("its base `{}` cannot be used: {reason}", crate::base_name(*index))]
    BaseDamaged {
        /// Which base.
        index: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// An event that may not be passed over and that this version does not know.
    #[error(
        "line {}: event {} has the required type `{kind}`, which this version does not know",
        place.line, place.seq
    )]
    UnknownRequiredEvent {
        /// Where.
        place: Place,
        /// The type.
        kind: String,
    },
    /// An intact log of an older version that no released program can bring up.
    #[error("{}: {reason}", migration(*version, *place))]
    UnsupportedMigration {
        /// The version that the file has.
        version: u64,
        /// Where the reason stands, as far as it is one line. The seq is that of the file.
        place: Option<Place>,
        /// What cannot be brought up.
        reason: String,
    },
    /// Damage in a part of the log that was committed.
    #[error("line {}: {reason}", place.line)]
    Damaged {
        /// Where.
        place: Place,
        /// What was expected and what was found.
        reason: String,
    },
    /// A compressed file whose frames are damaged.
    #[error("byte {byte}: {reason}")]
    CorruptFrame {
        /// The offset of the frame in the file.
        byte: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// Header and log contradict each other.
    #[error("{reason}")]
    Inconsistent {
        /// What contradicts what.
        reason: String,
    },
}

impl FormatError {
    /// The stable machine code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Empty { .. } => "EMPTY_LOG",
            Self::MalformedHeader { .. } => "MALFORMED_HEADER",
            Self::UnsupportedVersion { .. } => "UNSUPPORTED_VERSION",
            Self::UnsupportedBranch { .. } => "UNSUPPORTED_BRANCH",
            Self::BaseDamaged { .. } => "BASE_DAMAGED",
            Self::UnknownRequiredEvent { .. } => "UNKNOWN_REQUIRED_EVENT",
            Self::UnsupportedMigration { .. } => "UNSUPPORTED_MIGRATION",
            Self::Damaged { .. } => "DAMAGED_LOG",
            Self::CorruptFrame { .. } => "CORRUPT_FRAME",
            Self::Inconsistent { .. } => "INCONSISTENT_LOG",
        }
    }

    /// Whether another program version may well read the same bytes: they are not damaged.
    #[must_use]
    pub const fn is_unsupported(&self) -> bool {
        matches!(
            self,
            Self::UnsupportedVersion { .. }
                | Self::UnsupportedBranch { .. }
                | Self::UnknownRequiredEvent { .. }
                | Self::UnsupportedMigration { .. }
        )
    }

    /// Where in the file, as far as it is one line.
    #[must_use]
    pub const fn place(&self) -> Option<Place> {
        match self {
            Self::UnknownRequiredEvent { place, .. } | Self::Damaged { place, .. } => Some(*place),
            Self::UnsupportedMigration { place, .. } => *place,
            _ => None,
        }
    }

    /// The same error of a file that is part of another one; see [`Place::moved`].
    #[must_use]
    pub fn moved(mut self, from: u64, to: u64, lines: u64) -> Self {
        match &mut self {
            Self::UnknownRequiredEvent { place, .. } | Self::Damaged { place, .. } => {
                *place = place.moved(from, to, lines);
            }
            Self::CorruptFrame { byte, .. } => *byte = (*byte + to).saturating_sub(from),
            _ => {}
        }
        self
    }

    /// What a person can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty { .. } => {
                "it never got as far as its first event; make sure that it is no other kind of file before you delete it"
            }
            Self::MalformedHeader { .. } => "check that this is a session file",
            Self::UnsupportedVersion { .. }
            | Self::UnsupportedBranch { .. }
            | Self::UnknownRequiredEvent { .. } => {
                "the file is intact; open it with the version that wrote it, or with a newer one"
            }
            Self::UnsupportedMigration { .. } => {
                "the file is intact and was left as it is; `offshoot show FILE --stored` prints its rows, \
                 `offshoot salvage FILE --to HOME` makes a new session of what can be brought up"
            }
            Self::BaseDamaged { .. } => {
                "the session's other files are intact; restore this one from a backup: it is a hard link to the log that \
                 the session was forked from; or make a new session of its good part with \
                 `offshoot salvage FILE --to HOME`"
            }
            // Nothing stands ahead of it that could be saved.
            Self::CorruptFrame { byte: 0, .. } => {
                "the file was left as it is; restore it from a backup, or check that this is a session file"
            }
            Self::Damaged { place, .. } if place.line <= 2 => {
                "the file was left as it is; restore it from a backup: ahead of this there is nothing to save"
            }
            Self::Damaged { .. } | Self::CorruptFrame { .. } | Self::Inconsistent { .. } => {
                "the file was left as it is; restore it from a backup, or make a new session of its good part with \
                 `offshoot salvage FILE --to HOME`"
            }
        }
    }
}

fn unsupported(version: &str, current: u64) -> String {
    let newer = version
        .parse::<f64>()
        .is_ok_and(|version| version > current as f64);
    if newer {
        format!(
            "the file has format version {version}; this program reads versions 0 to {current}: it was written by a \
             newer one"
        )
    } else {
        format!(
            "the file has format version {version}; this program reads versions 0 to {current} and has no way up from \
             there"
        )
    }
}

fn migration(version: u64, place: Option<Place>) -> String {
    match place {
        Some(place) => format!(
            "line {}: version {version} cannot be brought up to version 4",
            place.line
        ),
        None => format!("version {version} cannot be brought up to version 4"),
    }
}
