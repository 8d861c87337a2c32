//! Cancelling a turn from elsewhere.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use crate::events::CancelCause;

/// A switch that ends a running turn. Clones are the same switch; the first cause counts.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    token: CancellationToken,
    cause: Arc<OnceLock<CancelCause>>,
}

impl Cancel {
    /// A switch that is off.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the turn as soon as it can: started tools are told, no other one starts, everything is answered in the log.
    pub fn cancel(&self, cause: CancelCause) {
        // Whoever comes second has nothing to add: the first cause stands in the log.
        let _second = self.cause.set(cause);
        self.token.cancel();
    }

    /// The cause, once it was cancelled.
    #[must_use]
    pub fn cause(&self) -> Option<CancelCause> {
        self.token
            .is_cancelled()
            .then(|| self.cause.get().cloned().unwrap_or(CancelCause::User))
    }

    /// Waits until it is cancelled.
    pub async fn cancelled(&self) {
        self.token.cancelled().await;
    }

    pub(crate) const fn token(&self) -> &CancellationToken {
        &self.token
    }
}
