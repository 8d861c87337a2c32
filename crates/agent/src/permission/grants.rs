//! What a person has allowed for as long as the session is open in this process.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::paths::NamedFile;
use super::rules::Subject;
use crate::canonical::canonical;

/// Calls that are alike: who allows one for the session allows the others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Like {
    tool: String,
    about: AlikeBy,
    /// Whether they go beyond the limits of the session.
    unlimited: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum AlikeBy {
    Command {
        command: String,
        workdir: Option<String>,
    },
    /// All names of a file: two ways that are spelled alike may lead apart behind a link.
    File(Vec<PathBuf>),
    /// All arguments, whatever their order.
    Arguments(String),
    /// Nothing is like it: where its file is cannot be told for sure.
    Nothing,
}

impl Like {
    pub(crate) fn new(call: &Subject, unlimited: bool) -> Self {
        let files: Option<Vec<_>> = call.files.iter().map(NamedFile::identity).collect();
        let about = match (&call.command, files.as_deref()) {
            (_, None) => AlikeBy::Nothing,
            (Some(command), Some([])) => AlikeBy::Command {
                command: command.clone(),
                workdir: call.workdir.clone(),
            },
            (None, Some([file])) => AlikeBy::File(file.clone()),
            (_, Some(_)) => AlikeBy::Arguments(canonical(&call.arguments)),
        };
        Self {
            tool: call.tool.clone(),
            about,
            unlimited,
        }
    }

    /// What an answer for the session covers, in words for a person.
    pub(crate) fn in_words(&self) -> String {
        let tool = &self.tool;
        let calls = match &self.about {
            AlikeBy::Command {
                workdir: Some(workdir),
                ..
            } => format!("`{tool}` with exactly this command in `{workdir}`"),
            AlikeBy::Command { workdir: None, .. } => {
                format!("`{tool}` with exactly this command")
            }
            AlikeBy::File(names) => {
                let path = names.last().map(|path| path.display());
                let path = path.expect("BUG: a file has the name that it was given");
                format!("`{tool}` of `{path}`")
            }
            AlikeBy::Arguments(_) => format!("`{tool}` with exactly these arguments"),
            AlikeBy::Nothing => return "this call only".to_owned(),
        };
        let limits = if self.unlimited {
            ", beyond the limits of the sandbox"
        } else {
            ""
        };
        format!("{calls}{limits}, until this session is closed")
    }
}

/// What was allowed. It is in no file: whoever opens the session again is asked again.
#[derive(Debug, Default)]
pub(crate) struct Grants(Mutex<HashSet<Like>>);

impl Grants {
    pub(crate) fn add(&self, calls: Like) {
        if calls.about == AlikeBy::Nothing {
            return;
        }
        let mut grants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        grants.insert(calls);
    }

    /// Whether calls like this one were allowed. Who may go beyond the limits may also stay within them.
    pub(crate) fn cover(&self, calls: &Like) -> bool {
        let grants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unlimited = Like {
            unlimited: true,
            ..calls.clone()
        };
        grants.contains(calls) || grants.contains(&unlimited)
    }
}
