//! What is logged before a request, so that the request is a function of the log: configuration and tools, the messages
//! that join, and what is known of the route (`reference/agent.md` §1.5 and §1.6, V4).

use std::sync::Arc;

use offshoot_model::{CallConfig, Failure, PreparedCall};
use offshoot_session::{Event, EventKind, SideMark, StepRef};

use crate::AgentError;
use crate::cancel::Cancel;
use crate::driver::{Driver, StepFailure};
use crate::events::{
    AdapterFlags, Header, RequestContext, RequestHeader, StoredHeader, logged, read, shown,
};
use crate::input::Input;
use crate::{tool_order, tools_told};

/// The stable code of a request that nobody says where to send.
const NO_MODEL: &str = "NO_MODEL";

/// A request before anything of it is logged.
pub(crate) struct Prepared {
    pub(crate) call: PreparedCall,
    header: Header,
    /// Whether the request does not extend the one before, as far as that is known before the prompt is logged.
    starts_series: bool,
}

impl Driver {
    /// The configuration of the next request, as the hooks want it and with what the provider makes of it.
    pub(crate) async fn prepare(
        &mut self,
        at: StepRef,
        cancel: &Cancel,
    ) -> Result<Prepared, StepFailure> {
        let mut config = self.seed();
        for hook in &self.hooks {
            config = hook.request(&self.hook_context(at, cancel), config).await?;
        }
        if config.provider.is_empty() || config.model.is_empty() {
            let session = self.session.id();
            let message = format!("the agent of `{session}` has no provider and model to call");
            return Err(StepFailure::Model(Failure::new(NO_MODEL, message)));
        }
        // Who cancels now is heard before the model is called: what was claimed is logged first, so that it is not lost.
        let call = self.model.prepare(&config).map_err(StepFailure::Model)?;
        let tools = tool_order::ordered(&self.tools, self.config.context.tool_order.as_deref())?;
        let header = Header::new(&call, tools);
        let log = self.session.log();
        let tools_changed = || match &self.header {
            Some(last) => last.tools != header.tools,
            None => log
                .request_header()
                .and_then(|event| read::<StoredHeader>(event))
                .is_some_and(|last| last.header.tools != header.tools),
        };
        let starts_series = self.series
            || log.surface().content_generation() != self.generation
            || (!call.info.tool_updates && tools_changed());
        self.calling = header.config.clone();
        Ok(Prepared {
            call,
            header,
            starts_series,
        })
    }

    /// What the hooks are given: what was chosen, at first and whenever something else is chosen; later what the last request
    /// was made with, apart from what the provider had filled in.
    fn seed(&self) -> CallConfig {
        let chosen = self.config.call.clone();
        match &self.header {
            Some(last) if self.seeded == Some(self.route) => last.chosen(),
            Some(_) => chosen,
            None => CallConfig {
                reasoning_effort: chosen.reasoning_effort.or_else(|| self.stored_effort()),
                ..chosen
            },
        }
    }

    /// How hard the model of a session thought before it was opened, if somebody had asked for that and it is still the same
    /// model.
    fn stored_effort(&self) -> Option<String> {
        let log = self.session.log();
        let StoredHeader { header } = read(log.request_header()?)?;
        let chosen = &self.config.call;
        let same = header.config.provider == chosen.provider && header.config.model == chosen.model;
        let asked_for = !header.adapter_defaults.reasoning_effort;
        header.config.reasoning_effort.filter(|_| same && asked_for)
    }

    /// Logs everything that the next request is made of. Returns the events of the messages that join.
    pub(crate) fn log_preamble(
        &mut self,
        at: StepRef,
        prepared: Prepared,
        entering: &[Input],
    ) -> Result<(PreparedCall, Vec<Arc<Event>>), AgentError> {
        let Prepared {
            call,
            header,
            starts_series,
        } = prepared;
        self.log_prompt(at, call.info.system_prompt_in_history, starts_series)?;
        let prompts = self.log_messages(entering)?;
        self.log_header(at, header, call.info.tool_updates)?;
        self.log_context(&call)?;
        Ok((call, prompts))
    }

    /// Logs the messages that join a request which cannot be made: a later one has them. Those that are kept are queued
    /// again instead, when the turn ends; but what tells the model that it is in a side session goes ahead of all that is said
    /// there.
    pub(crate) fn log_unsent(&self, at: StepRef, entering: &[Input]) -> Result<(), AgentError> {
        if self.session.log().surface().is_empty() {
            // Nothing may stand before the prompt.
            self.log_prompt(at, false, false)?;
        }
        let said = entering
            .iter()
            .filter(|input| !input.is_kept() || input.side_mark() == Some(SideMark::Framing));
        self.log_messages(said).map(drop)
    }

    /// The very text that was queued becomes the message: nothing of it is written anew.
    fn log_messages<'a>(
        &self,
        entering: impl IntoIterator<Item = &'a Input>,
    ) -> Result<Vec<Arc<Event>>, AgentError> {
        let messages = entering.into_iter();
        messages
            .map(|input| self.append(shown(EventKind::UserMessage, &input.raw())))
            .collect()
    }

    /// Logs the header when the next request differs from what the log says, and whenever this agent starts or a series
    /// of requests that share a prefix starts anew; and what the model has to be told of tools that have changed.
    fn log_header(
        &mut self,
        at: StepRef,
        header: Header,
        tool_updates: bool,
    ) -> Result<(), AgentError> {
        let log = self.session.log();
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
            let told = (tool_updates && !new_series)
                .then(|| tools_told::change(&log, &header.tools))
                .flatten();
            let data = RequestHeader {
                header: &header,
                reason,
                starts_series: new_series && reason != "series",
            };
            let seq = self.append(logged(EventKind::RequestHeader, &data))?.seq();
            if let Some(change) = told {
                self.log_tool_change(at, &change, seq)?;
            }
        }
        self.header = Some(header);
        self.seeded = Some(self.route);
        self.generation = generation;
        Ok(())
    }

    /// What is known of the route: when it differs from what was known, also when something is no longer known.
    fn log_context(&self, call: &PreparedCall) -> Result<(), AgentError> {
        let context = RequestContext {
            provider: call.config.provider.clone(),
            model: call.config.model.clone(),
            context_window: call.info.context_window,
            system_prompt_update: call
                .info
                .system_prompt_in_history
                .then(|| "in-history".to_owned()),
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
}

/// Whether the stored header is this one. One that cannot be read is another.
fn says(stored: &Event, header: &Header) -> bool {
    read::<StoredHeader>(stored).is_some_and(|stored| stored.header == *header)
}

impl Header {
    /// In its canonical form: what is empty, or no number, is absent.
    fn new(call: &PreparedCall, tools: Vec<offshoot_model::ToolSpec>) -> Self {
        let mut config = call.config.clone();
        config.stop = config.stop.filter(|stop| !stop.is_empty());
        config.temperature = config
            .temperature
            .filter(|temperature| temperature.is_finite());
        config.reasoning_effort = config.reasoning_effort.filter(|effort| !effort.is_empty());
        let defaults = call.adapter_defaults;
        let adapter_defaults = AdapterFlags {
            reasoning_effort: defaults.reasoning_effort && config.reasoning_effort.is_some(),
            max_tokens: defaults.max_tokens && config.max_tokens.is_some(),
        };
        Self {
            config,
            adapter_defaults,
            tools,
        }
    }
}
