//! Messages that join a conversation from outside.

use std::sync::Arc;

use offshoot_model::{ContentBlock, Message, MessageSource, RawJson, Role};
use offshoot_session::SideMark;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::events::row_text;

/// A message that joins a conversation: what a person or another part of the program has to say.
///
/// It is the text that the log will hold: nothing of it is written anew when it is claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    id: Arc<str>,
    text: Arc<str>,
}

impl Input {
    /// What a person says.
    #[must_use]
    pub fn user(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::blocks(id, vec![ContentBlock::text(text)], MessageSource::user())
    }

    /// Blocks from somebody.
    #[must_use]
    pub fn blocks(
        id: impl Into<String>,
        content: Vec<ContentBlock>,
        source: MessageSource,
    ) -> Self {
        let message = Message {
            id: id.into(),
            role: Role::User,
            content,
            tool_call_id: None,
            is_error: None,
            source,
        };
        Self {
            text: row_text(&message).get().into(),
            id: message.id.into(),
        }
    }

    /// The message as one that is kept: it stays queued when a cancellation drops what waits, and is queued again when the
    /// turn that has claimed it ends before it was said. (After a crash every message is.) Only whoever names it, or clears
    /// the whole queue, takes it back.
    ///
    /// The mark is the member `kept: true` of the message's source. Readers of V4 allow any member there, and no adapter
    /// sends a source to a provider.
    #[must_use]
    pub fn kept(self) -> Self {
        let Ok(mut message) = serde_json::from_str::<Message>(&self.text) else {
            return self;
        };
        let MessageSource::Other { kind, raw } = message.source else {
            return self;
        };
        let mut members: serde_json::Map<String, Value> =
            serde_json::from_str(raw.get()).expect("BUG: a source is an object");
        members.insert("kept".to_owned(), Value::Bool(true));
        let raw = RawJson::from_value(&members).expect("BUG: what was JSON is JSON");
        message.source = MessageSource::Other { kind, raw };
        Self {
            text: row_text(&message).get().into(),
            id: self.id,
        }
    }

    /// Whether it is [kept](Self::kept).
    #[must_use]
    pub fn is_kept(&self) -> bool {
        #[derive(Deserialize)]
        struct Marked {
            source: Mark,
        }
        #[derive(Deserialize)]
        struct Mark {
            #[serde(default)]
            kept: Value,
        }
        serde_json::from_str::<Marked>(&self.text)
            .is_ok_and(|marked| marked.source.kept == Value::Bool(true))
    }

    /// What it makes of the session that says it, if anything.
    pub(crate) fn side_mark(&self) -> Option<SideMark> {
        #[derive(Deserialize)]
        struct Marked<'a> {
            #[serde(borrow)]
            source: Mark<'a>,
        }
        #[derive(Deserialize)]
        struct Mark<'a> {
            kind: String,
            #[serde(borrow)]
            act: Option<&'a RawValue>,
        }
        let Marked { source } = serde_json::from_str(&self.text).ok()?;
        SideMark::of_source(&source.kind, source.act)
    }

    /// Whether there is a provider that would not accept it: it has nothing in it but text without a visible character.
    pub(crate) fn says_nothing(&self) -> bool {
        let empty = |block: &ContentBlock| matches!(block, ContentBlock::Text { text } if text.trim().is_empty());
        serde_json::from_str::<Message>(&self.text)
            .is_ok_and(|message| message.content.iter().all(empty))
    }

    /// A message as the log has it.
    pub(crate) fn stored(text: Arc<str>) -> Self {
        #[derive(Deserialize)]
        struct Named {
            id: String,
        }
        let id = serde_json::from_str::<Named>(&text)
            .map(|named| named.id)
            .unwrap_or_default();
        Self {
            id: id.into(),
            text,
        }
    }

    /// Its id, unlike that of any other message of its log.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn shared_id(&self) -> Arc<str> {
        Arc::clone(&self.id)
    }

    /// The JSON text of the message.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.text
    }

    pub(crate) fn raw(&self) -> Box<RawValue> {
        RawValue::from_string(self.text.to_string())
            .expect("BUG: it was JSON when it was made or read")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_of_a_kept_message_is_a_member_of_its_source_and_changes_nothing_else() {
        let plain = Input::user("m", "Hi.");
        assert!(!plain.is_kept());
        let kept = plain.clone().kept();
        assert!(kept.is_kept());
        assert_eq!(kept, kept.clone().kept());
        assert_eq!(
            kept.json(),
            plain
                .json()
                .replace(r#"{"kind":"user"}"#, r#"{"kind":"user","kept":true}"#)
        );
    }

    #[test]
    fn a_message_of_empty_text_says_nothing() {
        assert!(Input::user("m", "").says_nothing());
        assert!(Input::blocks("m", Vec::new(), MessageSource::user()).says_nothing());
        // Anthropic refuses text of white space alone, so that its adapter leaves it out.
        assert!(Input::user("m", " \n").says_nothing());
        assert!(!Input::user("m", " . ").says_nothing());
    }
}
