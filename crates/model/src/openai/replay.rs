//! The details of reasoning that OpenRouter wants to see again: signatures and encrypted parts of the models behind it.
//!
//! They come in pieces beside the reasoning's text and are kept as the replay state of the answer:
//! `{"response":{"adapter":"chat-completions","version":1,"reasoning_details":[…]}}`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::message::{Message, MessageSource};
use crate::raw::RawJson;
use crate::stream::ReplayState;

const ADAPTER: &str = "chat-completions";
const VERSION: u64 = 1;

#[derive(Serialize, Deserialize)]
struct Envelope {
    response: Response,
}

#[derive(Serialize, Deserialize)]
struct Response {
    adapter: String,
    version: u64,
    reasoning_details: RawJson,
}

/// The details of one answer as far as they have come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Details(Vec<Map<String, Value>>);

impl Details {
    /// Takes what one event brings. A piece goes on with the last detail if it is of the same index and type.
    pub(crate) fn push(&mut self, pieces: Vec<Value>) {
        for piece in pieces {
            let Value::Object(piece) = piece else {
                continue;
            };
            match self.0.last_mut() {
                Some(last) if continues(last, &piece) => extend(last, piece),
                _ => self.0.push(piece),
            }
        }
    }

    /// The replay state of the answer, if there is anything to keep.
    pub(crate) fn into_replay_state(self) -> Option<ReplayState> {
        if self.0.is_empty() {
            return None;
        }
        let envelope = Envelope {
            response: Response {
                adapter: ADAPTER.to_owned(),
                version: VERSION,
                reasoning_details: RawJson::from_value(&self.0).ok()?,
            },
        };
        RawJson::from_value(&envelope).ok().map(ReplayState::new)
    }
}

/// The text that a piece adds, for servers that give no other.
pub(crate) fn text_of(piece: &Value) -> &str {
    let text = |key| piece.get(key).and_then(Value::as_str);
    text("text").or_else(|| text("summary")).unwrap_or_default()
}

fn continues(last: &Map<String, Value>, piece: &Map<String, Value>) -> bool {
    let same = |key| last.get(key) == piece.get(key);
    // Without an index only the texts of one detail can be told from those of another.
    let is_text = piece.contains_key("text") || piece.contains_key("summary");
    same("type") && same("index") && (piece.contains_key("index") || is_text)
}

fn extend(last: &mut Map<String, Value>, piece: Map<String, Value>) {
    for (key, value) in piece {
        match (last.get_mut(&key), value) {
            (Some(Value::String(whole)), Value::String(more))
                if ["text", "summary", "data"].contains(&key.as_str()) =>
            {
                whole.push_str(&more);
            }
            (Some(_), Value::Null) => {}
            (_, value) => {
                last.insert(key, value);
            }
        }
    }
}

/// The details that `provider` has sent with this answer, if they are ours to send back.
pub(crate) fn details_for(message: &Message, provider: Option<&str>) -> Option<RawJson> {
    let MessageSource::Model {
        provider: made_by,
        replay_state: Some(state),
        ..
    } = &message.source
    else {
        return None;
    };
    let Envelope { response } = serde_json::from_str(state.get()).ok()?;
    let is_ours = response.adapter == ADAPTER && response.version == VERSION;
    (is_ours && provider == Some(made_by.as_str())).then_some(response.reasoning_details)
}
