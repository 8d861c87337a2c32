//! Which part of the history gives way.
//!
//! Both ends of it are places where every call has its result: a provider refuses a result without its call, and a call
//! without its result. Where the wanted place is not one, the nearest before it is taken.

use offshoot_session::{Body, Event, EventKind, EventLog, Seq};

use super::events::is_summary;
use crate::context;

/// A part of the surface, from behind the system prompt on, that can be replaced as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    nodes: Vec<Seq>,
    /// The places at which it could end, as a number of nodes, with the tokens up to there. The last is its end.
    ends: Vec<(usize, u64)>,
}

/// Where the tail begins that is kept as it is: everything that nobody has answered yet, or the last node, and as many more
/// as have about so many tokens. A long one that would make it more than twice that is not kept.
pub(super) fn tail(log: &EventLog, prices: &[u64], retain: u64) -> usize {
    let surface = log.surface();
    let first = usize::from(surface.has_protected_head());
    let is_answered = |place: usize| {
        let event = surface.node(place).and_then(|seq| log.get(seq));
        event.is_none_or(|event| {
            matches!(
                event.kind(),
                EventKind::AssistantMessage | EventKind::ToolResult
            )
        })
    };
    let price = |place: usize| prices.get(place).copied().unwrap_or(0);
    let mut start = surface.len();
    while start > first && !is_answered(start - 1) {
        start -= 1;
    }
    if start == surface.len() {
        start = start.saturating_sub(1).max(first);
    }
    let mut kept: u64 = (start..surface.len()).map(price).sum();
    while start > first && kept < retain {
        let with = kept + price(start - 1);
        if with > retain.saturating_mul(2) {
            break;
        }
        start -= 1;
        kept = with;
    }
    start
}

impl Span {
    /// The longest span that ends before `tail`; `None` if there is nothing that a summary could make shorter.
    pub(super) fn choose(log: &EventLog, prices: &[u64], tail: usize) -> Option<Self> {
        let surface = log.surface();
        let first = usize::from(surface.has_protected_head());
        let mut nodes = Vec::new();
        let mut ends = Vec::new();
        let (mut tokens, mut open, mut is_news) = (0, 0_i64, false);
        for place in first..tail {
            let seq = surface.node(place)?;
            let event = log.get(seq)?;
            nodes.push(seq);
            tokens += prices.get(place).copied().unwrap_or(0);
            open += balance(event);
            is_news |= is_worth_summarising(event);
            if open == 0 && is_news {
                ends.push((nodes.len(), tokens));
            }
        }
        Self { nodes, ends }.cut()
    }

    /// A span of at most half the tokens, from the same place on.
    pub(super) fn halved(mut self) -> Option<Self> {
        let half = self.tokens() / 2;
        self.ends.retain(|(_, tokens)| *tokens <= half);
        self.cut()
    }

    fn cut(mut self) -> Option<Self> {
        let (len, _) = *self.ends.last()?;
        self.nodes.truncate(len);
        Some(self)
    }

    pub(super) fn nodes(&self) -> &[Seq] {
        &self.nodes
    }

    pub(super) fn first(&self) -> Seq {
        *self.nodes.first().expect("BUG: a span has a node")
    }

    pub(super) fn last(&self) -> Seq {
        *self.nodes.last().expect("BUG: a span has a node")
    }

    /// About how many tokens it has.
    pub(super) fn tokens(&self) -> u64 {
        self.ends.last().map_or(0, |(_, tokens)| *tokens)
    }
}

fn balance(event: &Event) -> i64 {
    match event.body() {
        Body::AssistantMessage { calls, .. } => i64::try_from(calls.len()).unwrap_or(i64::MAX),
        Body::ToolResult { .. } => -1,
        _ => 0,
    }
}

/// Summarising a summary alone would only lose more of what it says, and what is said again needs none.
fn is_worth_summarising(event: &Event) -> bool {
    let message = event.body().message();
    message.is_none_or(|message| {
        let source = &*message.source;
        !is_summary(source) && !context::is_said_again(source)
    })
}
