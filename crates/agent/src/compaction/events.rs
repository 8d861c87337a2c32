//! The payloads of a compaction (`reference/persistence.md` §3.5, V4).

use offshoot_model::{ContentBlock, Usage};
use offshoot_session::Seq;
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Start<'a> {
    pub(super) compaction_id: &'a str,
    pub(super) turn: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct End<'a> {
    pub(super) compaction_id: &'a str,
    pub(super) turn: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<&'a str>,
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct Range {
    pub(super) start: Seq,
    pub(super) end: Seq,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary<'a> {
    pub(super) compaction_id: &'a str,
    pub(super) summary: &'a [ContentBlock],
    pub(super) raw_output: &'a [ContentBlock],
    /// Says that a model was called here, so that a replay answers it.
    pub(super) llm_stream_call: bool,
    pub(super) shadowed_range: Range,
    pub(super) shadowed_seqs: &'a [Seq],
    pub(super) shadowed_token_count: u64,
    pub(super) provider: &'a str,
    pub(super) model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Usage>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Prune {
    pub(super) shadowed_range: Range,
    pub(super) shadowed_seqs: [Seq; 1],
    pub(super) shadowed_token_count: u64,
}

/// The source of the message that stands in for a span.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CheckpointSource<'a> {
    pub(super) kind: &'static str,
    pub(super) compaction_id: &'a str,
}

/// Whether a message with a source of this kind stands in for a span.
pub(crate) fn is_summary(source: &str) -> bool {
    source == CHECKPOINT
}

/// The kind of that source.
pub(super) const CHECKPOINT: &str = "compact-checkpoint";
