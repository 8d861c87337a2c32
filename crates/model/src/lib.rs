//! The model seam: what is asked of a model, what it answers, and the adapters in between.
//!
//! - [`ModelRequest`] and the types in it: the request vocabulary, in the serde shapes of the V4 log.
//! - [`Chunk`]: the stream vocabulary. [`StreamRecorder`] and [`expand`] turn chunks into the log's stream records and
//!   back, [`Assembler`] turns them into the message they amount to, [`verify_stream`] compares the two.
//! - [`Model`]: the one trait through which the rest of the program calls a model. [`ScriptModel`] answers from a
//!   script; `ProviderModel` (feature `http`) calls providers. [`ProviderKind`] lists those that are known by name.
//! - [`Protocol`]: how a provider is spoken to, chat completions in some [`Dialect`] or Anthropic's Messages. With a
//!   request it gives the bytes of its body, without any network, because a recorded request must be reproducible byte
//!   for byte by whoever reads the log. [`SseSplitter`], [`Decoder`] and [`MessagesDecoder`] are the way back.
//! - [`Route`]: what is known of a model, and what is filled in or refused before it is called.
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
//! let request = ModelRequest { messages: vec![question.into()], ..ModelRequest::default() };
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

mod anthropic;
mod assemble;
mod attachments;
mod catalog;
mod client;
pub mod codes;
mod failure;
mod grammar;
#[cfg(feature = "http")]
mod http;
mod message;
mod openai;
mod pictures;
mod prepared;
mod protocol;
mod providers;
mod raw;
mod record;
mod retry;
mod script;
mod shown;
mod sse;
mod stream;
mod surrogates;
mod verify;

pub use anthropic::decode::MessagesDecoder;
pub use anthropic::thinking::{MessagesDialect, MessagesEffort};
pub use assemble::{Assembled, Assembler};
pub use attachments::{Attachments, NoAttachments};
pub use client::Model;
pub use grammar::{GrammarError, StreamGrammar};
#[cfg(feature = "http")]
pub use http::{ApiKey, ProviderConfig, ProviderModel, SetupError};
pub use message::{
    CallConfig, ContentBlock, Dimensions, FileAttachment, ImageAttachment, Message, MessageSource,
    ModelRequest, Role, ToolSpec, Usage,
};
pub use openai::decode::Decoder;
pub use openai::dialect::{
    Dialect, EffortStyle, LateInstructions, ReasoningPassback, TokenLimitName,
};
pub use openai::encode::{encode_messages, encode_request};
pub use pictures::{PictureLimits, Pictures};
pub use prepared::{AdapterDefaults, ModelInfo, ModelSettings, PreparedCall, Route};
pub use protocol::Protocol;
pub use providers::ProviderKind;
pub use raw::RawJson;
pub use record::{StreamRecord, StreamRecorder, expand};
pub use retry::{RetryMode, RetryPolicy, Waits};
pub use script::{Attempt, ScriptModel};
pub use sse::{SseEnd, SseError, SseFrame, SseSplitter};
pub use stream::{Chunk, Failure, FinishReason, ReplayState};
pub use verify::{Mismatch, verify_stream};
