//! OpenAI-compatible chat completions, DeepSeek's included.
//!
//! Three parts that do not know each other: [`encode`] turns a request into body bytes, [`decode`] turns the data of
//! server-sent events into chunks, and `http` (feature `http`) carries both. Wire types never leave this module.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod failure;
#[cfg(feature = "http")]
mod headers;
#[cfg(feature = "http")]
pub(crate) mod http;
