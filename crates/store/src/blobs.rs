//! Bytes beside the logs: images, and output that is too long for a log. Every branch names the same one file.
//!
//! ```text
//! <home>/blobs/5891b5b5…(64 hex digits)     the bytes whose SHA-256 this is; never changed
//! ```
//!
//! A log names a blob as `sha256:<64 hex digits>` or by the path of its file, `…/blobs/<64 hex digits>`, anywhere in the text
//! of an event. A blob is stored before the event that names it, so there is a time in which nothing names it: therefore only
//! blobs that are a day old are ever collected, and storing one that is there makes it young again.

mod writer;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memchr::memmem;
use sha2::{Digest as _, Sha256};

use crate::StoreError;
use crate::disk::{Disk, PublishError, RealDisk, create_dirs, publish, sync_dir};
use crate::lock::Lock;
use crate::read::whole;

pub use writer::BlobWriter;

const PREFIX: &str = "sha256:";
/// The end of the path of their directory.
const IN_DIRECTORY: &str = "blobs/";
/// What stands ahead of a hash that names no blob: tools note the hashes of files that they read and wrote.
const OF_A_FILE: &[u8] = br#""digest":""#;
/// Of the hash, in hex digits.
const DIGITS: usize = 64;

/// The name of a blob: the SHA-256 of its bytes. Written as `sha256:<64 lower-case hex digits>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId([u8; DIGITS / 2]);

impl BlobId {
    /// The name of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Reads what [`fmt::Display`] writes, and nothing else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::of_file_name(text.strip_prefix(PREFIX)?)
    }

    /// Every blob that a text names. The text need not be whole, nor UTF-8. The value of a member `digest` is the hash of a
    /// file elsewhere and names none.
    pub fn references_in(text: &[u8]) -> impl Iterator<Item = Self> + '_ {
        let named = |start: usize| {
            let digits = text.get(start..)?.get(..DIGITS)?;
            Self::of_file_name(std::str::from_utf8(digits).ok()?)
        };
        let by_hash = memmem::find_iter(text, PREFIX)
            .filter(|at| !text[..*at].ends_with(OF_A_FILE))
            .filter_map(move |at| named(at + PREFIX.len()));
        let by_path = memmem::find_iter(text, IN_DIRECTORY)
            .filter_map(move |at| named(at + IN_DIRECTORY.len()));
        by_hash.chain(by_path)
    }

    /// Reads the name of a blob's file.
    pub(crate) fn of_file_name(name: &str) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        if name.len() != DIGITS {
            return None;
        }
        let mut hash = [0; DIGITS / 2];
        for (byte, pair) in hash.iter_mut().zip(name.as_bytes().chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(hash))
    }

    fn file_name(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.file_name())
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The blobs of one home.
#[derive(Clone, Debug)]
pub struct Blobs {
    dir: PathBuf,
    disk: Arc<dyn Disk>,
}

impl Blobs {
    /// Those in a directory, which is created when the first one is stored.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self::on(dir, Arc::new(RealDisk))
    }

    /// As [`Blobs::new`], on a disk that a test controls.
    pub fn on(dir: impl Into<PathBuf>, disk: Arc<dyn Disk>) -> Self {
        Self {
            dir: dir.into(),
            disk,
        }
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file of a blob, whether it is there or not.
    #[must_use]
    pub fn path(&self, id: &BlobId) -> PathBuf {
        self.dir.join(id.file_name())
    }

    /// Stores bytes durably. One that is there already stays and becomes as young as a new one; `now` is in ms since the
    /// epoch.
    ///
    /// # Errors
    /// The disk failed; or the blob's file is there and holds something else. It is not replaced: whatever it is, somebody
    /// may want it.
    pub fn put(&self, bytes: &[u8], now: i64) -> Result<BlobId, StoreError> {
        let id = BlobId::of(bytes);
        let path = self.path(&id);
        let disk = &*self.disk;
        while !self.renew(&id, now)? {
            create_dirs(disk, &self.dir)?;
            match publish(disk, &path, bytes) {
                Ok(_) => return Ok(id),
                Err(PublishError::Taken) => {}
                Err(error) => {
                    let taken = || StoreError::FileExists { path: path.clone() };
                    return Err(error.at(&path, taken));
                }
            }
        }
        Ok(id)
    }

    /// Makes a blob that is there as young as a new one; false if it is not there.
    fn renew(&self, id: &BlobId, now: i64) -> Result<bool, StoreError> {
        let path = self.path(id);
        match whole(&path) {
            Ok(bytes) if BlobId::of(&bytes) == *id => {}
            Ok(bytes) => return Err(damaged(path, &bytes)),
            Err(error) if is_missing(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
        // Between the two looks at its age nobody may take it away.
        let _keeping = Lock::directory(&self.dir);
        match self.disk.renew(&path, now) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(StoreError::io("renew", path)(error)),
        }
        // Whoever has stored it may not have come to this yet.
        sync_dir(&*self.disk, &self.dir)?;
        Ok(true)
    }

    /// Reads a blob and makes sure that it is what its name says.
    ///
    /// # Errors
    /// No such blob; one that is damaged; a file that cannot be read.
    pub fn get(&self, id: &BlobId) -> Result<Vec<u8>, StoreError> {
        let path = self.path(id);
        match whole(&path) {
            Ok(bytes) if BlobId::of(&bytes) == *id => Ok(bytes),
            Ok(bytes) => Err(damaged(path, &bytes)),
            Err(error) if is_missing(&error) => Err(StoreError::BlobNotFound { path }),
            Err(error) => Err(error),
        }
    }
}

fn damaged(path: PathBuf, found: &[u8]) -> StoreError {
    StoreError::BlobDamaged {
        path,
        reason: format!(
            "it holds {} bytes that are {}",
            found.len(),
            BlobId::of(found)
        ),
    }
}

fn is_missing(error: &StoreError) -> bool {
    matches!(error, StoreError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_hash_of_the_bytes_and_reads_back() {
        // What `sha256sum` says.
        let text = "sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        let id = BlobId::of(b"hello\n");
        assert_eq!(id.to_string(), text);
        assert_eq!(BlobId::parse(text), Some(id));
        let upper = text.to_uppercase();
        for other in ["", "sha256:", &text[7..], &text[..70], &upper, "sha256:é"] {
            assert_eq!(BlobId::parse(other), None, "{other}");
        }
        assert_eq!(BlobId::parse(&format!("{text}0")), None);
    }

    #[test]
    fn every_name_in_a_text_is_found_and_nothing_else() {
        let (a, b) = (BlobId::of(b"a"), BlobId::of(b"b"));
        let text = format!(
            r#"{{"x":"{a}","y":["sha256:sha256:","{b}{a}","sha256:{}"],"z":"{}""#,
            "A".repeat(64),
            &b.to_string()[..70]
        );
        let found: Vec<_> = BlobId::references_in(text.as_bytes()).collect();
        assert_eq!(found, [a, b, a]);
    }

    #[test]
    fn the_path_of_a_blob_names_it_and_the_hash_of_a_file_does_not() {
        let (a, b) = (BlobId::of(b"a"), BlobId::of(b"b"));
        let text = format!(
            r#"{{"meta":{{"digest":"{b}"}},"text":"in `/work/demo/blobs/{}`, not in blobs/{}"}}"#,
            a.file_name(),
            &b.file_name()[1..],
        );
        let found: Vec<_> = BlobId::references_in(text.as_bytes()).collect();
        assert_eq!(found, [a]);
    }
}
