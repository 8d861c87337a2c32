//! Which version of each file a session has seen.
//!
//! A file may be replaced or edited only by somebody who knows what is in it now (`reference/agent.md` §3.3). What `read`
//! showed and what `write` and `edit` left behind is known; the version is the digest of the file's bytes, so a file
//! that was touched and has the same content as before is still known.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

use crate::place::canonical;

/// A version of a file: the SHA-256 of its bytes. Its text is `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileDigest([u8; 32]);

impl FileDigest {
    /// The digest of a content.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        Self(Sha256::digest(content).into())
    }
}

impl fmt::Display for FileDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for FileDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not the digest of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not `sha256:` and 64 hexadecimal digits")]
pub struct DigestError {
    text: String,
}

impl FromStr for FileDigest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let bad = || DigestError {
            text: text.to_owned(),
        };
        let digits = text.strip_prefix("sha256:").ok_or_else(bad)?.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(bad());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16).ok_or_else(bad);
            let value = digit(pair[0])? * 16 + digit(pair[1])?;
            *byte = u8::try_from(value).map_err(|_| bad())?;
        }
        Ok(Self(bytes))
    }
}

/// Digests what is read through it.
#[derive(Debug)]
pub(crate) struct Digesting<R> {
    inner: R,
    digest: Sha256,
}

impl<R: Read> Digesting<R> {
    pub(crate) fn new(inner: R) -> Self {
        let digest = Sha256::new();
        Self { inner, digest }
    }

    /// The digest of everything that was read.
    pub(crate) fn finish(self) -> FileDigest {
        FileDigest(self.digest.finalize().into())
    }
}

impl<R: Read> Read for Digesting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.digest.update(&buffer[..read]);
        Ok(read)
    }
}

/// The versions that one session has seen, shared by its file tools.
///
/// Nothing is stored here. The results of the tools have path and digest in their facts (`path` and `digest` of their
/// `meta`), so whoever resumes or forks a session can fold them from its log and [`restore`](Self::restore) them.
#[derive(Debug, Default)]
pub struct Observations {
    seen: Mutex<HashMap<PathBuf, FileDigest>>,
}

impl Observations {
    /// A session that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what was seen earlier, oldest first: of the same file the last version counts.
    ///
    /// Paths that no longer lead anywhere are left out: such a file cannot be replaced anyway.
    pub fn restore(&self, seen: impl IntoIterator<Item = (PathBuf, FileDigest)>) {
        for (path, digest) in seen {
            if let Ok(path) = canonical(&path) {
                self.record(&path, digest);
            }
        }
    }

    /// What the session knows of a file, by any of its paths.
    #[must_use]
    pub fn seen(&self, path: &Path) -> Option<FileDigest> {
        self.version(&canonical(path).ok()?)
    }

    /// The version that was seen last of the file with this canonical path.
    pub(crate) fn version(&self, canonical: &Path) -> Option<FileDigest> {
        self.lock().get(canonical).copied()
    }

    /// The file with this canonical path was seen.
    pub(crate) fn record(&self, canonical: &Path, digest: FileDigest) {
        self.lock().insert(canonical.to_owned(), digest);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, FileDigest>> {
        // No panic leaves the map half changed.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_written_as_it_is_read() {
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(FileDigest::of(b"abc").to_string(), text);
        assert_eq!(text.parse(), Ok(FileDigest::of(b"abc")));
    }

    #[test]
    fn other_texts_are_no_digests() {
        let long = "0".repeat(64);
        for text in [
            String::new(),
            long.clone(),
            format!("md5:{long}"),
            format!("sha256:{}", &long[1..]),
            format!("sha256:{long}0"),
            format!("sha256:+{}", &long[1..]),
            format!("sha256:é{}", &long[2..]),
        ] {
            assert_eq!(
                text.parse::<FileDigest>()
                    .map_err(|error| error.to_string()),
                Err(format!(
                    "`{text}` is not `sha256:` and 64 hexadecimal digits"
                ))
            );
        }
    }

    #[test]
    fn reading_through_it_digests_everything() {
        let mut reader = Digesting::new(&b"abc"[..]);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(
            (text.as_str(), reader.finish()),
            ("abc", FileDigest::of(b"abc"))
        );
    }
}
