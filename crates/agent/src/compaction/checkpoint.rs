//! What stands in for a span: the summary, and the message that the model sees instead.

use offshoot_model::{CallConfig, ContentBlock, Message, MessageSource, Role, Usage};
use offshoot_session::{EventDraft, EventKind, Seq, SurfaceOp};

use super::bracket::Bracket;
use super::events::{CHECKPOINT, CheckpointSource, Range, Summary};
use super::span::Span;
use crate::events::{logged, row_text, shown};
use crate::meter;

const OPENING: &str = "<compacted-summary>";
const CLOSING: &str = "</compacted-summary>";
const FRAME: &str = "\
The earlier part of this conversation was replaced by the summary below, to make room. It was written for you, from what \
was said and done until then; treat it as known. What follows behind it is the conversation as it went on: continue from \
there, and do not answer the summary itself.

<compacted-summary>";

/// A model's summary.
pub(super) struct Answer {
    /// What it said, reasoning included.
    pub(super) raw: Vec<ContentBlock>,
    pub(super) usage: Option<Usage>,
    /// How it was called.
    pub(super) call: CallConfig,
}

/// A summary that can stand in for what it summarises.
pub(super) struct Checkpoint {
    answer: Answer,
    summary: Vec<ContentBlock>,
    message: Message,
    tokens: u64,
}

impl Checkpoint {
    /// Frames a summary. Only text that says something will do.
    ///
    /// # Errors
    /// What else there is, or that it is not shorter than the span.
    pub(super) fn frame(
        answer: Answer,
        bracket: &Bracket,
        span: &Span,
        id: String,
    ) -> Result<Self, String> {
        let mut summary = Vec::new();
        for block in &answer.raw {
            match block {
                ContentBlock::Text { text } => {
                    // Nothing that it says may look like the end of it.
                    let text = text.replace(OPENING, "").replace(CLOSING, "");
                    summary.push(ContentBlock::text(text.trim()));
                }
                ContentBlock::Reasoning { .. } => {}
                other => {
                    return Err(format!(
                        "the model answered with a block of type `{}` instead of text",
                        other.block_type()
                    ));
                }
            }
        }
        summary.retain(|block| *block != ContentBlock::text(""));
        if summary.is_empty() {
            return Err("the model answered without text".into());
        }
        let source = CheckpointSource {
            kind: CHECKPOINT,
            compaction_id: bracket.id(),
        };
        let source: MessageSource =
            serde_json::from_str(row_text(&source).get()).expect("BUG: a source is one");
        let framed = [ContentBlock::text(FRAME)]
            .into_iter()
            .chain(summary.iter().cloned())
            .chain([ContentBlock::text(CLOSING)]);
        let message = Message {
            id,
            role: Role::User,
            content: framed.collect(),
            tool_call_id: None,
            is_error: None,
            source,
        };
        let tokens = meter::price_of_message(row_text(&message).get());
        if tokens >= span.tokens() {
            return Err(format!(
                "with about {tokens} tokens it would not be shorter than what it summarises, about {}",
                span.tokens()
            ));
        }
        Ok(Self {
            answer,
            summary,
            message,
            tokens,
        })
    }

    /// About how many tokens the message has.
    pub(super) const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// `compaction/summary`.
    pub(super) fn summary(&self, bracket: &Bracket, span: &Span) -> EventDraft {
        let Answer { raw, usage, call } = &self.answer;
        let data = Summary {
            compaction_id: bracket.id(),
            summary: &self.summary,
            raw_output: raw,
            llm_stream_call: true,
            shadowed_range: Range {
                start: span.first(),
                end: span.last(),
            },
            shadowed_seqs: span.nodes(),
            shadowed_token_count: span.tokens(),
            provider: &call.provider,
            model: &call.model,
            max_tokens: call.max_tokens,
            usage: *usage,
        };
        logged(EventKind::CompactionSummary, &data)
    }

    /// The `user/message` that replaces the span.
    pub(super) fn replacement(&self, bracket: &Bracket, span: &Span, summary: Seq) -> EventDraft {
        let mut sources = vec![bracket.start(), summary];
        sources.extend(span.nodes());
        shown(EventKind::UserMessage, &self.message)
            .with_sources(sources)
            .with_surface_op(SurfaceOp::Replace {
                start: span.first(),
                end: span.last(),
            })
    }
}
