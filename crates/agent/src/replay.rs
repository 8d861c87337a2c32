//! A recorded session as a script for a model, so that it runs again without a key (`reference/agent.md` §8.1).

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
}

/// The model's part in a session's own events: what came after its inherited cut. What was inherited is the parent's to
/// replay.
///
/// # Errors
/// [`ReplayError`].
pub fn derive_script(session: &Session) -> Result<Vec<Attempt>, ReplayError> {
    script_from(session.log(), session.inherited_event_count())
}

/// The model's part in a log from an offset on: one attempt per `assistant/message` and `assistant/attempt` with a stream,
/// and one per compaction.
///
/// A stream without a finish was cut off, by a person or by a crash. It replays as far as it came and then fails with the
/// code `STREAM_CLOSED`: what cut it off is not part of the recording. Neither is what a model said when a compaction came to
/// nothing: a log only says why, and that is what the model fails with.
///
/// # Errors
/// [`ReplayError`].
pub fn script_from(log: &EventLog, from: LogOffset) -> Result<Vec<Attempt>, ReplayError> {
    let mut script = Vec::new();
    let mut is_summarising = false;
    for event in log.events_from(from) {
        match event.kind() {
            EventKind::AssistantMessage | EventKind::AssistantAttempt => {
                let stored: StoredAttempt = stored(event)?;
                script.extend(attempt(&stored.stream, stored.turn, stored.step));
            }
            EventKind::CompactionStart => is_summarising = true,
            EventKind::CompactionSummary => {
                is_summarising = false;
                script.extend(summary(event)?);
            }
            EventKind::CompactionEnd if std::mem::take(&mut is_summarising) => {
                script.push(no_summary(event)?);
            }
            _ => {}
        }
    }
    Ok(script)
}

fn stored<'a, T: Deserialize<'a>>(event: &'a Event) -> Result<T, ReplayError> {
    event.parse().map_err(|error| ReplayError::Stream {
        seq: event.seq(),
        reason: error.to_string(),
    })
}

/// The answer that a summary was; `None` if no model was asked for it.
fn summary(event: &Event) -> Result<Option<Attempt>, ReplayError> {
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
    Ok(Some(Attempt::Chunks(chunks)))
}

/// The answer of which no summary came. Otherwise the next answer of the conversation would be taken for one.
fn no_summary(end: &Event) -> Result<Attempt, ReplayError> {
    #[derive(Deserialize)]
    struct End {
        #[serde(default)]
        error: String,
    }
    let End { error } = stored(end)?;
    Ok(Attempt::Throw {
        chunks: Vec::new(),
        message: CompactionError::cause_of_no_summary(&error).to_owned(),
        // Nobody tries that again.
        code: codes::UNKNOWN.to_owned(),
    })
}

fn attempt(stream: &[StreamRecord], turn: u64, step: u64) -> Option<Attempt> {
    let chunks: Vec<Chunk> = expand(stream).into_iter().map(|(_, chunk)| chunk).collect();
    match chunks.last()? {
        Chunk::Finish { .. } => Some(Attempt::Chunks(chunks)),
        _ => Some(Attempt::Throw {
            chunks,
            message: format!(
                "the recorded answer of turn {turn}, step {step} ends here without a finish"
            ),
            code: codes::STREAM_CLOSED.to_owned(),
        }),
    }
}
