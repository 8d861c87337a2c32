//! What a store can do, apart from how it does it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use offshoot_format::StoredSession;
use offshoot_session::{Event, ForkSeed, LogOffset, Seq, Session, SessionHeader, SessionId};

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

    /// What is there, by header only: no body is read. One bad file never hides another, and what cannot be looked into
    /// is listed as a problem of its own.
    ///
    /// # Errors
    /// The root itself cannot be read. A root that does not exist is an empty one.
    fn list(&self) -> Result<Vec<Listed>, StoreError>;
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
    /// Events that close the turn which was open.
    pub closers: Vec<Arc<Event>>,
}

/// One session in a list.
#[derive(Debug)]
pub struct Listed {
    /// The id: of the header, or what the directory's name says where the header cannot be read.
    pub id: SessionId,
    /// The file, or the directory that cannot be looked into.
    pub path: PathBuf,
    /// When it last changed, in ms since the epoch.
    pub modified: i64,
    /// The header, or why there is none to show.
    pub header: Result<SessionHeader, StoreError>,
}
