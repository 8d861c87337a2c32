//! The stream of one model call, while it is being read.

use offshoot_session::StepRef;

use crate::Place;
use crate::chunks::{ChunkData, ChunkRun, DeltaRun, Stream};
use crate::record::{Record, Refusal};

/// The chunks of one row.
pub(super) struct Piece {
    pub(super) place: Place,
    /// The seq of the first chunk, and the one behind the last.
    pub(super) first: u64,
    pub(super) end: u64,
    /// When the first and the last came.
    pub(super) time: i64,
    pub(super) last: i64,
    at: StepRef,
    content: Content,
}

enum Content {
    Deltas(DeltaRun),
    /// Any other chunk, as JSON text.
    Chunk {
        json: Box<str>,
        /// Whether no chunk of the same call can follow.
        finishes: bool,
    },
}

impl Piece {
    pub(super) fn of_run(run: ChunkRun) -> Self {
        Self {
            place: run.place,
            first: run.first,
            end: run.end(),
            time: run.run.time,
            last: run.run.last,
            at: run.at,
            content: Content::Deltas(run.run),
        }
    }

    /// The one chunk of an `assistant/chunk`.
    pub(super) fn of_row(record: &Record, data: &ChunkData<'_>) -> Result<Self, Refusal> {
        let chunk = data.chunk();
        let content = match DeltaRun::of_chunk(chunk, record.time) {
            Some(delta) => Content::Deltas(delta),
            None => {
                let kind = chunk.get("type").filter(|kind| kind.is_string());
                let kind = kind.ok_or_else(|| record.malformed("`chunk` must have a `type`"))?;
                Content::Chunk {
                    json: chunk.json().into(),
                    finishes: kind.is("finish"),
                }
            }
        };
        Ok(Self {
            place: record.place,
            first: record.seq,
            end: record.seq + 1,
            time: record.time,
            last: record.time,
            at: data.at(),
            content,
        })
    }
}

/// The chunks so far.
pub(super) struct Attempt {
    at: StepRef,
    /// The seqs, as ranges in their order: from, and the one behind.
    seqs: Vec<(u64, u64)>,
    stream: Stream,
    finished: bool,
    /// Where and when the last chunk came.
    place: Place,
    last: i64,
}

impl Attempt {
    pub(super) fn new(piece: Piece) -> Self {
        let mut attempt = Self {
            at: piece.at,
            seqs: Vec::new(),
            stream: Stream::default(),
            finished: false,
            place: piece.place,
            last: piece.last,
        };
        attempt.push(piece);
        attempt
    }

    pub(super) const fn at(&self) -> StepRef {
        self.at
    }

    /// The seq of the first chunk.
    pub(super) fn first(&self) -> u64 {
        self.seqs[0].0
    }

    /// How many chunks there are.
    pub(super) fn len(&self) -> u64 {
        self.seqs.iter().map(|(from, end)| end - from).sum()
    }

    /// Whether the piece can be of the same call.
    pub(super) fn takes(&self, piece: &Piece) -> bool {
        !self.finished && self.at == piece.at
    }

    pub(super) fn push(&mut self, piece: Piece) {
        match self.seqs.last_mut() {
            Some((_, end)) if *end == piece.first => *end = piece.end,
            _ => self.seqs.push((piece.first, piece.end)),
        }
        (self.place, self.last) = (piece.place, piece.last);
        match piece.content {
            Content::Deltas(run) => self.stream.deltas(run),
            Content::Chunk { json, finishes } => {
                self.stream.chunk(piece.time, &json);
                self.finished = finishes;
            }
        }
    }

    /// Whether the list names every chunk in its order, and nothing else.
    pub(super) fn is_cited_by(&self, sources: &[u64]) -> bool {
        let seqs = self.seqs.iter().flat_map(|(from, end)| *from..*end);
        seqs.eq(sources.iter().copied())
    }

    /// The JSON text of the stream's records.
    pub(super) fn into_stream(self) -> String {
        self.stream.finish()
    }

    /// The event for an attempt without a message.
    pub(super) fn into_event(self) -> Record {
        let data = format!(
            r#"{{"turn":{},"step":{},"stream":{}}}"#,
            self.at.turn,
            self.at.step,
            self.stream.finish()
        );
        // Its own seq is given when it is written.
        Record::added(self.place, "assistant/attempt", 0, self.last, data)
    }
}
