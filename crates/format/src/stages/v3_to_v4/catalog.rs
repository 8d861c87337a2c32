//! Which children a session has: since V4 its log says so, completely (`reference/persistence.md` §2.6).

use std::collections::HashMap;

use offshoot_session::LogOffset;

use crate::Place;
use crate::chain::Context;
use crate::evidence::{ChildDescriptor, ChildEvidence};
use crate::json::quote;
use crate::record::{Record, Refusal};

/// The facts that the log has, and those that other files prove.
pub(super) struct Catalog {
    /// In the order in which missing ones are added.
    children: Vec<ChildEvidence>,
    /// Children that the log names, and when it says that they were created. Facts of a parent do not count.
    known: HashMap<String, Option<u64>>,
    created_at: i64,
    last: Option<(Place, u64, i64)>,
}

impl Catalog {
    pub(super) fn new(context: &Context<'_>) -> Self {
        let mut children = context.children.to_vec();
        children.sort_by(|a, b| (a.created_at, a.id.as_str()).cmp(&(b.created_at, b.id.as_str())));
        Self {
            children,
            known: HashMap::new(),
            created_at: i64::try_from(context.header.created_at).unwrap_or(i64::MAX),
            last: None,
        }
    }

    pub(super) fn see(&mut self, record: &Record) -> Result<(), Refusal> {
        self.last = Some((record.place, record.seq, record.time));
        match &*record.kind {
            "session/end-seed" => {
                let inherited = record.node().get("inherited");
                if inherited.is_some_and(|inherited| inherited.json() == "true") {
                    self.known.clear();
                }
            }
            "subagent/catalog" => {
                let data = record.node();
                let child = data.get("childId").and_then(|child| child.text());
                let child = child.ok_or_else(|| record.malformed("`childId` must be a string"))?;
                let created = data.get("childCreatedAt").and_then(|time| time.count());
                self.known.insert(child.into_owned(), created);
            }
            _ => {}
        }
        Ok(())
    }

    /// The facts that the log lacks, as its last events.
    ///
    /// # Errors
    /// Evidence that contradicts itself or the log.
    pub(super) fn missing(&mut self) -> Result<Vec<Record>, Refusal> {
        let header = Place {
            line: 1,
            seq: LogOffset::START,
            byte: 0,
        };
        let (place, seq, time) = self.last.unwrap_or((header, 0, self.created_at));
        let children = std::mem::take(&mut self.children);
        let conflict = |child: &ChildEvidence, what: &str| {
            Refusal::unsupported(
                None,
                format!("the child session `{}` {what}", child.id.as_str()),
            )
        };
        let mut facts = Vec::new();
        for (at, child) in children.iter().enumerate() {
            if let Some(twin) = children[..at].iter().find(|twin| twin.id == child.id) {
                if twin == child {
                    continue;
                }
                return Err(conflict(
                    child,
                    "is described in two ways that contradict each other",
                ));
            }
            match self.known.get(child.id.as_str()) {
                None => facts.push(Record::added(
                    place,
                    "subagent/catalog",
                    seq,
                    time,
                    fact(child),
                )),
                Some(Some(created)) if *created != child.created_at => {
                    let what = format!(
                        "was created at {}, but the log says {created}",
                        child.created_at
                    );
                    return Err(conflict(child, &what));
                }
                Some(_) => {}
            }
        }
        Ok(facts)
    }
}

/// Exactly one descriptor, of a version and with a mode that are known, says what the child is; anything else proves no
/// more than that it exists.
fn fact(child: &ChildEvidence) -> String {
    let id = quote(child.id.as_str());
    let created = child.created_at;
    let mode = match &child.descriptors[..] {
        [descriptor] => mode_of(descriptor).map(|mode| (descriptor, mode)),
        _ => None,
    };
    let Some((descriptor, mode)) = mode else {
        return format!(
            r#"{{"version":1,"childId":{id},"childCreatedAt":{created},"mode":"unknown"}}"#
        );
    };
    let label = descriptor.label.as_deref();
    let label = label.map_or_else(String::new, |label| format!(r#","label":{}"#, quote(label)));
    format!(
        r#"{{"version":0,"childId":{id},"childCreatedAt":{created},"mode":{}{label}}}"#,
        quote(mode)
    )
}

fn mode_of(descriptor: &ChildDescriptor) -> Option<&str> {
    let mode = descriptor.mode.as_deref();
    match descriptor.version {
        1 => Some("continuable"),
        2 | 3 => mode.filter(|mode| matches!(*mode, "one-shot" | "continuable")),
        _ => None,
    }
}
