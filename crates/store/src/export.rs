//! One file that has all of a session: what other tools read, and what can be carried elsewhere.

use std::path::{Path, PathBuf};

use offshoot_format::{Container, FormatError, StoredSession, decode_as};
use offshoot_session::{LogOffset, SessionId};

use crate::disk::{PublishError, RealDisk, create_dirs, parent, publish};
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
}

impl JsonlStore {
    /// Writes a session of this store as one self-contained file of the current format: raw lines, or compressed if the name
    /// ends in `.zstd`. The session is only read. Missing directories are created; a file that is there is never replaced.
    ///
    /// # Errors
    /// A session that cannot be read; a file that is there already, or cannot be written. Then there is no new file.
    pub fn export(&self, id: &SessionId, to: &Path) -> Result<Exported, StoreError> {
        let (log, stored) = self.load(id)?;
        write(&log, &stored, to)
    }
}

/// [`JsonlStore::export`] for a session file anywhere.
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
    write(&log, &stored, to)
}

fn write(log: &LogBytes, stored: &StoredSession, to: &Path) -> Result<Exported, StoreError> {
    let container = match to.extension().is_some_and(|end| end == "zstd") {
        true => Container::Zstd,
        false => Container::Raw,
    };
    let bytes = encode(log, stored, container).map_err(|source| StoreError::Format {
        path: to.to_owned(),
        source,
    })?;
    create_dirs(&RealDisk, parent(to))?;
    publish(&RealDisk, to, &bytes).map_err(|error| match error {
        PublishError::Taken => StoreError::FileExists {
            path: to.to_owned(),
        },
        PublishError::Failed(error) => StoreError::io("create", to)(error),
        PublishError::Unknown { failed, undo } => StoreError::Poisoned {
            path: to.to_owned(),
            append: failed.to_string(),
            rollback: undo.to_string(),
        },
    })?;
    Ok(Exported {
        path: to.to_owned(),
        bytes: bytes.len() as u64,
        events: stored.log.end(),
        torn_bytes: stored.tail.as_ref().map_or(0, |tail| tail.bytes),
    })
}

/// Frames that are sound are taken as they are; what no whole frame holds is packed anew.
fn encode(
    log: &LogBytes,
    stored: &StoredSession,
    container: Container,
) -> Result<Vec<u8>, FormatError> {
    let (mut bytes, from) = match (container, stored.frames.first()) {
        (Container::Zstd, Some(_)) => {
            let tail = stored.tail.as_ref();
            let end = tail.map_or(log.bytes().len() as u64, |tail| tail.keep);
            let end = usize::try_from(end).expect("BUG: the bytes are in memory");
            let recovered = tail.map_or(0, |tail| tail.recovered);
            let from = LogOffset::new(stored.log.end().get() - recovered);
            (log.bytes()[..end].to_vec(), from)
        }
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
