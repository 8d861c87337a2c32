//! Which state of a file something was read from (`reference/persistence.md` §1.3).

use std::fmt;
use std::fs::Metadata;

/// How old the last change of a file must be, in ms, before its revision alone is believed: the coarsest clock that file
/// systems have, that of FAT, counts in steps of two seconds.
pub const SETTLED_AFTER: i64 = 2_000;

/// Tells one state of a file from every other: the file itself, its size, and when it was last changed. Equal revisions
/// mean equal bytes, as far as the file system's clock can tell two changes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Revision {
    device: u64,
    inode: u64,
    /// How many names the file has.
    links: u64,
    /// In bytes.
    size: u64,
    /// In ns since the epoch, as the file system has it.
    modified: i128,
    /// As `modified`, for the file's attributes too: setting a time back changes this one.
    changed: i128,
}

impl Revision {
    /// The revision that the file has according to what the system says about it.
    #[cfg(unix)]
    #[must_use]
    pub fn of(meta: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let time = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            links: meta.nlink(),
            size: meta.len(),
            modified: time(meta.mtime(), meta.mtime_nsec()),
            changed: time(meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// The revision that the file has according to what the system says about it.
    #[cfg(not(unix))]
    #[must_use]
    pub fn of(meta: &Metadata) -> Self {
        let modified = meta
            .modified()
            .ok()
            .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let modified = modified.map_or(0, |since| {
            i128::try_from(since.as_nanos()).unwrap_or_default()
        });
        Self {
            device: 0,
            inode: 0,
            links: 0,
            size: meta.len(),
            modified,
            changed: modified,
        }
    }

    /// Whether the file holds the same in both. A linked fork of a session gives the session's file one more name, and with
    /// that changes the time of its attributes: then the time of its content tells.
    #[must_use]
    pub const fn has_same_content(&self, other: &Self) -> bool {
        self.device == other.device
            && self.inode == other.inode
            && self.size == other.size
            && self.modified == other.modified
            && (self.changed == other.changed || self.links != other.links)
    }

    /// The size of the file, in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Whether the file has been left alone for so long that a change from now on shows: the clocks of file systems are
    /// coarse, and two changes in one of their ticks look like one. `now`, in ms since the epoch, is a moment before the
    /// file was looked at.
    #[must_use]
    pub fn is_settled(&self, now: i64) -> bool {
        self.last_change().saturating_add(SETTLED_AFTER) <= now
    }

    /// Whether both are states of one file, however it has changed in between.
    #[must_use]
    pub const fn is_same_file(&self, other: &Self) -> bool {
        self.device == other.device && self.inode == other.inode
    }

    /// When content or attributes last changed, in ms since the epoch, by the file system's clock. Nobody can set this time.
    #[must_use]
    pub fn last_change(&self) -> i64 {
        i64::try_from(self.changed.div_euclid(1_000_000)).unwrap_or(i64::MAX)
    }

    /// Reads what [`fmt::Display`] writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let mut next = || parts.next();
        let revision = Self {
            device: next()?.parse().ok()?,
            inode: next()?.parse().ok()?,
            links: next()?.parse().ok()?,
            size: next()?.parse().ok()?,
            modified: next()?.parse().ok()?,
            changed: next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(revision)
    }
}

/// `device:inode:links:size:modified:changed`.
impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            device,
            inode,
            links,
            size,
            modified,
            changed,
        } = self;
        write!(f, "{device}:{inode}:{links}:{size}:{modified}:{changed}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_one_of_its_file_and_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let meta = std::fs::metadata(dir.path()).unwrap();
        let revision = Revision::of(&meta);
        assert_eq!(revision.size(), meta.len());
        assert_eq!(Revision::parse(&revision.to_string()), Some(revision));
        for text in [
            "",
            "1:2:3:4:5",
            "1:2:3:4:5:6:7",
            "1:2:3:-4:5:6",
            "a:2:3:4:5:6",
        ] {
            assert_eq!(Revision::parse(text), None, "{text}");
        }
    }
}
