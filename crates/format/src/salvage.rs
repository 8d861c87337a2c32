//! What can be saved of a file that is refused: its longest beginning that passes everything.
//!
//! Nothing behind a fault is used, however sound it looks: what stands there may answer what is lost. It is only counted, so
//! that a person can tell what a restored backup would bring back.

use std::sync::Arc;

use offshoot_session::{Body, Event, EventLog, LogOffset, Seq, SessionHeader};

use crate::codec::{Codec, Placed, RowFault, read_row};
use crate::header::StoredHeader;
use crate::relationships::Relationships;
use crate::scan::{Container, read_header};
use crate::stored::{StoredLine, endless_frame, stored_lines};
use crate::version::Version;
use crate::{FormatError, Place};

/// The sound beginning of a file.
#[derive(Debug)]
pub struct Salvage {
    /// The version that the file has.
    pub version: u64,
    /// The header in current terms. Whether the session is seeded follows from what was saved: a session whose marker is
    /// lost is none any more.
    pub header: SessionHeader,
    /// The events that are saved, in current terms.
    pub log: EventLog,
    /// How many of them were inherited.
    pub inherited: LogOffset,
    /// What is lost; `None` if nothing is.
    pub loss: Option<Loss>,
}

/// What is lost behind the sound beginning of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The first thing that could not be used. Its seq is that of the file.
    pub place: Place,
    /// Why.
    pub reason: String,
    /// How many rows there are from there on, as far as they can be told: of a frame that cannot be unpacked none can.
    pub rows: u64,
    /// How many of them end a turn.
    pub turns: u64,
    /// How many bytes of the file there are from there on; in a compressed file from the start of the frame.
    pub bytes: u64,
}

/// A hole in a log that lies in several files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap<'a> {
    /// What is missing, and why.
    pub reason: String,
    /// What stands behind it: rows without a header, packed as the file is. It is only counted.
    pub behind: Vec<&'a [u8]>,
}

/// How often the beginning is shortened to where the last fault was found. Behind that it is halved, so that no file takes
/// more time than a few dozen readings.
const EXACT_ATTEMPTS: usize = 16;

/// Saves the longest beginning of a file that passes everything: the container, the rows, the way up of an older version,
/// and the relationships between events. What an older file does not say of its children stays unsaid.
///
/// # Errors
/// A file without a header that can be used: there is no session to save.
pub fn salvage(container: Container, bytes: &[u8]) -> Result<Salvage, FormatError> {
    save(container, bytes, None)
}

/// [`salvage`] for the part of a log that stands ahead of a gap.
///
/// # Errors
/// As there.
pub fn salvage_ahead_of(
    gap: &Gap<'_>,
    container: Container,
    bytes: &[u8],
) -> Result<Salvage, FormatError> {
    save(container, bytes, Some(gap))
}

fn save(container: Container, bytes: &[u8], gap: Option<&Gap<'_>>) -> Result<Salvage, FormatError> {
    let stored = StoredHeader::read(&read_header(container, bytes)?)?;
    let mut fault = None;
    let mut limit = u64::MAX;
    let mut seed_length = stored.seed_length;
    let mut attempt = 0;
    let (events, places) = loop {
        let header = StoredHeader {
            seed_length,
            ..stored.clone()
        };
        match prefix(container, bytes, &header, limit) {
            Ok(Prefix {
                events,
                places,
                end,
            }) => {
                fault = end.or(fault);
                break (events, places);
            }
            Err(Stop::Seed) => seed_length = None,
            Err(Stop::Fault(found)) => {
                attempt += 1;
                let line = found.line.min(limit.saturating_sub(1));
                limit = match attempt {
                    0..=EXACT_ATTEMPTS => line,
                    _ => line / 2,
                };
                fault = Some(Fault {
                    line: limit,
                    ..found
                });
            }
        }
    };
    let (header, log, inherited, broken) = related(&stored.header, events, &places);
    let at_gap = |gap: &Gap<'_>| {
        let lines = stored_lines(container, bytes).filter(Result::is_ok).count();
        Fault {
            line: lines as u64 + 1,
            frame: None,
            reason: gap.reason.clone(),
        }
    };
    let fault = broken.or(fault).or_else(|| gap.map(at_gap));
    let behind = gap.map(|gap| &*gap.behind).unwrap_or_default();
    let loss = fault.map(|fault| measure(container, bytes, behind, stored.version, fault));
    Ok(Salvage {
        version: stored.version(),
        header,
        log,
        inherited,
        loss,
    })
}

struct Fault {
    /// The first line that is not used.
    line: u64,
    /// Where the frame begins that cannot be read, if that is the fault.
    frame: Option<u64>,
    reason: String,
}

impl Fault {
    fn at(line: u64, reason: impl Into<String>) -> Self {
        Self {
            line,
            frame: None,
            reason: reason.into(),
        }
    }
}

/// The events of the first rows, and why there are no more.
struct Prefix {
    events: Vec<Arc<Event>>,
    places: Vec<Place>,
    end: Option<Fault>,
}

/// Why the rows that were taken cannot be finished.
enum Stop {
    /// They end inside of what the header says was inherited.
    Seed,
    /// A row that was taken before does not hold, so the beginning is shorter still.
    Fault(Fault),
}

/// Reads rows up to the first fault, and only lines ahead of `limit`.
fn prefix(
    container: Container,
    bytes: &[u8],
    header: &StoredHeader,
    limit: u64,
) -> Result<Prefix, Stop> {
    let mut codec = Codec::new(header, &[]);
    let mut placed = Vec::new();
    let mut place = Place {
        line: 1,
        seq: LogOffset::START,
        byte: 0,
    };
    let endless = endless_frame(container, bytes);
    let cut_off = |place: Place| {
        endless.map(|byte| Fault {
            line: place.line + 1,
            frame: Some(byte),
            reason: "the frame was cut off".into(),
        })
    };
    let mut end = None;
    let mut lines = stored_lines(container, bytes).skip(1);
    loop {
        let Some(found) = lines.next() else {
            // Of what it held no more than its whole lines is known.
            end = cut_off(place);
            break;
        };
        let line = match found {
            Ok(line) if line.line >= limit => break,
            Ok(line) if endless.is_some_and(|endless| endless < line.byte) => {
                end = cut_off(place);
                break;
            }
            Ok(line) => line,
            Err(error) => {
                let frame = match error {
                    FormatError::CorruptFrame { byte, .. } => Some(byte),
                    _ => None,
                };
                end = Some(Fault {
                    line: place.line + 1,
                    frame,
                    reason: error.to_string(),
                });
                break;
            }
        };
        place = Place {
            line: line.line,
            byte: line.byte,
            ..place
        };
        match take(&mut codec, header.version, &line, place, &mut placed) {
            Ok(next) => place.seq = next,
            Err(Broken::Row(reason)) => {
                end = Some(Fault::at(place.line, reason));
                break;
            }
            // The row was half on its way up: the rows ahead of it are read again without it.
            Err(Broken::Chain(error)) => {
                let line = error
                    .place()
                    .map_or(place.line, |at| at.line.min(place.line));
                return Err(Stop::Fault(Fault::at(line, reason_of(error))));
            }
        }
    }
    if let Err(error) = codec.finish(&mut placed) {
        return Err(match error.place() {
            None if header.seed_length.is_some() => Stop::Seed,
            at => Stop::Fault(Fault::at(
                at.map_or(place.line, |at| at.line),
                reason_of(error),
            )),
        });
    }
    let (events, places) = placed
        .into_iter()
        .map(|placed| (placed.event, placed.place))
        .unzip();
    Ok(Prefix {
        events,
        places,
        end,
    })
}

enum Broken {
    /// The row itself cannot be used; nothing was made of it.
    Row(String),
    /// The row, or one ahead of it, cannot be brought up.
    Chain(FormatError),
}

/// Takes a row, and says which seq the next one should have.
fn take(
    codec: &mut Codec,
    version: Version,
    line: &StoredLine<'_>,
    place: Place,
    placed: &mut Vec<Placed>,
) -> Result<LogOffset, Broken> {
    if !line.is_whole {
        return Err(Broken::Row("the line was cut off".into()));
    }
    let text = std::str::from_utf8(&line.text).map_err(|error| {
        Broken::Row(format!(
            "not UTF-8 (byte {} of the line)",
            error.valid_up_to()
        ))
    })?;
    let row = read_row(text, version, place).map_err(|fault| match fault {
        RowFault::Structure(reason) | RowFault::Rule(reason) => Broken::Row(reason),
    })?;
    codec.admit(&row).map_err(Broken::Row)?;
    if let Some(kind) = row.unknown_required(version) {
        return Err(Broken::Row(format!(
            "the required type `{kind}`, which this version does not know"
        )));
    }
    let (first, end) = row.seqs();
    if first != place.seq.get() {
        return Err(Broken::Row(format!(
            "expected seq {}, found {first}",
            place.seq
        )));
    }
    codec.take(row, place, placed).map_err(Broken::Chain)?;
    Ok(LogOffset::new(end))
}

/// The beginning of the events that fits together, with the header that it proves.
fn related(
    header: &SessionHeader,
    mut shared: Vec<Arc<Event>>,
    places: &[Place],
) -> (SessionHeader, EventLog, LogOffset, Option<Fault>) {
    let mut fault = None;
    loop {
        let is_marker =
            |event: &&Arc<Event>| matches!(event.body(), Body::EndSeed { inherited: true });
        let marker = shared.iter().rev().find(is_marker);
        let inherited = marker.map_or(LogOffset::START, |marker| marker.seq().before());
        let header = SessionHeader {
            is_seeded: marker.is_some(),
            ..header.clone()
        };
        let mut relationships = Relationships::new(&header);
        let mut log = EventLog::new();
        let broken = shared.iter().find_map(|event| {
            let told = relationships.check(event, &log);
            let told = told.map_err(|reason| format!("event {}: {reason}", event.seq()));
            let pushed = told.and_then(|()| {
                log.push(Arc::clone(event))
                    .map_err(|error| error.to_string())
            });
            pushed.err().map(|reason| (event.seq(), reason))
        });
        let broken = broken.or_else(|| {
            let ended = relationships.finish();
            ended
                .err()
                .map(|(seq, reason)| (seq, format!("event {seq}: {reason}")))
        });
        let Some((seq, reason)) = broken else {
            return (header, log, inherited, fault);
        };
        fault = Some(Fault::at(places[index(seq)].line, reason));
        // Without the marker, if it is behind the fault, other rules hold for what is left.
        shared.truncate(index(seq));
    }
}

fn index(seq: Seq) -> usize {
    usize::try_from(seq.get()).expect("BUG: the events of a log are in memory")
}

/// What is wrong, without the line, which is told beside it.
fn reason_of(error: FormatError) -> String {
    match error {
        FormatError::Damaged { reason, .. } | FormatError::UnsupportedMigration { reason, .. } => {
            reason
        }
        other => other.to_string(),
    }
}

/// Counts what stands from the fault on, and what stands behind all that.
fn measure(
    container: Container,
    bytes: &[u8],
    behind: &[&[u8]],
    version: Version,
    fault: Fault,
) -> Loss {
    let (mut rows, mut turns) = (0, 0);
    let (mut seq, mut byte) = (LogOffset::START, bytes.len() as u64);
    let here = Place {
        line: fault.line,
        seq,
        byte,
    };
    let row_of = |line: &StoredLine<'_>| {
        let text = std::str::from_utf8(&line.text).ok();
        text.and_then(|text| read_row(text, version, here).ok())
            .map(|row| (row.seqs().1, row.is_turn_end()))
    };
    let mut count = |row: Option<(u64, bool)>| {
        rows += 1;
        turns += u64::from(row.is_some_and(|(_, is_turn_end)| is_turn_end));
    };
    for line in stored_lines(container, bytes)
        .skip(1)
        .filter_map(Result::ok)
    {
        let row = row_of(&line);
        if line.line < fault.line {
            seq = row.map_or(seq, |(end, _)| LogOffset::new(end));
            continue;
        }
        byte = byte.min(line.byte);
        count(row);
    }
    for piece in behind {
        for line in stored_lines(container, piece).filter_map(Result::ok) {
            count(row_of(&line));
        }
    }
    let place = Place {
        line: fault.line,
        seq,
        byte: fault.frame.unwrap_or(byte),
    };
    let length = bytes.len() + behind.iter().map(|piece| piece.len()).sum::<usize>();
    Loss {
        place,
        reason: fault.reason,
        rows,
        turns,
        bytes: length as u64 - place.byte,
    }
}
