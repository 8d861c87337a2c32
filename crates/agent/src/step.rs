//! One step: the request, how its answer comes in, and how it is settled.

use std::sync::Arc;

use futures_util::StreamExt as _;
use offshoot_model::{
    Assembled, CallConfig, Chunk, ContentBlock, Failure, FinishReason, ModelRequest, StreamRecord,
    codes,
};
use offshoot_session::{EventKind, EventLog, LogError, LogOffset, StepRef};
use offshoot_store::AttemptStart;

use crate::AgentError;
use crate::answer::{Answer, unsound};
use crate::cancel::Cancel;
use crate::driver::{Driver, StepEnding, StepFailure, check};
use crate::error::RequestError;
use crate::events::{
    AssistantAttempt, AssistantBody, AssistantMessage, ModelSource, logged, shown,
};
use crate::hooks::Recovery;
use crate::input::Input;
use crate::reconstruct::verify_request;
use crate::request::settled_attempts;
use crate::usage;

/// What an answer has come to.
enum Settled {
    /// The step is over.
    Ended(StepEnding),
    /// These tools are asked for.
    Calls(Vec<ContentBlock>),
    /// The message stands, and nothing can follow it: making the attempt again would say it twice.
    Failed(Failure),
}

impl Driver {
    /// Calls the model once, or as often as a failed attempt is worth making again, and runs the tools it asks for.
    pub(crate) async fn step(
        &mut self,
        at: StepRef,
        entering: &[Input],
        cancel: &Cancel,
    ) -> Result<StepEnding, StepFailure> {
        let begun = self.session.log().end();
        let mut joining = entering.to_vec();
        loop {
            self.take_route();
            let prepared = match self.prepare(at, cancel).await {
                Ok(prepared) => prepared,
                Err(failure) => {
                    // Nothing is sent, and what was said is said all the same.
                    return Err(match self.log_unsent(at, &joining) {
                        Ok(()) => failure,
                        Err(refused) => failure.and_refused(refused),
                    });
                }
            };
            let (prepared, prompts) = self.log_preamble(at, prepared, &joining)?;
            if at.step == 1 {
                self.log_title(&prompts)?;
            }
            let request = self.build_request()?;
            // Everything the model is about to see must survive a crash, or a later request would not extend this one.
            self.recorder.flush().await?;
            check(cancel)?;
            self.recorder.begin_attempt(self.attempt(at, begun));
            let answer = self.answer(at, request, cancel).await;
            match self.settle(at, answer, cancel) {
                Ok(Settled::Ended(ending)) => return Ok(ending),
                Ok(Settled::Calls(content)) => return self.calls(at, &content, cancel).await,
                Ok(Settled::Failed(failure)) => return Err(StepFailure::Model(failure)),
                Err(StepFailure::Model(failure)) => {
                    match self.recover(at, &failure, &prepared, cancel).await? {
                        // What has entered is said once, however often the model has to be asked. But a compaction may
                        // have taken away what the model was told of the world.
                        Recovery::Retry => joining = self.runtime_context(&[])?,
                        Recovery::GiveUp => return Err(StepFailure::Model(failure)),
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Builds the request that the log amounts to, and sees that it really does.
    fn build_request(&mut self) -> Result<ModelRequest, StepFailure> {
        let log = self.session.log();
        let request = self.history.request(&log, self.session.id())?;
        if self.config.context.verify_requests {
            self.verify(&log, &request).map_err(|error| {
                StepFailure::Model(Failure::new(error.code(), error.to_string()))
            })?;
        }
        Ok(request)
    }

    fn verify(&mut self, log: &EventLog, request: &ModelRequest) -> Result<(), RequestError> {
        for event in log.events_from(LogOffset::new(self.rebuilt.rows())) {
            self.rebuilt.push(event.text())?;
        }
        verify_request(request, &self.rebuilt, self.session.id())
    }

    /// Listens until the answer is over, or nobody wants to hear it any more.
    async fn answer(&mut self, at: StepRef, request: ModelRequest, cancel: &Cancel) -> Answer {
        let mut stream = self.model.stream(Arc::new(request), cancel.token().clone());
        self.core.feed.start_answer(at);
        let answer = self.listening.insert(Answer::default());
        loop {
            let next = cancel.token().run_until_cancelled(stream.next()).await;
            let stopped = cancel.token().is_cancelled();
            match next {
                Some(None) => break,
                // The adapter may be the first to say that we hung up.
                Some(Some(Chunk::Finish {
                    reason: FinishReason::Aborted { .. },
                    ..
                })) if stopped => answer.stop(),
                Some(Some(chunk)) => {
                    let now = self.env.now();
                    if let Some(chunk) = answer.push(now, chunk) {
                        self.recorder.chunk(now, &chunk);
                        self.core.feed.chunk(now, &chunk);
                    }
                }
                None => {
                    answer.stop();
                    break;
                }
            }
        }
        self.listening.take().unwrap_or_default()
    }

    /// The attempt that is about to be made in a step that began there.
    fn attempt(&self, at: StepRef, begun: LogOffset) -> AttemptStart {
        let made = settled_attempts(&self.session.log(), begun).count() as u64;
        let CallConfig {
            provider, model, ..
        } = &self.calling;
        AttemptStart {
            at,
            attempt: made + 1,
            provider: provider.clone(),
            model: model.clone(),
        }
    }

    /// Every attempt settles exactly once: as the model's message, or as an attempt that came to nothing.
    fn settle(
        &mut self,
        at: StepRef,
        answer: Answer,
        cancel: &Cancel,
    ) -> Result<Settled, StepFailure> {
        let partial = answer.assembler.interrupted_blocks();
        let assembled = answer.assembler.finish();
        self.usage = usage::both(self.usage, assembled.usage);
        let stream = answer.recorder.finish();
        match &assembled.finish {
            // A provider may give up by itself; only our own switch makes it a cancelled turn.
            FinishReason::Aborted { .. } if cancel.token().is_cancelled() => {
                if partial.is_empty() {
                    self.log_attempt(at, &stream)?;
                } else {
                    self.log_assistant(at, &partial, &assembled, true, &stream)?;
                }
                Err(StepFailure::Cancelled)
            }
            FinishReason::Aborted { failure } | FinishReason::Error { failure } => {
                let failed = StepFailure::Model(failure.clone());
                match self.log_attempt(at, &stream) {
                    Ok(()) => Err(failed),
                    Err(refused) => Err(failed.and_refused(refused)),
                }
            }
            FinishReason::MaxTokens => {
                self.log_assistant(at, &assembled.content, &assembled, false, &stream)?;
                // Nobody can run half a call, and a turn that ends as if nothing was missing would hide it.
                Ok(assembled
                    .truncated_call
                    .map_or(Settled::Ended(StepEnding::MaxTokens), Settled::Failed))
            }
            FinishReason::Stop | FinishReason::ToolCalls => {
                self.log_assistant(at, &assembled.content, &assembled, false, &stream)?;
                if self.session.log().open_tail().pending().is_empty() {
                    return Ok(Settled::Ended(StepEnding::Completed));
                }
                Ok(Settled::Calls(assembled.content))
            }
        }
    }

    /// What had come of an answer when its run was dropped is kept, as if a person had interrupted it.
    pub(crate) fn settle_abandoned_answer(&mut self, at: StepRef) -> Result<(), AgentError> {
        let Some(mut answer) = self.listening.take() else {
            return Ok(());
        };
        answer.stop();
        let partial = answer.assembler.interrupted_blocks();
        let assembled = answer.assembler.finish();
        let stream = answer.recorder.finish();
        if !partial.is_empty() {
            return self.try_log_assistant(at, &partial, &assembled, true, &stream);
        }
        if stream.is_empty() {
            return Ok(());
        }
        self.log_attempt(at, &stream)
    }

    fn log_attempt(&self, at: StepRef, stream: &[StreamRecord]) -> Result<(), AgentError> {
        let data = AssistantAttempt {
            turn: at.turn,
            step: at.step,
            stream,
        };
        let event = self.append(logged(EventKind::AssistantAttempt, &data))?;
        self.recorder.end_attempt();
        let committed = (EventKind::AssistantAttempt, event.seq());
        self.core.feed.end_answer(Some(committed));
        Ok(())
    }

    /// Logs the answer as the model's message. One that cannot be part of a conversation settles as an attempt: it failed.
    /// So does one that was refused for other reasons.
    fn log_assistant(
        &self,
        at: StepRef,
        content: &[ContentBlock],
        assembled: &Assembled,
        interrupted: bool,
        stream: &[StreamRecord],
    ) -> Result<(), StepFailure> {
        let problem = match unsound(content) {
            Some(problem) => problem,
            None => match self.try_log_assistant(at, content, assembled, interrupted, stream) {
                Ok(()) => return Ok(()),
                // Nothing is wrong with the answer: it is kept as far as it can be.
                Err(refused @ AgentError::Log(LogError::Refused { .. })) => {
                    return Err(refused.then(self.log_attempt(at, stream).err()).into());
                }
                Err(unfit) => unfit.to_string(),
            },
        };
        self.log_attempt(at, stream)?;
        let failure = Failure::new(codes::MALFORMED_RESPONSE, problem);
        Err(StepFailure::Model(failure))
    }

    fn try_log_assistant(
        &self,
        at: StepRef,
        content: &[ContentBlock],
        assembled: &Assembled,
        interrupted: bool,
        stream: &[StreamRecord],
    ) -> Result<(), AgentError> {
        let source = ModelSource {
            kind: "model",
            provider: &self.calling.provider,
            model: &self.calling.model,
            replay_state: assembled.replay_state.as_ref().filter(|_| !interrupted),
        };
        let message = AssistantBody {
            id: self.env.fresh_id(),
            role: "assistant",
            content,
            source,
        };
        let data = AssistantMessage {
            turn: at.turn,
            step: at.step,
            message,
            usage: assembled.usage,
            interrupted,
            stream,
        };
        let event = self.append(shown(EventKind::AssistantMessage, &data))?;
        self.recorder.end_attempt();
        let committed = (EventKind::AssistantMessage, event.seq());
        self.core.feed.end_answer(Some(committed));
        Ok(())
    }
}
