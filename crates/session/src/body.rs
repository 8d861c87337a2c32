//! The typed view of payloads: exactly what folds, closers and the core checks read (`reference/persistence.md` §5.1).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json::{ModelText, Object, ahead, count, non_empty, present, read};
use crate::message;
use crate::{EventKind, Seq};

/// A turn and a step of it. Both count from 1; steps start again in every turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "an object")]
pub struct StepRef {
    /// The turn.
    #[serde(deserialize_with = "count")]
    pub turn: u64,
    /// The step within the turn.
    #[serde(deserialize_with = "count")]
    pub step: u64,
}

/// A call that the model asked for, or that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The provider's name for the call.
    pub id: Box<str>,
    /// The tool.
    pub name: Box<str>,
    /// The arguments as the model wrote them, not necessarily JSON. Lone surrogates, which only the row can hold, are
    /// replaced.
    pub arguments: Box<str>,
}

/// The parts of a message that rules read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageHead {
    /// The message's name; not necessarily unique within a log.
    pub id: Box<str>,
    /// Who produced it.
    pub source: Box<str>,
    /// Whether it has no content block at all, so that the model does not see it.
    pub is_empty: bool,
    /// Whether it makes its session a side session, or an ordinary one again.
    pub side: Option<SideMark>,
}

/// What a `user/message` with the source kind `sidechat` makes of its session: the source's member `act` says so.
///
/// Format V4 has no header member for it. A log keeps it through restarts and forks all the same, and it changes exactly when
/// the model is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideMark {
    /// `framing`: a side session, which explains and does not act.
    Framing,
    /// `promote`: an ordinary session.
    Promote,
}

impl SideMark {
    /// The kind of the message's source.
    pub const SOURCE: &str = "sidechat";

    /// As the member `act` has it. Any other word there marks nothing.
    #[must_use]
    pub const fn act(self) -> &'static str {
        match self {
            Self::Framing => "framing",
            Self::Promote => "promote",
        }
    }

    fn of_act(act: &str) -> Option<Self> {
        [Self::Framing, Self::Promote]
            .into_iter()
            .find(|mark| mark.act() == act)
    }

    /// What a source of this kind, with this member, marks. `act` is JSON.
    #[must_use]
    pub fn of_source(kind: &str, act: Option<&RawValue>) -> Option<Self> {
        if kind != Self::SOURCE {
            return None;
        }
        let act: String = serde_json::from_str(act?.get()).ok()?;
        Self::of_act(&act)
    }
}

/// The named error of a tool result.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(expecting = "an object")]
pub struct ResultError {
    /// The class, such as `ToolNotStartedError`.
    pub name: Box<str>,
    /// The code, such as `TOOL_NOT_STARTED`.
    pub code: Box<str>,
}

/// The typed view of a payload. Types whose payload no rule of the log reads are [`Body::Opaque`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Body {
    /// `turn/start`
    TurnStart {
        /// The turn that begins.
        turn: u64,
    },
    /// `turn/end`
    TurnEnd {
        /// The turn that ends.
        turn: u64,
        /// The kind of the reason.
        reason: Box<str>,
    },
    /// `step/start`
    StepStart(StepRef),
    /// `step/end`
    StepEnd(StepRef),
    /// `user/message`
    UserMessage(MessageHead),
    /// `system/message`
    SystemMessage(StepRef, MessageHead),
    /// `developer/message`
    DeveloperMessage {
        /// The step it stands in.
        at: StepRef,
        /// The message.
        message: MessageHead,
        /// The request header that declares the added tools.
        header: Option<Seq>,
    },
    /// `assistant/message`
    AssistantMessage {
        /// The step it stands in.
        at: StepRef,
        /// The message.
        message: MessageHead,
        /// The calls it asks for, in order.
        calls: Box<[Call]>,
    },
    /// `assistant/attempt`
    AssistantAttempt(StepRef),
    /// `tool/call`
    ToolCall(StepRef, Call),
    /// `tool/result`
    ToolResult {
        /// The step it stands in.
        at: StepRef,
        /// The message.
        message: MessageHead,
        /// The call it answers.
        call_id: Box<str>,
        /// Whether the call failed.
        is_error: bool,
        /// The named error.
        error: Option<Box<ResultError>>,
    },
    /// `request/header`
    RequestHeader {
        /// The provider the requests go to.
        provider: Box<str>,
        /// Why the header was written: `initial`, `resume`, `change` or `series`.
        reason: Box<str>,
    },
    /// `session/end-seed`
    EndSeed {
        /// Whether the marker ends an inherited prefix.
        inherited: bool,
    },
    /// `image/offload`
    ImageOffload(Box<[OffloadTarget]>),
    /// A payload that no rule of the log reads.
    Opaque,
}

/// Images of one message that are no longer sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
pub struct OffloadTarget {
    /// The event that carries the message.
    pub seq: Seq,
    /// Which of its image blocks, counted from 0 among the images.
    pub image_indexes: Box<[u64]>,
}

impl Body {
    /// The turn and step that the payload names, for the types that name both.
    #[must_use]
    pub const fn step(&self) -> Option<StepRef> {
        match self {
            Self::StepStart(at)
            | Self::StepEnd(at)
            | Self::SystemMessage(at, _)
            | Self::AssistantAttempt(at)
            | Self::ToolCall(at, _)
            | Self::DeveloperMessage { at, .. }
            | Self::AssistantMessage { at, .. }
            | Self::ToolResult { at, .. } => Some(*at),
            _ => None,
        }
    }

    /// The message head, for surface events.
    #[must_use]
    pub const fn message(&self) -> Option<&MessageHead> {
        match self {
            Self::UserMessage(message)
            | Self::SystemMessage(_, message)
            | Self::DeveloperMessage { message, .. }
            | Self::AssistantMessage { message, .. }
            | Self::ToolResult { message, .. } => Some(message),
            _ => None,
        }
    }

    /// Reads `data`.
    pub(crate) fn parse(kind: &EventKind, data: &str) -> Result<Self, String> {
        let body = match kind {
            EventKind::TurnStart => {
                let TurnStartData { turn } = read(data)?;
                Self::TurnStart { turn }
            }
            EventKind::TurnEnd => {
                let TurnEndData { turn, reason } = read(data)?;
                let reason = reason.0.kind;
                Self::TurnEnd { turn, reason }
            }
            EventKind::StepStart => Self::StepStart(read(data)?),
            EventKind::StepEnd => Self::StepEnd(read(data)?),
            EventKind::AssistantAttempt => {
                let AttemptData { turn, step, stream } = read(data)?;
                message::check_stream(Some(stream))?;
                Self::AssistantAttempt(StepRef { turn, step })
            }
            EventKind::ToolCall => {
                let ToolCallData {
                    turn,
                    step,
                    call_id,
                    name,
                    arguments,
                } = read(data)?;
                let call = Call {
                    id: call_id,
                    name: name.0,
                    arguments: arguments.0,
                };
                Self::ToolCall(StepRef { turn, step }, call)
            }
            EventKind::RequestHeader => request_header(data)?,
            EventKind::EndSeed => {
                let EndSeedData { inherited } = read(data)?;
                if inherited == Some(false) {
                    return Err("`inherited` may only be true".into());
                }
                Self::EndSeed {
                    inherited: inherited == Some(true),
                }
            }
            EventKind::ImageOffload => {
                let OffloadData { targets } = read(data)?;
                Self::ImageOffload(targets.into_iter().map(|target| target.0).collect())
            }
            kind if kind.is_surface() => return message::parse(kind, data),
            EventKind::Other(_) => Self::Opaque,
            _ if data.starts_with('{') => Self::Opaque,
            _ => return Err("`data` must be an object".into()),
        };
        Ok(body)
    }

    /// [`Body::parse`] in one pass, for JSON that begins with the `data`; also says where it ends. `None` says nothing.
    pub(crate) fn parse_ahead(kind: &EventKind, json: &str) -> Option<(Self, usize)> {
        if kind.is_surface() {
            return message::parse_ahead(kind, json);
        }
        let (data, end): (&RawValue, usize) = ahead(json)?;
        Some((Self::parse(kind, data.get()).ok()?, end))
    }
}

fn request_header(data: &str) -> Result<Body, String> {
    let RequestHeaderData {
        header,
        reason,
        starts_series,
    } = read(data)?;
    if !matches!(&*reason, "initial" | "resume" | "change" | "series") {
        return Err(format!(
            "`reason` must be initial, resume, change or series, found {reason:?}"
        ));
    }
    if starts_series == Some(false) {
        return Err("`startsSeries` may only be true".into());
    }
    if header.system.is_some() {
        return Err("`header.system` is retired: the prompt is a system/message".into());
    }
    if header.tools.as_ref().is_some_and(Vec::is_empty) {
        return Err("an empty `tools` list must be left out".into());
    }
    let config = &header.config;
    if let Some(defaults) = &header.adapter_defaults {
        if defaults.reasoning_effort.is_none() && defaults.max_tokens.is_none() {
            return Err("an empty `adapterDefaults` must be left out".into());
        }
        for (name, flag, backed) in [
            (
                "reasoningEffort",
                defaults.reasoning_effort,
                config.reasoning_effort.is_some(),
            ),
            (
                "maxTokens",
                defaults.max_tokens,
                config.max_tokens.is_some(),
            ),
        ] {
            match flag {
                Some(false) => return Err(format!("`adapterDefaults.{name}` may only be true")),
                Some(true) if !backed => {
                    return Err(format!("`adapterDefaults.{name}` has no value in `config`"));
                }
                _ => {}
            }
        }
    }
    Ok(Body::RequestHeader {
        provider: config.provider.clone(),
        reason,
    })
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct TurnStartData {
    #[serde(deserialize_with = "count")]
    turn: u64,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct TurnEndData {
    #[serde(deserialize_with = "count")]
    turn: u64,
    reason: Object<Reason>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Reason {
    #[serde(deserialize_with = "non_empty")]
    kind: Box<str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct EndSeedData {
    #[serde(default, deserialize_with = "present")]
    inherited: Option<bool>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct OffloadData {
    targets: Vec<Object<OffloadTarget>>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct AttemptData<'a> {
    #[serde(deserialize_with = "count")]
    turn: u64,
    #[serde(deserialize_with = "count")]
    step: u64,
    #[serde(borrow)]
    stream: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct ToolCallData {
    #[serde(deserialize_with = "count")]
    turn: u64,
    #[serde(deserialize_with = "count")]
    step: u64,
    #[serde(deserialize_with = "non_empty")]
    call_id: Box<str>,
    name: ModelText,
    arguments: ModelText,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct RequestHeaderData<'a> {
    #[serde(borrow)]
    header: Object<HeaderForm<'a>>,
    reason: Box<str>,
    #[serde(default, deserialize_with = "present")]
    starts_series: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct HeaderForm<'a> {
    config: Object<ConfigForm>,
    #[serde(default, deserialize_with = "present")]
    adapter_defaults: Option<Object<DefaultsForm>>,
    #[serde(borrow, default, deserialize_with = "present")]
    tools: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default, deserialize_with = "present")]
    system: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct ConfigForm {
    #[serde(deserialize_with = "non_empty")]
    provider: Box<str>,
    #[serde(deserialize_with = "non_empty", rename = "model")]
    _model: Box<str>,
    #[serde(default, deserialize_with = "present_non_empty")]
    reasoning_effort: Option<Box<str>>,
    max_tokens: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
struct DefaultsForm {
    #[serde(default, deserialize_with = "present")]
    reasoning_effort: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    max_tokens: Option<bool>,
}

fn present_non_empty<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Box<str>>, D::Error> {
    non_empty(d).map(Some)
}
