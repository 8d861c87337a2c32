//! The seam between the store and the file system, and the few operations that must survive a power cut.
//!
//! A log is only ever created by linking a finished file into place and changed by appending to it. [`LogFile`] is what a
//! writer needs of an open log: everything that can fail in the middle goes through it, so that tests can fail it there.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use crate::StoreError;

/// An open log that grows at its end.
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

/// Opens logs for appending.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens an existing log.
    ///
    /// # Errors
    /// What the system said.
    fn open_log(&self, path: &Path) -> io::Result<Box<dyn LogFile>>;
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

/// Creates a directory and all that is missing above it, readable by its owner alone, and makes each durable.
pub(crate) fn create_dirs(dir: &Path) -> Result<(), StoreError> {
    if dir.is_dir() {
        return Ok(());
    }
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_dirs(parent)?;
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(error) => Err(StoreError::io("create the directory", dir)(error)),
        Ok(()) => sync_dir(dir.parent().unwrap_or(dir)),
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    let dir = if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    };
    File::open(dir)
        .and_then(|file| file.sync_all())
        .map_err(StoreError::io("make the directory durable", dir))
}

pub(crate) fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Writes a file under a temporary name and links it into place: afterwards it is there whole and durable, or not at all.
/// An existing file is never replaced: `AlreadyExists`.
pub(crate) fn publish(path: &Path, bytes: &[u8], unique: &str) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{unique}.tmp"));
    let temporary = Path::new(&temporary);
    let mut file = new_file(temporary)?;
    let published = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::hard_link(temporary, path));
    let removed = fs::remove_file(temporary);
    published?;
    removed?;
    File::open(path.parent().unwrap_or(path))?.sync_all()
}
