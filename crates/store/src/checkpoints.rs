//! Forking a session that nobody has in memory without reading it whole.
//!
//! What a fork needs of its source is little: which frames lie ahead of the cut, their running digest, and what is open
//! there. Somebody who has read the session once can remember that for a few places of the file, one every so many bytes;
//! from the last one ahead of a cut only a short piece has to be read. These *checkpoints* lie in the cache folder, one file
//! per session, and are good for one [`Revision`] of its log. A log that is as it should be changes only by growing, so an
//! equal size alone would nearly do.
//!
//! Nothing is lost if they are: then the session is read. They are kept only for logs that are compressed, current, whole,
//! and free of findings, and only if those are long enough to be worth it.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use offshoot_format::{
    Base, Container, FrameScan, RunningDigest, StoredHeader, encode_header, read_rows, scan_frame,
};
use offshoot_session::{
    Event, EventLog, LogOffset, OpenTail, Seq, SessionHeader, SessionId, fork_closers,
};
use serde::{Deserialize, Serialize};

use crate::disk::{Disk, create_dirs, create_temporary, parent};
use crate::inode::Inode;
use crate::prefix::Prefix;
use crate::tree::{Found, Place};
use crate::{JsonlStore, Revision, StoreError, note, read};

/// To be changed whenever the file is not what it was.
const VERSION: u64 = 1;
/// How many bytes of a log lie between two checkpoints, at least.
const DISTANCE: u64 = 64 << 10;
/// How many bytes a log needs for reading it to be worth saving.
const WORTH_IT: u64 = 128 << 10;

/// The file, behind a line with the digest of its text: a torn or damaged one is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    version: u64,
    revision: String,
    header: String,
    end: LogOffset,
    completed: Option<Seq>,
    files: Vec<StoredFile>,
    points: Vec<Checkpoint>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredFile {
    name: String,
    id: Option<Inode>,
    header: u64,
}

/// The end of a frame, and what is open there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Checkpoint {
    file: usize,
    frames: u64,
    bytes: u64,
    events: LogOffset,
    digest: String,
    open: OpenTail,
}

/// What a fork of a session at some event consists of.
#[derive(Debug)]
pub(crate) struct Cut {
    /// The source.
    pub(crate) header: SessionHeader,
    /// The last inherited event.
    pub(crate) cut: Seq,
    /// The frames ahead of it.
    pub(crate) shared: Prefix,
    /// What the fork has to store itself: inherited events that no whole frame holds, marker and closers.
    pub(crate) own: Vec<Arc<Event>>,
    /// How many of those are inherited.
    pub(crate) inherited: usize,
}

/// The checkpoints of one session.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    dir: PathBuf,
    stored: Stored,
}

/// Where a session's checkpoints are in a cache folder.
pub(crate) fn path_in(cache: &Path, id: &SessionId) -> PathBuf {
    let name = digest_of(id.as_str().as_bytes()).to_string();
    let name: String = name.chars().take(32).collect();
    cache.join("checkpoints").join(format!("{name}.json"))
}

impl Checkpoints {
    /// Those of a session that is known whole, with nothing torn at its end; `None` for one that has none, or needs none.
    /// `frames` are all its frames.
    pub(crate) fn of(
        dir: &Path,
        revision: Revision,
        (header, log): (&SessionHeader, &EventLog),
        frames: &Prefix,
    ) -> Option<Self> {
        let whole = frames.events() == log.end();
        let size: u64 = frames.files().map(|(_, base)| base.bytes).sum();
        if !whole || size < WORTH_IT || log.findings().next().is_some() {
            return None;
        }
        let files = frames.files().map(|(file, _)| StoredFile {
            name: name_of(&file.path),
            id: file.id,
            header: file.header,
        });
        let points = frames.every(DISTANCE).map(|(file, base)| Checkpoint {
            file,
            frames: base.frames,
            bytes: base.bytes,
            events: base.events,
            digest: base.digest.to_string(),
            open: log.prefix(base.events).open_tail().clone(),
        });
        Some(Self {
            dir: dir.to_owned(),
            stored: Stored {
                version: VERSION,
                revision: revision.to_string(),
                header: encode_header(header).ok()?,
                end: log.end(),
                completed: log.latest_completed_boundary(),
                files: files.collect(),
                points: points.collect(),
            },
        })
    }

    /// Writes them down, as well as can be: what cannot be written is found out again another time.
    pub(crate) fn save(self, disk: &dyn Disk, path: &Path) {
        let Ok(text) = serde_json::to_vec(&self.stored) else {
            return;
        };
        let mut file_text = format!("{}\n", digest_of(&text)).into_bytes();
        file_text.extend(text);
        if create_dirs(disk, parent(path)).is_err() {
            return;
        }
        let Ok((temporary, mut file)) = create_temporary(disk, path) else {
            return;
        };
        let renamed = file
            .append(&file_text)
            .and_then(|()| disk.rename(&temporary, path));
        if renamed.is_err() {
            let _ignored = disk.remove(&temporary);
        }
    }

    /// Those that were written for this revision of the log in `dir`.
    pub(crate) fn load(path: &Path, dir: &Path, revision: Revision) -> Option<Self> {
        let bytes = fs::read(path).ok()?;
        let (digest, text) = bytes.split_at_checked(65)?;
        if digest != format!("{}\n", digest_of(text)).as_bytes() {
            return None;
        }
        let stored: Stored = serde_json::from_slice(text).ok()?;
        let made_of = Revision::parse(&stored.revision)?;
        let is_it = stored.version == VERSION && made_of.has_same_content(&revision);
        is_it.then(|| Self {
            dir: dir.to_owned(),
            stored,
        })
    }

    /// Whether these are the files that they were made of: collecting what is left of a deleted session gives a base another
    /// one that begins alike.
    pub(crate) fn are_of(&self, frames: &Prefix) -> bool {
        let ids = self.stored.files.iter().map(|file| file.id);
        ids.eq(frames.files().map(|(file, _)| file.id))
    }

    /// What a fork at an event consists of, by default at the last completed turn. `None` if that is no event, or the files
    /// are not what they were.
    pub(crate) fn cut(&self, at: Option<Seq>) -> Option<Cut> {
        let cut = at.or(self.stored.completed)?;
        if cut.after() > self.stored.end {
            return None;
        }
        // The event itself must be among those that are read.
        let ahead = self
            .stored
            .points
            .partition_point(|point| point.events <= cut.before());
        let (mut shared, start) = self.shared(ahead)?;
        let end = self.stored.points.get(ahead)?;
        let path = self.dir.join(&self.stored.files[end.file].name);
        let (bytes, meta) = read::range(&path, start.bytes, end.bytes).ok()?;
        if Inode::of(&meta) != self.stored.files[end.file].id {
            return None;
        }
        let piece = Piece::read(&bytes, &start, cut, &mut shared)?;
        let last = piece.events.last()?;
        let open = start.open.with(piece.events.iter().map(|event| &**event));
        let mut own = piece.events[piece.shared..].to_vec();
        let inherited = own.len();
        own.extend(fork_closers(&open, last).into_iter().map(Arc::new));
        let at_the_end = shared.events() == self.stored.end;
        Some(Cut {
            header: StoredHeader::read(self.stored.header.trim_end())
                .ok()?
                .into_header(),
            cut,
            shared: if at_the_end {
                shared.with_unsure_end()
            } else {
                shared
            },
            own,
            inherited,
        })
    }

    /// The frames up to the checkpoint `ahead - 1`, or up to the beginning, and where to go on.
    fn shared(&self, ahead: usize) -> Option<(Prefix, Start)> {
        let mut shared = Prefix::default();
        let points = &self.stored.points[..ahead];
        let next = self.stored.points.get(ahead)?.file;
        let mut start = Start {
            bytes: 0,
            digest: RunningDigest::START,
            events: LogOffset::START,
            open: OpenTail::default(),
        };
        for (index, file) in self.stored.files.iter().enumerate().take(next + 1) {
            let path = self.dir.join(&file.name);
            shared.begin_file(&path, file.id, file.header);
            start.bytes = file.header;
            let Some(last) = points.iter().rfind(|point| point.file == index) else {
                continue;
            };
            let digest = RunningDigest::parse(&last.digest)?;
            shared.push_base(Base {
                frames: last.frames,
                bytes: last.bytes,
                events: last.events,
                digest,
            });
            start = Start {
                bytes: last.bytes,
                digest,
                events: last.events,
                open: last.open.clone(),
            };
        }
        // The place where reading goes on is in the file of the next checkpoint.
        if points.last().is_none_or(|point| point.file != next) {
            start.bytes = self.stored.files.get(next)?.header;
        }
        Some((shared, start))
    }
}

fn digest_of(text: &[u8]) -> RunningDigest {
    let mut digest = RunningDigest::START;
    digest.push(text);
    digest
}

/// Where in a file reading begins, and what is known of everything ahead.
struct Start {
    bytes: u64,
    digest: RunningDigest,
    events: LogOffset,
    open: OpenTail,
}

/// The events from a checkpoint to a cut.
struct Piece {
    events: Vec<Arc<Event>>,
    /// How many of them lie in whole frames ahead of the cut.
    shared: usize,
}

impl Piece {
    /// Reads frame by frame, and adds those that end ahead of the cut to the shared ones.
    fn read(bytes: &[u8], start: &Start, cut: Seq, shared: &mut Prefix) -> Option<Self> {
        let (mut at, mut digest, mut end) = (0, start.digest, start.events);
        let mut piece = Self {
            events: Vec::new(),
            shared: 0,
        };
        while end <= cut.before() {
            let Ok(FrameScan::Complete(length)) = scan_frame(&bytes[at..]) else {
                return None;
            };
            let frame = &bytes[at..at + length];
            let rows = read_rows(Container::Zstd, frame).ok()?;
            if rows.first().map(|event| event.seq().before()) != Some(end) {
                return None;
            }
            end = rows.last()?.seq().after();
            digest.push(frame);
            let inherited = rows.into_iter().take_while(|event| event.seq() <= cut);
            piece.events.extend(inherited);
            if end <= cut.after() {
                shared.push(length as u64, end, digest);
                piece.shared = piece.events.len();
            }
            at += length;
        }
        Some(piece)
    }
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

impl JsonlStore {
    /// Keeps for the next fork what was found out by reading a session.
    pub(crate) fn remember(
        &self,
        id: &SessionId,
        found: &Found,
        meta: &Metadata,
        (header, log): (&SessionHeader, &EventLog),
        frames: &Prefix,
    ) {
        let Some(index) = &self.index else {
            return;
        };
        let (path, dir) = (path_in(index.folder(), id), &found.place.dir);
        let revision = Revision::of(meta);
        if Checkpoints::load(&path, dir, revision).is_some_and(|known| known.are_of(frames)) {
            return;
        }
        if let Some(checkpoints) = Checkpoints::of(dir, revision, (header, log), frames) {
            checkpoints.save(&*self.disk, &path);
        }
    }

    /// What a fork consists of, if that is known without reading the session.
    pub(crate) fn known_cut(
        &self,
        id: &SessionId,
        found: &Found,
        at: Option<Seq>,
    ) -> Result<Option<Cut>, StoreError> {
        let Some(index) = self.index.as_ref().filter(|_| self.links_forks()) else {
            return Ok(None);
        };
        let Place { dir, path } = &found.place;
        let meta = fs::metadata(path).map_err(StoreError::io("read", path))?;
        // A repair under way makes it another log than its file says. A journal adds one event behind the stored ones, and
        // nothing to what a cut ahead of that inherits.
        if note::is_there(dir) {
            return Ok(None);
        }
        let table = path_in(index.folder(), id);
        let checkpoints = Checkpoints::load(&table, dir, Revision::of(&meta));
        Ok(checkpoints.and_then(|checkpoints| checkpoints.cut(at)))
    }
}
