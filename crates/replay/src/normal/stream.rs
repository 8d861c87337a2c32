//! The stream of an answer as it would be if every run of pieces had come in at once.

use serde_json::{Map, Value};

/// Where a run of pieces keeps them.
const PIECES: [(&str, &str); 3] = [
    ("text-chunks", "texts"),
    ("reasoning-chunks", "texts"),
    ("tool-call-chunks", "args"),
];

/// Joins the pieces of each run, and neighbouring runs of the same block.
pub(super) fn canonical(stream: &mut Value) {
    let Some(records) = stream.as_array_mut() else {
        return;
    };
    let mut joined: Vec<Value> = Vec::with_capacity(records.len());
    for mut record in records.drain(..) {
        let Some((pieces, said)) = run(&record) else {
            joined.push(record);
            continue;
        };
        let earlier = joined.last_mut().filter(|last| continues(last, &record));
        if let Some(last) = earlier.and_then(|last| last.pointer_mut(&format!("/{pieces}/0"))) {
            let before = last.as_str().unwrap_or_default();
            *last = format!("{before}{said}").into();
            continue;
        }
        record["time0"] = 0.into();
        record["dt"] = Value::Array(Vec::new());
        record[pieces] = Value::Array(vec![said.into()]);
        joined.push(record);
    }
    *records = joined;
}

/// What a run says in all, and the member that says it; `None` if it is no run, or not one that can be read.
fn run(record: &Value) -> Option<(&'static str, String)> {
    let kind = record["type"].as_str()?;
    let (_, pieces) = PIECES.into_iter().find(|(name, _)| *name == kind)?;
    record["dt"].as_array()?;
    let texts = record[pieces].as_array()?;
    let said: Option<String> = texts.iter().map(Value::as_str).collect();
    Some((pieces, said?))
}

/// Whether a run goes on where the last one has stopped.
fn continues(last: &Value, next: &Value) -> bool {
    let about = |record: &Value| -> Map<String, Value> {
        let mut record = record.as_object().cloned().unwrap_or_default();
        for member in ["time0", "dt", "texts", "args"] {
            record.shift_remove(member);
        }
        record
    };
    run(last).is_some() && about(last) == about(next)
}
