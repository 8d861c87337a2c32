//! What a store can do, apart from how it does it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use offshoot_format::StoredSession;
use offshoot_session::{Event, ForkSeed, LogOffset, Seq, Session, SessionHeader, SessionId};

use crate::journal::{AttemptStart, StrayJournal};
use crate::listing::{Filled, Listed, Page, Query, Status};
use crate::summary::{Fault, Summary};
use crate::{Prefix, StoreError};

/// A place where sessions are kept. Everything is synchronous: async callers move it to a thread of their own.
pub trait Persistence: Send + Sync + fmt::Debug {
    /// Makes room for a new session. Nothing is written before its first event, or an explicit flush; then the header and
    /// the first batch appear together.
    ///
    /// # Errors
    /// A taken id, or one that cannot name a session here.
    fn create(&self, header: &SessionHeader) -> Result<Box<dyn SessionWriter>, StoreError>;

    /// Stores a fork: its header, prefix, marker and closers appear together, durably. `shareable` says what of the prefix
    /// is stored already, by [`ReadSession::shareable`] of the source that the seed was made from, or, for who has it open,
    /// by [`SessionWriter::shareable`]; an empty one is always right, and costs a copy.
    ///
    /// # Errors
    /// As [`Persistence::create`] and [`SessionWriter::append`]; then there is no child.
    fn fork(
        &self,
        header: &SessionHeader,
        seed: &ForkSeed,
        shareable: &Prefix,
    ) -> Result<Box<dyn SessionWriter>, StoreError>;

    /// Whether somebody has a session open for writing at this moment, as far as that can be seen without a lock.
    fn is_being_written(&self, id: &SessionId) -> bool {
        let _nobody_can_tell = id;
        false
    }

    /// Stores a fork of a stored session, if that can be done without reading the session whole; `None` if not, or if there
    /// is something about it that whoever forks it should know. Without `at` the cut is the last completed turn.
    ///
    /// # Errors
    /// As [`Persistence::fork`].
    fn fork_unread(
        &self,
        source: &SessionId,
        at: Option<Seq>,
        child: &SessionId,
        created_at: u64,
    ) -> Result<Option<StoredFork>, StoreError> {
        let _ = (source, at, child, created_at);
        Ok(None)
    }

    /// Reads a session as it is stored. Takes no lock and writes nothing, also while another process is writing.
    ///
    /// # Errors
    /// No such session, or bytes that are not one.
    fn read(&self, id: &SessionId) -> Result<ReadSession, StoreError>;

    /// Opens a session to go on with it: takes the lock, and repairs in one durable batch what a crash has left (torn
    /// tail, closers, resume marker). `now` is in ms since the epoch.
    ///
    /// # Errors
    /// As [`Persistence::read`]; another writer; a session that no provider would accept going on. Nothing is written then.
    fn open(&self, id: &SessionId, now: i64) -> Result<OpenSession, StoreError>;

    /// What is there, by headers and what is remembered of the bodies: none is read. One bad file never hides another, and
    /// what cannot be looked into is listed as a problem of its own.
    ///
    /// # Errors
    /// The root itself cannot be read; a cursor that is none. A root that does not exist is an empty one.
    fn list(&self, query: &Query) -> Result<Page, StoreError>;

    /// Takes a session away, so that it can be brought back. What was forked from it, or delegated by it, stays and keeps
    /// working. `now` is in ms since the epoch.
    ///
    /// # Errors
    /// No such session; a writer, wherever it is. The session is untouched then.
    fn delete(&self, id: &SessionId, now: i64) -> Result<(), StoreError>;

    /// Brings back the session of this id that was deleted last, as it was.
    ///
    /// # Errors
    /// No such deleted session; an id that is taken again. Nothing is changed then.
    fn restore(&self, id: &SessionId) -> Result<(), StoreError>;

    /// Reads the bodies that are not known yet, of the last changed session first, and remembers what they say. Goes on
    /// until `budget` bytes of files have been read: the last one may be beyond that, so the first is always read.
    fn fill(&self, rows: &mut [Listed], budget: u64) {
        fill_with(rows, budget, |row| {
            let read = self.read(&row.id);
            let body = read.map(|read| Summary::of(&read.stored));
            (body.map_err(|error| Fault::of(&error)), row.size)
        });
    }

    /// A page with its bodies read, as far as the budget goes (see [`Persistence::fill`]). A filter that only bodies can
    /// answer is applied after all sessions that it may fit were read.
    ///
    /// # Errors
    /// As [`Persistence::list`].
    fn list_filled(&self, query: &Query, budget: u64) -> Result<Filled, StoreError> {
        let unknown = |rows: &[Listed]| {
            let unknown = rows.iter().filter(|row| row.status() == Status::Unknown);
            unknown.count()
        };
        if !query.needs_bodies() {
            let mut page = self.list(query)?;
            self.fill(&mut page.rows, budget);
            let unread = unknown(&page.rows);
            return Ok(Filled { page, unread });
        }
        let mut rows = self.list(&query.of_headers())?.rows;
        self.fill(&mut rows, budget);
        let unread = unknown(&rows);
        let page = Page::of(rows, query)?;
        Ok(Filled { page, unread })
    }

    /// Takes note of what a session that is open for writing says now, so that the next list need not read it. To be called
    /// while its writer is there and everything is stored; a backend that remembers nothing does nothing.
    fn note_summary(&self, id: &SessionId, summary: &Summary) {
        let _nothing_to_remember = (id, summary);
    }

    /// Takes note of everything that is worth knowing of a session which is open for writing, so that the next list or fork
    /// need not read it. To be called while its writer is there and everything is stored; `shareable` is the writer's.
    fn note(&self, session: &Session, shareable: &Prefix) {
        let _for_the_checkpoints_of_files = shareable;
        self.note_summary(&session.header().id, &Summary::of_session(session));
    }
}

/// Goes over the rows whose body is not known, the last changed one first, until `budget` bytes were read. `read` gives the
/// body, and how many bytes that took.
pub(crate) fn fill_with(
    rows: &mut [Listed],
    budget: u64,
    mut read: impl FnMut(&Listed) -> (Result<Summary, Fault>, u64),
) {
    let mut unknown: Vec<&mut Listed> = rows
        .iter_mut()
        .filter(|row| row.status() == Status::Unknown)
        .collect();
    unknown.sort_by_key(|row| std::cmp::Reverse(row.activity()));
    let mut spent = 0;
    for row in unknown {
        if spent >= budget {
            return;
        }
        let (body, bytes) = read(row);
        row.body = Some(body);
        spent += bytes;
    }
}

/// The one writer of a session.
pub trait SessionWriter: Send + fmt::Debug {
    /// Stores a batch durably: all of it, or on an error nothing.
    ///
    /// # Errors
    /// A batch that does not follow what is stored; a file system that failed; a writer that is poisoned by a failure
    /// which could not be taken back.
    fn append(&mut self, events: &[Arc<Event>]) -> Result<(), StoreError>;

    /// Makes the session exist even without events.
    ///
    /// # Errors
    /// As [`SessionWriter::append`].
    fn flush(&mut self) -> Result<(), StoreError> {
        self.append(&[])
    }

    /// How many events are durable.
    fn stored(&self) -> LogOffset;

    /// Begins the journal of an attempt, behind the stored events and in place of an earlier one, durably. A store that
    /// keeps no journals has nothing to do here; what a process was streaming is then lost with it.
    ///
    /// # Errors
    /// The file system failed, or the writer is poisoned. The log is untouched.
    fn begin_attempt(&mut self, _start: &AttemptStart) -> Result<(), StoreError> {
        Ok(())
    }

    /// Adds lines to the journal, durably. Each is a JSON text on one line.
    ///
    /// # Errors
    /// No attempt was begun, or the file system failed: then the journal takes no more of this attempt. The log is
    /// untouched.
    fn journal(&mut self, _lines: &[Arc<str>]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Takes the journal away: a stored event has settled its attempt.
    fn end_attempt(&mut self) {}

    /// What a fork of the session can share of what is durable now.
    fn shareable(&self) -> Prefix {
        Prefix::default()
    }
}

/// A session as it is stored, and where.
#[derive(Debug)]
pub struct ReadSession {
    /// The session.
    pub stored: StoredSession,
    /// Its file.
    pub path: PathBuf,
    /// When the file last changed, in ms since the epoch.
    pub modified: i64,
    /// The last event of the log, if it stands in no file yet: it settles the answer that was streaming when the process
    /// ended, or that is streaming now. Opening the session stores it.
    pub settled: Option<Seq>,
    /// The stream of an answer that lies beside the log and does not belong to it.
    pub stray: Option<StrayJournal>,
    /// What a fork of it can share.
    pub shareable: Prefix,
}

/// A fork that was stored without reading its source whole.
#[derive(Clone, Debug)]
pub struct StoredFork {
    /// The fork's header.
    pub header: SessionHeader,
    /// The last inherited event.
    pub cut: Seq,
    /// The fork's first own events: the marker, and what closes an open turn.
    pub closers: Vec<Arc<Event>>,
}

/// A session that is open for writing.
#[derive(Debug)]
pub struct OpenSession {
    /// The session, complete with what repair added. All of it is durable.
    pub session: Session,
    /// Its writer.
    pub writer: Box<dyn SessionWriter>,
    /// What had to be repaired, if anything had.
    pub repair: Option<Repair>,
}

/// What opening a session had to repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// Bytes of a record that was being written when the process ended, taken out; of a log that was brought up from an
    /// older version, left behind in the old file.
    pub torn_bytes: u64,
    /// Whole events saved from among them.
    pub recovered: u64,
    /// The event that settles the answer which was streaming.
    pub settled: Option<Seq>,
    /// Events that close the turn which was open.
    pub closers: Vec<Arc<Event>>,
    /// The stream of an answer that does not belong to the log. It was moved aside.
    pub stray: Option<StrayJournal>,
}
