//! The payloads of the events that the driver writes (`reference/persistence.md` §3.5, V4).

use offshoot_model::{
    CallConfig, ContentBlock, Failure, ReplayState, StreamRecord, ToolSpec, Usage,
};
use offshoot_session::{Event, EventDraft, EventKind, StepRef};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Makes the draft of an event that is only logged.
pub(crate) fn logged(kind: EventKind, data: &impl Serialize) -> EventDraft {
    EventDraft::log_only(kind, &row_text(data)).expect("BUG: JSON text is JSON")
}

/// Makes the draft of an event whose message joins the surface.
pub(crate) fn shown(kind: EventKind, data: &impl Serialize) -> EventDraft {
    EventDraft::message(kind, &row_text(data)).expect("BUG: JSON text is JSON")
}

pub(crate) fn row_text(data: &impl Serialize) -> Box<RawValue> {
    let data = serde_json::value::to_raw_value(data)
        .expect("BUG: payloads are structs of strings and finite numbers");
    one_line(data)
}

/// A row is one line, but JSON that tools and adapters hand over may be laid out over several. Line feeds in JSON text
/// stand only between tokens, so a blank says the same.
pub(crate) fn one_line(json: Box<RawValue>) -> Box<RawValue> {
    let breaks = |byte: &u8| matches!(byte, b'\n' | b'\r');
    if !json.get().as_bytes().iter().any(breaks) {
        return json;
    }
    RawValue::from_string(json.get().replace(['\n', '\r'], " "))
        .expect("BUG: white space between the tokens of a JSON text means nothing")
}

#[derive(Serialize)]
pub(crate) struct TurnStart {
    pub(crate) turn: u64,
}

#[derive(Serialize)]
pub(crate) struct Step {
    pub(crate) turn: u64,
    pub(crate) step: u64,
}

impl From<StepRef> for Step {
    fn from(StepRef { turn, step }: StepRef) -> Self {
        Self { turn, step }
    }
}

#[derive(Serialize)]
pub(crate) struct TurnEnd<'a> {
    pub(crate) turn: u64,
    pub(crate) reason: &'a TurnEndReason,
}

/// Why a turn has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TurnEndReason {
    /// The model had no more to do.
    Completed,
    /// The model's answer was cut off by its output limit.
    MaxTokens,
    /// A hook did not let its first step begin.
    Blocked,
    /// Somebody cancelled the turn.
    Aborted {
        /// Who.
        reason: CancelCause,
    },
    /// The turn failed.
    Error {
        /// Of what.
        error: Failure,
    },
}

impl TurnEndReason {
    /// Whether the next turn may follow by itself.
    pub(crate) const fn goes_on(&self) -> bool {
        matches!(self, Self::Completed | Self::MaxTokens)
    }

    /// The kind as it is stored.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::MaxTokens => "max-tokens",
            Self::Blocked => "blocked",
            Self::Aborted { .. } => "aborted",
            Self::Error { .. } => "error",
        }
    }
}

/// Who cancelled a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[non_exhaustive]
pub enum CancelCause {
    /// A person.
    User,
    /// The session that delegated this one.
    Parent,
    /// A hook.
    Hook {
        /// Why.
        reason: String,
    },
    /// The program is going down.
    Disposed,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InboxSpliced<'a> {
    pub(crate) target: &'static str,
    pub(crate) start: usize,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) removed_count: usize,
    pub(crate) inserted: &'a [Box<RawValue>],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<&'static str>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[derive(Serialize)]
pub(crate) struct TextBlock<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

impl<'a> TextBlock<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self { kind: "text", text }
    }
}

#[derive(Serialize)]
pub(crate) struct SourceKind {
    pub(crate) kind: &'static str,
}

#[derive(Serialize)]
pub(crate) struct SystemMessage<'a> {
    pub(crate) turn: u64,
    pub(crate) step: u64,
    pub(crate) message: SystemBody<'a>,
}

#[derive(Serialize)]
pub(crate) struct SystemBody<'a> {
    pub(crate) id: String,
    pub(crate) role: &'static str,
    pub(crate) source: SourceKind,
    pub(crate) content: Vec<TextBlock<'a>>,
}

/// `request/header`: read back to see whether the next request differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Header {
    pub(crate) config: CallConfig,
    #[serde(default, skip_serializing_if = "AdapterFlags::is_empty")]
    pub(crate) adapter_defaults: AdapterFlags,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools: Vec<ToolSpec>,
}

impl Header {
    /// The configuration as it was chosen: without what the provider has filled in.
    pub(crate) fn chosen(&self) -> CallConfig {
        let mut config = self.config.clone();
        if self.adapter_defaults.reasoning_effort {
            config.reasoning_effort = None;
        }
        if self.adapter_defaults.max_tokens {
            config.max_tokens = None;
        }
        config
    }
}

/// Which members of the configuration the provider has filled in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AdapterFlags {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) reasoning_effort: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) max_tokens: bool,
}

impl AdapterFlags {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature is serde's"
    )]
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Deserialize)]
pub(crate) struct StoredHeader {
    pub(crate) header: Header,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestHeader<'a> {
    pub(crate) header: &'a Header,
    pub(crate) reason: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) starts_series: bool,
}

#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestContext {
    pub(crate) provider: String,
    pub(crate) model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) context_window: Option<u64>,
    /// `in-history`: a changed system prompt is another message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) system_prompt_update: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct AssistantMessage<'a> {
    pub(crate) turn: u64,
    pub(crate) step: u64,
    pub(crate) message: AssistantBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<Usage>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) interrupted: bool,
    pub(crate) stream: &'a [StreamRecord],
}

#[derive(Serialize)]
pub(crate) struct AssistantBody<'a> {
    pub(crate) id: String,
    pub(crate) role: &'static str,
    pub(crate) content: &'a [ContentBlock],
    pub(crate) source: ModelSource<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelSource<'a> {
    pub(crate) kind: &'static str,
    pub(crate) provider: &'a str,
    pub(crate) model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replay_state: Option<&'a ReplayState>,
}

#[derive(Serialize)]
pub(crate) struct AssistantAttempt<'a> {
    pub(crate) turn: u64,
    pub(crate) step: u64,
    pub(crate) stream: &'a [StreamRecord],
}

/// The stream of a settled attempt, read back.
#[derive(Deserialize)]
pub(crate) struct StoredAttempt {
    pub(crate) turn: u64,
    pub(crate) step: u64,
    pub(crate) stream: Vec<StreamRecord>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolCall<'a> {
    pub(crate) turn: u64,
    pub(crate) step: u64,
    pub(crate) call_id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a str,
}

#[derive(Serialize)]
pub(crate) struct ToolResult<'a> {
    pub(crate) turn: u64,
    pub(crate) step: u64,
    pub(crate) message: ToolBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ErrorInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) meta: Option<Box<RawValue>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolBody<'a> {
    pub(crate) id: String,
    pub(crate) role: &'static str,
    pub(crate) tool_call_id: &'a str,
    pub(crate) is_error: bool,
    pub(crate) source: ToolSource<'a>,
    pub(crate) content: Vec<TextBlock<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolSource<'a> {
    pub(crate) kind: &'static str,
    pub(crate) call_id: &'a str,
}

#[derive(Serialize)]
pub(crate) struct ErrorInfo {
    pub(crate) name: String,
    pub(crate) code: String,
}

/// Reads a payload that its own writer has written, or another one by the same rules.
pub(crate) fn read<'a, T: Deserialize<'a>>(event: &'a Event) -> Option<T> {
    event.parse().ok()
}

/// The texts among blocks.
pub(crate) fn texts(
    blocks: impl IntoIterator<Item = ContentBlock>,
) -> impl Iterator<Item = String> {
    blocks.into_iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(text),
        _ => None,
    })
}
