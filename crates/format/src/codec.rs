//! Rows of every version: what a row claims to be, and, once the scanner knows that it counts, the current events that it
//! becomes.
//!
//! The two are apart because a row is judged by its own seqs before anything is made of it: the scanner, the tail rules and
//! everything behind them work the same for every version.

use std::ops::Range;
use std::sync::Arc;

use offshoot_session::{Event, EventKind, RowError, RowsText};

use crate::admission::Admission;
use crate::chain::{Chain, Item};
use crate::chunks::ChunkRun;
use crate::evidence::ChildEvidence;
use crate::header::StoredHeader;
use crate::record::Record;
use crate::version::Version;
use crate::{FormatError, Place};

/// Why a row cannot be used.
#[derive(Debug)]
pub(crate) enum RowFault {
    /// Not a row at all. At the end of a file this is what a crash leaves.
    Structure(String),
    /// A whole row that breaks a rule. No crash writes such a row, so it is damage wherever it stands.
    Rule(String),
}

/// One physical row.
#[derive(Debug)]
pub(crate) enum Row {
    /// An event of the current version.
    Current(Arc<Event>),
    /// An event, or a packed run of chunks, of an older version.
    Older(Item),
}

impl Row {
    /// Says where the row stands, once that is known.
    pub(crate) fn set_place(&mut self, place: Place) {
        match self {
            Self::Current(_) => {}
            Self::Older(Item::Event(record)) => record.place = place,
            Self::Older(Item::Chunks(run)) => run.place = place,
        }
    }

    /// The row's seqs: the first, and the one behind the last.
    pub(crate) fn seqs(&self) -> (u64, u64) {
        match self {
            Self::Current(event) => (event.seq().get(), event.seq().get() + 1),
            Self::Older(Item::Event(record)) => (record.seq, record.seq + 1),
            Self::Older(Item::Chunks(run)) => (run.first, run.end()),
        }
    }

    /// Whether the row witnesses that everything ahead of it was committed.
    pub(crate) fn is_turn_end(&self) -> bool {
        match self {
            Self::Current(event) => *event.kind() == EventKind::TurnEnd,
            Self::Older(Item::Event(record)) => record.is("turn/end"),
            Self::Older(Item::Chunks(_)) => false,
        }
    }

    /// The row's type, if a reader must know it and does not.
    pub(crate) fn unknown_required(&self, version: Version) -> Option<&str> {
        match self {
            Self::Current(event) => {
                (!event.kind().is_known() && !event.ignorable()).then(|| event.kind().as_str())
            }
            Self::Older(Item::Event(record)) => {
                (!version.knows(&record.kind) && !record.ignorable).then_some(&*record.kind)
            }
            Self::Older(Item::Chunks(_)) => None,
        }
    }
}

/// A current event, and the row it comes from.
pub(crate) struct Placed {
    pub(crate) event: Arc<Event>,
    pub(crate) place: Place,
}

/// The way from the rows of one file to current events.
pub(crate) enum Codec {
    /// Rows that are current already.
    Current(Admission),
    /// Rows that the migrations bring up.
    Older(Box<Chain>),
}

impl Codec {
    pub(crate) fn new(header: &StoredHeader, children: &[ChildEvidence]) -> Self {
        match header.version {
            Version::V4 => Self::Current(Admission::new()),
            _ => Self::Older(Box::new(Chain::new(header, Version::CURRENT, children))),
        }
    }

    /// Judges a row by itself. Holds for every row that can be read, wherever it stands (§1.6 rule 5).
    pub(crate) fn admit(&mut self, row: &Row) -> Result<(), String> {
        match (self, row) {
            (Self::Current(admission), Row::Current(event)) => admission
                .admit(event)
                .map_err(|reason| format!("`{}`: {reason}", event.kind())),
            _ => Ok(()),
        }
    }

    /// Takes a row that counts and adds the events that are finished with it.
    pub(crate) fn take(
        &mut self,
        row: Row,
        place: Place,
        out: &mut Vec<Placed>,
    ) -> Result<(), FormatError> {
        match (self, row) {
            (_, Row::Current(event)) => out.push(Placed { event, place }),
            (Self::Older(chain), Row::Older(item)) => chain.take(item, out)?,
            (Self::Current(_), Row::Older(_)) => unreachable!("rows are read for their codec"),
        }
        Ok(())
    }

    /// There are no more rows that count.
    pub(crate) fn finish(&mut self, out: &mut Vec<Placed>) -> Result<(), FormatError> {
        match self {
            Self::Current(_) => Ok(()),
            Self::Older(chain) => chain.finish(out),
        }
    }
}

fn current(read: Result<Event, RowError>) -> Result<Row, RowFault> {
    read.map(|event| Row::Current(Arc::new(event)))
        .map_err(|error| match error {
            RowError::Envelope(_) => RowFault::Structure(error.to_string()),
            other => RowFault::Rule(other.to_string()),
        })
}

/// Reads one row of the current version in a text of several.
pub(crate) fn read_part(text: &RowsText, part: Range<usize>) -> Result<Row, RowFault> {
    current(Event::from_part(text, part))
}

/// Reads one row, without its line feed.
pub(crate) fn read_row(row: &str, version: Version, place: Place) -> Result<Row, RowFault> {
    if version == Version::V4 {
        return current(Event::from_row(row));
    }
    if version.packs_chunks() {
        if let Some(run) = ChunkRun::read_delta(row, place) {
            return Ok(Row::Older(Item::Chunks(run)));
        }
        if let Some(run) = ChunkRun::read(row, place)? {
            return Ok(Row::Older(Item::Chunks(run)));
        }
    }
    Record::read(row, version, place).map(|record| Row::Older(Item::Event(record)))
}
