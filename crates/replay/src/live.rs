//! Answers for sessions that live: whoever and whatever is named in a recorded answer is called otherwise now.
//!
//! Subagents have fresh ids on each run, and a model that sends one a message has to name it; a run has a directory of its own,
//! and a model that reads a file may say all of its path. So where a text, a thought or the arguments of a tool call name a
//! recorded session, they are given with the live session that is bound to that recording, and the recorded working directory
//! is given as the workspace. An override says `{{session:NAME}}`, with the name that the scenario has for it, and `{{cwd}}`.
//! What no session is bound to yet stays as it is.
//!
//! Answers come in pieces that are cut anywhere. They stay as many: a name that begins in a piece is put there as a whole.

use std::collections::BTreeMap;

use offshoot_model::{Chunk, ContentBlock};

use crate::tokens::Tokens;

/// Puts live names in the place of recorded ones.
pub(crate) fn with_live_names(chunks: &mut [Chunk], names: &Tokens) {
    let mut pieces: BTreeMap<u64, Vec<&mut String>> = BTreeMap::new();
    for chunk in chunks {
        match chunk {
            Chunk::ToolCallDelta {
                index,
                arguments_delta: piece,
                ..
            }
            | Chunk::TextDelta { index, text: piece }
            | Chunk::ReasoningDelta { index, text: piece } => {
                pieces.entry(*index).or_default().push(piece);
            }
            Chunk::BlockEnd {
                block:
                    ContentBlock::ToolCall {
                        arguments: whole, ..
                    }
                    | ContentBlock::Text { text: whole }
                    | ContentBlock::Reasoning { text: whole },
                ..
            } => *whole = names.swap(whole),
            _ => {}
        }
    }
    for (_, mut pieces) in pieces {
        swap_across(&mut pieces, names);
    }
}

fn swap_across(pieces: &mut [&mut String], names: &Tokens) {
    let whole: String = pieces.iter().map(|piece| piece.as_str()).collect();
    let found = names.words_in(&whole);
    if found.is_empty() {
        return;
    }
    let mut found = found.into_iter().peekable();
    // Up to where the whole text is dealt with.
    let mut done = 0;
    let mut end = 0;
    for piece in pieces {
        end += piece.len();
        let mut put = String::new();
        while let Some(word) = found.next_if(|word| word.range.start < end) {
            put.push_str(&whole[done..word.range.start]);
            put.push_str(word.token);
            done = word.range.end;
        }
        if done < end {
            put.push_str(&whole[done..end]);
            done = end;
        }
        **piece = put;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Tokens {
        let mut names = Tokens::new();
        names.add("recorded-1", "live-a");
        names.add("recorded-2", "a-longer-live-b");
        names.add("/srv/old", "/srv/new");
        names
    }

    fn call(pieces: &[&str]) -> Vec<Chunk> {
        let delta = |piece: &&str| Chunk::ToolCallDelta {
            index: 0,
            id: "recorded-1".into(),
            name: None,
            arguments_delta: (*piece).to_owned(),
        };
        let end = Chunk::BlockEnd {
            index: 0,
            block: ContentBlock::ToolCall {
                id: "recorded-1".into(),
                name: "send_message".into(),
                arguments: pieces.concat(),
            },
        };
        pieces.iter().map(delta).chain([end]).collect()
    }

    #[test]
    fn a_name_is_replaced_wherever_its_pieces_are_cut() {
        let text = r#"{"to":"recorded-1","cc":"recorded-2","not":"recorded-12"}"#;
        let now = r#"{"to":"live-a","cc":"a-longer-live-b","not":"recorded-12"}"#;
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let cut = [&text[..first], &text[first..second], &text[second..]];
                let mut chunks = call(&cut);
                with_live_names(&mut chunks, &names());
                let pieces: Vec<_> = chunks
                    .iter()
                    .filter_map(|chunk| match chunk {
                        Chunk::ToolCallDelta {
                            arguments_delta, ..
                        } => Some(arguments_delta.as_str()),
                        _ => None,
                    })
                    .collect();
                assert_eq!(pieces.len(), 3);
                assert_eq!(pieces.concat(), now, "{cut:?}");
                assert_eq!(chunks.last(), call(&[now]).last(), "the id of a call stays");
            }
        }
    }

    #[test]
    fn texts_and_thoughts_name_who_and_what_is_there_now() {
        let said = |name: &str| {
            let text = |index| Chunk::TextDelta {
                index,
                text: name.to_owned(),
            };
            let thought = Chunk::BlockEnd {
                index: 1,
                block: ContentBlock::Reasoning { text: name.into() },
            };
            [text(0), text(2), thought]
        };
        let mut chunks = said("in /srv/old, for recorded-1");
        with_live_names(&mut chunks, &names());
        assert_eq!(chunks, said("in /srv/new, for live-a"));
    }
}
