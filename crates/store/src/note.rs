//! Repairing a torn frame without a moment in which a crash would lose what was saved from it.
//!
//! Whole records in a torn last frame were never acknowledged, but they are there, and a reader shows them. Repair has to
//! cut the frame away before it can write them again. So the bytes that will stand behind the cut are first stored beside
//! the log, durably; only then is the log cut and extended; then the note is removed. Whoever opens the session next and
//! finds a note finishes that work, if the log is still in a state that the work passes through.

use std::fs;
use std::io;
use std::path::Path;

use crate::StoreError;
use crate::disk::{Disk, LogFile, sync_dir};
use crate::layout::REPAIR_NAME;

const MAGIC: &[u8] = b"offshoot-repair 1\n";

/// What is to stand behind byte `keep` of a log, and what stands there while the work has not begun.
#[derive(Debug, PartialEq, Eq)]
struct Note {
    keep: u64,
    torn: Vec<u8>,
    bytes: Vec<u8>,
}

impl Note {
    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for number in [self.keep, self.torn.len() as u64, self.bytes.len() as u64] {
            out.extend(number.to_le_bytes());
        }
        out.extend(&self.torn);
        out.extend(&self.bytes);
        out
    }

    /// `None` for a note that was not finished: then the work it announces was not begun either.
    fn decode(text: &[u8]) -> Option<Self> {
        let rest = text.strip_prefix(MAGIC)?;
        let (numbers, rest) = rest.split_at_checked(24)?;
        let number = |at: usize| numbers[at..at + 8].try_into().ok().map(u64::from_le_bytes);
        let (keep, torn, bytes) = (number(0)?, number(8)?, number(16)?);
        let (torn, bytes) = (usize::try_from(torn).ok()?, usize::try_from(bytes).ok()?);
        let whole = torn.checked_add(bytes)? == rest.len();
        whole.then(|| Self {
            keep,
            torn: rest[..torn].to_vec(),
            bytes: rest[torn..].to_vec(),
        })
    }

    /// Whether the log is at a point that this repair passes through: the rest untouched, or cut, or partly extended.
    fn applies_to(&self, log: &[u8]) -> bool {
        let keep = usize::try_from(self.keep).unwrap_or(usize::MAX);
        log.get(keep..)
            .is_some_and(|rest| rest == self.torn || self.bytes.starts_with(rest))
    }
}

/// Cuts the log to `keep` and puts `bytes` behind it, so that a crash at any moment leaves a log that still has, or again
/// gets, all of them. `torn` is what stands behind `keep` now.
pub(crate) fn replace_tail(
    disk: &dyn Disk,
    dir: &Path,
    log: &mut dyn LogFile,
    path: &Path,
    keep: u64,
    torn: &[u8],
    bytes: Vec<u8>,
) -> Result<(), StoreError> {
    let note = Note {
        keep,
        torn: torn.to_vec(),
        bytes,
    };
    let note_path = dir.join(REPAIR_NAME);
    let written = disk
        .create_file(&note_path)
        .and_then(|mut file| file.append(&note.encode()).and_then(|()| file.sync()))
        .and_then(|()| disk.sync_dir(dir));
    if let Err(error) = written {
        // The log is untouched, so the note is worth nothing. If it stays, it is whole and right, or not whole.
        let _ignored = disk.remove(&note_path);
        return Err(StoreError::io("write the repair note", note_path)(error));
    }
    apply(log, path, &note)?;
    remove(disk, dir, &note_path)
}

/// Finishes a repair that a crash has stopped, and removes a note that no longer applies. To be called by whoever holds
/// the session's lock.
pub(crate) fn resume(
    disk: &dyn Disk,
    dir: &Path,
    log: &mut dyn LogFile,
    path: &Path,
) -> Result<(), StoreError> {
    let note_path = dir.join(REPAIR_NAME);
    let text = match fs::read(&note_path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StoreError::io("read the repair note", note_path)(error)),
    };
    let current = fs::read(path).map_err(StoreError::io("read", path))?;
    if let Some(note) = Note::decode(&text).filter(|note| note.applies_to(&current)) {
        apply(log, path, &note)?;
    }
    remove(disk, dir, &note_path)
}

/// Whether a repair is under way, or was when a process ended.
pub(crate) fn is_there(dir: &Path) -> bool {
    // What cannot be looked for may be there.
    dir.join(REPAIR_NAME).try_exists().unwrap_or(true)
}

/// What a reader sees instead of the file while a repair is under way: the log as it will be.
pub(crate) fn pending(dir: &Path, current: &[u8]) -> Option<Vec<u8>> {
    let text = fs::read(dir.join(REPAIR_NAME)).ok()?;
    let note = Note::decode(&text).filter(|note| note.applies_to(current))?;
    let mut log = current[..usize::try_from(note.keep).ok()?].to_vec();
    log.extend(note.bytes);
    Some(log)
}

/// The cut is durable before anything is written behind it: after a power cut the log is at a point that the repair
/// passes through, and no mixture of old and new bytes.
fn apply(log: &mut dyn LogFile, path: &Path, note: &Note) -> Result<(), StoreError> {
    log.truncate(note.keep)
        .and_then(|()| log.sync())
        .and_then(|()| log.append(&note.bytes))
        .and_then(|()| log.sync())
        .map_err(StoreError::io("repair", path))
}

fn remove(disk: &dyn Disk, dir: &Path, note: &Path) -> Result<(), StoreError> {
    disk.remove(note)
        .map_err(StoreError::io("remove the repair note", note))?;
    sync_dir(disk, dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_back_whole_and_never_in_part() {
        let note = Note {
            keep: 7,
            torn: b"torn".to_vec(),
            bytes: b"new bytes".to_vec(),
        };
        let text = note.encode();
        assert_eq!(Note::decode(&text), Some(note));
        for len in 0..text.len() {
            assert_eq!(Note::decode(&text[..len]), None, "cut at {len}");
        }
    }

    #[test]
    fn a_note_applies_only_to_a_log_that_its_repair_passes_through() {
        let note = Note {
            keep: 3,
            torn: b"TORN".to_vec(),
            bytes: b"new".to_vec(),
        };
        for log in ["abcTORN", "abc", "abcn", "abcne", "abcnew"] {
            assert!(note.applies_to(log.as_bytes()), "{log}");
        }
        for log in ["ab", "abcTORNx", "abcnewx", "abcx", ""] {
            assert!(!note.applies_to(log.as_bytes()), "{log}");
        }
    }
}
