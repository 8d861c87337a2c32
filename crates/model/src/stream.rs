//! What a model answers: a stream of chunks that ends with a finish.
//!
//! The serde shapes are those of the chunks in a log's stream records (`reference/persistence.md` §3.7), member order
//! included. Grammar of a stream (`reference/agent.md` §2.2): a block index is opened once, a delta fits its block,
//! usage comes at most once, nothing follows the finish, and only a failed or aborted stream leaves blocks open.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::message::{ContentBlock, Usage};
use crate::raw::RawJson;

/// One step of a streamed answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum Chunk {
    /// A block begins.
    BlockStart {
        /// The block's index, in first-seen order.
        index: u64,
        /// `text`, `reasoning` or `tool-call`.
        block_type: String,
    },
    /// More text.
    TextDelta {
        /// The block.
        index: u64,
        /// The text to append.
        text: String,
    },
    /// More reasoning.
    ReasoningDelta {
        /// The block.
        index: u64,
        /// The text to append.
        text: String,
    },
    /// More of a tool call.
    ToolCallDelta {
        /// The block.
        index: u64,
        /// The call id; empty while the provider has not said it.
        id: String,
        /// The tool's name, when known.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The raw argument text to append.
        arguments_delta: String,
    },
    /// A block is complete; `block` replaces whatever the deltas gave.
    BlockEnd {
        /// The block.
        index: u64,
        /// The whole block.
        block: ContentBlock,
    },
    /// What the call used.
    Usage {
        /// The counts.
        usage: Usage,
    },
    /// The answer is over.
    Finish {
        /// Why.
        reason: FinishReason,
        /// What the adapter wants to see again when the answer is sent back to it.
        #[serde(skip_serializing_if = "Option::is_none")]
        replay_state: Option<ReplayState>,
    },
}

impl Chunk {
    /// The last chunk of an answer, without replay state.
    #[must_use]
    pub fn finish(reason: FinishReason) -> Self {
        Self::Finish {
            reason,
            replay_state: None,
        }
    }

    /// The last chunk of an answer that failed. A failure with code `ABORTED` becomes an abort.
    #[must_use]
    pub fn failed(failure: Failure) -> Self {
        if failure.code == crate::codes::ABORTED {
            return Self::finish(FinishReason::Aborted { failure });
        }
        Self::finish(FinishReason::Error { failure })
    }

    /// The last chunk of an answer that was cancelled.
    #[must_use]
    pub fn aborted() -> Self {
        Self::failed(Failure::new(
            crate::codes::ABORTED,
            "the model call was cancelled",
        ))
    }
}

/// All members of all chunks. A tagged enum would buffer its input, and a buffer cannot give back the exact text of a
/// replay state or of an unknown block.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyChunk {
    #[serde(rename = "type")]
    kind: String,
    index: Option<u64>,
    block_type: Option<String>,
    text: Option<String>,
    id: Option<String>,
    name: Option<String>,
    arguments_delta: Option<String>,
    block: Option<ContentBlock>,
    usage: Option<Usage>,
    reason: Option<FinishReason>,
    replay_state: Option<ReplayState>,
}

impl<'de> Deserialize<'de> for Chunk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let any = AnyChunk::deserialize(deserializer)?;
        let index = || any.index.ok_or_else(|| D::Error::missing_field("index"));
        Ok(match any.kind.as_str() {
            "block-start" => Self::BlockStart {
                index: index()?,
                block_type: need(any.block_type, "blockType")?,
            },
            "text-delta" => Self::TextDelta {
                index: index()?,
                text: need(any.text, "text")?,
            },
            "reasoning-delta" => Self::ReasoningDelta {
                index: index()?,
                text: need(any.text, "text")?,
            },
            "tool-call-delta" => Self::ToolCallDelta {
                index: index()?,
                id: need(any.id, "id")?,
                name: any.name,
                arguments_delta: need(any.arguments_delta, "argumentsDelta")?,
            },
            "block-end" => Self::BlockEnd {
                index: index()?,
                block: need(any.block, "block")?,
            },
            "usage" => Self::Usage {
                usage: need(any.usage, "usage")?,
            },
            "finish" => Self::Finish {
                reason: need(any.reason, "reason")?,
                replay_state: any.replay_state,
            },
            other => {
                return Err(D::Error::custom(format_args!(
                    "unknown chunk type `{other}`"
                )));
            }
        })
    }
}

/// The member, or the error that it is missing.
pub(crate) fn need<T, E: serde::de::Error>(member: Option<T>, name: &'static str) -> Result<T, E> {
    member.ok_or_else(|| E::missing_field(name))
}

/// Why an answer is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FinishReason {
    /// The model had nothing more to say.
    Stop,
    /// The model waits for tool results.
    ToolCalls,
    /// The answer hit the token limit.
    MaxTokens,
    /// The caller cancelled.
    Aborted {
        /// What to report; its code is `ABORTED`.
        failure: Failure,
    },
    /// The call failed.
    Error {
        /// What went wrong.
        failure: Failure,
    },
}

/// What went wrong with a call, in the form the log stores. `reference/agent.md` §2.5.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// For a person.
    pub message: String,
    /// For a program; see [`crate::codes`].
    pub code: String,
    /// HTTP status, 100–599.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long the provider asked to wait, in milliseconds, at least 1. Logs may hold fractions; they are rounded up.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "whole_milliseconds"
    )]
    pub provider_retry_after_ms: Option<u64>,
    /// The provider's id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// How many of the oldest images must leave the context before the call can succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload_images: Option<u64>,
}

impl Failure {
    /// A failure of which only this is known.
    #[must_use]
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: code.into(),
            status: None,
            provider_retry_after_ms: None,
            request_id: None,
            offload_images: None,
        }
    }
}

fn whole_milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let milliseconds = Option::<f64>::deserialize(deserializer)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates"
    )]
    Ok(milliseconds.map(|milliseconds| milliseconds.ceil() as u64))
}

/// Adapter-private JSON `{response, blocks?}` that is sent back, with the message it belongs to, only to the adapter
/// that made it. `reference/agent.md` §2.2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReplayState(RawJson);

impl ReplayState {
    /// Takes the envelope as it is.
    #[must_use]
    pub fn new(envelope: RawJson) -> Self {
        Self(envelope)
    }

    /// The exact text.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The envelope with only those of its block entries whose content block is kept; `kept` has one flag per content
    /// block. `None` when the envelope's entries do not correspond to the content, so that they would be misread.
    pub(crate) fn aligned(self, kept: &[bool]) -> Option<Self> {
        #[derive(Serialize, Deserialize)]
        struct Envelope {
            #[serde(skip_serializing_if = "Option::is_none")]
            response: Option<RawJson>,
            blocks: Vec<RawJson>,
        }
        let Ok(mut envelope) = serde_json::from_str::<Envelope>(self.get()) else {
            // No entries, nothing to align.
            return Some(self);
        };
        if envelope.blocks.len() != kept.len() {
            return None;
        }
        if kept.iter().all(|kept| *kept) {
            return Some(self);
        }
        let mut flags = kept.iter();
        envelope
            .blocks
            .retain(|_| flags.next().copied().unwrap_or(false));
        RawJson::from_value(&envelope).ok().map(Self)
    }
}
