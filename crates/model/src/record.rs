//! A stream as the log stores it: chunks with their times, runs of deltas packed. `reference/persistence.md` §3.7.
//!
//! Packing keeps every delta apart and every time, so that [`expand`] gives back exactly what was recorded.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::stream::{Chunk, need};

/// The largest integer that every reader of the log can hold exactly, 2^53 − 1.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// A run of deltas, or one other chunk.
///
/// In a run, member `k` has the time `time0` plus the sum of the first `k` entries of `dt`, in milliseconds; `dt` is one
/// shorter than the run and may be negative. Deserialising refuses runs without members, with a `dt` of another length,
/// or with times beyond ±(2^53 − 1).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum StreamRecord {
    /// A run of text deltas of one block.
    TextChunks {
        /// Time of the first member.
        time0: i64,
        /// The block.
        index: u64,
        /// Time differences.
        dt: Vec<i64>,
        /// One text per member.
        texts: Vec<String>,
    },
    /// A run of reasoning deltas of one block.
    ReasoningChunks {
        /// Time of the first member.
        time0: i64,
        /// The block.
        index: u64,
        /// Time differences.
        dt: Vec<i64>,
        /// One text per member.
        texts: Vec<String>,
    },
    /// A run of tool-call deltas of one block, all with this id and this name.
    ToolCallChunks {
        /// Time of the first member.
        time0: i64,
        /// The block.
        index: u64,
        /// Time differences.
        dt: Vec<i64>,
        /// The call id, not empty.
        id: String,
        /// The tool's name, absent when the deltas had none.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// One argument text per member.
        args: Vec<String>,
    },
    /// One chunk as it came.
    Chunk {
        /// When, in milliseconds.
        time: i64,
        /// The chunk.
        chunk: Chunk,
    },
}

/// Packs chunks into records as they arrive.
#[derive(Clone, Debug, Default)]
pub struct StreamRecorder {
    records: Vec<StreamRecord>,
    last_time: i64,
}

impl StreamRecorder {
    /// A recorder that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records `chunk`, which arrived at `time_ms`.
    pub fn push(&mut self, time_ms: i64, chunk: &Chunk) {
        let gap = time_ms
            .checked_sub(self.last_time)
            .filter(|gap| gap.unsigned_abs() <= MAX_SAFE_INTEGER);
        self.last_time = time_ms;
        if let (Some(gap), Some(run)) = (gap, self.records.last_mut())
            && run.join(gap, chunk)
        {
            return;
        }
        self.records.push(StreamRecord::open(time_ms, chunk));
    }

    /// The records so far.
    #[must_use]
    pub fn records(&self) -> &[StreamRecord] {
        &self.records
    }

    /// The records.
    #[must_use]
    pub fn finish(self) -> Vec<StreamRecord> {
        self.records
    }
}

/// The chunks that `records` hold, each with its time in milliseconds.
#[must_use]
pub fn expand(records: &[StreamRecord]) -> Vec<(i64, Chunk)> {
    let mut chunks = Vec::new();
    for record in records {
        match record {
            StreamRecord::TextChunks {
                time0,
                index,
                dt,
                texts,
            } => {
                chunks.extend(times(*time0, dt).zip(texts).map(|(time, text)| {
                    (
                        time,
                        Chunk::TextDelta {
                            index: *index,
                            text: text.clone(),
                        },
                    )
                }));
            }
            StreamRecord::ReasoningChunks {
                time0,
                index,
                dt,
                texts,
            } => {
                chunks.extend(times(*time0, dt).zip(texts).map(|(time, text)| {
                    (
                        time,
                        Chunk::ReasoningDelta {
                            index: *index,
                            text: text.clone(),
                        },
                    )
                }));
            }
            StreamRecord::ToolCallChunks {
                time0,
                index,
                dt,
                id,
                name,
                args,
            } => {
                chunks.extend(times(*time0, dt).zip(args).map(|(time, arguments)| {
                    let chunk = Chunk::ToolCallDelta {
                        index: *index,
                        id: id.clone(),
                        name: name.clone(),
                        arguments_delta: arguments.clone(),
                    };
                    (time, chunk)
                }));
            }
            StreamRecord::Chunk { time, chunk } => chunks.push((*time, chunk.clone())),
        }
    }
    chunks
}

/// `time0` and then the running sums. Never ends, so that zipping gives as many as the run has members even if somebody
/// built a run with too few differences; a parsed run has exactly enough.
fn times(time0: i64, dt: &[i64]) -> impl Iterator<Item = i64> {
    let differences = dt.iter().copied().chain(std::iter::repeat(0));
    std::iter::once(time0).chain(differences.scan(time0, |time, gap| {
        *time = time.saturating_add(gap);
        Some(*time)
    }))
}

impl StreamRecord {
    fn open(time: i64, chunk: &Chunk) -> Self {
        match chunk {
            Chunk::TextDelta { index, text } => Self::TextChunks {
                time0: time,
                index: *index,
                dt: Vec::new(),
                texts: vec![text.clone()],
            },
            Chunk::ReasoningDelta { index, text } => Self::ReasoningChunks {
                time0: time,
                index: *index,
                dt: Vec::new(),
                texts: vec![text.clone()],
            },
            Chunk::ToolCallDelta {
                index,
                id,
                name,
                arguments_delta,
            } if !id.is_empty() && name.as_deref() != Some("") => Self::ToolCallChunks {
                time0: time,
                index: *index,
                dt: Vec::new(),
                id: id.clone(),
                name: name.clone(),
                args: vec![arguments_delta.clone()],
            },
            other => Self::Chunk {
                time,
                chunk: other.clone(),
            },
        }
    }

    /// Appends `chunk` to this run if it belongs there.
    fn join(&mut self, gap: i64, chunk: &Chunk) -> bool {
        let (dt, members, member) = match (self, chunk) {
            (
                Self::TextChunks {
                    index, dt, texts, ..
                },
                Chunk::TextDelta { index: of, text },
            )
            | (
                Self::ReasoningChunks {
                    index, dt, texts, ..
                },
                Chunk::ReasoningDelta { index: of, text },
            ) if index == of => (dt, texts, text),
            (
                Self::ToolCallChunks {
                    index,
                    dt,
                    id,
                    name,
                    args,
                    ..
                },
                Chunk::ToolCallDelta {
                    index: of,
                    id: of_id,
                    name: of_name,
                    arguments_delta,
                },
            ) if index == of && id == of_id && name == of_name => (dt, args, arguments_delta),
            _ => return false,
        };
        dt.push(gap);
        members.push(member.clone());
        true
    }
}

/// All members of all records; see `AnyChunk` for why.
#[derive(Deserialize)]
struct AnyRecord {
    #[serde(rename = "type")]
    kind: String,
    time0: Option<i64>,
    index: Option<u64>,
    dt: Option<Vec<i64>>,
    texts: Option<Vec<String>>,
    id: Option<String>,
    name: Option<String>,
    args: Option<Vec<String>>,
    time: Option<i64>,
    chunk: Option<Chunk>,
}

impl<'de> Deserialize<'de> for StreamRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let any = AnyRecord::deserialize(deserializer)?;
        if any.kind == "chunk" {
            return Ok(Self::Chunk {
                time: need(any.time, "time")?,
                chunk: need(any.chunk, "chunk")?,
            });
        }
        let time0 = need(any.time0, "time0")?;
        let index = need(any.index, "index")?;
        let dt = need(any.dt, "dt")?;
        let (record, members) = match any.kind.as_str() {
            "text-chunks" => {
                let texts = need(any.texts, "texts")?;
                let members = texts.len();
                (
                    Self::TextChunks {
                        time0,
                        index,
                        dt,
                        texts,
                    },
                    members,
                )
            }
            "reasoning-chunks" => {
                let texts = need(any.texts, "texts")?;
                let members = texts.len();
                (
                    Self::ReasoningChunks {
                        time0,
                        index,
                        dt,
                        texts,
                    },
                    members,
                )
            }
            "tool-call-chunks" => {
                let id = need(any.id, "id")?;
                let args = need(any.args, "args")?;
                let members = args.len();
                (
                    Self::ToolCallChunks {
                        time0,
                        index,
                        dt,
                        id,
                        name: any.name,
                        args,
                    },
                    members,
                )
            }
            other => {
                return Err(D::Error::custom(format_args!(
                    "unknown stream record type `{other}`"
                )));
            }
        };
        record.check_times(members).map_err(D::Error::custom)?;
        Ok(record)
    }
}

impl StreamRecord {
    fn check_times(&self, members: usize) -> Result<(), String> {
        let (Self::TextChunks { time0, dt, .. }
        | Self::ReasoningChunks { time0, dt, .. }
        | Self::ToolCallChunks { time0, dt, .. }) = self
        else {
            return Ok(());
        };
        if dt.len().checked_add(1) != Some(members) {
            let differences = dt.len();
            return Err(format!(
                "a run of {members} members has {differences} time differences"
            ));
        }
        let exact = times(*time0, dt)
            .take(members)
            .all(|time| time.unsigned_abs() <= MAX_SAFE_INTEGER);
        if !exact {
            return Err("a run has a time beyond ±(2^53 − 1)".into());
        }
        Ok(())
    }
}
