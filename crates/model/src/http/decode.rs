//! What the transport wants of a decoder, whichever protocol it decodes.

use crate::anthropic::decode::{MessagesDecoder, STOP};
use crate::failure;
use crate::openai::decode::{DONE, Decoder};
use crate::protocol::Protocol;
use crate::sse::SseFrame;
use crate::stream::{Chunk, Failure};

/// The decoder of one answer.
pub(super) enum AnswerDecoder {
    ChatCompletions(Decoder),
    Messages(MessagesDecoder),
}

impl AnswerDecoder {
    pub(super) fn new(protocol: Protocol) -> Self {
        match protocol {
            Protocol::ChatCompletions(_) => Self::ChatCompletions(Decoder::new()),
            Protocol::Messages(_) => Self::Messages(MessagesDecoder::new()),
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        match self {
            Self::ChatCompletions(decoder) => decoder.is_finished(),
            Self::Messages(decoder) => decoder.is_finished(),
        }
    }

    pub(super) fn frame(&mut self, frame: &SseFrame, chunks: &mut Vec<Chunk>) {
        match self {
            Self::ChatCompletions(_) if frame.event.as_deref() == Some("error") => {
                let error = serde_json::from_str(&frame.data)
                    .unwrap_or_else(|_| serde_json::Value::String(frame.data.clone()));
                self.fail(failure::from_error_object(&error), chunks);
            }
            Self::ChatCompletions(decoder) => decoder.push(&frame.data, chunks),
            Self::Messages(decoder) => decoder.push(&frame.data, chunks),
        }
    }

    /// The stream is over; `pending` is a frame without its blank line. It may be cut, but an end marker cannot be mistaken.
    pub(super) fn close(&mut self, pending: Option<&SseFrame>, chunks: &mut Vec<Chunk>) {
        let is_end = pending.is_some_and(|frame| match self {
            Self::ChatCompletions(_) => frame.data.trim() == DONE,
            Self::Messages(_) => frame.event.as_deref() == Some(STOP),
        });
        match self {
            Self::ChatCompletions(decoder) => {
                if is_end {
                    decoder.push(DONE, chunks);
                }
                decoder.close(chunks);
            }
            Self::Messages(decoder) => {
                if is_end {
                    decoder.complete(chunks);
                }
                decoder.close(chunks);
            }
        }
    }

    pub(super) fn fail(&mut self, failure: Failure, chunks: &mut Vec<Chunk>) {
        match self {
            Self::ChatCompletions(decoder) => decoder.fail(failure, chunks),
            Self::Messages(decoder) => decoder.fail(failure, chunks),
        }
    }
}
