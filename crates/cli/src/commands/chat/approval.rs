//! Asking a person whether a call may go beyond its limits.

use async_trait::async_trait;
use offshoot_agent::Approver;
use offshoot_tool_api::{PermissionAnswer, PermissionQuestion};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::text::printable;

/// A question, and where its answer goes.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) question: PermissionQuestion,
    pub(super) answer: oneshot::Sender<PermissionAnswer>,
}

/// Hands questions to whoever has the terminal.
#[derive(Debug)]
pub(super) struct AskInline(UnboundedSender<Asked>);

impl AskInline {
    pub(super) fn new() -> (Self, UnboundedReceiver<Asked>) {
        let (send, questions) = unbounded_channel();
        (Self(send), questions)
    }
}

#[async_trait]
impl Approver for AskInline {
    async fn ask(
        &self,
        question: &PermissionQuestion,
        cancel: &CancellationToken,
    ) -> PermissionAnswer {
        let (answer, answered) = oneshot::channel();
        let asked = Asked {
            question: question.clone(),
            answer,
        };
        if self.0.send(asked).is_err() {
            return PermissionAnswer::Unavailable;
        }
        match cancel.run_until_cancelled(answered).await {
            None => PermissionAnswer::Cancelled,
            Some(answer) => answer.unwrap_or(PermissionAnswer::Unavailable),
        }
    }
}

/// What a person is told. All of the arguments: whoever allows something must have seen it.
pub(super) fn told(question: &PermissionQuestion) -> String {
    let PermissionQuestion {
        tool_name,
        arguments,
        reason,
        ..
    } = question;
    let mut told = format!("{tool_name} asks for more than it may do: {arguments}");
    if let Some(reason) = reason {
        told.push_str(&format!("\nwhy: {reason}"));
    }
    printable(&told)
}

/// What stands before the answer.
pub(super) const PROMPT: &str = "allow it? [y] once, [a] for this session, [n] no: ";

/// The answer that a line is; `None` if it is none.
pub(super) fn read(line: &str) -> Option<PermissionAnswer> {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Some(PermissionAnswer::AllowedOnce),
        "a" | "always" => Some(PermissionAnswer::AllowedForSession),
        "n" | "no" => Some(PermissionAnswer::Rejected),
        _ => None,
    }
}
