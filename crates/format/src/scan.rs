//! From bytes to the events that count: lines, frames, and what the end of the file means.
//!
//! A fault behind the last `turn/end` is the tail of a crash and is left out; the same fault ahead of a `turn/end` is
//! damage to something that was committed (`reference/persistence.md` §1.6). Some faults are never a tail: a whole row that
//! breaks a rule, and an event that only a newer program knows.

use std::sync::Arc;

use memchr::memchr;
use offshoot_session::{Event, LogOffset, Seq};

use crate::codec::{Codec, Placed, Row, RowFault, read_row};
use crate::evidence::ChildEvidence;
use crate::frames::{FrameScan, Unpacker, frames_within, looks_compressed, scan_frame};
use crate::header::StoredHeader;
use crate::{FormatError, Place};

/// How the bytes are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// Lines of JSON.
    Raw,
    /// Lines of JSON in zstd frames.
    Zstd,
}

impl Container {
    /// Tells by the first bytes.
    #[must_use]
    pub fn detect(bytes: &[u8]) -> Self {
        if looks_compressed(bytes) {
            Self::Zstd
        } else {
            Self::Raw
        }
    }
}

/// The end of a file that a crash left behind. Nothing in it was committed by a `turn/end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Where the first thing that cannot be used stands.
    pub place: Place,
    /// Why it cannot be used.
    pub reason: String,
    /// How much of the file is good; a writer truncates to this before it appends. Equal to `place.byte`: a faulty line
    /// goes from its start, a frame that is torn or has a faulty line in it goes whole.
    pub keep: u64,
    /// How many of the log's last events lie behind `keep` all the same: the whole records ahead of the fault in its
    /// frame. A writer appends them again.
    pub recovered: u64,
    /// How many bytes behind `keep` there are.
    pub bytes: u64,
}

pub(crate) struct Scan {
    pub(crate) header: StoredHeader,
    pub(crate) header_line: Box<str>,
    /// The events that count, in current terms.
    pub(crate) events: Vec<Arc<Event>>,
    /// Where the row of each of them stands.
    pub(crate) places: Vec<Place>,
    pub(crate) tail: Option<TornTail>,
}

/// Splits the bytes of a file into its header and the events that count.
pub(crate) fn scan(
    container: Container,
    bytes: &[u8],
    children: &[ChildEvidence],
) -> Result<Scan, FormatError> {
    match container {
        Container::Raw => scan_raw(bytes, children),
        Container::Zstd => scan_zstd(bytes, children),
    }
}

fn scan_raw(bytes: &[u8], children: &[ChildEvidence]) -> Result<Scan, FormatError> {
    let Some(header_end) = memchr(b'\n', bytes) else {
        return Err(empty(bytes));
    };
    let mut rows = Rows::new(&bytes[..header_end], children)?;
    let mut at = header_end + 1;
    while let Some(length) = memchr(b'\n', &bytes[at..]) {
        rows.next(&bytes[at..at + length], at as u64)?;
        at += length + 1;
    }
    if at < bytes.len() {
        rows.torn(at as u64, "the line was cut off");
    }
    rows.finish(bytes.len() as u64)
}

fn scan_zstd(bytes: &[u8], children: &[ChildEvidence]) -> Result<Scan, FormatError> {
    let mut at = first_frame(bytes)?;
    let mut unpacker = Unpacker::new();
    let header = unpacker.whole(&bytes[..at], 0)?;
    let mut rows = match memchr(b'\n', header) {
        Some(end) if end + 1 == header.len() => Rows::new(&header[..end], children)?,
        _ => {
            return Err(corrupt(
                0,
                "the first frame must hold exactly the header line",
            ));
        }
    };
    while at < bytes.len() {
        let (start, rest) = (at as u64, &bytes[at..]);
        let FrameScan::Complete(length) =
            scan_frame(rest).map_err(|reason| corrupt(start, reason))?
        else {
            rows.lines(unpacker.torn(rest), start)?;
            rows.torn(start, "the frame was cut off");
            // A damaged length looks like a torn end too. But behind a real one nothing was ever written, so whole frames
            // there are heard as witnesses.
            for text in frames_within(rest) {
                rows.lines(&text, start)?;
            }
            break;
        };
        let text = unpacker.whole(&rest[..length], start)?;
        if text.last().is_some_and(|&byte| byte != b'\n') {
            return Err(corrupt(start, "a whole frame ends in the middle of a line"));
        }
        rows.lines(text, start)?;
        at += length;
    }
    rows.finish(bytes.len() as u64)
}

/// The length of the first frame.
fn first_frame(bytes: &[u8]) -> Result<usize, FormatError> {
    match scan_frame(bytes) {
        Ok(FrameScan::Complete(length)) => Ok(length),
        Ok(FrameScan::Incomplete) if frames_within(bytes).next().is_some() => Err(corrupt(
            0,
            "the first frame has no end, but whole frames follow",
        )),
        Ok(FrameScan::Incomplete) => Err(empty(bytes)),
        Err(reason) => Err(corrupt(0, reason)),
    }
}

fn empty(bytes: &[u8]) -> FormatError {
    FormatError::Empty {
        bytes: bytes.len() as u64,
    }
}

fn corrupt(byte: u64, reason: &str) -> FormatError {
    FormatError::CorruptFrame {
        byte,
        reason: reason.to_owned(),
    }
}

/// The header line at the start of a file, without its line feed, from bytes that hold at least the whole line or frame.
///
/// # Errors
/// Bytes that do not hold it, or a damaged first frame.
pub fn read_header(container: Container, bytes: &[u8]) -> Result<String, FormatError> {
    let mut unpacker;
    let text = match container {
        Container::Raw => bytes,
        Container::Zstd => {
            unpacker = Unpacker::new();
            unpacker.whole(&bytes[..first_frame(bytes)?], 0)?
        }
    };
    let end = memchr(b'\n', text).ok_or_else(|| empty(bytes))?;
    header_text(&text[..end]).map(str::to_owned)
}

fn header_text(line: &[u8]) -> Result<&str, FormatError> {
    std::str::from_utf8(line).map_err(|error| FormatError::MalformedHeader {
        reason: format!("not UTF-8 (byte {})", error.valid_up_to()),
    })
}

/// The rows of one file, in order.
struct Rows {
    codec: Codec,
    header: StoredHeader,
    header_line: Box<str>,
    events: Vec<Arc<Event>>,
    places: Vec<Place>,
    /// What the row in hand has finished; kept for its space.
    finished: Vec<Placed>,
    line: u64,
    /// The stored seq that the next row should have. Behind a fault that is a guess from the rows there.
    expected: LogOffset,
    fault: Option<(Place, String)>,
}

impl Rows {
    fn new(header_line: &[u8], children: &[ChildEvidence]) -> Result<Self, FormatError> {
        let line = header_text(header_line)?;
        let header = StoredHeader::read(line)?;
        Ok(Self {
            codec: Codec::new(&header, children),
            header,
            header_line: line.into(),
            events: Vec::new(),
            places: Vec::new(),
            finished: Vec::new(),
            line: 1,
            expected: LogOffset::START,
            fault: None,
        })
    }

    /// Takes every whole line of the frame at `byte`.
    fn lines(&mut self, text: &[u8], byte: u64) -> Result<(), FormatError> {
        let mut rest = text;
        while let Some(length) = memchr(b'\n', rest) {
            self.next(&rest[..length], byte)?;
            rest = &rest[length + 1..];
        }
        Ok(())
    }

    fn next(&mut self, row: &[u8], byte: u64) -> Result<(), FormatError> {
        self.line += 1;
        let place = self.place(byte);
        let read = match std::str::from_utf8(row) {
            Ok(text) => read_row(text, self.header.version, place),
            Err(error) => Err(RowFault::Structure(format!(
                "not UTF-8 (byte {} of the line)",
                error.valid_up_to()
            ))),
        };
        match read {
            Ok(row) => self.row(row, place),
            Err(RowFault::Structure(reason)) => {
                self.fault.get_or_insert((place, reason));
                self.expected = self.expected.seq().after();
                Ok(())
            }
            Err(RowFault::Rule(reason)) => Err(FormatError::Damaged { place, reason }),
        }
    }

    fn row(&mut self, row: Row, place: Place) -> Result<(), FormatError> {
        let damaged = |reason: String| FormatError::Damaged { place, reason };
        self.codec.admit(&row).map_err(damaged)?;
        let (first, end) = row.seqs();
        let seq = Seq::new(first);
        if let Some(kind) = row.unknown_required(self.header.version) {
            return Err(FormatError::UnknownRequiredEvent {
                place: Place {
                    seq: seq.before(),
                    ..place
                },
                kind: kind.to_owned(),
            });
        }
        let gap = self.fault.is_none() && seq != place.seq.seq();
        if gap {
            let reason = format!("expected seq {}, found {seq}", place.seq);
            self.fault = Some((place, reason));
        }
        self.expected = LogOffset::new(end);
        match &self.fault {
            None => {
                self.codec.take(row, place, &mut self.finished)?;
                self.keep();
            }
            Some((place, reason)) if row.is_turn_end() => {
                let witness = if gap { "this" } else { "a later" };
                return Err(FormatError::Damaged {
                    place: *place,
                    reason: format!(
                        "{reason}; {witness} turn/end (event {seq}) shows that this was committed"
                    ),
                });
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn keep(&mut self) {
        for Placed { event, place } in self.finished.drain(..) {
            self.events.push(Arc::new(event));
            self.places.push(place);
        }
    }

    /// The next line, or its frame, ends before it should.
    fn torn(&mut self, byte: u64, reason: &str) {
        self.line += 1;
        let place = self.place(byte);
        self.fault.get_or_insert((place, reason.to_owned()));
    }

    fn place(&self, byte: u64) -> Place {
        Place {
            line: self.line,
            seq: self.expected,
            byte,
        }
    }

    fn finish(mut self, size: u64) -> Result<Scan, FormatError> {
        self.codec.finish(&mut self.finished)?;
        self.keep();
        let places = self.places;
        let tail = self.fault.map(|(place, reason)| {
            let in_its_frame = places.iter().rev().take_while(|row| row.byte == place.byte);
            TornTail {
                place,
                reason,
                keep: place.byte,
                recovered: in_its_frame.count() as u64,
                bytes: size - place.byte,
            }
        });
        Ok(Scan {
            header: self.header,
            header_line: self.header_line,
            events: self.events,
            places,
            tail,
        })
    }
}
