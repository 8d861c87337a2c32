//! From chunks to the message they amount to. `reference/agent.md` §2.3.
//!
//! The same assembly runs while a model answers and when a stored stream is checked against the message beside it, so
//! it depends on nothing but the chunks.

use serde_json::value::RawValue;

use crate::codes;
use crate::message::{ContentBlock, Usage};
use crate::stream::{Chunk, Failure, FinishReason, ReplayState};

/// What a whole stream amounts to.
#[derive(Clone, Debug, PartialEq)]
pub struct Assembled {
    /// The blocks, in the order in which their indexes were first seen.
    pub content: Vec<ContentBlock>,
    /// Why the answer ended; `stop` when the stream did not say.
    pub finish: FinishReason,
    /// The last usage that was reported.
    pub usage: Option<Usage>,
    /// The adapter's replay state, with one block entry per content block if it has block entries.
    pub replay_state: Option<ReplayState>,
    /// What to fail with once the content is kept: the answer hit the token limit inside a tool call, so that what the model
    /// wanted done was never said. Nothing can be run of it and going on would hide that.
    pub truncated_call: Option<Failure>,
}

/// Collects chunks.
///
/// Tolerant where providers are careless: a delta may open its block, a delta that does not fit its block is dropped,
/// and nothing after a block's end or the finish counts.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    parts: Vec<(u64, Part)>,
    usage: Option<Usage>,
    finish: Option<(FinishReason, Option<ReplayState>)>,
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Reasoning(String),
    ToolCall {
        id: String,
        name: String,
        arguments: String,
    },
    /// Announced with a type that has no deltas; only a block end gives it content.
    Announced,
    Closed(ContentBlock),
}

impl Assembler {
    /// An assembler that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next chunk.
    pub fn push(&mut self, chunk: &Chunk) {
        if self.finish.is_some() {
            return;
        }
        match chunk {
            Chunk::BlockStart { index, block_type } => {
                self.part(*index, || Part::announced(block_type));
            }
            Chunk::TextDelta { index, text } => {
                if let Part::Text(whole) = self.part(*index, || Part::announced("text")) {
                    whole.push_str(text);
                }
            }
            Chunk::ReasoningDelta { index, text } => {
                if let Part::Reasoning(whole) = self.part(*index, || Part::announced("reasoning")) {
                    whole.push_str(text);
                }
            }
            Chunk::ToolCallDelta {
                index,
                id,
                name,
                arguments_delta,
            } => {
                self.push_call(
                    *index,
                    id,
                    name.as_deref().unwrap_or_default(),
                    arguments_delta,
                );
            }
            Chunk::BlockEnd { index, block } => {
                let part = self.part(*index, || Part::Announced);
                if !matches!(part, Part::Closed(_)) {
                    *part = Part::Closed(block.clone());
                }
            }
            Chunk::Usage { usage } => self.usage = Some(*usage),
            Chunk::Finish {
                reason,
                replay_state,
            } => {
                self.finish = Some((reason.clone(), replay_state.clone()));
            }
        }
    }

    /// The usage so far.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Why the answer ended, when the stream has said so.
    #[must_use]
    pub fn finish_reason(&self) -> Option<&FinishReason> {
        self.finish.as_ref().map(|(reason, _)| reason)
    }

    /// What is worth keeping of an answer that was interrupted: text and reasoning with something in it. Tool calls are
    /// dropped, since nobody will run them.
    #[must_use]
    pub fn interrupted_blocks(&self) -> Vec<ContentBlock> {
        self.blocks()
            .filter(|block| match block {
                ContentBlock::Text { text } | ContentBlock::Reasoning { text } => {
                    !text.trim().is_empty()
                }
                _ => false,
            })
            .collect()
    }

    /// What the stream amounts to.
    #[must_use]
    pub fn finish(mut self) -> Assembled {
        let mut content: Vec<_> = self.blocks().collect();
        let (finish, replay_state) = self.finish.take().unwrap_or((FinishReason::Stop, None));
        let cut = finish == FinishReason::MaxTokens;
        let truncated_call = if cut { self.truncated_call() } else { None };
        let kept: Vec<bool> = content
            .iter()
            .map(|block| !(cut && matches!(block, ContentBlock::ToolCall { .. })))
            .collect();
        let mut flags = kept.iter();
        content.retain(|_| flags.next().copied().unwrap_or(true));
        let replay_state = replay_state.and_then(|state| state.aligned(&kept));
        Assembled {
            content,
            finish,
            usage: self.usage,
            replay_state,
            truncated_call,
        }
    }

    /// A call whose block is not over, or whose arguments are no JSON.
    fn truncated_call(&self) -> Option<Failure> {
        let mut calls = self.parts.iter().filter_map(|(_, part)| match part {
            Part::ToolCall { name, .. } => Some((name, false)),
            Part::Closed(ContentBlock::ToolCall {
                name, arguments, ..
            }) => Some((name, is_json(arguments))),
            _ => None,
        });
        let (name, _) = calls.find(|(_, is_whole)| !is_whole)?;
        let message = format!("the answer hit the token limit inside a call of the tool `{name}`");
        Some(Failure::new(codes::TRUNCATED_TOOL_CALL, message))
    }

    fn push_call(&mut self, index: u64, new_id: &str, new_name: &str, more: &str) {
        let part = self.part(index, || Part::announced("tool-call"));
        let Part::ToolCall {
            id,
            name,
            arguments,
        } = part
        else {
            return;
        };
        if id.is_empty() {
            id.push_str(new_id);
        }
        if name.is_empty() {
            name.push_str(new_name);
        }
        arguments.push_str(more);
    }

    fn part(&mut self, index: u64, open: impl FnOnce() -> Part) -> &mut Part {
        let known = self.parts.iter().rposition(|(seen, _)| *seen == index);
        let position = known.unwrap_or_else(|| {
            self.parts.push((index, open()));
            self.parts.len() - 1
        });
        &mut self.parts[position].1
    }

    fn blocks(&self) -> impl Iterator<Item = ContentBlock> {
        self.parts
            .iter()
            .filter_map(|(index, part)| part.block(*index))
    }
}

impl Part {
    fn announced(block_type: &str) -> Self {
        match block_type {
            "text" => Self::Text(String::new()),
            "reasoning" => Self::Reasoning(String::new()),
            "tool-call" => Self::ToolCall {
                id: String::new(),
                name: String::new(),
                arguments: String::new(),
            },
            _ => Self::Announced,
        }
    }

    fn block(&self, index: u64) -> Option<ContentBlock> {
        let mut block = match self {
            Self::Text(text) => ContentBlock::Text { text: text.clone() },
            Self::Reasoning(text) => ContentBlock::Reasoning { text: text.clone() },
            Self::ToolCall {
                id,
                name,
                arguments,
            } => ContentBlock::ToolCall {
                id: id.clone(),
                name: name.clone(),
                arguments: arguments.clone(),
            },
            Self::Announced => return None,
            Self::Closed(block) => block.clone(),
        };
        if let ContentBlock::ToolCall { id, .. } = &mut block
            && id.is_empty()
        {
            *id = fallback_call_id(index);
        }
        Some(block)
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// The id of a tool call that the provider gave none.
pub(crate) fn fallback_call_id(index: u64) -> String {
    format!("call-{index}")
}
