//! One writer: a kernel lock on `session.lock` (`reference/persistence.md` §1.10).
//!
//! The lock is `flock`, shared with DSH. It is held while the file is open and falls with the process; the file is never
//! deleted. After locking, the inode behind the path is compared with the locked one: a directory that was swapped
//! meanwhile must not leave two writers with two locks.
//!
//! A second lock, on the root directory itself, is held for the moment in which a new id is claimed: so two processes that
//! create the same id, in two projects or with two packings, do not both find it free.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use offshoot_session::SessionId;

use crate::StoreError;

const ATTEMPTS: usize = 3;

/// A held lock.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    pub(crate) fn take(path: &Path, id: &SessionId) -> Result<Self, StoreError> {
        let owned = || StoreError::AlreadyOwned {
            id: id.clone(),
            lock: path.to_owned(),
        };
        for _ in 0..ATTEMPTS {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let file = options
                .open(path)
                .map_err(StoreError::io("open the lock", path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(owned()),
                Err(TryLockError::Error(error)) => {
                    return Err(StoreError::io("take the lock", path)(error));
                }
            }
            let lock = Self { file };
            if is_same_file(&lock.file, path) {
                return Ok(lock);
            }
        }
        Err(owned())
    }

    /// Keeps writers away, if there is none and the lock file is there. Whoever else does this is no hindrance.
    pub(crate) fn share(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        file.try_lock_shared().ok()?;
        let lock = Self { file };
        is_same_file(&lock.file, path).then_some(lock)
    }

    /// Waits for the lock on a directory; nobody holds it longer than it takes to publish one file. `None` where the file
    /// system locks no directories: there only the check that follows stands between two processes.
    pub(crate) fn directory(dir: &Path) -> Option<Self> {
        let file = File::open(dir).ok()?;
        file.lock().ok()?;
        Some(Self { file })
    }
}

impl Drop for Lock {
    /// Explicitly, not by closing: a child process that is being started holds a copy of every open file until it runs
    /// its own program, and with the copy it would hold the lock.
    fn drop(&mut self) {
        let _closing_unlocks_too = self.file.unlock();
    }
}

#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let id = |meta: fs::Metadata| (meta.dev(), meta.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(named)) => id(held) == id(named),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_same_file(_: &File, path: &Path) -> bool {
    fs::metadata(path).is_ok()
}

/// The ids of sessions that were created in this process and are not on disk yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims(Arc<Mutex<BTreeSet<SessionId>>>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    claims: Claims,
    id: SessionId,
}

impl Claims {
    /// `None` if the id is taken.
    pub(crate) fn take(&self, id: &SessionId) -> Option<Claim> {
        let fresh = self.ids().insert(id.clone());
        fresh.then(|| Claim {
            claims: self.clone(),
            id: id.clone(),
        })
    }

    fn ids(&self) -> std::sync::MutexGuard<'_, BTreeSet<SessionId>> {
        // A set of ids is whole between any two operations.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.ids().remove(&self.id);
    }
}
