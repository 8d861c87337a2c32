//! The logical header of a session: what is known about it without its events (`reference/persistence.md` §2.1).

use serde::{Deserialize, Serialize};

use crate::SessionId;
use crate::ids::MAX_SAFE_INTEGER;

/// Who made the session, when no person did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Origin {
    /// Another session delegated work to it.
    Subagent,
}

/// The header of a session. How it is written is its format's business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionHeader {
    /// The session's name.
    pub id: SessionId,
    /// Milliseconds since the Unix epoch.
    pub created_at: u64,
    /// The absolute path the session works in.
    pub cwd: Option<String>,
    /// The session this one was forked from or delegated by.
    pub parent: Option<SessionId>,
    /// Whether the log begins with events inherited from another session.
    pub is_seeded: bool,
    /// Who made the session, when no person did.
    pub origin: Option<Origin>,
    /// How many delegations lie above this session; 0 at the top.
    pub delegation_depth: u64,
    /// The preset that its agent was composed from.
    pub agent_preset: Option<String>,
}

impl SessionHeader {
    /// The header of a new top-level session that inherits nothing.
    #[must_use]
    pub fn new(id: SessionId, created_at: u64) -> Self {
        Self {
            id,
            created_at,
            cwd: None,
            parent: None,
            is_seeded: false,
            origin: None,
            delegation_depth: 0,
            agent_preset: None,
        }
    }

    /// The header of a fork of this session: it takes the working directory and names its parent; origin, depth and
    /// preset stay behind, because they say how the parent came to be.
    #[must_use]
    pub fn forked(&self, child: SessionId, created_at: u64) -> Self {
        Self {
            cwd: self.cwd.clone(),
            parent: Some(self.id.clone()),
            is_seeded: true,
            ..Self::new(child, created_at)
        }
    }

    /// What is wrong with the scalar members, if anything is.
    ///
    /// # Errors
    /// Counts beyond 2^53 − 1 and a working directory that is not an absolute path.
    pub fn check(&self) -> Result<(), String> {
        for (name, value) in [
            ("createdAt", self.created_at),
            ("delegationDepth", self.delegation_depth),
        ] {
            if value > MAX_SAFE_INTEGER {
                return Err(format!(
                    "header member `{name}` is {value}, beyond 2^53 − 1"
                ));
            }
        }
        match &self.cwd {
            Some(cwd) if !is_absolute(cwd) => Err(format!(
                "header member `cwd` must be an absolute path, found {cwd:?}"
            )),
            _ => Ok(()),
        }
    }
}

/// Absolute on any platform: sessions travel between machines, so this does not ask the machine it runs on.
fn is_absolute(path: &str) -> bool {
    let drive = |b: &[u8]| b.len() >= 3 && b[0].is_ascii_alphabetic() && b[1] == b':';
    let bytes = path.as_bytes();
    path.starts_with('/')
        || path.starts_with(r"\\")
        || (drive(bytes) && matches!(bytes[2], b'/' | b'\\'))
}
