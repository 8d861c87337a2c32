//! A request of a replay beside the one that was recorded.
//!
//! Nobody records requests: each is rebuilt from the log as it was just before its answer was settled, as
//! [`offshoot_agent::request_at`] does. Both are written down the same way, as one JSON text of the settings, the tools and
//! the messages, with what differs between any two runs hidden ([`Tokens`]). Ids of messages and who has written them are
//! left out, since no model sees them.
//!
//! Of a request for a summary, the question itself and how the model was called are not in a log: its tools and the messages
//! that it shows are compared, up to the question. One of which no summary came cannot be compared at all.

use std::fmt;
use std::sync::Arc;

use offshoot_agent::{Asked, RequestError, build_request};
use offshoot_format::StoredSession;
use offshoot_model::{CallConfig, ContentBlock, Message, MessageSource, ModelRequest, ReplayState};
use offshoot_model::{Role, ToolSpec};
use offshoot_session::{EventKind, EventLog, Seq};
use serde::{Deserialize, Serialize};

use crate::entry::Recorded;
use crate::tokens::Tokens;

/// Where a request differs from the recorded one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub struct Divergence {
    /// The session, as the scenario calls it.
    pub session: String,
    /// Which model call of the session, from 1.
    pub request: usize,
    /// The first byte that differs, from 0, in both requests as JSON text with what differs from run to run hidden.
    pub at: usize,
    /// The recorded event that holds it: of a message, or the header for settings and tools. `None` if the recorded request
    /// is over there.
    pub event: Option<Seq>,
    /// What was recorded around that place.
    pub expected: String,
    /// What is there now.
    pub found: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            session,
            request,
            at,
            event,
            expected,
            found,
        } = self;
        write!(
            f,
            "session `{session}`, model call #{request}: the request differs from the recorded one from byte {at} on"
        )?;
        match event {
            Some(event) => write!(f, ", in what event {event} of the recording says")?,
            None => f.write_str(", behind the end of the recorded one")?,
        }
        write!(f, "\n  recorded: {expected}\n  now:      {found}")
    }
}

/// A request as the text that is compared, part by part. A part knows the event that it comes from.
pub(crate) struct Parts(Vec<Part>);

struct Part {
    event: Option<Seq>,
    text: String,
}

/// What of a request is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Whole,
    /// Not the settings, and not the last message.
    Shown,
}

/// The part of a message that a model sees.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    role: Role,
    content: &'a [ContentBlock],
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_error: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay_state: Option<&'a ReplayState>,
}

impl<'a> Shown<'a> {
    fn of(message: &'a Message) -> Self {
        Self {
            role: message.role,
            content: &message.content,
            tool_call_id: message.tool_call_id.as_deref(),
            is_error: message.is_error,
            replay_state: match &message.source {
                MessageSource::Model { replay_state, .. } => replay_state.as_ref(),
                MessageSource::Other { .. } => None,
            },
        }
    }
}

/// A request that was recorded.
pub(crate) struct RecordedRequest {
    pub(crate) scope: Scope,
    config: CallConfig,
    tools: Vec<ToolSpec>,
    header: Option<Seq>,
    /// Each with the event that holds it.
    messages: Vec<(Arc<Message>, Seq)>,
}

impl RecordedRequest {
    /// The request behind a recorded call; `None` if it cannot be known.
    ///
    /// # Errors
    /// The log does not amount to a request.
    pub(crate) fn of(
        recording: &StoredSession,
        call: Recorded,
    ) -> Result<Option<Self>, RequestError> {
        match call.asked {
            Asked::Answer { .. } | Asked::CutOff { .. } => {
                let log = recording.log.prefix(call.seq.before());
                Self::at_end(recording, &log, Scope::Whole).map(Some)
            }
            Asked::Summary => Self::of_summary(recording, call.seq),
            Asked::NoSummary => Ok(None),
        }
    }

    fn at_end(
        recording: &StoredSession,
        log: &EventLog,
        scope: Scope,
    ) -> Result<Self, RequestError> {
        let request = build_request(log, &recording.header.id)?;
        let seqs = log.messages().map(|message| message.seq);
        Ok(Self {
            scope,
            config: request.config,
            tools: request.tools,
            header: log.request_header().map(|event| event.seq()),
            messages: request.messages.into_iter().zip(seqs).collect(),
        })
    }

    /// What a summary was made of: what its bracket found when it was opened.
    fn of_summary(recording: &StoredSession, summary: Seq) -> Result<Option<Self>, RequestError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Range {
            shadowed_seqs: Vec<Seq>,
        }
        let log = &recording.log;
        let range = log.get(summary).and_then(|event| event.parse().ok());
        let before = log.prefix(summary.before());
        let mut starts = before.events().collect::<Vec<_>>().into_iter().rev();
        let start = starts.find(|event| *event.kind() == EventKind::CompactionStart);
        let (Some(Range { shadowed_seqs }), Some(start)) = (range, start) else {
            return Ok(None);
        };
        let then = log.prefix(start.seq().before());
        let mut recorded = Self::at_end(recording, &then, Scope::Shown)?;
        let head = then.surface().head();
        let head = head.filter(|_| then.surface().has_protected_head());
        let is_shown = |seq: &Seq| Some(*seq) == head || shadowed_seqs.contains(seq);
        recorded.messages.retain(|(_, seq)| is_shown(seq));
        Ok(Some(recorded))
    }

    /// Takes the system prompt and the tools out of it.
    pub(crate) fn hide_header(&mut self) {
        self.tools.clear();
        for (message, _) in &mut self.messages {
            *message = hidden(message);
        }
    }

    /// The request as text.
    pub(crate) fn parts(&self, tokens: &Tokens) -> Parts {
        let config = (self.scope == Scope::Whole).then_some(&self.config);
        let messages = self.messages.iter();
        let messages = messages.map(|(message, seq)| (&**message, Some(*seq)));
        Parts::new(config, &self.tools, messages, self.header, tokens)
    }
}

/// A request without tools, and without what its system prompt says.
pub(crate) fn without_header(request: &ModelRequest) -> ModelRequest {
    ModelRequest {
        messages: request.messages.iter().map(hidden).collect(),
        tools: Vec::new(),
        ..request.clone()
    }
}

/// A message; of a system prompt only that it is there.
fn hidden(message: &Arc<Message>) -> Arc<Message> {
    match message.role {
        Role::System => Arc::new(Message {
            content: Vec::new(),
            ..Message::clone(message)
        }),
        _ => Arc::clone(message),
    }
}

impl Parts {
    /// The parts of a live request.
    pub(crate) fn of_live(request: &ModelRequest, scope: Scope, tokens: &Tokens) -> Self {
        let ModelRequest {
            config,
            messages,
            tools,
            ..
        } = request;
        let (config, messages) = match scope {
            Scope::Whole => (Some(config), &messages[..]),
            Scope::Shown => (None, &messages[..messages.len().saturating_sub(1)]),
        };
        let messages = messages.iter().map(AsRef::as_ref);
        Self::new(config, tools, messages.map(|m| (m, None)), None, tokens)
    }

    fn new<'a>(
        config: Option<&CallConfig>,
        tools: &[ToolSpec],
        messages: impl Iterator<Item = (&'a Message, Option<Seq>)>,
        header: Option<Seq>,
        tokens: &Tokens,
    ) -> Self {
        let mut parts = vec![Part::new(header, "{".to_owned())];
        if let Some(config) = config {
            let config = format!(r#""config":{},"#, json(config));
            parts.push(Part::new(header, config));
        }
        let list = |at: usize, text: String| match at {
            0 => text,
            _ => format!(",{text}"),
        };
        parts.push(Part::new(header, r#""tools":["#.to_owned()));
        for (at, tool) in tools.iter().enumerate() {
            parts.push(Part::new(header, list(at, json(tool))));
        }
        parts.push(Part::new(None, r#"],"messages":["#.to_owned()));
        for (at, (message, event)) in messages.enumerate() {
            parts.push(Part::new(event, list(at, json(&Shown::of(message)))));
        }
        parts.push(Part::new(None, "]}".to_owned()));
        for part in &mut parts {
            part.text = tokens.hide(&part.text);
        }
        Self(parts)
    }

    fn text(&self) -> String {
        self.0.iter().map(|part| part.text.as_str()).collect()
    }

    /// The event whose part holds a byte.
    fn event_at(&self, at: usize) -> Option<Seq> {
        let mut end = 0;
        let holds = |part: &&Part| {
            end += part.text.len();
            at < end
        };
        self.0.iter().find(holds).and_then(|part| part.event)
    }
}

impl Part {
    const fn new(event: Option<Seq>, text: String) -> Self {
        Self { event, text }
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value)
        .expect("BUG: requests are made of strings, finite numbers and JSON")
}

/// Where two requests begin to differ, if they do.
pub(crate) fn compare(
    session: &str,
    request: usize,
    recorded: &Parts,
    live: &Parts,
) -> Option<Divergence> {
    let (expected, found) = (recorded.text(), live.text());
    if expected == found {
        return None;
    }
    let same = expected.bytes().zip(found.bytes());
    let at = same.take_while(|(a, b)| a == b).count();
    Some(Divergence {
        session: session.to_owned(),
        request,
        at,
        event: recorded.event_at(at),
        expected: excerpt(&expected, at),
        found: excerpt(&found, at),
    })
}

/// A text around a place, on one line.
fn excerpt(text: &str, at: usize) -> String {
    const BEFORE: usize = 40;
    const BEHIND: usize = 80;
    let start = text.floor_char_boundary(at.saturating_sub(BEFORE));
    let end = text.ceil_char_boundary((at + BEHIND).min(text.len()));
    let (open, close) = (
        if start > 0 { "…" } else { "" },
        if end < text.len() { "…" } else { "" },
    );
    format!("{open}{}{close}", &text[start..end])
}
