//! What a person means by `ID|FILE`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use offshoot_format::{Container, FormatError, StoredSession, decode_as};
use offshoot_session::SessionId;
use offshoot_store::{Persistence as _, ReadSession, StoreError};

use crate::failure::Failure;
use crate::home::Home;

/// A session that was named on the command line.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A session of the home.
    Id(SessionId),
    /// A file anywhere.
    File(PathBuf),
}

impl Source {
    /// A session of the home goes first; then a file; a name that looks like a path is one even if nothing is there.
    pub(crate) fn resolve(home: &Home, named: &str) -> Self {
        let id = SessionId::new(named);
        let path = Path::new(named);
        let is_stored = !matches!(
            home.store().locate(&id),
            Err(StoreError::NotFound { .. } | StoreError::InvalidName { .. })
        );
        let looks_like_path =
            named.contains(['/', '\\']) || named.ends_with(".jsonl") || named.ends_with(".zstd");
        if !is_stored && (path.exists() || looks_like_path) {
            Self::File(path.to_owned())
        } else {
            Self::Id(id)
        }
    }

    pub(crate) fn read(&self, home: &Home) -> Result<ReadSession, Failure> {
        match self {
            Self::Id(id) => Ok(home.store().read(id)?),
            Self::File(path) => Ok(read_file(path)?),
        }
    }

    /// The file, if there is one.
    pub(crate) fn path(&self, home: &Home) -> Option<PathBuf> {
        match self {
            Self::Id(id) => home.store().locate(id).ok(),
            Self::File(path) => Some(path.clone()),
        }
    }
}

/// Why a session file could not be read.
#[derive(Debug)]
pub(crate) enum FileFailure {
    Store(StoreError),
    Other(Failure),
}

impl From<FileFailure> for Failure {
    fn from(failure: FileFailure) -> Self {
        match failure {
            FileFailure::Store(error) => error.into(),
            FileFailure::Other(failure) => failure,
        }
    }
}

/// Reads a session file that is not in a home.
pub(crate) fn read_file(path: &Path) -> Result<ReadSession, FileFailure> {
    let io = |source| {
        FileFailure::Store(StoreError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        })
    };
    let meta = fs::metadata(path).map_err(io)?;
    if meta.is_dir() {
        let failure = Failure::new(
            "IS_A_DIRECTORY",
            format!("`{}` is a directory", path.display()),
        )
        .hint("name the session file in it, such as `session.v4.jsonl.zstd`");
        return Err(FileFailure::Other(failure));
    }
    let bytes = fs::read(path).map_err(io)?;
    let stored = decode(path, &bytes).map_err(|source| {
        FileFailure::Store(StoreError::Format {
            path: path.to_owned(),
            source,
        })
    })?;
    let modified = meta
        .modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified = modified
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or(0);
    Ok(ReadSession {
        stored,
        path: path.to_owned(),
        modified,
    })
}

/// A name that says how the file is packed is believed, so that damage to its first bytes is called damage.
fn decode(path: &Path, bytes: &[u8]) -> Result<StoredSession, FormatError> {
    let by_name = path
        .extension()
        .is_some_and(|extension| extension == "zstd");
    let container = if by_name && !bytes.is_empty() {
        Container::Zstd
    } else {
        Container::detect(bytes)
    };
    decode_as(container, bytes)
}
