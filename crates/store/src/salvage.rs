//! A new session of what is sound in a damaged file.
//!
//! It is a fork of the damaged session at the last event that can be proved: its parent is named, and the calls whose
//! results are lost are answered as those of any fork are. So the model is told what is known, and the tree shows where the
//! conversation comes from.

use std::path::{Path, PathBuf};

use offshoot_format::{Loss, salvage};
use offshoot_session::{MAX_SAFE_INTEGER, SeedError, SessionId, build_fork_seed};

use crate::generations::container_of;
use crate::{JsonlStore, LogBytes, Persistence as _, Prefix, StoreError};

/// What was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// The new session.
    pub id: SessionId,
    /// Its file.
    pub path: PathBuf,
    /// How many events it has, with those that close what the damage left open.
    pub events: u64,
    /// How many of them were saved.
    pub saved: u64,
    /// What is lost; `None` if nothing is.
    pub loss: Option<Loss>,
    /// The version of the source.
    pub version: u64,
}

/// Makes the session `child` of the longest beginning of a file that can be proved sound. The file is only read; `now` is
/// in ms since the epoch.
///
/// # Errors
/// A file that cannot be read, or has no header; one in which not even the first event is sound; a store that takes no new
/// session of that name. Nothing is written then.
pub fn salvage_into(
    store: &JsonlStore,
    file: &Path,
    child: SessionId,
    now: i64,
) -> Result<Salvaged, StoreError> {
    let created = u64::try_from(now)
        .ok()
        .filter(|now| *now <= MAX_SAFE_INTEGER);
    let created = created.ok_or_else(|| StoreError::Seed {
        path: file.to_owned(),
        source: SeedError::Time(now),
    })?;
    let bytes = crate::read::whole(file)?;
    let container = container_of(file, &bytes);
    let log = LogBytes::of_file(file, bytes)?;
    let mut saved = salvage(container, log.bytes()).map_err(|source| StoreError::Format {
        path: file.to_owned(),
        source: log.error_in_own_file(source),
    })?;
    if let Some(loss) = &mut saved.loss {
        loss.place = log.place_in_own_file(loss.place);
    }
    let Some(last) = saved.log.end().last() else {
        return Err(StoreError::NothingSound {
            path: file.to_owned(),
            reason: saved.loss.map_or_else(
                || "it has no event".to_owned(),
                |loss| format!("line {}: {}", loss.place.line, loss.reason),
            ),
        });
    };
    let header = saved.header.forked(child.clone(), created);
    let seed = build_fork_seed(&saved.log, last).expect("BUG: the last event is there");
    drop(store.fork(&header, &seed, &Prefix::default())?);
    Ok(Salvaged {
        path: store.locate(&child)?,
        id: child,
        events: seed.log().end().get(),
        saved: saved.log.end().get(),
        loss: saved.loss,
        version: saved.version,
    })
}
