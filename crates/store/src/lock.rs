//! One writer: a kernel lock on `session.lock` (`reference/persistence.md` §1.10).
//!
//! The lock is `flock`, shared with DSH. It is held while the file is open and falls with the process; the file is never
//! deleted. After locking, the inode behind the path is compared with the locked one: a directory that was swapped
//! meanwhile must not leave two writers with two locks.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::Path;

use offshoot_session::SessionId;

use crate::StoreError;

const ATTEMPTS: usize = 3;

/// A held lock.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
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
            if is_same_file(&file, path) {
                return Ok(Self { _file: file });
            }
        }
        Err(owned())
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
