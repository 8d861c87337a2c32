//! V1 → V2: the stream of a model becomes part of the event that it led to (`reference/persistence.md` §2.4).
//!
//! The chunks of an attempt leave the log, so all events behind them get other numbers. What the stage keeps is the attempt
//! in flight, and the events behind its last chunk: whether the attempt stands ahead of them as an event of its own is only
//! known when the assistant message comes or does not come.

mod attempt;
mod goal;
#[cfg(test)]
mod tests;

use offshoot_session::LogOffset;

use crate::Place;
use crate::chain::{Context, Item, Stage};
use crate::chunks::ChunkData;
use crate::record::{Record, Refusal};
use crate::refs::Renumbering;
use crate::stages::restart::Restart;

use attempt::{Attempt, Piece};

/// The stage.
pub(crate) struct V1ToV2 {
    /// Where the inherited events end, until the marker is there.
    cut: Option<u64>,
    /// The same, for as long as the stage lives.
    inherited: u64,
    /// When the session was created: the time of a marker that is the only event.
    created_at: i64,
    /// The place and time of the last event of the lower version, and the seq behind it.
    last: Option<(Place, i64)>,
    end: u64,
    seqs: Renumbering,
    restart: Restart,
    attempt: Option<Attempt>,
    /// What came behind the last chunk of the attempt.
    held: Vec<Passing>,
}

/// An event on its way out.
struct Passing {
    record: Record,
    /// Whether this stage adds it, so that nothing refers to it.
    added: bool,
}

impl V1ToV2 {
    pub(crate) fn new(context: &Context<'_>) -> Self {
        Self {
            cut: context.seed_length,
            inherited: context.seed_length.unwrap_or(0),
            created_at: context.header.created_at as i64,
            last: None,
            end: 0,
            seqs: Renumbering::default(),
            restart: Restart::default(),
            attempt: None,
            held: Vec::new(),
        }
    }

    fn event(&mut self, mut record: Record, out: &mut Vec<Item>) -> Result<(), Refusal> {
        (self.end, self.last) = (record.seq + 1, Some((record.place, record.time)));
        let closes = matches!(
            &*record.kind,
            "turn/end" | "step/end" | "llm/retry" | "llm/retry-started"
        );
        if closes {
            self.close(out)?;
        }
        let is_marker = record.is("session/end-seed");
        if is_marker && record.node().members().is_none_or(|all| !all.is_empty()) {
            return Err(record.unsupported("expected an empty payload, as V1 has it"));
        }
        if self.cut.take_if(|cut| *cut == record.seq).is_some() {
            if is_marker {
                record.data = INHERITED.into();
            } else {
                let marker = Record::beside(&record, "session/end-seed", INHERITED);
                self.add(marker, out)?;
            }
        }
        if let Some(missing) = self.restart.before(&record) {
            self.close(out)?;
            self.add(missing, out)?;
        }
        if record.is("assistant/message") {
            return self.message(record, out);
        }
        if let Some((change, message)) = goal::split(&record)? {
            self.add(change, out)?;
            record.data = message;
        }
        let added = false;
        self.pass(Passing { record, added }, out)
    }

    /// The message that an attempt led to, or one without a stream.
    fn message(&mut self, mut record: Record, out: &mut Vec<Item>) -> Result<(), Refusal> {
        let sources = record.sources.take().unwrap_or_default();
        record.surface_first = false;
        let stream = match self.attempt.take() {
            Some(attempt) => {
                self.whole(&attempt, record.seq, record.place)?;
                let data = record.node();
                let count = |name| data.get(name).and_then(|node| node.count());
                let at = attempt.at();
                if (count("turn"), count("step")) != (Some(at.turn), Some(at.step)) {
                    return Err(record.unsupported(format!(
                        "expected turn {} and step {}, of which the stream is ahead of it",
                        at.turn, at.step
                    )));
                }
                if !attempt.is_cited_by(&sources) {
                    return Err(record.unsupported(format!(
                        "`sourceEventSeqs` must name all {} chunks of the stream ahead of it and nothing else, found {} events",
                        attempt.len(),
                        sources.len()
                    )));
                }
                attempt.into_stream()
            }
            None if sources.is_empty() => "[]".to_owned(),
            None => {
                return Err(record.unsupported(format!(
                    "`sourceEventSeqs` names {} events, but no stream is ahead of it",
                    sources.len()
                )));
            }
        };
        if record.members()?.get("stream").is_some() {
            return Err(record.unsupported("`stream` is no member of it before V2"));
        }
        record.stream = Some(stream.into());
        self.release(out)?;
        let added = false;
        self.emit(Passing { record, added }, out)
    }

    fn piece(&mut self, piece: Piece, out: &mut Vec<Item>) -> Result<(), Refusal> {
        (self.end, self.last) = (piece.end, Some((piece.place, piece.last)));
        self.restart.interrupt();
        if self
            .attempt
            .as_ref()
            .is_some_and(|open| !open.takes(&piece))
        {
            self.close(out)?;
        }
        if self
            .cut
            .is_some_and(|cut| piece.first < cut && cut < piece.end)
        {
            return Err(self.split(piece.place));
        }
        if let Some(attempt) = &self.attempt {
            self.whole(attempt, piece.first, piece.place)?;
        }
        self.release(out)?;
        if self.cut.take_if(|cut| *cut == piece.first).is_some() {
            let marker = marker(piece.place, piece.first, piece.time);
            self.add(marker, out)?;
        }
        self.seqs.gone(piece.first);
        match &mut self.attempt {
            Some(attempt) => attempt.push(piece),
            None => self.attempt = Some(Attempt::new(piece)),
        }
        Ok(())
    }

    /// An attempt and what it led to must be on one side of the cut, because they are one event in V2.
    fn whole(&self, attempt: &Attempt, seq: u64, place: Place) -> Result<(), Refusal> {
        match attempt.first() < self.inherited && self.inherited <= seq {
            true => Err(self.split(place)),
            false => Ok(()),
        }
    }

    fn split(&self, place: Place) -> Refusal {
        Refusal::unsupported(
            place,
            format!(
                "the inherited part ends at seq {}, inside the stream of one model call",
                self.inherited
            ),
        )
    }

    /// Nobody will claim the attempt: it becomes an event of its own.
    fn close(&mut self, out: &mut Vec<Item>) -> Result<(), Refusal> {
        if let Some(attempt) = self.attempt.take() {
            let record = attempt.into_event();
            self.emit(
                Passing {
                    record,
                    added: true,
                },
                out,
            )?;
        }
        self.release(out)
    }

    fn add(&mut self, record: Record, out: &mut Vec<Item>) -> Result<(), Refusal> {
        self.pass(
            Passing {
                record,
                added: true,
            },
            out,
        )
    }

    fn pass(&mut self, passing: Passing, out: &mut Vec<Item>) -> Result<(), Refusal> {
        if self.attempt.is_some() {
            self.held.push(passing);
            return Ok(());
        }
        self.emit(passing, out)
    }

    fn release(&mut self, out: &mut Vec<Item>) -> Result<(), Refusal> {
        for passing in std::mem::take(&mut self.held) {
            self.emit(passing, out)?;
        }
        Ok(())
    }

    fn emit(&mut self, passing: Passing, out: &mut Vec<Item>) -> Result<(), Refusal> {
        let Passing { record, added } = passing;
        if !added {
            return self.seqs.pass(record, out);
        }
        self.seqs.add(record, out);
        Ok(())
    }
}

impl Stage for V1ToV2 {
    fn take(&mut self, item: Item, out: &mut Vec<Item>) -> Result<(), Refusal> {
        match item {
            Item::Chunks(run) => self.piece(Piece::of_run(run), out),
            Item::Event(record) if record.is("assistant/chunk") => {
                let data = ChunkData::read(&record.data);
                let data = data.map_err(|reason| record.malformed(reason))?;
                self.piece(Piece::of_row(&record, &data)?, out)
            }
            Item::Event(record) => self.event(record, out),
        }
    }

    fn finish(&mut self, out: &mut Vec<Item>) -> Result<(), Refusal> {
        self.close(out)?;
        let Some(cut) = self.cut.take() else {
            return Ok(());
        };
        if cut > self.end {
            return Err(Refusal::malformed(
                None,
                format!(
                    "the header says that {cut} events are inherited, but there are only {}",
                    self.end
                ),
            ));
        }
        let header = Place {
            line: 1,
            seq: LogOffset::START,
            byte: 0,
        };
        let (place, time) = self.last.unwrap_or((header, self.created_at));
        self.add(marker(place, cut, time), out)
    }
}

/// The payload of the marker behind what was inherited.
const INHERITED: &str = r#"{"inherited":true}"#;

fn marker(place: Place, seq: u64, time: i64) -> Record {
    Record::added(place, "session/end-seed", seq, time, INHERITED)
}
