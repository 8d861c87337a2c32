//! From the data of server-sent events to chunks.
//!
//! Deltas and block ends go out as they come: here a block says itself that it is over. Usage comes in two parts, at the
//! beginning and at the end, and is given once, before the finish.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::replay::{self, Entry};
use crate::assemble::fallback_call_id;
use crate::codes;
use crate::failure;
use crate::message::{ContentBlock, Usage};
use crate::stream::{Chunk, Failure, FinishReason};

/// The event that ends a stream which is complete.
pub(crate) const STOP: &str = "message_stop";

/// Decodes one answer.
///
/// Feed the data of each frame to [`push`](Self::push) and say with [`close`](Self::close) that no more come. The chunks
/// together follow the grammar of [`Chunk`] and end with one finish; after it everything is ignored.
#[derive(Clone, Debug, Default)]
pub struct MessagesDecoder {
    parts: Vec<Part>,
    /// How many blocks have been opened, so the index of the next one.
    opened: u64,
    usage: Option<WireUsage>,
    stop_reason: Option<String>,
    finished: bool,
}

/// A block of the wire.
#[derive(Clone, Debug)]
struct Part {
    wire_index: u64,
    kind: Kind,
    /// The block's index among the chunks, once there is anything in it.
    index: Option<u64>,
    /// Text, thinking or arguments so far.
    text: String,
    closed: bool,
}

#[derive(Clone, Debug)]
enum Kind {
    Text,
    Thinking {
        signature: String,
    },
    Redacted {
        data: String,
    },
    Call {
        id: String,
        name: String,
        /// What the beginning of the block has for arguments; counts if nothing follows.
        whole: String,
    },
    /// Of a type that this adapter has not asked for.
    Foreign,
}

impl MessagesDecoder {
    /// A decoder that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the finish has been given.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Takes the data of one frame and appends the chunks it gives to `chunks`.
    pub fn push(&mut self, data: &str, chunks: &mut Vec<Chunk>) {
        if self.finished {
            return;
        }
        let taken = match serde_json::from_str::<Event<'_>>(data) {
            Ok(event) => self.take(event, data, chunks),
            // Events that are newer than this adapter may have members of other types.
            Err(_) if is_of_unknown_kind(data) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(problem) = taken {
            let message = format!("the provider sent an event that cannot be read: {problem}");
            self.fail(Failure::new(codes::MALFORMED_RESPONSE, message), chunks);
        }
    }

    /// Says that the stream ended. Without a `message_stop` before it that is a failure.
    pub fn close(&mut self, chunks: &mut Vec<Chunk>) {
        let message = "the provider closed the stream before the answer was complete";
        self.fail(Failure::new(codes::STREAM_CLOSED, message), chunks);
    }

    /// Ends the answer with `failure`, unless it has ended already.
    pub fn fail(&mut self, failure: Failure, chunks: &mut Vec<Chunk>) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        chunks.extend(self.usage_chunk());
        chunks.push(Chunk::failed(failure));
    }

    fn take(
        &mut self,
        event: Event<'_>,
        data: &str,
        chunks: &mut Vec<Chunk>,
    ) -> Result<(), String> {
        match event.kind.as_ref() {
            "message_start" => self.count(event.message.and_then(|message| message.usage)),
            "content_block_start" => {
                let block = event.content_block.ok_or("it begins no block")?;
                self.start(event.index.unwrap_or(0), block, chunks)?;
            }
            "content_block_delta" => {
                let delta = event.delta.ok_or("it has no delta")?;
                self.delta(event.index.unwrap_or(0), delta, chunks)?;
            }
            "content_block_stop" => self.stop(event.index.unwrap_or(0), chunks)?,
            "message_delta" => {
                self.count(event.usage);
                let reason = event.delta.and_then(|delta| delta.stop_reason);
                self.stop_reason = reason.or(self.stop_reason.take());
            }
            STOP => self.complete(chunks),
            "error" => {
                let error = serde_json::from_str(data).unwrap_or(Value::Null);
                self.fail(failure::from_error_object(&error), chunks);
            }
            // Signs of life, and events that are newer than this adapter.
            _ => {}
        }
        Ok(())
    }

    fn start(
        &mut self,
        wire_index: u64,
        block: WireBlock<'_>,
        chunks: &mut Vec<Chunk>,
    ) -> Result<(), String> {
        if self.parts.iter().any(|part| part.wire_index == wire_index) {
            return Err(format!("block {wire_index} begins twice"));
        }
        let kind = match block.kind.as_ref() {
            "text" => Kind::Text,
            "thinking" => Kind::Thinking {
                signature: block.signature.unwrap_or_default(),
            },
            "redacted_thinking" => Kind::Redacted {
                data: block.data.unwrap_or_default(),
            },
            "tool_use" => Kind::Call {
                id: block.id.unwrap_or_default(),
                name: block.name.unwrap_or_default(),
                whole: block.input.map_or("{}", RawValue::get).to_owned(),
            },
            _ => Kind::Foreign,
        };
        let opens_at_once = matches!(kind, Kind::Redacted { .. } | Kind::Call { .. });
        self.parts.push(Part {
            wire_index,
            kind,
            index: None,
            text: String::new(),
            closed: false,
        });
        let position = self.parts.len() - 1;
        if opens_at_once {
            self.open(position, chunks);
            // Who watches a call wants to know which tool it is before its arguments are there.
            chunks.extend(self.parts[position].delta(""));
        }
        let begun = block.text.or(block.thinking).unwrap_or_default();
        self.grow(position, &begun, chunks);
        Ok(())
    }

    fn delta(
        &mut self,
        wire_index: u64,
        delta: Delta,
        chunks: &mut Vec<Chunk>,
    ) -> Result<(), String> {
        let position = self.position(wire_index)?;
        let part = &mut self.parts[position];
        match (delta.kind.as_deref(), &mut part.kind) {
            (_, Kind::Foreign) => {}
            (Some("signature_delta"), Kind::Thinking { signature }) => {
                signature.push_str(&delta.signature.unwrap_or_default());
            }
            (Some("text_delta"), Kind::Text) => {
                self.grow(position, &delta.text.unwrap_or_default(), chunks);
            }
            (Some("thinking_delta"), Kind::Thinking { .. }) => {
                self.grow(position, &delta.thinking.unwrap_or_default(), chunks);
            }
            (Some("input_json_delta"), Kind::Call { .. }) => {
                self.grow(position, &delta.partial_json.unwrap_or_default(), chunks);
            }
            (Some("text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta"), _) => {
                return Err(format!("a delta of block {wire_index} does not fit it"));
            }
            // Of a kind that is newer than this adapter, such as citations.
            _ => {}
        }
        Ok(())
    }

    fn stop(&mut self, wire_index: u64, chunks: &mut Vec<Chunk>) -> Result<(), String> {
        let position = self.position(wire_index)?;
        let part = &self.parts[position];
        if let Kind::Call { whole, .. } = &part.kind
            && part.text.is_empty()
        {
            let whole = whole.clone();
            self.grow(position, &whole, chunks);
        }
        // Thinking that is not shown has a signature all the same, and has to go back.
        let signed = matches!(&self.parts[position].kind, Kind::Thinking { signature } if !signature.is_empty());
        if signed {
            self.open(position, chunks);
        }
        let part = &mut self.parts[position];
        part.closed = true;
        if let Some(index) = part.index {
            let block = part.block(index);
            chunks.push(Chunk::BlockEnd { index, block });
        }
        Ok(())
    }

    /// The open block of that index.
    fn position(&self, wire_index: u64) -> Result<usize, String> {
        self.parts
            .iter()
            .position(|part| part.wire_index == wire_index && !part.closed)
            .ok_or_else(|| format!("block {wire_index} is not open"))
    }

    fn open(&mut self, position: usize, chunks: &mut Vec<Chunk>) {
        let part = &mut self.parts[position];
        if part.index.is_some() {
            return;
        }
        let index = self.opened;
        self.opened += 1;
        part.index = Some(index);
        chunks.push(Chunk::BlockStart {
            index,
            block_type: part.kind.block_type().to_owned(),
        });
    }

    fn grow(&mut self, position: usize, more: &str, chunks: &mut Vec<Chunk>) {
        if more.is_empty() {
            return;
        }
        self.open(position, chunks);
        let part = &mut self.parts[position];
        part.text.push_str(more);
        chunks.extend(part.delta(more));
    }

    /// The counts are those of the whole answer so far, so that the largest is the latest.
    fn count(&mut self, more: Option<WireUsage>) {
        let Some(more) = more else {
            return;
        };
        let known = self.usage.unwrap_or_default();
        self.usage = Some(WireUsage {
            input_tokens: known.input_tokens.max(more.input_tokens),
            output_tokens: known.output_tokens.max(more.output_tokens),
            cache_read_input_tokens: known
                .cache_read_input_tokens
                .max(more.cache_read_input_tokens),
            cache_creation_input_tokens: known
                .cache_creation_input_tokens
                .max(more.cache_creation_input_tokens),
        });
    }

    fn usage_chunk(&self) -> Option<Chunk> {
        let usage = self.usage?;
        Some(Chunk::Usage {
            usage: Usage {
                input_tokens: usage.input_tokens.unwrap_or(0),
                output_tokens: usage.output_tokens.unwrap_or(0),
                total_tokens: None,
                cache_read_tokens: usage.cache_read_input_tokens,
                cache_write_tokens: usage.cache_creation_input_tokens,
                reasoning_tokens: None,
            },
        })
    }

    /// The answer is complete.
    pub(crate) fn complete(&mut self, chunks: &mut Vec<Chunk>) {
        if self.finished {
            return;
        }
        let reason = match self.reason() {
            Ok(reason) => reason,
            Err(failure) => return self.fail(failure, chunks),
        };
        self.finished = true;
        for part in self.parts.iter_mut().filter(|part| !part.closed) {
            part.closed = true;
            if let Some(index) = part.index {
                let block = part.block(index);
                chunks.push(Chunk::BlockEnd { index, block });
            }
        }
        chunks.extend(self.usage_chunk());
        let mut opened: Vec<_> = self
            .parts
            .iter()
            .filter(|part| part.index.is_some())
            .collect();
        opened.sort_by_key(|part| part.index);
        let entries = opened.into_iter().map(Part::entry).collect();
        chunks.push(Chunk::Finish {
            reason,
            replay_state: replay::state(entries),
        });
    }

    fn reason(&self) -> Result<FinishReason, Failure> {
        let mut names = self.parts.iter().filter_map(|part| match &part.kind {
            Kind::Call { name, .. } => Some(name),
            _ => None,
        });
        match self.stop_reason.as_deref() {
            Some("max_tokens") => Ok(FinishReason::MaxTokens),
            Some("model_context_window_exceeded") => Err(Failure::new(
                codes::CONTEXT_WINDOW_EXCEEDED,
                "the model's context was full before the answer was complete",
            )),
            Some("end_turn" | "stop_sequence" | "tool_use") | None => {
                if self.opened == 0 {
                    let message = "the provider's answer has nothing in it";
                    return Err(Failure::new(codes::EMPTY_RESPONSE, message));
                }
                if names.clone().any(String::is_empty) {
                    let message = "the provider's answer calls a tool without naming it";
                    return Err(Failure::new(codes::MALFORMED_RESPONSE, message));
                }
                let calls = names.next().is_some();
                Ok(if calls {
                    FinishReason::ToolCalls
                } else {
                    FinishReason::Stop
                })
            }
            Some("refusal") => Err(Failure::new(
                failure::upper_cased("refusal"),
                "the provider refused to go on with this conversation",
            )),
            Some(other) => Err(Failure::new(
                failure::upper_cased(other),
                format!("the provider ended its answer with the reason `{other}`"),
            )),
        }
    }
}

impl Kind {
    const fn block_type(&self) -> &'static str {
        match self {
            Self::Thinking { .. } | Self::Redacted { .. } => "reasoning",
            Self::Call { .. } => "tool-call",
            Self::Text | Self::Foreign => "text",
        }
    }
}

impl Part {
    /// What this block says more, if it is open and says anything.
    fn delta(&self, more: &str) -> Option<Chunk> {
        let index = self.index?;
        let text = more.to_owned();
        Some(match &self.kind {
            Kind::Text => Chunk::TextDelta { index, text },
            Kind::Thinking { .. } => Chunk::ReasoningDelta { index, text },
            Kind::Call { id, name, .. } => Chunk::ToolCallDelta {
                index,
                id: id.clone(),
                name: Some(name.clone()).filter(|name| !name.is_empty()),
                arguments_delta: text,
            },
            Kind::Redacted { .. } | Kind::Foreign => return None,
        })
    }

    fn block(&self, index: u64) -> ContentBlock {
        let text = self.text.clone();
        match &self.kind {
            Kind::Text | Kind::Foreign => ContentBlock::Text { text },
            Kind::Thinking { .. } | Kind::Redacted { .. } => ContentBlock::Reasoning { text },
            Kind::Call { id, name, .. } => ContentBlock::ToolCall {
                id: if id.is_empty() {
                    fallback_call_id(index)
                } else {
                    id.clone()
                },
                name: name.clone(),
                arguments: text,
            },
        }
    }

    fn entry(&self) -> Option<Entry> {
        match &self.kind {
            Kind::Thinking { signature } => Some(Entry::Thinking {
                signature: signature.clone(),
            }),
            Kind::Redacted { data } => Some(Entry::RedactedThinking { data: data.clone() }),
            Kind::Text | Kind::Call { .. } | Kind::Foreign => None,
        }
    }
}

/// The events that are read, and the one that is known for not being.
const KINDS: [&str; 8] = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    STOP,
    "error",
    "ping",
];

fn is_of_unknown_kind(data: &str) -> bool {
    #[derive(Deserialize)]
    struct Named {
        #[serde(rename = "type")]
        kind: String,
    }
    let named = serde_json::from_str::<Named>(data);
    named.is_ok_and(|Named { kind }| !KINDS.contains(&kind.as_str()))
}

/// All members of all events.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    index: Option<u64>,
    message: Option<MessageStart>,
    #[serde(borrow)]
    content_block: Option<WireBlock<'a>>,
    delta: Option<Delta>,
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct MessageStart {
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct WireBlock<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    data: Option<String>,
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

/// Of a block, or of the message.
#[derive(Deserialize)]
struct Delta {
    #[serde(rename = "type")]
    kind: Option<String>,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct WireUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}
