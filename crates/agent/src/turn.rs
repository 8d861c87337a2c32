//! Turns and their steps (`reference/agent.md` §1.4, V4).
//!
//! The order of events is the product: `turn/start`, the claims, `step/start`, the step, `step/end`, and so on until nobody
//! has anything to add, then `turn/end`. A step that fails answers its calls before it ends, whatever failed. What cannot be
//! closed, because the log refuses even that, is closed before the next turn.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use offshoot_session::{EventKind, LogOffset, StepRef};

use crate::AgentError;
use crate::cancel::Cancel;
use crate::core::OpenedTurn;
use crate::driver::{Driver, StepEnding, StepFailure, TurnOutcome, TurnReport, check};
use crate::events::{CancelCause, Step, TurnEnd, TurnEndReason, logged, read, texts};
use crate::hooks::PreStep;
use crate::inbox::{self, Clear, InboxTarget, Unsaid};
use crate::input::Input;
use crate::phase::TurnWent;

impl Driver {
    /// Runs turns until no input waits, or one does not complete; then the rest of the input stays where it is. Cancelling
    /// drops it.
    ///
    /// Whoever drops the future abandons the turn: its tools are told, and the next run closes it in the log.
    ///
    /// # Errors
    /// Storage or the log failed; the turn was ended in the log as far as that was still possible. Or the conversation
    /// cannot go on, or its pending input is damaged; then nothing was written.
    pub async fn run(&mut self, cancel: &Cancel) -> Result<Vec<TurnReport>, AgentError> {
        self.check_continuable()?;
        self.close_abandoned_turn().await?;
        let mut reports = Vec::new();
        while self.has_input()? {
            let outcome = self.next_turn(cancel, None).await;
            let went = outcome.went();
            if let Some(error) = outcome.error {
                return Err(error);
            }
            let cancelled = outcome.report.as_ref().is_some_and(TurnReport::is_aborted);
            reports.extend(outcome.report);
            if cancelled {
                let cleared = inbox::clear(&self.core, Clear::NotKept);
                self.core.feed.deliver();
                cleared?;
                self.recorder.flush().await?;
            }
            if went == TurnWent::Otherwise {
                break;
            }
        }
        Ok(reports)
    }

    pub(crate) fn check_continuable(&self) -> Result<(), AgentError> {
        Ok(self.session.log().continuable()?)
    }

    fn has_input(&self) -> Result<bool, AgentError> {
        let log = self.session.log();
        let input = log.pending_input();
        match input.damage() {
            Some(seq) => Err(AgentError::Inbox(seq)),
            None => Ok(!input.is_empty()),
        }
    }

    /// Nobody would read a log in which a turn starts inside another.
    async fn close_abandoned_turn(&mut self) -> Result<(), AgentError> {
        let log = self.session.log();
        let Some(turn) = log.open_tail().turn() else {
            return Ok(());
        };
        let start = inbox::last_of(&log, EventKind::TurnStart);
        let start = start.map_or(LogOffset::START, |event| event.seq().before());
        let reason = self.unfinished.take().unwrap_or(TurnEndReason::Aborted {
            reason: CancelCause::Disposed,
        });
        self.finish_turn(OpenedTurn { turn, start }, &reason)?;
        self.recorder.flush().await
    }

    /// One turn: also without input, which somebody may have taken back. `opened` if its start is in the log already.
    pub(crate) async fn next_turn(
        &mut self,
        cancel: &Cancel,
        opened: Option<OpenedTurn>,
    ) -> TurnOutcome {
        let opened = match opened {
            Some(opened) => opened,
            None => match self.open_turn().await {
                Ok(opened) => opened,
                Err(error) => return error.into(),
            },
        };
        self.turn(opened, cancel).await
    }

    async fn open_turn(&mut self) -> Result<OpenedTurn, AgentError> {
        loop {
            if let Some(opened) = self.core.open_turn()? {
                return Ok(opened);
            }
            self.close_abandoned_turn().await?;
        }
    }

    async fn turn(&mut self, opened: OpenedTurn, cancel: &Cancel) -> TurnOutcome {
        self.usage = None;
        // A hook that panics ends its turn and not the agent.
        let steps = AssertUnwindSafe(self.steps(opened.turn, cancel)).catch_unwind();
        let ended = steps.await.unwrap_or_else(|panic| {
            let message = said_in_panic(&*panic);
            Err(AgentError::Panicked(message).into())
        });
        let (reason, error) = match ended {
            Ok(reason) => (reason, None),
            Err(failure) => failure.into_ending(cancel),
        };
        let (report, refused) = match self.finish_turn(opened, &reason) {
            Ok(()) => {
                let report = TurnReport {
                    turn: opened.turn,
                    reason,
                    text: self.last_text(opened.start),
                    usage: self.usage,
                };
                (Some(report), None)
            }
            Err(refused) => {
                self.unfinished = Some(reason);
                (None, Some(refused))
            }
        };
        let flushed = self.recorder.flush().await;
        let error = match (error, refused) {
            (Some(error), refused) => Some(error.then(refused)),
            // Storage that fails once more says nothing new.
            (None, refused) => refused.or_else(|| flushed.err()),
        };
        TurnOutcome { report, error }
    }

    async fn steps(&mut self, turn: u64, cancel: &Cancel) -> Result<TurnEndReason, StepFailure> {
        let mut cut_off = false;
        let mut ended = false;
        for step in 1.. {
            check(cancel)?;
            let at = StepRef { turn, step };
            self.follow_permissions()?;
            let entering = self.claim(at)?;
            self.compact_if_needed(at, &entering, cancel).await;
            let Some(entering) = self.pre_step(at, entering, cancel).await? else {
                return Ok(TurnEndReason::Blocked);
            };
            if entering.is_empty() && (ended || step == 1) {
                break;
            }
            self.append(logged(EventKind::StepStart, &Step::from(at)))?;
            let result = self.step(at, &entering, cancel).await;
            let ending = match (result, self.end_step(at)) {
                (result, Ok(())) => result?,
                (Ok(_), Err(refused)) => return Err(refused.into()),
                (Err(failure), Err(refused)) => {
                    return Err(failure.and_refused(refused));
                }
            };
            cut_off |= ending == StepEnding::MaxTokens;
            ended = ending != StepEnding::Continue;
            check(cancel)?;
            if ended && !self.goes_on(at, cancel).await? {
                break;
            }
        }
        Ok(if cut_off {
            TurnEndReason::MaxTokens
        } else {
            TurnEndReason::Completed
        })
    }

    fn claim(&self, at: StepRef) -> Result<Vec<Input>, AgentError> {
        let claimed = inbox::claim(&self.core, at);
        self.core.feed.deliver();
        claimed
    }

    /// What enters the step; `None` if a hook does not let it begin.
    async fn pre_step(
        &mut self,
        at: StepRef,
        claimed: Vec<Input>,
        cancel: &Cancel,
    ) -> Result<Option<Vec<Input>>, StepFailure> {
        let mut entering = claimed;
        // A step that nobody asked for does not begin because the world has changed.
        if !entering.is_empty() || at.step > 1 {
            let context = self.runtime_context(&entering)?;
            entering.extend(context);
        }
        // Cancelled while room was made for it, the step says what enters it all the same, as the hooks want it.
        let was_cancelled = cancel.token().is_cancelled();
        let mut series = false;
        for hook in &self.hooks {
            let decision = hook
                .pre_step(&self.hook_context(at, cancel), entering)
                .await?;
            if !was_cancelled {
                check(cancel)?;
            }
            match decision {
                PreStep::Enter {
                    messages,
                    starts_series,
                } => {
                    entering = messages;
                    series |= starts_series;
                }
                PreStep::Reject => {
                    check(cancel)?;
                    return Ok(None);
                }
            }
        }
        self.series |= series;
        Ok(Some(entering))
    }

    /// Whether there is another step although the model has no more to do.
    async fn goes_on(&self, at: StepRef, cancel: &Cancel) -> Result<bool, StepFailure> {
        let waits = || !self.session.log().pending_input().next_step().is_empty();
        if waits() {
            return Ok(true);
        }
        for hook in &self.hooks {
            let steered = hook.turn_stopping(&self.hook_context(at, cancel)).await?;
            check(cancel)?;
            for input in steered {
                let inserted = inbox::insert(&self.core, InboxTarget::NextStep, &input);
                self.core.feed.deliver();
                inserted?;
            }
        }
        Ok(waits())
    }

    /// A step is never closed with a call unanswered: no provider would accept the conversation afterwards.
    fn end_step(&self, at: StepRef) -> Result<(), AgentError> {
        let now = self.env.now();
        let mut session = self.session.lock();
        session.answer_pending(now)?;
        session.append(logged(EventKind::StepEnd, &Step::from(at)), now)?;
        Ok(())
    }

    /// Closes a turn with whatever is open in it. Kept messages that it has claimed and nobody has said are queued again.
    /// What is done stays done when something is refused.
    fn finish_turn(
        &mut self,
        opened: OpenedTurn,
        reason: &TurnEndReason,
    ) -> Result<(), AgentError> {
        let OpenedTurn { turn, start } = opened;
        self.core.close_compaction()?;
        let open_step = self.session.log().open_tail().step();
        if let Some(step) = open_step {
            self.settle_abandoned_answer(step)?;
            self.end_step(step)?;
        }
        self.core.feed.end_answer(None);
        if !reason.goes_on() {
            let put_back = inbox::put_back(&self.core, start, Unsaid::Kept);
            self.core.feed.deliver();
            put_back?;
        }
        self.append(logged(EventKind::TurnEnd, &TurnEnd { turn, reason }))?;
        Ok(())
    }

    /// The text of the last message of the model behind an offset.
    fn last_text(&self, from: LogOffset) -> String {
        #[derive(serde::Deserialize)]
        struct Stored {
            message: offshoot_model::Message,
        }
        let log = self.session.log();
        let last = log
            .events_from(from)
            .filter(|event| *event.kind() == EventKind::AssistantMessage)
            .last()
            .and_then(|event| read::<Stored>(event));
        let blocks = last
            .map(|stored| stored.message.content)
            .unwrap_or_default();
        texts(blocks).collect::<Vec<_>>().join("\n\n")
    }
}

fn said_in_panic(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "something panicked".to_owned())
}
