//! Who is asked for permission.

use std::fmt;

use async_trait::async_trait;
use offshoot_tool_api::{PermissionAnswer, PermissionQuestion};
use tokio_util::sync::CancellationToken;

/// Somebody who answers for a person.
#[async_trait]
pub trait Approver: Send + Sync + fmt::Debug {
    /// Asks, and waits for the answer for as long as it takes. When `cancel` fires the question is withdrawn.
    async fn ask(
        &self,
        question: &PermissionQuestion,
        cancel: &CancellationToken,
    ) -> PermissionAnswer;
}

/// Nobody is there: what would have to be asked does not happen.
#[derive(Clone, Copy, Debug, Default)]
pub struct NobodyToAsk;

#[async_trait]
impl Approver for NobodyToAsk {
    async fn ask(&self, _: &PermissionQuestion, _: &CancellationToken) -> PermissionAnswer {
        PermissionAnswer::Unavailable
    }
}

/// Everything is allowed, each call for itself: for a person who has said so beforehand. The log has the questions.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowEverything;

#[async_trait]
impl Approver for AllowEverything {
    async fn ask(&self, _: &PermissionQuestion, _: &CancellationToken) -> PermissionAnswer {
        PermissionAnswer::AllowedOnce
    }
}
