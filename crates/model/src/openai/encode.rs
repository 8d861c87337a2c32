//! From a request to the exact bytes of its body. `reference/agent.md` §2.8.
//!
//! A pure function of the request and the dialect: the bytes can be rebuilt later, elsewhere, from the log alone, and a
//! provider's prefix cache stays warm because a longer history only appends to the `messages` array.
//!
//! **Invariant:** if `a` is a prefix of `b` and `b` does not continue a run of tool results in which `a` ends, then the
//! array of `a`, without its closing bracket, is a prefix of the array of `b`. Requests are only made at such points.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::message::{
    ContentBlock, ImageAttachment, Message, ModelRequest, Role, ToolSpec, is_absent_number,
    serialize_number,
};

/// How one provider's chat completions differ from the common ground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dialect {
    /// Whether the model's earlier reasoning is sent back.
    pub reasoning: ReasoningPassback,
    /// How the reasoning effort is said.
    pub effort: EffortStyle,
    /// What the token limit is called.
    pub token_limit: TokenLimitName,
}

/// Whether the model's earlier reasoning is sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReasoningPassback {
    /// As `reasoning_content` of every assistant message that had reasoning.
    ReasoningContent,
    /// Never, for servers that refuse the member.
    Omit,
}

/// How the reasoning effort is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EffortStyle {
    /// `reasoning_effort` with the configured word.
    Plain,
    /// `thinking` is enabled or, for the effort `off`, disabled; other efforts go into `reasoning_effort`.
    Thinking,
}

/// What the token limit is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenLimitName {
    /// `max_tokens`, which nearly every server knows.
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI's reasoning models demand.
    MaxCompletionTokens,
}

impl Dialect {
    /// The common ground of compatible servers.
    #[must_use]
    pub const fn compatible() -> Self {
        Self {
            reasoning: ReasoningPassback::ReasoningContent,
            effort: EffortStyle::Plain,
            token_limit: TokenLimitName::MaxTokens,
        }
    }

    /// DeepSeek.
    #[must_use]
    pub const fn deepseek() -> Self {
        Self {
            effort: EffortStyle::Thinking,
            ..Self::compatible()
        }
    }

    /// OpenAI itself.
    #[must_use]
    pub const fn openai() -> Self {
        Self {
            reasoning: ReasoningPassback::Omit,
            token_limit: TokenLimitName::MaxCompletionTokens,
            ..Self::compatible()
        }
    }
}

impl Default for Dialect {
    fn default() -> Self {
        Self::compatible()
    }
}

/// The body of the call that `request` asks for.
#[must_use]
pub fn encode_request(request: &ModelRequest, dialect: &Dialect) -> Vec<u8> {
    let config = &request.config;
    let (max_tokens, max_completion_tokens) = match dialect.token_limit {
        TokenLimitName::MaxTokens => (config.max_tokens, None),
        TokenLimitName::MaxCompletionTokens => (None, config.max_tokens),
    };
    let effort = config.reasoning_effort.as_deref();
    let (reasoning_effort, thinking) = match (dialect.effort, effort) {
        (EffortStyle::Plain, effort) => (effort, None),
        (EffortStyle::Thinking, None) => (None, None),
        (EffortStyle::Thinking, Some("off")) => (None, Some(Thinking { kind: "disabled" })),
        (EffortStyle::Thinking, effort) => (effort, Some(Thinking { kind: "enabled" })),
    };
    to_bytes(&Body {
        model: &config.model,
        messages: wire_messages(&request.messages, *dialect),
        tools: request.tools.iter().map(WireTool::new).collect(),
        temperature: config.temperature,
        max_tokens,
        max_completion_tokens,
        stop: config.stop.as_deref().unwrap_or_default(),
        reasoning_effort,
        thinking,
        stream: true,
        stream_options: StreamOptions {
            include_usage: true,
        },
    })
}

/// The `messages` array of such a body, byte for byte.
#[must_use]
pub fn encode_messages(messages: &[Message], dialect: &Dialect) -> Vec<u8> {
    to_bytes(&wire_messages(messages, *dialect))
}

fn to_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value)
        .expect("BUG: strings, integers, finite numbers and raw JSON always have a JSON form")
}

// The order of the members is the order on the wire.
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    #[serde(
        skip_serializing_if = "is_absent_number",
        serialize_with = "serialize_number"
    )]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    stream: bool,
    stream_options: StreamOptions,
}

#[derive(Serialize)]
struct Thinking {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct WireTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
}

impl<'a> WireTool<'a> {
    fn new(spec: &'a ToolSpec) -> Self {
        let function = WireFunction {
            name: &spec.name,
            description: &spec.description,
            parameters: spec.parameters.as_raw_value(),
        };
        Self {
            kind: "function",
            function,
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum WireMessage<'a> {
    System {
        content: Cow<'a, str>,
    },
    User {
        content: Cow<'a, str>,
    },
    Assistant {
        content: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: Cow<'a, str>,
    },
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: WireCallFunction<'a>,
}

#[derive(Serialize)]
struct WireCallFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

fn wire_messages<'a>(messages: &'a [Message], dialect: Dialect) -> Vec<WireMessage<'a>> {
    let mut wire = Vec::with_capacity(messages.len());
    let mut tool_images = Vec::new();
    for message in messages {
        if message.role != Role::Tool {
            wire.extend(take_tool_images(&mut tool_images));
        }
        match message.role {
            Role::System => wire.extend(system_message(shown_text(&message.content))),
            Role::Developer => wire.extend(system_message(developer_text(&message.content))),
            Role::User => wire.push(WireMessage::User {
                content: user_text(&message.content),
            }),
            Role::Assistant => wire.extend(assistant_message(&message.content, dialect)),
            Role::Tool => {
                wire.push(tool_message(message));
                tool_images.extend(message.content.iter().filter_map(image_text));
            }
        }
    }
    wire.extend(take_tool_images(&mut tool_images));
    wire
}

/// A dormant system message has no text and is not sent.
fn system_message(content: Cow<'_, str>) -> Option<WireMessage<'_>> {
    (!content.is_empty()).then_some(WireMessage::System { content })
}

/// A message of which this dialect has nothing to say, such as reasoning alone where reasoning is not sent back, is not
/// sent: providers refuse an assistant message that is empty.
fn assistant_message<'a>(content: &'a [ContentBlock], dialect: Dialect) -> Option<WireMessage<'a>> {
    let reasoning = joined("", content.iter().filter_map(reasoning_of));
    let tool_calls = content.iter().filter_map(|block| {
        let ContentBlock::ToolCall {
            id,
            name,
            arguments,
        } = block
        else {
            return None;
        };
        let function = WireCallFunction { name, arguments };
        Some(WireCall {
            id,
            kind: "function",
            function,
        })
    });
    let content = joined("", content.iter().filter_map(text_of));
    let reasoning_content = Some(reasoning).filter(|reasoning| {
        dialect.reasoning == ReasoningPassback::ReasoningContent && !reasoning.is_empty()
    });
    let tool_calls: Vec<_> = tool_calls.collect();
    let is_empty = content.is_empty() && reasoning_content.is_none() && tool_calls.is_empty();
    (!is_empty).then_some(WireMessage::Assistant {
        content,
        reasoning_content,
        tool_calls,
    })
}

fn tool_message(message: &Message) -> WireMessage<'_> {
    let content = shown_text(&message.content);
    WireMessage::Tool {
        tool_call_id: message.tool_call_id.as_deref().unwrap_or_default(),
        content: if content.is_empty() {
            "(no output)".into()
        } else {
            content
        },
    }
}

/// Tool messages cannot carry pictures, so those of a whole run of results follow it in one user message.
fn take_tool_images<'a>(images: &mut Vec<Cow<'a, str>>) -> Option<WireMessage<'a>> {
    if images.is_empty() {
        return None;
    }
    let label = Cow::Borrowed("Images from the tool results above:");
    let lines = std::iter::once(label).chain(images.drain(..));
    Some(WireMessage::User {
        content: joined("\n", lines),
    })
}

/// Text first, then what stands for pictures.
fn user_text(content: &[ContentBlock]) -> Cow<'_, str> {
    let texts = content.iter().filter_map(shown_text_of);
    joined("\n", texts.chain(content.iter().filter_map(image_text)))
}

fn developer_text(content: &[ContentBlock]) -> Cow<'_, str> {
    let lines = content.iter().filter_map(|block| match block {
        ContentBlock::ToolAddition { tool_name } => Some(Cow::Owned(format!(
            "The tool `{tool_name}` is now available."
        ))),
        ContentBlock::ToolRemoval { tool_name } => Some(Cow::Owned(format!(
            "The tool `{tool_name}` is no longer available."
        ))),
        other => shown_text_of(other),
    });
    joined("\n", lines)
}

fn shown_text(content: &[ContentBlock]) -> Cow<'_, str> {
    joined("\n", content.iter().filter_map(shown_text_of))
}

fn text_of(block: &ContentBlock) -> Option<Cow<'_, str>> {
    match block {
        ContentBlock::Text { text } => Some(Cow::Borrowed(text)),
        _ => None,
    }
}

fn reasoning_of(block: &ContentBlock) -> Option<Cow<'_, str>> {
    match block {
        ContentBlock::Reasoning { text } => Some(Cow::Borrowed(text)),
        _ => None,
    }
}

/// Text, and a line for what has no text form.
fn shown_text_of(block: &ContentBlock) -> Option<Cow<'_, str>> {
    match block {
        ContentBlock::Text { text } => Some(Cow::Borrowed(text)),
        ContentBlock::File { attachment } => Some(Cow::Owned(format!(
            "[file {}, {} bytes, {}]",
            attachment.name, attachment.bytes, attachment.attachment_id
        ))),
        ContentBlock::Unknown(_) => {
            let kind = block.block_type();
            Some(Cow::Owned(format!(
                "[content of type {kind} cannot be shown to this model]"
            )))
        }
        _ => None,
    }
}

/// The line that stands for a picture. It must never depend on anything but the block: it is part of a cached prefix.
fn image_text(block: &ContentBlock) -> Option<Cow<'_, str>> {
    let ContentBlock::Image {
        attachment,
        offloaded,
    } = block
    else {
        return None;
    };
    let ImageAttachment {
        attachment_id,
        media_type,
        bytes,
        width,
        height,
        name,
        ..
    } = attachment;
    let mut line = String::from("[image");
    if let Some(name) = name {
        line.push(' ');
        line.push_str(name);
    }
    let state = if *offloaded {
        "no longer in the context"
    } else {
        "not shown to this model"
    };
    write!(
        line,
        ", {media_type}, {width}×{height}, {bytes} bytes, {attachment_id}: {state}]"
    )
    .expect("BUG: writing to a string cannot fail");
    Some(Cow::Owned(line))
}

/// The parts with `separator` between them. Empty parts are left out; a single part is not copied.
fn joined<'a>(separator: &str, parts: impl Iterator<Item = Cow<'a, str>>) -> Cow<'a, str> {
    let mut whole = Cow::Borrowed("");
    for part in parts.filter(|part| !part.is_empty()) {
        if whole.is_empty() {
            whole = part;
            continue;
        }
        let whole = whole.to_mut();
        whole.push_str(separator);
        whole.push_str(&part);
    }
    whole
}
