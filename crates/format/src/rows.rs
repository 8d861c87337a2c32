//! The rows of a file, judged in their order: which of them count, and what the end of the file means.
//!
//! A fault behind the last `turn/end` is the tail of a crash and is left out; the same fault ahead of a `turn/end` is
//! damage to something that was committed (`reference/persistence.md` §1.6). Some faults are never a tail: a whole row that
//! breaks a rule, and an event that only a newer program knows.

use std::ops::ControlFlow;
use std::sync::Arc;

use offshoot_session::{Body, Event, EventLog, LogOffset, Seq};

use crate::codec::{Codec, Placed, Row, RowFault};
use crate::evidence::ChildEvidence;
use crate::feed::{Fed, Piece, Sink};
use crate::header::StoredHeader;
use crate::relationships::Relationships;
use crate::scan::TornTail;
use crate::{FormatError, Place};

/// The rows of one file so far.
pub(crate) struct Rows {
    header: StoredHeader,
    codec: Codec,
    relationships: Relationships,
    log: EventLog,
    /// Where the row of each event stands.
    places: Vec<Place>,
    /// What the row in hand has finished; kept for its space.
    finished: Vec<Placed>,
    /// The last marker of an inherited part.
    marker: Option<Seq>,
    /// The events do not fit together. Rows are judged all the same: what is wrong with a row by itself comes first.
    broken: Option<FormatError>,
    /// A row cannot be used, unless the frame that it is from is damaged as a whole: then that is what is wrong.
    refused: Option<(u64, FormatError)>,
    line: u64,
    /// The stored seq that the next row should have. Behind a fault that is a guess from the rows there.
    expected: LogOffset,
    fault: Option<(Place, String)>,
}

/// What a file holds.
pub(crate) struct Judged {
    /// The events that count, in current terms.
    pub(crate) log: EventLog,
    /// How many of them were inherited.
    pub(crate) inherited: LogOffset,
    pub(crate) tail: Option<TornTail>,
    /// Where the row of each event stands.
    pub(crate) places: Vec<Place>,
}

impl Rows {
    pub(crate) fn new(header: StoredHeader, children: &[ChildEvidence]) -> Self {
        Self {
            codec: Codec::new(&header, children),
            relationships: Relationships::new(header.header()),
            header,
            log: EventLog::new(),
            places: Vec::new(),
            finished: Vec::new(),
            marker: None,
            broken: None,
            refused: None,
            line: 1,
            expected: LogOffset::START,
            fault: None,
        }
    }

    fn row(&mut self, row: Result<Row, RowFault>, byte: u64) -> Result<(), FormatError> {
        self.line += 1;
        let place = self.place(byte);
        match row {
            Ok(row) => self.judge(row, place),
            Err(RowFault::Structure(reason)) => {
                self.fault.get_or_insert((place, reason));
                self.expected = self.expected.seq().after();
                Ok(())
            }
            Err(RowFault::Rule(reason)) => Err(FormatError::Damaged { place, reason }),
        }
    }

    fn judge(&mut self, mut row: Row, place: Place) -> Result<(), FormatError> {
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
                row.set_place(place);
                self.codec.take(row, place, &mut self.finished)?;
                self.keep();
                Ok(())
            }
            Some((place, reason)) if row.is_turn_end() => {
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

    /// Adds the finished events to the log.
    fn keep(&mut self) {
        let mut finished = std::mem::take(&mut self.finished);
        for Placed { event, place } in finished.drain(..) {
            self.places.push(place);
            if matches!(event.body(), Body::EndSeed { inherited: true }) {
                self.marker = Some(event.seq());
            }
            if self.broken.is_none() {
                self.broken = self.push(event, place).err();
            }
        }
        self.finished = finished;
    }

    fn push(&mut self, event: Arc<Event>, place: Place) -> Result<(), FormatError> {
        let damaged = |reason: String| FormatError::Damaged { place, reason };
        let seq = event.seq();
        self.relationships
            .check(&event, &self.log)
            .map_err(|reason| damaged(format!("event {seq}: {reason}")))?;
        let pushed = self.log.push(event);
        pushed
            .map(|_| ())
            .map_err(|error| damaged(error.to_string()))
    }

    fn place(&self, byte: u64) -> Place {
        Place {
            line: self.line,
            seq: self.expected,
            byte,
        }
    }

    /// There are no more pieces.
    pub(crate) fn finish(mut self, size: u64) -> Result<Judged, FormatError> {
        if let Some((_, error)) = self.refused {
            return Err(error);
        }
        self.codec.finish(&mut self.finished)?;
        self.keep();
        let inherited = self.inherited()?;
        self.check_events()?;
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
        Ok(Judged {
            log: self.log,
            inherited,
            tail,
            places,
        })
    }

    /// What [`Rows::finish`] would refuse if there were no more pieces. For rows of the current version, of which nothing is
    /// held back.
    pub(crate) fn check_so_far(&mut self) -> Result<(), FormatError> {
        if let Some((_, error)) = self.refused.take() {
            return Err(error);
        }
        self.inherited()?;
        self.check_events()
    }

    pub(crate) const fn log(&self) -> &EventLog {
        &self.log
    }

    /// Whether rows are left out from somewhere on.
    pub(crate) const fn has_fault(&self) -> bool {
        self.fault.is_some()
    }

    /// Whether the events fit together, as far as they go.
    fn check_events(&mut self) -> Result<(), FormatError> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        self.relationships.finish().map_err(|(seq, reason)| {
            let at = usize::try_from(seq.get()).expect("BUG: the events of a log are in memory");
            FormatError::Damaged {
                place: self.places[at],
                reason: format!("event {seq}: {reason}"),
            }
        })
    }

    /// The durable cut: no number is stored, the last tagged marker stands right behind it (§2.1).
    fn inherited(&self) -> Result<LogOffset, FormatError> {
        match (self.header.header().is_seeded, self.marker) {
            (true, Some(marker)) => Ok(marker.before()),
            (false, None) => Ok(LogOffset::START),
            (true, None) => Err(FormatError::Inconsistent {
                reason: "the header says that the session is seeded, but no `session/end-seed` with `inherited` ends the \
                         inherited part"
                    .into(),
            }),
            (false, Some(marker)) => Err(FormatError::Inconsistent {
                reason: format!(
                    "the header says that the session is not seeded, but event {marker} ends an inherited part"
                ),
            }),
        }
    }
}

impl Sink for Rows {
    fn take(&mut self, piece: Piece) -> ControlFlow<()> {
        match piece {
            Piece::Rows(rows) => {
                for Fed { byte, row } in rows {
                    if let Some((frame, _)) = &self.refused {
                        // Whether the frame is sound as a whole may still come out.
                        if *frame == byte {
                            continue;
                        }
                        return ControlFlow::Break(());
                    }
                    self.refused = self.row(row, byte).err().map(|error| (byte, error));
                }
            }
            Piece::Corrupt { byte, reason } => {
                if self
                    .refused
                    .as_ref()
                    .is_none_or(|(frame, _)| *frame == byte)
                {
                    let error = FormatError::CorruptFrame { byte, reason };
                    self.refused = Some((byte, error));
                }
                return ControlFlow::Break(());
            }
            Piece::Torn { byte, reason } => {
                self.line += 1;
                let place = self.place(byte);
                self.fault.get_or_insert((place, reason.to_owned()));
            }
        }
        ControlFlow::Continue(())
    }
}
