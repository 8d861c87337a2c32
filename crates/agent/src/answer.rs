//! A model's answer while it comes in: what it amounts to, and how it came.
//!
//! Providers are careless with the names of tool calls: there are gateways that give every call of an answer the same id.
//! A log with two pending calls of one name is refused by every reader, and so is such a request by the next provider. So a
//! call whose id another call of the same answer has gets the id `<id>-2`, `<id>-3` and so on, before anything is recorded:
//! message, recorded stream, `tool/call`, result and later requests all have the one name. Nobody but us reads these names;
//! a provider only asks that a result has the name of its call.

use std::collections::{BTreeMap, BTreeSet};

use offshoot_model::{Assembler, Chunk, ContentBlock, Failure, StreamRecorder, codes};

#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) assembler: Assembler,
    pub(crate) recorder: StreamRecorder,
    ids: CallIds,
    failed: bool,
}

impl Answer {
    /// Takes a chunk that arrived at `now`. Returns what everybody else is to know it as; `None` if the answer is over.
    pub(crate) fn push(&mut self, now: i64, chunk: Chunk) -> Option<Chunk> {
        if self.failed {
            return None;
        }
        // Not even the recorded stream of an attempt may hold such a block, so the answer ends before it.
        self.failed = is_not_a_models(&chunk);
        let chunk = if self.failed {
            let message = "the model's answer has a block that only others may write";
            Chunk::failed(Failure::new(codes::MALFORMED_RESPONSE, message))
        } else {
            self.ids.told_apart(chunk)
        };
        self.assembler.push(&chunk);
        self.recorder.push(now, &chunk);
        Some(chunk)
    }

    /// Notes that nobody listens any more. That is not part of what the provider sent, so it is not recorded.
    pub(crate) fn stop(&mut self) {
        self.assembler.push(&Chunk::aborted());
    }
}

/// The ids of an answer's calls by their block.
#[derive(Default)]
struct CallIds(BTreeMap<u64, String>);

impl CallIds {
    fn told_apart(&mut self, mut chunk: Chunk) -> Chunk {
        match &mut chunk {
            Chunk::ToolCallDelta { index, id, .. }
            | Chunk::BlockEnd {
                index,
                block: ContentBlock::ToolCall { id, .. },
            } if !id.is_empty() => *id = self.of_block(*index, id),
            _ => {}
        }
        chunk
    }

    fn of_block(&mut self, index: u64, id: &str) -> String {
        if let Some(known) = self.0.get(&index) {
            return known.clone();
        }
        let numbered = (2_u64..).map(|number| format!("{id}-{number}"));
        let free = std::iter::once(id.to_owned())
            .chain(numbered)
            .find(|id| !self.0.values().any(|taken| taken == id))
            .expect("BUG: the numbers do not end");
        self.0.insert(index, free.clone());
        free
    }
}

/// Why an answer cannot become part of the conversation, if it cannot: a provider would refuse every later request.
pub(crate) fn unsound(content: &[ContentBlock]) -> Option<String> {
    let mut ids = BTreeSet::new();
    for block in content {
        match block {
            ContentBlock::ToolCall { name, .. } if name.is_empty() => {
                return Some("the model called a tool without naming it".into());
            }
            ContentBlock::ToolCall { id, .. } if !ids.insert(id) => {
                return Some(format!("the model made two tool calls with the id `{id}`"));
            }
            _ => {}
        }
    }
    None
}

fn is_not_a_models(chunk: &Chunk) -> bool {
    let block_type = match chunk {
        Chunk::BlockStart { block_type, .. } => block_type.clone(),
        Chunk::BlockEnd { block, .. } => block.block_type(),
        _ => return false,
    };
    matches!(
        &*block_type,
        "" | "tool-result" | "tool-addition" | "tool-removal"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(index: u64, id: &str) -> Chunk {
        Chunk::ToolCallDelta {
            index,
            id: id.into(),
            name: None,
            arguments_delta: String::new(),
        }
    }

    #[test]
    fn calls_with_one_id_are_told_apart_and_keep_their_names_to_the_end() {
        let mut ids = CallIds::default();
        let stream = [
            delta(0, "c"),
            delta(1, ""),
            delta(1, "c"),
            delta(2, "c-2"),
            delta(0, "other"),
            delta(3, "c"),
        ];
        let named: Vec<Chunk> = stream
            .into_iter()
            .map(|chunk| ids.told_apart(chunk))
            .collect();
        assert_eq!(
            named,
            [
                delta(0, "c"),
                delta(1, ""),
                delta(1, "c-2"),
                delta(2, "c-2-2"),
                delta(0, "c"),
                delta(3, "c-3"),
            ]
        );
    }
}
