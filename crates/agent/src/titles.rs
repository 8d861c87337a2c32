//! What sessions are called (`reference/agent.md` §2.10).
//!
//! A conversation is named after the first words that a person said in it. A model may be asked for something better: on the
//! side, once, with the request logged before it is made; what goes wrong there harms nothing. What a person calls a session
//! it is called from then on. The last `session/title` of the log counts.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use offshoot_model::{
    Assembler, CallConfig, ContentBlock, FinishReason, Message, MessageSource, Model, ModelRequest,
    Role,
};
use offshoot_session::{Event, EventKind, EventLog, LiveSession, Seq, SurfaceOp};
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::AgentError;
use crate::core::Core;
use crate::driver::Driver;
use crate::events::{logged, read, texts};

/// The most bytes that a title has.
const MAX_TITLE: usize = 200;

/// The most bytes of a title that a model has thought of.
const MAX_MODEL_TITLE: usize = 80;

/// How much of a message is shown to a model that looks for a title, and how many of them.
const SHOWN_BYTES: usize = 2_000;
const SHOWN_MESSAGES: usize = 20;

/// How long an answer may be, in tokens, unless the configuration says otherwise.
const MAX_TOKENS: u64 = 256;

/// How long a model may take.
const PATIENCE: Duration = Duration::from_secs(60);

const SYSTEM: &str = "You name conversations between a person and a coding assistant, so that the person finds them again. \
Answer with the name alone: one line of plain text in the language of the messages, about five words, without quotation \
marks, markup or a full stop. If there is little to go by, name what there is.";

/// What every reader of the format expects in front of the messages.
const PROMPT: &str = "Generate the session title from this JSON array of human messages:\n";

/// The model that is asked for titles.
#[derive(Clone, Debug)]
pub struct TitleModel {
    /// What answers.
    pub model: Arc<dyn Model>,
    /// How it is called.
    pub call: CallConfig,
    /// When.
    pub cadence: TitleCadence,
}

/// When a model is asked for a title.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TitleCadence {
    /// With the first message of a conversation. A fork, which has one, keeps the title that it inherits.
    #[default]
    FirstPrompt,
    /// With every message of a person, until a person names the session.
    AllPrompts,
}

impl TitleCadence {
    const fn provider(self) -> &'static str {
        match self {
            Self::FirstPrompt => "offshoot-first-prompt",
            Self::AllPrompts => "offshoot-all-prompts",
        }
    }
}

/// The title of a session, if it has one.
#[must_use]
pub fn title_of(log: &EventLog) -> Option<String> {
    last_title(log).map(|title| title.title)
}

/// Calls a session what a person wants it called. `now` is in ms since the epoch.
///
/// # Errors
/// `INVALID_TITLE`: it is empty, longer than 200 bytes, or not one line of text. Or the log refused it.
pub fn rename(session: &LiveSession, title: &str, now: i64) -> Result<Arc<Event>, AgentError> {
    let title = title.trim();
    let problem = if title.is_empty() {
        "it is empty"
    } else if title.len() > MAX_TITLE {
        "it is longer than 200 bytes"
    } else if title.chars().any(char::is_control) {
        "it has control characters or several lines"
    } else {
        let data = SessionTitle {
            title,
            message_seqs: &[],
            source: TitleSource::User,
        };
        return Ok(session.append(logged(EventKind::SessionTitle, &data), now)?);
    };
    Err(AgentError::InvalidTitle(problem))
}

impl Driver {
    /// Names a conversation when a person has said something in it.
    pub(crate) fn log_title(&self, prompts: &[Arc<Event>]) -> Result<(), AgentError> {
        let said: Vec<Said> = prompts.iter().filter_map(|event| said(event)).collect();
        let Some(first) = said.first() else {
            return Ok(());
        };
        let log = self.session.log();
        let is_new = log.title().is_none();
        if is_new && let Some(title) = fallback_title(&first.text) {
            let data = SessionTitle {
                title: &title,
                message_seqs: &[first.seq],
                source: TitleSource::Fallback,
            };
            self.append(logged(EventKind::SessionTitle, &data))?;
        }
        let Some(titles) = self.titles.clone() else {
            return Ok(());
        };
        match titles.cadence {
            TitleCadence::FirstPrompt if is_new => self.ask_for_title(&titles, said),
            TitleCadence::AllPrompts if !is_named_by_a_person(&log) => {
                let events = (0..log.end().get()).rev().map(Seq::new);
                let before = events.filter_map(|seq| log.get(seq)).filter(|event| {
                    let is_now = prompts.iter().any(|prompt| prompt.seq() == event.seq());
                    !is_now && event.surface_op() == Some(SurfaceOp::Append)
                });
                let before = before.filter_map(|event| self::said(event));
                let mut all: Vec<_> = before.take(SHOWN_MESSAGES).collect();
                all.reverse();
                all.extend(said);
                all.drain(..all.len().saturating_sub(SHOWN_MESSAGES));
                self.ask_for_title(&titles, all)
            }
            _ => Ok(()),
        }
    }

    /// Waits until a model that was asked for a title has answered, which takes a minute at most.
    pub async fn titled(&self) {
        self.core.titling.wait().await;
    }

    /// Calls the session what a person wants it called: no model renames it any more.
    ///
    /// # Errors
    /// As [`rename`].
    pub fn rename(&self, title: &str) -> Result<(), AgentError> {
        rename(&self.session, title, self.env.now()).map(drop)
    }

    fn ask_for_title(&self, titles: &TitleModel, said: Vec<Said>) -> Result<(), AgentError> {
        let mut call = titles.call.clone();
        call.max_tokens = call.max_tokens.or(Some(MAX_TOKENS));
        // Whoever cannot be asked is not.
        let Ok(prepared) = titles.model.prepare(&call) else {
            return Ok(());
        };
        let config = prepared.config;
        let seqs: Vec<Seq> = said.iter().map(|said| said.seq).collect();
        let json = serde_json::to_string(&said).expect("BUG: numbers and strings have a JSON form");
        let source = MessageSource::of_kind("dsh-session-title-llm");
        let id = self.env.fresh_id();
        let message = Message::text(id, Role::User, format!("{PROMPT}{json}"), source);
        let data = TitleRequest {
            title_provider: titles.cadence.provider(),
            message_seqs: &seqs,
            route: Route {
                provider: &config.provider,
                model: &config.model,
            },
            system: SYSTEM,
            messages: [&message],
            max_tokens: config.max_tokens.unwrap_or(MAX_TOKENS),
            reasoning_effort: config.reasoning_effort.as_deref(),
        };
        self.append(logged(EventKind::SessionTitleLlmRequest, &data))?;
        let system = MessageSource::of_kind("system-prompt");
        let system = Message::text(self.env.fresh_id(), Role::System, SYSTEM, system);
        let asked = Asked {
            core: Arc::downgrade(&self.core),
            model: Arc::clone(&titles.model),
            provider: titles.cadence.provider(),
            seqs,
            request: ModelRequest {
                config,
                messages: vec![system.into(), message.into()],
                tools: Vec::new(),
                session_id: Some(self.session.id().as_str().to_owned()),
            },
        };
        self.core.titling.begin(tokio::spawn(asked.run()));
        Ok(())
    }
}

/// The request for a title that is under way. It ends with the agent.
#[derive(Default)]
pub(crate) struct Titling(Mutex<Option<JoinHandle<()>>>);

impl Titling {
    fn begin(&self, task: JoinHandle<()>) {
        if let Some(earlier) = self.task().replace(task) {
            earlier.abort();
        }
    }

    pub(crate) async fn wait(&self) {
        let task = self.task().take();
        if let Some(task) = task {
            // What went wrong in it harms nobody.
            drop(task.await);
        }
    }

    fn task(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Titling {
    fn drop(&mut self) {
        if let Some(task) = self.task().take() {
            task.abort();
        }
    }
}

impl fmt::Debug for Titling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Titling")
    }
}

/// A model that is asked for a title. It does not keep the agent alive.
struct Asked {
    core: Weak<Core>,
    model: Arc<dyn Model>,
    provider: &'static str,
    seqs: Vec<Seq>,
    request: ModelRequest,
}

impl Asked {
    async fn run(self) {
        // No model hears of what is not durable.
        let Some(core) = self.core.upgrade() else {
            return;
        };
        if core.recorder.flush().await.is_err() {
            return;
        }
        drop(core);
        let (provider, model) = (
            self.request.config.provider.clone(),
            self.request.config.model.clone(),
        );
        let answer = tokio::time::timeout(PATIENCE, listen(&*self.model, self.request)).await;
        let (Ok(Some(title)), Some(core)) = (answer, self.core.upgrade()) else {
            return;
        };
        let data = SessionTitle {
            title: &title,
            message_seqs: &self.seqs,
            source: TitleSource::Provider {
                provider: self.provider,
                model: Route {
                    provider: &provider,
                    model: &model,
                },
            },
        };
        let mut session = core.session.lock();
        if !is_named_by_a_person(session.log()) {
            // A session whose log refuses it keeps its name.
            drop(session.append(logged(EventKind::SessionTitle, &data), core.env.now()));
        }
    }
}

/// The title that the model answers with; `None` if it answers with anything else.
async fn listen(model: &dyn Model, request: ModelRequest) -> Option<String> {
    let mut assembler = Assembler::new();
    let mut stream = model.stream(Arc::new(request), CancellationToken::new());
    while let Some(chunk) = stream.next().await {
        assembler.push(&chunk);
    }
    let answer = assembler.finish();
    if answer.finish != FinishReason::Stop {
        return None;
    }
    let mut text = String::new();
    for block in answer.content {
        match block {
            ContentBlock::Text { text: more } => text.push_str(&more),
            // What it thought is nobody's title.
            ContentBlock::Reasoning { .. } => {}
            _ => return None,
        }
    }
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let line = line.trim_matches(['"', '\'', '`', '*', '#', ' ']);
    let plain: String = line.chars().filter(|char| !char.is_control()).collect();
    let title = clipped(&plain, MAX_MODEL_TITLE).trim_end();
    (!title.is_empty()).then(|| title.to_owned())
}

/// What a person has said, as far as it matters here.
#[derive(Serialize)]
struct Said {
    seq: Seq,
    text: String,
}

/// `None` for what nobody has said.
fn said(event: &Event) -> Option<Said> {
    let message = event.body().message()?;
    if *event.kind() != EventKind::UserMessage || &*message.source != "user" {
        return None;
    }
    let blocks = read::<Message>(event).map(|message| message.content);
    let texts: Vec<_> = texts(blocks.into_iter().flatten()).collect();
    let text = texts.join(" ");
    Some(Said {
        seq: event.seq(),
        text: clipped(&text, SHOWN_BYTES).to_owned(),
    })
}

fn is_named_by_a_person(log: &EventLog) -> bool {
    last_title(log).is_some_and(|title| title.source.kind == "user")
}

#[derive(Deserialize)]
struct StoredTitle {
    title: String,
    source: StoredSource,
}

#[derive(Deserialize)]
struct StoredSource {
    kind: String,
}

fn last_title(log: &EventLog) -> Option<StoredTitle> {
    read(log.title()?)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionTitle<'a> {
    title: &'a str,
    message_seqs: &'a [Seq],
    source: TitleSource<'a>,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum TitleSource<'a> {
    Fallback,
    User,
    Provider { provider: &'a str, model: Route<'a> },
}

#[derive(Serialize)]
struct Route<'a> {
    provider: &'a str,
    model: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TitleRequest<'a> {
    title_provider: &'a str,
    message_seqs: &'a [Seq],
    route: Route<'a>,
    system: &'a str,
    messages: [&'a Message; 1],
    max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
}

/// As much of a text as fits, without a part of a character.
fn clipped(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A title from the first words of what a person asked: enough to find the session again.
pub(crate) fn fallback_title(prompt: &str) -> Option<String> {
    const WORDS: usize = 8;
    const BYTES: usize = 60;
    let mut title = String::new();
    for word in prompt.split_whitespace().take(WORDS) {
        let joined = if title.is_empty() {
            word.to_owned()
        } else {
            format!("{title} {word}")
        };
        if joined.len() > BYTES && !title.is_empty() {
            break;
        }
        title = joined;
    }
    let title = clipped(&title, BYTES);
    (!title.is_empty()).then(|| title.to_owned())
}

#[cfg(test)]
mod tests {
    use super::fallback_title;

    #[test]
    fn titles_are_the_first_words_and_never_split_a_character() {
        let cases = [
            ("fix the bug", Some("fix the bug")),
            (
                "  one\ntwo  three four five six seven eight nine",
                Some("one two three four five six seven eight"),
            ),
            (" \n", None),
            ("", None),
        ];
        for (prompt, title) in cases {
            assert_eq!(fallback_title(prompt).as_deref(), title, "{prompt:?}");
        }
        let long = fallback_title(&"ä".repeat(100)).expect("there is a word");
        assert_eq!(long, "ä".repeat(30));
    }
}
