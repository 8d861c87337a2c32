//! V3 → V4: tool results get a role of their own, and sources name who made a message (`reference/persistence.md` §2.6).
//!
//! Nothing is dropped here: what V4 does not know keeps its value under a name that begins with `plugin:`.

mod catalog;
mod names;
mod results;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::messages::{Rewritten, each, loose_content, member, messages, stream_blocks};
use super::restart::Restart;
use crate::chain::{Context, Item, Stage};
use crate::json::{Members, Node};
use crate::record::{Record, Refusal};
use crate::refs::Renumbering;
use crate::version::Version;

use catalog::Catalog;

/// The stage.
pub(crate) struct V3ToV4 {
    catalog: Catalog,
    restart: Restart,
    seqs: Renumbering,
}

impl V3ToV4 {
    pub(crate) fn new(context: &Context<'_>) -> Self {
        Self {
            catalog: Catalog::new(context),
            restart: Restart::default(),
            seqs: Renumbering::default(),
        }
    }

    fn event(&mut self, mut record: Record, out: &mut Vec<Item>) -> Result<(), Refusal> {
        check(&record)?;
        self.catalog.see(&record)?;
        if let Some(missing) = self.restart.before(&record) {
            self.seqs.add(missing, out);
        }
        rename(&mut record)?;
        self.seqs.pass(record, out)
    }
}

impl Stage for V3ToV4 {
    fn take(&mut self, item: Item, out: &mut Vec<Item>) -> Result<(), Refusal> {
        match item {
            Item::Event(record) => self.event(record, out),
            Item::Chunks(run) => Err(Refusal::malformed(run.place, "packed chunks ended with V1")),
        }
    }

    fn finish(&mut self, out: &mut Vec<Item>) -> Result<(), Refusal> {
        for fact in self.catalog.missing()? {
            self.seqs.add(fact, out);
        }
        Ok(())
    }
}

/// What V3 accepts and V4 means something else by.
fn check(record: &Record) -> Result<(), Refusal> {
    match &*record.kind {
        "tool/result" => results::check_not_started(record),
        "request/header" => {
            let header = record.node().get("header");
            let tools = header.and_then(|header| header.get("tools"));
            let tools = tools.map_or_else(Vec::new, |tools| tools.items());
            match tools.iter().any(|tool| tool.get("deferLoading").is_some()) {
                true => Err(record.unsupported("`deferLoading` has another meaning since V4")),
                false => Ok(()),
            }
        }
        "session-log-deepseek/delivery-accepted" => {
            let version = record.node().get("sessionFormatVersion");
            match version.and_then(|version| version.count()) {
                Some(4) => Err(record.unsupported("a V3 log cannot have been delivered as V4")),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn rename(record: &mut Record) -> Result<(), Refusal> {
    if !Version::V3.knows(&record.kind) {
        // A reader may pass over it, so nothing is known of its payload.
        record.kind = Cow::Owned(format!("plugin:{}", record.kind));
        return Ok(());
    }
    if record.is("tool/result") {
        let data = results::lift(record)?;
        record.replace_data(data);
    }
    let is_system = record.is("system/message");
    let edited = messages(record, |message| {
        rename_in_message(record, message, is_system)
    })?;
    record.replace_data(edited);
    let edited = loose_content(record, |content| rename_blocks(record, content))?;
    record.replace_data(edited);
    let edited = stream_blocks(
        record,
        |kind| rename_block_type(record, kind),
        |block| rename_block(record, block),
    )?;
    record.replace_streams(edited);
    Ok(())
}

fn rename_in_message(record: &Record, mut message: Members<'_>, is_system: bool) -> Rewritten {
    let source = message
        .get("source")
        .map_or(Ok(None), |source| names::source(source, is_system))?;
    let content = message
        .get("content")
        .map_or(Ok(None), |content| rename_blocks(record, content))?;
    if source.is_none() && content.is_none() {
        return Ok(None);
    }
    for (name, value) in [("source", source), ("content", content)] {
        if let Some(value) = value {
            message.set(name, value);
        }
    }
    Ok(Some(message.render()))
}

fn rename_blocks(record: &Record, content: Node<'_>) -> Rewritten {
    each(content, |block| rename_block(record, block))
}

fn rename_block(record: &Record, block: Node<'_>) -> Rewritten {
    member(block, "type", |kind| rename_block_type(record, kind))
}

fn rename_block_type(record: &Record, kind: Node<'_>) -> Rewritten {
    if kind.is("tool-result") {
        return Err(record.unsupported("a `tool-result` block stands where no result belongs"));
    }
    names::block_type(kind)
}
