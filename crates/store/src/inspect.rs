//! Looking at sessions again and again, as hosts do: a cold one is decoded once for each state of its file, a live one is
//! never taken for cold.
//!
//! # The order of checks
//! 1. Is the session live in this process? Then that is the answer, and no file is touched.
//! 2. Which state has the file? If that state is kept, it is the answer so far; else the file is read and validated.
//! 3. Is the session live *now*? Then that is the answer after all: it may have gone on since the file was looked at.
//!
//! So a cold answer was true at a moment during the call at which the session was not live. For this to hold, a session must
//! be called live before anything is appended to it, and for as long as its file lags behind.
//!
//! # What is kept
//! The last inspections, by the [`Revision`] of their file and of a repair note and a journal beside it. Equal revisions mean equal bytes
//! only as far as the file system's clock tells two changes apart. A file that has changed less than [`crate::SETTLED_AFTER`] before
//! it was read may change again without looking different. So it is read again, its bytes are compared by their digest,
//! and only the validation is saved, until it was once found unchanged after that time.
//!
//! What a file of an older version means also depends on the files of the session's children, so that is not kept at all.
//! A session that goes on has a current file from then on.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_format::{CURRENT_VERSION, RunningDigest};
use offshoot_session::{EventLog, LogOffset, SessionHeader, SessionId};

use crate::journal;
use crate::layout::UNDER_WAY;
use crate::persistence::ReadSession;
use crate::read::bytes_of;
use crate::tree::Found;
use crate::{JsonlStore, Revision, StoreError};

/// Which sessions are live in this process.
pub trait LiveSessions {
    /// The session as it is at this moment, if it is live.
    fn live(&self, id: &SessionId) -> Option<LiveView>;
}

impl<F: Fn(&SessionId) -> Option<LiveView>> LiveSessions for F {
    fn live(&self, id: &SessionId) -> Option<LiveView> {
        self(id)
    }
}

/// A live session at one moment.
#[derive(Clone, Debug)]
pub struct LiveView {
    /// Its header.
    pub header: SessionHeader,
    /// Its log.
    pub log: EventLog,
    /// How many events were inherited.
    pub inherited: LogOffset,
}

/// A session at one moment; it does not change any more.
#[derive(Clone, Debug)]
pub enum Inspection {
    /// It was live.
    Live(Box<LiveView>),
    /// It was not; this is what its file holds.
    Cold(Arc<ReadSession>),
}

impl Inspection {
    /// The header.
    #[must_use]
    pub fn header(&self) -> &SessionHeader {
        match self {
            Self::Live(view) => &view.header,
            Self::Cold(read) => &read.stored.header,
        }
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &EventLog {
        match self {
            Self::Live(view) => &view.log,
            Self::Cold(read) => &read.stored.log,
        }
    }

    /// How many events were inherited.
    #[must_use]
    pub fn inherited(&self) -> LogOffset {
        match self {
            Self::Live(view) => view.inherited,
            Self::Cold(read) => read.stored.inherited,
        }
    }
}

/// How much an [`Inspector`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InspectorLimits {
    /// How many sessions.
    pub sessions: usize,
    /// How large their files may be together, in bytes. A file that is larger by itself is not kept. An inspection takes more
    /// memory than its file has bytes; that of a compressed file takes many times as much.
    pub bytes: u64,
}

/// What an [`Inspector`] has done so far, and what it keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InspectorWork {
    /// How many files were read.
    pub reads: u64,
    /// How many of them were validated.
    pub decodes: u64,
    /// How many sessions are kept.
    pub kept: usize,
    /// How large their files are together, in bytes.
    pub kept_bytes: u64,
}

/// Inspects sessions of one store and keeps the last ones. Shared by as many threads as there are: of several that want the
/// same session one reads it, and the others wait for that.
pub struct Inspector {
    store: JsonlStore,
    limits: InspectorLimits,
    shelf: Mutex<Shelf>,
    reads: AtomicU64,
    decodes: AtomicU64,
}

/// What is kept, or being read, by session.
#[derive(Default)]
struct Shelf {
    slots: HashMap<SessionId, Shelved>,
    /// Counts up with every use.
    clock: u64,
}

struct Shelved {
    slot: Arc<Mutex<Option<Kept>>>,
    /// When it was used last.
    used: u64,
    /// The size of the file; `None` while nothing is kept.
    bytes: Option<u64>,
}

/// A validated state of a file.
#[derive(Clone)]
struct Kept {
    state: State,
    digest: RunningDigest,
    /// Whether the state alone tells that the bytes are the same.
    is_settled: bool,
    session: Arc<ReadSession>,
}

/// By what a state of a file is recognised.
#[derive(Clone, Copy)]
struct State {
    file: Revision,
    /// What shows in what is read before it shows in the log: a repair that is under way, an answer that is coming in. And
    /// the directory: a base of a branch may have become another file that begins alike.
    beside: [Option<Revision>; 3],
}

impl State {
    fn of(found: &Found) -> Result<Self, StoreError> {
        let path = &found.place.path;
        // These first: one that appears in between is older than the state of the log that is seen.
        let [repair, journal] = UNDER_WAY;
        let beside = [repair, journal, "."].map(|name| {
            let meta = fs::metadata(found.place.dir.join(name)).ok()?;
            Some(Revision::of(&meta))
        });
        let file = fs::metadata(path).map_err(StoreError::io("read", path))?;
        Ok(Self {
            file: Revision::of(&file),
            beside,
        })
    }

    /// Whether it would have shown if there had been another change since it was looked at.
    fn is_settled(&self, now: i64) -> bool {
        let beside = self.beside.iter().flatten();
        beside
            .chain([&self.file])
            .all(|revision| revision.is_settled(now))
    }

    fn is_same(&self, other: &Self) -> bool {
        self.file.has_same_content(&other.file) && self.beside == other.beside
    }
}

impl Inspector {
    /// An inspector that keeps nothing yet.
    #[must_use]
    pub fn new(store: JsonlStore, limits: InspectorLimits) -> Self {
        Self {
            store,
            limits,
            shelf: Mutex::default(),
            reads: AtomicU64::new(0),
            decodes: AtomicU64::new(0),
        }
    }

    /// The session at this moment. `now` is in ms since the epoch, from a clock that agrees with that of the file system
    /// to well under [`crate::SETTLED_AFTER`].
    ///
    /// # Errors
    /// As [`crate::Persistence::read`]. What is wrong with a file is not kept: it is found again by everybody who asks.
    pub fn inspect(
        &self,
        id: &SessionId,
        live: &dyn LiveSessions,
        now: i64,
    ) -> Result<Inspection, StoreError> {
        if let Some(view) = live.live(id) {
            return Ok(Inspection::Live(Box::new(view)));
        }
        let cold = self.cold(id, now);
        // Also where the file could not be read: a session that was created just now may have none yet.
        if let Some(view) = live.live(id) {
            return Ok(Inspection::Live(Box::new(view)));
        }
        cold.map(Inspection::Cold)
    }

    /// What was done, and what is kept.
    #[must_use]
    pub fn work(&self) -> InspectorWork {
        let shelf = self.shelf();
        InspectorWork {
            reads: self.reads.load(Ordering::Relaxed),
            decodes: self.decodes.load(Ordering::Relaxed),
            kept: shelf.kept().count(),
            kept_bytes: shelf.kept().map(|(_, _, bytes)| bytes).sum(),
        }
    }

    fn cold(&self, id: &SessionId, now: i64) -> Result<Arc<ReadSession>, StoreError> {
        let slot = self.shelf().take(id);
        let mut kept = lock(&slot);
        let read = self.current(id, kept.take(), now);
        let outcome = read.map(|found| {
            let session = Arc::clone(&found.session);
            let size = found.state.file.size();
            let may_keep = found.session.stored.version == CURRENT_VERSION
                && size <= self.limits.bytes
                && self.limits.sessions > 0;
            *kept = may_keep.then_some(found);
            (session, may_keep.then_some(size))
        });
        let bytes = outcome.as_ref().ok().and_then(|(_, bytes)| *bytes);
        // Under the lock of the slot, so that nobody else has put something else into it meanwhile.
        self.shelf().put(id, &slot, bytes, self.limits);
        outcome.map(|(session, _)| session)
    }

    /// What the file holds now: what was kept, if that is still it.
    fn current(&self, id: &SessionId, kept: Option<Kept>, now: i64) -> Result<Kept, StoreError> {
        let found = self.store.tree().find(id)?;
        let state = State::of(&found)?;
        let kept =
            kept.filter(|kept| kept.state.is_same(&state) && kept.session.path == found.place.path);
        let kept = match kept {
            Some(kept) if kept.is_settled => return Ok(kept),
            kept => kept,
        };
        let journal = journal::Found::in_dir(&found.place.dir);
        let (bytes, meta) = bytes_of(&found)?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        let mut digest = digest_of(bytes.bytes());
        if let Some(journal) = &journal {
            digest.push(journal.bytes());
        }
        // A change while it was read shows in the state, or will have come too late for this moment.
        let is_settled = state.is_settled(now);
        if let Some(kept) = kept.filter(|kept| kept.digest == digest) {
            return Ok(Kept { is_settled, ..kept });
        }
        self.decodes.fetch_add(1, Ordering::Relaxed);
        let session = self
            .store
            .session_of(id, found, journal.as_ref(), &bytes, &meta)?;
        Ok(Kept {
            state,
            digest,
            is_settled,
            session: Arc::new(session),
        })
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        lock(&self.shelf)
    }
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspector")
            .field("root", &self.store.root())
            .field("limits", &self.limits)
            .field("work", &self.work())
            .finish()
    }
}

impl Shelf {
    /// The place of a session, made if there is none.
    fn take(&mut self, id: &SessionId) -> Arc<Mutex<Option<Kept>>> {
        self.clock += 1;
        let used = self.clock;
        let shelved = self.slots.entry(id.clone()).or_insert_with(|| Shelved {
            slot: Arc::default(),
            used,
            bytes: None,
        });
        shelved.used = used;
        Arc::clone(&shelved.slot)
    }

    /// Notes what a place holds now, and clears those that were not used for the longest time.
    fn put(
        &mut self,
        id: &SessionId,
        slot: &Arc<Mutex<Option<Kept>>>,
        bytes: Option<u64>,
        limits: InspectorLimits,
    ) {
        // It may have been cleared while it was read.
        let Some(shelved) = self
            .slots
            .get_mut(id)
            .filter(|held| Arc::ptr_eq(&held.slot, slot))
        else {
            return;
        };
        shelved.bytes = bytes;
        if bytes.is_none() {
            self.slots.remove(id);
        }
        while self.is_beyond(limits) {
            let oldest = self.kept().min_by_key(|(_, used, _)| *used);
            let Some(id) = oldest.map(|(id, ..)| id.clone()) else {
                return;
            };
            self.slots.remove(&id);
        }
    }

    fn is_beyond(&self, limits: InspectorLimits) -> bool {
        let bytes: u64 = self.kept().map(|(_, _, bytes)| bytes).sum();
        self.kept().count() > limits.sessions || bytes > limits.bytes
    }

    /// The places that hold something: whose, when they were used last, and the size of the file.
    fn kept(&self) -> impl Iterator<Item = (&SessionId, u64, u64)> {
        self.slots
            .iter()
            .filter_map(|(id, shelved)| Some((id, shelved.used, shelved.bytes?)))
    }
}

fn digest_of(bytes: &[u8]) -> RunningDigest {
    let mut digest = RunningDigest::START;
    digest.push(bytes);
    digest
}

/// Whoever panicked with the lock has left an inspection, or none, and both can be used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use offshoot_format::Container;
    use offshoot_session::Event;

    use super::*;
    use crate::Persistence as _;

    fn event(time: u64) -> Arc<Event> {
        let row = format!(r#"{{"type":"turn/start","seq":0,"time":{time},"data":{{"turn":1}}}}"#);
        Arc::new(Event::from_row(row).unwrap())
    }

    /// Where the file system's clock is too coarse to tell them apart, which no test can bring about.
    #[test]
    fn of_two_states_that_look_alike_the_bytes_decide() {
        let home = tempfile::tempdir().unwrap();
        let store = JsonlStore::new(home.path().join("sessions"), Container::Raw);
        let id: SessionId = "demo".into();
        let limits = InspectorLimits {
            sessions: 1,
            bytes: 1 << 20,
        };
        let inspector = Inspector::new(store.clone(), limits);
        let write = |time| {
            let header = SessionHeader::new(id.clone(), 1);
            let mut writer = store.create(&header).unwrap();
            writer.append(&[event(time)]).unwrap();
            store.locate(&id).unwrap()
        };
        let path = write(1);
        let old = inspector.current(&id, None, 0).unwrap();
        fs::remove_file(path).unwrap();
        write(2);
        let new = inspector.current(&id, None, 0).unwrap();
        let alike = Kept {
            state: new.state,
            ..old
        };
        let found = inspector.current(&id, Some(alike), 0).unwrap();
        let log = &found.session.stored.log;
        let times: Vec<i64> = log
            .events_from(LogOffset::START)
            .map(|event| event.time())
            .collect();
        assert_eq!(times, [2]);
        let again = inspector.current(&id, Some(found.clone()), 0).unwrap();
        assert!(Arc::ptr_eq(&again.session, &found.session));
    }
}
