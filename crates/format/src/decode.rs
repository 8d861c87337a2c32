//! A whole file, read and validated.

use offshoot_session::{Event, EventLog, LogOffset, SeedError, Session, SessionHeader};

use crate::evidence::ChildEvidence;
use crate::feed::{Threads, feed};
use crate::header::{CURRENT_VERSION, StoredHeader};
use crate::rows::{Judged, Rows};
use crate::scan::{Container, TornTail, split_header};
use crate::{FormatError, Place, Status};

/// A session as its file holds it: valid, apart from a tail that a crash may have left, and brought up to the current
/// version in memory.
#[derive(Debug)]
pub struct StoredSession {
    /// The version that the file has.
    pub version: u64,
    /// The header, in current terms.
    pub header: SessionHeader,
    /// The exact line of the header that the file has, without its line feed.
    pub header_line: Box<str>,
    /// The events that count.
    pub log: EventLog,
    /// How many of them were inherited.
    pub inherited: LogOffset,
    /// What a crash left at the end of the file.
    pub tail: Option<TornTail>,
    /// The sound frames of a compressed file of the current version, in order; of others none.
    pub frames: Vec<Frame>,
}

/// A frame of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where in the file it begins, in bytes.
    pub byte: u64,
    /// Its first event.
    pub first: LogOffset,
}

impl StoredSession {
    /// Whether the file is current, or only what is in memory.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self.version {
            CURRENT_VERSION => Status::Current,
            stored => Status::MigrationRequired { stored },
        }
    }

    /// What has to be written before the session can go on after a crash: the closers of its open turn.
    #[must_use]
    pub fn closers(&self) -> Vec<Event> {
        self.log.interrupted_closers()
    }

    /// The session as somebody sees it who only reads: an open turn is closed in memory, nothing is written. Gains the
    /// resume marker, dated `now`, unless it ends in a marker.
    ///
    /// # Errors
    /// Only a `now` (ms since the epoch) beyond ±(2^53 − 1): the rest is as [`decode`] has checked it.
    pub fn balanced(mut self, now: i64) -> Result<Session, SeedError> {
        for closer in self.closers() {
            self.log
                .push(closer)
                .expect("BUG: closers fit the log that they were made for");
        }
        Session::restored(self.header, self.log, self.inherited, now)
    }
}

/// Reads and validates the bytes of a session file.
///
/// # Errors
/// [`FormatError`]: see there for what is damage and what is only a torn tail.
pub fn decode(bytes: &[u8]) -> Result<StoredSession, FormatError> {
    decode_as(Container::detect(bytes), bytes)
}

/// [`decode`] for a container that is known, so that a file whose first bytes are damaged is not taken for another kind.
///
/// # Errors
/// As [`decode`].
pub fn decode_as(container: Container, bytes: &[u8]) -> Result<StoredSession, FormatError> {
    decode_with(container, bytes, &[])
}

/// [`decode_as`] with what the session's children prove about it, which completes what an older file does not say. A
/// current file says it all; there the evidence is not looked at.
///
/// # Errors
/// As [`decode`]; also evidence that contradicts the log.
pub fn decode_with(
    container: Container,
    bytes: &[u8],
    children: &[ChildEvidence],
) -> Result<StoredSession, FormatError> {
    decode_on(Threads::Auto, container, bytes, children)
}

/// [`decode_with`] on so many threads. The result does not depend on it.
///
/// # Errors
/// As [`decode_with`].
pub fn decode_on(
    threads: Threads,
    container: Container,
    bytes: &[u8],
    children: &[ChildEvidence],
) -> Result<StoredSession, FormatError> {
    let (header_line, at) = split_header(container, bytes)?;
    let header = StoredHeader::read(&header_line)?;
    let mut rows = Rows::new(header.clone(), children);
    feed(container, bytes, at, header.version, threads, &mut rows);
    let Judged {
        log,
        inherited,
        tail,
        places,
    } = rows.finish(bytes.len() as u64)?;
    let version = header.version();
    let frames = match container {
        Container::Zstd if version == CURRENT_VERSION => sound_frames(&places, tail.as_ref()),
        _ => Vec::new(),
    };
    Ok(StoredSession {
        version,
        header: header.into_header(),
        header_line: header_line.into(),
        log,
        inherited,
        tail,
        frames,
    })
}

fn sound_frames(places: &[Place], tail: Option<&TornTail>) -> Vec<Frame> {
    let sound = tail.map_or(u64::MAX, |tail| tail.keep);
    let mut frames: Vec<Frame> = Vec::new();
    for (first, place) in (0..).zip(places) {
        if place.byte < sound && frames.last().is_none_or(|frame| frame.byte != place.byte) {
            frames.push(Frame {
                byte: place.byte,
                first: LogOffset::new(first),
            });
        }
    }
    frames
}
