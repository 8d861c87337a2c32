//! Opening a session to go on with it: what is refused, the lock, and what is repaired under it.

use std::path::Path;
use std::sync::Arc;

use offshoot_format::{Status, StoredSession};
use offshoot_session::{MAX_SAFE_INTEGER, SeedError, SessionId};

use crate::disk::sync_way;
use crate::generations::{encode, publish_current, remove_leftovers};
use crate::journal::{self, Journal, Outcome};
use crate::layout::{Generation, LOCK_NAME};
use crate::lock::Lock;
use crate::logbytes::LogBytes;
use crate::persistence::OpenSession;
use crate::read::{bytes_of, check_writable};
use crate::repair::{Repaired, repair};
use crate::tree::{Found, Place};
use crate::writer::{State, Writer};
use crate::{JsonlStore, StoreError, note};

impl JsonlStore {
    /// See [`crate::Persistence::open`].
    pub(crate) fn open_for_writing(
        &self,
        id: &SessionId,
        now: i64,
    ) -> Result<OpenSession, StoreError> {
        // Everything that can be refused is refused before the lock: losing leaves no trace.
        self.is_ours()?;
        let (mut found, (mut bytes, _)) = self.look_up(id, bytes_of)?;
        let Place { dir, path } = &found.place;
        let mut stored = self.admit(id, &found, &bytes)?;
        check_continuable(id, &stored)?;
        check_time(path, now)?;
        check_writable(path)?;
        let lock = Lock::take(&*self.disk, self.locking, &dir.join(LOCK_NAME), id)?;
        // Until now somebody else may have been writing: to this log, or a newer one beside it.
        if self.tree.find(id)?.place.path != *path {
            return Err(StoreError::Changed { path: path.clone() });
        }
        sync_way(&*self.disk, dir, &self.tree.root)?;
        // They are nobody's and in nobody's way; if they cannot be removed now, then another time.
        let _ignored = remove_leftovers(&*self.disk, dir);
        let mut left_out = 0;
        if stored.status() != Status::Current {
            left_out = stored.tail.as_ref().map_or(0, |tail| tail.bytes);
            (found, bytes) = self.upgrade(&found, &stored, &bytes)?;
            stored = self.admit(id, &found, &bytes)?;
        }
        let Place { dir, path } = &found.place;
        let changed = || StoreError::Changed { path: path.clone() };
        let disk = &*self.disk;
        let mut log = disk.open_log(path).map_err(StoreError::io("open", path))?;
        // A process that was killed may have left what it wrote to the system alone: it is there, and nothing says that a
        // power cut would not take it away.
        log.sync().map_err(StoreError::io("make durable", path))?;
        note::resume(disk, dir, &mut *log, path)?;
        let (now_bytes, _) = bytes_of(&found)?;
        if now_bytes != bytes {
            stored = self.admit(id, &found, &now_bytes)?;
            check_continuable(id, &stored)?;
        }
        let size =
            |log: &dyn crate::LogFile| log.size().map_err(StoreError::io("read the size of", path));
        if size(&*log)? != now_bytes.own_size() {
            return Err(changed());
        }
        let journal = journal::Found::in_dir(dir);
        let (mut settled, mut stray) = (None, None);
        match journal
            .as_ref()
            .map(|journal| self.judge(journal, &found, &stored, &now_bytes))
        {
            Some(Outcome::Settled(event)) => settled = Some(event),
            Some(Outcome::Stray(found)) => stray = Some(found),
            Some(Outcome::Spent) | None => {}
        }
        let Repaired {
            session,
            written,
            mut repair,
        } = repair(disk, &found, stored, settled, &now_bytes, &mut *log, now)?;
        match (stray, journal) {
            (None, Some(journal)) => journal.remove(disk),
            // Only now: had the repair failed, it would have to be found, and told of, again.
            (Some(stray), _) => {
                let aside = journal::move_aside(disk, dir, stray)?;
                repair.get_or_insert_default().stray = Some(aside);
            }
            (None, None) => {}
        }
        // What a crash left at the end of an older log stays there: it is not brought up.
        if left_out > 0 {
            repair.get_or_insert_default().torn_bytes += left_out;
        }
        let writer = Writer {
            disk: Arc::clone(&self.disk),
            header: session.header().clone(),
            container: found.generation.container,
            locking: self.locking,
            written,
            journal: Journal::default(),
            state: State::Open {
                size: size(&*log)?,
                log,
                _lock: lock,
            },
            place: found.place.clone(),
        };
        Ok(OpenSession {
            session,
            writer: Box::new(writer),
            repair,
        })
    }

    /// Publishes an older log as a current one, and says where that is. The lock is held.
    fn upgrade(
        &self,
        found: &Found,
        stored: &StoredSession,
        bytes: &LogBytes,
    ) -> Result<(Found, LogBytes), StoreError> {
        let generation = Generation::current(found.generation.container);
        let path = found.place.dir.join(generation.file_name());
        let current = encode(&path, generation.container, stored)?;
        publish_current(
            &*self.disk,
            &found.place.path,
            &bytes.bytes,
            &path,
            &current,
        )?;
        let place = Place {
            dir: found.place.dir.clone(),
            path,
        };
        Ok((Found { place, generation }, LogBytes::whole(current)))
    }
}

pub(crate) fn check_continuable(id: &SessionId, stored: &StoredSession) -> Result<(), StoreError> {
    let refused = |source| StoreError::NotContinuable {
        id: id.clone(),
        source,
    };
    stored.log.continuable().map_err(refused)
}

pub(crate) fn check_time(path: &Path, now: i64) -> Result<(), StoreError> {
    if now.unsigned_abs() > MAX_SAFE_INTEGER {
        return Err(StoreError::Seed {
            path: path.to_owned(),
            source: SeedError::Time(now),
        });
    }
    Ok(())
}
