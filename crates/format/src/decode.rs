//! A whole file, read and validated.

use std::sync::Arc;

use offshoot_session::{Body, Event, EventLog, LogOffset, SeedError, Seq, Session, SessionHeader};

use crate::evidence::ChildEvidence;
use crate::header::CURRENT_VERSION;
use crate::relationships::Relationships;
use crate::scan::{Container, TornTail, scan};
use crate::{FormatError, Status};

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
    let scan = scan(container, bytes, children)?;
    let header = &scan.header.header;
    let inherited = inherited_count(header, &scan.events)?;
    let mut log = EventLog::new();
    let mut relationships = Relationships::new(header, inherited);
    let damaged = |seq: Seq, reason: String| FormatError::Damaged {
        place: scan.places[seq.get() as usize],
        reason,
    };
    for event in scan.events {
        let seq = event.seq();
        relationships
            .check(&event, &log)
            .map_err(|reason| damaged(seq, format!("event {seq}: {reason}")))?;
        log.push(event)
            .map_err(|error| damaged(seq, error.to_string()))?;
    }
    relationships
        .finish()
        .map_err(|(seq, reason)| damaged(seq, format!("event {seq}: {reason}")))?;
    Ok(StoredSession {
        version: scan.header.version(),
        header: scan.header.into_header(),
        header_line: scan.header_line,
        log,
        inherited,
        tail: scan.tail,
    })
}

/// The durable cut: no number is stored, the last tagged marker stands right behind it (§2.1).
fn inherited_count(
    header: &SessionHeader,
    events: &[Arc<Event>],
) -> Result<LogOffset, FormatError> {
    let marker = events
        .iter()
        .rev()
        .find(|event| matches!(event.body(), Body::EndSeed { inherited: true }));
    match (header.is_seeded, marker) {
        (true, Some(marker)) => Ok(marker.seq().before()),
        (false, None) => Ok(LogOffset::START),
        (true, None) => Err(FormatError::Inconsistent {
            reason: "the header says that the session is seeded, but no `session/end-seed` with `inherited` ends the \
                     inherited part"
                .into(),
        }),
        (false, Some(marker)) => Err(FormatError::Inconsistent {
            reason: format!(
                "the header says that the session is not seeded, but event {} ends an inherited part",
                marker.seq()
            ),
        }),
    }
}
