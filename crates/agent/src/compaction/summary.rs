//! Asking a model for a summary (`reference/agent.md` §6.5).
//!
//! It sees what the conversation's own requests have shown it, tools included, up to the end of the span, and one more
//! message that says what to write. So a provider that has the conversation cached reads little anew.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::StreamExt as _;
use offshoot_model::{
    Assembler, CallConfig, Failure, FinishReason, Message, MessageSource, Model, ModelRequest,
    RetryPolicy, Role, codes,
};
use offshoot_session::{EventLog, Seq};

use super::bracket::Bracket;
use super::checkpoint::{Answer, Checkpoint};
use super::span::Span;
use super::{CompactionError, Upcoming};
use crate::cancel::Cancel;
use crate::driver::Driver;
use crate::request::build_request;
use crate::usage::both;

/// What the model is asked for.
const INSTRUCTION: &str = "\
Write a summary of this conversation so far. It will stand in its place, and you will go on with the work from the summary \
alone: whatever you leave out is forgotten. Call no tools and answer with the summary only, as text, in these sections. \
Leave a section empty if there is nothing for it.

1. Primary Request and Intent: everything the user has asked for, corrections and preferences included, in their own words \
where the wording matters.
2. Key Technical Concepts: the technologies, conventions and decisions that the work depends on.
3. Files and Code: each file that was read, changed or created, with its path, what is in it that matters, and what was \
changed and why. Quote the code that the next steps need.
4. Errors and Fixes: what went wrong, how it was solved, and what was tried in vain.
5. Pending Jobs: what was asked for and is not done, and what still runs in the background.
6. Current Work: what was being done just now, as exactly as you can say it.
7. Next Step: what to do next, if the user's requests say so. Do not begin anything new.
8. Critical Context: names, numbers, commands, paths and results that could not be found out again easily.

If the conversation begins with such a summary, carry over what still matters in it. The system prompt, the project \
instructions and the description of where you work are told again anyway: do not repeat them.";

/// Why there is no answer.
enum Unanswered {
    Cancelled,
    /// The model failed.
    Failed(Failure),
    /// It said something that is no summary.
    Unusable(String),
}

impl Driver {
    /// Has the span summarised, or a shorter one if the model cannot see all of it.
    pub(super) async fn summarise(
        &mut self,
        bracket: &Bracket,
        log: &EventLog,
        mut span: Span,
        upcoming: Upcoming,
        cancel: &Cancel,
    ) -> Result<(Span, Checkpoint), CompactionError> {
        let (model, call, policy) = self.summariser(upcoming)?;
        let mut tried = 0;
        loop {
            tried += 1;
            let request = self.question(log, &span, &call)?;
            let unanswered = match self.hear(&*model, request, cancel).await {
                Ok(answer) => {
                    let id = self.env.fresh_id();
                    match Checkpoint::frame(answer, bracket, &span, id) {
                        Ok(checkpoint) => return Ok((span, checkpoint)),
                        Err(problem) => Unanswered::Unusable(problem),
                    }
                }
                Err(unanswered) => unanswered,
            };
            let is_last = tried > self.config.compaction.retries;
            let (problem, wait) = match unanswered {
                Unanswered::Cancelled => return Err(CompactionError::Cancelled),
                Unanswered::Unusable(problem) => (problem, None),
                Unanswered::Failed(failure) if failure.code == codes::CONTEXT_WINDOW_EXCEEDED => {
                    let problem = failure.message;
                    let half = span.halved().filter(|_| !is_last);
                    span = half.ok_or_else(|| CompactionError::Summary(problem.clone()))?;
                    (problem, None)
                }
                Unanswered::Failed(failure) => {
                    let delay = policy.delay(tried, &failure, self.env.random());
                    let Some(delay) = delay else {
                        return Err(CompactionError::Summary(failure.message));
                    };
                    (failure.message, Some(delay))
                }
            };
            if is_last {
                return Err(CompactionError::Summary(problem));
            }
            if let Some(delay) = wait {
                let wait = tokio::time::sleep(policy.pause(delay));
                cancel.token().run_until_cancelled(wait).await;
            }
            if cancel.token().is_cancelled() {
                return Err(CompactionError::Cancelled);
            }
        }
    }

    /// Who summarises, and how it is called.
    fn summariser(
        &self,
        upcoming: Upcoming,
    ) -> Result<(Arc<dyn Model>, CallConfig, RetryPolicy), CompactionError> {
        let config = &self.config.compaction;
        let (model, mut call, policy) = match &config.summariser {
            None => (upcoming.model, upcoming.call, upcoming.retry),
            Some(other) => {
                let prepared = other.model.prepare(&other.call);
                let prepared =
                    prepared.map_err(|failure| CompactionError::Summary(failure.message))?;
                (Arc::clone(&other.model), prepared.config, prepared.retry)
            }
        };
        let most = call.max_tokens.unwrap_or(u64::MAX);
        call.max_tokens = Some(config.max_tokens.min(most));
        Ok((model, call, policy))
    }

    fn question(
        &self,
        log: &EventLog,
        span: &Span,
        call: &CallConfig,
    ) -> Result<ModelRequest, CompactionError> {
        let unsendable = |error: crate::RequestError| CompactionError::Summary(error.to_string());
        let mut request = build_request(log, self.session.id()).map_err(unsendable)?;
        let surface = log.surface();
        let head = surface.head().filter(|_| surface.has_protected_head());
        let shown: HashSet<Seq> = span.nodes().iter().copied().chain(head).collect();
        let mut seqs = log.messages().map(|message| message.seq);
        request
            .messages
            .retain(|_| seqs.next().is_some_and(|seq| shown.contains(&seq)));
        let id = self.env.fresh_id();
        let source = MessageSource::of_kind("compaction");
        let instruction = Message::text(id, Role::User, INSTRUCTION, source);
        request.messages.push(instruction.into());
        request.config = call.clone();
        Ok(request)
    }

    /// Listens to the model until it has said all.
    async fn hear(
        &mut self,
        model: &dyn Model,
        request: ModelRequest,
        cancel: &Cancel,
    ) -> Result<Answer, Unanswered> {
        let call = request.config.clone();
        let mut stream = model.stream(Arc::new(request), cancel.token().clone());
        let mut assembler = Assembler::new();
        loop {
            match cancel.token().run_until_cancelled(stream.next()).await {
                Some(Some(chunk)) => assembler.push(&chunk),
                Some(None) => break,
                None => return Err(Unanswered::Cancelled),
            }
        }
        if cancel.token().is_cancelled() {
            return Err(Unanswered::Cancelled);
        }
        let is_complete = assembler.finish_reason().is_some();
        let assembled = assembler.finish();
        self.usage = both(self.usage, assembled.usage);
        let unusable = |problem: &str| Err(Unanswered::Unusable(problem.to_owned()));
        match assembled.finish {
            FinishReason::Aborted { failure } | FinishReason::Error { failure } => {
                Err(Unanswered::Failed(failure))
            }
            FinishReason::MaxTokens => unusable("the model's answer was cut off"),
            FinishReason::ToolCalls => unusable("the model called a tool instead of answering"),
            FinishReason::Stop if !is_complete => unusable("the model's answer broke off"),
            FinishReason::Stop => Ok(Answer {
                raw: assembled.content,
                usage: assembled.usage,
                call,
            }),
        }
    }
}
