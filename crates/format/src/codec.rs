//! The seam for older formats.
//!
//! A [`Codec`] turns the physical rows of one version into current events, one row at a time and without keeping them. The
//! codec of an older version is the chain of adjacent steps from there to the current one; the scanner, the tail rules and
//! everything behind them do not know which version they read.

use offshoot_session::{Event, RowError, SessionHeader};

use crate::FormatError;
use crate::admission::Admission;
use crate::header::{CURRENT_VERSION, decode_header, version_gate};

/// Why a row cannot be used.
pub(crate) enum RowFault {
    /// Not a row at all. At the end of a file this is what a crash leaves.
    Structure(String),
    /// A whole row that breaks a rule. No crash writes such a row, so it is damage wherever it stands.
    Rule(String),
}

/// One readable format version.
pub(crate) trait Codec {
    /// The logical header.
    fn header(&self, line: &str) -> Result<SessionHeader, FormatError>;

    /// Reads the next row and adds the events that it becomes to `events`. Behind an error those mean nothing.
    fn row(&mut self, row: &str, events: &mut Vec<Event>) -> Result<(), RowFault>;
}

/// The codec for the version that a header line names.
pub(crate) fn codec_for(header_line: &str) -> Result<Box<dyn Codec>, FormatError> {
    match version_gate(header_line)? {
        CURRENT_VERSION => Ok(Box::new(V4 {
            admission: Admission::new(),
        })),
        other => Err(FormatError::UnsupportedVersion {
            version: other.to_string(),
            current: CURRENT_VERSION,
        }),
    }
}

/// Rows that are current already.
struct V4 {
    admission: Admission,
}

impl Codec for V4 {
    fn header(&self, line: &str) -> Result<SessionHeader, FormatError> {
        decode_header(line)
    }

    fn row(&mut self, row: &str, events: &mut Vec<Event>) -> Result<(), RowFault> {
        let event = Event::from_row(row).map_err(|error| match error {
            RowError::Envelope(_) => RowFault::Structure(error.to_string()),
            other => RowFault::Rule(other.to_string()),
        })?;
        self.admission
            .admit(&event)
            .map_err(|reason| RowFault::Rule(format!("`{}`: {reason}", event.kind())))?;
        events.push(event);
        Ok(())
    }
}
