//! Programmatic tool calls: code that a tool runs may call tools itself.

use std::collections::HashMap;

use offshoot_session::{Event, EventLog, Seq};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::read;

/// All dispatches of the log by their own id.
#[derive(Default)]
pub(super) struct Dispatches {
    known: HashMap<Box<str>, Dispatch>,
}

struct Dispatch {
    root: Box<str>,
    started: Seq,
    settled: Option<Seq>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DispatchData<'a> {
    root_call_id: Box<str>,
    parent_call_id: Box<str>,
    sub_call_id: Box<str>,
    name: Box<str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl Dispatches {
    pub(super) fn start(&mut self, event: &Event) -> Result<(), String> {
        let data: DispatchData<'_> = read(event)?;
        let (id, root, parent) = (data.sub_call_id, data.root_call_id, data.parent_call_id);
        if let Some(earlier) = self.known.get(&id) {
            return Err(format!(
                "event {} started a dispatch `{id}` already",
                earlier.started
            ));
        }
        if parent != root {
            match self.known.get(&parent) {
                None => {
                    return Err(format!(
                        "the parent of dispatch `{id}`, `{parent}`, is neither its root `{root}` nor a dispatch"
                    ));
                }
                Some(parent_of) if parent_of.root != root => {
                    return Err(format!(
                        "dispatch `{id}` has the root `{root}`, but its parent `{parent}` has `{}`",
                        parent_of.root
                    ));
                }
                Some(_) => {}
            }
        }
        let dispatch = Dispatch {
            root,
            started: event.seq(),
            settled: None,
        };
        self.known.insert(id, dispatch);
        Ok(())
    }

    pub(super) fn settle(&mut self, event: &Event, before: &EventLog) -> Result<(), String> {
        let data: DispatchData<'_> = read(event)?;
        let id = &*data.sub_call_id;
        let Some(dispatch) = self.known.get_mut(id) else {
            return Err(format!(
                "settles the dispatch `{id}`, which was not started"
            ));
        };
        if let Some(settled) = dispatch.settled {
            return Err(format!(
                "settles the dispatch `{id}`, which event {settled} settled"
            ));
        }
        let started = dispatch.started;
        if let Some(start) = before.get(started) {
            let start: DispatchData<'_> = read(start)?;
            for (member, before, now) in [
                ("rootCallId", &start.root_call_id, &data.root_call_id),
                ("parentCallId", &start.parent_call_id, &data.parent_call_id),
                ("name", &start.name, &data.name),
            ] {
                if before != now {
                    return Err(format!(
                        "dispatch `{id}` was started by event {started} with the {member} `{before}`, found `{now}`"
                    ));
                }
            }
            if !same(start.arguments, data.arguments) {
                return Err(format!(
                    "dispatch `{id}` was started by event {started} with other arguments"
                ));
            }
        }
        dispatch.settled = Some(event.seq());
        Ok(())
    }
}

/// Equal by text, or else by value: members may have been written in another order.
///
/// Both nested deeper than a value can be read, and written differently: not a contradiction that anybody could show.
fn same(a: Option<&RawValue>, b: Option<&RawValue>) -> bool {
    let a = a.map_or("null", RawValue::get);
    let b = b.map_or("null", RawValue::get);
    if a == b {
        return true;
    }
    match (
        serde_json::from_str::<Value>(a),
        serde_json::from_str::<Value>(b),
    ) {
        (Ok(a), Ok(b)) => same_value(&a, &b),
        (Err(_), Err(_)) => true,
        _ => false,
    }
}

/// As JavaScript compares: 1 and 1.0 are one number. Recursion is bounded by the depth at which values can be read.
fn same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same_value(a, b)))
        }
        _ => a == b,
    }
}
