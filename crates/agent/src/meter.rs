//! How much of the model's context a conversation takes (`reference/agent.md` §2.11).
//!
//! A provider says after each answer how many tokens the request and the answer were. That number holds for as long as the
//! next request begins with the same text: the same header, and a surface that has only grown. What came behind it, or
//! everything if there is no such number, is priced by rule of thumb.
//!
//! A driver asks before every step, so a [`Meter`] remembers how far it has looked: what a measurement costs is what has
//! come since the last one, however long the log is.

use std::borrow::Cow;

use offshoot_model::Usage;
use offshoot_session::{Event, EventKind, EventLog, Seq};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::events::read;

/// Bytes of text that are taken for one token: about four characters of an alphabet, or one or two of other scripts.
const BYTES_PER_TOKEN: usize = 4;
/// What a message costs besides what it says.
const PER_MESSAGE: u64 = 4;
/// Providers shrink pictures to about this many tokens at most.
const LARGEST_IMAGE: u64 = 1600;
const SMALLEST_IMAGE: u64 = 64;
const PIXELS_PER_TOKEN: u64 = 750;

/// How full the context of a conversation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// The tokens that the next request would have, as far as it is known now.
    pub tokens: u64,
    /// The tokens that the model of the last request can see.
    pub window: Option<u64>,
    /// What they are for.
    pub breakdown: Breakdown,
}

/// What the tokens of a context are for. The parts together are the whole; only the whole is a provider's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breakdown {
    /// The system prompt.
    pub system: u64,
    /// The declarations of tools.
    pub tools: u64,
    /// Everything that was said.
    pub messages: u64,
}

impl Pressure {
    /// How full the context is at the end of a log.
    #[must_use]
    pub fn of(log: &EventLog) -> Self {
        let tokens = Meter::default().measure(log);
        let is_system = |event: &&Event| *event.kind() == EventKind::SystemMessage;
        let system = nodes(log).filter(is_system).map(price).sum::<u64>();
        let system = system.min(tokens);
        let tools = price_of_tools(log).min(tokens - system);
        Self {
            tokens,
            window: window(log),
            breakdown: Breakdown {
                system,
                tools,
                messages: tokens - system - tools,
            },
        }
    }
}

/// The context window of the last request's model, as the log has it.
pub(crate) fn window(log: &EventLog) -> Option<u64> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Context {
        context_window: Option<u64>,
    }
    let context: Context = read(log.request_context()?)?;
    context.context_window
}

/// Measures one log as it grows.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    known: Option<Known>,
}

/// What was found at the last measurement.
#[derive(Debug)]
struct Known {
    generation: u64,
    header: Option<Seq>,
    nodes: usize,
    tokens: u64,
}

impl Meter {
    /// The tokens of the context at the end of the log.
    pub(crate) fn measure(&mut self, log: &EventLog) -> u64 {
        let surface = log.surface();
        let generation = surface.content_generation();
        let header = log.request_header().map(|event| event.seq());
        let known = self.known.take().filter(|known| {
            known.generation == generation && known.header == header && known.nodes <= surface.len()
        });
        let seen = known.as_ref().map_or(0, |known| known.nodes);
        let mut behind = 0;
        let mut counted = None;
        let mut looks = true;
        for place in (seen..surface.len()).rev() {
            let Some(event) = node(log, place) else {
                continue;
            };
            if looks && let Some(usage) = usage(event) {
                // An earlier number would be of an even earlier envelope.
                looks = false;
                if known.is_some() || describes(log, event) {
                    counted = Some(usage);
                    break;
                }
            }
            behind += price(event);
        }
        let before = counted
            .or(known.map(|known| known.tokens))
            .unwrap_or_else(|| price_of_tools(log));
        let tokens = before + behind;
        self.known = Some(Known {
            generation,
            header,
            nodes: surface.len(),
            tokens,
        });
        tokens
    }
}

/// Whether the usage of an answer describes what the next request begins with.
fn describes(log: &EventLog, answer: &Event) -> bool {
    let then = log.prefix(answer.seq().before());
    then.surface().content_generation() == log.surface().content_generation()
        && match (then.request_header(), log.request_header()) {
            (Some(then), Some(now)) => then.seq() == now.seq() || header(then) == header(now),
            (None, now) => now.is_none(),
            (Some(_), None) => false,
        }
}

fn header(event: &Event) -> Option<&str> {
    #[derive(Deserialize)]
    struct Stored<'a> {
        #[serde(borrow)]
        header: &'a RawValue,
    }
    read::<Stored<'_>>(event).map(|stored| stored.header.get())
}

/// What a provider counted for an answer and the request before it.
fn usage(event: &Event) -> Option<u64> {
    #[derive(Deserialize)]
    struct Answer {
        usage: Option<Usage>,
    }
    if *event.kind() != EventKind::AssistantMessage {
        return None;
    }
    let usage = read::<Answer>(event)?.usage?;
    let cached = usage.cache_read_tokens.unwrap_or(0) + usage.cache_write_tokens.unwrap_or(0);
    Some(usage.input_tokens + cached + usage.output_tokens)
}

fn node(log: &EventLog, place: usize) -> Option<&Event> {
    let seq = log.surface().node(place)?;
    log.get(seq).map(|event| &**event)
}

fn nodes(log: &EventLog) -> impl Iterator<Item = &Event> {
    let surface = log.surface();
    surface
        .nodes()
        .filter_map(|seq| log.get(seq).map(|event| &**event))
}

/// The price of every node of the surface, in surface order.
pub(crate) fn prices(log: &EventLog) -> Vec<u64> {
    nodes(log).map(price).collect()
}

/// The price of a node of the surface. What derives no message costs nothing.
pub(crate) fn price(event: &Event) -> u64 {
    match event.message() {
        Some(message) if !event.body().message().is_some_and(|head| head.is_empty) => {
            price_of_message(message)
        }
        _ => 0,
    }
}

/// The price of a message's JSON text.
pub(crate) fn price_of_message(message: &str) -> u64 {
    #[derive(Deserialize)]
    struct Blocks<'a> {
        #[serde(borrow)]
        content: Vec<&'a RawValue>,
    }
    let said = match serde_json::from_str::<Blocks<'_>>(message) {
        Ok(blocks) => blocks.content.iter().map(|block| block_price(block)).sum(),
        Err(_) => tokens(message),
    };
    PER_MESSAGE + said
}

fn block_price(block: &RawValue) -> u64 {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(default)]
        attachment: Option<Picture>,
    }
    #[derive(Deserialize)]
    struct Picture {
        #[serde(default)]
        width: u64,
        #[serde(default)]
        height: u64,
    }
    match serde_json::from_str::<Block<'_>>(block.get()) {
        Ok(Block {
            kind,
            attachment: Some(picture),
        }) if kind == "image" => (picture.width.saturating_mul(picture.height) / PIXELS_PER_TOKEN)
            .clamp(SMALLEST_IMAGE, LARGEST_IMAGE),
        _ => tokens(block.get()),
    }
}

fn price_of_tools(log: &EventLog) -> u64 {
    #[derive(Deserialize)]
    struct Stored<'a> {
        #[serde(borrow)]
        header: Header<'a>,
    }
    #[derive(Deserialize)]
    struct Header<'a> {
        #[serde(borrow, default)]
        tools: Option<&'a RawValue>,
    }
    let header = log.request_header();
    let stored = header.and_then(|event| read::<Stored<'_>>(event));
    let declared = stored.and_then(|stored| stored.header.tools);
    declared.map_or(0, |tools| tokens(tools.get()))
}

fn tokens(text: &str) -> u64 {
    text.len().div_ceil(BYTES_PER_TOKEN) as u64
}

#[cfg(test)]
mod tests {
    use offshoot_session::{EventDraft, SurfaceOp};
    use serde_json::{Value, json};

    use super::*;

    fn add(log: &mut EventLog, kind: EventKind, data: &Value, op: Option<SurfaceOp>) -> Seq {
        let mut draft = EventDraft::log_only(kind, data).expect("JSON");
        if let Some(op) = op {
            draft = draft.with_surface_op(op);
        }
        if let Some(SurfaceOp::Replace { start, .. }) = op {
            draft = draft.with_sources([start]);
        }
        let event = draft.dated(log.end().seq(), 0).expect("an event");
        log.push(event).expect("it fits").seq()
    }

    fn question(log: &mut EventLog, length: usize, op: SurfaceOp) -> Seq {
        let message = json!({
            "id": format!("q-{}", log.end()), "role": "user", "source": {"kind": "user"},
            "content": [{"type": "text", "text": "x".repeat(length)}],
        });
        add(log, EventKind::UserMessage, &message, Some(op))
    }

    fn answer(log: &mut EventLog, input: Option<u64>) -> Seq {
        let usage = input.map(|input| json!({"inputTokens": input, "outputTokens": 10}));
        let mut data = json!({
            "turn": 1, "step": 1, "stream": [],
            "message": {
                "id": format!("a-{}", log.end()), "role": "assistant",
                "content": [{"type": "text", "text": "y".repeat(200)}],
                "source": {"kind": "model", "provider": "acme", "model": "small"},
            },
        });
        if let Some(usage) = usage {
            data["usage"] = usage;
        }
        add(
            log,
            EventKind::AssistantMessage,
            &data,
            Some(SurfaceOp::Append),
        )
    }

    fn header(log: &mut EventLog, model: &str) -> Seq {
        let config = json!({"provider": "acme", "model": model});
        let data = json!({"header": {"config": config}, "reason": "change"});
        add(log, EventKind::RequestHeader, &data, None)
    }

    #[test]
    fn a_meter_that_follows_a_log_says_what_one_says_that_sees_it_for_the_first_time() {
        let mut log = EventLog::new();
        let mut meter = Meter::default();
        let mut replaced = None;
        let mut told = Vec::new();
        // Every order of what can happen, as far as four of them in a row can show it.
        for number in 0..6_u64.pow(4) {
            for digit in 0..4 {
                match number / 6_u64.pow(digit) % 6 {
                    0 => {
                        replaced = Some(question(&mut log, 400, SurfaceOp::Append));
                    }
                    1 => {
                        answer(&mut log, None);
                    }
                    2 => {
                        answer(&mut log, Some(50_000 + number));
                    }
                    3 => {
                        header(&mut log, if number % 2 == 0 { "small" } else { "large" });
                    }
                    4 => {
                        header(&mut log, "small");
                    }
                    _ => {
                        if let Some(seq) = replaced.take() {
                            let op = SurfaceOp::Replace {
                                start: seq,
                                end: seq,
                            };
                            question(&mut log, 80, op);
                        }
                    }
                }
                // Not after every event: a driver asks once a step.
                if digit % 2 == 1 {
                    let fresh = Meter::default().measure(&log);
                    assert_eq!(meter.measure(&log), fresh, "{number} {digit}");
                    told.push(fresh);
                }
            }
            if log.surface().len() > 40 {
                log = EventLog::new();
                meter = Meter::default();
                replaced = None;
            }
        }
        assert!(
            told.iter().any(|tokens| *tokens > 50_000),
            "some were counted"
        );
        assert!(told.iter().any(|tokens| *tokens < 50_000), "some were not");
    }
}
