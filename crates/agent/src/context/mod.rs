//! What the model is told of the world it works in (`reference/agent.md` §1.8 and §3.7): project instructions and a snapshot
//! of the runtime context.
//!
//! Both are messages of the conversation and stand behind what was said before, never in front of it: whatever changes
//! between two runs, or between a parent and its fork, must not change the prefix that they share. They are said again
//! when they change, and when a compaction has covered them.

mod fork;
mod instructions;
mod runtime;
mod told;

use std::path::Path;

use offshoot_model::{ContentBlock, RawJson};
use serde::Serialize;

pub(crate) use fork::ForkOrigin;
pub use runtime::ContextSection;
pub(crate) use runtime::Surroundings;
pub(crate) use told::Told;

use crate::driver::{Driver, StepFailure};
use crate::events::row_text;
use crate::input::Input;
use crate::tool_order;

/// Whether a message of a source is said again once it is not seen any more.
pub(crate) fn is_said_again(source: &str) -> bool {
    [instructions::KIND, runtime::KIND].contains(&source)
}

/// What requests are made of besides the conversation itself.
#[derive(Clone, Debug)]
pub struct ContextConfig {
    /// Whose system prompt counts when a session has one already.
    pub system_prompt: SystemPromptPolicy,
    /// The order in which the model sees the tools: names, and at most one `*` for all the others, which otherwise come last.
    /// `None` and the others: by name. A name that no tool has ends the turn before it has a step.
    pub tool_order: Option<Vec<String>>,
    /// How many bytes of project instructions are shown at once. What does not fit is cut, with a note; the most specific
    /// files come first.
    pub instructions_bytes: usize,
    /// What the front end has to say of the world, besides the working directory and what the tools may do.
    pub sections: Vec<ContextSection>,
    /// Whether every request is rebuilt from the log by an independent path and compared before it is sent. It costs time
    /// and memory like the request itself.
    pub verify_requests: bool,
}

impl Default for ContextConfig {
    /// 64 KiB of instructions, tools by name, and requests that are verified in debug builds.
    fn default() -> Self {
        Self {
            system_prompt: SystemPromptPolicy::default(),
            tool_order: None,
            instructions_bytes: 64 * 1024,
            sections: Vec::new(),
            verify_requests: cfg!(debug_assertions),
        }
    }
}

/// Whose system prompt counts when a session has one already: its own, or that of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SystemPromptPolicy {
    /// The session's. Another one would throw away the provider's cache of the whole conversation, and in a fork it would
    /// change what the inherited words answered to.
    #[default]
    Keep,
    /// The configuration's. If it differs it is logged before the next request.
    Update,
}

impl Driver {
    /// What the model has to be told of the world before it goes on, if its picture is out of date. `entering` is what it is
    /// told ahead of that.
    pub(crate) fn runtime_context(
        &mut self,
        entering: &[Input],
    ) -> Result<Vec<Input>, StepFailure> {
        // Nothing is logged of a step whose request cannot be made.
        tool_order::ordered(&self.tools, self.config.context.tool_order.as_deref())?;
        let log = self.session.log();
        self.told.follow(&log);
        let cwd = self.session.header().cwd;
        let budget = self.config.context.instructions_bytes;
        // Whoever reads no instructions does not take back what others have said.
        let instructions = self.instructions.as_ref().and_then(|instructions| {
            let files = instructions.files(cwd.as_deref().map(Path::new));
            instructions::update(&self.told.instructions, files, budget)
        });
        let runtime = self.snapshot(&log, cwd.as_deref(), entering);
        let said = instructions.into_iter().chain(runtime);
        Ok(said
            .map(|said| said.into_input(self.env.fresh_id()))
            .collect())
    }
}

/// A message about the world.
struct Said {
    text: String,
    source: RawJson,
}

impl Said {
    fn new(text: String, source: &impl Serialize) -> Self {
        let source = row_text(source).into();
        Self { text, source }
    }

    fn into_input(self, id: String) -> Input {
        let source = serde_json::from_str(self.source.get()).expect("BUG: a source has a kind");
        Input::blocks(id, vec![ContentBlock::text(self.text)], source)
    }
}
