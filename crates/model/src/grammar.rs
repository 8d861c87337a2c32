//! The rules of a stream of chunks. `reference/agent.md` §2.2.
//!
//! Adapters keep them, whatever a provider sends. Whoever writes an adapter, or reads chunks that somebody else has written,
//! can have them checked.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::message::ContentBlock;
use crate::stream::{Chunk, FinishReason};

/// A rule that a stream has broken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GrammarError {
    /// An index that was in use before begins a block.
    #[error("block {index} begins a second time")]
    OpenedTwice {
        /// The block.
        index: u64,
    },
    /// Something of a block that has not begun or is over.
    #[error("block {index} is not open")]
    NotOpen {
        /// The block.
        index: u64,
    },
    /// A block of one type has content of another.
    #[error("block {index} is of type `{expected}`, and has content of type `{found}`")]
    WrongType {
        /// The block.
        index: u64,
        /// What it began as.
        expected: String,
        /// What came.
        found: String,
    },
    /// More than one account of what the call used.
    #[error("usage is reported a second time")]
    SecondUsage,
    /// Something behind the finish.
    #[error("something follows the finish")]
    AfterFinish,
    /// An answer that is complete leaves blocks open.
    #[error("block {index} is still open when the answer is complete")]
    LeftOpen {
        /// The first such block.
        index: u64,
    },
    /// The stream has no finish.
    #[error("the stream ends without a finish")]
    NoFinish,
}

/// Checks one stream, chunk by chunk.
#[derive(Clone, Debug, Default)]
pub struct StreamGrammar {
    /// The type of each block while it is open.
    blocks: BTreeMap<u64, Option<String>>,
    has_usage: bool,
    finished: bool,
}

impl StreamGrammar {
    /// A grammar of a stream that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next chunk.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn check(&mut self, chunk: &Chunk) -> Result<(), GrammarError> {
        if self.finished {
            return Err(GrammarError::AfterFinish);
        }
        match chunk {
            Chunk::BlockStart { index, block_type } => {
                let before = self.blocks.insert(*index, Some(block_type.clone()));
                match before {
                    None => Ok(()),
                    Some(_) => Err(GrammarError::OpenedTwice { index: *index }),
                }
            }
            Chunk::TextDelta { index, .. } => self.is_open(*index, "text"),
            Chunk::ReasoningDelta { index, .. } => self.is_open(*index, "reasoning"),
            Chunk::ToolCallDelta { index, .. } => self.is_open(*index, "tool-call"),
            Chunk::BlockEnd { index, block } => self.end_block(*index, block),
            Chunk::Usage { .. } if self.has_usage => Err(GrammarError::SecondUsage),
            Chunk::Usage { .. } => {
                self.has_usage = true;
                Ok(())
            }
            Chunk::Finish { reason, .. } => self.finish(reason),
        }
    }

    /// Says that no more chunks come.
    ///
    /// # Errors
    /// There was no finish.
    pub fn end(&self) -> Result<(), GrammarError> {
        self.finished.then_some(()).ok_or(GrammarError::NoFinish)
    }

    fn is_open(&self, index: u64, found: &str) -> Result<(), GrammarError> {
        let Some(Some(expected)) = self.blocks.get(&index) else {
            return Err(GrammarError::NotOpen { index });
        };
        if expected == found {
            return Ok(());
        }
        Err(GrammarError::WrongType {
            index,
            expected: expected.clone(),
            found: found.to_owned(),
        })
    }

    fn end_block(&mut self, index: u64, block: &ContentBlock) -> Result<(), GrammarError> {
        self.is_open(index, &block.block_type())?;
        self.blocks.insert(index, None);
        Ok(())
    }

    fn finish(&mut self, reason: &FinishReason) -> Result<(), GrammarError> {
        self.finished = true;
        let failed = matches!(
            reason,
            FinishReason::Error { .. } | FinishReason::Aborted { .. }
        );
        let open = self.blocks.iter().find(|(_, kind)| kind.is_some());
        match open {
            Some((index, _)) if !failed => Err(GrammarError::LeftOpen { index: *index }),
            _ => Ok(()),
        }
    }
}
