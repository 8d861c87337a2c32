//! The end of a log alone: for whoever has the events ahead of it already.

use std::sync::Arc;

use offshoot_session::{Event, EventKind, LogOffset, SessionHeader};

use crate::admission::Admission;
use crate::codec::{Row, RowFault, read_row};
use crate::header::StoredHeader;
use crate::scan::{Container, TornTail, read_header};
use crate::stored::{StoredLine, stored_lines};
use crate::version::Version;
use crate::{FormatError, Place, Status, decode_as};

/// The events of a session from one of them on.
#[derive(Debug)]
pub struct Suffix {
    /// Whether the file is current, or only what is in memory.
    pub status: Status,
    /// The header, in current terms.
    pub header: SessionHeader,
    /// The events, in current terms.
    pub events: Vec<Arc<Event>>,
    /// What a crash left at the end of the file.
    pub tail: Option<TornTail>,
}

/// Reads the events from `from` on; none if the log ends ahead of it.
///
/// The rows ahead of it are counted and not looked at, so neither how the events relate to them is judged nor, for tools
/// that are added in the middle of a conversation, whether they were declared: whoever validated the beginning can. In a
/// file of an older version every event follows from those ahead of it, so that is read and validated as a whole.
///
/// # Errors
/// As [`crate::decode`], as far as the rows that are read show it.
pub fn decode_suffix(
    container: Container,
    bytes: &[u8],
    from: LogOffset,
) -> Result<Suffix, FormatError> {
    let stored = StoredHeader::read(&read_header(container, bytes)?)?;
    if stored.version != Version::CURRENT {
        let whole = decode_as(container, bytes)?;
        let from = usize::try_from(from.get()).unwrap_or(usize::MAX);
        let events = whole.log.events().skip(from).cloned().collect();
        return Ok(Suffix {
            status: whole.status(),
            header: whole.header,
            events,
            tail: whole.tail,
        });
    }
    let mut rows = Rows {
        from,
        admission: Admission::new(),
        expected: LogOffset::START,
        events: Vec::new(),
        fault: None,
        frame: (0, 0),
    };
    for line in stored_lines(container, bytes).skip(1) {
        rows.next(&line?)?;
    }
    Ok(Suffix {
        status: stored.status(),
        header: stored.into_header(),
        tail: rows.tail(bytes.len() as u64),
        events: rows.events,
    })
}

struct Rows {
    from: LogOffset,
    admission: Admission,
    /// The seq that the next row should have.
    expected: LogOffset,
    events: Vec<Arc<Event>>,
    fault: Option<(Place, String)>,
    /// Where the frame in hand begins, and how many events it has so far.
    frame: (u64, u64),
}

impl Rows {
    fn next(&mut self, line: &StoredLine<'_>) -> Result<(), FormatError> {
        let place = Place {
            line: line.line,
            seq: self.expected,
            byte: line.byte,
        };
        if self.expected < self.from && line.is_whole {
            self.expected = self.expected.seq().after();
            return Ok(());
        }
        let row = match std::str::from_utf8(&line.text) {
            Ok(text) if line.is_whole => read_row(text, Version::CURRENT, place),
            Ok(_) => Err(RowFault::Structure("the line was cut off".into())),
            Err(_) => Err(RowFault::Structure("not UTF-8".into())),
        };
        let damaged = |reason: String| FormatError::Damaged { place, reason };
        match row {
            Ok(Row::Current(event)) => self.event(event, place),
            Ok(Row::Older(_)) => unreachable!("rows are read for their version"),
            Err(RowFault::Rule(reason)) => Err(damaged(reason)),
            Err(RowFault::Structure(reason)) => {
                self.fault.get_or_insert((place, reason));
                Ok(())
            }
        }
    }

    fn event(&mut self, event: Arc<Event>, place: Place) -> Result<(), FormatError> {
        let damaged = |reason: String| FormatError::Damaged { place, reason };
        if !event.kind().is_known() && !event.ignorable() {
            return Err(FormatError::UnknownRequiredEvent {
                place,
                kind: event.kind().to_string(),
            });
        }
        if *event.kind() != EventKind::DeveloperMessage {
            let admitted = self.admission.admit(&event);
            admitted.map_err(|reason| damaged(format!("`{}`: {reason}", event.kind())))?;
        }
        let seq = event.seq();
        if self.fault.is_none() && seq != self.expected.seq() {
            let reason = format!("expected seq {}, found {seq}", self.expected);
            self.fault = Some((place, reason));
        }
        match &self.fault {
            None => {
                let (byte, held) = self.frame;
                self.frame = (place.byte, if byte == place.byte { held + 1 } else { 1 });
                self.events.push(event);
                self.expected = seq.after();
                Ok(())
            }
            Some((place, reason)) if *event.kind() == EventKind::TurnEnd => {
                Err(FormatError::Damaged {
                    place: *place,
                    reason: format!(
                        "{reason}; a later turn/end (event {seq}) shows that this was committed"
                    ),
                })
            }
            Some(_) => Ok(()),
        }
    }

    fn tail(&mut self, size: u64) -> Option<TornTail> {
        let (place, reason) = self.fault.take()?;
        let (byte, held) = self.frame;
        Some(TornTail {
            place,
            reason,
            keep: place.byte,
            recovered: if byte == place.byte { held } else { 0 },
            bytes: size - place.byte,
        })
    }
}
