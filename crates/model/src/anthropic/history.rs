//! The turns of a Messages request.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::replay::{self, Entry};
use super::thinking::MessagesDialect;
use super::wire::{Block, Speaker, WireMessage};
use crate::message::{ContentBlock, Message, Role};
use crate::pictures::{Gallery, Picture};
use crate::raw::RawJson;
use crate::shown::{
    NO_OUTPUT, developer_text, instructions_among_user_text, shown_text, shown_text_of,
};
use crate::surrogates;

/// How long names of tools may be.
const LONGEST_NAME: usize = 128;

/// Writes turns.
pub(super) struct History<'a> {
    dialect: MessagesDialect,
    provider: &'a str,
    gallery: &'a Gallery,
    turns: Vec<WireMessage<'a>>,
    ids: CallIds,
}

impl<'a> History<'a> {
    pub(super) const fn new(
        dialect: MessagesDialect,
        provider: &'a str,
        gallery: &'a Gallery,
    ) -> Self {
        Self {
            dialect,
            provider,
            gallery,
            turns: Vec::new(),
            ids: CallIds::new(),
        }
    }

    pub(super) fn messages(mut self, messages: &'a [Arc<Message>]) -> Vec<WireMessage<'a>> {
        for message in messages {
            match message.role {
                Role::System => self.instructions(&shown_text(&message.content)),
                Role::Developer => self.instructions(&developer_text(&message.content)),
                Role::User => {
                    let blocks = self.user_blocks(&message.content);
                    self.say(Speaker::User, blocks);
                }
                Role::Assistant => {
                    let blocks = self.assistant_blocks(message);
                    self.say(Speaker::Assistant, blocks);
                }
                Role::Tool => self.result(message),
            }
        }
        self.turns
    }

    fn say(&mut self, role: Speaker, blocks: Vec<Block<'a>>) {
        if blocks.is_empty() {
            return;
        }
        match self.turns.last_mut() {
            Some(turn) if turn.role == role => turn.content.extend(blocks),
            _ => self.turns.push(WireMessage {
                role,
                content: blocks,
            }),
        }
    }

    /// Results stand before whatever else is said on that side.
    fn result(&mut self, message: &'a Message) {
        let mut content = self.user_blocks(&message.content);
        if content.is_empty() {
            content.push(Block::text(NO_OUTPUT));
        }
        let id = message.tool_call_id.as_deref().unwrap_or_default();
        let result = Block::ToolResult {
            tool_use_id: self.ids.answered(id),
            content,
            is_error: message.is_error.unwrap_or(false),
            cache_control: None,
        };
        match self.turns.last_mut() {
            Some(turn) if turn.role == Speaker::User => {
                let place = turn.content.iter().take_while(|block| block.is_result());
                let place = place.count();
                turn.content.insert(place, result);
            }
            _ => self.say(Speaker::User, vec![result]),
        }
    }

    fn instructions(&mut self, text: &str) {
        if !text.trim().is_empty() {
            let text = instructions_among_user_text(text);
            self.say(Speaker::User, vec![Block::text(text)]);
        }
    }

    /// Blocks as they come. White space alone is refused by the provider.
    fn user_blocks(&self, content: &'a [ContentBlock]) -> Vec<Block<'a>> {
        let mut blocks = Vec::with_capacity(content.len());
        for block in content {
            match self.gallery.picture(block) {
                Some(Picture::Named(line)) => blocks.push(Block::text(line)),
                Some(Picture::Shown {
                    line,
                    media_type,
                    base64,
                }) => {
                    blocks.push(Block::text(line));
                    blocks.push(Block::image(media_type, base64));
                }
                None => {
                    let text = shown_text_of(block).filter(|text| !text.trim().is_empty());
                    blocks.extend(text.map(Block::text));
                }
            }
        }
        blocks
    }

    /// Reasoning goes back only as what the provider has signed; that of others is not sent.
    fn assistant_blocks(&mut self, message: &'a Message) -> Vec<Block<'a>> {
        let mut entries = replay::entries_for(message, self.provider).into_iter();
        self.ids.next_answer();
        let mut blocks = Vec::with_capacity(message.content.len());
        for block in &message.content {
            let entry = entries.next().flatten();
            match block {
                ContentBlock::Reasoning { text } => blocks.extend(self.thinking(text, entry)),
                ContentBlock::Text { text } if !text.trim().is_empty() => {
                    blocks.push(Block::text(text));
                }
                ContentBlock::ToolCall {
                    id,
                    name,
                    arguments,
                } => blocks.push(Block::ToolUse {
                    id: self.ids.called(id),
                    name: acceptable(name, LONGEST_NAME),
                    input: input(arguments),
                }),
                _ => {}
            }
        }
        // The provider refuses thinking that leads to nothing, as of an answer that hit its limit before it had begun.
        while blocks.last().is_some_and(Block::is_thinking) {
            blocks.pop();
        }
        blocks
    }

    fn thinking(&self, text: &'a str, entry: Option<Entry>) -> Option<Block<'a>> {
        Some(match entry? {
            Entry::RedactedThinking { data } => Block::RedactedThinking { data },
            Entry::Thinking { signature } => {
                if signature.is_empty() && !self.dialect.unsigned_thinking {
                    return None;
                }
                Block::Thinking {
                    thinking: text,
                    signature,
                }
            }
        })
    }
}

/// The arguments of a call as the object that the provider demands, to the letter where they are one. What a model wrote
/// that is none is shown to it as such, so that it can see what the tool's complaint is about.
fn input(arguments: &str) -> Cow<'_, RawValue> {
    #[derive(Serialize)]
    struct Unreadable<'a> {
        unreadable_arguments: &'a str,
    }
    let text = arguments.trim();
    if text.is_empty() {
        return Cow::Owned(raw("{}".to_owned()));
    }
    if text.starts_with('{') {
        match surrogates::replace_lone(text) {
            Cow::Borrowed(text) => {
                if let Ok(object) = serde_json::from_str::<&RawValue>(text) {
                    return Cow::Borrowed(object);
                }
            }
            Cow::Owned(text) => {
                if let Ok(object) = RawValue::from_string(text) {
                    return Cow::Owned(object);
                }
            }
        }
    }
    let unreadable = RawJson::from_value(&Unreadable {
        unreadable_arguments: arguments,
    });
    Cow::Owned(
        unreadable
            .expect("BUG: an object of one string always has a JSON form")
            .into(),
    )
}

fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).expect("BUG: the text is JSON")
}

/// Names of calls as the provider takes them: of few characters, and each once in a whole request. Those of other providers
/// may be neither; some number the calls of each answer from 0.
struct CallIds {
    used: BTreeSet<String>,
    /// Of the last answer, by the name in the log.
    current: BTreeMap<String, String>,
}

impl CallIds {
    const fn new() -> Self {
        Self {
            used: BTreeSet::new(),
            current: BTreeMap::new(),
        }
    }

    fn next_answer(&mut self) {
        self.current.clear();
    }

    fn called<'a>(&mut self, id: &'a str) -> Cow<'a, str> {
        let plain = acceptable(id, usize::MAX);
        let mut name = plain.clone();
        let mut count = 1_u64;
        while self.used.contains(name.as_ref()) {
            count += 1;
            name = Cow::Owned(format!("{plain}_{count}"));
        }
        self.used.insert(name.to_string());
        self.current.insert(id.to_owned(), name.to_string());
        name
    }

    fn answered<'a>(&self, id: &'a str) -> Cow<'a, str> {
        match self.current.get(id) {
            Some(name) if name != id => Cow::Owned(name.clone()),
            Some(_) => Cow::Borrowed(id),
            None => acceptable(id, usize::MAX),
        }
    }
}

/// The word with what is not a letter, a digit, `_` or `-` replaced.
fn acceptable(word: &str, longest: usize) -> Cow<'_, str> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !word.is_empty() && word.len() <= longest && word.chars().all(is_fine) {
        return Cow::Borrowed(word);
    }
    let fixed = word.chars().map(|c| if is_fine(c) { c } else { '_' });
    let fixed: String = fixed.take(longest).collect();
    Cow::Owned(if fixed.is_empty() {
        "_".to_owned()
    } else {
        fixed
    })
}
