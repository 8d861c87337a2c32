//! A recorded session as a script for a model, so that it runs again without a key (`reference/agent.md` §8.1).
//!
//! Every call of a model that a log has settled is an entry of its script, in the order of the log: one for each
//! `assistant/message` and `assistant/attempt`, whether it was the first attempt of its step or a retry, and one for each
//! compaction that a model was asked for. What a session has inherited is its parent's to replay, so a script begins behind
//! the cut.
//!
//! Two calls are not in a log as they were. An answer that a person or a crash has cut off has no finish: what cut it off is
//! no part of the recording. [`derive_script`] refuses such a recording and names the event, because whoever compares runs
//! has to say what happens there; [`script_from`] has the stream close. And what a model said when a compaction came to
//! nothing is not logged, only why it did: that is what the model fails with. Models that are asked for a title leave no
//! stream, and no entry.

use offshoot_model::{
    Attempt, Chunk, ContentBlock, FinishReason, StreamRecord, Usage, codes, expand,
};
use offshoot_session::{Event, EventKind, EventLog, LogOffset, Seq, Session};
use serde::Deserialize;

use crate::compaction::CompactionError;
use crate::events::StoredAttempt;

/// Why a recorded session cannot be a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// A stream that was recorded cannot be read.
    #[error("event {seq}: the recorded stream cannot be read: {reason}")]
    Stream {
        /// The event that holds it.
        seq: Seq,
        /// Why not.
        reason: String,
    },
    /// A summary that a model has given, without what the model said.
    #[error("event {seq}: the summary was a model's (`llmStreamCall`), but `rawOutput` is missing")]
    NoOutput {
        /// The event.
        seq: Seq,
    },
    /// An answer that was cut off.
    #[error(
        "event {seq}: the answer of turn {turn}, step {step} ends without a finish, so nothing says what cut it off"
    )]
    Unfinished {
        /// The event that settled the call.
        seq: Seq,
        /// The turn.
        turn: u64,
        /// The step.
        step: u64,
        /// Which entry of the script it is, from 0.
        at: usize,
    },
}

impl ReplayError {
    /// The stable machine code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Stream { .. } => "REPLAY_STREAM",
            Self::NoOutput { .. } => "REPLAY_NO_OUTPUT",
            Self::Unfinished { .. } => "REPLAY_UNFINISHED",
        }
    }

    /// The event.
    #[must_use]
    pub const fn seq(&self) -> Seq {
        match self {
            Self::Stream { seq, .. } | Self::NoOutput { seq } | Self::Unfinished { seq, .. } => {
                *seq
            }
        }
    }

    /// What a person can do about it, if there is something.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unfinished { at, .. } => Some(format!(
                r#"an override has to say what happens then, as in {{"patches":[{{"at":{at},"entry":{{"kind":"hang","chunks":"recorded"}}}}]}}, which gives what was recorded and then waits to be cancelled"#
            )),
            Self::Stream { .. } | Self::NoOutput { .. } => None,
        }
    }
}

/// A call of a model, as a log has recorded it.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedCall {
    /// The event that settled it, or that ended the compaction.
    pub seq: Seq,
    /// What the model was asked for.
    pub asked: Asked,
    /// What it answered. An answer without a finish is given as far as it came, and then fails with `STREAM_CLOSED`.
    pub attempt: Attempt,
}

/// What a model was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To go on with the conversation, and it has finished its answer or failed.
    Answer {
        /// The turn.
        turn: u64,
        /// The step.
        step: u64,
    },
    /// To go on with the conversation, and the answer was cut off.
    CutOff {
        /// The turn.
        turn: u64,
        /// The step.
        step: u64,
    },
    /// For a summary, which is logged.
    Summary,
    /// For a summary of which nothing came.
    NoSummary,
}

/// The model's part in a session's own events: what came after its inherited cut.
///
/// # Errors
/// [`ReplayError`]; [`ReplayError::Unfinished`] for the first answer that was cut off.
pub fn derive_script(session: &Session) -> Result<Vec<RecordedCall>, ReplayError> {
    let calls = recorded_calls(session.log(), session.inherited_event_count())?;
    calls
        .into_iter()
        .enumerate()
        .map(|(at, call)| call.finished(at))
        .collect()
}

/// The model's part in a log from an offset on, for whoever only wants to go on with it: answers that were cut off are
/// served as streams that close.
///
/// # Errors
/// [`ReplayError`], but never [`ReplayError::Unfinished`].
pub fn script_from(log: &EventLog, from: LogOffset) -> Result<Vec<Attempt>, ReplayError> {
    let calls = recorded_calls(log, from)?;
    Ok(calls.into_iter().map(|call| call.attempt).collect())
}

/// The calls of a model that a log has settled from an offset on, with those that were cut off.
///
/// A message without a stream was not recorded as it came, and is no call. An attempt without one was cut off before
/// anything came.
///
/// # Errors
/// [`ReplayError`], but never [`ReplayError::Unfinished`].
pub fn recorded_calls(log: &EventLog, from: LogOffset) -> Result<Vec<RecordedCall>, ReplayError> {
    let mut calls = Vec::new();
    let mut is_summarising = false;
    for event in log.events_from(from) {
        match event.kind() {
            EventKind::AssistantMessage => {
                let stored: StoredAttempt = stored(event)?;
                if !stored.stream.is_empty() {
                    calls.push(answer(event.seq(), &stored));
                }
            }
            EventKind::AssistantAttempt => calls.push(answer(event.seq(), &stored(event)?)),
            EventKind::CompactionStart => is_summarising = true,
            EventKind::CompactionSummary => {
                is_summarising = false;
                calls.extend(summary(event)?);
            }
            EventKind::CompactionEnd if std::mem::take(&mut is_summarising) => {
                calls.push(no_summary(event)?);
            }
            _ => {}
        }
    }
    Ok(calls)
}

impl RecordedCall {
    /// The call, if it needs nobody to say how it ended. `at` is its place in the script, from 0.
    ///
    /// # Errors
    /// [`ReplayError::Unfinished`].
    pub fn finished(self, at: usize) -> Result<Self, ReplayError> {
        match self.asked {
            Asked::CutOff { turn, step } => Err(ReplayError::Unfinished {
                seq: self.seq,
                turn,
                step,
                at,
            }),
            Asked::Answer { .. } | Asked::Summary | Asked::NoSummary => Ok(self),
        }
    }
}

fn stored<'a, T: Deserialize<'a>>(event: &'a Event) -> Result<T, ReplayError> {
    event.parse().map_err(|error| ReplayError::Stream {
        seq: event.seq(),
        reason: error.to_string(),
    })
}

fn answer(seq: Seq, stored: &StoredAttempt) -> RecordedCall {
    let StoredAttempt { turn, step, stream } = stored;
    let (turn, step) = (*turn, *step);
    let chunks = chunks(stream);
    if matches!(chunks.last(), Some(Chunk::Finish { .. })) {
        return RecordedCall {
            seq,
            asked: Asked::Answer { turn, step },
            attempt: Attempt::Chunks(chunks),
        };
    }
    let message =
        format!("the recorded answer of turn {turn}, step {step} ends here without a finish");
    RecordedCall {
        seq,
        asked: Asked::CutOff { turn, step },
        attempt: Attempt::Throw {
            chunks,
            message,
            code: codes::STREAM_CLOSED.to_owned(),
        },
    }
}

fn chunks(stream: &[StreamRecord]) -> Vec<Chunk> {
    expand(stream).into_iter().map(|(_, chunk)| chunk).collect()
}

/// The answer that a summary was; `None` if no model was asked for it.
fn summary(event: &Event) -> Result<Option<RecordedCall>, ReplayError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Summary {
        #[serde(default)]
        llm_stream_call: bool,
        raw_output: Option<Vec<ContentBlock>>,
        usage: Option<Usage>,
    }
    let summary: Summary = stored(event)?;
    if !summary.llm_stream_call {
        return Ok(None);
    }
    let missing = ReplayError::NoOutput { seq: event.seq() };
    let blocks = (0..).zip(summary.raw_output.ok_or(missing)?);
    let mut chunks: Vec<Chunk> = blocks
        .flat_map(|(index, block)| {
            let block_type = block.block_type();
            [
                Chunk::BlockStart { index, block_type },
                Chunk::BlockEnd { index, block },
            ]
        })
        .collect();
    chunks.extend(summary.usage.map(|usage| Chunk::Usage { usage }));
    chunks.push(Chunk::finish(FinishReason::Stop));
    Ok(Some(RecordedCall {
        seq: event.seq(),
        asked: Asked::Summary,
        attempt: Attempt::Chunks(chunks),
    }))
}

/// The answer of which no summary came. Otherwise the next answer of the conversation would be taken for one.
fn no_summary(end: &Event) -> Result<RecordedCall, ReplayError> {
    #[derive(Deserialize)]
    struct End {
        #[serde(default)]
        error: String,
    }
    let End { error } = stored(end)?;
    let attempt = Attempt::Throw {
        chunks: Vec::new(),
        message: CompactionError::cause_of_no_summary(&error).to_owned(),
        // Nobody tries that again.
        code: codes::UNKNOWN.to_owned(),
    };
    Ok(RecordedCall {
        seq: end.seq(),
        asked: Asked::NoSummary,
        attempt,
    })
}
