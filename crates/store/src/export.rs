//! One file that has all of a session: what other tools read, and what can be carried elsewhere.
//!
//! Images and spilled output are not in it, as they are in no session file: those that the session names are put into a
//! directory beside it, under the names that they have in the home.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use offshoot_format::{Container, FormatError, StoredSession, decode_as};
use offshoot_session::{LogOffset, SessionId};

use crate::blobs::{BlobId, Blobs};
use crate::disk::{RealDisk, create_dirs, parent, publish};
use crate::logbytes::LogBytes;
use crate::{JsonlStore, StoreError};

/// What [`JsonlStore::export`] wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// How many events it has.
    pub events: LogOffset,
    /// Bytes of an unfinished record at the end of the source, which are left out.
    pub torn_bytes: u64,
    /// Where the blobs are that the session names, if there are any.
    pub blobs: Option<PathBuf>,
    /// Blobs that the session names and nobody has.
    pub missing: Vec<BlobId>,
}

impl JsonlStore {
    /// Writes a session of this store as one self-contained file of the current format: raw lines, or compressed if the name
    /// ends in `.zstd`. What was coming in of an answer when the process ended is in it. The blobs that the session names
    /// go into `<to>.blobs/`. `now` is in ms since the epoch.
    ///
    /// The session is only read. Missing directories are created; a file that is there is never replaced.
    ///
    /// # Errors
    /// A session or a blob that cannot be read; a file that is there already, or cannot be written. Then there is no new
    /// file.
    pub fn export(&self, id: &SessionId, to: &Path, now: i64) -> Result<Exported, StoreError> {
        let (log, read) = self.load(id)?;
        let unstored = u64::from(read.settled.is_some());
        let source = Source {
            log: &log,
            stored: &read.stored,
            unstored,
        };
        let bytes = source.encode_for(to)?;
        let (blobs, missing) = copy_blobs(&self.blobs(), &read.stored, to, now)?;
        Ok(Exported {
            blobs,
            missing,
            ..source.publish(to, &bytes)?
        })
    }
}

/// [`JsonlStore::export`] for a session file anywhere, whose blobs are nobody knows where.
///
/// # Errors
/// As there.
pub fn export_file(file: &Path, to: &Path) -> Result<Exported, StoreError> {
    let bytes = crate::read::whole(file)?;
    let container = crate::generations::container_of(file, &bytes);
    let log = LogBytes::of_file(file, bytes)?;
    let stored = decode_as(container, log.bytes()).map_err(|source| StoreError::Format {
        path: file.to_owned(),
        source: log.error_in_own_file(source),
    })?;
    let stored = log.in_own_file(stored);
    let source = Source {
        log: &log,
        stored: &stored,
        unstored: 0,
    };
    let bytes = source.encode_for(to)?;
    let missing: BTreeSet<BlobId> = named(&stored).collect();
    Ok(Exported {
        missing: missing.into_iter().collect(),
        ..source.publish(to, &bytes)?
    })
}

/// What is exported.
struct Source<'a> {
    log: &'a LogBytes,
    stored: &'a StoredSession,
    /// How many of its last events are not in the file.
    unstored: u64,
}

impl Source<'_> {
    fn encode_for(&self, to: &Path) -> Result<Vec<u8>, StoreError> {
        let container = match to.extension().is_some_and(|end| end == "zstd") {
            true => Container::Zstd,
            false => Container::Raw,
        };
        self.encode(container).map_err(|source| StoreError::Format {
            path: to.to_owned(),
            source,
        })
    }

    /// Frames that are sound are taken as they are; what no whole frame holds is packed anew.
    fn encode(&self, container: Container) -> Result<Vec<u8>, FormatError> {
        let Self { stored, .. } = self;
        let (mut bytes, from) = match (container, stored.frames.first()) {
            (Container::Zstd, Some(_)) => self.sound_frames(),
            _ => (container.header(&stored.header)?, LogOffset::START),
        };
        let rest = stored.log.events_from(from).map(|event| &**event);
        bytes.extend(container.batches(rest).flat_map(|(batch, _)| batch));
        let again = decode_as(container, &bytes)?;
        let same = again.header == stored.header && again.log.events().eq(stored.log.events());
        if again.tail.is_some() || !same {
            let reason = "what was written is not what was read".to_owned();
            return Err(FormatError::Inconsistent { reason });
        }
        Ok(bytes)
    }

    /// The beginning of the file, and how long the log is there.
    fn sound_frames(&self) -> (Vec<u8>, LogOffset) {
        let tail = self.stored.tail.as_ref();
        let torn = tail.map_or(0, |tail| tail.bytes);
        let end = self.log.bytes().len() - usize::try_from(torn).expect("BUG: it is in memory");
        let behind = tail.map_or(0, |tail| tail.recovered) + self.unstored;
        let from = LogOffset::new(self.stored.log.end().get() - behind);
        (self.log.bytes()[..end].to_vec(), from)
    }

    fn publish(&self, to: &Path, bytes: &[u8]) -> Result<Exported, StoreError> {
        create_dirs(&RealDisk, parent(to))?;
        publish(&RealDisk, to, bytes).map_err(|error| error.at(to, || taken(to)))?;
        Ok(Exported {
            path: to.to_owned(),
            bytes: bytes.len() as u64,
            events: self.stored.log.end(),
            torn_bytes: self.stored.tail.as_ref().map_or(0, |tail| tail.bytes),
            blobs: None,
            missing: Vec::new(),
        })
    }
}

fn taken(to: &Path) -> StoreError {
    StoreError::FileExists {
        path: to.to_owned(),
    }
}

fn named(stored: &StoredSession) -> impl Iterator<Item = BlobId> + '_ {
    let texts = stored.log.events().map(|event| event.text().as_bytes());
    texts.flat_map(BlobId::references_in)
}

/// Puts the blobs that a session names beside the file that it goes into, ahead of that: whoever finds the file finds them.
fn copy_blobs(
    from: &Blobs,
    stored: &StoredSession,
    to: &Path,
    now: i64,
) -> Result<(Option<PathBuf>, Vec<BlobId>), StoreError> {
    let named: BTreeSet<BlobId> = named(stored).collect();
    if named.is_empty() {
        return Ok((None, Vec::new()));
    }
    if to.exists() {
        return Err(taken(to));
    }
    let mut dir = to.as_os_str().to_owned();
    dir.push(".blobs");
    let beside = Blobs::new(PathBuf::from(dir));
    let mut missing = Vec::new();
    for id in &named {
        match from.get(id) {
            Ok(bytes) => {
                beside.put(&bytes, now)?;
            }
            Err(StoreError::BlobNotFound { .. }) => missing.push(*id),
            Err(error) => return Err(error),
        }
    }
    let any = missing.len() < named.len();
    Ok((any.then(|| beside.dir().to_owned()), missing))
}
