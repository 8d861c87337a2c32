//! V2 → V3: the system prompt becomes a message that the model sees (`reference/persistence.md` §2.5).
//!
//! Until V2 the prompt stood in the request headers. Now it is the protected head of the surface: an empty one behind the
//! first step, replaced wherever a header says another prompt. The rest is names.

mod audit;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashSet;

use offshoot_session::{Seq, SurfaceOp};
use sha2::{Digest, Sha256};

use super::messages::{Rewritten, member, messages};
use crate::chain::{Context, Item, Stage};
use crate::json::{Members, Node, quote};
use crate::record::{Record, Refusal};
use crate::refs::Renumbering;
use crate::version::Version;

/// What the ids of added messages begin with.
const SYSTEM_ID: &str = "v2-to-v3-system-";

/// The stage.
pub(crate) struct V2ToV3 {
    /// The session's id as JSON text.
    session: String,
    /// The prompt that the head shows.
    prompt: String,
    /// The head, in V3 seqs.
    head: Option<u64>,
    /// The turn and step that are open, as JSON texts.
    step: Option<(String, String)>,
    seqs: Renumbering,
    /// The ids of the messages that this stage has added, and those of others that look like them.
    added: HashSet<String>,
    alike: HashSet<String>,
}

impl V2ToV3 {
    pub(crate) fn new(context: &Context<'_>) -> Self {
        Self {
            session: quote(context.header.id.as_str()),
            prompt: String::new(),
            head: None,
            step: None,
            seqs: Renumbering::default(),
            added: HashSet::new(),
            alike: HashSet::new(),
        }
    }

    fn event(&mut self, mut record: Record, out: &mut Vec<Item>) -> Result<(), Refusal> {
        audit::check(&record)?;
        if self.head.is_none() && Version::V2.is_surface(&record.kind) {
            return Err(record.unsupported(
                "stands ahead of the first step/start, so no system prompt can be put in front of it",
            ));
        }
        self.remember_ids(&record)?;
        rename(&mut record)?;
        match &*record.kind {
            "step/start" => return self.start_step(record, out),
            "step/end" | "turn/end" => self.step = None,
            "request/header" => self.header(&mut record, out)?,
            _ => {}
        }
        self.seqs.pass(record, out)
    }

    fn start_step(&mut self, record: Record, out: &mut Vec<Item>) -> Result<(), Refusal> {
        let member = |name| {
            record
                .node()
                .get(name)
                .map_or("null", |node| node.json())
                .to_owned()
        };
        self.step = Some((member("turn"), member("step")));
        let anchor = Record::beside(&record, "step/start", "");
        self.seqs.pass(record, out)?;
        if self.head.is_none() {
            let head = self.system_message(&anchor, SurfaceOp::Append)?;
            self.head = Some(self.seqs.next());
            self.seqs.add(head, out);
        }
        Ok(())
    }

    /// Takes the prompt out of a header, and puts it into the surface if it is another one than before.
    fn header(&mut self, record: &mut Record, out: &mut Vec<Item>) -> Result<(), Refusal> {
        let node = record.node().get("header").filter(Node::is_object);
        let header = node.ok_or_else(|| record.malformed("`header` must be an object"))?;
        let system = match header.get("system") {
            None => Cow::Borrowed(""),
            Some(system) if system.is_string() => Cow::Borrowed(system.json()),
            Some(_) => return Err(record.malformed("`header.system` must be a string")),
        };
        let system = match &*system {
            r#""""# => String::new(),
            json => json.to_owned(),
        };
        if !same_text(&system, &self.prompt) {
            let Some(head) = self.head.filter(|_| self.step.is_some()) else {
                return Err(record.unsupported("changes the system prompt outside of an open step"));
            };
            self.prompt = system;
            let head = Seq::new(head);
            let op = SurfaceOp::Replace {
                start: head,
                end: head,
            };
            let message = self.system_message(record, op)?;
            self.head = Some(self.seqs.next());
            self.seqs.add(message, out);
        }
        let edited = member(record.node(), "header", |header| {
            let Some(mut members) = Members::of(header) else {
                return Ok(None);
            };
            members.remove("system");
            let empty = |members: &Members<'_>, name| match members.get(name) {
                Some(node) if node.is_array() => node.items().is_empty(),
                Some(node) => node.members().is_some_and(|members| members.is_empty()),
                None => false,
            };
            for name in ["tools", "adapterDefaults"] {
                if empty(&members, name) {
                    members.remove(name);
                }
            }
            Ok(Some(members.render()))
        })?;
        record.replace_data(edited);
        Ok(())
    }

    /// The message that shows the current prompt, in the open step. Its id follows from what it stands beside.
    fn system_message(&mut self, anchor: &Record, op: SurfaceOp) -> Result<Record, Refusal> {
        let named = format!(
            r#"["session-format-v2-to-v3",{},{},{}]"#,
            self.session,
            anchor.seq,
            quote(&anchor.kind)
        );
        let digest = Sha256::digest(named.as_bytes());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let id = format!("{SYSTEM_ID}{digest}");
        if self.alike.contains(&id) || !self.added.insert(id.clone()) {
            return Err(anchor.unsupported(format!("a message has the id `{id}` already")));
        }
        let (turn, step) = self
            .step
            .as_ref()
            .map_or(("null", "null"), |(turn, step)| (turn, step));
        let content = match &*self.prompt {
            "" => "[]".to_owned(),
            text => format!(r#"[{{"type":"text","text":{text}}}]"#),
        };
        let data = format!(
            r#"{{"turn":{turn},"step":{step},"message":{{"id":"{id}","role":"system","source":{{"kind":"plugin","plugin":"@deepseek-ai/dsh-system-prompt"}},"content":{content}}}}}"#
        );
        let mut message = Record::beside(anchor, "system/message", data);
        message.surface = Some(op);
        if let SurfaceOp::Replace { start, .. } = op {
            message.sources = Some(vec![start.get()]);
            message.surface_first = true;
        }
        Ok(message)
    }

    /// Refuses a message that has the id of one that this stage has added.
    fn remember_ids(&mut self, record: &Record) -> Result<(), Refusal> {
        messages(record, |message| {
            let id = message.get("id").and_then(|id| id.text());
            if let Some(id) = id.filter(|id| id.starts_with(SYSTEM_ID)) {
                if self.added.contains(&*id) {
                    return Err(
                        record.unsupported(format!("an added message has the id `{id}` already"))
                    );
                }
                self.alike.insert(id.into_owned());
            }
            Ok(None)
        })?;
        Ok(())
    }
}

impl Stage for V2ToV3 {
    fn take(&mut self, item: Item, out: &mut Vec<Item>) -> Result<(), Refusal> {
        match item {
            Item::Event(record) => self.event(record, out),
            Item::Chunks(run) => Err(Refusal::malformed(run.place, "packed chunks ended with V1")),
        }
    }

    fn finish(&mut self, _out: &mut Vec<Item>) -> Result<(), Refusal> {
        Ok(())
    }
}

/// Whether two strings, given as JSON texts or not at all, are the same prompt.
fn same_text(a: &str, b: &str) -> bool {
    let read = |json: &str| serde_json::from_str::<String>(json).ok();
    a == b || read(a).is_some_and(|a| read(b) == Some(a))
}

/// Code mode is called PTC since V3.
fn rename(record: &mut Record) -> Result<(), Refusal> {
    match &*record.kind {
        "tool/code-dispatch" => record.kind = Cow::Borrowed("tool/ptc-dispatch"),
        "tool/code-dispatch-start" => record.kind = Cow::Borrowed("tool/ptc-dispatch-start"),
        "agent-preset/selected" => {
            let edited = member(record.node(), "agentPreset", |preset| {
                Ok(preset.is("code").then(|| quote("ptc")))
            })?;
            record.replace_data(edited);
        }
        "user/message" | "agent/inbox/spliced" | "session/title-llm-request" => {
            let edited = messages(record, rename_source)?;
            record.replace_data(edited);
        }
        _ => {}
    }
    Ok(())
}

fn rename_source(mut message: Members<'_>) -> Rewritten {
    let Some(source) = message
        .get("source")
        .filter(|source| source.names("kind", "plugin"))
    else {
        return Ok(None);
    };
    let edited = member(source, "plugin", |plugin| {
        Ok(plugin.is("tools-code-mode").then(|| quote("tools-ptc")))
    })?;
    Ok(edited.map(|source| {
        message.set("source", source);
        message.render()
    }))
}

/// The preset that the header names: code mode became PTC.
pub(crate) fn migrate_preset(preset: &mut Option<String>) {
    if preset.as_deref() == Some("code") {
        *preset = Some("ptc".into());
    }
}
