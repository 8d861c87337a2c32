//! From the data of server-sent events to chunks. `reference/agent.md` §2.8.
//!
//! Deltas go out as they come. Block ends, usage and the finish wait for `[DONE]`, because only then is it certain that
//! nothing follows: usage may come with the finish reason or after it, and a tool call may still grow.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::replay::{self, Details};
use crate::assemble::fallback_call_id;
use crate::codes;
use crate::failure;
use crate::message::{ContentBlock, Usage};
use crate::stream::{Chunk, Failure, FinishReason};

/// What ends a stream that is complete.
pub(crate) const DONE: &str = "[DONE]";

/// Decodes one answer.
///
/// Feed the data of each frame to [`push`](Self::push) and say with [`close`](Self::close) that no more come. The chunks
/// together follow the grammar of [`Chunk`] and end with one finish; after it everything is ignored.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    blocks: Vec<Block>,
    details: Details,
    usage: Option<Usage>,
    finish_reason: Option<String>,
    finished: bool,
}

#[derive(Clone, Debug)]
enum Block {
    Text(String),
    Reasoning(String),
    Call(Call),
}

#[derive(Clone, Debug)]
struct Call {
    /// The provider's index, when it gives one.
    slot: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl Decoder {
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
        if data.trim() == DONE {
            self.complete(chunks);
            return;
        }
        let frame = match serde_json::from_str::<Frame>(data) {
            Ok(frame) => frame,
            Err(error) => {
                let message = format!("the provider sent an event that cannot be read: {error}");
                self.fail(Failure::new(codes::MALFORMED_RESPONSE, message), chunks);
                return;
            }
        };
        if let Some(error) = frame.error {
            self.fail(failure::from_error_object(&error), chunks);
            return;
        }
        if let Some(usage) = frame.usage.and_then(WireUsage::into_usage) {
            self.usage = Some(usage);
        }
        let choices = frame.choices.unwrap_or_default();
        for choice in choices
            .into_iter()
            .filter(|choice| choice.index.unwrap_or(0) == 0)
        {
            if let Some(delta) = choice.delta {
                self.delta(delta, chunks);
            }
            if let Some(usage) = choice.usage.and_then(WireUsage::into_usage) {
                self.usage = Some(usage);
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.finish_reason = Some(reason);
            }
        }
    }

    /// Says that the stream ended. Without a `[DONE]` before it that is a failure.
    pub fn close(&mut self, chunks: &mut Vec<Chunk>) {
        let message = "the provider closed the stream before the answer was complete";
        self.fail(Failure::new(codes::STREAM_CLOSED, message), chunks);
    }

    /// Ends the answer with `failure`, unless it has ended already.
    pub fn fail(&mut self, failure: Failure, chunks: &mut Vec<Chunk>) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        chunks.extend(self.usage.map(|usage| Chunk::Usage { usage }));
        chunks.push(Chunk::failed(failure));
    }

    fn delta(&mut self, delta: Delta, chunks: &mut Vec<Chunk>) {
        // Some gateways send the same reasoning under both names.
        let details = delta.reasoning_details.unwrap_or_default();
        let in_details = || details.iter().map(replay::text_of).collect();
        let mut reasoning = [delta.reasoning_content, delta.reasoning].into_iter();
        let reasoning = reasoning.find(|text| !text.is_empty());
        self.reasoning(&reasoning.unwrap_or_else(in_details), chunks);
        self.details.push(details);
        self.text(&delta.content, chunks);
        self.text(&delta.refusal, chunks);
        for call in delta.tool_calls.unwrap_or_default() {
            self.call(call, chunks);
        }
    }

    fn text(&mut self, more: &str, chunks: &mut Vec<Chunk>) {
        if more.is_empty() {
            return;
        }
        let known = self
            .blocks
            .iter()
            .position(|block| matches!(block, Block::Text(_)));
        let position =
            known.unwrap_or_else(|| self.open("text", Block::Text(String::new()), chunks));
        if let Block::Text(text) = &mut self.blocks[position] {
            text.push_str(more);
        }
        chunks.push(Chunk::TextDelta {
            index: position as u64,
            text: more.to_owned(),
        });
    }

    fn reasoning(&mut self, more: &str, chunks: &mut Vec<Chunk>) {
        if more.is_empty() {
            return;
        }
        let known = self
            .blocks
            .iter()
            .position(|block| matches!(block, Block::Reasoning(_)));
        let position = known
            .unwrap_or_else(|| self.open("reasoning", Block::Reasoning(String::new()), chunks));
        if let Block::Reasoning(text) = &mut self.blocks[position] {
            text.push_str(more);
        }
        chunks.push(Chunk::ReasoningDelta {
            index: position as u64,
            text: more.to_owned(),
        });
    }

    fn call(&mut self, delta: CallDelta, chunks: &mut Vec<Chunk>) {
        let slot = delta.index;
        let new_id = delta.id.unwrap_or_default();
        let CallFunction {
            name: new_name,
            arguments: more,
        } = delta.function.unwrap_or_default();
        let (new_name, more) = (new_name.unwrap_or_default(), argument_text(more));
        let known = self.find_call(slot, &new_id, &new_name);
        let position = known.unwrap_or_else(|| {
            let call = Call {
                slot,
                id: String::new(),
                name: String::new(),
                arguments: String::new(),
            };
            self.open("tool-call", Block::Call(call), chunks)
        });
        let Block::Call(call) = &mut self.blocks[position] else {
            return;
        };
        if call.id.is_empty() {
            call.id = new_id;
        }
        if call.name.is_empty() {
            call.name = new_name;
        }
        call.arguments.push_str(&more);
        chunks.push(Chunk::ToolCallDelta {
            index: position as u64,
            id: call.id.clone(),
            name: Some(call.name.clone()).filter(|name| !name.is_empty()),
            arguments_delta: more,
        });
    }

    /// The block that a tool-call delta continues. Its index decides, unless the delta plainly starts another call:
    /// there are servers that number every call 0, and servers that give no index at all.
    fn find_call(&self, slot: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let mut calls = self
            .blocks
            .iter()
            .enumerate()
            .rev()
            .filter_map(|(position, block)| {
                let Block::Call(call) = block else {
                    return None;
                };
                Some((position, call))
            });
        if slot.is_none() && !id.is_empty() {
            return calls
                .find(|(_, call)| call.id == id)
                .map(|(position, _)| position);
        }
        let (position, call) = match slot {
            Some(_) => calls.find(|(_, call)| call.slot == slot)?,
            None => calls.next()?,
        };
        let another_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
        (!another_id || name.is_empty()).then_some(position)
    }

    fn open(&mut self, block_type: &str, block: Block, chunks: &mut Vec<Chunk>) -> usize {
        let position = self.blocks.len();
        chunks.push(Chunk::BlockStart {
            index: position as u64,
            block_type: block_type.to_owned(),
        });
        self.blocks.push(block);
        position
    }

    fn complete(&mut self, chunks: &mut Vec<Chunk>) {
        let reason = match self.reason() {
            Ok(reason) => reason,
            Err(failure) => return self.fail(failure, chunks),
        };
        self.finished = true;
        for (position, block) in self.blocks.drain(..).enumerate() {
            let index = position as u64;
            let block = match block {
                Block::Text(text) => ContentBlock::Text { text },
                Block::Reasoning(text) => ContentBlock::Reasoning { text },
                Block::Call(Call {
                    id,
                    name,
                    arguments,
                    ..
                }) => ContentBlock::ToolCall {
                    id: if id.is_empty() {
                        fallback_call_id(index)
                    } else {
                        id
                    },
                    name,
                    arguments,
                },
            };
            chunks.push(Chunk::BlockEnd { index, block });
        }
        chunks.extend(self.usage.map(|usage| Chunk::Usage { usage }));
        chunks.push(Chunk::Finish {
            reason,
            replay_state: std::mem::take(&mut self.details).into_replay_state(),
        });
    }

    fn reason(&self) -> Result<FinishReason, Failure> {
        let mut calls = self.blocks.iter().filter_map(|block| match block {
            Block::Call(call) => Some(call),
            _ => None,
        });
        match self.finish_reason.as_deref() {
            Some("length") => Ok(FinishReason::MaxTokens),
            Some("stop" | "tool_calls") | None if self.blocks.is_empty() => Err(Failure::new(
                codes::EMPTY_RESPONSE,
                "the provider's answer has nothing in it",
            )),
            Some("stop" | "tool_calls") | None => {
                if calls.clone().any(|call| call.name.is_empty()) {
                    let message = "the provider's answer calls a tool without naming it";
                    return Err(Failure::new(codes::MALFORMED_RESPONSE, message));
                }
                // The blocks decide: some servers say `stop` beside tool calls.
                let calls = calls.next().is_some();
                Ok(if calls {
                    FinishReason::ToolCalls
                } else {
                    FinishReason::Stop
                })
            }
            Some(other) => Err(Failure::new(
                failure::upper_cased(other),
                format!("the provider ended its answer with the reason `{other}`"),
            )),
        }
    }
}

/// Arguments are a string; a few servers send the object itself.
fn argument_text(arguments: Option<Value>) -> String {
    match arguments {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
    }
}

#[derive(Deserialize)]
struct Frame {
    choices: Option<Vec<Choice>>,
    usage: Option<WireUsage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    index: Option<u64>,
    delta: Option<Delta>,
    finish_reason: Option<String>,
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default, deserialize_with = "plain_text")]
    content: String,
    #[serde(default, deserialize_with = "plain_text")]
    reasoning_content: String,
    #[serde(default, deserialize_with = "plain_text")]
    reasoning: String,
    #[serde(default, deserialize_with = "plain_text")]
    refusal: String,
    reasoning_details: Option<Vec<Value>>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<CallFunction>,
}

#[derive(Default, Deserialize)]
struct CallFunction {
    name: Option<String>,
    arguments: Option<Value>,
}

/// A text, the texts of an array of text parts, or nothing.
fn plain_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part.get("text").and_then(Value::as_str))
            .collect(),
        _ => String::new(),
    })
}

#[derive(Deserialize)]
struct WireUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_cache_hit_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl WireUsage {
    fn into_usage(self) -> Option<Usage> {
        let prompt = self.prompt_tokens?;
        let details = self.prompt_tokens_details;
        let written = details
            .as_ref()
            .and_then(|details| details.cache_write_tokens);
        let cached = details.and_then(|details| details.cached_tokens);
        let cached = cached.or(self.prompt_cache_hit_tokens);
        Some(Usage {
            input_tokens: prompt
                .saturating_sub(cached.unwrap_or(0))
                .saturating_sub(written.unwrap_or(0)),
            output_tokens: self.completion_tokens.unwrap_or(0),
            total_tokens: None,
            cache_read_tokens: cached,
            cache_write_tokens: written,
            reasoning_tokens: self
                .completion_tokens_details
                .and_then(|details| details.reasoning_tokens),
        })
    }
}
