//! What opening a session for writing does about a crash (`reference/persistence.md` §1.6, §4.3, §6.1).
//!
//! Everything goes into one batch: the whole records saved from a torn frame, the event that settles the answer which was
//! streaming (`journal.rs`), the closers of the open turn, and the resume marker. Closers and their seqs, ids and times
//! follow from the log alone, so a repair that was itself cut off anywhere comes to the same end when it is done again.

use std::fs;
use std::sync::Arc;

use offshoot_format::{Container, StoredSession};
use offshoot_session::{Event, LogOffset, Session};

use crate::disk::{Disk, LogFile};
use crate::inode::Inode;
use crate::logbytes::LogBytes;
use crate::persistence::Repair;
use crate::prefix::Written;
use crate::tree::{Found, Place};
use crate::writer::append_or_roll_back;
use crate::{StoreError, note};

/// A session that was repaired, and what is stored of it.
pub(crate) struct Repaired {
    pub(crate) session: Session,
    pub(crate) written: Written,
    pub(crate) repair: Option<Repair>,
}

/// Writes what a crash has left to do, in one durable batch, and hands out the session that is then stored. `bytes` is
/// what the log holds.
pub(crate) fn repair(
    disk: &dyn Disk,
    found: &Found,
    mut stored: StoredSession,
    settled: Option<Arc<Event>>,
    bytes: &LogBytes,
    log: &mut dyn LogFile,
    now: i64,
) -> Result<Repaired, StoreError> {
    let Place { dir, path } = &found.place;
    let tail = stored.tail.clone();
    let recovered = tail.as_ref().map_or(0, |tail| tail.recovered);
    let mut written = written(found, &stored, bytes)?;
    let durable = LogOffset::new(stored.log.end().get() - recovered);
    let settled = settled.map(|event| {
        let event = stored.log.push(event).expect("BUG: it was checked");
        event.seq()
    });
    let closers: Vec<_> = stored.closers().into_iter().map(Arc::new).collect();
    let session = stored.balanced(now).map_err(|source| StoreError::Seed {
        path: path.clone(),
        source,
    })?;
    let missing = session.log().events_from(durable).map(|event| &**event);
    let batch = found.generation.container.batch(missing);
    match &tail {
        Some(tail) if tail.recovered > 0 => {
            let torn = &bytes.bytes[usize::try_from(tail.keep).unwrap_or(usize::MAX)..];
            let keep = bytes.own_offset(tail.keep);
            note::replace_tail(disk, dir, log, path, keep, torn, batch.clone())?;
        }
        // Nothing is saved from behind the cut, so the cut alone changes nothing that anybody reads. It is made durable
        // before anything is written behind it: the two must not mix.
        Some(tail) => {
            let keep = bytes.own_offset(tail.keep);
            log.truncate(keep)
                .and_then(|()| log.sync())
                .map_err(StoreError::io("cut the torn tail of", path))?;
            append_or_roll_back(log, path, keep, &batch)?;
        }
        None => append_or_roll_back(log, path, bytes.own_size(), &batch)?,
    }
    let torn_bytes = tail.map_or(0, |tail| tail.bytes);
    let repaired = torn_bytes > 0 || settled.is_some() || !closers.is_empty();
    if !batch.is_empty() {
        written.push(&batch, session.log().end());
    }
    Ok(Repaired {
        session,
        written,
        repair: repaired.then_some(Repair {
            torn_bytes,
            recovered,
            settled,
            closers,
            stray: None,
        }),
    })
}

/// What is stored ahead of the repair.
fn written(found: &Found, stored: &StoredSession, bytes: &LogBytes) -> Result<Written, StoreError> {
    let path = &found.place.path;
    let container = found.generation.container;
    if container == Container::Zstd {
        let meta = fs::metadata(path).map_err(StoreError::io("read", path))?;
        return Ok(Written::of(bytes.frames(stored, path, Inode::of(&meta))));
    }
    let mut written = Written::new(container);
    let tail = stored.tail.as_ref();
    let end = tail.map_or(bytes.bytes.len() as u64, |tail| tail.keep);
    let rows = stored.header_line.len() + 1..usize::try_from(end).unwrap_or(usize::MAX);
    written.push(&bytes.bytes[rows], stored.log.end());
    Ok(written)
}
