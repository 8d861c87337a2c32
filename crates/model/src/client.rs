//! The one trait through which the rest of the program reaches a model.

use std::fmt;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use tokio_util::sync::CancellationToken;

use crate::message::{CallConfig, ModelRequest};
use crate::prepared::PreparedCall;
use crate::stream::{Chunk, Failure};

/// A provider of models.
///
/// The contract of [`stream`](Self::stream):
/// - The call itself returns at once and does nothing that blocks; work happens while the stream is polled.
/// - The stream follows the grammar of [`Chunk`] and its last item is a [`Chunk::Finish`]. Every failure, also one
///   before the first byte, is such a finish; there is no second error channel.
/// - When `cancel` fires, the stream ends promptly with a finish of kind `aborted` and code `ABORTED`, and nothing of
///   the call keeps running. Dropping the stream also ends the call.
pub trait Model: Send + Sync + fmt::Debug {
    /// The provider name that goes into [`crate::CallConfig::provider`].
    fn provider(&self) -> &str;

    /// Binds a configuration to what this provider makes of it. It asks nobody and takes no time: what is not known here
    /// stays unknown.
    ///
    /// # Errors
    /// The configuration cannot be served, for example an effort that the model does not have.
    fn prepare(&self, config: &CallConfig) -> Result<PreparedCall, Failure> {
        Ok(PreparedCall::plain(config.clone()))
    }

    /// Makes one call.
    fn stream(
        &self,
        request: Arc<ModelRequest>,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Chunk>;
}
