//! What recorded calls have done to files: behind a cut, which a fork does not remember, and which versions of files a log
//! has seen.
//!
//! A tool that works on a file leaves `path` and `digest` in the facts beside its result, and `change` if it has changed it.
//! Logs of other programs, and calls of which nobody knows how they ended, have no such facts; then the arguments of
//! the tools that everybody calls alike (`write`, `edit`, `multi_edit`) say which file was meant. What a shell command
//! changes is in no log.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use offshoot_session::{
    Body, Call, Event, EventKind, EventLog, Seq, SurfaceOp, TOOL_OUTCOME_UNKNOWN,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::events::read;

/// Tools that change the file that their arguments name.
const FILE_TOOLS: [&str; 3] = ["write", "edit", "multi_edit"];

/// Tools that run commands, which may change anything.
const SHELL_TOOLS: [&str; 3] = ["bash", "pwsh", "run_code"];

/// Errors after which nobody knows how far the call has come.
const UNKNOWN_OUTCOMES: [&str; 4] = [
    TOOL_OUTCOME_UNKNOWN,
    "TOOL_TIMEOUT",
    "TOOL_PANICKED",
    "ABORTED",
];

/// Errors of calls that never ran.
const NEVER_RAN: [&str; 6] = [
    "ABORTED_BEFORE_DISPATCH",
    "TOOL_NOT_STARTED",
    "UNKNOWN_TOOL",
    "INVALID_ARGS",
    "SANDBOX_UNAVAILABLE",
    "SHELL_UNAVAILABLE",
];

/// The files that recorded calls have changed, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChangedFiles {
    /// Each file once, in the order of the paths.
    pub files: Vec<ChangedFile>,
    /// Whether shell commands ran. What they have changed is not known.
    pub shell_commands: bool,
}

/// A file that recorded calls have changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    /// Its path: absolute, unless the log does not say in which directory the session worked.
    pub path: String,
    /// What the first of the calls did to it.
    pub change: FileChange,
    /// `sha256:<hex>` of its content after the last of them, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// What was done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileChange {
    /// It was not there before.
    Created,
    /// It has another content, or may have.
    Changed,
}

impl ChangedFiles {
    /// Whether nothing is known to have changed, and nothing else can have.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && !self.shell_commands
    }
}

/// What recorded calls have changed behind `cut`, also those that were running at the cut. `cwd` is the directory in which
/// the session works: relative paths of arguments start there.
#[must_use]
pub fn changed_after(log: &EventLog, cut: Seq, cwd: Option<&str>) -> ChangedFiles {
    let at_cut = log.prefix(cut.after());
    let started = at_cut
        .open_tail()
        .pending()
        .iter()
        .filter_map(|call| call.started);
    let mut changes = Changes {
        cwd,
        running: started.filter_map(|seq| call_of(log.get(seq)?)).collect(),
        files: BTreeMap::new(),
        shell_commands: false,
    };
    for event in log.events_from(cut.after()) {
        changes.apply(event);
    }
    changes.settle_unanswered();
    ChangedFiles {
        files: changes.files.into_values().collect(),
        shell_commands: changes.shell_commands,
    }
}

/// The version of each file that a call has last read or written: path and `sha256:<hex>` of its content, in the order of
/// the paths. Whoever goes on with the log knows the files in these versions.
#[must_use]
pub fn observed(log: &EventLog) -> Vec<(String, String)> {
    let mut seen = BTreeMap::new();
    for event in log.events() {
        if !is_answer(event) || !event.data().contains("digest") {
            continue;
        }
        if let Some(Facts {
            path,
            digest: Some(digest),
            ..
        }) = facts_of(event)
        {
            seen.insert(path, digest);
        }
    }
    seen.into_iter().collect()
}

struct Changes<'a> {
    cwd: Option<&'a str>,
    /// The calls of the open step that have no result yet, by their ids.
    running: HashMap<Box<str>, Call>,
    files: BTreeMap<String, ChangedFile>,
    shell_commands: bool,
}

/// What a tool that works on a file leaves beside its result.
#[derive(Deserialize)]
struct Facts {
    path: String,
    digest: Option<String>,
    change: Option<FileChange>,
}

#[derive(Deserialize)]
struct Stored<'a> {
    #[serde(borrow)]
    meta: Option<&'a RawValue>,
}

/// A call that another tool has made.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dispatch<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(default)]
    is_error: bool,
}

impl Changes<'_> {
    fn apply(&mut self, event: &Event) {
        match event.body() {
            Body::ToolCall(_, call) => {
                self.running.insert(call.id.clone(), call.clone());
            }
            Body::ToolResult {
                call_id,
                is_error,
                error,
                ..
            } if is_answer(event) => {
                let code = error.as_deref().map(|error| &*error.code);
                // Without its start in the log it did not run.
                if let Some(call) = self.running.remove(call_id) {
                    self.answered(&call, event, *is_error, code);
                }
            }
            Body::StepEnd(_) | Body::TurnEnd { .. } => self.settle_unanswered(),
            _ if *event.kind() == EventKind::PtcDispatch => self.dispatched(event),
            _ => {}
        }
    }

    fn answered(&mut self, call: &Call, event: &Event, is_error: bool, code: Option<&str>) {
        if let Some(facts) = facts_of(event) {
            if let Some(change) = facts.change {
                self.add(facts.path, change, facts.digest);
            }
            return;
        }
        let is_one_of = |codes: &[&str]| code.is_some_and(|code| codes.contains(&code));
        if is_shell(&call.name) {
            // A call that was not allowed is an error without a name, and leaves no facts.
            let refused = is_error && code.is_none() && !has_facts(event);
            self.shell_commands |= !refused && !is_one_of(&NEVER_RAN);
        } else if !is_error || is_one_of(&UNKNOWN_OUTCOMES) {
            self.meant(&call.name, &call.arguments);
        }
    }

    fn settle_unanswered(&mut self) {
        for (_, call) in std::mem::take(&mut self.running) {
            self.shell_commands |= is_shell(&call.name);
            self.meant(&call.name, &call.arguments);
        }
    }

    fn dispatched(&mut self, event: &Event) {
        let Some(dispatch) = read::<Dispatch<'_>>(event) else {
            return;
        };
        self.shell_commands |= is_shell(&dispatch.name);
        if !dispatch.is_error {
            let arguments = dispatch.arguments.map_or("", RawValue::get);
            self.meant(&dispatch.name, arguments);
        }
    }

    /// A call that changes the file that its arguments name, if it is one.
    fn meant(&mut self, tool: &str, arguments: &str) {
        #[derive(Deserialize)]
        struct Arguments {
            file_path: String,
        }
        if !FILE_TOOLS.contains(&tool) {
            return;
        }
        if let Ok(Arguments { file_path }) = serde_json::from_str(arguments) {
            let path = match self.cwd {
                Some(cwd) if !file_path.starts_with('/') => format!("{cwd}/{file_path}"),
                _ => file_path,
            };
            self.add(path, FileChange::Changed, None);
        }
    }

    fn add(&mut self, path: String, change: FileChange, digest: Option<String>) {
        let file = self
            .files
            .entry(path)
            .or_insert_with_key(|path| ChangedFile {
                path: path.clone(),
                change,
                digest: None,
            });
        file.digest = digest;
    }
}

fn call_of(event: &std::sync::Arc<Event>) -> Option<(Box<str>, Call)> {
    match event.body() {
        Body::ToolCall(_, call) => Some((call.id.clone(), call.clone())),
        _ => None,
    }
}

fn is_shell(tool: &str) -> bool {
    SHELL_TOOLS.contains(&tool)
}

/// Whether it is the answer to a call, and not one that was cut down later.
fn is_answer(event: &Event) -> bool {
    *event.kind() == EventKind::ToolResult && event.surface_op() == Some(SurfaceOp::Append)
}

fn has_facts(event: &Event) -> bool {
    read::<Stored<'_>>(event).is_some_and(|stored| stored.meta.is_some())
}

fn facts_of(event: &Event) -> Option<Facts> {
    let Stored { meta } = read(event)?;
    serde_json::from_str(meta?.get()).ok()
}
