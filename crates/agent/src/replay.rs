//! A recorded session as a script for a model, so that it runs again without a key (`reference/agent.md` §8.1).

use offshoot_model::{Attempt, Chunk, StreamRecord, expand};
use offshoot_session::{EventLog, LogOffset, Seq, Session};

use crate::events::StoredAttempt;
use crate::request::settled_attempts;

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
}

/// The model's part in a session's own events: what came after its inherited cut. What was inherited is the parent's to
/// replay.
///
/// # Errors
/// [`ReplayError`].
pub fn derive_script(session: &Session) -> Result<Vec<Attempt>, ReplayError> {
    script_from(session.log(), session.inherited_event_count())
}

/// The model's part in a log from an offset on: one attempt per `assistant/message` and `assistant/attempt` with a stream.
///
/// A stream without a finish was cut off, by a person or by a crash. It replays as far as it came and then fails with the
/// code `STREAM_CLOSED`: what cut it off is not part of the recording.
///
/// # Errors
/// [`ReplayError`].
pub fn script_from(log: &EventLog, from: LogOffset) -> Result<Vec<Attempt>, ReplayError> {
    let mut script = Vec::new();
    for event in settled_attempts(log, from) {
        let stored: StoredAttempt = event.parse().map_err(|error| ReplayError::Stream {
            seq: event.seq(),
            reason: error.to_string(),
        })?;
        script.extend(attempt(&stored.stream, stored.turn, stored.step));
    }
    Ok(script)
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
            code: offshoot_model::codes::STREAM_CLOSED.to_owned(),
        }),
    }
}
