//! Compactions: a bracket around the summary that stands in for a span of the surface, and the pruning of tool output.

use std::collections::HashSet;

use offshoot_session::{Body, Event, EventLog, Seq};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::read;

/// The compaction that is open, if one is.
#[derive(Default)]
pub(super) struct Compaction {
    open: Option<Open>,
}

struct Open {
    started: Seq,
    id: Box<str>,
    turn: Option<u64>,
    command: Option<Box<str>>,
    summary: Option<Seq>,
    /// The first turn event behind the start: only a compaction that was given up may have one.
    crossed: Option<Crossing>,
}

struct Crossing {
    seq: Seq,
    closes: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BracketData {
    compaction_id: Box<str>,
    turn: Option<u64>,
    source_command_id: Option<Box<str>>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SummaryData {
    compaction_id: Box<str>,
    source_command_id: Option<Box<str>>,
    shadowed_range: Range,
    shadowed_seqs: Vec<Seq>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PruneData {
    shadowed_range: Range,
    shadowed_seqs: Vec<Seq>,
}

#[derive(Clone, Copy, Deserialize)]
struct Range {
    start: Seq,
    end: Seq,
}

#[derive(Deserialize)]
struct CheckpointData {
    source: CheckpointSource,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CheckpointSource {
    compaction_id: Option<Box<str>>,
    source_command_id: Option<Box<str>>,
}

impl Compaction {
    pub(super) fn start(&mut self, event: &Event, turn: Option<u64>) -> Result<(), String> {
        let data: BracketData = read(event)?;
        if let Some(open) = &self.open {
            return Err(format!(
                "compaction `{}` starts although `{}` of event {} is open",
                data.compaction_id, open.id, open.started
            ));
        }
        if data.turn != turn {
            return Err(format!(
                "compaction `{}` names {}, but {} is open",
                data.compaction_id,
                named(data.turn),
                named(turn)
            ));
        }
        self.open = Some(Open {
            started: event.seq(),
            id: data.compaction_id,
            turn,
            command: data.source_command_id,
            summary: None,
            crossed: None,
        });
        Ok(())
    }

    pub(super) fn summarise(&mut self, event: &Event, before: &EventLog) -> Result<(), String> {
        let data: SummaryData = read(event)?;
        let open = self.owner(Some(&data.compaction_id), data.source_command_id.as_deref())?;
        if let Some(summary) = open.summary {
            return Err(format!(
                "compaction `{}` has its summary in event {summary}",
                open.id
            ));
        }
        let Range { start, end } = data.shadowed_range;
        let Some(span) = before.surface().slice(start, end) else {
            return Err(format!(
                "`shadowedRange` {start} to {end} is no span of the surface"
            ));
        };
        if span != data.shadowed_seqs {
            return Err(format!(
                "`shadowedSeqs` must be the surface from {start} to {end}, which is {}, found {}",
                listed(&span),
                listed(&data.shadowed_seqs)
            ));
        }
        spare_head(&data.shadowed_seqs, before)?;
        open.summary = Some(event.seq());
        Ok(())
    }

    pub(super) fn checkpoint(&mut self, event: &Event) -> Result<(), String> {
        let CheckpointData { source } = read(event)?;
        self.owner(
            source.compaction_id.as_deref(),
            source.source_command_id.as_deref(),
        )?;
        Ok(())
    }

    pub(super) fn end(&mut self, event: &Event) -> Result<(), String> {
        let data: BracketData = read(event)?;
        let open = self.owner(Some(&data.compaction_id), data.source_command_id.as_deref())?;
        if data.turn != open.turn {
            return Err(format!(
                "compaction `{}` was started in {}, but its end names {}",
                open.id,
                named(open.turn),
                named(data.turn)
            ));
        }
        if data.error.is_none() && open.summary.is_none() {
            return Err(format!(
                "compaction `{}` ends without a summary and without an error",
                open.id
            ));
        }
        self.open = None;
        Ok(())
    }

    /// A turn starts or ends.
    pub(super) fn cross(&mut self, event: &Event) {
        let Some(open) = &mut self.open else {
            return;
        };
        let closes = matches!(
            event.body(),
            Body::TurnEnd { reason, .. } if matches!(&**reason, "interrupted" | "forked")
        );
        open.crossed.get_or_insert(Crossing {
            seq: event.seq(),
            closes,
        });
    }

    /// Whoever ran the compaction is gone: a later lifecycle does not go on with it.
    pub(super) fn orphan(&mut self) {
        self.open = None;
    }

    pub(super) fn finish(&self, last: Seq) -> Result<(), (Seq, String)> {
        let Some(Open {
            crossed: Some(crossing),
            id,
            started,
            ..
        }) = &self.open
        else {
            return Ok(());
        };
        // A repair writes closers and marker in one batch, of which a crash may leave the closers alone.
        if crossing.closes && crossing.seq == last {
            return Ok(());
        }
        Err((crossing.seq, crossed(id, *started)))
    }

    /// The open compaction, if the event names it.
    fn owner(&mut self, id: Option<&str>, command: Option<&str>) -> Result<&mut Open, String> {
        let shown =
            |name: Option<&str>| name.map_or_else(|| "none".into(), |name| format!("`{name}`"));
        let Some(open) = &mut self.open else {
            return Err(format!(
                "belongs to the compaction {}, but none is open",
                shown(id)
            ));
        };
        if id != Some(&*open.id) {
            return Err(format!(
                "belongs to the compaction {}, but `{}` of event {} is open",
                shown(id),
                open.id,
                open.started
            ));
        }
        if command != open.command.as_deref() {
            return Err(format!(
                "compaction `{}` was started with the `sourceCommandId` {}, found {}",
                open.id,
                shown(open.command.as_deref()),
                shown(command)
            ));
        }
        if let Some(crossing) = &open.crossed {
            return Err(format!(
                "goes on although event {} crossed: {}",
                crossing.seq,
                crossed(&open.id, open.started)
            ));
        }
        Ok(open)
    }
}

/// Pruning cuts down single results: its list has gaps, so only the ends and the order in the log can be checked.
pub(super) fn check_prune(event: &Event, before: &EventLog) -> Result<(), String> {
    let PruneData {
        shadowed_range: Range { start, end },
        shadowed_seqs,
    } = read(event)?;
    let (first, last) = (shadowed_seqs.first(), shadowed_seqs.last());
    if (first, last) != (Some(&start), Some(&end)) {
        return Err(format!(
            "`shadowedRange` is {start} to {end}, but `shadowedSeqs` is {}",
            listed(&shadowed_seqs)
        ));
    }
    let mut seen = HashSet::with_capacity(shadowed_seqs.len());
    for &seq in &shadowed_seqs {
        if seq >= event.seq() {
            return Err(format!(
                "`shadowedSeqs` names event {seq}, which is not earlier"
            ));
        }
        if !seen.insert(seq) {
            return Err(format!("`shadowedSeqs` names event {seq} twice"));
        }
    }
    spare_head(&shadowed_seqs, before)
}

fn spare_head(span: &[Seq], before: &EventLog) -> Result<(), String> {
    let surface = before.surface();
    match surface.head().filter(|_| surface.has_protected_head()) {
        Some(head) if span.contains(&head) => Err(format!(
            "`shadowedSeqs` names event {head}, the system message at the head"
        )),
        _ => Ok(()),
    }
}

fn crossed(id: &str, started: Seq) -> String {
    format!("a turn must not start or end while compaction `{id}` of event {started} is open")
}

fn named(turn: Option<u64>) -> String {
    turn.map_or_else(|| "no turn".into(), |turn| format!("turn {turn}"))
}

/// The list as text, cut when it is too long to be read.
fn listed(seqs: &[Seq]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<String> = seqs.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = if seqs.len() > SHOWN { ", …" } else { "" };
    format!("[{}{more}] ({} events)", shown.join(", "), seqs.len())
}
