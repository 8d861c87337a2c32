//! The tool calls of a step (`reference/agent.md` §1.9).
//!
//! Calls start in the model's order and are logged as they start. Neighbours that allow it run at the same time; one that
//! does not is a barrier. Results are logged strictly in the model's order. A failing tool is a result, never a failed turn.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use offshoot_model::ContentBlock;
use offshoot_session::{EventKind, Seq, StepRef};
use offshoot_tool_api::{
    Concurrency, Effects, Tool, ToolArguments, ToolContext, ToolError, ToolOutput,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::AgentError;
use crate::cancel::Cancel;
use crate::driver::{Driver, StepEnding, StepFailure, check};
use crate::events::{
    ErrorInfo, TextBlock, ToolBody, ToolCall, ToolResult, ToolSource, logged, shown,
};

/// How long a tool whose time is over may take to release what it holds before it is dropped.
const GRACE: Duration = Duration::from_secs(5);

/// A call that the model asked for.
#[derive(Clone, Copy)]
struct Asked<'a> {
    /// Its place in the model's order.
    place: usize,
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
}

type Outcome = Result<ToolOutput, ToolError>;

/// A call that has come to its end.
struct Ended<'a> {
    call: Asked<'a>,
    started: Seq,
    outcome: Outcome,
    /// Why the tool did not run although the call was logged: that could not be made durable.
    undurable: Option<AgentError>,
}

impl Driver {
    pub(crate) async fn calls(
        &self,
        at: StepRef,
        content: &[ContentBlock],
        cancel: &Cancel,
    ) -> Result<StepEnding, StepFailure> {
        let mut waiting = asked(content).peekable();
        let mut running: FuturesUnordered<BoxFuture<'_, Ended<'_>>> = FuturesUnordered::new();
        let mut ended = BTreeMap::new();
        let (mut unlogged, mut alone, mut concluded) = (0, false, false);
        let mut failure: Option<AgentError> = None;
        loop {
            // Fill up: neighbours that allow company, or one call alone.
            while failure.is_none() && !cancel.token().is_cancelled() {
                let Some(&call) = waiting.peek() else { break };
                let parallel = self.concurrency(call) == Concurrency::Parallel;
                let room = running.len() < self.config.max_parallel_tool_calls.max(1);
                if !running.is_empty() && (alone || !parallel || !room) {
                    break;
                }
                alone = !parallel;
                match self.log_call(at, call) {
                    Ok(seq) => running.push(self.execute(call, seq, cancel)),
                    Err(error) => failure = Some(error),
                }
                waiting.next();
            }
            let Some(call) = running.next().await else {
                break;
            };
            ended.insert(call.call.place, call);
            while let Some(call) = ended.remove(&unlogged) {
                unlogged += 1;
                concluded |= call.outcome.as_ref().is_ok_and(|out| out.concludes_turn);
                failure = failure.or(call.undurable);
                let logged = self.log_result(at, call.call, call.started, call.outcome);
                failure = failure.or(logged.err());
            }
        }
        // What was running has ended and is logged; what never started is answered when the step is closed.
        if let Some(error) = failure {
            return Err(error.into());
        }
        // Only a cancelled step gets here with calls left: each is answered, none was run.
        for call in waiting {
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

    /// Whatever does not say that it may run beside others does not.
    fn concurrency(&self, call: Asked<'_>) -> Concurrency {
        let Some(tool) = self.tools.get(call.name) else {
            return Concurrency::Exclusive;
        };
        let arguments = ToolArguments::from_model(call.arguments);
        catch_unwind(AssertUnwindSafe(|| tool.concurrency(&arguments)))
            .unwrap_or(Concurrency::Exclusive)
    }

    /// Runs a call whose start is in the log. Before one that can change something, that must be durable: after a crash
    /// nobody could tell otherwise that it ran. It waits for that beside the other calls and holds none of them up.
    fn execute<'a>(
        &'a self,
        call: Asked<'a>,
        started: Seq,
        cancel: &Cancel,
    ) -> BoxFuture<'a, Ended<'a>> {
        let tool = self.tools.get(call.name).cloned();
        let turn = cancel.token().clone();
        let context = ToolContext {
            call_id: call.id.to_owned(),
            cwd: self.session.header().cwd.map(Into::into),
            cancel: turn.child_token(),
            limits: offshoot_tool_api::Limits::none(),
            spill: self.spill.clone(),
        };
        async move {
            // Also when the turn is dropped in the middle, nothing of the call goes on.
            let _told = context.cancel.clone().drop_guard();
            let mut undurable = None;
            let changes = |tool: &Arc<dyn Tool>| tool.effects() != Effects::ReadOnly;
            if tool.as_ref().is_some_and(changes) {
                undurable = self.recorder.flush().await.err();
            }
            let outcome = match tool {
                None => Err(ToolError::unknown_tool(call.name)),
                Some(_) if undurable.is_some() || turn.is_cancelled() => {
                    Err(ToolError::aborted_before_dispatch())
                }
                Some(tool) => run(&*tool, call, &context, &turn).await,
            };
            Ended {
                call,
                started,
                outcome,
                undurable,
            }
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

fn asked(content: &[ContentBlock]) -> impl Iterator<Item = Asked<'_>> {
    let calls = content.iter().filter_map(|block| match block {
        ContentBlock::ToolCall {
            id,
            name,
            arguments,
        } => Some((id, name, arguments)),
        _ => None,
    });
    calls
        .enumerate()
        .map(|(place, (id, name, arguments))| Asked {
            place,
            id,
            name,
            arguments,
        })
}

async fn run(
    tool: &dyn Tool,
    call: Asked<'_>,
    context: &ToolContext,
    turn: &CancellationToken,
) -> Outcome {
    let arguments = ToolArguments::from_model(call.arguments);
    // A panic is the tool's own failure: the conversation goes on and the model is told.
    let body = AssertUnwindSafe(async { tool.execute(arguments, context).await })
        .catch_unwind()
        .map(|outcome| outcome.unwrap_or_else(|_| Err(panicked())));
    let Some(limit) = tool.timeout() else {
        return body.await;
    };
    let mut body = pin!(body);
    if let Ok(outcome) = timeout(limit, &mut body).await {
        return outcome;
    }
    let own_time_is_over = !turn.is_cancelled();
    context.cancel.cancel();
    let late = timeout(GRACE, body).await;
    if own_time_is_over {
        return Err(ToolError::timed_out(limit));
    }
    late.unwrap_or_else(|_| Err(ToolError::aborted()))
}

fn panicked() -> ToolError {
    let message = "the tool failed unexpectedly";
    ToolError::new("ToolPanicError", "TOOL_PANICKED", message)
}
