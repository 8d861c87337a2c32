//! The writer of one log: a batch is durable whole, or it is taken back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use offshoot_format::{Container, RunningDigest, base_name};
use offshoot_session::{Body, Event, LogOffset, SeedError, SessionHeader, SessionId};

use crate::StoreError;
use crate::disk::{
    Disk, LogFile, PublishError, create_dirs, missing_dirs, publish, remove_dirs, sync_dir,
    sync_way,
};
use crate::inode::Inode;
use crate::journal::{AttemptStart, Journal};
use crate::layout::LOCK_NAME;
use crate::lock::{Claim, Lock, Locking};
use crate::persistence::SessionWriter;
use crate::prefix::{Prefix, Written};
use crate::tree::{Place, Tree};

#[derive(Debug)]
pub(crate) enum State {
    /// Nothing is on disk yet.
    Unwritten {
        beginning: Beginning,
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

/// What a new file begins with, ahead of the first batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beginning {
    /// The bytes of the header.
    pub(crate) header: Vec<u8>,
    /// The frames of another session that the new one begins with.
    pub(crate) shared: Prefix,
    /// Those of them that stay in their files, which get another name in the new session's directory.
    pub(crate) links: Prefix,
    /// The bytes of the others: they stand behind the header.
    pub(crate) copied: Vec<u8>,
}

/// Why a new file could not be published.
#[derive(Debug)]
pub(crate) enum Unpublished {
    /// The files of another session cannot be linked into this one's directory. Nothing is there.
    CannotLink,
    /// Anything else.
    Failed(StoreError),
}

impl From<StoreError> for Unpublished {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) place: Place,
    pub(crate) header: SessionHeader,
    pub(crate) container: Container,
    pub(crate) locking: Locking,
    pub(crate) written: Written,
    pub(crate) journal: Journal,
    pub(crate) state: State,
}

impl Writer {
    /// The digest of everything that is stored, the header left out.
    pub(crate) const fn digest(&self) -> RunningDigest {
        self.written.digest()
    }

    /// Header and first batch appear together: a crash leaves no file or a complete one.
    fn materialize(
        &mut self,
        beginning: &Beginning,
        tree: &Tree,
        events: &[Arc<Event>],
    ) -> Result<State, Unpublished> {
        let Place { dir, path } = &self.place;
        let disk = &*self.disk;
        check_seed(&self.header, events).map_err(|source| StoreError::Seed {
            path: path.clone(),
            source,
        })?;
        let mut bytes = beginning.header.clone();
        bytes.extend_from_slice(&beginning.copied);
        let batches: Vec<_> = batches(self.container, events).collect();
        bytes.extend(batches.iter().flat_map(|(batch, _)| batch));
        tree.check_free(&self.header.id)?;
        let room = Room::make(disk, &self.place, tree, self.locking, &self.header.id)?;
        let bases = link_bases(disk, dir, &beginning.links)?;
        let size = bytes.len() as u64;
        let log = match publish(disk, path, &bytes) {
            Ok(log) => log,
            Err(error) => {
                match error {
                    // If the log is there, it needs them.
                    PublishError::Unknown { .. } => drop(room.keep()),
                    _ => unlink(disk, &bases),
                }
                let taken = || StoreError::AlreadyExists {
                    id: self.header.id.clone(),
                    path: path.clone(),
                };
                return Err(error.at(path, taken).into());
            }
        };
        let lock = room.keep();
        let meta = fs::metadata(path).map_err(StoreError::io("read", path))?;
        let (id, header) = (Inode::of(&meta), beginning.header.len() as u64);
        let links = &beginning.links;
        self.written = match bases.is_empty() {
            true => Written::new(self.container),
            false => Written::of(links.linked_at(bases)),
        };
        self.written.begin_file(path, id, header);
        for (bytes, frame) in beginning.shared.frames_behind(links.events()) {
            self.written.push_frame(bytes, frame);
        }
        for (batch, events) in batches {
            self.written.push(&batch, events);
        }
        Ok(State::Open {
            log,
            size,
            _lock: lock,
        })
    }

    /// [`SessionWriter::append`] that tells apart why a new file cannot be published.
    pub(crate) fn append_first(&mut self, events: &[Arc<Event>]) -> Result<(), Unpublished> {
        check_follows(&self.header.id, self.written.events(), events)?;
        let written = self.write(events);
        if let Err(Unpublished::Failed(StoreError::Poisoned {
            append, rollback, ..
        })) = &written
        {
            self.state = State::Poisoned {
                append: append.clone(),
                rollback: rollback.clone(),
            };
        }
        written
    }

    fn write(&mut self, events: &[Arc<Event>]) -> Result<(), Unpublished> {
        match &mut self.state {
            State::Unwritten {
                beginning, tree, ..
            } => {
                let (beginning, tree) = (beginning.clone(), tree.clone());
                self.state = self.materialize(&beginning, &tree, events)?;
            }
            State::Open { log, size, .. } => {
                let batch = self.container.batch(events.iter().map(|event| &**event));
                append_or_roll_back(&mut **log, &self.place.path, *size, &batch)?;
                *size += batch.len() as u64;
                if let Some(last) = events.last() {
                    self.written.push(&batch, last.seq().after());
                }
            }
            State::Poisoned { append, rollback } => {
                return Err(Unpublished::Failed(StoreError::Poisoned {
                    path: self.place.path.clone(),
                    append: append.clone(),
                    rollback: rollback.clone(),
                }));
            }
        }
        Ok(())
    }
}

/// The batches of a new file, each with the length that the log has with it.
fn batches(
    container: Container,
    events: &[Arc<Event>],
) -> impl Iterator<Item = (Vec<u8>, LogOffset)> + '_ {
    let mut end = events.first().map_or(0, |event| event.seq().get());
    let batches = container.batches(events.iter().map(|event| &**event));
    batches.map(move |(batch, count)| {
        end += count;
        (batch, LogOffset::new(end))
    })
}

impl SessionWriter for Writer {
    fn append(&mut self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        self.append_first(events).map_err(|error| match error {
            Unpublished::Failed(error) => error,
            Unpublished::CannotLink => unreachable!("only a fork has files to link"),
        })
    }

    fn stored(&self) -> LogOffset {
        self.written.events()
    }

    fn begin_attempt(&mut self, start: &AttemptStart) -> Result<(), StoreError> {
        // A journal belongs to a session that exists.
        self.append(&[])?;
        let behind = (self.written.events(), self.digest());
        let dir = &self.place.dir;
        let id = &self.header.id;
        self.journal.begin(&*self.disk, dir, id, start, behind)
    }

    fn journal(&mut self, lines: &[Arc<str>]) -> Result<(), StoreError> {
        self.journal.write(&self.place.dir, lines)
    }

    fn end_attempt(&mut self) {
        self.journal.end(&*self.disk, &self.place.dir);
    }

    fn shareable(&self) -> Prefix {
        self.written.frames().clone()
    }
}

/// The directory of a session that is not there yet, and its lock. Unless it is kept, everything of it goes that was not
/// there before.
struct Room<'a> {
    disk: &'a dyn Disk,
    place: &'a Place,
    /// What was created, the innermost first.
    created: Vec<PathBuf>,
    lock: Option<Lock>,
    /// Keeps everybody else from creating a session: nobody sees half of this one, or has it taken away.
    _naming: Option<Lock>,
}

impl<'a> Room<'a> {
    fn make(
        disk: &'a dyn Disk,
        place: &'a Place,
        tree: &Tree,
        locking: Locking,
        id: &SessionId,
    ) -> Result<Self, StoreError> {
        let Place { dir, .. } = place;
        let mut room = Self {
            disk,
            place,
            created: missing_dirs(dir),
            lock: None,
            _naming: None,
        };
        create_dirs(disk, &tree.root)?;
        // The id may have been taken meanwhile, under another name in another place. From here on nobody takes it.
        room._naming = Lock::directory(&tree.root);
        tree.check_free(id)?;
        create_dirs(disk, dir)?;
        // Somebody else may have created one of these just now and not have made it durable yet.
        sync_way(disk, dir, &tree.root)?;
        let lock = Lock::take(disk, locking, &dir.join(LOCK_NAME), id)?;
        room.lock = Some(lock);
        Ok(room)
    }

    /// The session is there, or may be.
    fn keep(mut self) -> Lock {
        self.created.clear();
        self.lock.take().expect("BUG: it is made with its lock")
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let Place { dir, path } = self.place;
        let is_there = fs::symlink_metadata(path).is_ok();
        if let Some(_held) = self.lock.take().filter(|_| !is_there) {
            let _ignored = self.disk.remove(&dir.join(LOCK_NAME));
        }
        remove_dirs(self.disk, &self.created);
    }
}

/// Gives the files of another session names in a new one's directory, durably. Says which.
fn link_bases(disk: &dyn Disk, dir: &Path, prefix: &Prefix) -> Result<Vec<PathBuf>, Unpublished> {
    if prefix.files().next().is_none() {
        return Ok(Vec::new());
    }
    let mut linked: Vec<PathBuf> = Vec::new();
    let undo = |linked: &[PathBuf], error: Unpublished| {
        unlink(disk, linked);
        Err(error)
    };
    for (index, (file, base)) in prefix.files().enumerate() {
        let name = dir.join(base_name(index));
        let mut result = disk.link(&file.path, &name);
        if result
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
        {
            // A fork to this id was cut off here. Its lock is ours now, and it has no log.
            result = disk
                .remove(&name)
                .and_then(|()| disk.link(&file.path, &name));
        }
        match result {
            Ok(()) => linked.push(name.clone()),
            Err(error) if is_no_place_for_links(&error) => {
                return undo(&linked, Unpublished::CannotLink);
            }
            Err(error) => {
                let failed = StoreError::io("link a base to", name)(error);
                return undo(&linked, Unpublished::Failed(failed));
            }
        }
        // Meanwhile the name may have come to stand for another file; or it was a symbolic link, and that is what has been
        // linked.
        let is_it = fs::symlink_metadata(&name)
            .is_ok_and(|meta| Inode::of(&meta) == file.id && meta.len() >= base.bytes);
        if !is_it {
            return undo(&linked, Unpublished::CannotLink);
        }
    }
    match sync_dir(disk, dir) {
        Ok(()) => Ok(linked),
        Err(error) => undo(&linked, Unpublished::Failed(error)),
    }
}

/// The source has gone or its file has as many names as it can have, or this file system has no links, or the two lie on
/// different ones.
fn is_no_place_for_links(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::TooManyLinks
            | io::ErrorKind::CrossesDevices
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::Unsupported
    )
}

/// They are in nobody's way: without a log beside them they are no session.
fn unlink(disk: &dyn Disk, paths: &[PathBuf]) {
    for path in paths {
        let _ignored = disk.remove(path);
    }
}

/// A batch begins where what is stored ends, and has no gap.
pub(crate) fn check_follows(
    id: &SessionId,
    stored: LogOffset,
    events: &[Arc<Event>],
) -> Result<(), StoreError> {
    for (expected, event) in (stored.get()..).zip(events) {
        if event.seq().get() != expected {
            return Err(StoreError::AppendMismatch {
                id: id.clone(),
                expected: LogOffset::new(expected),
                found: event.seq(),
            });
        }
    }
    Ok(())
}

/// A file whose header and first batch contradict each other would never be read again.
pub(crate) fn check_seed(header: &SessionHeader, events: &[Arc<Event>]) -> Result<(), SeedError> {
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
    // A log that lost its name takes appends as before, and nobody finds them again.
    let is_gone =
        fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    if found != size || is_gone {
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
