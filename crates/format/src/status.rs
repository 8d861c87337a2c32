//! What a reader can do with a file (`reference/persistence.md` §2.7).

use std::fmt;

use crate::FormatError;
use crate::version::Version;

/// What a reader can do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It has the current version.
    Current,
    /// It has an older version: readers bring it up in memory, a writer publishes a current file beside it.
    MigrationRequired {
        /// The version that the file has.
        stored: u64,
    },
    /// It is intact, but this program cannot read it.
    Unsupported,
    /// It is damaged, or no session file.
    Malformed,
}

impl Status {
    pub(crate) fn of_version(version: Version) -> Self {
        match version {
            Version::V4 => Self::Current,
            older => Self::MigrationRequired {
                stored: older.number(),
            },
        }
    }

    /// The name: `current`, `migration-required`, `unsupported` or `malformed`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::MigrationRequired { .. } => "migration-required",
            Self::Unsupported => "unsupported",
            Self::Malformed => "malformed",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&FormatError> for Status {
    fn from(error: &FormatError) -> Self {
        if error.is_unsupported() {
            Self::Unsupported
        } else {
            Self::Malformed
        }
    }
}
