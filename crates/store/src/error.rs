//! Why the store could not do what it was asked. Every variant names the session or the path.

use std::io;
use std::path::PathBuf;

use offshoot_format::FormatError;
use offshoot_session::{LogOffset, NotContinuable, SeedError, Seq, SessionId};

/// A failed operation on a store. Nothing that was acknowledged before is lost by it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No session with this id is stored here.
    #[error("session `{id}` was not found in `{}`", root.display())]
    NotFound {
        /// The id.
        id: SessionId,
        /// Where it was looked for.
        root: PathBuf,
    },
    /// The id is stored here already.
    #[error("session `{id}` exists already at `{}`", path.display())]
    AlreadyExists {
        /// The id.
        id: SessionId,
        /// Its file.
        path: PathBuf,
    },
    /// Another writer holds the session.
    #[error("session `{id}` is open for writing {} (`{}` is locked)", place(*holder), lock.display())]
    AlreadyOwned {
        /// The id.
        id: SessionId,
        /// The lock.
        lock: PathBuf,
        /// The process that holds it, which may be this one; `None` if the system does not say.
        holder: Option<u32>,
    },
    /// The file system has no locks, so nothing keeps two writers apart. Nothing was written.
    #[error("the file system of `{}` does not support locks (flock): {source}", path.display())]
    LocksUnsupported {
        /// The lock that could not be taken.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The trash does not hold a session, or not the entry that was named.
    #[error("{what} is not in the trash `{}`", trash.display())]
    NotInTrash {
        /// Which session or entry.
        what: String,
        /// Where it was looked for.
        trash: PathBuf,
    },
    /// An entry of the trash does not say what it holds.
    #[error("`{}` in the trash does not say which session it holds: {reason}", path.display())]
    TrashDamaged {
        /// The entry.
        path: PathBuf,
        /// What is wrong with its note.
        reason: String,
    },
    /// No such blob is stored here.
    #[error("there is no blob `{}`", path.display())]
    BlobNotFound {
        /// Its file.
        path: PathBuf,
    },
    /// A blob's file does not hold what its name says.
    #[error("`{}` does not hold the blob that it is named after: {reason}", path.display())]
    BlobDamaged {
        /// The file.
        path: PathBuf,
        /// How that shows.
        reason: String,
    },
    /// The same id is stored twice, and neither is better than the other.
    #[error("session `{id}` is stored more than once: {}", list(paths))]
    Ambiguous {
        /// The id.
        id: SessionId,
        /// Its files.
        paths: Vec<PathBuf>,
    },
    /// A file is not where its own header says it belongs.
    #[error("`{}` holds session `{found}`, which belongs into `{}`", path.display(), expected.display())]
    Misplaced {
        /// The file.
        path: PathBuf,
        /// The directory where that session belongs.
        expected: PathBuf,
        /// The id in its header.
        found: SessionId,
    },
    /// A log where early versions kept them.
    #[error(
        "`{}` lies directly in a project directory, as early versions kept their logs; it is not read there",
        path.display()
    )]
    ObsoleteLayout {
        /// The file.
        path: PathBuf,
    },
    /// A log's name on something else.
    #[error("`{}` is {found}, not a log file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// A log became another one although this program holds its lock. Nothing was written over it.
    #[error("`{}` was changed by another program while this one was writing to it", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// An id or a working directory that cannot name a path.
    #[error("{name} cannot name a session directory: {reason}")]
    InvalidName {
        /// The id or directory.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// The bytes are not a session that this version can use.
    #[error("`{}`: {source}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: FormatError,
    },
    /// Header and log do not make a session.
    #[error("`{}`: {source}", path.display())]
    Seed {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        source: SeedError,
    },
    /// The session can be read and forked, but no provider would accept it going on.
    #[error("session `{id}` cannot be continued: {source}")]
    NotContinuable {
        /// The id.
        id: SessionId,
        /// Where the reason stands, and the nearest cut that works.
        source: NotContinuable,
    },
    /// A batch that does not follow what is stored.
    #[error("append to session `{id}`: expected event {expected} next, found {found}")]
    AppendMismatch {
        /// The id.
        id: SessionId,
        /// The number of stored events.
        expected: LogOffset,
        /// The seq of the event that came instead.
        found: Seq,
    },
    /// An operation of the file system failed.
    #[error("could not {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another current file lies where the one made of an older file belongs.
    #[error(
        "`{}` is there already and is not what `{}` becomes in the current format",
        target.display(), older.display()
    )]
    GenerationConflict {
        /// The older file.
        older: PathBuf,
        /// What is in the way.
        target: PathBuf,
    },
    /// A file that needs no conversion.
    #[error("`{}` has the current format version already", path.display())]
    AlreadyCurrent {
        /// The file.
        path: PathBuf,
    },
    /// A home whose layout only a newer version knows. Nothing is written there.
    #[error("the home has layout {layout} (`{}`), and this program knows layout {}", marker.display(), crate::layout::HOME_LAYOUT)]
    NewerHome {
        /// The mark that says so.
        marker: PathBuf,
        /// The layout.
        layout: u64,
    },
    /// Something has the name that a new file was to get.
    #[error("`{}` is there already", path.display())]
    FileExists {
        /// The path.
        path: PathBuf,
    },
    /// A damaged file of which nothing can be saved.
    #[error("not one event of `{}` can be saved: {reason}", path.display())]
    NothingSound {
        /// The file.
        path: PathBuf,
        /// What is wrong with the first.
        reason: String,
    },
    /// A place in a list that no list has given out.
    #[error("`{cursor}` is not the place of a page in a list")]
    InvalidCursor {
        /// What was given.
        cursor: String,
    },
    /// The thread that stores could not be started, or a writer of another kind panicked on it.
    #[error("the storage thread failed: {0}")]
    WriterThread(String),
    /// An append failed and could not be taken back either. The writer refuses everything until the session is opened
    /// anew.
    #[error("could not append to `{}` ({append}), nor take the failed append back ({rollback})", path.display())]
    Poisoned {
        /// The file.
        path: PathBuf,
        /// Why the append failed.
        append: String,
        /// Why the rollback failed.
        rollback: String,
    },
}

impl StoreError {
    /// The stable machine code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "SESSION_NOT_FOUND",
            Self::AlreadyExists { .. } => "SESSION_ALREADY_EXISTS",
            Self::AlreadyOwned { .. } => "SESSION_ALREADY_OWNED",
            Self::LocksUnsupported { .. } => "LOCKS_UNSUPPORTED",
            Self::NotInTrash { .. } => "NOT_IN_TRASH",
            Self::TrashDamaged { .. } => "TRASH_DAMAGED",
            Self::BlobNotFound { .. } => "BLOB_NOT_FOUND",
            Self::BlobDamaged { .. } => "BLOB_DAMAGED",
            Self::Ambiguous { .. } => "SESSION_AMBIGUOUS",
            Self::Misplaced { .. } => "SESSION_MISPLACED",
            Self::ObsoleteLayout { .. } => "OBSOLETE_LAYOUT",
            Self::NotAFile { .. } => "NOT_A_FILE",
            Self::Changed { .. } => "SESSION_CHANGED",
            Self::InvalidName { .. } => "INVALID_NAME",
            Self::Format { source, .. } => source.code(),
            Self::Seed { .. } => "INVALID_SEED",
            Self::NotContinuable { .. } => "NOT_CONTINUABLE",
            Self::AppendMismatch { .. } => "APPEND_MISMATCH",
            Self::Io { .. } => "IO_ERROR",
            Self::GenerationConflict { .. } => "GENERATION_CONFLICT",
            Self::AlreadyCurrent { .. } => "ALREADY_CURRENT",
            Self::NewerHome { .. } => "NEWER_HOME",
            Self::FileExists { .. } => "FILE_EXISTS",
            Self::NothingSound { .. } => "NOTHING_SOUND",
            Self::InvalidCursor { .. } => "INVALID_CURSOR",
            Self::WriterThread(_) => "STORAGE_THREAD_FAILED",
            Self::Poisoned { .. } => "WRITER_POISONED",
        }
    }

    /// What a person can do about it, if there is something.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { .. } => Some("`offshoot ls` shows the sessions that are there".into()),
            Self::AlreadyOwned { .. } => {
                Some("close it there, or fork it: a fork needs no lock on its source".into())
            }
            Self::LocksUnsupported { .. } => Some(
                "put the home on a file system that has locks; or, if you are sure that nothing else writes to this home, \
                 say --unsafe-no-lock"
                    .into(),
            ),
            Self::NotInTrash { .. } => {
                Some("`offshoot restore` without an id shows what is in the trash".into())
            }
            Self::TrashDamaged { path, .. } => Some(format!(
                "the session is whole in `{}`: move that directory back to `sessions/<project>/<session>` by hand, or \
                 delete it",
                path.join(crate::trash::SESSION).display()
            )),
            Self::BlobDamaged { .. } => {
                Some("restore it from a backup, or move it away and store what it should hold again".into())
            }
            Self::Format { source, .. } => Some(source.hint().into()),
            Self::NotContinuable { source, .. } => source.nearest_cut.map(|cut| {
                format!(
                    "fork it at {cut}: there the step is still open, and the fork answers its calls"
                )
            }),
            Self::Ambiguous { .. } | Self::Misplaced { .. } => {
                Some("move one of the files out of the home; nothing was changed".into())
            }
            Self::ObsoleteLayout { .. } => Some(
                "move it into a directory of its own, as `<project>/<session id>/session.jsonl`"
                    .into(),
            ),
            Self::Changed { .. } => {
                Some("open the session again; if this comes back, look for a program that ignores its lock".into())
            }
            Self::GenerationConflict { .. } => {
                Some("move one of them away, or choose another directory with --to; nothing was changed".into())
            }
            Self::AlreadyCurrent { .. } => Some("it is opened and written as it is".into()),
            Self::NewerHome { .. } => {
                Some("write to it with the version that created it, or a newer one; reading it is safe".into())
            }
            Self::FileExists { .. } => {
                Some("name another file, or move this one away; nothing was changed".into())
            }
            Self::NothingSound { .. } => {
                Some("restore it from a backup; `offshoot show FILE --stored` prints what stands in it".into())
            }
            Self::InvalidCursor { .. } => {
                Some("leave it out to begin with the first page, which names the next one".into())
            }
            Self::Poisoned { .. } => {
                Some("the session opens again and repairs itself once the disk takes writes".into())
            }
            _ => None,
        }
    }

    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

fn place(holder: Option<u32>) -> String {
    holder.map_or_else(|| "elsewhere".to_owned(), |pid| format!("in process {pid}"))
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| format!("`{}`", path.display()))
        .collect();
    paths.join(", ")
}
