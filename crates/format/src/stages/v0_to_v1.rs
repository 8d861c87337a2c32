//! V0 → V1: early ways of writing things become the one that was frozen (`reference/persistence.md` §2.3).
//!
//! Events keep their numbers, and most their text. What is normalised is then held against the shapes that V1 was released
//! with, so that nothing rises whose meaning nobody knows.

mod messages;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;

use super::messages::{Rewritten, member};
use crate::chain::{Context, Item, Stage};
use crate::json::{Members, Node, quote};
use crate::record::{Record, Refusal};
use crate::shapes;
use crate::version::Version;

/// The stage.
pub(crate) struct V0ToV1 {
    session: String,
    has_parent: bool,
    inherited: u64,
    /// The ids of results, for those that replace them: by seq.
    results: HashMap<u64, String>,
    /// The retry id of a chain whose events do not name one.
    retries: HashMap<String, String>,
    /// The same for the compaction that is under way.
    compaction: Option<String>,
}

impl V0ToV1 {
    pub(crate) fn new(context: &Context<'_>) -> Self {
        Self {
            session: context.header.id.as_str().to_owned(),
            has_parent: context.header.parent.is_some(),
            inherited: context.seed_length.unwrap_or(0),
            results: HashMap::new(),
            retries: HashMap::new(),
            compaction: None,
        }
    }

    fn event(&mut self, record: &mut Record) -> Result<(), Refusal> {
        if !record.node().is_object() {
            return Err(record.unsupported("expected an object as the payload"));
        }
        rename(record)?;
        let edited = match &*record.kind {
            "turn/start" => trigger(record)?,
            "turn/end" => reason(record)?,
            "user/message" => self.user(record)?,
            "assistant/message" => messages::assistant(record, &self.session)?,
            "tool/result" => self.result(record)?,
            "request/header" => header(record)?,
            "llm/retry" | "llm/retry-started" => self.retry(record)?,
            "compaction/start" | "compaction/summary" | "compaction/end" => {
                self.compaction(record)?
            }
            "session/end-seed" => {
                self.compaction = None;
                None
            }
            "session-log-deepseek/delivery-accepted" => {
                self.delivery(record)?;
                None
            }
            _ => None,
        };
        record.replace_data(edited);
        if !Version::V1.knows(&record.kind) {
            return Err(record.unsupported("expected an event type that V0 was released with"));
        }
        let checked = shapes::check(&record.kind, record.node(), Version::V1);
        checked.map_err(|reason| record.unsupported(reason))
    }

    /// What a compaction puts in the place of messages belongs to it.
    fn user(&self, record: &Record) -> Rewritten {
        let named = messages::user(record, &self.session)?;
        let node = Node::new(named.as_deref().unwrap_or(&record.data));
        let edited = member(node, "source", |source| {
            let is_compact = source.names("kind", "plugin") && source.names("plugin", "compact");
            if !is_compact || source.get("compactionId").is_some() {
                return Ok(None);
            }
            let mut members = record_members(source);
            let id = self.compaction.clone();
            let id = id.unwrap_or_else(|| legacy_compaction(&self.session, record));
            members.push("compactionId", quote(&id));
            Ok(Some(members.render()))
        })?;
        Ok(edited.or(named))
    }

    /// A result that replaces another one is the same message, so it has the same id.
    fn result(&mut self, record: &Record) -> Rewritten {
        let replaced = match record.surface {
            Some(offshoot_session::SurfaceOp::Replace { start, .. }) => {
                self.results.get(&start.get())
            }
            _ => None,
        };
        let edited = messages::result(record, replaced.map(String::as_str), &self.session)?;
        let data = Node::new(edited.as_deref().unwrap_or(&record.data));
        if let Some(id) = data
            .get("message")
            .and_then(|message| message.get("id")?.text())
        {
            self.results.insert(record.seq, id.into_owned());
        }
        Ok(edited)
    }

    /// Retries of one request have one id.
    fn retry(&mut self, record: &Record) -> Rewritten {
        let mut members = record.members()?;
        let part = |name| members.get(name).map_or("", |node| node.json());
        let request = format!("{} {}", part("turn"), part("step"));
        if let Some(named) = members.get("retryId") {
            if let Some(id) = named.text().filter(|_| record.is("llm/retry")) {
                self.retries.insert(request, id.into_owned());
            }
            return Ok(None);
        }
        let chain = format!("{request} {} {}", part("provider"), part("policyKey"));
        let minted = format!("legacy-retry:{}:{}", self.session, record.seq);
        let id = match record.is("llm/retry") {
            true => self.retries.entry(chain).or_insert(minted).clone(),
            // What was started names no chain: it is the last one that was scheduled for the step.
            false => self.retries.get(&request).cloned().unwrap_or(minted),
        };
        self.retries.insert(request, id.clone());
        members.insert_first("retryId", quote(&id));
        Ok(Some(members.render()))
    }

    /// The events of one compaction have one id.
    fn compaction(&mut self, record: &Record) -> Rewritten {
        let mut members = record.members()?;
        let named = members.get("compactionId").is_some();
        let minted = || legacy_compaction(&self.session, record);
        let id = match &*record.kind {
            "compaction/start" => minted(),
            _ => self.compaction.take().unwrap_or_else(minted),
        };
        if !record.is("compaction/end") {
            self.compaction = (!named).then(|| id.clone());
        }
        if named {
            return Ok(None);
        }
        members.insert_first("compactionId", quote(&id));
        Ok(Some(members.render()))
    }

    /// A delivery of this very generation speaks of this session, or was inherited.
    fn delivery(&self, record: &Record) -> Result<(), Refusal> {
        let data = record.node();
        let generation = data.get("sessionFormatVersion");
        if generation.is_some_and(|generation| generation.count() != Some(0)) {
            return Ok(());
        }
        let session = data.get("sessionId").and_then(|session| session.text());
        let inherited = self.has_parent && record.seq < self.inherited;
        match session {
            Some(session) if session != self.session && !inherited => {
                Err(record.malformed(format!(
                    "`sessionId` must be this session, `{}`, found `{session}`",
                    self.session
                )))
            }
            _ => Ok(()),
        }
    }
}

impl Stage for V0ToV1 {
    fn take(&mut self, mut item: Item, out: &mut Vec<Item>) -> Result<(), Refusal> {
        if let Item::Event(record) = &mut item {
            self.event(record)?;
        }
        out.push(item);
        Ok(())
    }

    fn finish(&mut self, _out: &mut Vec<Item>) -> Result<(), Refusal> {
        Ok(())
    }
}

fn legacy_compaction(session: &str, record: &Record) -> String {
    format!("legacy-compaction:{session}:{}", record.seq)
}

fn rename(record: &mut Record) -> Result<(), Refusal> {
    let name = match &*record.kind {
        "compact/start" => "compaction/start",
        "compact/summary" => "compaction/summary",
        "compact/end" => "compaction/end",
        "compact/prune" => "compaction/prune",
        "steering/message" => {
            let message = messages::steering(record)?;
            record.replace_data(Some(message));
            "user/message"
        }
        _ => return Ok(()),
    };
    record.kind = Cow::Borrowed(name);
    Ok(())
}

/// What made a turn start is no longer said.
fn trigger(record: &Record) -> Rewritten {
    let mut members = record.members()?;
    let Some(trigger) = members.get("trigger") else {
        return Ok(None);
    };
    let kind = trigger.get("kind");
    if !kind.is_some_and(|kind| kind.is_string() && kind.json() != r#""""#) {
        return Err(record.unsupported("`trigger` must have a `kind`"));
    }
    if members.get("turn").and_then(|turn| turn.count()) == Some(0) {
        return Err(record.unsupported("`turn` must be from 1 on, because it has a `trigger`"));
    }
    members.remove("trigger");
    Ok(Some(members.render()))
}

fn reason(record: &Record) -> Rewritten {
    member(record.node(), "reason", |reason| {
        let aborted = |by| {
            Some(format!(
                r#"{{"kind":"aborted","reason":{{"kind":"{by}"}}}}"#
            ))
        };
        let only_kind = reason.members().is_some_and(|members| members.len() == 1);
        if reason.names("kind", "aborted") && only_kind {
            return Ok(aborted("legacy"));
        }
        if reason.names("kind", "disposed") {
            return match only_kind {
                true => Ok(aborted("disposed")),
                false => Err(record.unsupported("the reason `disposed` has no other members")),
            };
        }
        if !reason.names("kind", "error") || reason.get("error").is_some() {
            return Ok(None);
        }
        failure(reason).map(Some).ok_or_else(|| {
            record.unsupported(
                "the reason `error` must have `error`, or `step` and `failure`, or `step`, `message` and perhaps `code`",
            )
        })
    })
}

/// The failure of a step that once stood beside the failure, which may not have been wrapped at all.
fn failure(reason: Node<'_>) -> Option<String> {
    let mut members = record_members(reason);
    members.remove("kind");
    Node::new(&members.remove("step")?).count()?;
    let error = match members.remove("failure") {
        Some(failure) => failure.into_owned(),
        None => {
            let message = members.remove("message")?;
            let code = members.remove("code");
            let code = code.as_deref().unwrap_or(r#""UNKNOWN""#);
            format!(r#"{{"message":{message},"code":{code}}}"#)
        }
    };
    let nothing_else = members.iter().next().is_none();
    nothing_else.then(|| format!(r#"{{"kind":"error","error":{error}}}"#))
}

fn record_members(node: Node<'_>) -> Members<'_> {
    Members::of(node).unwrap_or_default()
}

fn header(record: &Record) -> Rewritten {
    if record.node().names("reason", "fallback") {
        return Err(record.unsupported("the reason `fallback` has no successor in V1"));
    }
    member(record.node(), "header", |header| {
        let mut members = record_members(header);
        Ok(members.remove("messagePrefix").map(|_| members.render()))
    })
}
