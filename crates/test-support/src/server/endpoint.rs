//! How what the scripted model says looks on the wire of each protocol.

mod chat;
mod messages;

use bytes::Bytes;
use serde_json::Value;

pub(super) use self::chat::event;
use super::reply::{ScriptedToolCall, Usage};

/// A protocol that the server speaks, each at its own paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// OpenAI's chat completions.
    ChatCompletions,
    /// Anthropic's Messages.
    Messages,
}

impl Endpoint {
    /// The protocol that is spoken at this path, if any.
    pub(super) fn at(path: &str) -> Option<Self> {
        match path {
            "/chat/completions" | "/v1/chat/completions" => Some(Self::ChatCompletions),
            "/messages" | "/v1/messages" => Some(Self::Messages),
            _ => None,
        }
    }

    /// How many chunks of a completion come before the first word.
    pub(super) const fn head(self) -> usize {
        match self {
            Self::ChatCompletions => 1,
            Self::Messages => 3,
        }
    }

    pub(super) fn completion(self, completion: &Completion) -> Vec<Bytes> {
        match self {
            Self::ChatCompletions => chat::chunks(completion),
            Self::Messages => messages::chunks(completion),
        }
    }

    /// Status and body of a refusal.
    pub(super) fn refusal(self, refusal: Refusal) -> (u16, Value) {
        match self {
            Self::ChatCompletions => chat::refusal(refusal),
            Self::Messages => messages::refusal(refusal),
        }
    }
}

/// An answer of a model.
#[derive(Clone, Debug)]
pub(super) struct Completion {
    pub(super) reasoning: String,
    /// Only Messages have signatures.
    pub(super) signature: String,
    /// Thinking that cannot be read; only Messages have it.
    pub(super) redacted: Option<String>,
    pub(super) text: String,
    pub(super) tool_calls: Vec<ScriptedToolCall>,
    /// In the words of chat completions.
    pub(super) finish_reason: String,
    pub(super) usage: Option<Usage>,
    /// Whether the stream says that it is complete.
    pub(super) done: bool,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    RateLimit,
    Server,
    Unavailable,
    Overloaded,
    Unauthorized,
    Invalid,
    ContextOverflow,
    Quota,
}

/// The two pieces in which arguments are sent, because a client that only reads one would otherwise pass.
fn halves(text: &str) -> impl Iterator<Item = &str> {
    let mut middle = text.len() / 2;
    while !text.is_char_boundary(middle) {
        middle += 1;
    }
    let (first, second) = text.split_at(middle);
    [first, second]
        .into_iter()
        .filter(|piece| !piece.is_empty())
}
