//! Output that is too long to be shown: it is kept in the home as a blob, and the model is told the file.
//!
//! A blob is named by its path in the log, which keeps it from being collected for as long as any session that has the event
//! is there. So the path is as good in a fork as in its parent.

use std::io::{self, Write};
use std::path::PathBuf;

use offshoot_store::{BlobWriter, Blobs, StoreError};
use offshoot_tool_api::{OutputLimits, Spill, SpillFile, bound};

use crate::env::Env;

/// Keeps output among the blobs of a home.
#[derive(Clone, Debug)]
pub struct BlobSpill {
    blobs: Blobs,
    env: Env,
}

impl BlobSpill {
    /// The most that one file holds, in bytes: 64 MiB.
    pub const MOST: u64 = 64 * 1024 * 1024;

    /// Among these blobs, whose directory must be absolute: the model is told its path.
    #[must_use]
    pub const fn new(blobs: Blobs, env: Env) -> Self {
        Self { blobs, env }
    }
}

impl Spill for BlobSpill {
    fn begin(&self) -> io::Result<Box<dyn SpillFile>> {
        let writer = self.blobs.begin(Self::MOST).map_err(told)?;
        let spill = self.clone();
        Ok(Box::new(Spilling { spill, writer }))
    }
}

struct Spilling {
    spill: BlobSpill,
    writer: BlobWriter,
}

impl Write for Spilling {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl SpillFile for Spilling {
    fn finish(self: Box<Self>) -> io::Result<PathBuf> {
        let Self { spill, writer } = *self;
        let id = writer.finish(spill.env.now()).map_err(told)?;
        Ok(spill.blobs.path(&id))
    }
}

fn told(error: StoreError) -> io::Error {
    io::Error::other(error)
}

/// What stays of a text that is longer than `most` bytes: the beginning and the end, and the whole goes into a file
/// that is named below them, if it can be kept.
pub(crate) fn bounded(text: &str, most: usize, spill: Option<&dyn Spill>) -> String {
    let limits = OutputLimits {
        max_bytes: most,
        max_lines: usize::MAX,
    };
    let mut shown = bound(text, limits).text;
    let note = match spill.map(|spill| keep(spill, text)) {
        None => "[There is no place for the whole output: it is lost.]".to_owned(),
        Some(Err(error)) => format!("[The whole output could not be kept: {error}.]"),
        Some(Ok(path)) => format!(
            "[The whole output is in `{}`: use read or grep on it.]",
            path.display()
        ),
    };
    if !shown.ends_with('\n') {
        shown.push('\n');
    }
    shown.push_str(&note);
    shown
}

fn keep(spill: &dyn Spill, text: &str) -> io::Result<PathBuf> {
    let mut file = spill.begin()?;
    file.write_all(text.as_bytes())?;
    file.finish()
}
