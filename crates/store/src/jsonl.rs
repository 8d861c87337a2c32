//! Sessions as JSONL files in a directory tree: `<root>/<project>/<session>/session.v4.jsonl[.zstd]`.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use offshoot_format::{
    CURRENT_VERSION, Container, FormatError, FrameScan, StoredSession, decode_as, decode_header,
    read_header, scan_frame,
};
use offshoot_session::{LogOffset, Session, SessionHeader, SessionId};

use crate::disk::{Disk, RealDisk};
use crate::layout::{Generation, LOCK_NAME, encode_id, session_dir};
use crate::lock::Lock;
use crate::persistence::{Listed, OpenSession, Persistence, ReadSession, Repair, SessionWriter};
use crate::writer::{Writer, append_or_roll_back};
use crate::{StoreError, repair};

/// Where a session's log is, or will be.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    pub(crate) path: PathBuf,
}

/// A log that exists, by its name.
#[derive(Clone, Debug)]
struct Found {
    place: Place,
    generation: Generation,
}

/// The store of one home.
#[derive(Debug)]
pub struct JsonlStore {
    root: PathBuf,
    container: Container,
    disk: Arc<dyn Disk>,
}

impl JsonlStore {
    /// The sessions below `root` (`<home>/sessions`). New ones are packed as `container`; existing ones stay as they are.
    /// Nothing is created before the first session is.
    pub fn new(root: impl Into<PathBuf>, container: Container) -> Self {
        Self::on(root, container, Arc::new(RealDisk))
    }

    /// As [`JsonlStore::new`], on a disk that a test controls.
    pub fn on(root: impl Into<PathBuf>, container: Container, disk: Arc<dyn Disk>) -> Self {
        Self {
            root: root.into(),
            container,
            disk,
        }
    }

    /// The directory that holds the projects.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file of a session.
    ///
    /// # Errors
    /// No such session, or more than one.
    pub fn locate(&self, id: &SessionId) -> Result<PathBuf, StoreError> {
        Ok(self.find(id)?.place.path)
    }

    fn find(&self, id: &SessionId) -> Result<Found, StoreError> {
        let name = encode_id(id)?;
        let mut found = Vec::new();
        for project in subdirectories(&self.root)? {
            let dir = project.join(&name);
            if dir.is_dir() {
                found.extend(top_generations(&dir)?);
            }
        }
        if found.len() > 1 {
            let paths = found.into_iter().map(|found| found.place.path).collect();
            return Err(StoreError::Ambiguous {
                id: id.clone(),
                paths,
            });
        }
        found.pop().ok_or_else(|| StoreError::NotFound {
            id: id.clone(),
            root: self.root.clone(),
        })
    }

    /// The header says where a file belongs; a file elsewhere is somebody's copy, not the session.
    fn check_place(&self, found: &Found, header: &SessionHeader) -> Result<(), StoreError> {
        let expected = session_dir(&self.root, header)?;
        let same = expected == found.place.dir
            || match (
                fs::canonicalize(&expected),
                fs::canonicalize(&found.place.dir),
            ) {
                (Ok(expected), Ok(actual)) => expected == actual,
                _ => false,
            };
        if same {
            return Ok(());
        }
        let dir = found
            .place
            .dir
            .strip_prefix(&self.root)
            .unwrap_or(&found.place.dir);
        Err(StoreError::Misplaced {
            path: found.place.path.clone(),
            expected: dir.display().to_string(),
            found: header.id.clone(),
        })
    }

    fn load(&self, id: &SessionId, found: &Found) -> Result<(ReadSession, Vec<u8>), StoreError> {
        let path = &found.place.path;
        let (bytes, meta) = read_stable(path).map_err(StoreError::io("read", path))?;
        let bytes = repair::pending(&found.place.dir, &bytes).unwrap_or(bytes);
        let stored = decode_generation(found, &bytes).map_err(|source| StoreError::Format {
            path: path.clone(),
            source,
        })?;
        if stored.header.id != *id {
            return Err(StoreError::Misplaced {
                path: path.clone(),
                expected: id.to_string(),
                found: stored.header.id,
            });
        }
        self.check_place(found, &stored.header)?;
        Ok((
            ReadSession {
                stored,
                path: path.clone(),
                modified: modified(&meta),
            },
            bytes,
        ))
    }

    fn list_one(&self, found: &Found) -> Listed {
        let path = found.place.path.clone();
        let header = header_of(found).and_then(|header| {
            self.check_place(found, &header)?;
            Ok(header)
        });
        let id = header.as_ref().map_or_else(
            |_| {
                SessionId::new(
                    found
                        .place
                        .dir
                        .file_name()
                        .unwrap_or_default()
                        .to_string_lossy(),
                )
            },
            |header| header.id.clone(),
        );
        let modified = fs::metadata(&path).map_or(0, |meta| modified(&meta));
        Listed {
            id,
            path,
            modified,
            header,
        }
    }
}

impl Persistence for JsonlStore {
    fn create(&self, header: &SessionHeader) -> Result<Box<dyn SessionWriter>, StoreError> {
        let dir = session_dir(&self.root, header)?;
        match self.find(&header.id) {
            Err(StoreError::NotFound { .. }) => {}
            Ok(found) => {
                let (id, path) = (header.id.clone(), found.place.path);
                return Err(StoreError::AlreadyExists { id, path });
            }
            Err(other) => return Err(other),
        }
        let path = dir.join(Generation::current(self.container).file_name());
        let place = Place { dir, path };
        Ok(Box::new(Writer::new(
            Arc::clone(&self.disk),
            place,
            header.clone(),
            self.container,
        )))
    }

    fn read(&self, id: &SessionId) -> Result<ReadSession, StoreError> {
        let found = self.find(id)?;
        self.load(id, &found).map(|(session, _)| session)
    }

    fn open(&self, id: &SessionId, now: i64) -> Result<OpenSession, StoreError> {
        let found = self.find(id)?;
        let Place { dir, path } = &found.place;
        // Everything that can be refused is refused before the lock: losing leaves no trace.
        let (first, _) = self.load(id, &found)?;
        check_continuable(id, &first.stored)?;
        let lock = Lock::take(&dir.join(LOCK_NAME), id)?;
        let mut log = self
            .disk
            .open_log(path)
            .map_err(StoreError::io("open", path))?;
        repair::resume(dir, &mut *log, path)?;
        let (ReadSession { stored, .. }, bytes) = self.load(id, &found)?;
        check_continuable(id, &stored)?;
        let opened = repair_log(&found, stored, &bytes, &mut *log, now)?;
        let writer = Writer::opened(
            Arc::clone(&self.disk),
            found.place.clone(),
            opened.0.header().clone(),
            found.generation.container,
            opened.0.log().end(),
            log,
            lock,
        );
        Ok(OpenSession {
            session: opened.0,
            writer: Box::new(writer),
            repair: opened.1,
        })
    }

    fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let mut sessions = Vec::new();
        for project in subdirectories(&self.root)? {
            for dir in subdirectories(&project)? {
                match top_generations(&dir)?.as_slice() {
                    [] => {}
                    [found] => sessions.push(self.list_one(found)),
                    several => {
                        let mut listed = self.list_one(&several[0]);
                        let paths = several
                            .iter()
                            .map(|found| found.place.path.clone())
                            .collect();
                        listed.header = Err(StoreError::Ambiguous {
                            id: listed.id.clone(),
                            paths,
                        });
                        sessions.push(listed);
                    }
                }
            }
        }
        mark_duplicates(&mut sessions);
        Ok(sessions)
    }
}

fn check_continuable(id: &SessionId, stored: &StoredSession) -> Result<(), StoreError> {
    let refused = |source| StoreError::NotContinuable {
        id: id.clone(),
        source,
    };
    stored.log.continuable().map_err(refused)
}

/// Writes what a crash has left to do, in one durable batch, and hands out the session that is then stored.
fn repair_log(
    found: &Found,
    stored: StoredSession,
    bytes: &[u8],
    log: &mut dyn crate::LogFile,
    now: i64,
) -> Result<(Session, Option<Repair>), StoreError> {
    let Place { dir, path } = &found.place;
    let container = found.generation.container;
    let tail = stored.tail.clone();
    let recovered = tail.as_ref().map_or(0, |tail| tail.recovered);
    let durable = LogOffset::new(stored.log.end().get() - recovered);
    let closers: Vec<_> = stored.closers().into_iter().map(Arc::new).collect();
    let session = stored.balanced(now).map_err(|source| StoreError::Seed {
        path: path.clone(),
        source,
    })?;
    let batch = container.batch(session.log().events_from(durable).map(|event| &**event));
    match &tail {
        Some(tail) if tail.recovered > 0 => {
            repair::replace_tail(dir, log, path, bytes, tail.keep, batch)?;
        }
        // Nothing is saved from behind the cut, so the cut alone changes nothing that anybody reads.
        Some(tail) => {
            log.truncate(tail.keep)
                .map_err(StoreError::io("cut the torn tail of", path))?;
            append_or_roll_back(log, path, &batch)?;
        }
        None => append_or_roll_back(log, path, &batch)?,
    }
    let torn_bytes = tail.map_or(0, |tail| tail.bytes);
    let repaired = torn_bytes > 0 || !closers.is_empty();
    Ok((
        session,
        repaired.then_some(Repair {
            torn_bytes,
            recovered,
            closers,
        }),
    ))
}

fn decode_generation(found: &Found, bytes: &[u8]) -> Result<StoredSession, FormatError> {
    let stored = decode_as(found.generation.container, bytes)?;
    if found.generation.version != CURRENT_VERSION {
        return Err(version_mismatch(found.generation.version));
    }
    Ok(stored)
}

fn version_mismatch(named: u64) -> FormatError {
    FormatError::Inconsistent {
        reason: format!("the file name says version {named}, the header says {CURRENT_VERSION}"),
    }
}

/// The header alone: the first line, or the first frame.
fn header_of(found: &Found) -> Result<SessionHeader, StoreError> {
    let path = &found.place.path;
    let io = |error| StoreError::io("read", path)(error);
    let format = |source| StoreError::Format {
        path: path.clone(),
        source,
    };
    let mut file = File::open(path).map_err(io)?;
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        let mut chunk = file.by_ref().take(8 << 10);
        chunk.read_to_end(&mut bytes).map_err(io)?;
        let whole = match found.generation.container {
            Container::Raw => bytes[before..].contains(&b'\n'),
            Container::Zstd => !matches!(scan_frame(&bytes), Ok(FrameScan::Incomplete)),
        };
        if whole || bytes.len() == before {
            break;
        }
    }
    let line = read_header(found.generation.container, &bytes).map_err(format)?;
    let header = decode_header(&line).map_err(format)?;
    if found.generation.version != CURRENT_VERSION {
        return Err(format(version_mismatch(found.generation.version)));
    }
    Ok(header)
}

/// Reads a file that may be growing: what it held at one moment, at most one retry.
fn read_stable(path: &Path) -> io::Result<(Vec<u8>, Metadata)> {
    let mut file = File::open(path)?;
    let mut before = file.metadata()?;
    let mut bytes = Vec::new();
    for _ in 0..2 {
        bytes.clear();
        io::Seek::rewind(&mut file)?;
        file.by_ref().take(before.len()).read_to_end(&mut bytes)?;
        let after = file.metadata()?;
        if after.len() == before.len() && after.modified().ok() == before.modified().ok() {
            break;
        }
        before = after;
    }
    Ok((bytes, before))
}

fn modified(meta: &Metadata) -> i64 {
    let since = meta
        .modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}

/// The directories in a directory, by name; none if it does not exist.
fn subdirectories(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let failed = |error| StoreError::io("list", dir)(error);
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut dirs = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            dirs.push(path);
        }
    }
    dirs.sort();
    Ok(dirs)
}

/// The logs of the highest version in a session's directory: normally one; two only if it is there raw and packed.
fn top_generations(dir: &Path) -> Result<Vec<Found>, StoreError> {
    let failed = |error| StoreError::io("list", dir)(error);
    let mut found: Vec<Found> = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(generation) = name.and_then(Generation::parse) {
            found.push(Found {
                place: Place {
                    dir: dir.to_owned(),
                    path,
                },
                generation,
            });
        }
    }
    let top = found.iter().map(|found| found.generation.version).max();
    found.retain(|found| Some(found.generation.version) == top);
    found.sort_by(|a, b| a.place.path.cmp(&b.place.path));
    Ok(found)
}

/// One id in two projects: neither is better than the other, so both say so.
fn mark_duplicates(sessions: &mut [Listed]) {
    let mut by_id: std::collections::BTreeMap<SessionId, Vec<PathBuf>> =
        std::collections::BTreeMap::new();
    for session in sessions.iter() {
        by_id
            .entry(session.id.clone())
            .or_default()
            .push(session.path.clone());
    }
    for session in sessions {
        let paths = &by_id[&session.id];
        if paths.len() > 1 && session.header.is_ok() {
            session.header = Err(StoreError::Ambiguous {
                id: session.id.clone(),
                paths: paths.clone(),
            });
        }
    }
}
