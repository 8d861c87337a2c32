//! What becomes of an answer whose process ended while it was streaming.
//!
//! The store keeps the chunks of the attempt in flight in a journal, one line each, and asks here which event they amount
//! to. It is the event that the driver writes when a person interrupts an answer: the text and the reasoning that had come,
//! without calls, since nobody will run them, and without replay state. Everything in it follows from the journal and the
//! log, so that whoever settles the attempt, and how often, comes to the same bytes.

use std::collections::BTreeSet;

use offshoot_model::StreamRecord;
use offshoot_session::{EventDraft, EventKind, EventLog, StepRef};
use offshoot_store::{AttemptStart, Settle, Settlement};
use serde::Deserialize;

use crate::answer::Answer;
use crate::events::{
    AssistantAttempt, AssistantBody, AssistantMessage, ModelSource, logged, row_text, shown,
};

/// Settles journals that an [`Agent`](crate::Agent) has written: to be given to the store.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerSettler;

/// A chunk as a line of the journal.
pub(crate) fn line(record: &StreamRecord) -> Box<str> {
    row_text(record).get().into()
}

impl Settle for AnswerSettler {
    fn settle(
        &self,
        attempt: &AttemptStart,
        chunks: &[&str],
        log: &EventLog,
    ) -> Result<Option<Settlement>, String> {
        let mut answer = Answer::default();
        let mut last = None;
        for (line, number) in chunks.iter().zip(2..) {
            let record: StreamRecord = serde_json::from_str(line)
                .map_err(|error| format!("its line {number} is damaged: {error}"))?;
            let StreamRecord::Chunk { time, chunk } = record else {
                return Err(format!("its line {number} is no chunk"));
            };
            answer.push(time, chunk);
            last = Some(time);
        }
        let id = || message_id(attempt, log);
        Ok(last.map(|time| Settlement {
            draft: draft(attempt, answer, id),
            time,
        }))
    }
}

fn draft(attempt: &AttemptStart, answer: Answer, id: impl FnOnce() -> String) -> EventDraft {
    let StepRef { turn, step } = attempt.at;
    let content = answer.assembler.interrupted_blocks();
    let usage = answer.assembler.usage();
    let stream = &answer.recorder.finish();
    if content.is_empty() {
        let data = AssistantAttempt { turn, step, stream };
        return logged(EventKind::AssistantAttempt, &data);
    }
    let message = AssistantBody {
        id: id(),
        role: "assistant",
        content: &content,
        source: ModelSource {
            kind: "model",
            provider: &attempt.provider,
            model: &attempt.model,
            replay_state: None,
        },
    };
    let data = AssistantMessage {
        turn,
        step,
        message,
        usage,
        interrupted: true,
        stream,
    };
    shown(EventKind::AssistantMessage, &data)
}

/// A name that no message of the log has, and that follows from it.
fn message_id(attempt: &AttemptStart, log: &EventLog) -> String {
    #[derive(Deserialize)]
    struct Named {
        id: String,
    }
    let StepRef { turn, step } = attempt.at;
    let id = format!("interrupted-{turn}-{step}-{}", attempt.attempt);
    let of_message = |text: &str| serde_json::from_str::<Named>(text).ok();
    let taken: BTreeSet<String> = log
        .events()
        .filter_map(|event| of_message(event.message()?))
        .map(|named| named.id)
        .filter(|taken| taken.starts_with(&id))
        .collect();
    let numbered = (2_u64..).map(|number| format!("{id}-{number}"));
    std::iter::once(id.clone())
        .chain(numbered)
        .find(|id| !taken.contains(id))
        .expect("BUG: the numbers do not end")
}
