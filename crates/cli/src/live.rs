//! The answer as it comes in, for a person at a terminal, and what else happens in a turn.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};

use offshoot_agent::{FrameBody, StreamFrame};
use offshoot_model::{Chunk, ContentBlock};
use offshoot_session::{Body, Event, EventKind};
use serde::Deserialize;

use crate::notes::Notes;
use crate::text;

/// Prints on standard output what comes in, if that is a terminal; what tools do goes to standard error.
#[derive(Debug)]
pub(crate) struct Live {
    /// Whether somebody sees the text while it comes in.
    streams: bool,
    notes: Notes,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the last line that was printed has not ended.
    in_line: bool,
    /// Whether this attempt has printed something.
    has_begun: bool,
    /// The block that is being printed.
    block: Option<u64>,
    /// The tools of the calls that have no result yet, by their ids, which say nothing to a person.
    calls: BTreeMap<String, String>,
}

impl Live {
    /// For standard output as it is.
    pub(crate) fn new(notes: Notes) -> Self {
        Self {
            streams: std::io::stdout().is_terminal(),
            notes,
            state: Mutex::default(),
        }
    }

    /// Prints whether anybody sees it come in or not: the text is the conversation itself.
    pub(crate) fn always(notes: Notes) -> Self {
        Self {
            streams: true,
            ..Self::new(notes)
        }
    }

    /// Whether the answer has been seen when its turn is over.
    pub(crate) const fn streams(&self) -> bool {
        self.streams
    }

    /// A part of the answer.
    pub(crate) fn frame(&self, frame: &StreamFrame) {
        if !self.streams {
            return;
        }
        let mut state = self.state();
        match &frame.body {
            FrameBody::Start { .. } => {
                state.end_line();
                state.has_begun = false;
                state.block = None;
            }
            FrameBody::Chunk { chunk, .. } => state.chunk(chunk),
            FrameBody::Committed { .. } => state.end_line(),
            FrameBody::Abandoned => {
                let said_something = state.has_begun;
                state.end_line();
                drop(state);
                if said_something {
                    self.notes
                        .say("note: this answer broke off; what counts is in the log");
                }
            }
        }
    }

    /// An event that is in the log.
    pub(crate) fn event(&self, event: &Event) {
        match event.body() {
            Body::ToolCall(_, call) => {
                let asked = format!("{}({})", call.name, call.arguments);
                self.say(&format!("· {}", text::shorten(&asked)));
                let mut state = self.state();
                state
                    .calls
                    .insert(call.id.to_string(), call.name.to_string());
                return;
            }
            Body::ToolResult { call_id, .. } => {
                let name = self.state().calls.remove(&**call_id);
                if let Some(error) = text::call_error(event) {
                    let name = name.unwrap_or_default();
                    self.say(&format!("· {}", text::shorten(&format!("{name}: {error}"))));
                }
                return;
            }
            _ => {}
        }
        match event.kind() {
            EventKind::CompactionStart => self.say("· older history is summarised"),
            EventKind::LlmRetry => {
                if let Some(retry) = event.parse().ok().as_ref().map(retrying) {
                    self.say(&retry);
                }
            }
            _ => {}
        }
    }

    /// Says something on a line of its own.
    pub(crate) fn say(&self, message: &str) {
        self.state().end_line();
        self.notes.say(message);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing panics between two changes of the state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A failed attempt that will be made again.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Retry {
    retry: u64,
    max_retries: Option<u64>,
    delay_ms: u64,
    failure: Failed,
}

#[derive(Deserialize)]
struct Failed {
    message: String,
    code: String,
}

fn retrying(retry: &Retry) -> String {
    let Retry {
        retry,
        max_retries,
        delay_ms,
        failure,
    } = retry;
    let of = max_retries.map_or_else(String::new, |max| format!(" of {max}"));
    let seconds = delay_ms.div_ceil(1000);
    text::printable(&format!(
        "· {} ({}); try {retry}{of} in about {seconds} s",
        failure.message, failure.code
    ))
}

impl State {
    fn chunk(&mut self, chunk: &Chunk) {
        match chunk {
            Chunk::TextDelta { index, text } => {
                self.begin(*index);
                self.print(text);
            }
            // A block that came in pieces has been printed already.
            Chunk::BlockEnd {
                index,
                block: ContentBlock::Text { text },
            } if self.block != Some(*index) => {
                self.begin(*index);
                self.print(text);
            }
            _ => {}
        }
    }

    /// Blocks stand apart.
    fn begin(&mut self, index: u64) {
        if self.block == Some(index) {
            return;
        }
        self.block = Some(index);
        if self.has_begun {
            self.end_line();
            self.print("\n");
        }
    }

    fn print(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let text = text::printable(text);
        let mut out = std::io::stdout().lock();
        // A reader who has gone away does not stop the turn: what it does is in the log.
        drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
        self.has_begun = true;
        self.in_line = !text.ends_with('\n');
    }

    fn end_line(&mut self) {
        if self.in_line {
            self.print("\n");
        }
    }
}
