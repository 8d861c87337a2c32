//! What of an answer has to come back to the letter: the signatures of thinking, and thinking that only its maker can read.
//!
//! `{"response":{"adapter":"anthropic-messages","version":1},"blocks":[…]}` with one entry per content block: `null`,
//! `{"type":"thinking","signature":…}` beside a block of reasoning that has the text, or
//! `{"type":"redacted_thinking","data":…}` beside one without text.

use serde::{Deserialize, Serialize};

use crate::message::{Message, MessageSource};
use crate::raw::RawJson;
use crate::stream::ReplayState;

const ADAPTER: &str = "anthropic-messages";
const VERSION: u64 = 1;

#[derive(Serialize, Deserialize)]
struct Envelope {
    response: Response,
    blocks: Vec<Option<Entry>>,
}

#[derive(Serialize, Deserialize)]
struct Response {
    adapter: String,
    version: u64,
}

/// What a content block needs to be sent back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Entry {
    /// The block's text is thinking that was signed so. The signature is empty if the provider gives none.
    Thinking { signature: String },
    /// Thinking that cannot be read.
    RedactedThinking { data: String },
}

/// The replay state of an answer; none if nothing in it needs one.
pub(super) fn state(blocks: Vec<Option<Entry>>) -> Option<ReplayState> {
    if blocks.iter().all(Option::is_none) {
        return None;
    }
    let response = Response {
        adapter: ADAPTER.to_owned(),
        version: VERSION,
    };
    let envelope = RawJson::from_value(&Envelope { response, blocks });
    Some(ReplayState::new(envelope.expect(
        "BUG: an object of strings and numbers always has a JSON form",
    )))
}

/// The entries of a message, one per content block, if `provider` has made it with this adapter. Anything else is ignored:
/// what can be read of such a message is in its blocks.
pub(super) fn entries_for(message: &Message, provider: &str) -> Vec<Option<Entry>> {
    let MessageSource::Model {
        provider: made_by,
        replay_state: Some(state),
        ..
    } = &message.source
    else {
        return Vec::new();
    };
    if made_by != provider {
        return Vec::new();
    }
    let Ok(Envelope { response, blocks }) = serde_json::from_str(state.get()) else {
        return Vec::new();
    };
    let is_ours = response.adapter == ADAPTER && response.version == VERSION;
    if is_ours && blocks.len() == message.content.len() {
        blocks
    } else {
        Vec::new()
    }
}
