//! A blob whose bytes come piece by piece, and whose name is known when the last one is there.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

use super::{BlobId, Blobs};
use crate::StoreError;
use crate::disk::{Draft, LogFile, PublishError, create_dirs, create_temporary};

/// A blob that is being written. Nothing of it stays if it is dropped before [`BlobWriter::finish`].
///
/// After a write that failed it takes no more, and cannot be finished: what is in the file is not known.
pub struct BlobWriter {
    blobs: Blobs,
    /// The temporary name and the file; gone when it has got its name.
    draft: Option<(PathBuf, Box<dyn LogFile>)>,
    hash: Sha256,
    bytes: u64,
    most: u64,
    failed: bool,
}

impl Blobs {
    /// Begins a blob of `most` bytes at most.
    ///
    /// # Errors
    /// The disk failed.
    pub fn begin(&self, most: u64) -> Result<BlobWriter, StoreError> {
        let disk = &*self.disk;
        create_dirs(disk, &self.dir)?;
        // A draft bears the name of a blob, by which whoever cleans up knows it. Until there is more, it is the empty one.
        let path = self.path(&BlobId::of(b""));
        let draft = create_temporary(disk, &path).map_err(StoreError::io("create", &path))?;
        Ok(BlobWriter {
            blobs: self.clone(),
            draft: Some(draft),
            hash: Sha256::new(),
            bytes: 0,
            most,
            failed: false,
        })
    }
}

impl BlobWriter {
    /// Makes the blob durable under its name. One that is there already stays and becomes as young as a new one; `now` is
    /// in ms since the epoch.
    ///
    /// # Errors
    /// As [`Blobs::put`]; or a write has failed before.
    pub fn finish(mut self, now: i64) -> Result<BlobId, StoreError> {
        let id = BlobId(self.hash.clone().finalize().into());
        let path = self.blobs.path(&id);
        let failed = |error| StoreError::io("store", &path)(error);
        if self.failed {
            return Err(failed(incomplete()));
        }
        self.file().sync().map_err(failed)?;
        if self.blobs.renew(&id, now)? {
            return Ok(id);
        }
        let (temporary, file) = self.draft.take().expect(UNFINISHED);
        let disk = &*self.blobs.disk;
        match Draft::finished(disk, &path, temporary, file).publish() {
            Ok(_) => Ok(id),
            // Somebody was faster with the same bytes.
            Err(PublishError::Taken) if self.blobs.renew(&id, now)? => Ok(id),
            Err(error) => {
                let taken = || StoreError::FileExists { path: path.clone() };
                Err(error.at(&path, taken))
            }
        }
    }

    fn file(&mut self) -> &mut dyn LogFile {
        &mut *self.draft.as_mut().expect(UNFINISHED).1
    }
}

const UNFINISHED: &str = "BUG: a writer has its file until it is finished";

impl Write for BlobWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.failed {
            return Err(incomplete());
        }
        // Until all of it is done, none of it counts.
        self.failed = true;
        let total = self.bytes + bytes.len() as u64;
        if total > self.most {
            let reason = format!("it would be longer than {} bytes", self.most);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
        }
        self.file().append(bytes)?;
        self.hash.update(bytes);
        self.bytes = total;
        self.failed = false;
        Ok(bytes.len())
    }

    /// Does nothing: what is written is in the file, and durable when it is finished.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn incomplete() -> io::Error {
    io::Error::other("an earlier write failed")
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.draft {
            // What is left of it is a draft that is collected when it is a day old.
            let _ignored = self.blobs.disk.remove(temporary);
        }
    }
}

impl fmt::Debug for BlobWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobWriter")
            .field("dir", &self.blobs.dir)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
