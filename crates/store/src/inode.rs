//! Which file a name stands for: two names of one file are hard links.

use std::fs::Metadata;

use serde::{Deserialize, Serialize};

/// A file, whatever its names are. Two are equal if they are one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Inode {
    pub(crate) device: u64,
    pub(crate) number: u64,
}

#[cfg(unix)]
impl Inode {
    /// The file that the system describes. `None` where the system does not say.
    pub(crate) fn of(meta: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        Some(Self {
            device: meta.dev(),
            number: meta.ino(),
        })
    }
}

/// How many names a file has.
#[cfg(unix)]
pub(crate) fn links(meta: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(meta)
}

#[cfg(not(unix))]
impl Inode {
    /// The file that the system describes. `None` where the system does not say.
    pub(crate) const fn of(_: &Metadata) -> Option<Self> {
        None
    }
}

/// How many names a file has.
#[cfg(not(unix))]
pub(crate) const fn links(_: &Metadata) -> u64 {
    1
}
