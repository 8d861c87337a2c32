//! Packing as the writers of V0 and V1 did it.

use std::borrow::Cow;

use offshoot_session::{MAX_SAFE_INTEGER, StepRef};
use serde::Deserialize;

use super::{ChunkData, DeltaRun};

/// So many rows have to follow one another before they become one.
const SHORTEST: usize = 3;

/// Packs event rows of V0 or V1 as the writers of those versions stored them: three or more consecutive deltas of one block
/// become one row (`reference/persistence.md` §3.8). Takes and gives rows without line feeds and without the header line;
/// every row that is no plain delta comes back as it is.
///
/// This program writes no such rows into a session. It is for whoever needs old files of a given size or shape.
pub fn pack_chunk_rows<'a>(rows: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut packed = Vec::new();
    let mut open: Option<Open<'a>> = None;
    for row in rows {
        let Some(delta) = PlainDelta::read(row) else {
            close(open.take(), &mut packed);
            packed.push(row.to_owned());
            continue;
        };
        let rest = match &mut open {
            Some(open) => open.join(delta, row),
            None => Some(delta),
        };
        let Some(delta) = rest else {
            continue;
        };
        close(open.take(), &mut packed);
        open = Some(Open {
            delta,
            rows: vec![row],
        });
    }
    close(open, &mut packed);
    packed
}

/// A run that the next row may go on with, and the rows that it consists of.
struct Open<'a> {
    delta: PlainDelta,
    rows: Vec<&'a str>,
}

impl<'a> Open<'a> {
    /// Takes the next row into the run, or gives its delta back.
    fn join(&mut self, next: PlainDelta, row: &'a str) -> Option<PlainDelta> {
        let follows = self.delta.seq + self.rows.len() as u64 == next.seq;
        if !follows || self.delta.at != next.at {
            return Some(next);
        }
        let PlainDelta { seq, at, run } = next;
        if let Some(run) = self.delta.run.join(run) {
            return Some(PlainDelta { seq, at, run });
        }
        self.rows.push(row);
        None
    }
}

fn close(open: Option<Open<'_>>, packed: &mut Vec<String>) {
    let Some(Open { delta, rows }) = open else {
        return;
    };
    if rows.len() < SHORTEST {
        packed.extend(rows.into_iter().map(str::to_owned));
        return;
    }
    let PlainDelta { seq, at, run } = delta;
    let mut row = format!(
        r#"{{"type":"{}","seq0":{seq},"time0":{},"data":{{"turn":{},"step":{},"#,
        run.kind.row_type(),
        run.time,
        at.turn,
        at.step
    );
    run.render(&mut row);
    row.push_str("}}");
    packed.push(row);
}

/// One delta in a row of its own that has nothing else in it.
struct PlainDelta {
    seq: u64,
    at: StepRef,
    run: DeltaRun,
}

impl PlainDelta {
    fn read(row: &str) -> Option<Self> {
        let row: ChunkRow<'_> = serde_json::from_str(row).ok()?;
        let safe = row.seq.max(row.time.unsigned_abs()) <= MAX_SAFE_INTEGER;
        if row.kind != "assistant/chunk" || !safe {
            return None;
        }
        Some(Self {
            seq: row.seq,
            at: row.data.at(),
            run: DeltaRun::of_chunk(row.data.chunk(), row.time)?,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChunkRow<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    seq: u64,
    time: i64,
    #[serde(borrow)]
    data: ChunkData<'a>,
}
