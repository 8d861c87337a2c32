//! Sessions that last as long as the process: for tests, and for programs that embed the agent and keep nothing.
//!
//! A session is kept as the bytes of a raw V4 file, so that reading one goes through the validator that every file goes
//! through. What a store of files refuses, this one refuses with the same error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_format::{Container, StoredSession, decode_as};
use offshoot_session::{Event, ForkSeed, LogOffset, SessionHeader, SessionId};

use crate::layout::session_dir;
use crate::listing::{Listed, Page, Query};
use crate::lock::{Claim, Claims};
use crate::opening::{check_continuable, check_time};
use crate::persistence::{OpenSession, Persistence, ReadSession, Repair, SessionWriter};
use crate::writer::{check_follows, check_seed};
use crate::{Prefix, StoreError};

/// What stands for the root in paths and errors.
const ROOT: &str = "memory:";

/// A store in memory. Clones are the same store; it is gone with the last of them.
///
/// ```
/// use offshoot_session::SessionHeader;
/// use offshoot_store::{MemoryStore, Persistence};
///
/// let store = MemoryStore::default();
/// let mut writer = store.create(&SessionHeader::new("demo".into(), 1_000))?;
/// writer.flush()?;
/// assert_eq!(store.read(&"demo".into())?.stored.header.id, "demo".into());
/// assert!(store.bytes(&"demo".into()).is_some_and(|bytes| bytes.ends_with(b"\n")));
/// # Ok::<(), offshoot_store::StoreError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    sessions: Sessions,
    /// What was deleted, the last of each id at the end.
    trash: Arc<Mutex<Vec<Kept>>>,
    /// The ids that have a writer, whether or not anything of them is kept.
    claims: Claims,
}

#[derive(Clone, Debug, Default)]
struct Sessions(Arc<Mutex<BTreeMap<SessionId, Kept>>>);

/// A session: its file, if it had one.
#[derive(Clone, Debug)]
struct Kept {
    path: PathBuf,
    header: SessionHeader,
    bytes: Vec<u8>,
    /// The time of the last event, for there is no clock here; in ms since the epoch.
    modified: i64,
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Kept>> {
        // Every change is one insertion or one extension: the map is whole between any two operations.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_free(&self, id: &SessionId) -> Result<(), StoreError> {
        match self.lock().get(id) {
            None => Ok(()),
            Some(kept) => Err(taken(id, &kept.path)),
        }
    }
}

impl Kept {
    fn decode(&self) -> Result<StoredSession, StoreError> {
        decode_as(Container::Raw, &self.bytes).map_err(|source| StoreError::Format {
            path: self.path.clone(),
            source,
        })
    }

    fn extend(&mut self, events: &[Arc<Event>]) {
        let batch = Container::Raw.batch(events.iter().map(|event| &**event));
        self.bytes.extend(batch);
        if let Some(last) = events.last() {
            self.modified = last.time();
        }
    }
}

impl MemoryStore {
    /// The session as the bytes of a raw V4 file; `None` if nothing is kept of it.
    #[must_use]
    pub fn bytes(&self, id: &SessionId) -> Option<Vec<u8>> {
        self.sessions.lock().get(id).map(|kept| kept.bytes.clone())
    }

    fn trash(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.trash.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self, id: &SessionId) -> Result<Kept, StoreError> {
        let kept = self.sessions.lock().get(id).cloned();
        kept.ok_or_else(|| StoreError::NotFound {
            id: id.clone(),
            root: ROOT.into(),
        })
    }
}

impl Persistence for MemoryStore {
    fn create(&self, header: &SessionHeader) -> Result<Box<dyn SessionWriter>, StoreError> {
        let path = session_dir(Path::new(ROOT), header)?;
        let encoded = Container::Raw.header(header);
        let bytes = encoded.map_err(|source| StoreError::Format {
            path: path.clone(),
            source,
        })?;
        self.sessions.check_free(&header.id)?;
        let claim = self.claims.take(&header.id);
        let claim = claim.ok_or_else(|| taken(&header.id, &path))?;
        Ok(Box::new(MemoryWriter {
            sessions: self.sessions.clone(),
            id: header.id.clone(),
            stored: LogOffset::START,
            unwritten: Some(Kept {
                path,
                header: header.clone(),
                bytes,
                modified: i64::try_from(header.created_at).unwrap_or(i64::MAX),
            }),
            _claim: claim,
        }))
    }

    fn fork(
        &self,
        header: &SessionHeader,
        seed: &ForkSeed,
        _: &Prefix,
    ) -> Result<Box<dyn SessionWriter>, StoreError> {
        let mut writer = self.create(header)?;
        let events: Vec<_> = seed.log().events().cloned().collect();
        writer.append(&events)?;
        Ok(writer)
    }

    fn read(&self, id: &SessionId) -> Result<ReadSession, StoreError> {
        let kept = self.kept(id)?;
        Ok(ReadSession {
            stored: kept.decode()?,
            path: kept.path,
            modified: kept.modified,
            shareable: Prefix::default(),
            settled: None,
            stray: None,
        })
    }

    fn open(&self, id: &SessionId, now: i64) -> Result<OpenSession, StoreError> {
        let kept = self.kept(id)?;
        check_continuable(id, &kept.decode()?)?;
        check_time(&kept.path, now)?;
        let claim = self.claims.take(id);
        let claim = claim.ok_or_else(|| owned(id, kept.path))?;
        // Until now somebody else may have been writing.
        let kept = self.kept(id)?;
        let stored = kept.decode()?;
        check_continuable(id, &stored)?;
        let durable = stored.log.end();
        let closers: Vec<_> = stored.closers().into_iter().map(Arc::new).collect();
        let session = stored.balanced(now).map_err(|source| StoreError::Seed {
            path: kept.path,
            source,
        })?;
        let mut writer = MemoryWriter {
            sessions: self.sessions.clone(),
            id: id.clone(),
            stored: durable,
            unwritten: None,
            _claim: claim,
        };
        let missing: Vec<_> = session.log().events_from(durable).cloned().collect();
        writer.append(&missing)?;
        let repair = (!closers.is_empty()).then_some(Repair {
            closers,
            ..Repair::default()
        });
        Ok(OpenSession {
            session,
            writer: Box::new(writer),
            repair,
        })
    }

    fn delete(&self, id: &SessionId, _: i64) -> Result<(), StoreError> {
        let kept = self.kept(id)?;
        let claim = self.claims.take(id);
        let _claim = claim.ok_or_else(|| owned(id, kept.path))?;
        let taken_out = self.sessions.lock().remove(id);
        self.trash().extend(taken_out);
        Ok(())
    }

    fn restore(&self, id: &SessionId) -> Result<(), StoreError> {
        let mut trash = self.trash();
        let last = trash.iter().rposition(|kept| kept.header.id == *id);
        let last = last.ok_or_else(|| StoreError::NotInTrash {
            what: format!("session `{id}`"),
            trash: ROOT.into(),
        })?;
        let claim = self.claims.take(id);
        let _claim = claim.ok_or_else(|| taken(id, &trash[last].path))?;
        self.sessions.check_free(id)?;
        self.sessions.lock().insert(id.clone(), trash.remove(last));
        Ok(())
    }

    fn list(&self, query: &Query) -> Result<Page, StoreError> {
        let rows = self.sessions.lock().values().map(listed).collect();
        Page::of(rows, query)
    }
}

#[derive(Debug)]
struct MemoryWriter {
    sessions: Sessions,
    id: SessionId,
    stored: LogOffset,
    /// The session before its first batch.
    unwritten: Option<Kept>,
    _claim: Claim,
}

impl SessionWriter for MemoryWriter {
    fn append(&mut self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        check_follows(&self.id, self.stored, events)?;
        let mut sessions = self.sessions.lock();
        match &self.unwritten {
            Some(unwritten) => {
                check_seed(&unwritten.header, events).map_err(|source| StoreError::Seed {
                    path: unwritten.path.clone(),
                    source,
                })?;
                // Whoever had the claim before may have stored one since this id was found free.
                if let Some(kept) = sessions.get(&self.id) {
                    return Err(taken(&self.id, &kept.path));
                }
                let mut kept = unwritten.clone();
                kept.extend(events);
                sessions.insert(self.id.clone(), kept);
            }
            None => {
                let kept = sessions.get_mut(&self.id);
                kept.expect("BUG: a session with a writer stays")
                    .extend(events);
            }
        }
        drop(sessions);
        self.unwritten = None;
        self.stored = LogOffset::new(self.stored.get() + events.len() as u64);
        Ok(())
    }

    fn stored(&self) -> LogOffset {
        self.stored
    }
}

fn owned(id: &SessionId, lock: PathBuf) -> StoreError {
    StoreError::AlreadyOwned {
        id: id.clone(),
        lock,
        holder: Some(std::process::id()),
    }
}

fn taken(id: &SessionId, path: &Path) -> StoreError {
    StoreError::AlreadyExists {
        id: id.clone(),
        path: path.to_owned(),
    }
}

fn listed(kept: &Kept) -> Listed {
    let (id, header) = (kept.header.id.clone(), Ok(kept.header.clone()));
    Listed {
        size: kept.bytes.len() as u64,
        ..Listed::new(id, kept.path.clone(), kept.modified, header)
    }
}
