//! The writer of one log: a batch is durable whole, or it is taken back.

use std::path::Path;
use std::sync::Arc;

use offshoot_format::Container;
use offshoot_session::{Body, Event, LogOffset, SeedError, SessionHeader};

use crate::StoreError;
use crate::disk::{Disk, LogFile, PublishError, create_dirs, parent, publish, sync_dir};
use crate::layout::LOCK_NAME;
use crate::lock::{Claim, Lock};
use crate::persistence::SessionWriter;
use crate::tree::{Place, Tree};

#[derive(Debug)]
pub(crate) enum State {
    /// Nothing is on disk yet.
    Unwritten {
        /// What the file will begin with.
        header: Vec<u8>,
        tree: Tree,
        _claim: Claim,
    },
    /// The log is there, locked, and good up to its end.
    Open {
        log: Box<dyn LogFile>,
        size: u64,
        _lock: Lock,
    },
    /// A failed write could not be taken back: what the file holds is not known. The lock is given up, so that opening
    /// the session anew can repair it.
    Poisoned { append: String, rollback: String },
}

#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) place: Place,
    pub(crate) header: SessionHeader,
    pub(crate) container: Container,
    pub(crate) stored: LogOffset,
    pub(crate) state: State,
}

impl Writer {
    /// Header and first batch appear together: a crash leaves no file or a complete one.
    fn materialize(
        &self,
        mut bytes: Vec<u8>,
        tree: &Tree,
        events: &[Arc<Event>],
    ) -> Result<State, StoreError> {
        let Place { dir, path } = &self.place;
        let disk = &*self.disk;
        check_seed(&self.header, events).map_err(|source| StoreError::Seed {
            path: path.clone(),
            source,
        })?;
        bytes.extend(batch(self.container, events));
        tree.check_free(&self.header.id)?;
        create_dirs(disk, &tree.root)?;
        // The id may have been taken meanwhile, under another name in another place. From here on nobody takes it.
        let _naming = Lock::directory(&tree.root);
        tree.check_free(&self.header.id)?;
        create_dirs(disk, dir)?;
        // Somebody else may have created one of these just now and not have made it durable yet.
        for dir in [parent(dir), &tree.root] {
            sync_dir(disk, dir)?;
        }
        let lock = Lock::take(&dir.join(LOCK_NAME), &self.header.id)?;
        let size = bytes.len() as u64;
        let log = publish(disk, path, &bytes).map_err(|error| match error {
            PublishError::Taken => StoreError::AlreadyExists {
                id: self.header.id.clone(),
                path: path.clone(),
            },
            PublishError::Failed(error) => StoreError::io("create", path)(error),
            PublishError::Unknown { failed, undo } => StoreError::Poisoned {
                path: path.clone(),
                append: failed.to_string(),
                rollback: undo.to_string(),
            },
        })?;
        Ok(State::Open {
            log,
            size,
            _lock: lock,
        })
    }

    fn check_follows(&self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        for (expected, event) in (self.stored.get()..).zip(events) {
            if event.seq().get() != expected {
                return Err(StoreError::AppendMismatch {
                    id: self.header.id.clone(),
                    expected: LogOffset::new(expected),
                    found: event.seq(),
                });
            }
        }
        Ok(())
    }

    fn write(&mut self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        let path = &self.place.path;
        match &mut self.state {
            State::Unwritten { header, tree, .. } => {
                let (header, tree) = (header.clone(), tree.clone());
                self.state = self.materialize(header, &tree, events)?;
                Ok(())
            }
            State::Open { log, size, .. } => {
                let batch = batch(self.container, events);
                append_or_roll_back(&mut **log, path, *size, &batch)?;
                *size += batch.len() as u64;
                Ok(())
            }
            State::Poisoned { append, rollback } => Err(StoreError::Poisoned {
                path: path.clone(),
                append: append.clone(),
                rollback: rollback.clone(),
            }),
        }
    }
}

fn batch(container: Container, events: &[Arc<Event>]) -> Vec<u8> {
    container.batch(events.iter().map(|event| &**event))
}

impl SessionWriter for Writer {
    fn append(&mut self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        self.check_follows(events)?;
        let written = self.write(events);
        if let Err(StoreError::Poisoned {
            append, rollback, ..
        }) = &written
        {
            self.state = State::Poisoned {
                append: append.clone(),
                rollback: rollback.clone(),
            };
        }
        written?;
        self.stored = LogOffset::new(self.stored.get() + events.len() as u64);
        Ok(())
    }

    fn stored(&self) -> LogOffset {
        self.stored
    }
}

/// A file whose header and first batch contradict each other would never be read again.
fn check_seed(header: &SessionHeader, events: &[Arc<Event>]) -> Result<(), SeedError> {
    let marker = events
        .iter()
        .rfind(|event| matches!(event.body(), Body::EndSeed { inherited: true }));
    match (header.is_seeded, marker) {
        (true, None) => Err(SeedError::SeedMissing),
        (false, Some(marker)) => Err(SeedError::UnexpectedInheritance(marker.seq().before())),
        _ => Ok(()),
    }
}

/// Appends behind byte `size`, which is where the log must end, and syncs; or restores that size.
pub(crate) fn append_or_roll_back(
    log: &mut dyn LogFile,
    path: &Path,
    size: u64,
    bytes: &[u8],
) -> Result<(), StoreError> {
    if bytes.is_empty() {
        return Ok(());
    }
    let found = log
        .size()
        .map_err(StoreError::io("read the size of", path))?;
    if found != size {
        return Err(StoreError::Changed {
            path: path.to_owned(),
        });
    }
    let Err(append) = log.append(bytes).and_then(|()| log.sync()) else {
        return Ok(());
    };
    match log.truncate(size).and_then(|()| log.sync()) {
        Ok(()) => Err(StoreError::io("append to", path)(append)),
        Err(rollback) => Err(StoreError::Poisoned {
            path: path.to_owned(),
            append: append.to_string(),
            rollback: rollback.to_string(),
        }),
    }
}
