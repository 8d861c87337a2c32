//! From bytes to the events that count: lines, frames, and what the end of the file means.
//!
//! A fault behind the last `turn/end` is the tail of a crash and is left out; the same fault ahead of a `turn/end` is
//! damage to something that was committed (`reference/persistence.md` §1.6). Some faults are never a tail: a whole row that
//! breaks a rule, and an event that only a newer program knows.

use std::sync::Arc;

use memchr::memchr;
use offshoot_session::{Event, EventKind, LogOffset, SessionHeader};

use crate::codec::{Codec, RowFault, codec_for};
use crate::frames::{FrameScan, decode_frame, decode_torn_frame, looks_compressed, scan_frame};
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
    /// How much of the file is good; a writer truncates to this before it appends.
    pub keep: u64,
    /// How many of the log's last events lie behind `keep` all the same: whole records of a torn frame. A writer appends
    /// them again.
    pub recovered: u64,
    /// How many bytes behind `keep` there are.
    pub bytes: u64,
}

pub(crate) struct Scan {
    pub(crate) header: SessionHeader,
    pub(crate) header_line: Box<str>,
    pub(crate) events: Vec<Arc<Event>>,
    pub(crate) tail: Option<TornTail>,
}

/// Splits the bytes of a file into its header and the events that count.
pub(crate) fn scan(container: Container, bytes: &[u8]) -> Result<Scan, FormatError> {
    match container {
        Container::Raw => scan_raw(bytes),
        Container::Zstd => scan_zstd(bytes),
    }
}

fn scan_raw(bytes: &[u8]) -> Result<Scan, FormatError> {
    let Some(header_end) = memchr(b'\n', bytes) else {
        return Err(FormatError::Empty {
            bytes: bytes.len() as u64,
        });
    };
    let mut rows = Rows::new(&bytes[..header_end])?;
    let mut at = header_end + 1;
    let mut keep = at as u64;
    while let Some(length) = memchr(b'\n', &bytes[at..]) {
        rows.next(&bytes[at..at + length], at as u64)?;
        at += length + 1;
        if rows.fault.is_none() {
            keep = at as u64;
        }
    }
    if at < bytes.len() {
        rows.torn(
            at as u64,
            "the last line has no end: it was being written when the process ended",
        );
    }
    Ok(rows.finish(keep, 0, bytes.len() as u64))
}

fn scan_zstd(bytes: &[u8]) -> Result<Scan, FormatError> {
    let corrupt = |byte: usize, reason: &str| FormatError::CorruptFrame {
        byte: byte as u64,
        reason: reason.to_owned(),
    };
    let first = scan_frame(bytes).map_err(|reason| corrupt(0, reason))?;
    let FrameScan::Complete(mut at) = first else {
        return Err(FormatError::Empty {
            bytes: bytes.len() as u64,
        });
    };
    let header = decode_frame(&bytes[..at], 0)?;
    let mut rows = match memchr(b'\n', &header) {
        Some(end) if end + 1 == header.len() => Rows::new(&header[..end])?,
        _ => {
            return Err(corrupt(
                0,
                "the first frame must hold exactly the header line",
            ));
        }
    };
    let (mut keep, mut recovered) = (at as u64, 0);
    while at < bytes.len() {
        let start = at;
        let before = rows.events.len() as u64;
        let text = match scan_frame(&bytes[at..]).map_err(|reason| corrupt(start, reason))? {
            FrameScan::Complete(length) => {
                at += length;
                let text = decode_frame(&bytes[start..at], start as u64)?;
                if text.last().is_some_and(|&byte| byte != b'\n') {
                    return Err(corrupt(start, "a whole frame ends in the middle of a line"));
                }
                text
            }
            FrameScan::Incomplete => {
                at = bytes.len();
                decode_torn_frame(&bytes[start..])
            }
        };
        let torn =
            at == bytes.len() && matches!(scan_frame(&bytes[start..]), Ok(FrameScan::Incomplete));
        let clean_before = rows.fault.is_none();
        let mut rest = &text[..];
        while let Some(length) = memchr(b'\n', rest) {
            rows.next(&rest[..length], start as u64)?;
            rest = &rest[length + 1..];
        }
        if torn {
            rows.torn(
                start as u64,
                "the last frame has no end: it was being written when the process ended",
            );
        }
        if rows.fault.is_none() {
            keep = at as u64;
        } else if clean_before {
            recovered = rows.events.len() as u64 - before;
        }
    }
    Ok(rows.finish(keep, recovered, bytes.len() as u64))
}

/// The header line at the start of a file, without its line feed, from bytes that hold at least the whole line or frame.
///
/// # Errors
/// Bytes that do not hold it, or a damaged first frame.
pub fn read_header(container: Container, bytes: &[u8]) -> Result<String, FormatError> {
    let empty = FormatError::Empty {
        bytes: bytes.len() as u64,
    };
    let text = match container {
        Container::Raw => bytes.to_vec(),
        Container::Zstd => match scan_frame(bytes) {
            Ok(FrameScan::Complete(length)) => decode_frame(&bytes[..length], 0)?,
            Ok(FrameScan::Incomplete) => return Err(empty),
            Err(reason) => {
                return Err(FormatError::CorruptFrame {
                    byte: 0,
                    reason: reason.to_owned(),
                });
            }
        },
    };
    let end = memchr(b'\n', &text).ok_or(empty)?;
    match std::str::from_utf8(&text[..end]) {
        Ok(line) => Ok(line.to_owned()),
        Err(error) => Err(FormatError::MalformedHeader {
            reason: format!("not UTF-8 (byte {})", error.valid_up_to()),
        }),
    }
}

/// The rows of one file, in order.
struct Rows {
    codec: Box<dyn Codec>,
    header: SessionHeader,
    header_line: Box<str>,
    events: Vec<Arc<Event>>,
    line: u64,
    fault: Option<(Place, String)>,
}

impl Rows {
    fn new(header_line: &[u8]) -> Result<Self, FormatError> {
        let line =
            std::str::from_utf8(header_line).map_err(|error| FormatError::MalformedHeader {
                reason: format!("not UTF-8 (byte {})", error.valid_up_to()),
            })?;
        let codec = codec_for(line)?;
        let header = codec.header(line)?;
        Ok(Self {
            codec,
            header,
            header_line: line.into(),
            events: Vec::new(),
            line: 1,
            fault: None,
        })
    }

    fn next(&mut self, row: &[u8], byte: u64) -> Result<(), FormatError> {
        self.line += 1;
        let place = self.place(byte);
        let fault = match std::str::from_utf8(row) {
            Err(error) => RowFault::Structure(format!(
                "not UTF-8 (byte {} of the line)",
                error.valid_up_to()
            )),
            Ok(text) => {
                let mut read = Vec::new();
                match self.codec.row(text, &mut |event| read.push(event)) {
                    Ok(()) => {
                        return read
                            .into_iter()
                            .try_for_each(|event| self.event(event, place));
                    }
                    Err(fault) => fault,
                }
            }
        };
        match fault {
            RowFault::Rule(reason) => Err(FormatError::Damaged { place, reason }),
            RowFault::Structure(reason) => {
                self.fault.get_or_insert((place, reason));
                Ok(())
            }
        }
    }

    fn event(&mut self, event: Event, place: Place) -> Result<(), FormatError> {
        if !event.kind().is_known() && !event.ignorable() {
            return Err(FormatError::UnknownRequiredEvent {
                place,
                kind: event.kind().to_string(),
            });
        }
        let expected = self.events.len() as u64;
        if self.fault.is_none() && event.seq().get() != expected {
            let reason = format!("expected seq {expected}, found {}", event.seq());
            self.fault = Some((place, reason));
        }
        match &self.fault {
            None => self.events.push(Arc::new(event)),
            Some((place, reason)) if *event.kind() == EventKind::TurnEnd => {
                return Err(FormatError::Damaged {
                    place: *place,
                    reason: format!(
                        "{reason}; a later turn/end (event {}) shows that this was committed",
                        event.seq()
                    ),
                });
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn torn(&mut self, byte: u64, reason: &str) {
        self.line += 1;
        let place = self.place(byte);
        self.fault.get_or_insert((place, reason.to_owned()));
    }

    fn place(&self, byte: u64) -> Place {
        Place {
            line: self.line,
            seq: LogOffset::new(self.events.len() as u64),
            byte,
        }
    }

    fn finish(self, keep: u64, recovered: u64, size: u64) -> Scan {
        let tail = self.fault.map(|(place, reason)| TornTail {
            place,
            reason,
            keep,
            recovered,
            bytes: size - keep,
        });
        Scan {
            header: self.header,
            header_line: self.header_line,
            events: self.events,
            tail,
        }
    }
}
