//! From an older generation of a log to the current one: a new file beside the old one, which stays as it is
//! (`reference/persistence.md` §1.12).
//!
//! Only the current version is written, never one in between. Its bytes are decoded as strictly as those of any other file
//! and compared with what was meant, and are read back from the disk, before the file gets the name by which readers find
//! it. A crash leaves the old generation as the session, or the complete new one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use offshoot_format::{
    Container, FormatError, StoredHeader, StoredSession, decode_as, decode_with, read_header,
};
use offshoot_session::SessionHeader;

use crate::disk::{Disk, Draft, PublishError, RealDisk, create_dirs};
use crate::layout::{Generation, LOCK_NAME, is_written_here, session_dir};
use crate::lock::{Lock, Locking};
use crate::logbytes::LogBytes;
use crate::walk::{drafted, name_of};
use crate::{JsonlStore, StoreError};

/// What a session that was brought up in memory looks like as a current file.
pub(crate) fn encode(
    path: &Path,
    container: Container,
    stored: &StoredSession,
) -> Result<Vec<u8>, StoreError> {
    let failed = |source| StoreError::Format {
        path: path.to_owned(),
        source,
    };
    let mut bytes = container.header(&stored.header).map_err(failed)?;
    let events = stored.log.events().map(|event| &**event);
    bytes.extend(container.batches(events).flat_map(|(batch, _)| batch));
    let again = decode_as(container, &bytes).map_err(failed)?;
    let same = again.header == stored.header
        && again.inherited == stored.inherited
        && again.log.events().eq(stored.log.events());
    if again.tail.is_some() || !same {
        let reason = "what was written is not what was read".to_owned();
        return Err(failed(FormatError::Inconsistent { reason }));
    }
    Ok(bytes)
}

/// Gives the bytes the name of a log, unless `source` is no longer what they were made from. Says whether that is new: the
/// same file may be there already.
pub(crate) fn publish_current(
    disk: &dyn Disk,
    source: &Path,
    source_bytes: &[u8],
    path: &Path,
    bytes: &[u8],
) -> Result<bool, StoreError> {
    let draft = Draft::write(disk, path, bytes).map_err(StoreError::io("create", path))?;
    // What is on the disk is what was validated; and, as late as can be, the source is what it was made from.
    let same = is_still(draft.temporary(), bytes).and_then(|()| is_still(source, source_bytes));
    if let Err(error) = same {
        draft.discard();
        return Err(error);
    }
    let Err(error) = draft.publish() else {
        return Ok(true);
    };
    if matches!(error, PublishError::Taken) {
        let there = fs::read(path).map_err(StoreError::io("read", path))?;
        if is_same_session(path, &there, bytes) {
            return Ok(false);
        }
    }
    Err(error.at(path, || StoreError::GenerationConflict {
        older: source.to_owned(),
        target: path.to_owned(),
    }))
}

/// Whether a file holds these bytes.
fn is_still(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let found = fs::read(path).map_err(StoreError::io("read", path))?;
    match found == bytes {
        true => Ok(()),
        false => Err(StoreError::Changed {
            path: path.to_owned(),
        }),
    }
}

/// Whether two current files hold the same, however it is packed into frames.
fn is_same_session(path: &Path, one: &[u8], other: &[u8]) -> bool {
    let read = |bytes| decode_as(container_of(path, bytes), bytes).ok();
    one == other
        || read(one).zip(read(other)).is_some_and(|(one, other)| {
            one.header == other.header
                && one.tail.is_none()
                && one.log.events().eq(other.log.events())
        })
}

/// What [`convert`] came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The current file.
    pub path: PathBuf,
    /// The version of the source.
    pub version: u64,
    /// How many events there are.
    pub events: u64,
    /// Whether the same file was there already; then nothing was written.
    pub already: bool,
}

/// Publishes a file of an older version as a current one, packed the same way: beside it, or in the directory `to`, which
/// is created if it is missing. The source is only read.
///
/// For a session in a home the new file is what the session is from then on. So nobody may be writing to it meanwhile, and
/// what its children prove about it counts, both as when it is opened.
///
/// # Errors
/// A file that cannot be read or brought up; one that is current already; another file that has the name; a session of a
/// home that somebody else is writing to.
pub fn convert(file: &Path, to: Option<&Path>, locking: Locking) -> Result<Converted, StoreError> {
    let bytes = crate::read::whole(file)?;
    let container = container_of(file, &bytes);
    let bytes = LogBytes::of_file(file, bytes)?.bytes;
    let failed = |source| StoreError::Format {
        path: file.to_owned(),
        source,
    };
    let header = read_header(container, &bytes).and_then(|line| StoredHeader::read(&line));
    let header = header.map_err(failed)?.into_header();
    let home = home_of(file, &header, container);
    let children = match &home {
        Some(home) => home.children_of(&header.id)?,
        None => Vec::new(),
    };
    let stored = decode_with(container, &bytes, &children).map_err(failed)?;
    let generation = Generation::current(container);
    if stored.version == generation.version {
        return Err(StoreError::AlreadyCurrent {
            path: file.to_owned(),
        });
    }
    let dir = to.unwrap_or_else(|| crate::disk::parent(file));
    let path = match to.is_none() && file.parent() == Some(Path::new("")) {
        true => PathBuf::from(generation.file_name()),
        false => dir.join(generation.file_name()),
    };
    // A session that is there raw and packed would be none that can be opened.
    let other = match container {
        Container::Raw => Container::Zstd,
        Container::Zstd => Container::Raw,
    };
    let twin = path.with_file_name(Generation::current(other).file_name());
    if fs::symlink_metadata(&twin).is_ok() {
        return Err(StoreError::GenerationConflict {
            older: file.to_owned(),
            target: twin,
        });
    }
    let current = encode(&path, container, &stored)?;
    // Refused before the lock is taken: losing leaves no trace.
    if let Ok(there) = fs::read(&path)
        && !is_same_session(&path, &there, &current)
    {
        return Err(StoreError::GenerationConflict {
            older: file.to_owned(),
            target: path,
        });
    }
    let _lock = match (&home, to) {
        (Some(_), None) => {
            let lock = dir.join(LOCK_NAME);
            Some(Lock::take(&RealDisk, locking, &lock, &header.id)?)
        }
        _ => None,
    };
    create_dirs(&RealDisk, dir)?;
    let is_new = publish_current(&RealDisk, file, &bytes, &path, &current)?;
    Ok(Converted {
        path,
        version: stored.version,
        events: stored.log.end().get(),
        already: !is_new,
    })
}

/// The home that the file is a session of, if it lies where a home has it.
fn home_of(file: &Path, header: &SessionHeader, container: Container) -> Option<JsonlStore> {
    Generation::parse(file.file_name()?.to_str()?)?;
    let file = fs::canonicalize(file).ok()?;
    let dir = file.parent()?;
    let root = dir.parent()?.parent()?;
    let expected = session_dir(root, header).ok()?;
    (expected == dir).then(|| JsonlStore::new(root, container))
}

/// How a file is packed: its name says it where it is one of ours, else its first bytes do.
pub(crate) fn container_of(path: &Path, bytes: &[u8]) -> Container {
    match path.extension().and_then(|end| end.to_str()) {
        Some("zstd") => Container::Zstd,
        _ => Container::detect(bytes),
    }
}

/// Removes what an earlier migration that was cut off has left in a session's directory. Whoever calls this holds the lock,
/// so nobody is writing there.
pub(crate) fn remove_leftovers(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if drafted(name_of(&path)).is_some_and(is_written_here) {
            disk.remove(&path)?;
        }
    }
    Ok(())
}
