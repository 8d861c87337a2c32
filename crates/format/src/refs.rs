//! Seqs that move: what a migration renumbers, and every place in a record that names an event.
//!
//! Three steps insert or remove events, so that all later ones get other numbers. What has moved by the same distance is
//! one entry, so the table grows with what was inserted and removed, not with the log.

use offshoot_session::{Seq, SurfaceOp};

use crate::chain::Item;
use crate::json::{Members, Node, list};
use crate::record::{Record, Refusal};

/// From the seqs of the lower version to those of the upper one.
#[derive(Debug, Default)]
pub(crate) struct Renumbering {
    /// From this old seq on: the new seq of that one; `None` for events that are gone. In order.
    runs: Vec<(u64, Option<u64>)>,
    /// How many events the upper version has so far.
    written: u64,
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

    /// The seq that the next event of the upper version gets.
    pub(crate) const fn next(&self) -> u64 {
        self.written
    }

    /// Passes an event of the lower version on, with its new seq and what it refers to.
    pub(crate) fn pass(&mut self, mut record: Record, out: &mut Vec<Item>) -> Result<(), Refusal> {
        remap(&mut record, self)?;
        self.moved(record.seq, self.written);
        self.add(record, out);
        Ok(())
    }

    /// Adds an event that the lower version does not have.
    pub(crate) fn add(&mut self, mut record: Record, out: &mut Vec<Item>) {
        record.seq = self.written;
        self.written += 1;
        out.push(Item::Event(record));
    }

    /// The new seq, unless the event is gone or was never told of.
    pub(crate) fn get(&self, old: u64) -> Option<u64> {
        let at = self.runs.partition_point(|(from, _)| *from <= old);
        let (from, to) = self.runs[at.checked_sub(1)?];
        to.map(|to| to + (old - from))
    }
}

/// Moves every reference of the record: cited events, the ends of a replacement, and the seqs in the payloads of the types
/// that name events. What a payload says about another log, or about an earlier generation of this one, stays.
///
/// # Errors
/// A reference to an event that is gone, or to one that is not ahead of the record, whose own seq is still the old one or
/// a later one; a payload that does not have the shape of its type.
pub(crate) fn remap(record: &mut Record, seqs: &Renumbering) -> Result<(), Refusal> {
    let moved = |seq: u64| {
        if seq >= record.seq {
            return Err(record.malformed(format!("names event {seq}, which is not ahead of it")));
        }
        seqs.get(seq).ok_or_else(|| {
            record.unsupported(format!(
                "names event {seq}, which is part of a model's stream"
            ))
        })
    };
    let surface = match record.surface {
        Some(SurfaceOp::Replace { start, end }) => Some(SurfaceOp::Replace {
            start: Seq::new(moved(start.get())?),
            end: Seq::new(moved(end.get())?),
        }),
        other => other,
    };
    let sources = record.sources.as_ref();
    let sources = sources.map(|sources| sources.iter().map(|seq| moved(*seq)).collect());
    let sources = sources.transpose()?;
    let data = payload(record, &moved)?;
    record.surface = surface;
    record.sources = sources;
    if let Some(data) = data {
        record.data = data.into();
    }
    Ok(())
}

/// The payload with its references moved; `None` if it has none.
fn payload(
    record: &Record,
    moved: &impl Fn(u64) -> Result<u64, Refusal>,
) -> Result<Option<String>, Refusal> {
    let names: &[&str] = match &*record.kind {
        "command/done" => &["sourceEventSeq"],
        "compaction/summary" | "compaction/prune" => &["shadowedRange", "shadowedSeqs"],
        "session/title" | "session/title-llm-request" => &["messageSeqs"],
        "image/offload" => &["targets"],
        _ => return Ok(None),
    };
    let mut members = record.members()?;
    for name in names {
        let Some(node) = members.get(name) else {
            continue;
        };
        let bad = || record.malformed(format!("`{name}` must name events"));
        let seq = |node: Node<'_>| node.count().ok_or_else(bad).and_then(moved);
        let value = match *name {
            "sourceEventSeq" => seq(node)?.to_string(),
            "shadowedRange" => {
                let mut range = Members::of(node).ok_or_else(bad)?;
                for end in ["start", "end"] {
                    let to = seq(range.get(end).ok_or_else(bad)?)?;
                    range.set(end, to.to_string());
                }
                range.render()
            }
            "targets" if node.is_array() => {
                let mut targets = Vec::new();
                for target in node.items() {
                    let mut target = Members::of(target).ok_or_else(bad)?;
                    let to = seq(target.get("seq").ok_or_else(bad)?)?;
                    target.set("seq", to.to_string());
                    targets.push(target.render());
                }
                list(targets)
            }
            _ if !node.is_array() => return Err(bad()),
            _ => {
                let seqs = node
                    .items()
                    .into_iter()
                    .map(|node| Ok(seq(node)?.to_string()));
                list(seqs.collect::<Result<Vec<_>, Refusal>>()?)
            }
        };
        members.set(name, value);
    }
    Ok(Some(members.render()))
}

#[cfg(test)]
mod tests {
    use offshoot_session::LogOffset;

    use super::*;
    use crate::Place;
    use crate::version::Version;

    #[test]
    fn what_moves_by_the_same_distance_is_one_entry() {
        let mut seqs = Renumbering::default();
        (0..4).for_each(|seq| seqs.moved(seq, seq));
        (4..6).for_each(|seq| seqs.gone(seq));
        (6..9).for_each(|seq| seqs.moved(seq, seq - 2));
        assert_eq!(seqs.runs.len(), 3);
        let found: Vec<_> = [0, 3, 4, 5, 6, 8].map(|seq| seqs.get(seq)).into();
        assert_eq!(found, [Some(0), Some(3), None, None, Some(4), Some(6)]);
    }

    const PLACE: Place = Place {
        line: 2,
        seq: LogOffset::START,
        byte: 0,
    };

    /// A record of V3 at seq 9, where event 2 is gone and the ones behind it are one less.
    fn moved(kind: &str, data: &str, members: &str) -> Result<String, Refusal> {
        let mut seqs = Renumbering::default();
        (0..2).for_each(|seq| seqs.moved(seq, seq));
        seqs.gone(2);
        (3..9).for_each(|seq| seqs.moved(seq, seq - 1));
        let row = format!(r#"{{"type":"{kind}","seq":9,"time":0,"data":{data}{members}}}"#);
        let mut record = Record::read(&row, Version::V3, PLACE).unwrap();
        remap(&mut record, &seqs)?;
        Ok(record.render(Version::V3))
    }

    #[test]
    fn every_place_that_names_events_is_moved() {
        let replace = |start: u64, end: u64| {
            format!(
                r#","sourceEventSeqs":[{start},{end}],"surfaceOp":{{"op":"replace","startSeq":{start},"endSeq":{end}}}"#
            )
        };
        let span = |start: u64, end: u64| {
            format!(
                r#"{{"shadowedRange":{{"start":{start},"end":{end}}},"shadowedSeqs":[{start},{end}]}}"#
            )
        };
        let seq = |member: &str, seq: u64| format!(r#"{{"{member}":{seq},"seq":2}}"#);
        let seqs = |seq: u64| format!(r#"{{"messageSeqs":[0,{seq}]}}"#);
        let targets = |seq: u64| format!(r#"{{"targets":[{{"seq":{seq},"imageIndexes":[2]}}]}}"#);
        let none = String::new;
        for (kind, (from, more), (to, moved_more)) in [
            (
                "user/message",
                ("{}".into(), replace(1, 8)),
                ("{}".into(), replace(1, 7)),
            ),
            (
                "compaction/summary",
                (span(1, 8), none()),
                (span(1, 7), none()),
            ),
            (
                "compaction/prune",
                (span(3, 3), none()),
                (span(2, 2), none()),
            ),
            ("session/title", (seqs(4), none()), (seqs(3), none())),
            (
                "session/title-llm-request",
                (seqs(8), none()),
                (seqs(7), none()),
            ),
            (
                "command/done",
                (seq("sourceEventSeq", 5), none()),
                (seq("sourceEventSeq", 4), none()),
            ),
            (
                "command/done",
                (seq("other", 5), none()),
                (seq("other", 5), none()),
            ),
            ("image/offload", (targets(6), none()), (targets(5), none())),
            // Of another log, or of a file that has this seq.
            (
                "session-log-deepseek/delivery-accepted",
                (seq("throughSeq", 5), none()),
                (seq("throughSeq", 5), none()),
            ),
        ] {
            let to = format!(r#"{{"type":"{kind}","seq":9,"time":0,"data":{to}{moved_more}}}"#);
            assert_eq!(moved(kind, &from, &more), Ok(to));
        }
    }

    #[test]
    fn a_reference_that_leads_nowhere_is_refused() {
        let title = |seqs: &str| {
            let told = moved("session/title", &format!(r#"{{"messageSeqs":{seqs}}}"#), "");
            let refusal = told.unwrap_err();
            assert_eq!(refusal.place, Some(PLACE));
            (refusal.malformed, refusal.reason)
        };
        assert_eq!(
            [title("[2]"), title("[9]"), title("[-1]"), title("3")],
            [
                (
                    false,
                    "`session/title`: names event 2, which is part of a model's stream".into()
                ),
                (
                    true,
                    "`session/title`: names event 9, which is not ahead of it".into()
                ),
                (
                    true,
                    "`session/title`: `messageSeqs` must name events".into()
                ),
                (
                    true,
                    "`session/title`: `messageSeqs` must name events".into()
                ),
            ]
        );
    }
}
