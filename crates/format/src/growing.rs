//! A file that grows while it is read: what was judged once is not looked at again.
//!
//! Whoever follows a log hands in what stands behind the place where it stopped. Whole lines, or lines of whole frames, are
//! judged exactly as if the file had been read in one piece: by the same reader, the same admission, and the same
//! relationships to the events ahead of them. What is not whole yet is left for the next time.
//!
//! Two things cannot be judged so. A whole line that is no row, and a frame without an end that has whole frames behind it,
//! are a torn tail or damage depending on what comes later: then this reader says [`Rest::Doubtful`] and takes no more, and
//! only the whole file tells. And in a file of an older version every event follows from all of those ahead of it.

use std::ops::ControlFlow;

use memchr::memrchr;
use offshoot_session::{EventLog, LogOffset, SessionHeader};

use crate::FormatError;
use crate::feed::{Fed, Piece, Sink, Threads, feed};
use crate::frames::{FrameScan, frames_behind, scan_frame};
use crate::header::StoredHeader;
use crate::rows::Rows;
use crate::scan::{Container, split_header};
use crate::version::Version;

/// A log of the current version, as far as it is whole.
pub struct GrowingLog {
    container: Container,
    header: SessionHeader,
    rows: Rows,
    /// Where what is not judged yet begins.
    offset: u64,
    doubtful: bool,
}

/// What stands behind the part that was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing.
    Nothing,
    /// The beginning of a line or a frame, of so many bytes: it is being written, or a crash has left it.
    Begun(u64),
    /// Something of which only the whole file tells whether it is a torn tail or damage. The log ends ahead of it, and
    /// this reader takes no more.
    Doubtful,
}

impl GrowingLog {
    /// Reads what is there of a file: `bytes` from its first byte on. `None` for a file of an older version, which can
    /// only be read as a whole.
    ///
    /// # Errors
    /// As [`crate::decode`].
    pub fn begin(container: Container, bytes: &[u8]) -> Result<Option<(Self, Rest)>, FormatError> {
        let (line, at) = split_header(container, bytes)?;
        let stored = StoredHeader::read(&line)?;
        if stored.version != Version::CURRENT {
            return Ok(None);
        }
        let mut growing = Self {
            container,
            header: stored.header().clone(),
            rows: Rows::new(stored, &[]),
            offset: at as u64,
            doubtful: false,
        };
        let rest = growing.go_on(&bytes[at..])?;
        Ok(Some((growing, rest)))
    }

    /// Takes what is whole of the bytes that stand at [`GrowingLog::offset`].
    ///
    /// # Errors
    /// As [`crate::decode`] for the file up to there. The log is then refused, so the reader must not be used any further.
    pub fn go_on(&mut self, behind: &[u8]) -> Result<Rest, FormatError> {
        if self.doubtful {
            return Ok(Rest::Doubtful);
        }
        let whole = whole_length(self.container, behind);
        let mut shifted = Shifted {
            by: self.offset,
            rows: &mut self.rows,
        };
        let pieces = &behind[..whole];
        feed(
            self.container,
            pieces,
            0,
            Version::CURRENT,
            Threads::Auto,
            &mut shifted,
        );
        self.rows.check_so_far()?;
        self.offset += whole as u64;
        let rest = &behind[whole..];
        self.doubtful = self.rows.has_fault() || self.has_frames(rest);
        Ok(match rest.len() {
            _ if self.doubtful => Rest::Doubtful,
            0 => Rest::Nothing,
            length => Rest::Begun(length as u64),
        })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &SessionHeader {
        &self.header
    }

    /// The events so far.
    #[must_use]
    pub const fn log(&self) -> &EventLog {
        self.rows.log()
    }

    /// How many of them were inherited.
    #[must_use]
    pub fn inherited(&self) -> LogOffset {
        let marker = self.log().inherited_marker();
        marker.map_or(LogOffset::START, |marker| marker.before())
    }

    /// Where the bytes begin that were not judged yet, counted from the first byte that [`GrowingLog::begin`] was given.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Whole frames behind the start of one without an end: its length is damaged, or it looks like that.
    fn has_frames(&self, rest: &[u8]) -> bool {
        self.container == Container::Zstd && frames_behind(rest).next().is_some()
    }
}

impl std::fmt::Debug for GrowingLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GrowingLog")
            .field("container", &self.container)
            .field("id", &self.header.id)
            .field("events", &self.log().end())
            .field("offset", &self.offset)
            .field("doubtful", &self.doubtful)
            .finish()
    }
}

/// How many bytes the whole lines or frames take that come first. What can be no frame counts as whole: it is judged.
fn whole_length(container: Container, bytes: &[u8]) -> usize {
    if container == Container::Raw {
        return memrchr(b'\n', bytes).map_or(0, |end| end + 1);
    }
    let mut at = 0;
    while at < bytes.len() {
        match scan_frame(&bytes[at..]) {
            Ok(FrameScan::Complete(length)) => at += length,
            Ok(FrameScan::Incomplete) => return at,
            Err(_) => return bytes.len(),
        }
    }
    at
}

/// Rows of a part of a file, at their places in the whole of it.
struct Shifted<'a> {
    by: u64,
    rows: &'a mut Rows,
}

impl Sink for Shifted<'_> {
    fn take(&mut self, piece: Piece) -> ControlFlow<()> {
        let by = self.by;
        self.rows.take(match piece {
            Piece::Rows(rows) => Piece::Rows(
                rows.into_iter()
                    .map(|Fed { byte, row }| Fed {
                        byte: byte + by,
                        row,
                    })
                    .collect(),
            ),
            Piece::Corrupt { byte, reason } => Piece::Corrupt {
                byte: byte + by,
                reason,
            },
            Piece::Torn { byte, reason } => Piece::Torn {
                byte: byte + by,
                reason,
            },
        })
    }
}
