//! Where output goes that is too long to be shown to the model.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

/// Keeps output in files that the model can read later. The driver gives one to every call.
pub trait Spill: Send + Sync + fmt::Debug {
    /// Begins a file. Nothing of it stays if it is dropped before [`SpillFile::finish`].
    ///
    /// # Errors
    /// There is no room, or no place.
    fn begin(&self) -> io::Result<Box<dyn SpillFile>>;
}

/// A file that is being written.
pub trait SpillFile: Write + Send {
    /// Keeps what was written, under an absolute path that the `read` tool can be given.
    ///
    /// # Errors
    /// It could not be kept.
    fn finish(self: Box<Self>) -> io::Result<PathBuf>;
}
