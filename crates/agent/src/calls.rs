//! The tool calls of a step (`reference/agent.md` §1.9).
//!
//! Calls start in the model's order and are logged as they start. Neighbours that allow it run at the same time; one that
//! does not is a barrier. Results are logged strictly in the model's order. A failing tool is a result, never a failed turn.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt as _, StreamExt as _};
use offshoot_model::ContentBlock;
use offshoot_session::{EventKind, Seq, StepRef};
use offshoot_tool_api::{
    Concurrency, Effects, Tool, ToolArguments, ToolContext, ToolError, ToolOutput,
};

use crate::AgentError;
use crate::cancel::Cancel;
use crate::driver::{Agent, StepEnding, StepFailure, check};
use crate::events::{
    ErrorInfo, TextBlock, ToolBody, ToolCall, ToolResult, ToolSource, logged, shown,
};

/// A call that the model asked for.
#[derive(Clone, Copy)]
struct Asked<'a> {
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
}

type Outcome = Result<ToolOutput, ToolError>;
type Running<'a> = FuturesOrdered<BoxFuture<'a, (Asked<'a>, Seq, Outcome)>>;

impl Agent {
    pub(crate) async fn calls(
        &self,
        at: StepRef,
        content: &[ContentBlock],
        cancel: &Cancel,
    ) -> Result<StepEnding, StepFailure> {
        let mut waiting = content.iter().filter_map(|block| match block {
            ContentBlock::ToolCall {
                id,
                name,
                arguments,
            } => Some(Asked {
                id,
                name,
                arguments,
            }),
            _ => None,
        });
        let mut next = waiting.next();
        let mut running: Running<'_> = FuturesOrdered::new();
        let mut alone = false;
        let mut concluded = false;
        loop {
            // Fill up: neighbours that allow company, or one call alone.
            while let Some(call) = next.filter(|_| !cancel.token().is_cancelled()) {
                let parallel = self.concurrency(call) == Concurrency::Parallel;
                let room = running.len() < self.config.max_parallel_tool_calls.max(1);
                if !running.is_empty() && (alone || !parallel || !room) {
                    break;
                }
                alone = !parallel;
                let seq = self.start(at, call).await?;
                running.push_back(self.execute(call, seq, cancel));
                next = waiting.next();
            }
            let Some((call, seq, outcome)) = running.next().await else {
                break;
            };
            concluded |= outcome.as_ref().is_ok_and(|output| output.concludes_turn);
            self.log_result(at, call, seq, outcome)?;
        }
        // Only a cancelled step gets here with calls left: each is answered, none was run.
        for call in next.into_iter().chain(waiting) {
            let seq = self.log_call(at, call)?;
            self.log_result(at, call, seq, Err(ToolError::aborted_before_dispatch()))?;
        }
        check(cancel)?;
        Ok(if concluded {
            StepEnding::Completed
        } else {
            StepEnding::Continue
        })
    }

    fn concurrency(&self, call: Asked<'_>) -> Concurrency {
        let arguments = ToolArguments::from_model(call.arguments);
        self.tools
            .get(call.name)
            .map_or(Concurrency::Parallel, |tool| tool.concurrency(&arguments))
    }

    /// Logs that a call starts. Before one that can change something, that must be durable: after a crash nobody could
    /// tell otherwise that it ran.
    async fn start(&self, at: StepRef, call: Asked<'_>) -> Result<Seq, StepFailure> {
        let seq = self.log_call(at, call)?;
        let changes = |tool: &Arc<dyn Tool>| tool.effects() != Effects::ReadOnly;
        if self.tools.get(call.name).is_some_and(changes) {
            self.recorder.flush().await?;
        }
        Ok(seq)
    }

    fn execute<'a>(
        &'a self,
        call: Asked<'a>,
        seq: Seq,
        cancel: &Cancel,
    ) -> BoxFuture<'a, (Asked<'a>, Seq, Outcome)> {
        let tool = self.tools.get(call.name).cloned();
        let context = ToolContext {
            call_id: call.id.to_owned(),
            cwd: self.session.header().cwd.map(Into::into),
            cancel: cancel.token().clone(),
        };
        async move {
            let outcome = match tool {
                None => Err(ToolError::unknown_tool(call.name)),
                Some(_) if context.cancel.is_cancelled() => {
                    Err(ToolError::aborted_before_dispatch())
                }
                Some(tool) => run(&*tool, call, &context).await,
            };
            (call, seq, outcome)
        }
        .boxed()
    }

    fn log_call(&self, at: StepRef, call: Asked<'_>) -> Result<Seq, AgentError> {
        let data = ToolCall {
            turn: at.turn,
            step: at.step,
            call_id: call.id,
            name: call.name,
            arguments: call.arguments,
        };
        Ok(self.append(logged(EventKind::ToolCall, &data))?.seq())
    }

    fn log_result(
        &self,
        at: StepRef,
        call: Asked<'_>,
        seq: Seq,
        outcome: Outcome,
    ) -> Result<(), AgentError> {
        let (text, meta, error) = match outcome {
            Ok(output) => (output.text, output.meta, None),
            Err(error) => {
                let info = ErrorInfo {
                    name: error.name().to_owned(),
                    code: error.code().to_owned(),
                };
                (error.model_text(), None, Some(info))
            }
        };
        let content = if text.is_empty() {
            Vec::new()
        } else {
            vec![TextBlock::new(&text)]
        };
        let message = ToolBody {
            id: self.env.fresh_id(),
            role: "tool",
            tool_call_id: call.id,
            is_error: error.is_some(),
            source: ToolSource {
                kind: "tool",
                call_id: call.id,
            },
            content,
        };
        let data = ToolResult {
            turn: at.turn,
            step: at.step,
            message,
            error,
            meta,
        };
        self.append(shown(EventKind::ToolResult, &data).with_sources([seq]))?;
        Ok(())
    }
}

async fn run(tool: &dyn Tool, call: Asked<'_>, context: &ToolContext) -> Outcome {
    let arguments = ToolArguments::from_model(call.arguments);
    let body = AssertUnwindSafe(tool.execute(arguments, context)).catch_unwind();
    let outcome = match tool.timeout() {
        None => body.await,
        Some(limit) => match tokio::time::timeout(limit, body).await {
            Ok(outcome) => outcome,
            Err(_) => return Err(ToolError::timed_out(limit)),
        },
    };
    // A panic is the tool's own failure: the conversation goes on and the model is told.
    outcome.unwrap_or_else(|_| {
        Err(ToolError::new(
            "ToolPanicError",
            "TOOL_PANICKED",
            "the tool failed unexpectedly",
        ))
    })
}
