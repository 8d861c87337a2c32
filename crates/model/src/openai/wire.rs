//! The body of a chat completion. The order of the members is the order on the wire.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::message::{ToolSpec, is_absent_number, serialize_number};
use crate::raw::RawJson;

#[derive(Serialize)]
pub(super) struct Body<'a> {
    pub(super) model: &'a str,
    pub(super) messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<WireTool<'a>>,
    #[serde(
        skip_serializing_if = "is_absent_number",
        serialize_with = "serialize_number"
    )]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(super) stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning: Option<Reasoning<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) chat_template_kwargs: Option<TemplateArguments<'a>>,
    pub(super) stream: bool,
    pub(super) stream_options: StreamOptions,
}

#[derive(Serialize)]
pub(super) struct Thinking {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
}

#[derive(Serialize)]
pub(super) struct Reasoning<'a> {
    pub(super) effort: &'a str,
}

#[derive(Serialize)]
pub(super) struct TemplateArguments<'a> {
    pub(super) enable_thinking: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_effort: Option<&'a str>,
}

#[derive(Serialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: bool,
}

#[derive(Serialize)]
pub(super) struct WireTool<'a> {
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
    pub(super) fn new(spec: &'a ToolSpec) -> Self {
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
pub(super) enum WireMessage<'a> {
    System {
        content: Cow<'a, str>,
    },
    User {
        content: UserContent<'a>,
    },
    Assistant {
        content: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_details: Option<RawJson>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: Cow<'a, str>,
    },
}

/// A plain string wherever that is enough: there are servers that know nothing else.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum UserContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
pub(super) struct ImageUrl {
    url: String,
}

impl<'a> Part<'a> {
    pub(super) fn picture(media_type: &str, base64: &str) -> Self {
        let url = format!("data:{media_type};base64,{base64}");
        Self::ImageUrl {
            image_url: ImageUrl { url },
        }
    }

    pub(super) const fn is_picture(&self) -> bool {
        matches!(self, Self::ImageUrl { .. })
    }

    /// Its text; a picture has none.
    pub(super) fn line(self) -> Cow<'a, str> {
        match self {
            Self::Text { text } => text,
            Self::ImageUrl { .. } => Cow::Borrowed(""),
        }
    }
}

#[derive(Serialize)]
pub(super) struct WireCall<'a> {
    pub(super) id: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: WireCallFunction<'a>,
}

#[derive(Serialize)]
pub(super) struct WireCallFunction<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}
