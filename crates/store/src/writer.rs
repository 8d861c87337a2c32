//! The writer of one log: a batch is durable whole, or it is taken back.

use std::path::Path;
use std::sync::Arc;

use offshoot_format::Container;
use offshoot_session::{Event, LogOffset, SessionHeader};

use crate::StoreError;
use crate::disk::{Disk, LogFile, create_dirs, publish};
use crate::jsonl::Place;
use crate::layout::LOCK_NAME;
use crate::lock::Lock;
use crate::persistence::SessionWriter;

#[derive(Debug)]
enum State {
    /// Nothing is on disk yet.
    Unwritten,
    /// The log is there, locked, and good up to its end.
    Open { log: Box<dyn LogFile>, _lock: Lock },
    /// A failed append could not be taken back: what the file holds is not known.
    Poisoned { append: String, rollback: String },
}

#[derive(Debug)]
pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    place: Place,
    header: SessionHeader,
    container: Container,
    stored: LogOffset,
    state: State,
}

impl Writer {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        place: Place,
        header: SessionHeader,
        container: Container,
    ) -> Self {
        Self {
            disk,
            place,
            header,
            container,
            stored: LogOffset::START,
            state: State::Unwritten,
        }
    }

    pub(crate) fn opened(
        disk: Arc<dyn Disk>,
        place: Place,
        header: SessionHeader,
        container: Container,
        stored: LogOffset,
        log: Box<dyn LogFile>,
        lock: Lock,
    ) -> Self {
        let state = State::Open { log, _lock: lock };
        Self {
            disk,
            place,
            header,
            container,
            stored,
            state,
        }
    }

    /// Header and first batch appear together: a crash leaves no file or a complete one.
    fn materialize(&mut self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        let Place { dir, path } = &self.place;
        let taken = || StoreError::AlreadyExists {
            id: self.header.id.clone(),
            path: path.clone(),
        };
        if path.exists() {
            return Err(taken());
        }
        create_dirs(dir)?;
        let lock = Lock::take(&dir.join(LOCK_NAME), &self.header.id)?;
        let format = |source| StoreError::Format {
            path: path.clone(),
            source,
        };
        let mut bytes = self.container.header(&self.header).map_err(format)?;
        bytes.extend(self.container.batch(events.iter().map(|event| &**event)));
        publish(path, &bytes, &unique()).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => taken(),
            _ => StoreError::io("create", path)(error),
        })?;
        let log = self
            .disk
            .open_log(path)
            .map_err(StoreError::io("open", path))?;
        self.state = State::Open { log, _lock: lock };
        Ok(())
    }
}

impl SessionWriter for Writer {
    fn append(&mut self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        for (expected, event) in (self.stored.get()..).zip(events) {
            if event.seq().get() != expected {
                return Err(StoreError::AppendMismatch {
                    id: self.header.id.clone(),
                    expected: LogOffset::new(expected),
                    found: event.seq(),
                });
            }
        }
        let path = self.place.path.clone();
        match &mut self.state {
            State::Unwritten => self.materialize(events)?,
            State::Poisoned { append, rollback } => {
                return Err(StoreError::Poisoned {
                    path,
                    append: append.clone(),
                    rollback: rollback.clone(),
                });
            }
            State::Open { log, .. } => {
                let batch = self.container.batch(events.iter().map(|event| &**event));
                if let Err(failure) = append_or_roll_back(&mut **log, &path, &batch) {
                    if let StoreError::Poisoned {
                        append, rollback, ..
                    } = &failure
                    {
                        self.state = State::Poisoned {
                            append: append.clone(),
                            rollback: rollback.clone(),
                        };
                    }
                    return Err(failure);
                }
            }
        }
        self.stored = LogOffset::new(self.stored.get() + events.len() as u64);
        Ok(())
    }

    fn stored(&self) -> LogOffset {
        self.stored
    }
}

/// Appends and syncs, or restores the size from before.
pub(crate) fn append_or_roll_back(
    log: &mut dyn LogFile,
    path: &Path,
    bytes: &[u8],
) -> Result<(), StoreError> {
    if bytes.is_empty() {
        return Ok(());
    }
    let before = log
        .size()
        .map_err(StoreError::io("read the size of", path))?;
    let Err(append) = log.append(bytes).and_then(|()| log.sync()) else {
        return Ok(());
    };
    match log.truncate(before).and_then(|()| log.sync()) {
        Ok(()) => Err(StoreError::io("append to", path)(append)),
        Err(rollback) => Err(StoreError::Poisoned {
            path: path.to_owned(),
            append: append.to_string(),
            rollback: rollback.to_string(),
        }),
    }
}

/// Names a temporary file that nobody else has: the process and a counter, twelve hex digits as readers expect them.
fn unique() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed) & 0xFFFF;
    format!("{:08x}{count:04x}", std::process::id())
}
