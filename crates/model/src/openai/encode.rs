//! From a request to the exact bytes of its body. `reference/agent.md` §2.8.
//!
//! A pure function of the request, the dialect and the pictures: the bytes can be rebuilt later, elsewhere, from the log,
//! and a provider's prefix cache stays warm because a longer history only appends to the `messages` array.
//!
//! **Invariant:** if `a` is a prefix of `b` and `b` does not continue a run of tool results in which `a` ends, then the
//! array of `a`, without its closing bracket, is a prefix of the array of `b`. Requests are only made at such points.

use std::borrow::{Borrow, Cow};
use std::sync::Arc;

use serde::Serialize;

use super::dialect::{Dialect, EffortStyle, LateInstructions, ReasoningPassback, TokenLimitName};
use super::replay;
use super::wire::{
    Body, Part, Reasoning, StreamOptions, TemplateArguments, Thinking, UserContent, WireCall,
    WireCallFunction, WireMessage, WireTool,
};
use crate::message::{ContentBlock, Message, ModelRequest, Role};
use crate::pictures::{Gallery, Picture};
use crate::shown::{
    NO_OUTPUT, developer_text, instructions_among_user_text, joined, shown_text, shown_text_of,
};

/// The label of the pictures that tool results have brought.
const TOOL_IMAGES: &str = "Images from the tool results above:";

/// The body of the call that `request` asks for, for a model that cannot look at pictures. With pictures it is
/// [`Protocol::encode`](crate::Protocol::encode) that writes it.
#[must_use]
pub fn encode_request(request: &ModelRequest, dialect: &Dialect) -> Vec<u8> {
    encode(request, *dialect, &Gallery::named())
}

/// The `messages` array of such a body, byte for byte, as a provider gets it that has said none of it.
#[must_use]
pub fn encode_messages<M: Borrow<Message>>(messages: &[M], dialect: &Dialect) -> Vec<u8> {
    let gallery = Gallery::named();
    to_bytes(&Writer::new(*dialect, None, &gallery).messages(messages.iter().map(Borrow::borrow)))
}

pub(crate) fn encode(request: &ModelRequest, dialect: Dialect, gallery: &Gallery) -> Vec<u8> {
    let config = &request.config;
    let (max_tokens, max_completion_tokens) = match dialect.token_limit {
        TokenLimitName::MaxTokens => (config.max_tokens, None),
        TokenLimitName::MaxCompletionTokens => (None, config.max_tokens),
    };
    let effort = Effort::new(dialect.effort, config.reasoning_effort.as_deref());
    let writer = Writer::new(dialect, Some(&config.provider), gallery);
    to_bytes(&Body {
        model: &config.model,
        messages: writer.messages(request.messages.iter().map(Arc::as_ref)),
        tools: request.tools.iter().map(WireTool::new).collect(),
        temperature: config.temperature,
        max_tokens,
        max_completion_tokens,
        stop: config.stop.as_deref().unwrap_or_default(),
        reasoning_effort: effort.plain,
        thinking: effort.thinking,
        reasoning: effort.object,
        chat_template_kwargs: effort.template,
        stream: true,
        stream_options: StreamOptions {
            include_usage: true,
        },
    })
}

fn to_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value)
        .expect("BUG: strings, integers, finite numbers and raw JSON always have a JSON form")
}

/// An effort in the members of a dialect.
#[derive(Default)]
struct Effort<'a> {
    plain: Option<&'a str>,
    thinking: Option<Thinking>,
    object: Option<Reasoning<'a>>,
    template: Option<TemplateArguments<'a>>,
}

impl<'a> Effort<'a> {
    fn new(style: EffortStyle, effort: Option<&'a str>) -> Self {
        let Some(effort) = effort else {
            return Self::default();
        };
        let is_on = effort != "off";
        let said = is_on.then_some(effort);
        match style {
            EffortStyle::Plain => Self {
                plain: Some(effort),
                ..Self::default()
            },
            EffortStyle::Thinking => Self {
                plain: said,
                thinking: Some(Thinking {
                    kind: if is_on { "enabled" } else { "disabled" },
                }),
                ..Self::default()
            },
            EffortStyle::Object => Self {
                object: Some(Reasoning { effort }),
                ..Self::default()
            },
            EffortStyle::Template => Self {
                template: Some(TemplateArguments {
                    enable_thinking: is_on,
                    reasoning_effort: said,
                }),
                ..Self::default()
            },
        }
    }
}

/// Writes messages.
struct Writer<'a> {
    dialect: Dialect,
    /// Who gets them, if it is known: only to a provider go the replay states that it has made.
    provider: Option<&'a str>,
    gallery: &'a Gallery,
}

impl<'a> Writer<'a> {
    const fn new(dialect: Dialect, provider: Option<&'a str>, gallery: &'a Gallery) -> Self {
        Self {
            dialect,
            provider,
            gallery,
        }
    }

    fn messages(
        &self,
        messages: impl ExactSizeIterator<Item = &'a Message>,
    ) -> Vec<WireMessage<'a>> {
        let mut wire = Vec::with_capacity(messages.len());
        let mut tool_images = Vec::new();
        for message in messages {
            if message.role != Role::Tool {
                wire.extend(take_tool_images(&mut tool_images));
            }
            match message.role {
                Role::System => {
                    let text = shown_text(&message.content);
                    wire.extend(self.instructions(text, &wire));
                }
                Role::Developer => {
                    let text = developer_text(&message.content);
                    wire.extend(self.instructions(text, &wire));
                }
                Role::User => wire.push(WireMessage::User {
                    content: self.user_content(&message.content),
                }),
                Role::Assistant => wire.extend(self.assistant_message(message)),
                Role::Tool => {
                    wire.push(tool_message(message));
                    tool_images.extend(self.pictures(&message.content));
                }
            }
        }
        wire.extend(take_tool_images(&mut tool_images));
        wire
    }

    /// A dormant system message has no text and is not sent.
    fn instructions(
        &self,
        content: Cow<'a, str>,
        before: &[WireMessage<'_>],
    ) -> Option<WireMessage<'a>> {
        if content.is_empty() {
            return None;
        }
        let is_late = before
            .iter()
            .any(|message| !matches!(message, WireMessage::System { .. }));
        if is_late && self.dialect.late_instructions == LateInstructions::User {
            let text = instructions_among_user_text(&content);
            return Some(WireMessage::User {
                content: UserContent::Text(text.into()),
            });
        }
        Some(WireMessage::System { content })
    }

    /// A message of which this dialect has nothing to say, such as reasoning alone where reasoning is not sent back, is not
    /// sent: providers refuse an assistant message that is empty.
    fn assistant_message(&self, message: &'a Message) -> Option<WireMessage<'a>> {
        let content = &message.content;
        let reasoning = Some(joined("", content.iter().filter_map(reasoning_of)))
            .filter(|reasoning| !reasoning.is_empty());
        let (mut reasoning_content, mut plain, mut details) = (None, None, None);
        match self.dialect.reasoning {
            ReasoningPassback::ReasoningContent => reasoning_content = reasoning,
            ReasoningPassback::Reasoning => plain = reasoning,
            ReasoningPassback::Details => {
                details = replay::details_for(message, self.provider);
                plain = reasoning.filter(|_| details.is_none());
            }
            ReasoningPassback::Omit => {}
        }
        let tool_calls: Vec<_> = content.iter().filter_map(call_of).collect();
        let text = joined("", content.iter().filter_map(text_of));
        let reasons = reasoning_content.is_some() || plain.is_some() || details.is_some();
        let is_empty = text.is_empty() && !reasons && tool_calls.is_empty();
        (!is_empty).then_some(WireMessage::Assistant {
            content: text,
            reasoning_content,
            reasoning: plain,
            reasoning_details: details,
            tool_calls,
        })
    }

    /// Text first, then pictures, or what stands for them.
    fn user_content(&self, content: &'a [ContentBlock]) -> UserContent<'a> {
        let texts = content.iter().filter_map(shown_text_of);
        let pictures = self.pictures(content);
        if pictures.iter().any(Part::is_picture) {
            let text = Some(joined("\n", texts)).filter(|text| !text.is_empty());
            let text = text.map(|text| Part::Text { text });
            return UserContent::Parts(text.into_iter().chain(pictures).collect());
        }
        UserContent::Text(joined(
            "\n",
            texts.chain(pictures.into_iter().map(Part::line)),
        ))
    }

    /// Pictures, each behind a line with its name: a model can only speak of what has one.
    fn pictures(&self, content: &'a [ContentBlock]) -> Vec<Part<'a>> {
        let pictures = content
            .iter()
            .filter_map(|block| self.gallery.picture(block));
        pictures
            .flat_map(|picture| match picture {
                Picture::Named(line) => vec![Part::Text { text: line.into() }],
                Picture::Shown {
                    line,
                    media_type,
                    base64,
                } => vec![
                    Part::Text { text: line.into() },
                    Part::picture(media_type, base64),
                ],
            })
            .collect()
    }
}

fn tool_message(message: &Message) -> WireMessage<'_> {
    let content = shown_text(&message.content);
    WireMessage::Tool {
        tool_call_id: message.tool_call_id.as_deref().unwrap_or_default(),
        content: if content.is_empty() {
            NO_OUTPUT.into()
        } else {
            content
        },
    }
}

/// Tool messages cannot carry pictures, so those of a whole run of results follow it in one user message.
fn take_tool_images<'a>(images: &mut Vec<Part<'a>>) -> Option<WireMessage<'a>> {
    if images.is_empty() {
        return None;
    }
    let label = Part::Text {
        text: TOOL_IMAGES.into(),
    };
    let parts = std::iter::once(label).chain(images.drain(..));
    let parts: Vec<_> = parts.collect();
    let content = if parts.iter().any(Part::is_picture) {
        UserContent::Parts(parts)
    } else {
        UserContent::Text(joined("\n", parts.into_iter().map(Part::line)))
    };
    Some(WireMessage::User { content })
}

fn call_of(block: &ContentBlock) -> Option<WireCall<'_>> {
    let ContentBlock::ToolCall {
        id,
        name,
        arguments,
    } = block
    else {
        return None;
    };
    Some(WireCall {
        id,
        kind: "function",
        function: WireCallFunction { name, arguments },
    })
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
