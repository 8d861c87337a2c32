//! A failed command: what went wrong, its stable code, and what to do next.

use std::fmt;
use std::path::Path;

use offshoot_agent::{AgentError, CompactionError, ReplayError, RequestError};
use offshoot_session::SessionId;
use offshoot_store::StoreError;

use crate::home::Home;
use crate::text::{moment, quoted};

/// The code of a command line that was wrong: the program then ends with 2 instead of 1.
pub(crate) const USAGE: &str = "USAGE";

/// The code of what somebody has stopped.
pub(crate) const CANCELLED: &str = "CANCELLED";

/// The code of a summary that did not come.
const COMPACTION_FAILED: &str = "COMPACTION_FAILED";

/// What a command says when it fails.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// What to do next, one line for each thing.
    pub(crate) hint: Option<String>,
    /// Whether the output was closed by whoever read it: nothing to complain about.
    pub(crate) broken_pipe: bool,
    /// The session that is not there, if that is what went wrong.
    missing: Option<SessionId>,
}

impl Failure {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            broken_pipe: false,
            missing: None,
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    /// Names the file that is meant.
    pub(crate) fn at(mut self, path: &Path) -> Self {
        self.message = format!("`{}`: {}", path.display(), self.message);
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A hint where there is none yet.
    pub(crate) fn or_hint(self, hint: impl Into<String>) -> Self {
        match self.hint {
            Some(_) => self,
            None => self.hint(hint),
        }
    }

    /// One more thing to do.
    pub(crate) fn and_hint(self, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        let hint = match &self.hint {
            Some(first) => format!("{first}\n{hint}"),
            None => hint,
        };
        self.hint(hint)
    }

    /// Says of a session that was not found what it is to a side session.
    pub(crate) fn of_parent(mut self) -> Self {
        if self.missing.is_some() {
            self.message = format!("there is nobody to bring the note to: {}", self.message);
        }
        self
    }

    /// Says how to bring back the session that was not found, if it is in the trash of the home.
    pub(crate) fn or_in_trash(self, home: &Home) -> Self {
        let Some(id) = &self.missing else {
            return self;
        };
        let trash = home.store().trashed().unwrap_or_default().sessions;
        let Some(trashed) = trash.iter().find(|one| one.id == *id) else {
            return self;
        };
        let hint = format!(
            "it is in the trash since {}; bring it back with: offshoot restore {}",
            moment(trashed.deleted_at),
            quoted(id.as_str())
        );
        self.hint(hint)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        (&error).into()
    }
}

impl From<&StoreError> for Failure {
    fn from(error: &StoreError) -> Self {
        Self {
            hint: hint(error),
            missing: match error {
                StoreError::NotFound { id, .. } => Some(id.clone()),
                _ => None,
            },
            ..Self::new(error.code(), error.to_string())
        }
    }
}

/// The store knows what is to be done; the program knows with which command.
pub(crate) fn hint(error: &StoreError) -> Option<String> {
    match error {
        StoreError::NotContinuable { id, source } => source.nearest_cut.map(|cut| {
            format!(
                "go on from before it, where its step is still open: offshoot run --fork {} --at {cut} PROMPT",
                quoted(id.as_str())
            )
        }),
        StoreError::AlreadyOwned { id, .. } => Some(format!(
            "wait until it is closed there, or go on in a fork, which needs no lock on its source: \
             offshoot run --fork {} PROMPT",
            quoted(id.as_str())
        )),
        StoreError::AlreadyExists { .. } => {
            Some("choose another id, or leave --id out for a new one".to_owned())
        }
        StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Some("name a file that is there, or a session's id as `offshoot ls` shows it".to_owned())
        }
        StoreError::Format { path, source } => {
            // Ready to be typed, apart from the home.
            let file = quoted(&path.to_string_lossy());
            Some(source.hint().replace("FILE", &file))
        }
        other => other.hint(),
    }
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        (&error).into()
    }
}

impl From<&AgentError> for Failure {
    fn from(error: &AgentError) -> Self {
        if let AgentError::Store(error) = error {
            return (&**error).into();
        }
        Self {
            hint: error.hint(),
            ..Self::new(error.code(), error.to_string())
        }
    }
}

impl From<CompactionError> for Failure {
    fn from(error: CompactionError) -> Self {
        let hint = error.hint();
        let code = match &error {
            CompactionError::Cancelled => CANCELLED,
            CompactionError::Busy(_) => "BUSY",
            CompactionError::Commit(error)
            | CompactionError::Persistence(error)
            | CompactionError::Agent(error) => error.code(),
            _ => COMPACTION_FAILED,
        };
        Self {
            hint,
            ..Self::new(code, error.to_string())
        }
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        AgentError::from(error).into()
    }
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        Self::new("REPLAY_UNAVAILABLE", error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let broken_pipe = error.kind() == std::io::ErrorKind::BrokenPipe;
        Self {
            broken_pipe,
            ..Self::new("IO_ERROR", format!("could not write the output: {error}"))
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        match error.io_error_kind() {
            Some(kind) => std::io::Error::from(kind).into(),
            None => Self::new("INTERNAL", error.to_string()),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new("FAILED", format!("{error:#}"))
    }
}
