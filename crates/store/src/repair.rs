//! What opening a session for writing does about a crash (`reference/persistence.md` §1.6, §4.3, §6.1).
//!
//! Everything goes into one batch: the whole records saved from a torn frame, the closers of the open turn, and the resume
//! marker. Closers and their seqs, ids and times follow from the log alone, so a repair that was itself cut off anywhere
//! comes to the same end when it is done again.

use std::sync::Arc;

use offshoot_format::StoredSession;
use offshoot_session::{LogOffset, Session};

use crate::disk::{Disk, LogFile};
use crate::persistence::Repair;
use crate::tree::{Found, Place};
use crate::writer::append_or_roll_back;
use crate::{StoreError, note};

/// Writes what a crash has left to do, in one durable batch, and hands out the session that is then stored. `bytes` is
/// what the log holds.
pub(crate) fn repair(
    disk: &dyn Disk,
    found: &Found,
    stored: StoredSession,
    bytes: &[u8],
    log: &mut dyn LogFile,
    now: i64,
) -> Result<(Session, Option<Repair>), StoreError> {
    let Place { dir, path } = &found.place;
    let tail = stored.tail.clone();
    let recovered = tail.as_ref().map_or(0, |tail| tail.recovered);
    let durable = LogOffset::new(stored.log.end().get() - recovered);
    let closers: Vec<_> = stored.closers().into_iter().map(Arc::new).collect();
    let session = stored.balanced(now).map_err(|source| StoreError::Seed {
        path: path.clone(),
        source,
    })?;
    let missing = session.log().events_from(durable).map(|event| &**event);
    let batch = found.generation.container.batch(missing);
    match &tail {
        Some(tail) if tail.recovered > 0 => {
            note::replace_tail(disk, dir, log, path, bytes, tail.keep, batch)?;
        }
        // Nothing is saved from behind the cut, so the cut alone changes nothing that anybody reads. It is made durable
        // before anything is written behind it: the two must not mix.
        Some(tail) => {
            log.truncate(tail.keep)
                .and_then(|()| log.sync())
                .map_err(StoreError::io("cut the torn tail of", path))?;
            append_or_roll_back(log, path, tail.keep, &batch)?;
        }
        None => append_or_roll_back(log, path, bytes.len() as u64, &batch)?,
    }
    let torn_bytes = tail.map_or(0, |tail| tail.bytes);
    let repaired = torn_bytes > 0 || !closers.is_empty();
    Ok((
        session,
        repaired.then_some(Repair {
            torn_bytes,
            recovered,
            closers,
        }),
    ))
}
