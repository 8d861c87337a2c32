//! The one trait through which the rest of the program reaches a model.

use std::fmt;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use tokio_util::sync::CancellationToken;

use crate::message::ModelRequest;
use crate::stream::Chunk;

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

    /// How many tokens `model` can see, when known.
    fn context_window(&self, model: &str) -> Option<u64>;

    /// Makes one call.
    fn stream(
        &self,
        request: Arc<ModelRequest>,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Chunk>;
}
