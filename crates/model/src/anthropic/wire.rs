//! The body of a Messages request. The order of the members is the order on the wire.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::thinking::{Output, Thinking};
use crate::message::{is_absent_number, serialize_number};

#[derive(Serialize)]
pub(super) struct Body<'a> {
    pub(super) model: &'a str,
    pub(super) max_tokens: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) system: Vec<Block<'a>>,
    pub(super) messages: Vec<WireMessage<'a>>,
    #[serde(
        skip_serializing_if = "is_absent_number",
        serialize_with = "serialize_number"
    )]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(super) stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_config: Option<Output<'a>>,
    pub(super) stream: bool,
}

#[derive(Serialize)]
pub(super) struct WireTool<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) description: &'a str,
    pub(super) input_schema: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<Ephemeral>,
}

/// A mark behind which the provider remembers what it has read. It stands last in its block, so that a block without it is
/// the same bytes up to there.
#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename = "ephemeral")]
pub(super) struct Ephemeral {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Speaker {
    User,
    Assistant,
}

#[derive(Serialize)]
pub(super) struct WireMessage<'a> {
    pub(super) role: Speaker,
    pub(super) content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Ephemeral>,
    },
    Image {
        source: ImageSource<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Ephemeral>,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Cow<'a, RawValue>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: Vec<Self>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Ephemeral>,
    },
    Thinking {
        thinking: &'a str,
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
}

#[derive(Serialize)]
pub(super) struct ImageSource<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: &'a str,
    data: &'a str,
}

impl<'a> Block<'a> {
    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text {
            text: text.into(),
            cache_control: None,
        }
    }

    pub(super) const fn image(media_type: &'a str, base64: &'a str) -> Self {
        Self::Image {
            source: ImageSource {
                kind: "base64",
                media_type,
                data: base64,
            },
            cache_control: None,
        }
    }

    /// Has the provider remember everything up to this block, if the block can say so.
    pub(super) fn mark(&mut self) {
        match self {
            Self::Text { cache_control, .. }
            | Self::Image { cache_control, .. }
            | Self::ToolResult { cache_control, .. } => *cache_control = Some(Ephemeral {}),
            Self::ToolUse { .. } | Self::Thinking { .. } | Self::RedactedThinking { .. } => {}
        }
    }

    pub(super) const fn is_result(&self) -> bool {
        matches!(self, Self::ToolResult { .. })
    }

    pub(super) const fn is_thinking(&self) -> bool {
        matches!(self, Self::Thinking { .. } | Self::RedactedThinking { .. })
    }
}
