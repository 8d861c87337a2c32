//! The typed view of payloads: exactly what folds, closers and the core checks read (`reference/persistence.md` §5.1).

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::{non_empty, plain, present};
use crate::{EventKind, Seq};

/// A turn and a step of it. Both count from 1; steps start again in every turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct StepRef {
    /// The turn.
    pub turn: u64,
    /// The step within the turn.
    pub step: u64,
}

/// A call that the model asked for, or that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The provider's name for the call.
    pub id: Box<str>,
    /// The tool.
    pub name: Box<str>,
    /// The arguments exactly as the model wrote them; not necessarily JSON.
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
}

/// The named error of a tool result.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
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
        error: Option<ResultError>,
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
#[serde(rename_all = "camelCase")]
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

    /// Reads `data`; also says where in it the message stands.
    pub(crate) fn parse<'a>(
        kind: &EventKind,
        data: &'a str,
    ) -> Result<(Self, Option<&'a str>), String> {
        let body = match kind {
            EventKind::TurnStart => {
                let TurnData { turn, .. } = read(data)?;
                Self::TurnStart { turn }
            }
            EventKind::TurnEnd => {
                let TurnData { turn, reason } = read(data)?;
                let reason = reason.ok_or("`reason` is missing")?.kind;
                Self::TurnEnd { turn, reason }
            }
            EventKind::StepStart => Self::StepStart(read(data)?),
            EventKind::StepEnd => Self::StepEnd(read(data)?),
            EventKind::AssistantAttempt => {
                let StreamData { at, .. } = read(data)?;
                Self::AssistantAttempt(at)
            }
            EventKind::ToolCall => {
                let ToolCallData {
                    turn,
                    step,
                    call_id,
                    name,
                    arguments,
                } = read(data)?;
                Self::ToolCall(
                    StepRef { turn, step },
                    Call {
                        id: call_id,
                        name,
                        arguments,
                    },
                )
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
                Self::ImageOffload(targets)
            }
            kind if kind.is_surface() => return message_body(kind, data),
            EventKind::Other(_) => Self::Opaque,
            _ if data.trim_start().starts_with('{') => Self::Opaque,
            _ => return Err("`data` must be an object".into()),
        };
        Ok((body, None))
    }
}

fn read<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, String> {
    serde_json::from_str(data).map_err(|error| plain(&error))
}

fn message_body<'a>(kind: &EventKind, data: &'a str) -> Result<(Body, Option<&'a str>), String> {
    if *kind == EventKind::UserMessage {
        let message = Message::read(data, "user")?;
        return Ok((Body::UserMessage(message.head()?), Some(data)));
    }
    let outer: MessageData<'_> = read(data)?;
    let text = outer.message.get();
    let at = outer.at;
    let body = match kind {
        EventKind::SystemMessage => {
            let head = Message::read(text, "system")?.head()?;
            if &*head.source != "system-prompt" {
                return Err(format!(
                    "source kind must be `system-prompt`, found `{}`",
                    head.source
                ));
            }
            Body::SystemMessage(at, head)
        }
        EventKind::DeveloperMessage => developer(&outer, at, text)?,
        EventKind::AssistantMessage => {
            match outer.stream {
                Some(stream) if stream.get().starts_with('[') => {}
                _ => return Err("`stream` must be a list".into()),
            }
            let message = Message::read(text, "assistant")?;
            message.check_model_source()?;
            let calls = message.calls()?;
            Body::AssistantMessage {
                at,
                message: message.head()?,
                calls,
            }
        }
        _ => tool_result(&outer, at, text)?,
    };
    Ok((body, Some(text)))
}

fn developer(outer: &MessageData<'_>, at: StepRef, text: &str) -> Result<Body, String> {
    let message = Message::read(text, "developer")?;
    let additions = message
        .blocks
        .iter()
        .filter(|block| block.kind == "tool-addition")
        .count();
    for block in &message.blocks {
        if matches!(&*block.kind, "tool-addition" | "tool-removal") {
            block.text(block.tool_name, "toolName")?;
            if block.tool.is_some() {
                return Err("a tool-addition block must not carry the tool itself".into());
            }
        }
    }
    match (additions > 0, outer.header_seq) {
        (true, None) => Err("`headerSeq` is missing although tools are added".into()),
        (false, Some(_)) => Err("`headerSeq` stands although no tool is added".into()),
        _ => Ok(Body::DeveloperMessage {
            at,
            message: message.head()?,
            header: outer.header_seq,
        }),
    }
}

fn tool_result(outer: &MessageData<'_>, at: StepRef, text: &str) -> Result<Body, String> {
    let message = Message::read(text, "tool")?;
    let source = &message.source;
    if source.kind != "tool" {
        return Err(format!(
            "source kind must be `tool`, found `{}`",
            source.kind
        ));
    }
    let call_id = source.call_id.as_deref().filter(|id| !id.is_empty());
    let call_id = call_id.ok_or("`source.callId` must be a non-empty string")?;
    if message.tool_call_id.as_deref() != Some(call_id) {
        return Err("`toolCallId` differs from `source.callId`".into());
    }
    let is_error = match message.is_error.map(RawValue::get) {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => return Err(format!("`isError` must be true or false, found {other}")),
    };
    if outer.error.is_some() && !is_error {
        return Err("`error` stands on a result that is no error".into());
    }
    Ok(Body::ToolResult {
        at,
        call_id: call_id.into(),
        is_error,
        error: outer.error.clone(),
        message: message.head()?,
    })
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
    if starts_series.is_some_and(|raw| raw.get() != "true") {
        return Err("`startsSeries` may only be true".into());
    }
    if header.system.is_some() {
        return Err("`header.system` is retired: the prompt is a system/message".into());
    }
    let config = &header.config;
    if config.reasoning_effort.as_deref() == Some("") {
        return Err("`reasoningEffort` must not be an empty string".into());
    }
    if header
        .tools
        .is_some_and(|raw| raw.get().trim_start_matches(['[', ' ']).starts_with(']'))
    {
        return Err("an empty `tools` list must be left out".into());
    }
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
        provider: header.config.provider,
        reason,
    })
}

#[derive(Deserialize)]
struct TurnData {
    turn: u64,
    reason: Option<Reason>,
}

#[derive(Deserialize)]
struct Reason {
    #[serde(deserialize_with = "non_empty")]
    kind: Box<str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndSeedData {
    inherited: Option<bool>,
}

#[derive(Deserialize)]
struct OffloadData {
    targets: Box<[OffloadTarget]>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolCallData {
    turn: u64,
    step: u64,
    #[serde(deserialize_with = "non_empty")]
    call_id: Box<str>,
    name: Box<str>,
    arguments: Box<str>,
}

struct StreamData {
    at: StepRef,
}

impl<'de> Deserialize<'de> for StreamData {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Form<'a> {
            turn: u64,
            step: u64,
            #[serde(borrow)]
            stream: &'a RawValue,
        }
        let form = Form::deserialize(d)?;
        if !form.stream.get().starts_with('[') {
            return Err(serde::de::Error::custom("`stream` must be a list"));
        }
        Ok(Self {
            at: StepRef {
                turn: form.turn,
                step: form.step,
            },
        })
    }
}

struct MessageData<'a> {
    at: StepRef,
    message: &'a RawValue,
    stream: Option<&'a RawValue>,
    header_seq: Option<Seq>,
    error: Option<ResultError>,
}

impl<'de: 'a, 'a> Deserialize<'de> for MessageData<'a> {
    // Written out because a raw value cannot stand beside a flattened `StepRef`.
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Form<'a> {
            turn: u64,
            step: u64,
            #[serde(borrow)]
            message: &'a RawValue,
            #[serde(borrow)]
            stream: Option<&'a RawValue>,
            header_seq: Option<Seq>,
            error: Option<ResultError>,
        }
        let Form {
            turn,
            step,
            message,
            stream,
            header_seq,
            error,
        } = Form::deserialize(d)?;
        Ok(Self {
            at: StepRef { turn, step },
            message,
            stream,
            header_seq,
            error,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    #[serde(deserialize_with = "non_empty")]
    id: Box<str>,
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, rename = "content")]
    blocks: Vec<Block<'a>>,
    #[serde(borrow)]
    source: Source<'a>,
    #[serde(borrow)]
    tool_call_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    is_error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Source<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    call_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    provider: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
}

/// A content block. Members are raw: in a block of a type that no rule reads they may be anything.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_name: Option<&'a RawValue>,
    #[serde(borrow)]
    tool: Option<&'a RawValue>,
}

impl<'a> Message<'a> {
    fn read(text: &'a str, role: &str) -> Result<Self, String> {
        let message: Self = read(text).map_err(|error| format!("message: {error}"))?;
        if message.role != role {
            return Err(format!("role must be `{role}`, found `{}`", message.role));
        }
        if message.source.kind.is_empty() {
            return Err("`source.kind` must not be empty".into());
        }
        let tool_change =
            |block: &&Block<'_>| matches!(&*block.kind, "tool-addition" | "tool-removal");
        match message.blocks.iter().find(tool_change) {
            Some(block) if role != "developer" => {
                return Err(format!(
                    "a {} block stands outside a developer/message",
                    block.kind
                ));
            }
            _ => {}
        }
        Ok(message)
    }

    fn head(&self) -> Result<MessageHead, String> {
        if self.blocks.iter().any(|block| block.kind.is_empty()) {
            return Err("a content block has an empty `type`".into());
        }
        Ok(MessageHead {
            id: self.id.clone(),
            source: (&*self.source.kind).into(),
            is_empty: self.blocks.is_empty(),
        })
    }

    fn check_model_source(&self) -> Result<(), String> {
        let named = |raw: Option<&RawValue>| {
            raw.is_some_and(|raw| raw.get().starts_with('"') && raw.get() != "\"\"")
        };
        if self.source.kind != "model" || !named(self.source.provider) || !named(self.source.model)
        {
            return Err("source must be kind `model` with `provider` and `model`".into());
        }
        Ok(())
    }

    fn calls(&self) -> Result<Box<[Call]>, String> {
        self.blocks
            .iter()
            .filter(|block| block.kind == "tool-call")
            .map(|block| {
                Ok(Call {
                    id: block.text(block.id, "id")?,
                    name: block.text(block.name, "name")?,
                    arguments: read::<Box<str>>(block.arguments.map_or("null", RawValue::get))
                        .map_err(|_| "tool-call block: `arguments` must be a string")?,
                })
            })
            .collect()
    }
}

impl Block<'_> {
    fn text(&self, raw: Option<&RawValue>, member: &str) -> Result<Box<str>, String> {
        raw.and_then(|raw| read::<Box<str>>(raw.get()).ok())
            .filter(|text| !text.is_empty())
            .ok_or_else(|| format!("{} block: `{member}` must be a non-empty string", self.kind))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestHeaderData<'a> {
    #[serde(borrow)]
    header: HeaderForm<'a>,
    reason: Box<str>,
    #[serde(borrow, default, deserialize_with = "present")]
    starts_series: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeaderForm<'a> {
    config: ConfigForm,
    adapter_defaults: Option<DefaultsForm>,
    #[serde(borrow, default, deserialize_with = "present")]
    tools: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    system: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigForm {
    #[serde(deserialize_with = "non_empty")]
    provider: Box<str>,
    #[serde(deserialize_with = "non_empty", rename = "model")]
    _model: Box<str>,
    reasoning_effort: Option<Box<str>>,
    max_tokens: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DefaultsForm {
    reasoning_effort: Option<bool>,
    max_tokens: Option<bool>,
}
