//! What a person means by `ID|FILE`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use offshoot_agent::AnswerSettler;
use offshoot_format::{Container, FormatError, StoredHeader, decode_as, read_header};
use offshoot_session::SessionId;
use offshoot_store::{
    LogBytes, Persistence as _, Prefix, ReadSession, Remains, StoreError, stream_beside,
};

use crate::failure::Failure;
use crate::home::Home;
use crate::notes::Notes;

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
    /// `./name` is always a file.
    pub(crate) fn resolve(home: &Home, named: &OsStr) -> Self {
        let path = Path::new(named);
        let Some(text) = named.to_str() else {
            // An id is text.
            return Self::File(path.to_owned());
        };
        let id = SessionId::new(text);
        let is_stored = match home.store().locate(&id) {
            Ok(_) | Err(StoreError::Ambiguous { .. }) => true,
            Err(_) => false,
        };
        if !is_stored && (path.exists() || looks_like_path(text)) {
            Self::File(path.to_owned())
        } else {
            Self::Id(id)
        }
    }

    /// Says so if a name means two things.
    pub(crate) fn warn_if_ambiguous(&self, notes: Notes) {
        if let Self::Id(id) = self
            && Path::new(id.as_str()).is_file()
        {
            notes.say(&format!(
                "note: {id} is a session of the home, and a file here; this is the session; the file would be ./{id}"
            ));
        }
    }

    /// Says so if an answer lies beside a file that is not in it. Who names a session sees it.
    pub(crate) fn note_stream_beside(&self, notes: Notes) {
        if let Self::File(path) = self
            && let Some(stream) = stream_beside(path, &AnswerSettler)
        {
            notes.stream_beside(&stream);
        }
    }

    pub(crate) fn read(&self, home: &Home) -> Result<ReadSession, Failure> {
        match self {
            Self::Id(id) => {
                home.check()?;
                Ok(home.store().read(id)?)
            }
            Self::File(path) => Ok(read_file(path)?),
        }
    }

    /// The file for a command that works on files: of a session, the one that it is in.
    pub(crate) fn file(&self, home: &Home) -> Result<PathBuf, Failure> {
        let path = match self {
            Self::Id(id) => {
                home.check()?;
                home.store().locate(id)?
            }
            Self::File(path) => path.clone(),
        };
        check_file(&path)?;
        Ok(path)
    }

    /// The file, if there is one.
    pub(crate) fn path(&self, home: &Home) -> Option<PathBuf> {
        match self {
            Self::Id(id) => home.store().locate(id).ok(),
            Self::File(path) => Some(path.clone()),
        }
    }
}

/// Whether a name is that of a file, even if nothing is there.
pub(crate) fn looks_like_path(name: &str) -> bool {
    name.contains(['/', '\\']) || name.ends_with(".jsonl") || name.ends_with(".zstd")
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
    FileBytes::read(path)?.decode().map_err(FileFailure::Store)
}

/// A session file, not looked into yet. Read once, because it may be a pipe.
#[derive(Debug)]
pub(crate) struct RawFile {
    path: PathBuf,
    modified: i64,
    bytes: Vec<u8>,
}

impl RawFile {
    pub(crate) fn read(path: &Path) -> Result<Self, FileFailure> {
        let meta = check_file(path)?;
        let bytes = fs::read(path).map_err(unread(path))?;
        let modified = meta
            .modified()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = modified
            .and_then(|since| i64::try_from(since.as_millis()).ok())
            .unwrap_or(0);
        Ok(Self {
            path: path.to_owned(),
            modified,
            bytes,
        })
    }

    /// What there is of it and of the files that it begins with, sound or not.
    pub(crate) fn remains(&self) -> Remains<'_> {
        Remains::of_file(&self.path, &self.bytes)
    }

    /// With the files that it begins with, which must be what they were.
    pub(crate) fn whole(self) -> Result<FileBytes, StoreError> {
        let container = container_of(&self.path, &self.bytes);
        let log = LogBytes::of_file(&self.path, self.bytes)?;
        Ok(FileBytes {
            path: self.path,
            modified: self.modified,
            container,
            log,
        })
    }
}

/// A session file with all that its session has.
#[derive(Debug)]
pub(crate) struct FileBytes {
    path: PathBuf,
    modified: i64,
    container: Container,
    log: LogBytes,
}

impl FileBytes {
    pub(crate) fn read(path: &Path) -> Result<Self, FileFailure> {
        RawFile::read(path)?.whole().map_err(FileFailure::Store)
    }

    pub(crate) fn decode(&self) -> Result<ReadSession, StoreError> {
        let path = self.path.clone();
        match decode_as(self.container, self.log.bytes()) {
            Ok(stored) => Ok(ReadSession {
                stored: self.log.in_own_file(stored),
                path,
                modified: self.modified,
                settled: None,
                stray: None,
                shareable: Prefix::default(),
            }),
            Err(source) => {
                let source = self.log.error_in_own_file(source);
                Err(StoreError::Format { path, source })
            }
        }
    }

    /// The header, also of a file that is damaged behind it.
    pub(crate) fn header(&self) -> Result<StoredHeader, FormatError> {
        read_header(self.container, self.log.bytes()).and_then(|line| StoredHeader::read(&line))
    }
}

/// A name that says how the file is packed is believed, so that damage to its first bytes is called damage.
fn container_of(path: &Path, bytes: &[u8]) -> Container {
    let by_name = path
        .extension()
        .is_some_and(|extension| extension == "zstd");
    if by_name && !bytes.is_empty() {
        Container::Zstd
    } else {
        Container::detect(bytes)
    }
}

/// Refuses what can be no session file whatever is in it.
fn check_file(path: &Path) -> Result<fs::Metadata, FileFailure> {
    let meta = fs::metadata(path).map_err(unread(path))?;
    if meta.is_dir() {
        let failure = Failure::new(
            "IS_A_DIRECTORY",
            format!("`{}` is a directory", path.display()),
        )
        .hint("name the session file in it, such as `session.v4.jsonl.zstd`");
        return Err(FileFailure::Other(failure));
    }
    if is_device(&meta) {
        let message = format!("`{}` is a device, not a session file", path.display());
        return Err(FileFailure::Other(Failure::new("NOT_A_FILE", message)));
    }
    Ok(meta)
}

fn unread(path: &Path) -> impl FnOnce(std::io::Error) -> FileFailure {
    let path = path.to_owned();
    move |source| {
        FileFailure::Store(StoreError::Io {
            action: "read",
            path,
            source,
        })
    }
}

/// A pipe ends; a device may never.
#[cfg(unix)]
fn is_device(meta: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    meta.file_type().is_char_device() || meta.file_type().is_block_device()
}

#[cfg(not(unix))]
const fn is_device(_: &fs::Metadata) -> bool {
    false
}
