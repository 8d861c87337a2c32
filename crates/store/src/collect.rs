//! Removing for good what nobody can ask for any more (`offshoot gc`): old trash, what processes have left half done, the
//! rest of the logs that only forks still use, and blobs that nothing names.
//!
//! In a home that another tool may use too, which is one without the marker, only the trash is looked at: nobody else has made
//! that. Everywhere a file is known by a name that only this program gives; any other stays.
//!
//! It is safe beside writers, readers and forks. A session's own log is never touched. What somebody may be about to name or
//! to publish is protected by its age ([`DAY`]) and by the session's lock. The age of a thing is what the clock says now
//! less the latest moment that there is evidence of, so that a clock which was set back, now or then, keeps things too long
//! and never removes one too early. What cannot be read is kept, with everything that it might need, and said.

mod looks;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use offshoot_session::SessionId;

use crate::blobs::BlobId;
use crate::checkpoints::path_in;
use crate::disk::sync_dir;
use crate::inode::{Inode, links};
use crate::layout::{LOCK_NAME, encode_id, is_written_here};
use crate::lock::Lock;
use crate::prune::{is_base, is_own_log, prune};
use crate::trash::{SESSION, entry_of};
use crate::tree::id_of;
use crate::walk::{age, children, drafted, name_of, session_dirs};
use crate::{JsonlStore, Pruned, StoreError};

use looks::{Gathered, LOOKS, gather_bases, named_in};

/// In ms. Nobody takes a day between making a thing and naming it.
const DAY: i64 = 24 * 60 * 60 * 1000;
/// An entry of the trash whose removal has begun: it can no longer be restored.
pub(crate) const GONE: &str = ".gone";

/// Whether anything is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collecting {
    /// Remove it.
    Remove,
    /// Only say what would be removed; nothing is written.
    DryRun,
}

/// What was looked through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// The whole home.
    #[default]
    Home,
    /// The trash alone, because the home is not one that Offshoot created: what lies elsewhere may be another tool's.
    Trash,
}

/// What a thing was that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Garbage {
    /// A deleted session.
    Session {
        /// Its id.
        id: SessionId,
        /// When it was deleted, in ms since the epoch.
        deleted_at: i64,
    },
    /// An entry of the trash without a session, or whose removal had begun.
    Entry,
    /// A file that a process which ended had not finished.
    Draft,
    /// A base of a fork that was never finished.
    Base,
    /// The directory of a session that was never created.
    Directory,
    /// A blob that nothing names.
    Blob(BlobId),
}

/// Something that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// What it was.
    pub what: Garbage,
    /// Where it was.
    pub path: PathBuf,
    /// How many bytes came free. Less than it was long, if other links to its files are left.
    pub freed: u64,
}

/// Something that was kept although it might have been removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Where it is.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// What was collected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Where it was looked for.
    pub scope: Scope,
    /// What was removed.
    pub removed: Vec<Removed>,
    /// What was cut down to what forks still use.
    pub pruned: Vec<Pruned>,
    /// What could not be removed, or was kept because something cannot be read.
    pub kept: Vec<Kept>,
    /// How many bytes came free, by the lengths of files.
    pub freed: u64,
}

impl JsonlStore {
    /// Removes for good: sessions that were deleted at least `older_than` ms ago; what is left of drafts, forks and deletions that a
    /// crash has cut off, if it is a day old; of the logs that only forks use whatever they do not use; and blobs that no
    /// session names, here or in the trash, if they are a day old. `now` is in ms since the epoch. In a home without the
    /// [marker](crate::HOME_MARKER) it removes nothing outside of the trash.
    ///
    /// What cannot be removed is reported and stops nothing else. Running it again finishes what a crash has cut off.
    ///
    /// # Errors
    /// The trash cannot be listed.
    pub fn collect(
        &self,
        older_than: u64,
        collecting: Collecting,
        now: i64,
    ) -> Result<Collected, StoreError> {
        let mut sweep = Sweep {
            store: self,
            collecting,
            now,
            unlinked: BTreeMap::new(),
            doomed: BTreeSet::new(),
            done: Collected::default(),
        };
        sweep.trash(i64::try_from(older_than).unwrap_or(i64::MAX))?;
        if !self.is_ours()? {
            sweep.done.scope = Scope::Trash;
            return Ok(sweep.done);
        }
        sweep.leftovers();
        sweep.bases();
        sweep.blobs();
        Ok(sweep.done)
    }
}

struct Sweep<'a> {
    store: &'a JsonlStore,
    collecting: Collecting,
    now: i64,
    /// How many names of a file were removed, or would have been.
    unlinked: BTreeMap<Inode, u64>,
    /// Files and directories that are gone, or would be.
    doomed: BTreeSet<PathBuf>,
    done: Collected,
}

impl Sweep<'_> {
    fn trash(&mut self, older_than: i64) -> Result<(), StoreError> {
        let trash = self.store.trashed()?;
        for problem in trash.problems {
            let path = match &problem {
                StoreError::TrashDamaged { path, .. } => path.clone(),
                _ => self.store.trash.clone(),
            };
            self.keep(path, problem.to_string());
        }
        let mut gone = Vec::new();
        for one in trash.sessions {
            let entry = self.store.trash.join(&one.entry);
            let age = match last_sign(&entry, self.now) {
                Ok(age) => age.min(self.now.saturating_sub(one.deleted_at)),
                Err(error) => {
                    self.keep(one.path, format!("its age is not known: {error}"));
                    continue;
                }
            };
            if age < older_than {
                continue;
            }
            gone.push((one.id.clone(), self.store.tree.root.join(one.project)));
            let (id, deleted_at) = (one.id, one.deleted_at);
            self.remove_entry(&entry, Garbage::Session { id, deleted_at });
        }
        if self.collecting == Collecting::Remove {
            self.forget(gone);
        }
        let entries =
            children(&self.store.trash).map_err(StoreError::io("list", &self.store.trash))?;
        for entry in entries {
            let name = name_of(&entry);
            if name.strip_suffix(GONE).and_then(entry_of).is_some() {
                self.remove_gone(&entry, &entry, Garbage::Entry);
            } else if entry_of(name).is_some() && self.is_half_made(&entry) {
                self.remove_entry(&entry, Garbage::Entry);
            }
        }
        Ok(())
    }

    /// Removes from the cache what is remembered of sessions that are gone for good, each with the project that it was in,
    /// unless there is another one in its place. Whoever has deleted it need not have had a cache.
    fn forget(&self, gone: Vec<(SessionId, PathBuf)>) {
        let Some(index) = &self.store.index else {
            return;
        };
        let mut dirs = Vec::new();
        for (id, project) in gone {
            let Ok(name) = encode_id(&id) else {
                continue;
            };
            dirs.push(project.join(name));
            let is_free = matches!(self.store.tree.find(&id), Err(StoreError::NotFound { .. }));
            if is_free {
                // Another time it is nobody's either, and found by nobody.
                let _ignored = self.store.disk.remove(&path_in(index.folder(), &id));
            }
        }
        dirs.retain(|dir| !dir.exists());
        self.store.forget(&dirs);
    }

    /// Whether an entry has no session, and has had none for so long that nobody is about to put one there.
    fn is_half_made(&self, entry: &Path) -> bool {
        let is_empty = fs::symlink_metadata(entry.join(SESSION))
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        is_empty && is_old(entry, self.now)
    }

    /// In one step the entry is none any more, so that nobody restores a session of which a part is missing.
    fn remove_entry(&mut self, entry: &Path, what: Garbage) {
        let mut gone = entry.as_os_str().to_owned();
        gone.push(GONE);
        let gone = PathBuf::from(gone);
        if self.collecting == Collecting::DryRun {
            return self.remove(entry, entry, what);
        }
        let disk = &*self.store.disk;
        // Whoever has moved the session here may have been stopped before that was durable: it must not be back in its
        // place after a power cut, with or without what is removed now.
        let renamed = sync_dir(disk, entry).and_then(|()| {
            disk.rename(entry, &gone)
                .map_err(StoreError::io("remove", entry))
        });
        match renamed {
            Ok(()) => self.remove_gone(&gone, entry, what),
            Err(error) => self.keep(entry.to_owned(), error.to_string()),
        }
    }

    /// Removes an entry that has got its last name, which is durable before anything is missing in there.
    fn remove_gone(&mut self, gone: &Path, was: &Path, what: Garbage) {
        if self.collecting == Collecting::Remove
            && let Err(error) = sync_dir(&*self.store.disk, &self.store.trash)
        {
            return self.keep(gone.to_owned(), error.to_string());
        }
        self.remove(gone, was, what);
    }

    /// Drafts and bases that a crash has left in the directories of sessions that nobody is writing to.
    fn leftovers(&mut self) {
        let (dirs, problems) = session_dirs(&self.store.tree.root);
        for (path, error) in problems {
            self.keep(path, error.to_string());
        }
        for dir in dirs {
            if self.left_in(&dir) == Left::default() {
                continue;
            }
            // Nobody creates a session meanwhile. The lock in the directory alone would not do: there may be none yet.
            let naming = Lock::directory(&self.store.tree.root);
            match self.lock(&dir) {
                Ok(None) if naming.is_none() => {}
                Ok(_lock) => {
                    let left = self.left_in(&dir);
                    for (path, what) in left.files {
                        self.remove(&path, &path, what);
                    }
                    if left.is_husk {
                        self.remove_husk(&dir);
                    }
                }
                // Whoever has it may be just writing them.
                Err(StoreError::AlreadyOwned { .. } | StoreError::NotFound { .. }) => {}
                Err(error) => self.keep(dir, error.to_string()),
            }
        }
    }

    /// What has been left in a directory long ago. One that cannot be listed is named by what follows.
    fn left_in(&self, dir: &Path) -> Left {
        if !is_old(dir, self.now) {
            return Left::default();
        }
        let Ok(found) = children(dir) else {
            return Left::default();
        };
        let has_log = found.iter().any(|path| is_own_log(name_of(path)));
        let garbage = |path: PathBuf| {
            let name = name_of(&path);
            let is_ours = |name| is_written_here(name) || is_base(name);
            if drafted(name).is_some_and(is_ours) {
                return is_old(&path, self.now).then_some((path, Garbage::Draft));
            }
            // A base whose fork was not published by the time that a day has passed.
            (!has_log && is_base(name)).then_some((path, Garbage::Base))
        };
        let others: Vec<_> = found
            .into_iter()
            .filter(|path| name_of(path) != LOCK_NAME)
            .collect();
        let count = others.len();
        let files: Vec<_> = others.into_iter().filter_map(garbage).collect();
        Left {
            is_husk: files.len() == count,
            files,
        }
    }

    /// Removes a directory in which only a lock is, which is held.
    fn remove_husk(&mut self, dir: &Path) {
        let disk = &*self.store.disk;
        let removed = match self.collecting {
            Collecting::DryRun => Ok(()),
            Collecting::Remove => absent_is_fine(disk.remove(&dir.join(LOCK_NAME)))
                .and_then(|()| absent_is_fine(disk.remove_dir(dir))),
        };
        self.doomed.insert(dir.to_owned());
        match removed {
            Ok(()) => self.done.removed.push(Removed {
                what: Garbage::Directory,
                path: dir.to_owned(),
                freed: 0,
            }),
            Err(error) => self.keep(dir.to_owned(), format!("it could not be removed: {error}")),
        }
    }

    /// The lock of a session. Where there is no lock file nobody is writing, and none is created.
    fn lock(&self, dir: &Path) -> Result<Option<Lock>, StoreError> {
        let path = dir.join(LOCK_NAME);
        if fs::symlink_metadata(&path).is_err() {
            return Ok(None);
        }
        Lock::take(&*self.store.disk, self.store.locking, &path, &id_of(dir)).map(Some)
    }

    fn bases(&mut self) {
        let looks = LOOKS.into_iter();
        let looks = looks.map(|look| (look, look.roots(self.store, &self.doomed)));
        let Gathered {
            bases,
            failed,
            unread,
        } = gather_bases(looks, &self.doomed);
        for Kept { path, reason } in unread {
            self.keep(path, reason);
        }
        for pruned in bases.overlong() {
            let base = pruned.bases[0].clone();
            if let Some(Kept { path, reason }) = failed.first() {
                let reason = format!("`{}` may be the log of a session: {reason}", path.display());
                self.keep(base, reason);
                continue;
            }
            // Of a file that has other names too nothing comes free.
            let freed = match self.names(&base) == pruned.bases.len() as u64 {
                true => pruned.was - pruned.is,
                false => 0,
            };
            if self.collecting == Collecting::Remove
                && let Err(error) = prune(&*self.store.disk, &pruned)
            {
                self.keep(base, error.to_string());
                continue;
            }
            self.done.pruned.push(pruned);
            self.done.freed += freed;
        }
    }

    /// How many names a file has, or would have by now.
    fn names(&self, path: &Path) -> u64 {
        let Ok(meta) = fs::metadata(path) else {
            return 0;
        };
        let inode = Inode::of(&meta).filter(|_| self.collecting == Collecting::DryRun);
        let unlinked = inode.and_then(|inode| self.unlinked.get(&inode));
        links(&meta).saturating_sub(unlinked.copied().unwrap_or(0))
    }

    fn blobs(&mut self) {
        let files = match children(&self.store.blobs) {
            Ok(files) => files,
            Err(error) => return self.keep(self.store.blobs.clone(), error.to_string()),
        };
        for path in &files {
            let is_ours = drafted(name_of(path))
                .and_then(BlobId::of_file_name)
                .is_some();
            if is_ours && is_old(path, self.now) {
                self.remove(path, path, Garbage::Draft);
            }
        }
        let blob = |path: PathBuf| Some((BlobId::of_file_name(name_of(&path))?, path));
        let old = files.into_iter().filter_map(blob);
        let old: Vec<_> = old.filter(|(_, path)| is_old(path, self.now)).collect();
        if old.is_empty() {
            return;
        }
        let looks = LOOKS.into_iter();
        let looks = looks.map(|look| look.roots(self.store, &self.doomed));
        let named = match named_in(looks) {
            Ok(named) => named,
            Err(why) => {
                let reason = format!(
                    "all blobs are kept, because it is not known which ones `{}` names: {}",
                    why.path.display(),
                    why.reason
                );
                return self.keep(self.store.blobs.clone(), reason);
            }
        };
        for (id, path) in old.into_iter().filter(|(id, _)| !named.contains(id)) {
            // Whoever stores it again at this moment makes it young under this lock.
            let _keeping = Lock::directory(&self.store.blobs);
            if is_old(&path, self.now) {
                self.remove(&path, &path, Garbage::Blob(id));
            }
        }
    }

    fn keep(&mut self, path: PathBuf, reason: String) {
        let kept = Kept { path, reason };
        if !self.done.kept.contains(&kept) {
            self.done.kept.push(kept);
        }
    }

    /// Removes a file or a directory with all that is in it, which had the name `was`.
    fn remove(&mut self, path: &Path, was: &Path, what: Garbage) {
        let mut freed = 0;
        let removed = self.remove_tree(path, &mut freed);
        self.doomed.insert(path.to_owned());
        self.done.freed += freed;
        match removed {
            Ok(()) => self.done.removed.push(Removed {
                what,
                path: was.to_owned(),
                freed,
            }),
            Err(error) => self.keep(path.to_owned(), format!("it could not be removed: {error}")),
        }
    }

    fn remove_tree(&mut self, path: &Path, freed: &mut u64) -> io::Result<()> {
        let disk = &*self.store.disk;
        let is_real = self.collecting == Collecting::Remove;
        let meta = match fs::symlink_metadata(path) {
            // Somebody else collects at the same time.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            meta => meta?,
        };
        if meta.is_dir() {
            for child in children(path)? {
                self.remove_tree(&child, freed)?;
            }
            return match is_real {
                true => absent_is_fine(disk.remove_dir(path)),
                false => Ok(()),
            };
        }
        if is_real {
            absent_is_fine(disk.remove(path))?;
        }
        if self.was_last_name(&meta) {
            *freed += meta.len();
        }
        Ok(())
    }

    /// Whether a file had no other names when one of them was removed, or would have none.
    fn was_last_name(&mut self, meta: &fs::Metadata) -> bool {
        if self.collecting == Collecting::Remove {
            return links(meta) == 1;
        }
        let Some(inode) = Inode::of(meta) else {
            return true;
        };
        let unlinked = self.unlinked.entry(inode).or_default();
        *unlinked += 1;
        *unlinked == links(meta)
    }
}

/// What was left in a session's directory.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    files: Vec<(PathBuf, Garbage)>,
    /// Whether nothing else is in it besides a lock: no session was ever created there.
    is_husk: bool,
}

fn absent_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Whether something was last changed a day ago or more. What cannot be looked at is not old.
fn is_old(path: &Path, now: i64) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| age(&meta, now) >= DAY)
}

/// How long ago, in ms, somebody last did something with a deleted session: wrote its log, or deleted it. A clock that was
/// wrong when it was deleted need not have been wrong before.
fn last_sign(entry: &Path, now: i64) -> io::Result<i64> {
    let mut youngest = i64::MAX;
    for path in children(entry)?
        .into_iter()
        .chain(children(&entry.join(SESSION))?)
    {
        // Bases are other sessions' logs, and change when they are pruned.
        let name = name_of(&path);
        if is_own_log(name) || name.ends_with(".json") {
            youngest = youngest.min(age(&fs::symlink_metadata(&path)?, now));
        }
    }
    Ok(youngest)
}
