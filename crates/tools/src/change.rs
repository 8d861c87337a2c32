//! Changing one file: within the limits of the call, knowing what was there, and one change after the other.

use std::fs::{File, Metadata, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use offshoot_tool_api::{Escalation, ToolContext, ToolError};
use tokio_util::sync::CancellationToken;

use crate::changed::{Changed, Current};
use crate::files::{fs_error, io_error, is_a_directory, not_a_file, resolve};
use crate::observations::{Digesting, FileDigest, Observations};
use crate::place::{Missing, Place, Replaces, canonical};
use crate::reach::Reach;
use crate::tool_set::ToolSet;

/// The largest file that is edited, or whose old content is compared with the new.
const MAX_CONTENT_BYTES: u64 = 32 * 1024 * 1024;
/// How often a file that somebody has locked is tried again, and what is waited between.
const LOCK_TRIES: usize = 500;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// What the tools that change files have in common.
#[derive(Clone, Debug)]
pub(crate) struct Changes {
    verb: &'static str,
    observations: Arc<Observations>,
    scratch: Arc<[PathBuf]>,
}

impl Changes {
    /// `verb` is what errors and questions call it, as in `edit`.
    pub(crate) fn new(verb: &'static str, set: &ToolSet) -> Self {
        Self {
            verb,
            observations: Arc::clone(&set.observations),
            scratch: Arc::clone(&set.scratch),
        }
    }

    fn reach(&self, cx: &ToolContext) -> Reach {
        Reach::new(&cx.limits, cx.cwd.as_deref(), &self.scratch)
    }

    /// What has to be asked before the file at `path` is changed.
    pub(crate) fn escalation(&self, path: &str, cx: &ToolContext) -> Option<Escalation> {
        let path = resolve(cx, "file_path", path).ok()?;
        self.reach(cx).escalation(self.verb, &path)
    }

    /// Prepares a change of the file at `path`.
    ///
    /// # Errors
    /// The path is no path, or the call is cancelled.
    pub(crate) fn of(&self, path: &str, cx: &ToolContext) -> Result<Change, ToolError> {
        let path = resolve(cx, "file_path", path)?;
        if cx.cancel.is_cancelled() {
            return Err(ToolError::aborted());
        }
        Ok(Change {
            verb: self.verb,
            path,
            reach: self.reach(cx),
            observations: Arc::clone(&self.observations),
            cancel: cx.cancel.clone(),
        })
    }
}

/// A change of one file that is about to be made.
#[derive(Debug)]
pub(crate) struct Change {
    verb: &'static str,
    path: PathBuf,
    reach: Reach,
    observations: Arc<Observations>,
    cancel: CancellationToken,
}

/// An existing file that nobody else who asks changes now.
struct Held {
    file: File,
    metadata: Metadata,
    current: Current,
    digest: FileDigest,
}

impl Change {
    /// Makes the change: `make` is given what is there and says what shall be there.
    ///
    /// An existing file must be in the version that the session has seen last. Afterwards the session has seen the new one.
    ///
    /// # Errors
    /// `SANDBOX_DENIED`, `FS_NOT_OBSERVED`, `FS_STALE`, `FS_LOCKED`, what the file system says, and what `make` says. The
    /// file is then as it was.
    pub(crate) fn make(
        self,
        missing: Missing,
        make: impl FnOnce(&Current) -> Result<Vec<u8>, ToolError>,
    ) -> Result<Changed, ToolError> {
        let failed = |error: io::Error| io_error(self.verb, &self.path, &error);
        let target = canonical(&self.path).map_err(failed)?;
        if target.is_dir() {
            return Err(is_a_directory(self.verb, &self.path));
        }
        let Some(root) = self.reach.root(&target) else {
            return Err(self.reach.refusal(self.verb, &self.path));
        };
        let place = Place::beneath(root, &target, missing).map_err(failed)?;
        let held = self.hold(&place)?;
        if let Some(held) = &held {
            self.check_seen(&target, held.digest)?;
            place.check_writable().map_err(failed)?;
        } else if missing == Missing::Refuse {
            return Err(failed(io::ErrorKind::NotFound.into()));
        }

        let new = make(held.as_ref().map_or(&Current::Absent, |held| &held.current))?;
        if self.cancel.is_cancelled() {
            return Err(ToolError::aborted());
        }
        let replaces = match &held {
            None => Replaces::Nothing,
            Some(held) if held.is_untouched(&place).map_err(failed)? => {
                Replaces::File(&held.metadata)
            }
            Some(_) => return Err(self.stale()),
        };
        // Who waits for this file sees it only after the session has seen it.
        let _lock = match place.publish(&new, replaces) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(self.not_observed());
            }
            published => published.map_err(failed)?,
        };
        let digest = FileDigest::of(&new);
        self.observations.record(&target, digest);
        Ok(Changed {
            old: held.map_or(Current::Absent, |held| held.current),
            path: self.path,
            new,
            digest,
        })
    }

    /// Takes hold of the file and reads it. `None` if there is none.
    ///
    /// The file is locked, so that changes by other calls, agents and processes of Offshoot wait for this one, and this
    /// one for them. Who waits gets the lock of a file that is not there any more, and takes the new one.
    fn hold(&self, place: &Place) -> Result<Option<Held>, ToolError> {
        let failed = |error: io::Error| io_error(self.verb, &self.path, &error);
        loop {
            if self.cancel.is_cancelled() {
                return Err(ToolError::aborted());
            }
            let opened = match place.open() {
                // A socket, or a device without a driver.
                Err(error)
                    if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) =>
                {
                    return Err(not_a_file(self.verb, &self.path));
                }
                opened => opened.map_err(failed)?,
            };
            let Some(file) = opened else {
                return Ok(None);
            };
            let kind = file.metadata().map_err(failed)?.file_type();
            if kind.is_dir() {
                return Err(is_a_directory(self.verb, &self.path));
            }
            if !kind.is_file() {
                return Err(not_a_file(self.verb, &self.path));
            }
            self.lock(&file)?;
            let metadata = file.metadata().map_err(failed)?;
            if place.has(&metadata).map_err(failed)? {
                let (current, digest) = read_whole(&file, metadata.len()).map_err(failed)?;
                return Ok(Some(Held {
                    file,
                    metadata,
                    current,
                    digest,
                }));
            }
        }
    }

    fn lock(&self, file: &File) -> Result<(), ToolError> {
        for _ in 0..LOCK_TRIES {
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                // Some file systems know no locks. What is in the file is checked in any case.
                Ok(()) | Err(TryLockError::Error(_)) => return Ok(()),
            }
            if self.cancel.is_cancelled() {
                return Err(ToolError::aborted());
            }
        }
        Err(fs_error(
            "FS_LOCKED",
            format!(
                "cannot {} `{}`: another program has locked it",
                self.verb,
                self.path.display()
            ),
        ))
    }

    fn check_seen(&self, target: &Path, digest: FileDigest) -> Result<(), ToolError> {
        match self.observations.version(target) {
            None => Err(self.not_observed()),
            Some(seen) if seen != digest => Err(self.stale()),
            Some(_) => Ok(()),
        }
    }

    fn not_observed(&self) -> ToolError {
        fs_error(
            "FS_NOT_OBSERVED",
            format!(
                "cannot {} `{}`: it exists, and its content has not been read in this session; read it first",
                self.verb,
                self.path.display()
            ),
        )
    }

    fn stale(&self) -> ToolError {
        fs_error(
            "FS_STALE",
            format!(
                "cannot {} `{}`: it has changed since it was last read or written in this session; read it again",
                self.verb,
                self.path.display()
            ),
        )
    }
}

impl Held {
    /// Whether nobody who does not know of locks has changed the file since it was read.
    fn is_untouched(&self, place: &Place) -> io::Result<bool> {
        let now = self.file.metadata()?;
        let stamp = |of: &Metadata| (of.len(), of.mtime(), of.mtime_nsec());
        Ok(stamp(&now) == stamp(&self.metadata) && place.has(&now)?)
    }
}

fn read_whole(file: &File, length: u64) -> io::Result<(Current, FileDigest)> {
    let mut reader = Digesting::new(file);
    if length > MAX_CONTENT_BYTES {
        let length = io::copy(&mut reader, &mut io::sink())?;
        return Ok((Current::TooLarge(length), reader.finish()));
    }
    let mut content = Vec::new();
    reader.read_to_end(&mut content)?;
    Ok((Current::Content(content), reader.finish()))
}
