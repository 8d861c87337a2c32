//! The seam between the store and the file system, and the few operations that must survive a power cut.
//!
//! A log is only ever created by linking a finished file into place and changed by appending to it. Everything that writes
//! goes through [`Disk`] and [`LogFile`], so that a test can fail it, or end the process, at any operation and any byte.
//!
//! Assumptions about the disk: what was written before a successful [`LogFile::sync`] is there after a power cut; a name
//! is there after a successful [`Disk::sync_dir`] of its directory; a file grows only over bytes that were written; linking
//! is atomic and never replaces a file; a lock falls with the process that holds it.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::StoreError;

/// An open file that grows at its end.
pub trait LogFile: Send + fmt::Debug {
    /// The size in bytes.
    ///
    /// # Errors
    /// What the system said.
    fn size(&self) -> io::Result<u64>;

    /// Writes all bytes behind the last one. After an error any part of them may be in the file.
    ///
    /// # Errors
    /// What the system said.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file.
    ///
    /// # Errors
    /// What the system said.
    fn truncate(&mut self, len: u64) -> io::Result<()>;

    /// Makes size and content durable.
    ///
    /// # Errors
    /// What the system said; then nothing is known about what is durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// Everything by which a store changes what is on disk, and how it locks. Each error is what the system said.
///
/// Only opening a log must be written by whoever stands in for a disk; the rest is the real file system unless they say
/// otherwise.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens an existing file for appending.
    ///
    /// # Errors
    /// See the trait.
    fn open_log(&self, path: &Path) -> io::Result<Box<dyn LogFile>>;

    /// Creates an empty file, readable by its owner alone, and opens it for appending.
    ///
    /// # Errors
    /// See the trait; `AlreadyExists` if anything has the name.
    fn create_file(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        let mut options = OpenOptions::new();
        options.append(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        Ok(Box::new(RealLog { file }))
    }

    /// Creates one directory, readable by its owner alone.
    ///
    /// # Errors
    /// See the trait; `AlreadyExists` if anything has the name.
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(dir)
    }

    /// Gives a file a second name.
    ///
    /// # Errors
    /// See the trait; `AlreadyExists` if anything has the name.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    /// Removes a name of a file.
    ///
    /// # Errors
    /// See the trait.
    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    /// Removes a directory that is empty.
    ///
    /// # Errors
    /// See the trait; also if anything is in it.
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }

    /// Gives a file or a directory another name, in one step: at any moment it has the one or the other. A file that has
    /// the new name already loses it, so this is never the way to publish a log.
    ///
    /// # Errors
    /// See the trait; also if both names are not on one file system, or a directory that is not empty has the new one.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the seam; logs are published by link"
    )]
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// Says that a file was last changed at `at`, in ms since the epoch. A later time stays as it is.
    ///
    /// # Errors
    /// See the trait.
    fn renew(&self, path: &Path, at: i64) -> io::Result<()> {
        let file = File::open(path)?;
        let at = time_of(at);
        match file.metadata()?.modified()? < at {
            true => file.set_modified(at),
            false => Ok(()),
        }
    }

    /// Makes size and content of a file durable, whoever has written them.
    ///
    /// # Errors
    /// See the trait.
    fn sync_file(&self, path: &Path) -> io::Result<()> {
        File::open(path).and_then(|file| file.sync_all())
    }

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// See the trait.
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir).and_then(|file| file.sync_all())
    }

    /// Takes the lock on an open file (`flock`), without waiting. It falls when the file is closed.
    ///
    /// # Errors
    /// `WouldBlock` if somebody else has it; else what the system said, such as that it locks no files there.
    fn try_lock(&self, file: &File) -> Result<(), TryLockError> {
        file.try_lock()
    }
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn open_log(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        let file = OpenOptions::new().append(true).open(path)?;
        Ok(Box::new(RealLog { file }))
    }
}

#[derive(Debug)]
struct RealLog {
    file: File,
}

impl LogFile for RealLog {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all()
    }
}

/// A moment, from ms since the epoch; a moment that the system cannot name is the epoch.
fn time_of(ms: i64) -> SystemTime {
    let distance = Duration::from_millis(ms.unsigned_abs());
    let time = match ms {
        0.. => UNIX_EPOCH.checked_add(distance),
        _ => UNIX_EPOCH.checked_sub(distance),
    };
    time.unwrap_or(UNIX_EPOCH)
}

/// The directory that holds a name.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

pub(crate) fn sync_dir(disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
    disk.sync_dir(dir)
        .map_err(StoreError::io("make the directory durable", dir))
}

/// Makes the names durable that lead to a session: that of its log in `dir`, its project's and its own below `root`, and those
/// of the root and the home. Whoever created them may have been stopped before they were, and what is acknowledged behind
/// a name that a power cut takes away would be gone with it.
pub(crate) fn sync_way(disk: &dyn Disk, dir: &Path, root: &Path) -> Result<(), StoreError> {
    for dir in [dir, parent(dir), root] {
        sync_dir(disk, dir)?;
    }
    let home = parent(root);
    for above in [home, parent(home)] {
        match disk.sync_dir(above) {
            // A directory that we may not look into is not one that we have created.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => {
                return Err(StoreError::io("make the directory durable", above)(error));
            }
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Creates a directory and all that is missing above it, and makes each durable.
pub(crate) fn create_dirs(disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
    if dir.is_dir() {
        return Ok(());
    }
    if parent(dir) != dir {
        create_dirs(disk, parent(dir))?;
    }
    match disk.create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(error) => Err(StoreError::io("create the directory", dir)(error)),
        Ok(()) => sync_dir(disk, parent(dir)),
    }
}

/// Which of a directory and those above it do not exist, the innermost first.
pub(crate) fn missing_dirs(dir: &Path) -> Vec<PathBuf> {
    let missing = dir.ancestors().take_while(|dir| !dir.exists());
    missing
        .filter(|dir| !dir.as_os_str().is_empty())
        .map(Path::to_owned)
        .collect()
}

/// Takes back the creation of directories, as far as nobody has put anything into them meanwhile.
pub(crate) fn remove_dirs(disk: &dyn Disk, created: &[PathBuf]) {
    for dir in created {
        match disk.remove_dir(dir) {
            // It has not come to that.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => return,
            Ok(()) => {}
        }
    }
}

/// What went wrong when a file was published.
#[derive(Debug)]
pub(crate) enum PublishError {
    /// Something has the name already. Nothing was changed.
    Taken,
    /// The file is not there.
    Failed(io::Error),
    /// The file may be there or not.
    Unknown { failed: io::Error, undo: io::Error },
}

impl PublishError {
    /// What to tell of it, if this is what it means that the name is `taken`.
    pub(crate) fn at(self, path: &Path, taken: impl FnOnce() -> StoreError) -> StoreError {
        match self {
            Self::Taken => taken(),
            Self::Failed(error) => StoreError::io("create", path)(error),
            Self::Unknown { failed, undo } => StoreError::Poisoned {
                path: path.to_owned(),
                append: failed.to_string(),
                rollback: undo.to_string(),
            },
        }
    }
}

/// Writes a file under a temporary name and links it into place: afterwards it is there whole and durable, or not at all.
/// An existing file is never replaced. Returns it, open for appending.
///
/// A crash may leave the temporary name. Readers ignore it (`reference/persistence.md` §1.2), and it is never used again.
pub(crate) fn publish(
    disk: &dyn Disk,
    path: &Path,
    bytes: &[u8],
) -> Result<Box<dyn LogFile>, PublishError> {
    Draft::write(disk, path, bytes)
        .map_err(PublishError::Failed)?
        .publish()
}

/// A finished file that does not have its name yet.
#[derive(Debug)]
#[must_use = "a draft leaves its temporary name behind unless it is published or discarded"]
pub(crate) struct Draft<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    temporary: PathBuf,
    /// Opened for appending under its first name, so that nothing is left to fail once it has the other.
    log: Box<dyn LogFile>,
}

impl<'a> Draft<'a> {
    pub(crate) fn write(disk: &'a dyn Disk, path: &'a Path, bytes: &[u8]) -> io::Result<Self> {
        let (temporary, mut file) = create_temporary(disk, path)?;
        let log = file
            .append(bytes)
            .and_then(|()| file.sync())
            .and_then(|()| disk.open_log(&temporary));
        match log {
            Ok(log) => Ok(Self {
                disk,
                path,
                temporary,
                log,
            }),
            Err(error) => {
                let _ignored = disk.remove(&temporary);
                Err(error)
            }
        }
    }

    /// A file that lies finished and durable under a temporary name.
    pub(crate) fn finished(
        disk: &'a dyn Disk,
        path: &'a Path,
        temporary: PathBuf,
        log: Box<dyn LogFile>,
    ) -> Self {
        Self {
            disk,
            path,
            temporary,
            log,
        }
    }

    /// Where the file is until then.
    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Gives the file its name.
    pub(crate) fn publish(self) -> Result<Box<dyn LogFile>, PublishError> {
        let Self { disk, path, .. } = self;
        let linked = disk.link(&self.temporary, path);
        let log = self.remove_temporary();
        match linked {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(PublishError::Taken);
            }
            Err(error) => return Err(PublishError::Failed(error)),
        }
        let dir = parent(path);
        let Err(failed) = disk.sync_dir(dir) else {
            return Ok(log);
        };
        match disk.remove(path).and_then(|()| disk.sync_dir(dir)) {
            Ok(()) => Err(PublishError::Failed(failed)),
            Err(undo) => Err(PublishError::Unknown { failed, undo }),
        }
    }

    /// Nobody wants the file any more.
    pub(crate) fn discard(self) {
        drop(self.remove_temporary());
    }

    /// Whether this works or not: the name is nobody's, and what it names is right under the other name or unfinished.
    fn remove_temporary(self) -> Box<dyn LogFile> {
        let _ignored = self.disk.remove(&self.temporary);
        self.log
    }
}

/// A file that nobody else has.
pub(crate) fn create_temporary(
    disk: &dyn Disk,
    path: &Path,
) -> io::Result<(PathBuf, Box<dyn LogFile>)> {
    with_temporary_name(path, |name| disk.create_file(name))
}

/// A second name of a file, that nobody else has; of one that is to replace `path`.
pub(crate) fn link_temporary(disk: &dyn Disk, from: &Path, path: &Path) -> io::Result<PathBuf> {
    with_temporary_name(path, |name| disk.link(from, name)).map(|(name, ())| name)
}

/// Gives something a temporary name: the process and a counter, twelve hex digits as readers expect them. A name that an
/// earlier process with the same number has left behind is passed over.
fn with_temporary_name<T>(
    path: &Path,
    make: impl Fn(&Path) -> io::Result<T>,
) -> io::Result<(PathBuf, T)> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    loop {
        let count = COUNTER.fetch_add(1, Ordering::Relaxed) & 0xFFFF;
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{:08x}{count:04x}.tmp", std::process::id()));
        match make(Path::new(&name)) {
            Ok(made) => return Ok((name.into(), made)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}
