//! Conversations that are long for their model.

use std::sync::{Arc, Mutex};

use offshoot_agent::{AgentObserver, CompactionNotice, Notice, Pressure};
use offshoot_model::{Attempt, Chunk, ContentBlock, FinishReason, ScriptModel, Usage};
use offshoot_session::{Event, EventLog, SurfaceOp};

use crate::support::says;

/// What the models of these tests can see.
pub(crate) const WINDOW: u64 = 2_000;

/// A text of about so many tokens.
pub(crate) fn long(word: &str, tokens: usize) -> String {
    let words = std::iter::repeat_n(word, tokens * 4 / (word.len() + 1) + 1);
    words.collect::<Vec<_>>().join(" ")
}

/// A model with a small window.
pub(crate) fn narrow(attempts: Vec<Attempt>) -> Arc<ScriptModel> {
    Arc::new(ScriptModel::new("acme", attempts).with_context_window(WINDOW))
}

/// An answer that its provider has counted.
pub(crate) fn counted(attempt: Attempt, input_tokens: u64, output_tokens: u64) -> Attempt {
    let Attempt::Chunks(mut chunks) = attempt else {
        return attempt;
    };
    let usage = Usage {
        input_tokens,
        output_tokens,
        ..Usage::default()
    };
    chunks.insert(chunks.len() - 1, Chunk::Usage { usage });
    Attempt::Chunks(chunks)
}

pub(crate) fn fails(code: &str) -> Attempt {
    Attempt::Throw {
        chunks: Vec::new(),
        message: format!("the provider says {code}"),
        code: code.into(),
    }
}

pub(crate) fn too_long() -> Attempt {
    fails("CONTEXT_WINDOW_EXCEEDED")
}

pub(crate) fn thinks_only() -> Attempt {
    let thought = ContentBlock::Reasoning { text: "Hm.".into() };
    crate::support::answers(vec![thought], FinishReason::Stop)
}

/// Two turns, after which a third would leave too little room: a long question with a long answer, and another one.
pub(crate) fn two_turns() -> Vec<Attempt> {
    vec![says(&long("answer", 500)), says(&long("two", 150))]
}

pub(crate) fn first_question() -> String {
    long("question", 800)
}

pub(crate) fn tokens(log: &EventLog) -> u64 {
    Pressure::of(log).tokens
}

/// The events that stand in for others.
pub(crate) fn replacements(log: &EventLog) -> impl Iterator<Item = &Arc<Event>> {
    let replaces =
        |event: &&Arc<Event>| matches!(event.surface_op(), Some(SurfaceOp::Replace { .. }));
    log.events().filter(replaces)
}

/// Keeps what it hears of compactions and retries.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl AgentObserver for Heard {
    fn notice(&self, notice: &Notice) {
        let line = match notice {
            Notice::Retrying(retrying) => format!(
                "retry {} of {:?} after {:?}: {}",
                retrying.retry, retrying.max_retries, retrying.delay, retrying.failure.code
            ),
            Notice::Compaction(CompactionNotice::Started { turn }) => format!("started {turn:?}"),
            Notice::Compaction(CompactionNotice::Done { turn, compacted }) => {
                format!("done {turn:?}: {} items", compacted.items)
            }
            Notice::Compaction(CompactionNotice::Failed { turn, error }) => {
                format!("failed {turn:?}: {} {error}", error.code())
            }
            Notice::Compaction(CompactionNotice::Pruned { turn, results, .. }) => {
                format!("pruned {turn}: {results} results")
            }
            Notice::Compaction(CompactionNotice::UnknownWindow { provider, model }) => {
                format!("unknown window of {provider}/{model}")
            }
            _ => return,
        };
        self.0.lock().unwrap().push(line);
    }
}
