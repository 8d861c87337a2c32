//! How a provider is spoken to.

use crate::anthropic;
use crate::anthropic::thinking::MessagesDialect;
use crate::message::{ContentBlock, ModelRequest};
use crate::openai;
use crate::openai::dialect::Dialect;
use crate::pictures::{Gallery, Pictures};
use crate::stream::Failure;

/// The protocol of a provider, and how it speaks it. With the log it decides every byte of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// OpenAI's chat completions.
    ChatCompletions(Dialect),
    /// Anthropic's Messages.
    Messages(MessagesDialect),
}

impl Protocol {
    /// The exact bytes of the body of the call that `request` asks for.
    ///
    /// # Errors
    /// [`codes::IMAGE_OFFLOAD_REQUIRED`](crate::codes::IMAGE_OFFLOAD_REQUIRED) if the history has more pictures than
    /// `pictures` admits, [`codes::UNSUPPORTED_CONTENT`](crate::codes::UNSUPPORTED_CONTENT) if one of them cannot be read.
    pub fn encode(
        &self,
        request: &ModelRequest,
        pictures: Pictures<'_>,
    ) -> Result<Vec<u8>, Failure> {
        let gallery = Gallery::load(&request.messages, pictures)?;
        Ok(match self {
            Self::ChatCompletions(dialect) => openai::encode::encode(request, *dialect, &gallery),
            Self::Messages(dialect) => anthropic::encode::encode(request, *dialect, &gallery),
        })
    }
}

/// Whether anything has to be fetched before the request can be written.
#[cfg_attr(
    not(feature = "http"),
    expect(dead_code, reason = "only the transport cares where it waits")
)]
pub(crate) fn has_pictures(request: &ModelRequest) -> bool {
    let mut blocks = request.messages.iter().flat_map(|message| &message.content);
    blocks.any(|block| {
        matches!(
            block,
            ContentBlock::Image {
                offloaded: false,
                ..
            }
        )
    })
}
