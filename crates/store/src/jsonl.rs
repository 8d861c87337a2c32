//! Sessions as JSONL files in a directory tree: `<root>/<project>/<session>/session.v4.jsonl[.zstd]`.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use offshoot_format::{CURRENT_VERSION, ChildEvidence, Container, FormatError, StoredSession};
use offshoot_session::{ForkSeed, LogOffset, Seq, Session, SessionHeader, SessionId};

use crate::blobs::Blobs;
use crate::disk::{Disk, RealDisk, parent};
use crate::fork::{store_cut, store_fork};
use crate::index::Index;
use crate::inode::Inode;
use crate::journal::{self, Beside, Journal, Outcome, Settle};
use crate::layout::{Generation, HOME_LAYOUT, HOME_MARKER, LOCK_NAME, layout_in, session_dir};
use crate::listing::{Listed, Page, Query};
use crate::lock::{Claims, Lock, Locking};
use crate::logbytes::LogBytes;
use crate::persistence::{OpenSession, Persistence, ReadSession, SessionWriter, StoredFork};
use crate::prefix::{Prefix, Written};
use crate::read::{bytes_of, decode, header_of, may_have_moved, modified};
use crate::summary::Summary;
use crate::survey::delegator;
use crate::trash::Choice;
use crate::tree::{Found, Item, Place, Tree, is_absence};
use crate::writer::{Beginning, State, Writer};
use crate::{ForkLayout, StoreError};

/// How often a session is looked up that is not where it was found.
const LOOKUPS: usize = 3;

/// The store of one home. A clone is the same store.
#[derive(Clone, Debug)]
pub struct JsonlStore {
    pub(crate) tree: Tree,
    container: Container,
    forks: ForkLayout,
    pub(crate) disk: Arc<dyn Disk>,
    claims: Claims,
    pub(crate) index: Option<Arc<Index>>,
    settle: Option<Arc<dyn Settle>>,
    pub(crate) locking: Locking,
    pub(crate) trash: PathBuf,
    pub(crate) blobs: PathBuf,
}

impl JsonlStore {
    /// The sessions below `root` (`<home>/sessions`). New ones are packed as `container`; existing ones stay as they are.
    /// Nothing is created before the first session is.
    pub fn new(root: impl Into<PathBuf>, container: Container) -> Self {
        Self::on(root, container, Arc::new(RealDisk))
    }

    /// As [`JsonlStore::new`], on a disk that a test controls.
    pub fn on(root: impl Into<PathBuf>, container: Container, disk: Arc<dyn Disk>) -> Self {
        let root = root.into();
        let home = parent(&root);
        Self {
            trash: home.join("trash"),
            blobs: home.join("blobs"),
            tree: Tree { root },
            container,
            forks: ForkLayout::default(),
            disk,
            claims: Claims::default(),
            index: None,
            settle: None,
            locking: Locking::default(),
        }
    }

    /// Says who makes events of the streams that a crash has left. Without it they are reported and not used.
    #[must_use]
    pub fn settling(mut self, settle: Arc<dyn Settle>) -> Self {
        self.settle = Some(settle);
        self
    }

    /// Says what to do where the file system has no locks.
    #[must_use]
    pub const fn with_locking(mut self, locking: Locking) -> Self {
        self.locking = locking;
        self
    }

    /// Keeps deleted sessions in `trash` instead of a directory of that name beside the root. It has to be on the same file
    /// system as the root.
    #[must_use]
    pub fn with_trash(mut self, trash: impl Into<PathBuf>) -> Self {
        self.trash = trash.into();
        self
    }

    /// The blobs of this home.
    #[must_use]
    pub fn blobs(&self) -> Blobs {
        Blobs::on(&self.blobs, Arc::clone(&self.disk))
    }

    /// The same store, remembering in a cache folder what it reads of sessions, so that the next list or fork need not. The folder
    /// may be any that can be deleted at any time; one below the root, where readers write nothing, is not used.
    #[must_use]
    pub fn with_cache(mut self, cache: &Path) -> Self {
        let disk = Arc::clone(&self.disk);
        self.index = Index::new(cache, &self.tree.root, disk).map(Arc::new);
        self
    }

    /// The same store, keeping new forks in this form.
    #[must_use]
    pub const fn keeping_forks(mut self, forks: ForkLayout) -> Self {
        self.forks = forks;
        self
    }

    /// Whether a fork may be linked to its source: other tools would not find its beginning.
    pub(crate) fn links_forks(&self) -> bool {
        self.forks == ForkLayout::Linked && self.is_ours().unwrap_or(false)
    }

    /// Whether Offshoot created the home, and this version knows its layout.
    pub(crate) fn is_ours(&self) -> Result<bool, StoreError> {
        let marker = parent(&self.tree.root).join(HOME_MARKER);
        let text = match fs::read(&marker) {
            Ok(text) => text,
            Err(error) if is_absence(&error) => return Ok(false),
            Err(error) => return Err(StoreError::io("read", marker)(error)),
        };
        match layout_in(&text) {
            // Whoever created it was stopped before it was written.
            None if text.is_empty() => Ok(true),
            Some(HOME_LAYOUT) => Ok(true),
            Some(newer) if newer > HOME_LAYOUT => Err(StoreError::NewerHome {
                marker,
                layout: newer,
            }),
            _ => Ok(false),
        }
    }

    /// How a new log is packed. Other tools refuse a home in which raw and compressed logs are, so there a new one is like
    /// those that are there.
    pub(crate) fn packing(&self) -> Result<Container, StoreError> {
        if self.is_ours()? {
            return Ok(self.container);
        }
        Ok(self.tree.packing()?.unwrap_or(self.container))
    }

    /// The writer of a session that is not there yet, and stays away until the first batch.
    pub(crate) fn new_writer(
        &self,
        header: &SessionHeader,
        generation: Generation,
        beginning: Result<Beginning, FormatError>,
    ) -> Result<Writer, StoreError> {
        let dir = session_dir(&self.tree.root, header)?;
        let path = dir.join(generation.file_name());
        let beginning = beginning.map_err(|source| StoreError::Format {
            path: path.clone(),
            source,
        })?;
        self.tree.check_free(&header.id)?;
        let Some(claim) = self.claims.take(&header.id) else {
            let id = header.id.clone();
            return Err(StoreError::AlreadyExists { id, path });
        };
        let written = match beginning.shared.events() {
            LogOffset::START => Written::new(generation.container),
            _ => Written::of(beginning.shared.clone()),
        };
        Ok(Writer {
            disk: Arc::clone(&self.disk),
            place: Place { dir, path },
            header: header.clone(),
            container: generation.container,
            locking: self.locking,
            written,
            journal: Journal::default(),
            state: State::Unwritten {
                beginning,
                tree: self.tree.clone(),
                _claim: claim,
            },
        })
    }

    /// The directory that holds the projects.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.tree.root
    }

    /// The file of a session.
    ///
    /// # Errors
    /// No such session, or more than one.
    pub fn locate(&self, id: &SessionId) -> Result<PathBuf, StoreError> {
        Ok(self.tree.find(id)?.place.path)
    }

    /// Validates bytes as the log of a session, and that the file is where its header says.
    pub(crate) fn admit(
        &self,
        id: &SessionId,
        found: &Found,
        bytes: &LogBytes,
    ) -> Result<StoredSession, StoreError> {
        let children = match found.generation.version < CURRENT_VERSION {
            true => self.children_of(id)?,
            // A current log says itself which children there are.
            false => Vec::new(),
        };
        self.admit_with(id, found, bytes, &children)
    }

    /// The same, when it is known what the children prove.
    pub(crate) fn admit_with(
        &self,
        id: &SessionId,
        found: &Found,
        bytes: &LogBytes,
        children: &[ChildEvidence],
    ) -> Result<StoredSession, StoreError> {
        let stored = decode(found, bytes, children)?;
        self.check_identity(id, found, &stored.header)?;
        Ok(stored)
    }

    /// What the bytes of a log hold, with what the journal beside it adds, which was looked at before them.
    pub(crate) fn session_of(
        &self,
        id: &SessionId,
        found: Found,
        journal: Option<&journal::Found>,
        bytes: &LogBytes,
        meta: &Metadata,
    ) -> Result<ReadSession, StoreError> {
        let mut stored = self.admit(id, &found, bytes)?;
        let frames = bytes.frames(&stored, &found.place.path, Inode::of(meta));
        if stored.tail.is_none() {
            self.remember(id, &found, meta, (&stored.header, &stored.log), &frames);
        }
        let outcome = journal.map(|journal| self.judge(journal, &found, &stored, bytes));
        stored = bytes.in_own_file(stored);
        let shareable = match stored.tail {
            // Its writer has begun with what comes behind it, so the last whole frame is durable too.
            Some(_) => frames,
            None => frames.with_unsure_end(),
        };
        let (mut settled, mut stray) = (None, None);
        match outcome {
            Some(Outcome::Settled(event)) => {
                settled = Some(event.seq());
                stored.log.push(event).expect("BUG: it was checked");
            }
            Some(Outcome::Stray(journal)) => stray = Some(journal),
            Some(Outcome::Spent) | None => {}
        }
        Ok(ReadSession {
            shareable,
            stored,
            path: found.place.path,
            modified: modified(meta),
            settled,
            stray,
        })
    }

    /// That a file is where its header says, and is the session that was asked for.
    pub(crate) fn check_identity(
        &self,
        id: &SessionId,
        found: &Found,
        header: &SessionHeader,
    ) -> Result<(), StoreError> {
        self.tree.check_place(found, header)?;
        // On a file system that ignores case one directory has many names, but the session only one.
        if header.id != *id {
            return Err(StoreError::Misplaced {
                path: found.place.path.clone(),
                expected: session_dir(&self.tree.root, header)?,
                found: header.id.clone(),
            });
        }
        Ok(())
    }

    pub(crate) const fn tree(&self) -> &Tree {
        &self.tree
    }

    /// A session's bytes, and what they and the journal beside them hold.
    pub(crate) fn load(&self, id: &SessionId) -> Result<(LogBytes, ReadSession), StoreError> {
        let (found, (journal, bytes, meta)) = self.look_up(id, |found| {
            let journal = journal::Found::in_dir(&found.place.dir);
            bytes_of(found).map(|(bytes, meta)| (journal, bytes, meta))
        })?;
        let read = self.session_of(id, found, journal.as_ref(), &bytes, &meta)?;
        Ok((bytes, read))
    }

    /// Finds a session and reads it. One that is moved away between two of its files looks like one that is damaged, so what
    /// fails like that is looked up again.
    pub(crate) fn look_up<T>(
        &self,
        id: &SessionId,
        read: impl Fn(&Found) -> Result<T, StoreError>,
    ) -> Result<(Found, T), StoreError> {
        for _ in 1..LOOKUPS {
            let found = self.tree.find(id)?;
            match read(&found) {
                Err(error) if may_have_moved(&error) => {}
                read => return read.map(|read| (found, read)),
            }
        }
        let found = self.tree.find(id)?;
        read(&found).map(|read| (found, read))
    }

    /// What the sessions that this one delegated work to prove about it. One that cannot be read proves nothing, and is
    /// listed with its own fault.
    pub(crate) fn children_of(&self, id: &SessionId) -> Result<Vec<ChildEvidence>, StoreError> {
        let mut children = Vec::new();
        for item in self.tree.items()? {
            let Item::Session(found) = item else {
                continue;
            };
            let found = &found[0];
            let is_child = |header: &SessionHeader| delegator(header) == Some(id);
            // A file elsewhere than its header says is somebody's copy, not the child.
            let header = header_of(found).ok().filter(is_child);
            if header.is_none_or(|header| self.tree.check_place(found, &header).is_err()) {
                continue;
            }
            children.extend(found.evidence());
        }
        Ok(children)
    }

    pub(crate) fn judge(
        &self,
        journal: &journal::Found,
        found: &Found,
        stored: &StoredSession,
        bytes: &LogBytes,
    ) -> Outcome {
        let beside = Beside {
            session: &stored.header.id,
            log: &stored.log,
            container: found.generation.container,
            bytes: &bytes.bytes,
        };
        journal.judge(self.settle.as_deref(), beside)
    }
}

impl Persistence for JsonlStore {
    fn create(&self, header: &SessionHeader) -> Result<Box<dyn SessionWriter>, StoreError> {
        let container = self.packing()?;
        let beginning = container.header(header).map(|header| Beginning {
            header,
            ..Beginning::default()
        });
        let generation = Generation::current(container);
        Ok(Box::new(self.new_writer(header, generation, beginning)?))
    }

    fn fork(
        &self,
        header: &SessionHeader,
        seed: &ForkSeed,
        shareable: &Prefix,
    ) -> Result<Box<dyn SessionWriter>, StoreError> {
        Ok(Box::new(store_fork(self, header, seed, shareable)?))
    }

    fn is_being_written(&self, id: &SessionId) -> bool {
        let found = self.tree.find(id);
        found.is_ok_and(|found| Lock::has_writer(&found.place.dir.join(LOCK_NAME)))
    }

    fn fork_unread(
        &self,
        source: &SessionId,
        at: Option<Seq>,
        child: &SessionId,
        created_at: u64,
    ) -> Result<Option<StoredFork>, StoreError> {
        let found = self.tree.find(source)?;
        let Some(cut) = self.known_cut(source, &found, at)? else {
            return Ok(None);
        };
        let header = cut.header.forked(child.clone(), created_at);
        let stored = store_cut(self, &header, &cut)?;
        Ok(stored.then(|| StoredFork {
            header,
            cut: cut.cut,
            closers: cut.own[cut.inherited..].to_vec(),
        }))
    }

    fn read(&self, id: &SessionId) -> Result<ReadSession, StoreError> {
        Ok(self.load(id)?.1)
    }

    fn open(&self, id: &SessionId, now: i64) -> Result<OpenSession, StoreError> {
        self.open_for_writing(id, now)
    }

    fn list(&self, query: &Query) -> Result<Page, StoreError> {
        Page::of(self.survey(query.now)?, query)
    }

    fn delete(&self, id: &SessionId, now: i64) -> Result<(), StoreError> {
        self.move_to_trash(id, now).map(drop)
    }

    fn restore(&self, id: &SessionId) -> Result<(), StoreError> {
        self.restore_from_trash(id, &Choice::Newest).map(drop)
    }

    fn fill(&self, rows: &mut [Listed], budget: u64) {
        self.fill_listed(rows, budget);
    }

    fn note_summary(&self, id: &SessionId, summary: &Summary) {
        // What is not noted is read when it is listed.
        let _noted = self.note_body(id, summary);
    }

    fn note(&self, session: &Session, shareable: &Prefix) {
        let id = &session.header().id;
        self.note_summary(id, &Summary::of_session(session));
        let Ok(found) = self.tree.find(id) else {
            return;
        };
        if let Ok(meta) = fs::metadata(&found.place.path) {
            self.remember(
                id,
                &found,
                &meta,
                (session.header(), session.log()),
                shareable,
            );
        }
    }
}
