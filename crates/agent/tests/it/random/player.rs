//! A model that plays what a script says, and knows a summary from a step of the conversation.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::stream::BoxStream;
use offshoot_model::{
    Attempt, CallConfig, Chunk, ContentBlock, Failure, Model, ModelInfo, ModelRequest,
    PreparedCall, RetryPolicy, ScriptModel,
};
use tokio_util::sync::CancellationToken;

use crate::crowd::{fails, thinks_only, too_long};
use crate::support::says;

/// How much the model can see, in tokens.
const WINDOW: u64 = 1_500;

/// What becomes of a request for a summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Summaries {
    #[default]
    Good,
    Failing,
    Unusable,
    /// The model cannot see what it should summarise.
    TooLong,
    /// The answer does not come.
    Hanging,
}

impl Summaries {
    fn attempt(self) -> Attempt {
        match self {
            Self::Good => says("In short."),
            Self::Failing => fails("AUTH"),
            Self::Unusable => thinks_only(),
            Self::TooLong => too_long(),
            Self::Hanging => Attempt::Hang { chunks: Vec::new() },
        }
    }
}

#[derive(Debug)]
pub(super) struct Player {
    info: ModelInfo,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    attempts: VecDeque<Attempt>,
    summaries: Summaries,
    asked: Vec<Arc<ModelRequest>>,
    asked_to_summarise: Vec<Arc<ModelRequest>>,
}

impl Player {
    pub(super) fn new(flexible: bool) -> Self {
        let info = ModelInfo {
            tool_updates: flexible,
            system_prompt_in_history: flexible,
            context_window: Some(WINDOW),
            ..ModelInfo::default()
        };
        Self {
            info,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// What the next requests of the conversation are answered with, in place of what is left of the last ones.
    pub(super) fn answer_with(&self, attempts: Vec<Attempt>) {
        self.state().attempts = attempts.into();
    }

    pub(super) fn summarise(&self, summaries: Summaries) {
        self.state().summaries = summaries;
    }

    /// How many requests there were that nobody has taken, those for summaries included.
    pub(super) fn count(&self) -> usize {
        let state = self.state();
        state.asked.len() + state.asked_to_summarise.len()
    }

    /// The requests since the last look: of the conversation, and for summaries.
    pub(super) fn take_requests(&self) -> [Vec<Arc<ModelRequest>>; 2] {
        let mut state = self.state();
        let state = &mut *state;
        [&mut state.asked, &mut state.asked_to_summarise].map(std::mem::take)
    }
}

pub(super) fn is_for_a_summary(request: &ModelRequest) -> bool {
    request
        .messages
        .last()
        .is_some_and(|last| last.source.kind() == "compaction")
}

impl Model for Player {
    fn provider(&self) -> &str {
        "acme"
    }

    fn prepare(&self, config: &CallConfig) -> Result<PreparedCall, Failure> {
        let mut prepared = PreparedCall::plain(config.clone());
        prepared.info = self.info.clone();
        prepared.retry = RetryPolicy {
            max_retries: Some(2),
            initial: Duration::ZERO,
            ..RetryPolicy::default()
        };
        Ok(prepared)
    }

    fn stream(
        &self,
        request: Arc<ModelRequest>,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Chunk> {
        let attempt = {
            let mut state = self.state();
            if is_for_a_summary(&request) {
                state.asked_to_summarise.push(Arc::clone(&request));
                state.summaries.attempt()
            } else {
                state.asked.push(Arc::clone(&request));
                let attempt = state.attempts.pop_front();
                attempt.unwrap_or_else(|| says("I have nothing more to say."))
            }
        };
        ScriptModel::new("acme", vec![attempt]).stream(request, cancel)
    }
}

/// The beginning of an answer, after which nothing comes.
pub(super) fn breaks_off(text: &str) -> Attempt {
    Attempt::Hang {
        chunks: begun(text),
    }
}

/// The beginning of an answer, behind which the provider fails.
pub(super) fn fails_within(text: &str, code: &str) -> Attempt {
    Attempt::Throw {
        chunks: begun(text),
        message: format!("the provider says {code}"),
        code: code.into(),
    }
}

fn begun(text: &str) -> Vec<Chunk> {
    let block_type = ContentBlock::text("").block_type();
    vec![
        Chunk::BlockStart {
            index: 0,
            block_type,
        },
        Chunk::TextDelta {
            index: 0,
            text: text.into(),
        },
    ]
}
