//! The answer as it comes in, for a person at a terminal, and what else happens in a turn.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use offshoot_agent::{FrameBody, StreamFrame};
use offshoot_model::{Chunk, ContentBlock};
use offshoot_session::{Body, Event, EventKind};
use serde::Deserialize;

use crate::notes::Notes;
use crate::subagent_lines::SubagentLines;
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
    subagents: SubagentLines,
    /// Where whole lines go while a person types at the same terminal.
    above: Option<Sender<String>>,
    /// The line that has not ended meanwhile.
    unfinished: String,
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

    /// Shows what tools do, and no text: it is for somebody else.
    pub(crate) fn without_text(notes: Notes) -> Self {
        Self {
            streams: false,
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
        self.of_subagents(event);
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

    /// What an event of any log that is watched says of subagents. Nothing else of theirs is shown.
    pub(crate) fn of_subagents(&self, event: &Event) {
        let line = self.state().subagents.line(event);
        if let Some(line) = line {
            self.say(&line);
        }
    }

    /// An answer that nobody has seen come in.
    pub(crate) fn print(&self, answer: &str) {
        let mut state = self.state();
        state.end_line();
        state.print(answer);
        state.end_line();
    }

    /// Says something on a line of its own.
    pub(crate) fn say(&self, message: &str) {
        let mut state = self.state();
        state.end_line();
        if std::io::stderr().is_terminal()
            && let Some(above) = &state.above
        {
            // The terminal is gone, at worst.
            drop(above.send(format!("{message}\n")));
            return;
        }
        drop(state);
        self.notes.say(message);
    }

    /// A person types at the terminal from now on: lines go to where they do not tear theirs.
    pub(crate) fn print_above(&self, above: Sender<String>) {
        self.state().above = Some(above);
    }

    /// The person has done so.
    pub(crate) fn print_below(&self) {
        let mut state = self.state();
        state.above = None;
        let unfinished = std::mem::take(&mut state.unfinished);
        state.print(&unfinished);
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
        self.has_begun = true;
        self.in_line = !text.ends_with('\n');
        if let Some(above) = &self.above {
            self.unfinished.push_str(&text);
            if let Some(end) = self.unfinished.rfind('\n') {
                let rest = self.unfinished.split_off(end + 1);
                let lines = std::mem::replace(&mut self.unfinished, rest);
                // The terminal is gone, at worst.
                drop(above.send(lines));
            }
            return;
        }
        let mut out = std::io::stdout().lock();
        // A reader who has gone away does not stop the turn: what it does is in the log.
        drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    }

    fn end_line(&mut self) {
        if self.in_line {
            self.print("\n");
        }
    }
}
