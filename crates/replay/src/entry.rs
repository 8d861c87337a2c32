//! One answer of a script: what the model says, how fast, and what it waits for (`reference/agent.md` §8.1).
//!
//! As JSON an entry is an object with the member `kind`:
//!
//! | `kind` | what happens | members of its own |
//! |---|---|---|
//! | `chunks` | the chunks are given; the last is a finish | `chunks` |
//! | `throw` | the chunks are given, then the call fails | `chunks`, `message`, `code`, `status`?, `providerRetryAfterMs`? |
//! | `hang` | the chunks are given, then nothing comes until the call is cancelled | `chunks`? (a text block with `partial` in it) |
//!
//! Every kind can have `paceMs` (a wait of so many milliseconds before each chunk), and `holdUntil`: before the chunk number
//! `holdAfter` (0 unless said) the answer waits until that file is there. `readyFile` is a file that appears when the answer
//! has come to a halt, at the hold if it has one, else where it hangs. Files are named relative to the workspace of the
//! scenario.
//!
//! In place of a list, `chunks` may be `"recorded"`: what was recorded for this call. So a recorded answer is held or paced, or
//! one that was cut off hangs where it broke off, without being written down again.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use offshoot_agent::{Asked, RecordedCall};
use offshoot_model::{Attempt, Chunk, Failure, StreamGrammar};
use offshoot_session::Seq;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// One answer of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What is given.
    pub chunks: Vec<Chunk>,
    /// What comes behind it.
    pub end: End,
    /// The wait before each chunk.
    pub pace: Duration,
    /// What it waits for on the way.
    pub hold: Option<Hold>,
    /// A file of the workspace that appears when the answer has come to a halt.
    pub ready_file: Option<PathBuf>,
    /// The recorded call that it answers, if there is one.
    pub recorded: Option<Recorded>,
    /// Whether an override says it, and not the recording.
    pub is_written: bool,
    /// Whether it says something else than was recorded, so that what was recorded behind it belongs to another conversation.
    pub changes_course: bool,
}

/// What comes behind the chunks of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// Nothing: the last chunk was a finish.
    Nothing,
    /// The call fails.
    Throw(Failure),
    /// Nothing, until somebody cancels the call.
    Hang,
}

/// A halt on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// How many chunks were given then.
    pub after: usize,
    /// The file of the workspace that ends it.
    pub until: PathBuf,
}

/// Which recorded call an entry answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The event that settled it.
    pub seq: Seq,
    /// What was asked.
    pub asked: Asked,
}

impl Entry {
    /// The answer to a recorded call, as it was recorded.
    #[must_use]
    pub fn of_call(call: RecordedCall) -> Self {
        let recorded = Some(Recorded {
            seq: call.seq,
            asked: call.asked,
        });
        let (chunks, end) = match call.attempt {
            Attempt::Chunks(chunks) => (chunks, End::Nothing),
            Attempt::Throw {
                chunks,
                message,
                code,
            } => (chunks, End::Throw(Failure::new(code, message))),
            Attempt::Hang { chunks } => (chunks, End::Hang),
        };
        Self {
            chunks,
            end,
            pace: Duration::ZERO,
            hold: None,
            ready_file: None,
            recorded,
            is_written: false,
            changes_course: false,
        }
    }
}

/// An entry as it was written, before it is known which recorded call it answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written {
    chunks: WrittenChunks,
    end: End,
    pace: Duration,
    hold: Option<Hold>,
    ready_file: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq)]
enum WrittenChunks {
    These(Vec<Chunk>),
    Recorded,
}

/// What is wrong with a piece of an override, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// As in `patches[1].entry.chunks[0]`; empty for the whole.
    pub(crate) place: String,
    pub(crate) problem: String,
}

impl Fault {
    pub(crate) fn here(problem: impl Into<String>) -> Self {
        Self {
            place: String::new(),
            problem: problem.into(),
        }
    }

    /// The same, seen from outside.
    pub(crate) fn within(self, outer: &str) -> Self {
        let joint = if self.place.is_empty() || self.place.starts_with('[') {
            ""
        } else {
            "."
        };
        Self {
            place: format!("{outer}{joint}{}", self.place),
            problem: self.problem,
        }
    }
}

/// The members of a JSON object, each taken once, so that whatever is left over can be refused.
pub(crate) struct Members<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Members<'a> {
    pub(crate) fn of(json: &'a RawValue) -> Result<Self, Fault> {
        serde_json::from_str(json.get())
            .map(Self)
            .map_err(|_| Fault::here("it has to be an object"))
    }

    pub(crate) fn raw(&mut self, name: &str) -> Option<&'a RawValue> {
        self.0.remove(name)
    }

    pub(crate) fn need(&mut self, name: &str) -> Result<&'a RawValue, Fault> {
        self.raw(name)
            .ok_or_else(|| Fault::here(format!("`{name}` is missing")))
    }

    fn optional<T: DeserializeOwned>(
        &mut self,
        name: &str,
        what: &str,
    ) -> Result<Option<T>, Fault> {
        let Some(json) = self.raw(name) else {
            return Ok(None);
        };
        let read = serde_json::from_str(json.get());
        read.map(Some).map_err(|_| {
            let problem = format!("it has to be {what}, and is {}", short(json.get()));
            Fault::here(problem).within(name)
        })
    }

    fn text(&mut self, name: &str) -> Result<String, Fault> {
        let text: Option<String> = self.optional(name, "a text")?;
        let text = text.ok_or_else(|| Fault::here(format!("`{name}` is missing")))?;
        if text.is_empty() {
            return Err(Fault::here("it says nothing").within(name));
        }
        Ok(text)
    }

    pub(crate) fn nothing_else(self, what: &str) -> Result<(), Fault> {
        match self.0.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(Fault::here(format!("{what} has no member `{name}`"))),
        }
    }
}

/// A value as a message quotes it.
pub(crate) fn short(json: &str) -> String {
    const MOST: usize = 40;
    if json.chars().count() <= MOST {
        return format!("`{json}`");
    }
    let cut: String = json.chars().take(MOST).collect();
    format!("`{cut}…`")
}

impl Written {
    pub(crate) fn read(json: &RawValue) -> Result<Self, Fault> {
        let mut members = Members::of(json)?;
        let kind = members.text("kind")?;
        let chunks = members.raw("chunks").map(WrittenChunks::read).transpose();
        let chunks = chunks.map_err(|fault| fault.within("chunks"))?;
        let needs_chunks = || Fault::here("`chunks` is missing");
        let (chunks, end) = match kind.as_str() {
            "chunks" => (chunks.ok_or_else(needs_chunks)?, End::Nothing),
            "throw" => {
                let mut failure = Failure::new(members.text("code")?, members.text("message")?);
                failure.status = members.optional("status", "a status of HTTP, 100 to 599")?;
                if failure
                    .status
                    .is_some_and(|status| !(100..600).contains(&status))
                {
                    let problem = "it has to be a status of HTTP, 100 to 599";
                    return Err(Fault::here(problem).within("status"));
                }
                failure.provider_retry_after_ms =
                    members.optional("providerRetryAfterMs", "a whole number of milliseconds")?;
                (chunks.ok_or_else(needs_chunks)?, End::Throw(failure))
            }
            "hang" => (chunks.unwrap_or_else(WrittenChunks::partial), End::Hang),
            other => {
                let problem =
                    format!("there is no kind `{other}`: it is `chunks`, `throw` or `hang`");
                return Err(Fault::here(problem).within("kind"));
            }
        };
        let pace: Option<u64> = members.optional("paceMs", "a whole number of milliseconds")?;
        let ready_file = file(&mut members, "readyFile")?;
        let until = file(&mut members, "holdUntil")?;
        let after: Option<usize> = members.optional("holdAfter", "a number of chunks")?;
        members.nothing_else(&format!("an entry of the kind `{kind}`"))?;
        let hold = match (until, after) {
            (Some(until), after) => Some(Hold {
                until,
                after: after.unwrap_or(0),
            }),
            (None, None) => None,
            (None, Some(_)) => {
                let problem = "there is no `holdUntil` that it could say the place of";
                return Err(Fault::here(problem).within("holdAfter"));
            }
        };
        if ready_file.is_some() && hold.is_none() && end != End::Hang {
            let problem =
                "this answer never comes to a halt: it needs `holdUntil`, or the kind `hang`";
            return Err(Fault::here(problem).within("readyFile"));
        }
        Ok(Self {
            chunks,
            end,
            pace: Duration::from_millis(pace.unwrap_or(0)),
            hold,
            ready_file,
        })
    }

    /// The entry, in the place of what was recorded, if something was.
    pub(crate) fn in_place_of(self, recorded: Option<&Entry>) -> Result<Entry, Fault> {
        let in_chunks = |problem: &str| Fault::here(problem).within("chunks");
        let chunks = match self.chunks {
            WrittenChunks::These(chunks) => {
                check_grammar(&chunks, &self.end)?;
                chunks
            }
            WrittenChunks::Recorded => {
                let call = recorded.filter(|entry| entry.recorded.is_some());
                let call = call.ok_or_else(|| in_chunks("nothing was recorded here"))?;
                let mut chunks = call.chunks.clone();
                let is_finished = matches!(chunks.last(), Some(Chunk::Finish { .. }));
                match self.end {
                    End::Nothing if !is_finished => {
                        let problem = "the recorded answer has no finish: let it `throw` or `hang`";
                        return Err(in_chunks(problem));
                    }
                    End::Throw(_) | End::Hang if is_finished => {
                        chunks.pop();
                    }
                    End::Nothing | End::Throw(_) | End::Hang => {}
                }
                chunks
            }
        };
        if let Some(hold) = &self.hold
            && hold.after > chunks.len()
        {
            let problem = format!("the answer has only {} chunks", chunks.len());
            return Err(Fault::here(problem).within("holdAfter"));
        }
        let is_same = recorded.is_some_and(|entry| entry.chunks == chunks);
        Ok(Entry {
            chunks,
            end: self.end,
            pace: self.pace,
            hold: self.hold,
            ready_file: self.ready_file,
            recorded: recorded.and_then(|entry| entry.recorded),
            is_written: true,
            changes_course: !is_same,
        })
    }
}

impl WrittenChunks {
    fn read(json: &RawValue) -> Result<Self, Fault> {
        if json.get() == r#""recorded""# {
            return Ok(Self::Recorded);
        }
        let list: Vec<&RawValue> = serde_json::from_str(json.get())
            .map_err(|_| Fault::here(r#"it has to be a list of chunks, or "recorded""#))?;
        let read = |(at, json): (usize, &RawValue)| {
            let chunk = serde_json::from_str::<Chunk>(json.get());
            chunk.map_err(|error| Fault::here(without_place(&error)).within(&format!("[{at}]")))
        };
        let chunks: Result<Vec<_>, _> = list.into_iter().enumerate().map(read).collect();
        chunks.map(Self::These)
    }

    /// What a model that hangs has begun to say, unless something else is written.
    fn partial() -> Self {
        Self::These(vec![
            Chunk::BlockStart {
                index: 0,
                block_type: "text".to_owned(),
            },
            Chunk::TextDelta {
                index: 0,
                text: "partial".to_owned(),
            },
        ])
    }
}

/// What serde says, without a line and a column of a text that nobody has in front of him.
pub(crate) fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

/// Chunks that somebody has written keep the rules of a stream. Recorded ones are what they are.
fn check_grammar(chunks: &[Chunk], end: &End) -> Result<(), Fault> {
    let mut grammar = StreamGrammar::new();
    let within = |at: usize| format!("chunks[{at}]");
    for (at, chunk) in chunks.iter().enumerate() {
        let broken = |error: offshoot_model::GrammarError| Fault::here(error.to_string());
        grammar
            .check(chunk)
            .map_err(|error| broken(error).within(&within(at)))?;
        if matches!(chunk, Chunk::Finish { .. }) && *end != End::Nothing {
            let problem = "an answer that throws or hangs has no finish";
            return Err(Fault::here(problem).within(&within(at)));
        }
    }
    if *end == End::Nothing && grammar.end().is_err() {
        let problem =
            "the last chunk has to be a finish: let an answer without one `throw` or `hang`";
        return Err(Fault::here(problem).within("chunks"));
    }
    Ok(())
}

fn file(members: &mut Members<'_>, name: &str) -> Result<Option<PathBuf>, Fault> {
    let Some(path) = members.optional::<PathBuf>(name, "the name of a file")? else {
        return Ok(None);
    };
    let is_inside = |path: &Path| {
        let mut parts = path.components().peekable();
        parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
    };
    if is_inside(&path) {
        return Ok(Some(path));
    }
    let problem = "it has to name a file in the workspace, relative to it";
    Err(Fault::here(problem).within(name))
}
