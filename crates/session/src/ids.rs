//! Newtypes for the numbers and names that must not be confused.
//!
//! A [`Seq`] names an event that exists; a [`LogOffset`] names a gap between events or the length of a prefix. The event
//! with `Seq` 4 is the last one of the prefix with `LogOffset` 5.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The largest integer a JavaScript number holds exactly, 2^53 − 1: the upper bound of every count in the format.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// The number of an existing event. Dense from 0 within a session; equal in a fork and its parent up to the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(u64);

impl Seq {
    /// Names the event numbered `n`.
    #[must_use]
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The offset just before this event: the length of the prefix that ends ahead of it.
    #[must_use]
    pub const fn before(self) -> LogOffset {
        LogOffset(self.0)
    }

    /// The offset just behind this event: the length of the prefix that includes it.
    #[must_use]
    pub const fn after(self) -> LogOffset {
        LogOffset(self.0 + 1)
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A position between events, or the length of a prefix, counted in events from the start of the log.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct LogOffset(u64);

impl LogOffset {
    /// The start of every log.
    pub const START: Self = Self(0);

    /// The offset behind `n` events.
    #[must_use]
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// The plain number of events.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The event that would be written at this offset.
    #[must_use]
    pub const fn seq(self) -> Seq {
        Seq(self.0)
    }

    /// The last event of the prefix of this length, if it has any.
    #[must_use]
    pub const fn last(self) -> Option<Seq> {
        match self.0 {
            0 => None,
            n => Some(Seq(n - 1)),
        }
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for LogOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of a session: any string. Whether it can name a file is the store's question, not the log's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(String);

impl SessionId {
    /// Takes a string as it is.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<&str> for SessionId {
    fn from(id: &str) -> Self {
        Self(id.to_owned())
    }
}
