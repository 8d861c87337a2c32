//! What one session has queued, when it is due, and in which order it goes to the disk. Knows no thread and no disk.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use offshoot_session::Event;

use super::Completion;
use crate::journal::AttemptStart;

/// How long the first queued item waits for others, at most.
pub(super) const WINDOW: Duration = Duration::from_millis(200);

/// Something to store, in the order in which it was queued.
#[derive(Debug, PartialEq)]
pub(super) enum Item {
    Event(Arc<Event>),
    /// An attempt whose first chunk is the next item.
    Begin(AttemptStart),
    Chunk(Arc<str>),
    /// The attempt is settled by an event ahead of this.
    End,
}

/// One call of the session's writer.
#[derive(Debug, PartialEq)]
pub(super) enum Write {
    Append(Vec<Arc<Event>>),
    Begin(AttemptStart),
    Chunks(Vec<Arc<str>>),
    End,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    items: Vec<Item>,
    /// When the first of them came.
    since: Option<Duration>,
    /// An attempt that nothing has come of yet. Nothing is written for it.
    attempt: Option<AttemptStart>,
    flush: Option<Flush>,
    /// The last batch failed: the timer waits for somebody to ask for the next attempt.
    paused: bool,
}

/// A barrier that has been asked for and is not reached.
#[derive(Debug)]
struct Flush {
    due: Duration,
    completion: Completion,
    /// A flush writes once even if nothing is queued: that makes a new session exist.
    written: bool,
}

impl Queue {
    pub(super) fn push_event(&mut self, event: Arc<Event>, now: Duration) {
        self.push(Item::Event(event), now);
    }

    pub(super) fn begin(&mut self, start: AttemptStart) {
        self.attempt = Some(start);
    }

    pub(super) fn push_chunk(&mut self, chunk: Arc<str>, now: Duration) {
        if let Some(start) = self.attempt.take() {
            self.push(Item::Begin(start), now);
        }
        self.push(Item::Chunk(chunk), now);
    }

    pub(super) fn end(&mut self, now: Duration) {
        // If nothing has come, there is nothing to take away.
        if self.attempt.take().is_none() {
            self.push(Item::End, now);
        }
    }

    fn push(&mut self, item: Item, now: Duration) {
        self.items.push(item);
        self.since.get_or_insert(now);
    }

    /// Asks for everything to be written at once. Whoever asks while another does joins that one.
    pub(super) fn flush(&mut self, now: Duration) -> Completion {
        self.paused = false;
        let flush = self.flush.get_or_insert_with(|| Flush {
            due: now,
            completion: Completion::new(),
            written: false,
        });
        flush.completion.clone()
    }

    /// When the next batch is due; `None` if there is none, or the last one failed and nobody has asked since.
    pub(super) fn due(&self) -> Option<Duration> {
        if self.paused {
            return None;
        }
        match &self.flush {
            Some(flush) => Some(flush.due),
            None => self.since.map(|since| since + WINDOW),
        }
    }

    /// The next batch: everything queued so far.
    pub(super) fn take(&mut self) -> Vec<Write> {
        self.since = None;
        if let Some(flush) = &mut self.flush {
            flush.written = true;
        }
        plan(mem::take(&mut self.items))
    }

    /// A batch was written. Returns the barrier that is reached by it, if one is.
    pub(super) fn succeeded(&mut self, now: Duration) -> Option<Completion> {
        let flush = self.flush.as_mut()?;
        if self.items.is_empty() && flush.written {
            return self.flush.take().map(|flush| flush.completion);
        }
        // Behind whoever has waited meanwhile.
        flush.due = now;
        None
    }

    /// A batch failed; `left` of it is not written and goes first the next time. Returns the barrier that is not reached.
    pub(super) fn failed(&mut self, left: Vec<Write>, now: Duration) -> Option<Completion> {
        let behind = mem::take(&mut self.items);
        self.items = left.into_iter().flat_map(Write::into_items).collect();
        self.items.extend(behind);
        self.since.get_or_insert(now);
        self.paused = true;
        self.flush.take().map(|flush| flush.completion)
    }
}

/// Puts items into as few writes as order allows: events keep theirs, and an attempt's journal begins behind the events
/// that were queued ahead of it. What belongs to an attempt that a later item ends, or replaces, is not written at all.
fn plan(items: Vec<Item>) -> Vec<Write> {
    let is_edge = |item: &Item| matches!(item, Item::Begin(_) | Item::End);
    let (mut ahead, mut behind, mut chunks) = (Vec::new(), Vec::new(), Vec::new());
    let mut edge = None;
    let mut edges_left = items.iter().filter(|item| is_edge(item)).count();
    for item in items {
        match item {
            Item::Event(event) if edges_left > 0 => ahead.push(event),
            Item::Event(event) => behind.push(event),
            Item::Chunk(chunk) if edges_left == 0 => chunks.push(chunk),
            Item::Chunk(_) => {}
            item => {
                edges_left -= 1;
                edge = Some(item);
            }
        }
    }
    let append = |events: Vec<Arc<Event>>| Some(events).filter(|events| !events.is_empty());
    let chunks = Some(chunks).filter(|chunks| !chunks.is_empty());
    let chunks = chunks.map(Write::Chunks);
    match edge {
        None => {
            // An empty append too: it makes a new session exist.
            let events = Some(behind).filter(|events| chunks.is_none() || !events.is_empty());
            chunks
                .into_iter()
                .chain(events.map(Write::Append))
                .collect()
        }
        Some(Item::Begin(start)) => {
            let ahead = append(ahead).map(Write::Append);
            let begun = [Some(Write::Begin(start)), chunks].into_iter().flatten();
            let behind = append(behind).map(Write::Append);
            ahead.into_iter().chain(begun).chain(behind).collect()
        }
        Some(_) => {
            ahead.append(&mut behind);
            append(ahead)
                .map(Write::Append)
                .into_iter()
                .chain([Write::End])
                .collect()
        }
    }
}

impl Write {
    fn into_items(self) -> Vec<Item> {
        match self {
            Self::Append(events) => events.into_iter().map(Item::Event).collect(),
            Self::Begin(start) => vec![Item::Begin(start)],
            Self::Chunks(chunks) => chunks.into_iter().map(Item::Chunk).collect(),
            Self::End => vec![Item::End],
        }
    }
}
