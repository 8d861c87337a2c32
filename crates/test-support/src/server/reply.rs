//! What the server answers: one value a request.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::endpoint::{Completion, Endpoint, Refusal, event};
use super::gate::{Gate, Gates};

/// A tool call that the scripted model makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedToolCall {
    /// The call's id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, as text: a model may well write broken JSON.
    pub arguments: String,
}

impl<I: Into<String>, N: Into<String>, A: Into<String>> From<(I, N, A)> for ScriptedToolCall {
    fn from((id, name, arguments): (I, N, A)) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
        }
    }
}

/// The token counts of a reply, in the words of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// All tokens of the request, cached ones included.
    pub prompt_tokens: u64,
    /// All tokens of the answer, reasoning included.
    pub completion_tokens: u64,
    /// How many of the request's tokens came from a cache.
    pub cached_tokens: u64,
    /// How many of the request's tokens went into a cache; only Messages say so.
    pub cache_write_tokens: u64,
    /// How many of the answer's tokens were reasoning.
    pub reasoning_tokens: u64,
}

impl Default for Usage {
    /// Small numbers, all different, so that a mix-up shows.
    fn default() -> Self {
        Self {
            prompt_tokens: 17,
            completion_tokens: 5,
            cached_tokens: 3,
            cache_write_tokens: 4,
            reasoning_tokens: 2,
        }
    }
}

/// The answer to one request.
///
/// A streamed reply is a list of chunks, each sent on its own; chunk numbers in this API count from 0 and include the
/// final `[DONE]`. How many chunks there are depends on the [`Endpoint`]: who counts them for Messages says so with
/// [`at`](Self::at) before. Otherwise a reply is written for the endpoint that is asked. Clones share their gates.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) resets: bool,
    pub(super) head_gate: Option<Gate>,
    pub(super) gates: BTreeMap<usize, Gate>,
    pub(super) ending: Ending,
    pub(super) pause: Option<Duration>,
    /// What a message of the user says in the request that this is for; any will do if there is nothing here.
    asked: Option<String>,
    endpoint: Option<Endpoint>,
    content: Content,
    /// Only so many chunks are sent.
    cut: Option<usize>,
}

/// How a body ends once its chunks are out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// As HTTP wants it.
    Complete,
    /// The connection breaks inside the body.
    Disconnect,
}

#[derive(Clone, Debug)]
enum Content {
    Completion(Completion),
    Chunks(Vec<Bytes>),
    Refusal(Refusal),
}

impl Reply {
    /// A streamed answer of text, one chunk a word.
    pub fn text(text: impl Into<String>) -> Self {
        Self::completion("", text, Vec::new())
    }

    /// A streamed answer that reasons first.
    pub fn reasoning_then_text(reasoning: impl Into<String>, text: impl Into<String>) -> Self {
        Self::completion(reasoning, text, Vec::new())
    }

    /// A streamed answer that only calls tools.
    pub fn tool_calls(calls: impl IntoIterator<Item = impl Into<ScriptedToolCall>>) -> Self {
        Self::text_then_tool_calls("", calls)
    }

    /// A streamed answer that says something and then calls tools.
    pub fn text_then_tool_calls(
        text: impl Into<String>,
        calls: impl IntoIterator<Item = impl Into<ScriptedToolCall>>,
    ) -> Self {
        Self::completion("", text, calls.into_iter().map(Into::into).collect())
    }

    /// A streamed answer without any content that nevertheless claims to have stopped.
    pub fn empty_completion() -> Self {
        Self::text("")
    }

    fn completion(
        reasoning: impl Into<String>,
        text: impl Into<String>,
        tool_calls: Vec<ScriptedToolCall>,
    ) -> Self {
        let finish_reason = if tool_calls.is_empty() {
            "stop"
        } else {
            "tool_calls"
        };
        Self::streaming(Content::Completion(Completion {
            reasoning: reasoning.into(),
            signature: "c2NyaXB0ZWQ=".to_owned(),
            redacted: None,
            text: text.into(),
            tool_calls,
            finish_reason: finish_reason.to_owned(),
            usage: Some(Usage::default()),
            done: true,
        }))
    }

    /// Server-sent events with exactly these data lines. `[DONE]` is not added.
    pub fn events(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let frames = lines.into_iter().map(|line| event(line.as_ref())).collect();
        Self::streaming(Content::Chunks(frames))
    }

    /// A body of exactly these bytes, for comments, odd line ends and cuts inside characters.
    pub fn raw(chunks: impl IntoIterator<Item = impl Into<Bytes>>) -> Self {
        Self::streaming(Content::Chunks(
            chunks.into_iter().map(Into::into).collect(),
        ))
    }

    /// A stream that ends before it said anything.
    pub fn empty_body() -> Self {
        Self::events([""; 0])
    }

    /// A stream whose first event is cut off inside its JSON.
    pub fn malformed_json() -> Self {
        Self::events([r#"{"id":"scripted","choices":[{"del"#, "[DONE]"])
    }

    /// A stream whose first event is JSON, but nothing that a completion is made of.
    pub fn malformed_event() -> Self {
        Self::events([r#"{"choices":"none"}"#, "[DONE]"])
    }

    /// An answer that is a web page, as a misconfigured proxy would send it.
    pub fn wrong_content_type() -> Self {
        Self::raw(["<html><body>Please log in.</body></html>"]).content_type("text/html")
    }

    /// The connection closes without any answer.
    pub fn connection_reset() -> Self {
        Self {
            resets: true,
            ..Self::empty_body()
        }
    }

    /// An answer that is not a stream: a status and a body.
    pub fn status(status: u16, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            ..Self::raw([body])
        }
        .content_type("application/json")
    }

    /// 429, with `Retry-After` in seconds if given.
    pub fn rate_limited(retry_after: Option<u64>) -> Self {
        let reply = Self::refusal(Refusal::RateLimit);
        match retry_after {
            Some(seconds) => reply.header("retry-after", seconds.to_string()),
            None => reply,
        }
    }

    /// 500.
    pub fn server_error() -> Self {
        Self::refusal(Refusal::Server)
    }

    /// 503.
    pub fn service_unavailable() -> Self {
        Self::refusal(Refusal::Unavailable)
    }

    /// 529, as Anthropic says that it is overloaded.
    pub fn overloaded() -> Self {
        Self::refusal(Refusal::Overloaded)
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Self::refusal(Refusal::Unauthorized)
    }

    /// 400, for no particular reason.
    pub fn invalid_request() -> Self {
        Self::refusal(Refusal::Invalid)
    }

    /// 400, because the conversation is too long.
    pub fn context_overflow() -> Self {
        Self::refusal(Refusal::ContextOverflow)
    }

    /// 402, or with Messages 400, because the account is empty.
    pub fn quota_exceeded() -> Self {
        Self::refusal(Refusal::Quota)
    }

    fn refusal(refusal: Refusal) -> Self {
        let (status, _) = Endpoint::ChatCompletions.refusal(refusal);
        Self {
            status,
            ..Self::streaming(Content::Refusal(refusal))
        }
        .content_type("application/json")
    }

    fn streaming(content: Content) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
            resets: false,
            head_gate: None,
            gates: BTreeMap::new(),
            ending: Ending::Complete,
            pause: None,
            asked: None,
            endpoint: None,
            content,
            cut: None,
        }
    }

    /// Keeps the reply for a request of a conversation in which a message of the user says exactly this. Where several
    /// conversations ask at the same time, that gives each its own replies, whichever comes first.
    #[must_use]
    pub fn asked(mut self, text: impl Into<String>) -> Self {
        self.asked = Some(text.into());
        self
    }

    /// Whether this is for a request with this body.
    pub(super) fn answers(&self, body: &Value) -> bool {
        let Some(asked) = &self.asked else {
            return true;
        };
        let messages = body["messages"].as_array().into_iter().flatten();
        let of_user = messages.filter(|message| message["role"] == "user");
        let says = |content: &Value| {
            let blocks = content.as_array().into_iter().flatten();
            let mut texts = blocks.map(|block| &block["text"]);
            content == asked.as_str() || texts.any(|text| text == asked.as_str())
        };
        of_user.map(|message| &message["content"]).any(says)
    }

    /// Sets a header, replacing one of the same name.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into().to_ascii_lowercase();
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value.into()));
        self
    }

    /// Sets the content type.
    #[must_use]
    pub fn content_type(self, value: impl Into<String>) -> Self {
        self.header("content-type", value)
    }

    /// Sets the reported token counts; `None` leaves them out.
    ///
    /// # Panics
    /// If this reply is not a completion.
    #[must_use]
    pub fn usage(mut self, usage: impl Into<Option<Usage>>) -> Self {
        self.completion_mut("usage").usage = usage.into();
        self
    }

    /// Sets the finish reason, as in `length`.
    ///
    /// # Panics
    /// If this reply is not a completion.
    #[must_use]
    pub fn finish_reason(mut self, reason: impl Into<String>) -> Self {
        self.completion_mut("finish reason").finish_reason = reason.into();
        self
    }

    /// Ends the stream after the last content, without `[DONE]`.
    ///
    /// # Panics
    /// If this reply is not a completion.
    #[must_use]
    pub fn without_done(mut self) -> Self {
        self.completion_mut("[DONE]").done = false;
        self
    }

    /// Signs the reasoning with this; only Messages say it.
    ///
    /// # Panics
    /// If this reply is not a completion.
    #[must_use]
    pub fn signature(mut self, signature: impl Into<String>) -> Self {
        self.completion_mut("signature").signature = signature.into();
        self
    }

    /// Has thinking behind the reasoning that only its maker can read; only Messages have it.
    ///
    /// # Panics
    /// If this reply is not a completion.
    #[must_use]
    pub fn redacted_thinking(mut self, data: impl Into<String>) -> Self {
        self.completion_mut("thinking").redacted = Some(data.into());
        self
    }

    fn completion_mut(&mut self, what: &str) -> &mut Completion {
        match &mut self.content {
            Content::Completion(completion) => completion,
            Content::Chunks(_) | Content::Refusal(_) => panic!("only a completion has a {what}"),
        }
    }

    /// Writes the reply for this endpoint, whichever is asked.
    #[must_use]
    pub fn at(mut self, endpoint: Endpoint) -> Self {
        self.endpoint = Some(endpoint);
        if let Content::Refusal(refusal) = self.content {
            self.status = endpoint.refusal(refusal).0;
        }
        self
    }

    /// The reply as the endpoint that is asked gives it.
    pub(super) fn asked_at(self, endpoint: Endpoint) -> Self {
        match self.endpoint {
            Some(_) => self,
            None => self.at(endpoint),
        }
    }

    /// Waits before each chunk, in real time.
    #[must_use]
    pub fn paced(mut self, pause: Duration) -> Self {
        self.pause = Some(pause);
        self
    }

    /// Ends the body properly after `chunks` chunks.
    #[must_use]
    pub fn eof_after(self, chunks: usize) -> Self {
        Self {
            cut: Some(chunks),
            ..self
        }
    }

    /// Breaks the connection after `chunks` chunks.
    #[must_use]
    pub fn disconnect_after(self, chunks: usize) -> Self {
        Self {
            cut: Some(chunks),
            ending: Ending::Disconnect,
            ..self
        }
    }

    /// Waits after `chunks` chunks until the gate is released.
    #[must_use]
    pub fn stall_after(mut self, chunks: usize) -> (Self, Gate) {
        let gate = Gate::new();
        self.gates.insert(chunks, gate.clone());
        (self, gate)
    }

    /// Goes silent after `chunks` chunks, until the client goes away or the server ends.
    #[must_use]
    pub fn stalled_after(self, chunks: usize) -> Self {
        let (reply, _never_released) = self.stall_after(chunks);
        reply
    }

    /// Sends nothing, not even the status, until the gate is released.
    #[must_use]
    pub fn hold_head(mut self) -> (Self, Gate) {
        let gate = Gate::new();
        self.head_gate = Some(gate.clone());
        (self, gate)
    }

    /// Sends each chunk only when its gate is released.
    #[must_use]
    pub fn gated(mut self) -> (Self, Gates) {
        let gates = Gates::new(self.chunks().len());
        self.gates = gates.all().iter().cloned().enumerate().collect();
        (self, gates)
    }

    /// The chunks of the body, exactly as they are sent.
    pub fn chunks(&self) -> Vec<Bytes> {
        let endpoint = self.endpoint.unwrap_or(Endpoint::ChatCompletions);
        let mut chunks = match &self.content {
            Content::Completion(completion) => endpoint.completion(completion),
            Content::Chunks(chunks) => chunks.clone(),
            Content::Refusal(refusal) => {
                vec![endpoint.refusal(*refusal).1.to_string().into()]
            }
        };
        if let Some(cut) = self.cut {
            chunks.truncate(cut);
        }
        chunks
    }
}
