//! OpenAI-compatible chat completions: OpenAI, DeepSeek, OpenRouter, Ollama, vLLM, llama.cpp and others.
//!
//! [`encode`] turns a request into body bytes in a provider's [`dialect`], [`decode`] turns the data of server-sent events
//! into chunks. Neither knows of the other or of the network; wire types never leave this module.

pub(crate) mod decode;
pub(crate) mod dialect;
pub(crate) mod encode;
mod replay;
mod wire;
