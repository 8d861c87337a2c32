//! One order for what parallel calls write in any.
//!
//! Calls and their results are logged in the model's order, but the entries for the subagents that they start are logged
//! when those are there, which is a race. They are put behind the calls and results that they stand among, in the order of
//! the subagents' names. What names events by their number follows.

use std::collections::HashMap;

use serde_json::Value;

use super::Log;
use super::ids::Ids;

/// What races.
const ENTRY: &str = "subagent/catalog";
/// What it stands among.
const AMONG: [&str; 3] = ["tool/call", "tool/result", ENTRY];

pub(super) fn canonical(log: &mut Log, ids: &Ids) {
    let end = log.rows.len() as u64;
    for row in &mut log.rows {
        if let Some(Value::Array(sources)) = row.get_mut("sourceEventSeqs") {
            unpack(sources, end);
        }
    }
    let kinds: Vec<&str> = log.rows.iter().map(kind).collect();
    let mut order: Vec<usize> = Vec::with_capacity(kinds.len());
    let mut at = 0;
    while at < kinds.len() {
        let len = kinds[at..]
            .iter()
            .take_while(|kind| AMONG.contains(kind))
            .count();
        let run = at..at + len.max(1);
        let (mut entries, others): (Vec<usize>, Vec<usize>) =
            run.clone().partition(|row| kinds[*row] == ENTRY);
        entries.sort_by_key(|row| child(&log.rows[*row], ids));
        order.extend(others);
        order.extend(entries);
        at = run.end;
    }
    let is_moved = |(to, from): (usize, &usize)| to != *from;
    if !order.iter().enumerate().any(is_moved) {
        return;
    }
    let moved: HashMap<u64, u64> = (0..)
        .zip(&order)
        .map(|(to, from)| (*from as u64, to))
        .collect();
    let mut rows: Vec<Option<Value>> = std::mem::take(&mut log.rows)
        .into_iter()
        .map(Some)
        .collect();
    log.rows = order.iter().filter_map(|from| rows[*from].take()).collect();
    for row in &mut log.rows {
        renumber(row, &moved);
    }
}

/// Seqs one by one: whether they are written as ranges depends on where they stand.
fn unpack(sources: &mut Vec<Value>, end: u64) {
    let each = |item: &Value| match item.as_array().map(Vec::as_slice) {
        Some([start, last]) => match (start.as_u64(), last.as_u64()) {
            (Some(start), Some(last)) if last < end => (start..=last).map(Value::from).collect(),
            _ => vec![item.clone()],
        },
        _ => vec![item.clone()],
    };
    *sources = sources.iter().flat_map(each).collect();
}

fn kind(row: &Value) -> &str {
    row["type"].as_str().unwrap_or_default()
}

/// What the subagent of an entry is called: numbers are compared as such.
fn child(row: &Value, ids: &Ids) -> (usize, String) {
    let id = row["data"]["childId"].as_str().unwrap_or_default();
    let name = ids.session(id);
    (name.len(), name)
}

/// Every place in a row that names events of its log.
fn renumber(row: &mut Value, moved: &HashMap<u64, u64>) {
    for pointer in [
        "/surfaceOp/startSeq",
        "/surfaceOp/endSeq",
        "/sourceEventSeqs",
        "/data/sourceEventSeq",
        "/data/headerSeq",
        "/data/messageSeqs",
        "/data/shadowedRange/start",
        "/data/shadowedRange/end",
        "/data/shadowedSeqs",
    ] {
        if let Some(named) = row.pointer_mut(pointer) {
            follow(named, moved);
        }
    }
    let targets = row
        .pointer_mut("/data/targets")
        .and_then(Value::as_array_mut);
    for target in targets.into_iter().flatten() {
        if let Some(seq) = target.get_mut("seq") {
            follow(seq, moved);
        }
    }
}

fn follow(named: &mut Value, moved: &HashMap<u64, u64>) {
    match named {
        Value::Array(items) => items.iter_mut().for_each(|item| follow(item, moved)),
        named => {
            if let Some(to) = named.as_u64().and_then(|seq| moved.get(&seq)) {
                *named = (*to).into();
            }
        }
    }
}
