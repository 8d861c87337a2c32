//! The end of a log alone: for whoever has the events ahead of it already.

use std::sync::Arc;

use offshoot_session::{Body, Event, EventKind, LogOffset, SessionHeader};

use crate::admission::Admission;
use crate::codec::{Row, RowFault, read_row};
use crate::header::StoredHeader;
use crate::scan::{Container, TornTail, read_header};
use crate::stored::{StoredLine, endless_frame, stored_lines};
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
        return end_of_whole(container, bytes, from);
    }
    let mut rows = Rows {
        from,
        admission: Admission::new(),
        line: 1,
        expected: LogOffset::START,
        events: Vec::new(),
        fault: None,
        frame: (0, 0),
    };
    let endless = endless_frame(container, bytes);
    for line in stored_lines(container, bytes).skip(1) {
        let line = line?;
        let corrupt = |reason: &str| FormatError::CorruptFrame {
            byte: line.byte,
            reason: reason.to_owned(),
        };
        if container == Container::Zstd {
            if line.byte == 0 {
                return Err(corrupt("the first frame must hold exactly the header line"));
            }
            let in_endless = endless.is_some_and(|endless| endless <= line.byte);
            if !line.is_whole && !in_endless {
                return Err(corrupt("a whole frame ends in the middle of a line"));
            }
        }
        match endless {
            Some(byte) if !line.is_whole || byte < line.byte => {
                rows.torn(byte, "the frame was cut off");
            }
            None if !line.is_whole => rows.torn(line.byte, "the line was cut off"),
            _ => {}
        }
        // Which event a row is, its place in the file says only as long as every row ahead of it is one.
        if line.is_whole && rows.is_last_ahead() && !rows.is_due(&line) {
            return end_of_whole(container, bytes, from);
        }
        if line.is_whole {
            rows.next(&line)?;
        }
    }
    if let Some(byte) = endless {
        rows.torn(byte, "the frame was cut off");
    }
    Ok(Suffix {
        status: stored.status(),
        header: stored.into_header(),
        tail: rows.tail(bytes.len() as u64),
        events: rows.events,
    })
}

/// The end of a file that is read and validated as a whole.
fn end_of_whole(
    container: Container,
    bytes: &[u8],
    from: LogOffset,
) -> Result<Suffix, FormatError> {
    let whole = decode_as(container, bytes)?;
    let from = usize::try_from(from.get()).unwrap_or(usize::MAX);
    let events = whole.log.events().skip(from).cloned().collect();
    Ok(Suffix {
        status: whole.status(),
        header: whole.header,
        events,
        tail: whole.tail,
    })
}

struct Rows {
    from: LogOffset,
    admission: Admission,
    /// How many lines were taken, with the header.
    line: u64,
    /// The seq that the next row should have.
    expected: LogOffset,
    events: Vec<Arc<Event>>,
    fault: Option<(Place, String)>,
    /// Where the frame in hand begins, and how many events it has so far.
    frame: (u64, u64),
}

impl Rows {
    /// Whether the next row is the last one that is not looked at.
    fn is_last_ahead(&self) -> bool {
        self.fault.is_none() && self.expected.seq().after() == self.from
    }

    /// Whether the row is the event that it should be by the number of rows ahead of it.
    fn is_due(&self, line: &StoredLine<'_>) -> bool {
        let place = self.place(line.byte);
        let row = std::str::from_utf8(&line.text).ok();
        let row = row.and_then(|row| read_row(row, Version::CURRENT, place).ok());
        row.is_some_and(|row| row.seqs().0 == self.expected.get())
    }

    fn next(&mut self, line: &StoredLine<'_>) -> Result<(), FormatError> {
        let place = self.place(line.byte);
        self.line += 1;
        if self.expected < self.from && self.fault.is_none() {
            self.count(place);
            return Ok(());
        }
        let row = match std::str::from_utf8(&line.text) {
            Ok(text) => read_row(text, Version::CURRENT, place),
            Err(error) => Err(RowFault::Structure(format!(
                "not UTF-8 (byte {} of the line)",
                error.valid_up_to()
            ))),
        };
        match row {
            Ok(Row::Current(event)) => self.event(event, place),
            Ok(Row::Older(_)) => unreachable!("rows are read for their version"),
            Err(RowFault::Rule(reason)) => Err(FormatError::Damaged { place, reason }),
            Err(RowFault::Structure(reason)) => {
                self.fault.get_or_insert((place, reason));
                Ok(())
            }
        }
    }

    fn event(&mut self, event: Arc<Event>, place: Place) -> Result<(), FormatError> {
        let damaged = |reason: String| FormatError::Damaged { place, reason };
        if !self.leans_on_what_was_not_read(&event) {
            let admitted = self.admission.admit(&event);
            admitted.map_err(|reason| damaged(format!("`{}`: {reason}", event.kind())))?;
        }
        let seq = event.seq();
        if !event.kind().is_known() && !event.ignorable() {
            return Err(FormatError::UnknownRequiredEvent {
                place: Place {
                    seq: seq.before(),
                    ..place
                },
                kind: event.kind().to_string(),
            });
        }
        let gap = self.fault.is_none() && seq != self.expected.seq();
        if gap {
            let reason = format!("expected seq {}, found {seq}", self.expected);
            self.fault = Some((place, reason));
        }
        match &self.fault {
            None => {
                self.events.push(event);
                self.count(place);
                Ok(())
            }
            Some((place, reason)) if *event.kind() == EventKind::TurnEnd => {
                let witness = if gap { "this" } else { "a later" };
                Err(FormatError::Damaged {
                    place: *place,
                    reason: format!(
                        "{reason}; {witness} turn/end (event {seq}) shows that this was committed"
                    ),
                })
            }
            Some(_) => Ok(()),
        }
    }

    /// Tools that are added name the request header that declares them.
    fn leans_on_what_was_not_read(&self, event: &Event) -> bool {
        match event.body() {
            Body::DeveloperMessage {
                header: Some(header),
                ..
            } => header.before() < self.from,
            _ => false,
        }
    }

    fn count(&mut self, place: Place) {
        let (byte, held) = self.frame;
        self.frame = (place.byte, if byte == place.byte { held + 1 } else { 1 });
        self.expected = self.expected.seq().after();
    }

    /// The next line, or its frame, ends before it should.
    fn torn(&mut self, byte: u64, reason: &str) {
        let place = self.place(byte);
        self.fault.get_or_insert((place, reason.to_owned()));
    }

    fn place(&self, byte: u64) -> Place {
        Place {
            line: self.line + 1,
            seq: self.expected,
            byte,
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
