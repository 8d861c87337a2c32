//! One step: the messages that join, the header, the request, and how its answer is settled.

use std::sync::Arc;

use futures_util::StreamExt as _;
use offshoot_model::{
    Assembled, CallConfig, Chunk, ContentBlock, Failure, FinishReason, ModelRequest, StreamRecord,
    ToolSpec, Usage, codes,
};
use offshoot_session::{Event, EventKind, LogOffset, StepRef};
use offshoot_store::AttemptStart;
use serde_json::value::RawValue;

use crate::answer::{Answer, unsound};
use crate::cancel::Cancel;
use crate::driver::{Agent, StepEnding, StepFailure, check};
use crate::events::{
    AssistantAttempt, AssistantBody, AssistantMessage, Header, ModelSource, RequestContext,
    RequestHeader, SessionTitle, SourceKind, StoredHeader, SystemBody, SystemMessage, TextBlock,
    logged, one_line, read, shown,
};
use crate::request::{build_request, settled_attempts};
use crate::{AgentError, prompt};

impl Agent {
    pub(crate) async fn step(
        &mut self,
        at: StepRef,
        claimed: &[Arc<str>],
        cancel: &Cancel,
    ) -> Result<StepEnding, StepFailure> {
        let begun = self.session.log().end();
        self.log_prompt(at)?;
        let prompts = self.log_messages(claimed)?;
        self.log_header()?;
        self.log_context()?;
        if at.step == 1 {
            self.log_title(&prompts)?;
        }
        let request = build_request(&self.session.log(), self.session.id())?;
        // Everything the model is about to see must survive a crash, or a later request would not extend this one.
        self.recorder.flush().await?;
        check(cancel)?;
        self.recorder.begin_attempt(self.attempt(at, begun));
        let answer = self.answer(request, cancel).await;
        self.settle(at, answer, cancel).await
    }

    /// Listens until the answer is over, or nobody wants to hear it any more.
    async fn answer(&mut self, request: ModelRequest, cancel: &Cancel) -> Answer {
        let mut stream = self.model.stream(Arc::new(request), cancel.token().clone());
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
                    self.recorder.chunk(now, &chunk);
                    answer.push(now, chunk);
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
        } = &self.config.call;
        AttemptStart {
            at,
            attempt: made + 1,
            provider: provider.clone(),
            model: model.clone(),
        }
    }

    /// The prompt is logged once, ahead of everything the model sees.
    fn log_prompt(&self, at: StepRef) -> Result<(), AgentError> {
        if !self.session.log().surface().is_empty() {
            return Ok(());
        }
        let text = self.config.system_prompt.as_str();
        let content = if text.is_empty() {
            Vec::new()
        } else {
            vec![TextBlock::new(text)]
        };
        let message = SystemBody {
            id: self.env.fresh_id(),
            role: "system",
            source: SourceKind {
                kind: "system-prompt",
            },
            content,
        };
        let data = SystemMessage {
            turn: at.turn,
            step: at.step,
            message,
        };
        self.append(shown(EventKind::SystemMessage, &data))?;
        Ok(())
    }

    fn log_messages(&self, claimed: &[Arc<str>]) -> Result<Vec<Arc<Event>>, AgentError> {
        let mut prompts = Vec::new();
        for message in claimed {
            // The very text that was queued becomes the message: nothing of it is written anew.
            let raw: &RawValue = serde_json::from_str(message)
                .expect("BUG: the message was read as JSON when it was queued");
            prompts.push(self.append(shown(EventKind::UserMessage, &raw))?);
        }
        let log = self.session.log();
        let cwd = self.session.header().cwd;
        if let Some(context) = prompt::context_update(&log, cwd.as_deref(), &self.env) {
            self.append(context)?;
        }
        Ok(prompts)
    }

    /// Logs the header when the next request differs from what the log says, and whenever this agent starts or a series
    /// of requests that share a prefix starts anew.
    fn log_header(&mut self) -> Result<(), AgentError> {
        let log = self.session.log();
        let specs = self.tools.specs().map(|spec| ToolSpec {
            name: spec.name.clone(),
            description: spec.description.clone(),
            parameters: one_line(spec.parameters.clone()).into(),
            defer_loading: None,
        });
        let header = Header {
            config: self.config.call.clone(),
            tools: specs.collect(),
        };
        let generation = log.surface().content_generation();
        let new_series = generation != self.generation;
        let reason = match log.request_header() {
            None => Some("initial"),
            Some(_) if self.header.is_none() => Some("resume"),
            Some(stored) if !says(stored, &header) => Some("change"),
            Some(_) if new_series => Some("series"),
            Some(_) => None,
        };
        if let Some(reason) = reason {
            let starts_series = new_series && reason != "series";
            let data = RequestHeader {
                header: &header,
                reason,
                starts_series,
            };
            self.append(logged(EventKind::RequestHeader, &data))?;
        }
        self.header = Some(header);
        self.generation = generation;
        Ok(())
    }

    fn log_context(&self) -> Result<(), AgentError> {
        let call = &self.config.call;
        let context = RequestContext {
            provider: call.provider.clone(),
            model: call.model.clone(),
            context_window: self
                .model
                .prepare(call)
                .ok()
                .and_then(|prepared| prepared.info.context_window),
            system_prompt_update: None,
        };
        let log = self.session.log();
        let known = log
            .request_context()
            .and_then(|event| read::<RequestContext>(event));
        if known.as_ref() != Some(&context) {
            self.append(logged(EventKind::RequestContext, &context))?;
        }
        Ok(())
    }

    /// A conversation is named after the first thing that a person asked in it.
    fn log_title(&self, prompts: &[Arc<Event>]) -> Result<(), AgentError> {
        let named = |event: &Arc<Event>| *event.kind() == EventKind::SessionTitle;
        if self.session.log().events().any(named) {
            return Ok(());
        }
        let by_person = |event: &&Arc<Event>| {
            let message = event.body().message();
            message.is_some_and(|message| &*message.source == "user")
        };
        let Some(event) = prompts.iter().find(by_person) else {
            return Ok(());
        };
        let message = read::<offshoot_model::Message>(event);
        let text = message
            .map(|message| text_of(&message.content))
            .unwrap_or_default();
        if let Some(title) = prompt::fallback_title(&text) {
            let source = SourceKind { kind: "fallback" };
            let data = SessionTitle {
                title,
                message_seqs: [event.seq()],
                source,
            };
            self.append(logged(EventKind::SessionTitle, &data))?;
        }
        Ok(())
    }

    /// Every attempt settles exactly once: as the model's message, or as an attempt that came to nothing.
    async fn settle(
        &mut self,
        at: StepRef,
        answer: Answer,
        cancel: &Cancel,
    ) -> Result<StepEnding, StepFailure> {
        let partial = answer.assembler.interrupted_blocks();
        let assembled = answer.assembler.finish();
        self.usage = sum(self.usage, assembled.usage);
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
                self.log_attempt(at, &stream)?;
                Err(StepFailure::Model(failure.clone()))
            }
            FinishReason::MaxTokens => {
                self.log_assistant(at, &assembled.content, &assembled, false, &stream)?;
                Ok(StepEnding::MaxTokens)
            }
            FinishReason::Stop | FinishReason::ToolCalls => {
                self.log_assistant(at, &assembled.content, &assembled, false, &stream)?;
                if self.session.log().open_tail().pending().is_empty() {
                    return Ok(StepEnding::Completed);
                }
                self.calls(at, &assembled.content, cancel).await
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
        self.append(logged(EventKind::AssistantAttempt, &data))?;
        self.recorder.end_attempt();
        Ok(())
    }

    /// Logs the answer as the model's message. One that cannot be part of a conversation settles as an attempt: it failed.
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
                Err(refused) => refused.to_string(),
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
            provider: &self.config.call.provider,
            model: &self.config.call.model,
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
        self.append(shown(EventKind::AssistantMessage, &data))?;
        self.recorder.end_attempt();
        Ok(())
    }
}

/// Whether the stored header is this one. One that cannot be read is another.
fn says(stored: &Event, header: &Header) -> bool {
    read::<StoredHeader>(stored).is_some_and(|stored| stored.header == *header)
}

fn text_of(blocks: &[ContentBlock]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// Adds usage up; a part that neither call reported stays unreported.
fn sum(a: Option<Usage>, b: Option<Usage>) -> Option<Usage> {
    let (Some(a), Some(b)) = (a, b) else {
        return a.or(b);
    };
    let part = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
    };
    Some(Usage {
        input_tokens: a.input_tokens + b.input_tokens,
        output_tokens: a.output_tokens + b.output_tokens,
        total_tokens: part(a.total_tokens, b.total_tokens),
        cache_read_tokens: part(a.cache_read_tokens, b.cache_read_tokens),
        cache_write_tokens: part(a.cache_write_tokens, b.cache_write_tokens),
        reasoning_tokens: part(a.reasoning_tokens, b.reasoning_tokens),
    })
}
