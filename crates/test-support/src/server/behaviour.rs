//! The ways in which a provider can behave, by name. `reference/agent.md` §2.9.

use std::time::Duration;

use super::endpoint::Endpoint;
use super::reply::Reply;

/// What a provider does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Behaviour {
    /// Nobody listens. Not a reply: see [`ClosedPort`](super::ClosedPort).
    ConnectionRefused,
    /// The connection closes without any answer.
    ConnectionReset,
    /// The connection breaks once the stream has begun.
    StreamDisconnect,
    /// The connection breaks in the middle of the text.
    PartialDisconnect,
    /// The stream goes silent in the middle of the text and stays so.
    Stall,
    /// A complete answer with nothing in it.
    Empty,
    /// A stream without any event.
    EmptyBody,
    /// A stream that ends before it has said anything.
    StreamEof,
    /// A stream that ends in the middle of the text.
    PartialEof,
    /// An event that is no JSON.
    MalformedJson,
    /// An event that is JSON, and no event of the protocol.
    MalformedEvent,
    /// 429 with a wait of one second.
    RateLimit,
    /// 500.
    ServerError,
    /// 503.
    ServiceUnavailable,
    /// 401.
    AuthError,
    /// 400.
    InvalidRequest,
    /// The conversation is too long.
    ContextOverflow,
    /// The account is empty.
    QuotaExceeded,
    /// Some text.
    Success,
    /// Some text, with a pause before each event.
    SlowSuccess,
    /// Reasoning, and some text.
    ReasoningSuccess,
    /// A call of the tool `read`.
    ToolCallSuccess,
    /// Text that hits the token limit.
    MaxTokens,
    /// A web page.
    WrongContentType,
}

impl Behaviour {
    /// All of them.
    pub const ALL: [Self; 24] = [
        Self::ConnectionRefused,
        Self::ConnectionReset,
        Self::StreamDisconnect,
        Self::PartialDisconnect,
        Self::Stall,
        Self::Empty,
        Self::EmptyBody,
        Self::StreamEof,
        Self::PartialEof,
        Self::MalformedJson,
        Self::MalformedEvent,
        Self::RateLimit,
        Self::ServerError,
        Self::ServiceUnavailable,
        Self::AuthError,
        Self::InvalidRequest,
        Self::ContextOverflow,
        Self::QuotaExceeded,
        Self::Success,
        Self::SlowSuccess,
        Self::ReasoningSuccess,
        Self::ToolCallSuccess,
        Self::MaxTokens,
        Self::WrongContentType,
    ];

    /// The reply that behaves so at this endpoint.
    ///
    /// # Panics
    /// For [`ConnectionRefused`](Self::ConnectionRefused), which no server can do.
    pub fn reply(self, endpoint: Endpoint) -> Reply {
        let text = || Reply::text("One two three.");
        let behind_a_word = endpoint.head() + 1;
        let reply = match self {
            Self::ConnectionRefused => panic!("a server cannot refuse connections; see ClosedPort"),
            Self::ConnectionReset => Reply::connection_reset(),
            Self::StreamDisconnect => text().disconnect_after(1),
            Self::PartialDisconnect => text().disconnect_after(behind_a_word),
            Self::Stall => text().stalled_after(behind_a_word),
            Self::Empty => Reply::empty_completion(),
            Self::EmptyBody => Reply::empty_body(),
            Self::StreamEof => text().eof_after(1),
            Self::PartialEof => text().eof_after(behind_a_word),
            Self::MalformedJson => Reply::malformed_json(),
            Self::MalformedEvent => Reply::malformed_event(),
            Self::RateLimit => Reply::rate_limited(Some(1)),
            Self::ServerError => Reply::server_error(),
            Self::ServiceUnavailable => Reply::service_unavailable(),
            Self::AuthError => Reply::unauthorized(),
            Self::InvalidRequest => Reply::invalid_request(),
            Self::ContextOverflow => Reply::context_overflow(),
            Self::QuotaExceeded => Reply::quota_exceeded(),
            Self::Success => text(),
            Self::SlowSuccess => text().paced(Duration::from_millis(2)),
            Self::ReasoningSuccess => Reply::reasoning_then_text("Let me count.", "One two three."),
            Self::ToolCallSuccess => {
                Reply::tool_calls([("call_1", "read", r#"{"file_path":"a.txt"}"#)])
            }
            Self::MaxTokens => text().finish_reason("length"),
            Self::WrongContentType => Reply::wrong_content_type(),
        };
        reply.at(endpoint)
    }
}
