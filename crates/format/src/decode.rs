//! A whole file, read and validated.

use offshoot_session::{
    Event, EventLog, LogError, LogOffset, SeedError, Seq, Session, SessionHeader,
};

use crate::relationships::Relationships;
use crate::scan::{Container, TornTail, scan};
use crate::{FormatError, Place};

/// A session as its file holds it: valid, apart from a tail that a crash may have left.
#[derive(Debug)]
pub struct StoredSession {
    /// The header.
    pub header: SessionHeader,
    /// The header's exact line, without its line feed.
    pub header_line: Box<str>,
    /// The events that count.
    pub log: EventLog,
    /// How many of them were inherited.
    pub inherited: LogOffset,
    /// What a crash left at the end of the file.
    pub tail: Option<TornTail>,
}

impl StoredSession {
    /// What has to be written before the session can go on after a crash: the closers of its open turn.
    #[must_use]
    pub fn closers(&self) -> Vec<Event> {
        self.log.interrupted_closers()
    }

    /// The session as somebody sees it who only reads: an open turn is closed in memory, nothing is written.
    ///
    /// # Errors
    /// Never for a session that [`decode`] returned; the type is that of the constructor.
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
    let scan = scan(container, bytes)?;
    let marker = scan.events.iter().rev().find(|event| {
        matches!(
            event.body(),
            offshoot_session::Body::EndSeed { inherited: true }
        )
    });
    let inherited = match (scan.header.is_seeded, marker) {
        (true, Some(marker)) => marker.seq().before(),
        (false, None) => LogOffset::START,
        (true, None) => {
            return Err(FormatError::Inconsistent {
                reason: "the header says that the session is seeded, but no `session/end-seed` with `inherited` \
                         ends the inherited part"
                    .into(),
            });
        }
        (false, Some(marker)) => {
            return Err(FormatError::Inconsistent {
                reason: format!(
                    "the header says that the session is not seeded, but event {} ends an inherited part",
                    marker.seq()
                ),
            });
        }
    };
    let mut log = EventLog::new();
    let mut relationships = Relationships::new(&scan.header, inherited);
    let damaged = |seq: Seq, reason: String| FormatError::Damaged {
        // One event a line, and the header ahead of them: for events that count, the line follows from the seq.
        place: Place {
            line: seq.get() + 2,
            seq: seq.before(),
            byte: 0,
        },
        reason,
    };
    for event in scan.events {
        let seq = event.seq();
        relationships
            .check(&event, &log)
            .map_err(|reason| damaged(seq, format!("event {seq}: {reason}")))?;
        log.push(event)
            .map_err(|error: LogError| damaged(seq, error.to_string()))?;
    }
    relationships
        .finish()
        .map_err(|(seq, reason)| damaged(seq, format!("event {seq}: {reason}")))?;
    let (header, header_line, tail) = (scan.header, scan.header_line, scan.tail);
    Ok(StoredSession {
        header,
        header_line,
        log,
        inherited,
        tail,
    })
}
