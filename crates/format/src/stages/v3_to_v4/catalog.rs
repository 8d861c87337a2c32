//! Which children a session has: since V4 its log says so, completely (`reference/persistence.md` §2.6).

use std::collections::HashMap;

use offshoot_session::{LogOffset, SessionId};

use crate::Place;
use crate::chain::Context;
use crate::evidence::ChildEvidence;
use crate::json::quote;
use crate::record::{Record, Refusal};

/// The facts that the log has, and those that other files prove.
pub(super) struct Catalog {
    children: Vec<ChildEvidence>,
    /// What the log says about the children that it names. Facts of a parent do not count.
    known: HashMap<String, Known>,
    created_at: i64,
    last: Option<(Place, u64, i64)>,
}

/// A fact of the log, as far as evidence can contradict it.
struct Known {
    created_at: Option<u64>,
    mode: Option<String>,
    label: Option<String>,
}

impl Catalog {
    pub(super) fn new(context: &Context<'_>) -> Self {
        Self {
            children: context.children.to_vec(),
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
                let text = |name: &str| Some(data.get(name)?.text()?.into_owned());
                let child = text("childId")
                    .ok_or_else(|| record.malformed("`childId` must be a string"))?;
                let known = Known {
                    created_at: data.get("childCreatedAt").and_then(|time| time.count()),
                    mode: text("mode"),
                    label: text("label"),
                };
                self.known.insert(child, known);
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
        let mut children = std::mem::take(&mut self.children);
        children.sort_by_cached_key(|child| utf16(&child.id));
        children.dedup();
        if let Some(twins) = children.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(conflict(
                &twins[0],
                "is described in two ways that contradict each other",
            ));
        }
        let mut missing = Vec::new();
        for child in &children {
            match self.known.get(child.id.as_str()) {
                None => missing.push(child),
                Some(known) => known.check(child)?,
            }
        }
        // Children of the same moment stay in the order of their ids.
        missing.sort_by_key(|child| child.created_at);
        let added = |child| Record::added(place, "subagent/catalog", seq, time, fact(child));
        Ok(missing.into_iter().map(added).collect())
    }
}

impl Known {
    fn check(&self, child: &ChildEvidence) -> Result<(), Refusal> {
        if let Some(created) = self.created_at.filter(|at| *at != child.created_at) {
            let what = format!(
                "was created at {}, but the log says {created}",
                child.created_at
            );
            return Err(conflict(child, &what));
        }
        let Some((mode, label)) = described(child) else {
            return Ok(());
        };
        let said = self.mode.as_deref().filter(|mode| *mode != UNKNOWN);
        for (member, found, said) in [
            ("mode", Some(mode), said),
            ("label", label, self.label.as_deref()),
        ] {
            if let Some((found, said)) = found.zip(said).filter(|(found, said)| found != said) {
                let what = format!("has the {member} `{found}`, but the log says `{said}`");
                return Err(conflict(child, &what));
            }
        }
        Ok(())
    }
}

fn conflict(child: &ChildEvidence, what: &str) -> Refusal {
    let reason = format!("the child session `{}` {what}", child.id.as_str());
    Refusal::unsupported(None, reason)
}

/// What JavaScript orders strings by.
fn utf16(id: &SessionId) -> Vec<u16> {
    id.as_str().encode_utf16().collect()
}

const UNKNOWN: &str = "unknown";

/// The payload of a fact that the log lacks.
fn fact(child: &ChildEvidence) -> String {
    let id = quote(child.id.as_str());
    let created = child.created_at;
    let (version, (mode, label)) = match described(child) {
        Some(described) => (0, described),
        None => (1, (UNKNOWN, None)),
    };
    let label = label.map_or_else(String::new, |label| format!(r#","label":{}"#, quote(label)));
    format!(
        r#"{{"version":{version},"childId":{id},"childCreatedAt":{created},"mode":"{mode}"{label}}}"#
    )
}

/// Mode and label. Exactly one descriptor says what the child is; anything else proves no more than that it exists.
fn described(child: &ChildEvidence) -> Option<(&str, Option<&str>)> {
    let [descriptor] = &child.descriptors[..] else {
        return None;
    };
    let mode = match (descriptor.version, descriptor.mode.as_deref()) {
        (1, _) => "continuable",
        (2 | 3, Some(mode @ ("one-shot" | "continuable"))) => mode,
        _ => return None,
    };
    Some((mode, descriptor.label.as_deref()))
}
