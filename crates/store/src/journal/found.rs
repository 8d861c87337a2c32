//! What a journal that lies beside a log means for the session.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use offshoot_format::{Container, FrameScan, RunningDigest, scan_frame};
use offshoot_session::{Event, EventKind, EventLog, LogOffset, SessionId, StepRef};

use super::file::{self, NAME};
use super::{Settle, StrayJournal};
use crate::StoreError;
use crate::disk::{Disk, sync_dir};

/// A journal's bytes.
#[derive(Debug)]
pub(crate) struct Found {
    path: PathBuf,
    bytes: io::Result<Vec<u8>>,
}

/// What it means.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Nothing: nothing was streamed, or the log has what became of the attempt.
    Spent,
    /// The event that settles the attempt, to be put at the end of the log.
    Settled(Arc<Event>),
    /// It is not used.
    Stray(StrayJournal),
}

/// What a journal must fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside<'a> {
    pub(crate) session: &'a SessionId,
    pub(crate) log: &'a EventLog,
    pub(crate) container: Container,
    /// The log's file.
    pub(crate) bytes: &'a [u8],
}

impl Found {
    /// The journal in a session's directory, if there is one. A reader looks here before he looks into the log: then what
    /// the journal follows is in the log.
    pub(crate) fn in_dir(dir: &Path) -> Option<Self> {
        let path = dir.join(NAME);
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            bytes => Some(Self { path, bytes }),
        }
    }

    /// What it holds; nothing if it cannot be read.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }

    /// What it means beside this log.
    pub(crate) fn judge(&self, settle: Option<&dyn Settle>, beside: Beside<'_>) -> Outcome {
        self.try_judge(settle, beside).unwrap_or_else(|reason| {
            Outcome::Stray(StrayJournal {
                path: self.path.clone(),
                reason,
            })
        })
    }

    fn try_judge(
        &self,
        settle: Option<&dyn Settle>,
        beside: Beside<'_>,
    ) -> Result<Outcome, String> {
        let Beside { session, log, .. } = beside;
        let bytes = self.bytes.as_ref();
        let bytes = bytes.map_err(|error| format!("it cannot be read: {error}"))?;
        let Some((head, chunks)) = file::parse(bytes)? else {
            return Ok(Outcome::Spent);
        };
        if head.session != *session {
            return Err(format!("it is of session `{}`", head.session));
        }
        let (events, end) = (head.events, log.end());
        if events > end {
            return Err(format!("it follows {events} events, and the log has {end}"));
        }
        if !has_prefix(beside, head.digest) {
            return Err(format!(
                "it follows {events} events that are not those of the log"
            ));
        }
        if is_over(log, head.start.at, events) {
            return Ok(Outcome::Spent);
        }
        let settle = settle.ok_or("this program cannot read answers")?;
        let Some(settled) = settle.settle(&head.start, &chunks, log)? else {
            return Ok(Outcome::Spent);
        };
        let event = settled.draft.dated(end.seq(), settled.time);
        let event = event.map_err(|error| format!("it gives no event: {error}"))?;
        log.check(&event)
            .map_err(|error| format!("what it gives does not fit the log: {error}"))?;
        Ok(Outcome::Settled(Arc::new(event)))
    }

    /// Whether something was streamed into it for this session.
    pub(crate) fn is_of(&self, session: &SessionId) -> bool {
        let head = file::parse(self.bytes()).ok().flatten();
        head.is_some_and(|(head, _)| head.session == *session)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes one that is spent, or whose event is stored. If that fails, it will be found spent again.
    pub(crate) fn remove(&self, disk: &dyn Disk) {
        let _ignored = disk.remove(&self.path);
    }
}

/// Moves a stray journal to a name that nobody reads, and says which. A file that is there is never replaced.
pub(crate) fn move_aside(
    disk: &dyn Disk,
    dir: &Path,
    stray: StrayJournal,
) -> Result<StrayJournal, StoreError> {
    let failed = |error| StoreError::io("move aside", &stray.path)(error);
    let names = (1_u64..).map(|number| dir.join(format!("{NAME}.stray-{number}")));
    for path in names {
        match disk.link(&stray.path, &path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            linked => linked.map_err(failed)?,
        }
        disk.remove(&stray.path).map_err(failed)?;
        sync_dir(disk, dir)?;
        return Ok(StrayJournal { path, ..stray });
    }
    unreachable!("BUG: the numbers do not end")
}

/// Whether the attempt came to its end in the log: its step is not open any more, or an event behind its beginning
/// settles an attempt of that step.
fn is_over(log: &EventLog, at: StepRef, begun: LogOffset) -> bool {
    let settles = |event: &Arc<Event>| {
        let kinds = [EventKind::AssistantMessage, EventKind::AssistantAttempt];
        kinds.contains(event.kind()) && event.step() == Some(at)
    };
    log.open_tail().step() != Some(at) || log.events_from(begun).any(settles)
}

/// Whether the log had this digest once. The digest of a prefix is that of no other bytes, so it need not be counted how
/// many events stand there.
fn has_prefix(beside: Beside<'_>, digest: RunningDigest) -> bool {
    let Beside {
        container, bytes, ..
    } = beside;
    let mut pieces = pieces(container, bytes);
    let _header = pieces.next();
    let mut running = RunningDigest::START;
    running == digest
        || pieces.any(|piece| {
            running.push(piece);
            running == digest
        })
}

/// The whole frames, or lines, that a log begins with.
fn pieces(container: Container, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = match container {
            Container::Raw => rest.iter().position(|byte| *byte == b'\n')? + 1,
            Container::Zstd => match scan_frame(rest) {
                Ok(FrameScan::Complete(length)) => length,
                _ => return None,
            },
        };
        let (piece, behind) = rest.split_at(length);
        rest = behind;
        Some(piece)
    })
}
