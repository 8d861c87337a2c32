//! Whether a call may run (`reference/agent.md` §3.2, points 1 to 4).
//!
//! The order is: is the turn still on; is it a side session, which may only look; hooks, which can only tighten; which tools the agent may use; the rules; whether the
//! tool wants more than its limits; and if any of them wants it, a person. A tool that the agent may not use is refused
//! before anybody is asked about it. Every refusal is the call's result.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt as _;
use offshoot_session::{EventKind, StepRef};
use offshoot_tool_api::{
    ApprovalPolicy, Limits, PermissionAnswer, PermissionQuestion, SandboxMode, ToolArguments,
    ToolError,
};
use serde::Serialize;

use super::Asked;
use super::body::{Run, tool_panicked};
use crate::AgentError;
use crate::cancel::Cancel;
use crate::driver::Driver;
use crate::events::logged;
use crate::hooks::{Gate, HookError};
use crate::notices::Notice;
use crate::permission::{Like, Ruling, Subject};
use crate::side;

/// What came of preparing a call.
pub(super) enum Prepared {
    Run(Run),
    /// The model is told why not.
    Refused(ToolError),
    /// The turn is over.
    NeverBegan,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApprovalAsked<'a> {
    id: &'a str,
    tool_name: &'a str,
    call_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct ApprovalDecided<'a> {
    id: &'a str,
    outcome: &'static str,
}

impl Driver {
    /// # Errors
    /// The log has refused an event: nothing is known of the call then.
    pub(super) async fn prepare_call(
        &self,
        at: StepRef,
        call: Asked<'_>,
        cancel: &Cancel,
    ) -> Result<Prepared, AgentError> {
        let turn = cancel.token();
        if turn.is_cancelled() {
            return Ok(Prepared::NeverBegan);
        }
        let mut reasons = Vec::new();
        let gates = turn.run_until_cancelled(self.gates(at, call, cancel, &mut reasons));
        let must_ask = match gates.await {
            None => return Ok(Prepared::NeverBegan),
            Some(Err(refused)) => return Ok(Prepared::Refused(refused)),
            Some(Ok(must_ask)) => must_ask,
        };
        match self.judge(call, cancel, must_ask, reasons) {
            Err(refused) => Ok(Prepared::Refused(refused)),
            Ok(Judged { run, ask: None }) => Ok(Prepared::Run(run)),
            Ok(Judged {
                run,
                ask: Some(question),
            }) => {
                let refused = self.ask(call, question, cancel).await?;
                Ok(match refused {
                    _ if turn.is_cancelled() => Prepared::NeverBegan,
                    Some(refused) => Prepared::Refused(refused),
                    None => Prepared::Run(run),
                })
            }
        }
    }

    /// What nobody can loosen, and what the hooks say: whether a person must be asked, with the reasons. The first that denies
    /// decides.
    async fn gates(
        &self,
        at: StepRef,
        call: Asked<'_>,
        cancel: &Cancel,
        reasons: &mut Vec<String>,
    ) -> Result<bool, ToolError> {
        if let Some(reason) = side::refusal(&self.session.log(), &call.proposed()) {
            return Err(ToolError::denied(reason));
        }
        let mut must_ask = false;
        for hook in &self.hooks {
            let (context, proposed) = (self.hook_context(at, cancel), call.proposed());
            let gate = AssertUnwindSafe(hook.pre_execute(&context, &proposed)).catch_unwind();
            match gate.await {
                Ok(Ok(Gate::Allow)) => {}
                Ok(Ok(Gate::Deny { reason })) => return Err(ToolError::denied(reason)),
                Ok(Ok(Gate::Ask { reason })) => {
                    must_ask = true;
                    reasons.extend(reason);
                }
                Ok(Err(error)) => return Err(hook_failed(error)),
                Err(_panic) => return Err(hook_panicked()),
            }
        }
        Ok(must_ask)
    }

    /// What can be said without asking anybody.
    fn judge(
        &self,
        call: Asked<'_>,
        cancel: &Cancel,
        mut must_ask: bool,
        mut reasons: Vec<String>,
    ) -> Result<Judged, ToolError> {
        let Asked { name, .. } = call;
        let config = &self.config.permissions;
        if !config.tools.lets_pass(name) {
            let reason = format!("tool \"{name}\" is not available to this agent");
            return Err(ToolError::denied(reason));
        }
        let mut context = self.tool_context(call, cancel);
        let arguments = ToolArguments::from_model(call.arguments);
        let subject = Subject::new(name, &arguments, context.cwd.as_deref());
        let mut unsandboxed = false;
        match config.rules.ruling(&subject) {
            Ruling::Silent => {}
            Ruling::Allow {
                unsandboxed: beyond,
            } => unsandboxed = beyond,
            Ruling::Ask { reason } => {
                must_ask = true;
                reasons.extend(reason);
            }
            Ruling::Deny { reason } => {
                let silent = || format!("tool \"{name}\" is denied by a rule");
                return Err(ToolError::denied(reason.unwrap_or_else(silent)));
            }
        }
        let Some(tool) = self.tools.get(name).map(Arc::clone) else {
            // It is told that there is none; nobody need be asked about that.
            let run = Run {
                tool: None,
                context,
            };
            return Ok(Judged { run, ask: None });
        };
        let escalation = match context.limits.mode {
            SandboxMode::DangerFullAccess => None,
            _ => catch_unwind(AssertUnwindSafe(|| tool.escalation(&arguments, &context)))
                .map_err(|_panic| tool_panicked())?,
        };
        let unlimited = escalation.is_some();
        if let Some(escalation) = escalation {
            context.limits = Limits::none();
            if !unsandboxed {
                must_ask = true;
                reasons.push(escalation.reason);
            }
        }
        let ask = must_ask.then(|| Question {
            reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
            like: Like::new(&subject, unlimited),
        });
        let run = Run {
            tool: Some(tool),
            context,
        };
        Ok(Judged { run, ask })
    }

    /// Asks about a call, unless that was settled before. The log has every question that was put, and its answer.
    async fn ask(
        &self,
        call: Asked<'_>,
        question: Question,
        cancel: &Cancel,
    ) -> Result<Option<ToolError>, AgentError> {
        let Question { reason, like } = question;
        let name = call.name;
        if self.permissions.grants.cover(&like) {
            return Ok(None);
        }
        if self.permissions.current.approvals == ApprovalPolicy::Never {
            let reason =
                format!("tool \"{name}\" requires approval, and this session asks for none");
            return Ok(Some(ToolError::denied(reason)));
        }
        let question = Arc::new(PermissionQuestion {
            id: self.env.fresh_id(),
            call_id: call.id.to_owned(),
            tool_name: name.to_owned(),
            arguments: call.arguments.to_owned(),
            reason,
            covers: like.in_words(),
        });
        let asked = ApprovalAsked {
            id: &question.id,
            tool_name: name,
            call_id: call.id,
            reason: question.reason.as_deref(),
        };
        self.append(logged(EventKind::ApprovalAsked, &asked))?;
        self.core.notify(Notice::Asked(Arc::clone(&question)));
        let turn = cancel.token();
        let answer = AssertUnwindSafe(self.approver.ask(&question, turn)).catch_unwind();
        let answer = match turn.run_until_cancelled(answer).await {
            None => PermissionAnswer::Cancelled,
            // Whoever cannot answer has not allowed it.
            Some(answer) => answer.unwrap_or(PermissionAnswer::Unavailable),
        };
        let decided = ApprovalDecided {
            id: &question.id,
            outcome: answer.outcome(),
        };
        let seq = self
            .append(logged(EventKind::ApprovalDecided, &decided))?
            .seq();
        self.core.notify(Notice::Decided {
            id: question.id.as_str().into(),
            answer,
            seq,
        });
        let reason = match answer {
            PermissionAnswer::AllowedOnce => return Ok(None),
            PermissionAnswer::AllowedForSession => {
                self.permissions.grants.add(like);
                return Ok(None);
            }
            PermissionAnswer::Rejected => format!("the user rejected tool \"{name}\""),
            PermissionAnswer::Cancelled => format!("approval for tool \"{name}\" was cancelled"),
            PermissionAnswer::Unavailable => {
                format!("tool \"{name}\" requires approval, but no approval channel is available")
            }
        };
        Ok(Some(ToolError::denied(reason)))
    }
}

/// A call that may run, perhaps after a question.
struct Judged {
    run: Run,
    ask: Option<Question>,
}

struct Question {
    reason: Option<String>,
    like: Like,
}

pub(super) fn hook_failed(error: HookError) -> ToolError {
    ToolError::new("HookError", error.code, error.message)
}

pub(super) fn hook_panicked() -> ToolError {
    let message = "a hook failed unexpectedly";
    ToolError::new("HookError", "HOOK_PANICKED", message)
}
