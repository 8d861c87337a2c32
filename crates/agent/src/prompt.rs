//! The system prompt, which is part of the history (`reference/agent.md` §1.7, V4).
//!
//! It is the first node of the surface. How another one is said depends on the route: as a later message, if the provider
//! takes it so and the request extends the one before; else in place of the first one. Of the later ones those without
//! text are asleep, so the last one that says something counts, or else the first node.

use offshoot_model::ContentBlock;
use offshoot_session::{Event, EventDraft, EventKind, EventLog, Seq, StepRef, SurfaceOp};
use serde::Deserialize;

use crate::AgentError;
use crate::context::SystemPromptPolicy;
use crate::driver::Driver;
use crate::events::{SourceKind, SystemBody, SystemMessage, TextBlock, read, shown, texts};

/// The system prompt of a session that names none.
pub const DEFAULT_SYSTEM_PROMPT: &str = "\
You are Offshoot, an agent that works on a person's files through tools.

- Look before you change: read a file before you write it, and check what a command will do before you run it.
- Do what was asked and no more. Say what you did, in few words, and what you could not do.
- A tool result that starts with \"Error:\" means that the call failed; say so if it matters.
- A result may say that a call's outcome is unknown, because the process ended or the conversation was branched off \
while it ran. Then find out what is true now before you repeat anything that changes something.";

impl Driver {
    /// Makes the log say what the system prompt is. `in_history`: the route takes it as a later message. `starts_series`: the
    /// next request does not extend the one before anyway.
    pub(crate) fn log_prompt(
        &self,
        at: StepRef,
        in_history: bool,
        starts_series: bool,
    ) -> Result<(), AgentError> {
        let wanted = self.config.system_prompt.as_str();
        let log = self.session.log();
        if log.surface().is_empty() {
            self.append(self.prompt(at, wanted))?;
            return Ok(());
        }
        // A history that began without a prompt cannot be given one.
        if self.config.context.system_prompt == SystemPromptPolicy::Keep
            || !log.surface().has_protected_head()
        {
            return Ok(());
        }
        let nodes = prompts(&log);
        let (head, later) = nodes.split_first().expect("BUG: the head is a prompt");
        let active: Vec<_> = later.iter().filter(|node| !node.text.is_empty()).collect();
        if active.last().map_or(&*head.text, |last| &*last.text) == wanted {
            return Ok(());
        }
        if in_history && !starts_series && !wanted.is_empty() {
            self.append(self.prompt(at, wanted))?;
            return Ok(());
        }
        for node in active {
            self.append(replacing(node.seq, self.prompt(at, "")))?;
        }
        if head.text != wanted {
            self.append(replacing(head.seq, self.prompt(at, wanted)))?;
        }
        Ok(())
    }

    /// What the system prompt of an opened session becomes before the next request, under
    /// [`SystemPromptPolicy::Update`].
    pub fn set_system_prompt(&mut self, text: impl Into<String>) {
        self.config.system_prompt = text.into();
    }

    fn prompt(&self, at: StepRef, text: &str) -> EventDraft {
        let content = if text.is_empty() {
            Vec::new()
        } else {
            vec![TextBlock::new(text)]
        };
        let message = SystemBody {
            id: self.env.fresh_id(),
            role: "system",
            source: SourceKind {
                kind: "system-prompt",
            },
            content,
        };
        let data = SystemMessage {
            turn: at.turn,
            step: at.step,
            message,
        };
        shown(EventKind::SystemMessage, &data)
    }
}

/// What the system prompt of a conversation is; `None` if it has none.
pub(crate) fn current(log: &EventLog) -> Option<String> {
    let mut nodes = prompts(log);
    let last = nodes.iter().rposition(|node| !node.text.is_empty());
    (!nodes.is_empty()).then(|| nodes.swap_remove(last.unwrap_or(0)).text)
}

/// A prompt on the surface.
struct Prompt {
    seq: Seq,
    text: String,
}

fn prompts(log: &EventLog) -> Vec<Prompt> {
    let events = log.surface().nodes().filter_map(|seq| log.get(seq));
    events
        .filter(|event| *event.kind() == EventKind::SystemMessage)
        .map(|event| Prompt {
            seq: event.seq(),
            text: text_of(event),
        })
        .collect()
}

fn text_of(event: &Event) -> String {
    #[derive(Deserialize)]
    struct Stored {
        message: Content,
    }
    #[derive(Deserialize)]
    struct Content {
        content: Vec<ContentBlock>,
    }
    let blocks = read::<Stored>(event).map(|stored| stored.message.content);
    texts(blocks.into_iter().flatten()).collect()
}

fn replacing(node: Seq, draft: EventDraft) -> EventDraft {
    let op = SurfaceOp::Replace {
        start: node,
        end: node,
    };
    draft.with_surface_op(op).with_sources(vec![node])
}
