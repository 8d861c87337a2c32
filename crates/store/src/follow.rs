//! Following a session that somebody else writes: every event once, in order, as soon as it is whole.
//!
//! A [`Follower`] takes no lock and writes nothing. Each [`Follower::poll`] looks at the file; if nothing has changed, that is
//! all it costs (one look at the file, and one at its directory, where a newer generation would appear). Else it reads what
//! stands behind the last whole frame or line that it knows, and the few bytes ahead of that by which it recognises that
//! the rest of the file is still the one that it has read: [`WITNESS`].
//!
//! # What is handed out
//! Events of whole lines, of whole frames. They pass the same reader, admission and relationships as in
//! [`crate::Persistence::read`]; the log that this takes is kept, as by any reader. Two things differ from a read: whole
//! rows in a frame that was cut off are not shown before the frame is whole or a repair has written them again, and what a
//! repair has only announced in its note is not waited for.
//!
//! # What can happen to a file
//! A batch whose sync has failed is taken back; a follower may have read it by then. Only the last batch can be, so if the
//! last bytes that were read are still in their place, all of them are. If they are not, the whole log is read again and
//! compared: what is unchanged is not handed out a second time, and events that were handed out and are no more are told
//! of as [`Notice::TakenBack`]. The same is done with everything that cannot be judged piece by piece: files of older
//! versions, lines that may be damage, another file under the same name.
//!
//! Two changes within one tick of the file system's clock that leave the size as it was are noticed with the next change.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use offshoot_format::{CURRENT_VERSION, GrowingLog, Rest};
use offshoot_session::{Body, Event, EventLog, LogOffset, Seq, SessionHeader, SessionId};

use crate::logbytes::OwnPart;
use crate::read::{bytes_of, grow, range};
use crate::tree::Found;
use crate::{JsonlStore, Revision, StoreError};

/// By how many of the last bytes that were read a file is recognised, at most.
pub const WITNESS: usize = 4 << 10;

/// How often something is looked at again that changes while it is looked at.
const ATTEMPTS: usize = 3;

/// How a turn ends that a crash has left open.
const INTERRUPTED: &str = "interrupted";

/// What has happened to a followed session, apart from new events.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// No session of this id is here: not yet, or it was deleted or moved to the trash.
    Absent,
    /// It is here after all, or again.
    Appeared {
        /// Its file.
        path: PathBuf,
    },
    /// Another file is the session from now on: one of a newer version, or one that was put in the place of the old one.
    Replaced {
        /// That file.
        path: PathBuf,
    },
    /// An unfinished end that was there before is gone: an append failed and was taken back, or a repair has cut it.
    CutBack {
        /// How long it was when last seen, in bytes.
        bytes: u64,
    },
    /// Events that were handed out are no longer part of the log. What has their seqs now, if anything, is handed out anew.
    TakenBack {
        /// The first of them.
        from: Seq,
        /// How many.
        count: u64,
    },
    /// Somebody has opened the session after a crash and closed its open turn.
    Repaired {
        /// The marker `session/end-seed` of the repair.
        marker: Seq,
    },
}

/// What a poll came to. The notices come ahead of the events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// What has happened to the file.
    pub notices: Vec<Notice>,
    /// The new events, in order.
    pub events: Vec<Arc<Event>>,
}

impl News {
    /// Whether nothing has happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.notices.is_empty() && self.events.is_empty()
    }
}

/// A reader of one session that others write; see `JsonlStore::follow`.
#[derive(Debug)]
pub struct Follower {
    store: JsonlStore,
    id: SessionId,
    /// Where the caller wanted to begin.
    from: LogOffset,
    /// The first event that was not handed out.
    next: LogOffset,
    /// The session when it was last seen whole.
    known: Option<Known>,
    place: Option<Found>,
    seen: Option<Seen>,
    /// How to go on without reading everything again, where that can be done.
    cursor: Option<Cursor>,
    unfinished: Option<Unfinished>,
    absent: bool,
    /// What there is to tell with the next news.
    notices: Vec<Notice>,
    bytes_read: u64,
}

#[derive(Clone, Debug)]
struct Known {
    version: u64,
    header: SessionHeader,
    inherited: LogOffset,
    log: EventLog,
}

impl Known {
    fn of(log: &GrowingLog) -> Self {
        Self {
            version: CURRENT_VERSION,
            header: log.header().clone(),
            inherited: log.inherited(),
            log: log.log().clone(),
        }
    }

    fn end(&self) -> LogOffset {
        self.log.end()
    }

    /// How many events both begin with.
    fn in_common_with(&self, other: &Self) -> LogOffset {
        let pairs = self.log.events().zip(other.log.events());
        let same = pairs.take_while(|(one, other)| one == other).count();
        LogOffset::new(same as u64)
    }
}

/// By what a change is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    file: Revision,
    dir: Revision,
}

impl Seen {
    fn of(found: &Found) -> Option<Self> {
        let revision = |path| fs::metadata(path).ok().map(|meta| Revision::of(&meta));
        // The directory first: a name that appears in between is noticed the next time.
        let dir = revision(&found.place.dir)?;
        let file = revision(&found.place.path)?;
        Some(Self { file, dir })
    }
}

/// A place in a session's own file behind which everything is new.
#[derive(Debug)]
struct Cursor {
    log: GrowingLog,
    own: OwnPart,
    /// The bytes of the own file right ahead of the place.
    witness: Vec<u8>,
}

impl Cursor {
    /// At the end of what `log` has taken of `bytes`, which are the whole of it.
    fn new(log: GrowingLog, own: OwnPart, bytes: &[u8]) -> Self {
        let part = own.in_log.min(log.offset())..log.offset();
        let mut cursor = Self {
            log,
            own,
            witness: Vec::new(),
        };
        cursor.remember(&bytes[index(part.start)..index(part.end)]);
        cursor
    }

    /// The place, in the session's own file.
    const fn own_offset(&self) -> u64 {
        self.own.own_offset(self.log.offset())
    }

    /// Remembers the end of what was read of the own file up to the place.
    fn remember(&mut self, read: &[u8]) {
        self.witness = read[read.len().saturating_sub(WITNESS)..].to_vec();
    }
}

/// What stood behind the last whole piece.
#[derive(Debug)]
struct Unfinished {
    /// Where, in the log's bytes.
    at: u64,
    length: u64,
    head: Vec<u8>,
}

impl Unfinished {
    /// `None` if there is nothing.
    fn new(at: u64, rest: &[u8]) -> Option<Self> {
        (!rest.is_empty()).then(|| Self {
            at,
            length: rest.len() as u64,
            head: rest[..rest.len().min(WITNESS)].to_vec(),
        })
    }

    /// Whether it is still there, or what has become of it.
    fn is_beginning_of(&self, rest: &[u8]) -> bool {
        rest.len() as u64 >= self.length && rest.starts_with(&self.head)
    }
}

impl JsonlStore {
    /// Follows a session from an event on: [`LogOffset::START`] for all of them. Nothing is looked at before the first
    /// poll; the session need not be there yet, nor the event.
    #[must_use]
    pub fn follow(&self, id: &SessionId, from: LogOffset) -> Follower {
        Follower {
            store: self.clone(),
            id: id.clone(),
            from,
            next: from,
            known: None,
            place: None,
            seen: None,
            cursor: None,
            unfinished: None,
            absent: false,
            notices: Vec::new(),
            bytes_read: 0,
        }
    }
}

impl Follower {
    /// What has happened since the last poll: at first, everything that is there.
    ///
    /// # Errors
    /// As [`crate::Persistence::read`], except for a session that is not there. A file that cannot be used is refused once
    /// in each of its states; it may become usable again, and polling goes on from where it was.
    pub fn poll(&mut self) -> Result<News, StoreError> {
        for _ in 0..ATTEMPTS {
            let now = self.place.as_ref().and_then(Seen::of);
            if now.is_some() && now == self.seen {
                return Ok(News::default());
            }
            let same_dir = now.map(|now| now.dir) == self.seen.map(|seen| seen.dir);
            let moved = now.is_none() || !same_dir;
            if moved && self.search()? {
                continue;
            }
            match (now, self.place.clone()) {
                (Some(now), Some(found)) => return self.look(&found, now),
                (_, None) => break,
                (None, Some(_)) => {}
            }
        }
        // Absent, or on the move: then the next poll finds it.
        Ok(self.news(Vec::new()))
    }

    /// The header, once the session was seen.
    #[must_use]
    pub fn header(&self) -> Option<&SessionHeader> {
        self.known.as_ref().map(|known| &known.header)
    }

    /// The log as it was when it was last seen whole, from its first event on.
    #[must_use]
    pub fn log(&self) -> EventLog {
        self.known
            .as_ref()
            .map_or_else(EventLog::new, |known| known.log.clone())
    }

    /// How many events of it were inherited.
    #[must_use]
    pub fn inherited(&self) -> LogOffset {
        self.known
            .as_ref()
            .map_or(LogOffset::START, |known| known.inherited)
    }

    /// The format version of the file, once the session was seen.
    #[must_use]
    pub fn version(&self) -> Option<u64> {
        self.known.as_ref().map(|known| known.version)
    }

    /// The file, while there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.place.as_ref().map(|found| found.place.path.as_path())
    }

    /// How many bytes of logs were read so far: what following costs.
    #[must_use]
    pub const fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Searches for the session. Whether it is elsewhere than before, or nowhere.
    fn search(&mut self) -> Result<bool, StoreError> {
        let found = match self.store.tree().find(&self.id) {
            Ok(found) => Some(found),
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let path = found.as_ref().map(|found| &found.place.path);
        if path.is_some() && path == self.place.as_ref().map(|place| &place.place.path) {
            return Ok(false);
        }
        match path.cloned() {
            None if self.absent => {}
            None => self.notices.push(Notice::Absent),
            Some(path) if self.absent => self.notices.push(Notice::Appeared { path }),
            Some(path) if self.known.is_some() => self.notices.push(Notice::Replaced { path }),
            Some(_) => {}
        }
        self.absent = found.is_none();
        let elsewhere = found.is_some();
        self.place = found;
        (self.seen, self.cursor, self.unfinished) = (None, None, None);
        Ok(elsewhere)
    }

    /// Reads a file that has changed.
    fn look(&mut self, found: &Found, now: Seen) -> Result<News, StoreError> {
        if let Some(seen) = self.seen
            && !seen.file.is_same_file(&now.file)
        {
            (self.cursor, self.unfinished) = (None, None);
            self.notices.push(Notice::Replaced {
                path: found.place.path.clone(),
            });
        }
        if self.seen.is_some_and(|seen| seen.file == now.file) {
            self.seen = Some(now);
            return Ok(self.news(Vec::new()));
        }
        let read = self.read(found, now.file.size());
        // What was changed while it was read may be a mixture of old and new.
        if read.is_err() && Seen::of(found) != Some(now) {
            return Ok(self.news(Vec::new()));
        }
        self.seen = Some(now);
        let (known, unchanged) = read?;
        Ok(self.hand_out(known, unchanged))
    }

    /// The session as it is now, and how many of its events are those that were known.
    fn read(&mut self, found: &Found, size: u64) -> Result<(Known, LogOffset), StoreError> {
        if let Some(mut cursor) = self.cursor.take()
            && self.go_on(&mut cursor, found, size)?
        {
            let known = Known::of(&cursor.log);
            self.cursor = Some(cursor);
            let before = self.known.as_ref().map_or(LogOffset::START, Known::end);
            return Ok((known, before));
        }
        let known = self.read_whole(found)?;
        let before = self.known.as_ref();
        let unchanged = before.map_or(LogOffset::START, |before| before.in_common_with(&known));
        Ok((known, unchanged))
    }

    /// Takes what stands behind the cursor. False if the file has to be read as a whole.
    fn go_on(&mut self, cursor: &mut Cursor, found: &Found, size: u64) -> Result<bool, StoreError> {
        if size < cursor.own_offset() {
            return Ok(false);
        }
        let witness = cursor.witness.len();
        let start = cursor.own_offset() - witness as u64;
        let bytes = self.read_settled(found, start, size)?;
        let Some(fresh) = bytes.strip_prefix(&*cursor.witness) else {
            return Ok(false);
        };
        self.compare_unfinished(fresh);
        let before = cursor.log.offset();
        let grown = cursor.log.go_on(fresh);
        let grown = grown.map_err(|error| StoreError::Format {
            path: found.place.path.clone(),
            source: cursor.own.error_in_own_file(error),
        });
        if grown? == Rest::Doubtful {
            return Ok(false);
        }
        let (read, rest) = bytes.split_at(witness + index(cursor.log.offset() - before));
        cursor.remember(read);
        self.unfinished = Unfinished::new(cursor.log.offset(), rest);
        Ok(true)
    }

    /// The bytes of the session's own file from `start` to `end`. What changes while it is read is read again: it could be
    /// a mixture of old and new.
    fn read_settled(&mut self, found: &Found, start: u64, end: u64) -> Result<Vec<u8>, StoreError> {
        let mut attempt = 1;
        loop {
            let (bytes, before) = range(&found.place.path, start, end)?;
            self.bytes_read += bytes.len() as u64;
            let after = Seen::of(found).map(|seen| seen.file);
            if attempt == ATTEMPTS || after == Some(Revision::of(&before)) {
                return Ok(bytes);
            }
            attempt += 1;
        }
    }

    fn read_whole(&mut self, found: &Found) -> Result<Known, StoreError> {
        let (log_bytes, _) = bytes_of(found)?;
        let bytes = log_bytes.bytes();
        self.bytes_read += bytes.len() as u64;
        let at = self.unfinished.as_ref().map_or(0, |rest| rest.at);
        self.compare_unfinished(bytes.get(index(at)..).unwrap_or_default());
        if let Some((log, rest)) = grow(found, &log_bytes)?
            && rest != Rest::Doubtful
        {
            self.store.check_identity(&self.id, found, log.header())?;
            let known = Known::of(&log);
            self.unfinished = Unfinished::new(log.offset(), &bytes[index(log.offset())..]);
            self.cursor = Some(Cursor::new(log, log_bytes.own_part(), bytes));
            return Ok(known);
        }
        let stored = self.store.admit(&self.id, found, &log_bytes)?;
        let tail = stored.tail.as_ref();
        self.unfinished =
            tail.and_then(|tail| Unfinished::new(tail.keep, &bytes[index(tail.keep)..]));
        Ok(Known {
            version: stored.version,
            header: stored.header,
            inherited: stored.inherited,
            log: stored.log,
        })
    }

    /// Says so if the unfinished end is gone. `rest` is what stands in its place.
    fn compare_unfinished(&mut self, rest: &[u8]) {
        if let Some(unfinished) = self.unfinished.take()
            && !unfinished.is_beginning_of(rest)
        {
            self.notices.push(Notice::CutBack {
                bytes: unfinished.length,
            });
        }
    }

    fn hand_out(&mut self, known: Known, unchanged: LogOffset) -> News {
        let handed = self.known.as_ref().map_or(LogOffset::START, Known::end);
        let kept = unchanged.max(self.from);
        if kept < handed {
            self.notices.push(Notice::TakenBack {
                from: kept.seq(),
                count: handed.get() - kept.get(),
            });
        }
        self.next = self.next.min(kept);
        let events: Vec<_> = known.log.events_from(self.next).cloned().collect();
        self.next = self.next.max(known.end());
        if self.known.is_some() {
            let markers = events.iter().filter(|event| ends_repair(event, &known.log));
            let repairs = markers.map(|event| Notice::Repaired {
                marker: event.seq(),
            });
            self.notices.extend(repairs);
        }
        self.known = Some(known);
        self.news(events)
    }

    fn news(&mut self, events: Vec<Arc<Event>>) -> News {
        News {
            notices: std::mem::take(&mut self.notices),
            events,
        }
    }
}

/// Whether an event is the marker behind the closers of a crash.
fn ends_repair(event: &Event, log: &EventLog) -> bool {
    let before = event.seq().before().last();
    let before = before.and_then(|before| log.get(before));
    matches!(event.body(), Body::EndSeed { inherited: false })
        && before.is_some_and(|before| {
            matches!(before.body(), Body::TurnEnd { reason, .. } if &**reason == INTERRUPTED)
        })
}

/// Offsets of bytes that are in memory.
fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("BUG: the bytes up to there are in memory")
}
