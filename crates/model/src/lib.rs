//! The model seam: what is asked of a model, what it answers, and the adapters in between.
//!
//! - [`ModelRequest`] and the types in it: the request vocabulary, in the serde shapes of the V4 log.
//! - [`Chunk`]: the stream vocabulary. [`StreamRecorder`] and [`expand`] turn chunks into the log's stream records and
//!   back, [`Assembler`] turns them into the message they amount to, [`verify_stream`] compares the two.
//! - [`Model`]: the one trait through which the rest of the program calls a model. [`ScriptModel`] answers from a
//!   script; `OpenAiModel` (feature `http`) calls OpenAI-compatible providers, DeepSeek's included.
//! - [`encode_request`], [`SseSplitter`] and [`Decoder`]: the parts of that adapter that need no network, public because
//!   a recorded request must be reproducible byte for byte by whoever reads the log.
//!
//! This crate knows neither the log nor tools. It does not decide what is asked, does not retry, and keeps nothing
//! between calls. Implements `reference/agent.md` §2 and `reference/persistence.md` §3.6 and §3.7.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//!
//! use futures_util::StreamExt as _;
//! use offshoot_model::{
//!     Assembler, Attempt, Chunk, ContentBlock, FinishReason, Message, MessageSource, Model,
//!     ModelRequest, Role, ScriptModel,
//! };
//! use tokio_util::sync::CancellationToken;
//!
//! # tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(async {
//! let model = ScriptModel::new(
//!     "demo",
//!     vec![Attempt::Chunks(vec![
//!         Chunk::BlockStart { index: 0, block_type: "text".into() },
//!         Chunk::TextDelta { index: 0, text: "Fo".into() },
//!         Chunk::TextDelta { index: 0, text: "ur.".into() },
//!         Chunk::BlockEnd { index: 0, block: ContentBlock::text("Four.") },
//!         Chunk::finish(FinishReason::Stop),
//!     ])],
//! );
//! let question = Message::text("m-1", Role::User, "how many files?", MessageSource::user());
//! let request = ModelRequest { messages: vec![question], ..ModelRequest::default() };
//!
//! let mut assembler = Assembler::new();
//! let mut answer = model.stream(Arc::new(request), CancellationToken::new());
//! while let Some(chunk) = answer.next().await {
//!     assembler.push(&chunk);
//! }
//! let assembled = assembler.finish();
//! assert_eq!(assembled.content, [ContentBlock::text("Four.")]);
//! assert_eq!(assembled.finish, FinishReason::Stop);
//! # });
//! ```

mod assemble;
mod attachments;
mod client;
pub mod codes;
mod message;
mod openai;
mod prepared;
mod raw;
mod record;
mod retry;
mod script;
mod sse;
mod stream;
mod surrogates;
mod verify;

pub use assemble::{Assembled, Assembler};
pub use attachments::{Attachments, NoAttachments};
pub use client::Model;
pub use message::{
    CallConfig, ContentBlock, Dimensions, FileAttachment, ImageAttachment, Message, MessageSource,
    ModelRequest, Role, ToolSpec, Usage,
};
pub use openai::decode::Decoder;
pub use openai::encode::{
    Dialect, EffortStyle, ReasoningPassback, TokenLimitName, encode_messages, encode_request,
};
#[cfg(feature = "http")]
pub use openai::http::{ApiKey, OpenAiConfig, OpenAiError, OpenAiModel};
pub use prepared::{AdapterDefaults, ModelInfo, PreparedCall};
pub use raw::RawJson;
pub use record::{StreamRecord, StreamRecorder, expand};
pub use retry::RetryPolicy;
pub use script::{Attempt, ScriptModel};
pub use sse::{SseEnd, SseError, SseFrame, SseSplitter};
pub use stream::{Chunk, Failure, FinishReason, ReplayState};
pub use verify::{Mismatch, verify_stream};
