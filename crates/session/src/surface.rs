//! The surface: the ordered list of events whose messages the model sees (`reference/persistence.md` §7).
//!
//! Planning is pure and separate from applying: a refused event changes nothing, and replaying a validated prefix
//! applies without planning again.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::body::Body;
use crate::event::{Event, SurfaceOp};
use crate::shared_vec::SharedVec;
use crate::{EventKind, EventLog, Seq};

/// The fold of surface operations.
#[derive(Clone, Debug, Default)]
pub struct Surface {
    nodes: SharedVec<Seq>,
    head_is_system: bool,
    replacements: u64,
    projections: u64,
}

impl Surface {
    /// The nodes in surface order. After a replacement this is not the order of their seqs.
    pub fn nodes(&self) -> impl Iterator<Item = Seq> + '_ {
        self.nodes.iter().copied()
    }

    /// The nodes from a place on, counted from 0.
    pub fn nodes_from(&self, place: usize) -> impl Iterator<Item = Seq> + '_ {
        self.nodes.iter_from(place).copied()
    }

    /// The node at a place, counted from 0.
    #[must_use]
    pub fn node(&self, place: usize) -> Option<Seq> {
        self.nodes.get(place).copied()
    }

    /// How many nodes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the model would see nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether node 0 is a system message, which only another one may replace.
    #[must_use]
    pub const fn has_protected_head(&self) -> bool {
        self.head_is_system
    }

    /// Node 0.
    #[must_use]
    pub fn head(&self) -> Option<Seq> {
        self.nodes.get(0).copied()
    }

    /// Grows whenever earlier content of the surface changes: by replacements and by projections such as
    /// `image/offload`. A request series, and with it the provider's prefix cache, lasts while this stays the same.
    #[must_use]
    pub const fn content_generation(&self) -> u64 {
        self.replacements + self.projections
    }

    /// Whether the event is on the surface now. Looks from the end, where most questions are about.
    #[must_use]
    pub fn contains(&self, seq: Seq) -> bool {
        self.position(seq).is_some()
    }

    /// The nodes from `start` to `end`, both included, if both are on the surface in this order.
    #[must_use]
    pub fn slice(&self, start: Seq, end: Seq) -> Option<Vec<Seq>> {
        let (first, last) = (self.position(start)?, self.position(end)?);
        (first <= last).then(|| {
            self.nodes
                .iter_from(first)
                .take(last - first + 1)
                .copied()
                .collect()
        })
    }

    fn position(&self, seq: Seq) -> Option<usize> {
        (0..self.nodes.len())
            .rev()
            .find(|&at| self.nodes.get(at) == Some(&seq))
    }

    /// Checks what `event` would do to the surface of the log it is about to join.
    pub(crate) fn plan(&self, event: &Event, log: &EventLog) -> Result<(), String> {
        let Some(op) = event.surface_op() else {
            return Ok(());
        };
        if *event.kind() == EventKind::AssistantMessage && event.sources().is_some() {
            return Err("an assistant/message must not have `sourceEventSeqs`".into());
        }
        let SurfaceOp::Replace { start, end } = op else {
            return Ok(());
        };
        let slice = self.slice(start, end).ok_or_else(|| {
            match (self.contains(start), self.contains(end)) {
                (false, _) => {
                    format!("the replaced range starts at {start}, which is not on the surface")
                }
                (_, false) => {
                    format!("the replaced range ends at {end}, which is not on the surface")
                }
                _ => format!(
                    "the replaced range runs backwards: {start} stands behind {end} on the surface"
                ),
            }
        })?;
        let mut cited = event.sources().unwrap_or_default().to_vec();
        cited.sort_unstable();
        if let Some(missing) = slice.iter().find(|seq| cited.binary_search(seq).is_err()) {
            return Err(format!(
                "the replaced event {missing} is not cited in `sourceEventSeqs`"
            ));
        }
        if self.head_is_system
            && self.nodes.get(0) == slice.first()
            && (slice.len() != 1 || *event.kind() != EventKind::SystemMessage)
        {
            return Err(
                "the system message at the head may only be replaced by another one".into(),
            );
        }
        if *event.kind() == EventKind::ToolResult {
            return self.plan_rewritten_result(event, log, &slice);
        }
        Ok(())
    }

    /// A rewritten tool result stands for exactly one earlier result and changes nothing but its content.
    fn plan_rewritten_result(
        &self,
        event: &Event,
        log: &EventLog,
        slice: &[Seq],
    ) -> Result<(), String> {
        let [old] = *slice else {
            return Err(format!(
                "a tool/result may replace exactly one result, not {} nodes",
                slice.len()
            ));
        };
        let old = log
            .get(old)
            .filter(|old| *old.kind() == EventKind::ToolResult);
        let old = old.ok_or("a tool/result may only replace another tool/result")?;
        let (before, after) = (without_content(old)?, without_content(event)?);
        if !before
            .iter()
            .zip(&after)
            .all(|(before, after)| same(before, after))
        {
            return Err("a rewritten tool/result may change nothing but its content".into());
        }
        Ok(())
    }

    /// Applies a planned event.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event.surface_op() {
            None => {
                if let Body::ImageOffload(_) = event.body() {
                    self.projections += 1;
                }
            }
            Some(SurfaceOp::Append) => {
                if self.nodes.is_empty() {
                    self.head_is_system = *event.kind() == EventKind::SystemMessage;
                }
                self.nodes.push(event.seq());
            }
            Some(SurfaceOp::Replace { start, end }) => {
                let span = self.position(start).zip(self.position(end));
                let (first, last) =
                    span.expect("BUG: a planned replacement names nodes of the surface");
                let behind: Vec<Seq> = self.nodes.iter_from(last + 1).copied().collect();
                self.nodes.truncate(first);
                self.nodes.push(event.seq());
                for seq in behind {
                    self.nodes.push(seq);
                }
                if first == 0 {
                    self.head_is_system = *event.kind() == EventKind::SystemMessage;
                }
                self.replacements += 1;
            }
        }
    }
}

/// The members of a JSON object. The values stay text: how deep they nest is not ours to limit.
type Members<'a> = BTreeMap<Box<str>, &'a RawValue>;

/// A tool/result apart from its content: the members beside the message, and the message's own.
fn without_content(event: &Event) -> Result<[Members<'_>; 2], String> {
    let mut rest: Members<'_> = event.parse().map_err(|error| error.to_string())?;
    let message = rest.remove("message").map_or("{}", RawValue::get);
    let mut message: Members<'_> =
        serde_json::from_str(message).map_err(|error| error.to_string())?;
    message.remove("content");
    Ok([rest, message])
}

/// Equal by text, or else by value: members may have been written in another order.
fn same(a: &Members<'_>, b: &Members<'_>) -> bool {
    let equal = |a: &RawValue, b: &RawValue| {
        let value = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
        a.get() == b.get() || value(a).is_some_and(|a| Some(a) == value(b))
    };
    a.len() == b.len()
        && a.iter()
            .all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
}
