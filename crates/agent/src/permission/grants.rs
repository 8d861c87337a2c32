//! What a person has allowed for as long as the session is open in this process.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::rules::{About, Subject};
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
    File(PathBuf),
    /// All arguments, whatever their order.
    Arguments(String),
}

impl Like {
    pub(crate) fn new(call: &Subject, unlimited: bool) -> Self {
        let about = match &call.about {
            About::Command { command, workdir } => AlikeBy::Command {
                command: command.clone(),
                workdir: workdir.clone(),
            },
            About::File(file) => AlikeBy::File(file.identity().to_owned()),
            About::Other(arguments) => AlikeBy::Arguments(canonical(arguments)),
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
            AlikeBy::File(path) => format!("`{tool}` of `{}`", path.display()),
            AlikeBy::Arguments(_) => format!("`{tool}` with exactly these arguments"),
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
