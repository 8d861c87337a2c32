//! What a single row must be to belong to a V4 log (`reference/persistence.md` §5.3, §5.4).
//!
//! These rules look at one row, at most together with an earlier request header, so they hold for every row that parses:
//! also for one that stands behind the torn end of the log, because no crash writes such a row. The rules for the shape of
//! core payloads (§5.1) are not repeated here: [`Event::from_row`] has applied them. How rows fit together is judged by
//! [`crate::relationships`].
//!
//! Almost every row only pays for a substring search here. A payload is read again only when its text could spell a word
//! that is retired, and then exactly: a user may talk about retired words.

mod fork_result;
mod retired;
mod system;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use offshoot_session::{Body, Event, EventKind, Seq, StepRef};

use crate::json::Node;
pub(crate) use fork_result::check_never_started;

/// The admission of the rows of one log, in their order.
#[derive(Default)]
pub(crate) struct Admission {
    headers: HashMap<Seq, Arc<DeclaredTools>>,
    last: Option<Arc<DeclaredTools>>,
}

impl Admission {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Says whether the row may be part of a log, whatever stands around it.
    ///
    /// # Errors
    /// What was expected and what was found; the row's own seq and type are left to the caller.
    pub(crate) fn admit(&mut self, event: &Event) -> Result<(), String> {
        match event.kind() {
            EventKind::Other(name) => return retired::check_type(name, event.ignorable()),
            EventKind::DeveloperMessage => self.developer(event)?,
            _ => {}
        }
        retired::check_sources(event)?;
        match event.kind() {
            EventKind::RequestHeader => self.remember(event)?,
            _ => retired::check_blocks(event)?,
        }
        match event.kind() {
            EventKind::SystemMessage => system::check(event),
            EventKind::ToolResult => fork_result::check(event),
            _ => Ok(()),
        }
    }

    fn developer(&self, event: &Event) -> Result<(), String> {
        let Body::DeveloperMessage { at, header, .. } = event.body() else {
            return Ok(());
        };
        positive(*at)?;
        let Some(seq) = *header else {
            return Ok(());
        };
        let declared = self.headers.get(&seq).filter(|_| seq < event.seq());
        let Some(declared) = declared else {
            return Err(format!(
                "`headerSeq` must name an earlier request/header, and event {seq} is none"
            ));
        };
        let content = Node::new(event.message().unwrap_or_default()).get("content");
        for block in content.iter().flat_map(Node::items) {
            if block.names("type", "tool-addition") {
                let tool = block.get("toolName").and_then(|name| name.text());
                declared.check(&tool.unwrap_or_default(), seq)?;
            }
        }
        Ok(())
    }

    /// Keeps which tools a request header declares, for developer messages that add them later.
    fn remember(&mut self, event: &Event) -> Result<(), String> {
        let data = Node::new(event.data());
        let header = data.get("header").filter(Node::is_object);
        let header = header.ok_or("`data` and `header` must be objects")?;
        let tools = header.get("tools").map_or("", |tools| tools.json());
        // Headers are written again whenever something changes, mostly with the same tools.
        let same = self.last.as_ref().filter(|last| &*last.json == tools);
        let declared = match same {
            Some(last) => Arc::clone(last),
            None => Arc::new(DeclaredTools::read(tools)),
        };
        self.last = Some(Arc::clone(&declared));
        self.headers.insert(event.seq(), declared);
        Ok(())
    }
}

/// The tools of a request header, as far as a developer message may add them.
struct DeclaredTools {
    json: Box<str>,
    tools: HashMap<String, Declared>,
}

#[derive(Clone, Copy)]
enum Declared {
    Complete,
    Incomplete(&'static str),
    Twice,
}

impl DeclaredTools {
    fn read(json: &str) -> Self {
        let mut tools = HashMap::new();
        for tool in Node::new(json).items() {
            if let Some(name) = tool.get("name").and_then(|name| name.text()) {
                let declared = Declared::read(&tool);
                tools
                    .entry(name.into_owned())
                    .and_modify(|seen| *seen = Declared::Twice)
                    .or_insert(declared);
            }
        }
        Self {
            json: json.into(),
            tools,
        }
    }

    fn check(&self, tool: &str, header: Seq) -> Result<(), String> {
        let problem = match self.tools.get(tool) {
            Some(Declared::Complete) => return Ok(()),
            Some(Declared::Incomplete(problem)) => problem,
            Some(Declared::Twice) => "declares it more than once",
            None => "does not declare it",
        };
        Err(format!(
            "the tool `{tool}` cannot be added: the request/header at {header} {problem}"
        ))
    }
}

impl Declared {
    fn read(tool: &Node<'_>) -> Self {
        if !tool.get("description").is_some_and(|node| node.is_string()) {
            return Self::Incomplete("declares it without a description");
        }
        if !tool.get("parameters").is_some_and(|node| node.is_object()) {
            return Self::Incomplete("declares it without an object of parameters");
        }
        if tool
            .get("deferLoading")
            .is_some_and(|node| node.json() != "true")
        {
            return Self::Incomplete("declares it with a `deferLoading` that is not true");
        }
        Self::Complete
    }
}

fn positive(at: StepRef) -> Result<(), String> {
    if at.turn == 0 || at.step == 0 {
        return Err(format!(
            "turns and steps count from 1, found turn {} step {}",
            at.turn, at.step
        ));
    }
    Ok(())
}
