//! Compaction: older history gives way to a summary before the model's context is full (`reference/agent.md` §6).
//!
//! There are three occasions. Under *pressure*, before a step, the next request would leave too little room. After an
//! *overflow* the provider has refused a request as too long. And somebody may ask for it, between turns. What happens is
//! the same each time:
//!
//! 1. The [span] is chosen: from behind the system prompt up to a tail that is kept as it is. No call is ever parted
//!    from its result.
//! 2. Long tool results in it are [cut down](prune). That may be enough. (Not between turns: a log has no place for it
//!    there.)
//! 3. A model [summarises](summary) the span, as one more question at the end of the very request that the span was, so
//!    that its provider has most of it cached.
//! 4. The summary and the [checkpoint] that replaces the span are logged, between the start and the end of a
//!    [bracket]. Nothing is lost: the replaced events stay in the log, and forks can be cut among them.
//!
//! A compaction that fails changes nothing of what the model sees. Under pressure the turn goes on without it, and it is
//! not tried again in that turn.

mod bracket;
mod checkpoint;
mod config;
mod error;
mod events;
mod manual;
mod prune;
mod span;
mod summary;

use std::sync::Arc;

use offshoot_model::{CallConfig, Failure, Model, RetryPolicy};
use offshoot_session::{EventLog, Seq, StepRef};
use serde::Deserialize;

use crate::cancel::Cancel;
use crate::driver::Driver;
use crate::events::read;
use crate::input::Input;
use crate::meter::{self, Meter};
use crate::notices::Notice;

use bracket::Bracket;
pub(crate) use bracket::OpenCompaction;
use checkpoint::Checkpoint;
pub use config::{CompactionConfig, CompactionPolicy, InvalidCompaction, PruneConfig, Summariser};
pub use error::CompactionError;
pub(crate) use events::is_summary;
use span::Span;

/// What a compaction has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// How many messages gave way.
    pub items: usize,
    /// About how many tokens they had.
    pub tokens: u64,
    /// About how many the summary has in their place.
    pub summary_tokens: u64,
    /// The `user/message` that stands in for them.
    pub checkpoint: Seq,
}

/// What happens to older history.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CompactionNotice {
    /// A model is asked for a summary.
    Started {
        /// The turn that it happens in; `None` between turns.
        turn: Option<u64>,
    },
    /// The summary stands in for older history.
    Done {
        /// As in the start.
        turn: Option<u64>,
        /// What was done.
        compacted: Compacted,
    },
    /// Nothing has changed. The turn goes on.
    Failed {
        /// As in the start.
        turn: Option<u64>,
        /// Why.
        error: Arc<CompactionError>,
    },
    /// Long tool results were cut down.
    Pruned {
        /// The turn that it happened in.
        turn: u64,
        /// How many results.
        results: usize,
        /// About how many tokens are free now.
        tokens: u64,
    },
    /// Nobody knows how many tokens the model can see, so that nothing is compacted before its provider complains. Told
    /// once for each model.
    UnknownWindow {
        /// Its provider.
        provider: String,
        /// The model.
        model: String,
    },
}

/// What a driver remembers of its compactions.
#[derive(Debug, Default)]
pub(crate) struct Compactor {
    meter: Meter,
    /// The models whose window nobody knows, as far as that was told.
    unknown: Vec<(String, String)>,
    /// The turn in which one has failed under pressure.
    failed: Option<u64>,
    /// How often a step was tried again after an overflow.
    overflows: Option<(StepRef, u32)>,
}

/// The route of the next request, and how much it can take.
struct Upcoming {
    model: Arc<dyn Model>,
    call: CallConfig,
    retry: RetryPolicy,
    window: Option<u64>,
    /// What the answer may need.
    headroom: u64,
}

impl Driver {
    /// Makes room before a step that would not leave enough of it. A failure is told and changes nothing; being cancelled is
    /// left to the step, which first says what has entered it.
    pub(crate) async fn compact_if_needed(
        &mut self,
        at: StepRef,
        entering: &[Input],
        cancel: &Cancel,
    ) {
        let turn = at.turn;
        // The first step of a turn without input does not begin.
        let idles = at.step == 1 && entering.is_empty();
        if idles || !self.config.compaction.auto || self.compactor.failed == Some(turn) {
            return;
        }
        // A route that cannot be prepared fails its step.
        let Ok(upcoming) = self.upcoming() else {
            return;
        };
        let Some(window) = upcoming.window else {
            self.tell_unknown_window(&upcoming.call);
            return;
        };
        let log = self.session.log();
        let joining = |input: &Input| meter::price_of_message(input.json());
        let mut tokens = self.compactor.meter.measure(&log);
        tokens += entering.iter().map(joining).sum::<u64>();
        let config = &self.config.compaction;
        let limit = config.limit(&upcoming.call, window, upcoming.headroom);
        if tokens < limit || cancel.token().is_cancelled() {
            return;
        }
        let retain = config.retained(&upcoming.call, window);
        let prices = meter::prices(&log);
        let tail = span::tail(&log, &prices, retain);
        match self.prune(at, &log, ..tail) {
            Ok(freed) if freed > 0 && tokens.saturating_sub(freed) < limit => return,
            Ok(_) => {}
            Err(error) => return self.tell_failed(turn, error),
        }
        match self.shorten(Some(turn), upcoming, retain, cancel).await {
            Ok(_) | Err(CompactionError::Cancelled) => {}
            Err(error) => self.tell_failed(turn, error),
        }
    }

    /// Makes a request shorter that its provider has refused as too long. Whether it is: then it is worth another attempt.
    pub(crate) async fn compact_overflow(&mut self, at: StepRef, cancel: &Cancel) -> bool {
        let config = &self.config.compaction;
        let made = match self.compactor.overflows {
            Some((step, made)) if step == at => made,
            _ => 0,
        };
        if !config.auto || made >= config.overflow_retries {
            return false;
        }
        self.compactor.overflows = Some((at, made + 1));
        let Ok(upcoming) = self.upcoming() else {
            return false;
        };
        let log = self.session.log();
        let before = log.surface().content_generation();
        let tokens = self.compactor.meter.measure(&log);
        // Whoever cannot see so much has not been asked, or knows better than we do.
        let size = upcoming.window.map_or(tokens, |window| window.min(tokens));
        let retain = self.config.compaction.retained(&upcoming.call, size);
        let prices = meter::prices(&log);
        let tail = span::tail(&log, &prices, retain);
        let limit = upcoming.window.map_or(0, |window| {
            let config = &self.config.compaction;
            config.limit(&upcoming.call, window, upcoming.headroom)
        });
        let shorter = match self.prune(at, &log, ..tail) {
            Ok(freed) if freed > 0 && tokens.saturating_sub(freed) < limit => true,
            Ok(_) => {
                self.shorten_after_overflow(at, upcoming, retain, cancel)
                    .await
            }
            Err(error) => {
                self.tell_failed(at.turn, error);
                false
            }
        };
        if !shorter && !cancel.token().is_cancelled() {
            // Better to cut down what is new than to end here.
            let log = self.session.log();
            if let Err(error) = self.prune(at, &log, ..) {
                self.tell_failed(at.turn, error);
            }
        }
        self.session.log().surface().content_generation() != before
    }

    async fn shorten_after_overflow(
        &mut self,
        at: StepRef,
        upcoming: Upcoming,
        retain: u64,
        cancel: &Cancel,
    ) -> bool {
        match self.shorten(Some(at.turn), upcoming, retain, cancel).await {
            Ok(compacted) => compacted.is_some(),
            Err(CompactionError::Cancelled) => false,
            Err(error) => {
                self.tell_failed(at.turn, error);
                false
            }
        }
    }

    /// Puts a summary in the place of everything but a tail of so many tokens. `None` if there is nothing to summarise; then
    /// nothing was written.
    async fn shorten(
        &mut self,
        turn: Option<u64>,
        upcoming: Upcoming,
        retain: u64,
        cancel: &Cancel,
    ) -> Result<Option<Compacted>, CompactionError> {
        let log = self.session.log();
        if bracket::is_open(&log) {
            return Err(CompactionError::Busy(self.session.id().clone()));
        }
        let prices = meter::prices(&log);
        let tail = span::tail(&log, &prices, retain);
        let Some(span) = Span::choose(&log, &prices, tail) else {
            return Ok(None);
        };
        if cancel.token().is_cancelled() {
            return Err(CompactionError::Cancelled);
        }
        let bracket = Bracket::open(&self.core, turn)?;
        self.notify(CompactionNotice::Started { turn });
        let outcome = self.replace(&bracket, &log, span, upcoming, cancel).await;
        let ended = bracket.end(outcome.as_ref().err());
        let compacted = outcome?;
        ended.map_err(CompactionError::Commit)?;
        self.notify(CompactionNotice::Done { turn, compacted });
        Ok(Some(compacted))
    }

    async fn replace(
        &mut self,
        bracket: &Bracket,
        log: &EventLog,
        span: Span,
        upcoming: Upcoming,
        cancel: &Cancel,
    ) -> Result<Compacted, CompactionError> {
        // A model is asked: what it sees must survive a crash first.
        let stored = self.recorder.flush().await;
        stored.map_err(CompactionError::Persistence)?;
        let (span, checkpoint) = self.summarise(bracket, log, span, upcoming, cancel).await?;
        self.commit(bracket, &span, &checkpoint)
    }

    /// Logs the summary and, right behind it, what replaces the span: if the span is still what was summarised.
    fn commit(
        &self,
        bracket: &Bracket,
        span: &Span,
        checkpoint: &Checkpoint,
    ) -> Result<Compacted, CompactionError> {
        let now = self.env.now();
        let mut session = self.session.lock();
        let there = session.log().surface().slice(span.first(), span.last());
        if there.as_deref() != Some(span.nodes()) {
            return Err(CompactionError::Changed);
        }
        let refused = |error: offshoot_session::LogError| CompactionError::Commit(error.into());
        let summary = session
            .append(checkpoint.summary(bracket, span), now)
            .map_err(refused)?;
        let replacement = checkpoint.replacement(bracket, span, summary.seq());
        let replacement = session.append(replacement, now).map_err(refused)?;
        Ok(Compacted {
            items: span.nodes().len(),
            tokens: span.tokens(),
            summary_tokens: checkpoint.tokens(),
            checkpoint: replacement.seq(),
        })
    }

    /// Where the next request will go. As long as nobody has chosen another model, that is where the last one went, which
    /// the log knows best.
    fn upcoming(&self) -> Result<Upcoming, Failure> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Routed {
            provider: String,
            model: String,
            context_window: Option<u64>,
        }
        #[derive(Deserialize)]
        struct Stored {
            header: Called,
        }
        #[derive(Deserialize)]
        struct Called {
            config: CallConfig,
        }
        let route = self.core.route();
        let prepared = route.model.prepare(&route.call)?;
        let log = self.session.log();
        let last = log
            .request_header()
            .filter(|_| self.header.is_some() && route.call == self.config.call)
            .and_then(|event| read::<Stored>(event))
            .map(|stored| stored.header.config);
        let call = last.unwrap_or(prepared.config);
        let routed = log
            .request_context()
            .and_then(|event| read::<Routed>(event))
            .filter(|routed| routed.provider == call.provider && routed.model == call.model)
            .and_then(|routed| routed.context_window);
        let known = prepared.info.context_window;
        let answer = call.max_tokens.or(prepared.info.max_tokens);
        Ok(Upcoming {
            model: route.model,
            call,
            retry: prepared.retry,
            window: known.or(routed),
            headroom: answer.unwrap_or(0),
        })
    }

    fn tell_unknown_window(&mut self, call: &CallConfig) {
        let model = (call.provider.clone(), call.model.clone());
        if self.compactor.unknown.contains(&model) {
            return;
        }
        self.compactor.unknown.push(model);
        self.notify(CompactionNotice::UnknownWindow {
            provider: call.provider.clone(),
            model: call.model.clone(),
        });
    }

    fn tell_failed(&mut self, turn: u64, error: CompactionError) {
        self.compactor.failed = Some(turn);
        self.notify(CompactionNotice::Failed {
            turn: Some(turn),
            error: Arc::new(error),
        });
    }

    fn notify(&self, notice: CompactionNotice) {
        self.core.notify(Notice::Compaction(notice));
    }
}
