//! Anthropic's Messages.
//!
//! [`encode`] turns a request into body bytes, [`decode`] turns the data of server-sent events into chunks, [`replay`] is
//! what of an answer has to come back to the letter. None of them knows the network; wire types never leave this module.

pub(crate) mod decode;
pub(crate) mod encode;
mod history;
mod replay;
pub(crate) mod thinking;
mod wire;
