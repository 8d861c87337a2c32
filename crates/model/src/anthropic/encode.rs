//! From a request to the exact bytes of its body.
//!
//! A pure function of the request, the dialect and the pictures, like its sibling for chat completions. What a person would
//! call one message may be several of the log: Messages wants turns that alternate, so neighbours of one side become one.
//!
//! Marks tell the provider up to where to remember what it has read (`cache_control`, at most four): behind the tools,
//! behind the system prompt, and behind the last two messages of the user's side. The last but one is where the request
//! before ended, so what it has left behind is found again however much has been added since.
//!
//! **Invariant:** marks apart, a longer history only appends blocks and messages. A block has the same form with and
//! without a mark.

use std::sync::Arc;

use serde::Serialize;

use super::history::History;
use super::thinking::{Effort, MessagesDialect};
use super::wire::{Block, Body, Ephemeral, Speaker, WireMessage, WireTool};
use crate::catalog;
use crate::message::{Message, ModelRequest, Role};
use crate::pictures::Gallery;
use crate::shown::shown_text;

pub(crate) fn encode(
    request: &ModelRequest,
    dialect: MessagesDialect,
    gallery: &Gallery,
) -> Vec<u8> {
    let config = &request.config;
    let max_tokens = config
        .max_tokens
        .unwrap_or_else(|| catalog::max_tokens(&config.model));
    let head = request
        .messages
        .iter()
        .take_while(|message| message.role == Role::System)
        .count();
    let (head, rest) = request.messages.split_at(head);
    let mut messages = History::new(dialect, &config.provider, gallery).messages(rest);
    let mut effort = Effort::new(dialect, config, max_tokens);
    if effort.has_budget() && goes_on_without_thinking(&messages) {
        effort = Effort::default();
    }
    let mut system = system(head);
    let mut tools: Vec<_> = request
        .tools
        .iter()
        .map(|tool| WireTool {
            name: &tool.name,
            description: &tool.description,
            input_schema: tool.parameters.as_raw_value(),
            cache_control: None,
        })
        .collect();
    if let Some(tool) = tools.last_mut() {
        tool.cache_control = Some(Ephemeral {});
    }
    if let Some(block) = system.last_mut() {
        block.mark();
    }
    mark(&mut messages);
    to_bytes(&Body {
        model: &config.model,
        max_tokens,
        tools,
        system,
        messages,
        temperature: config.temperature,
        stop_sequences: config.stop.as_deref().unwrap_or_default(),
        thinking: effort.thinking,
        output_config: effort.output,
        stream: true,
    })
}

fn to_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value)
        .expect("BUG: strings, integers, finite numbers and raw JSON always have a JSON form")
}

/// The instructions before everything else. A dormant system message has no text and is not sent.
fn system(head: &[Arc<Message>]) -> Vec<Block<'_>> {
    let texts = head.iter().map(|message| shown_text(&message.content));
    texts
        .filter(|text| !text.trim().is_empty())
        .map(Block::text)
        .collect()
}

fn mark(messages: &mut [WireMessage<'_>]) {
    let users = messages
        .iter_mut()
        .rev()
        .filter(|message| message.role == Speaker::User);
    for message in users.take(2) {
        if let Some(block) = message.content.last_mut() {
            block.mark();
        }
    }
}

/// Whether the tools were asked for in an answer without thinking, by another provider say. Under a budget the provider
/// refuses to go on from there, so that it has to do so without thinking.
fn goes_on_without_thinking(messages: &[WireMessage<'_>]) -> bool {
    let [.., asked, answered] = messages else {
        return false;
    };
    let asked_first = asked.content.first();
    asked.role == Speaker::Assistant
        && answered.content.iter().any(Block::is_result)
        && !asked_first.is_some_and(Block::is_thinking)
}
