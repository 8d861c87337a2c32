//! What is logged before a request, so that the request is a function of the log: the system prompt, the messages that
//! join, the header, and what is known of the route (`reference/agent.md` §1.5 to §1.8, V4).

use std::sync::Arc;

use offshoot_model::{ContentBlock, PreparedCall, ToolSpec};
use offshoot_session::{Event, EventKind, StepRef};

use crate::driver::Driver;
use crate::events::{
    Header, RequestContext, RequestHeader, SessionTitle, SourceKind, StoredHeader, SystemBody,
    SystemMessage, TextBlock, logged, one_line, read, shown,
};
use crate::input::Input;
use crate::{AgentError, prompt};

impl Driver {
    /// The prompt is logged once, ahead of everything the model sees.
    pub(crate) fn log_prompt(&self, at: StepRef) -> Result<(), AgentError> {
        if !self.session.log().surface().is_empty() {
            return Ok(());
        }
        let text = self.config.system_prompt.as_str();
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
        self.append(shown(EventKind::SystemMessage, &data))?;
        Ok(())
    }

    /// The very text that was queued becomes the message: nothing of it is written anew.
    pub(crate) fn log_messages(&self, entering: &[Input]) -> Result<Vec<Arc<Event>>, AgentError> {
        let messages = entering
            .iter()
            .map(|input| self.append(shown(EventKind::UserMessage, &input.raw())));
        messages.collect()
    }

    /// What the model has to be told of the world before it goes on, if its picture is out of date.
    pub(crate) fn runtime_context(&self) -> Option<Input> {
        let log = self.session.log();
        let cwd = self.session.header().cwd;
        prompt::context_update(&log, cwd.as_deref(), &self.env)
    }

    /// Logs the header when the next request differs from what the log says, and whenever this agent starts or a series
    /// of requests that share a prefix starts anew.
    pub(crate) fn log_header(&mut self, prepared: &PreparedCall) -> Result<(), AgentError> {
        let log = self.session.log();
        let specs = self.tools.specs().map(|spec| ToolSpec {
            name: spec.name.clone(),
            description: spec.description.clone(),
            parameters: one_line(spec.parameters.clone()).into(),
            defer_loading: None,
        });
        let header = Header {
            config: prepared.config.clone(),
            tools: specs.collect(),
        };
        let generation = log.surface().content_generation();
        let new_series = std::mem::take(&mut self.series) || generation != self.generation;
        let reason = match log.request_header() {
            None => Some("initial"),
            Some(_) if self.header.is_none() => Some("resume"),
            Some(stored) if !says(stored, &header) => Some("change"),
            Some(_) if new_series => Some("series"),
            Some(_) => None,
        };
        if let Some(reason) = reason {
            let starts_series = new_series && reason != "series";
            let data = RequestHeader {
                header: &header,
                reason,
                starts_series,
            };
            self.append(logged(EventKind::RequestHeader, &data))?;
        }
        self.header = Some(header);
        self.generation = generation;
        Ok(())
    }

    pub(crate) fn log_context(&self, prepared: &PreparedCall) -> Result<(), AgentError> {
        let call = &prepared.config;
        let context = RequestContext {
            provider: call.provider.clone(),
            model: call.model.clone(),
            context_window: prepared.info.context_window,
            system_prompt_update: None,
        };
        let log = self.session.log();
        let known = log
            .request_context()
            .and_then(|event| read::<RequestContext>(event));
        if known.as_ref() != Some(&context) {
            self.append(logged(EventKind::RequestContext, &context))?;
        }
        Ok(())
    }

    /// A conversation is named after the first thing that a person asked in it.
    pub(crate) fn log_title(&self, prompts: &[Arc<Event>]) -> Result<(), AgentError> {
        let named = |event: &Arc<Event>| *event.kind() == EventKind::SessionTitle;
        if self.session.log().events().any(named) {
            return Ok(());
        }
        let by_person = |event: &&Arc<Event>| {
            let message = event.body().message();
            message.is_some_and(|message| &*message.source == "user")
        };
        let Some(event) = prompts.iter().find(by_person) else {
            return Ok(());
        };
        let message = read::<offshoot_model::Message>(event);
        let text = message
            .map(|message| text_of(&message.content))
            .unwrap_or_default();
        if let Some(title) = prompt::fallback_title(&text) {
            let source = SourceKind { kind: "fallback" };
            let data = SessionTitle {
                title,
                message_seqs: [event.seq()],
                source,
            };
            self.append(logged(EventKind::SessionTitle, &data))?;
        }
        Ok(())
    }
}

/// Whether the stored header is this one. One that cannot be read is another.
fn says(stored: &Event, header: &Header) -> bool {
    read::<StoredHeader>(stored).is_some_and(|stored| stored.header == *header)
}

fn text_of(blocks: &[ContentBlock]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join(" ")
}
