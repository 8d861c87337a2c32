//! A call runs (`reference/agent.md` §3.2, point 5).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use offshoot_session::Seq;
use offshoot_tool_api::{Effects, Tool, ToolArguments, ToolContext, ToolError};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Asked, Ended, Ending, Outcome};
use crate::cancel::Cancel;
use crate::driver::Driver;

/// How long a tool whose time is over may take to release what it holds before it is dropped.
const GRACE: Duration = Duration::from_secs(5);

/// A call that may run.
pub(super) struct Run {
    /// `None` if there is no such tool.
    pub(super) tool: Option<Arc<dyn Tool>>,
    pub(super) context: ToolContext,
}

impl Driver {
    /// Runs a call whose start is in the log. Before one that can change something, that must be durable: after a crash
    /// nobody could tell otherwise that it ran. It waits for that beside the other calls and holds none of them up.
    pub(super) fn execute<'a>(
        &'a self,
        call: Asked<'a>,
        started: Seq,
        run: Run,
        cancel: &Cancel,
    ) -> BoxFuture<'a, Ended<'a>> {
        let Run { tool, context } = run;
        let turn = cancel.token().clone();
        if let Some(tool) = &tool {
            // One that panics has only itself to blame: its body runs all the same.
            let _panic = catch_unwind(AssertUnwindSafe(|| tool.will_run(&context)));
        }
        async move {
            // Also when the turn is dropped in the middle, nothing of the call goes on.
            let _told = context.cancel.clone().drop_guard();
            let mut undurable = None;
            if tool.is_some() && call.effects != Some(Effects::ReadOnly) {
                undurable = self.recorder.flush().await.err();
            }
            let ending = match tool {
                None => Ending::Settled(Err(ToolError::unknown_tool(call.name))),
                Some(_) if undurable.is_some() || turn.is_cancelled() => Ending::NeverBegan,
                Some(tool) => Ending::Settled(run_tool(&*tool, call, &context, &turn).await),
            };
            Ended {
                call,
                started,
                ending,
                undurable,
            }
        }
        .boxed()
    }

    pub(super) fn tool_context(&self, call: Asked<'_>, cancel: &Cancel) -> ToolContext {
        ToolContext {
            call_id: call.id.to_owned(),
            cwd: self.session.header().cwd.map(Into::into),
            cancel: cancel.token().child_token(),
            limits: self.limits(),
            spill: self.spill.clone(),
        }
    }
}

async fn run_tool(
    tool: &dyn Tool,
    call: Asked<'_>,
    context: &ToolContext,
    turn: &CancellationToken,
) -> Outcome {
    let arguments = ToolArguments::from_model(call.arguments);
    // A panic is the tool's own failure: the conversation goes on and the model is told.
    let body = AssertUnwindSafe(async { tool.execute(arguments, context).await })
        .catch_unwind()
        .map(|outcome| outcome.unwrap_or_else(|_| Err(tool_panicked())));
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

pub(super) fn tool_panicked() -> ToolError {
    let message = "the tool failed unexpectedly";
    ToolError::new("ToolPanicError", "TOOL_PANICKED", message)
}
