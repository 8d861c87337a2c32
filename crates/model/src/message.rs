//! What a request is made of: messages, their content, tools and call settings.
//!
//! The serde shapes are those in which a V4 log stores messages (`reference/persistence.md` §3.5 and §3.6), so that a
//! stored message deserialises straight into [`Message`]. Members this crate does not know are ignored, block types it
//! does not know are kept as their exact JSON text. This is a reader's view: whoever must reproduce stored bytes keeps
//! the stored bytes.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::Error as _;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::raw::RawJson;
use crate::stream::ReplayState;
use crate::surrogates;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The system prompt.
    System,
    /// The harness, in the middle of a conversation: tool changes and notices.
    Developer,
    /// A person, or context injected in a person's place.
    User,
    /// The model.
    Assistant,
    /// The result of one tool call.
    Tool,
}

/// One message of the history that the model sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Stable id of the message within its log.
    pub id: String,
    /// Who speaks.
    pub role: Role,
    /// The blocks, in the order in which they are shown.
    pub content: Vec<ContentBlock>,
    /// The call that is answered; present exactly on messages of [`Role::Tool`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Whether the tool failed; only on messages of [`Role::Tool`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Who produced the message.
    pub source: MessageSource,
}

impl Message {
    /// Reads a message as a log stores it. Halves of surrogate pairs, which a log may hold and a request may not, are
    /// replaced by U+FFFD.
    ///
    /// # Errors
    /// Not a message.
    pub fn from_stored(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text).or_else(|error| match surrogates::replace_lone(text) {
            Cow::Borrowed(_) => Err(error),
            Cow::Owned(text) => serde_json::from_str(&text),
        })
    }

    /// A message of one text block.
    #[must_use]
    pub fn text(
        id: impl Into<String>,
        role: Role,
        text: impl Into<String>,
        source: MessageSource,
    ) -> Self {
        Self {
            id: id.into(),
            role,
            content: vec![ContentBlock::text(text)],
            tool_call_id: None,
            is_error: None,
            source,
        }
    }

    /// The answer to the tool call `call_id`.
    #[must_use]
    pub fn tool_result(
        id: impl Into<String>,
        call_id: impl Into<String>,
        content: Vec<ContentBlock>,
    ) -> Self {
        let call_id = call_id.into();
        Self {
            id: id.into(),
            role: Role::Tool,
            content,
            source: MessageSource::tool(&call_id),
            tool_call_id: Some(call_id),
            is_error: None,
        }
    }
}

/// A picture, by reference. `reference/persistence.md` §3.6.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageAttachment {
    /// `sha256:<hex>` of the bytes.
    pub attachment_id: String,
    /// `image/png`, `image/jpeg`, `image/webp` or `image/gif`.
    pub media_type: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Width in pixels, at least 1.
    pub width: u64,
    /// Height in pixels, at least 1.
    pub height: u64,
    /// File name, when there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Dimensions before the picture was scaled down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_dimensions: Option<Dimensions>,
}

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimensions {
    /// Width in pixels.
    pub width: u64,
    /// Height in pixels.
    pub height: u64,
}

/// A file, by reference. `reference/persistence.md` §3.6.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileAttachment {
    /// Id of the stored bytes.
    pub attachment_id: String,
    /// File name.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// One block of a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum ContentBlock {
    /// Text for everybody.
    Text {
        /// The text.
        text: String,
    },
    /// What the model thought.
    Reasoning {
        /// The text.
        text: String,
    },
    /// A picture.
    Image {
        /// Which picture.
        attachment: ImageAttachment,
        /// Whether the picture was taken out of the context to save room. Never stored; the surface derives it.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        offloaded: bool,
    },
    /// A file.
    File {
        /// Which file.
        attachment: FileAttachment,
    },
    /// The model asks for a tool.
    ToolCall {
        /// Id that the result will name.
        id: String,
        /// Tool name.
        name: String,
        /// The arguments exactly as the model wrote them; not necessarily valid JSON.
        arguments: String,
    },
    /// A tool became available; only in messages of [`Role::Developer`].
    ToolAddition {
        /// Tool name.
        tool_name: String,
    },
    /// A tool went away; only in messages of [`Role::Developer`].
    ToolRemoval {
        /// Tool name.
        tool_name: String,
    },
    /// A block of a type this version does not know, as its exact JSON text.
    #[serde(untagged)]
    Unknown(RawJson),
}

impl ContentBlock {
    /// A text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// The block's `type` member; empty when an unknown block has none.
    #[must_use]
    pub fn block_type(&self) -> String {
        match self {
            Self::Text { .. } => "text".into(),
            Self::Reasoning { .. } => "reasoning".into(),
            Self::Image { .. } => "image".into(),
            Self::File { .. } => "file".into(),
            Self::ToolCall { .. } => "tool-call".into(),
            Self::ToolAddition { .. } => "tool-addition".into(),
            Self::ToolRemoval { .. } => "tool-removal".into(),
            Self::Unknown(raw) => serde_json::from_str::<BlockType>(raw.get())
                .map(|block| block.kind)
                .unwrap_or_default(),
        }
    }
}

#[derive(Deserialize)]
struct BlockType {
    #[serde(rename = "type")]
    kind: String,
}

/// The known block types. Kept apart from [`ContentBlock`] because a tagged enum buffers its input, and a buffer
/// cannot give back the text of an unknown block.
#[derive(Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
enum KnownBlock {
    Text {
        text: String,
    },
    Reasoning {
        text: String,
    },
    Image {
        attachment: ImageAttachment,
        #[serde(default)]
        offloaded: bool,
    },
    File {
        attachment: FileAttachment,
    },
    ToolCall {
        id: String,
        name: String,
        arguments: String,
    },
    ToolAddition {
        tool_name: String,
    },
    ToolRemoval {
        tool_name: String,
    },
}

const KNOWN_BLOCK_TYPES: [&str; 7] = [
    "text",
    "reasoning",
    "image",
    "file",
    "tool-call",
    "tool-addition",
    "tool-removal",
];

impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawJson::deserialize(deserializer)?;
        let BlockType { kind } = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        if !KNOWN_BLOCK_TYPES.contains(&kind.as_str()) {
            return Ok(Self::Unknown(raw));
        }
        Ok(
            match serde_json::from_str(raw.get()).map_err(D::Error::custom)? {
                KnownBlock::Text { text } => Self::Text { text },
                KnownBlock::Reasoning { text } => Self::Reasoning { text },
                KnownBlock::Image {
                    attachment,
                    offloaded,
                } => Self::Image {
                    attachment,
                    offloaded,
                },
                KnownBlock::File { attachment } => Self::File { attachment },
                KnownBlock::ToolCall {
                    id,
                    name,
                    arguments,
                } => Self::ToolCall {
                    id,
                    name,
                    arguments,
                },
                KnownBlock::ToolAddition { tool_name } => Self::ToolAddition { tool_name },
                KnownBlock::ToolRemoval { tool_name } => Self::ToolRemoval { tool_name },
            },
        )
    }
}

/// Who produced a message. `reference/agent.md` §2.1.
#[derive(Clone, Debug, PartialEq)]
pub enum MessageSource {
    /// A model; `kind` is `model`.
    Model {
        /// Provider that was called.
        provider: String,
        /// Model that answered.
        model: String,
        /// What the adapter wants to see again when the message is sent back to it.
        replay_state: Option<ReplayState>,
    },
    /// Anybody else: the kind is read, the whole object is kept as its exact JSON text.
    Other {
        /// The `kind` member.
        kind: String,
        /// The whole object, `kind` included.
        raw: RawJson,
    },
}

impl MessageSource {
    /// A source that has no member but its kind.
    #[must_use]
    pub fn of_kind(kind: impl Into<String>) -> Self {
        #[derive(Serialize)]
        struct Plain<'a> {
            kind: &'a str,
        }
        let kind = kind.into();
        let raw = RawJson::from_value(&Plain { kind: &kind })
            .expect("BUG: an object of one string always has a JSON form");
        Self::Other { kind, raw }
    }

    /// A person.
    #[must_use]
    pub fn user() -> Self {
        Self::of_kind("user")
    }

    /// The tool call `call_id`.
    #[must_use]
    pub fn tool(call_id: &str) -> Self {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Tool<'a> {
            kind: &'a str,
            call_id: &'a str,
        }
        let raw = RawJson::from_value(&Tool {
            kind: "tool",
            call_id,
        })
        .expect("BUG: an object of two strings always has a JSON form");
        Self::Other {
            kind: "tool".into(),
            raw,
        }
    }

    /// A model without replay state.
    #[must_use]
    pub fn model(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self::Model {
            provider: provider.into(),
            model: model.into(),
            replay_state: None,
        }
    }

    /// The `kind` member.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::Model { .. } => "model",
            Self::Other { kind, .. } => kind,
        }
    }
}

impl Serialize for MessageSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Other { raw, .. } => raw.serialize(serializer),
            Self::Model {
                provider,
                model,
                replay_state,
            } => {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("kind", "model")?;
                map.serialize_entry("provider", provider)?;
                map.serialize_entry("model", model)?;
                if let Some(state) = replay_state {
                    map.serialize_entry("replayState", state)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for MessageSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Kind {
            kind: String,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Model {
            provider: String,
            model: String,
            replay_state: Option<ReplayState>,
        }
        let raw = RawJson::deserialize(deserializer)?;
        let Kind { kind } = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        if kind != "model" {
            return Ok(Self::Other { kind, raw });
        }
        let Model {
            provider,
            model,
            replay_state,
        } = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        Ok(Self::Model {
            provider,
            model,
            replay_state,
        })
    }
}

/// A tool as the model is told about it. `reference/persistence.md` §3.5, `request/header.tools`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    /// Tool name.
    pub name: String,
    /// What the tool does, for the model.
    pub description: String,
    /// JSON Schema of the arguments, verbatim.
    pub parameters: RawJson,
    /// `true` when the schema may be loaded later by providers that can; otherwise absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defer_loading: Option<bool>,
}

/// Where a call goes and with which settings. `reference/persistence.md` §3.5, `request/header.config`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallConfig {
    /// Provider name, as [`crate::Model::provider`] gives it.
    pub provider: String,
    /// Model id.
    pub model: String,
    /// How hard the model should think; the words are the provider's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// Sampling temperature. Written like JavaScript does (`1`, not `1.0`); a value that is not finite counts as absent.
    #[serde(
        default,
        skip_serializing_if = "is_absent_number",
        serialize_with = "serialize_number"
    )]
    pub temperature: Option<f64>,
    /// Upper bound of the answer, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Texts that end the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Vec<String>>,
}

#[expect(clippy::ref_option, reason = "the signature is serde's")]
pub(crate) fn is_absent_number(number: &Option<f64>) -> bool {
    !number.is_some_and(f64::is_finite)
}

#[expect(clippy::ref_option, reason = "the signature is serde's")]
pub(crate) fn serialize_number<S: Serializer>(
    number: &Option<f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    const LARGEST_EXACT: f64 = 9_007_199_254_740_991.0;
    match *number {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "whole and within ±(2^53 − 1)"
        )]
        Some(number) if number.fract() == 0.0 && number.abs() <= LARGEST_EXACT => {
            serializer.serialize_i64(number as i64)
        }
        Some(number) => serializer.serialize_f64(number),
        None => serializer.serialize_none(),
    }
}

/// Tokens that one call used. Input and cache counts are disjoint. `reference/agent.md` §2.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Input tokens that did not come from the provider's cache.
    pub input_tokens: u64,
    /// Output tokens, reasoning included.
    pub output_tokens: u64,
    /// The provider's own total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// Input tokens read from the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Input tokens written to the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Output tokens spent on reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

/// Everything an adapter needs for one call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// Where the call goes and with which settings.
    pub config: CallConfig,
    /// The history, oldest first. Assistant messages without content are not part of it. One request extends another, so
    /// they share what they have in common.
    pub messages: Vec<Arc<Message>>,
    /// The tools that may be called.
    pub tools: Vec<ToolSpec>,
    /// The session on whose behalf the call is made, if any.
    pub session_id: Option<String>,
}
