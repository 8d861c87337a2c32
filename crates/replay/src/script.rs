//! The script of one session: its answers, and whose child each of its delegations started.
//!
//! A script is what a recorded session says behind its inherited cut, with the overrides in it; or it is written by hand, as
//! an override without a recording.

use std::path::{Path, PathBuf};

use offshoot_agent::{Asked, ReplayError, recorded_calls};
use offshoot_format::{CURRENT_VERSION, StoredSession};
use offshoot_model::{Chunk, ContentBlock};

use crate::entry::Entry;
use crate::overrides::Overrides;

/// Why there is no script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// An override says something that cannot be.
    #[error("`{file}`: {}{problem}", place_prefix(.place), file = file.display())]
    Override {
        /// Where it was written.
        file: PathBuf,
        /// The place in it, as in `patches[1].entry.chunks[0]`; empty for the whole.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// A recording that needs an override, or cannot be replayed at all.
    #[error("`{file}`{}: {source}", line_suffix(*.line), file = file.display())]
    Recording {
        /// The recording's name.
        name: String,
        /// Its file.
        file: PathBuf,
        /// The line of the event, from 1, if the file has one line for each event.
        line: Option<u64>,
        /// What is wrong.
        source: ReplayError,
    },
    /// Two scripts with one name.
    #[error("there are two scripts for the session `{name}`")]
    SameName {
        /// The name.
        name: String,
    },
    /// Two recordings of one session.
    #[error("`{first}` and `{second}` are recordings of the same session, `{id}`")]
    SameSession {
        /// The one.
        first: String,
        /// The other.
        second: String,
        /// The session.
        id: String,
    },
}

fn place_prefix(place: &str) -> String {
    if place.is_empty() {
        String::new()
    } else {
        format!("{place}: ")
    }
}

fn line_suffix(line: Option<u64>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}

impl ScriptError {
    /// The stable machine code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Override { .. } => "INVALID_OVERRIDE",
            Self::Recording { source, .. } => source.code(),
            Self::SameName { .. } | Self::SameSession { .. } => "INVALID_SCENARIO",
        }
    }

    /// What a person can do about it, if there is something.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Recording { name, source, .. } => {
                let hint = source.hint()?;
                Some(format!("write `overrides/{name}.json`: {hint}"))
            }
            Self::Override { .. } => None,
            Self::SameName { .. } | Self::SameSession { .. } => {
                Some("remove one of them".to_owned())
            }
        }
    }
}

/// The answers of one session.
#[derive(Debug)]
pub struct Script {
    name: String,
    entries: Vec<Entry>,
    recording: Option<StoredSession>,
}

impl Script {
    /// What a recorded session says behind its inherited cut, with the overrides in it. `file` is where it was read from, for
    /// messages.
    ///
    /// # Errors
    /// A recorded answer that was cut off and that no override explains, or a patch of something that is not there.
    pub fn of_recording(
        name: &str,
        file: &Path,
        recording: StoredSession,
        overrides: Option<&Overrides>,
    ) -> Result<Self, ScriptError> {
        let failed = |source: ReplayError| ScriptError::Recording {
            name: name.to_owned(),
            file: file.to_owned(),
            line: line_of(&recording, &source),
            source,
        };
        // Nobody has to be able to read what is replaced.
        let is_replaced = overrides.is_some_and(Overrides::is_whole_script);
        let mut entries = Vec::new();
        if !is_replaced {
            let calls = recorded_calls(&recording.log, recording.inherited).map_err(failed)?;
            entries.extend(calls.into_iter().map(Entry::of_call));
        }
        if let Some(overrides) = overrides {
            entries = overrides.apply(entries)?;
        }
        if let Some(error) = unexplained(&entries) {
            return Err(failed(error));
        }
        Ok(Self {
            name: name.to_owned(),
            entries,
            recording: Some(recording),
        })
    }

    /// A script that was written by hand.
    ///
    /// # Errors
    /// A patch of something that is not there.
    pub fn written(name: &str, overrides: &Overrides) -> Result<Self, ScriptError> {
        Ok(Self {
            name: name.to_owned(),
            entries: overrides.apply(Vec::new())?,
            recording: None,
        })
    }

    /// What the scenario calls its session.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The answers, in the order in which they are given.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What was recorded, if anything was.
    #[must_use]
    pub const fn recording(&self) -> Option<&StoredSession> {
        self.recording.as_ref()
    }

    /// The tool calls that its answers make, in their order: id and name.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (&str, &str)> {
        let chunks = self.entries.iter().flat_map(|entry| &entry.chunks);
        chunks.filter_map(|chunk| match chunk {
            Chunk::BlockEnd {
                block: ContentBlock::ToolCall { id, name, .. },
                ..
            } => Some((id.as_str(), name.as_str())),
            _ => None,
        })
    }
}

/// The first answer that was cut off and that is still as it was recorded.
fn unexplained(entries: &[Entry]) -> Option<ReplayError> {
    entries.iter().enumerate().find_map(|(at, entry)| {
        let recorded = entry.recorded?;
        match recorded.asked {
            Asked::CutOff { turn, step } if !entry.is_written => Some(ReplayError::Unfinished {
                seq: recorded.seq,
                turn,
                step,
                at,
            }),
            _ => None,
        }
    })
}

/// The line of an event. Older versions and compressed files have no line of their own for each.
fn line_of(recording: &StoredSession, error: &ReplayError) -> Option<u64> {
    let is_plain = recording.version == CURRENT_VERSION && recording.frames.is_empty();
    // The header is line 1.
    is_plain.then(|| error.seq().get() + 2)
}
