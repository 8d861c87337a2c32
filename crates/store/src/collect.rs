//! Removing for good what nobody can ask for any more (`offshoot gc`): old trash, what processes have left half done, the
//! rest of the logs that only forks still use, and blobs that nothing names.
//!
//! It is safe beside writers, readers and forks. A session's own log is never touched. What somebody may be about to name or
//! to publish is protected by its age ([`DAY`]) and by the session's lock. The age of a thing is what the clock says now
//! less the latest moment that there is evidence of, so that a clock which was set back, now or then, keeps things too long
//! and never removes one too early. What cannot be read is kept, with everything that it might need, and said.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use offshoot_format::{Container, stored_lines};
use offshoot_session::SessionId;

use crate::bases::bases_in;
use crate::blobs::BlobId;
use crate::disk::sync_dir;
use crate::generations::container_of;
use crate::inode::{Inode, links};
use crate::layout::LOCK_NAME;
use crate::lock::Lock;
use crate::note;
use crate::prune::{Bases, is_base, is_own_log, prune};
use crate::read::whole;
use crate::trash::{SESSION, entry_of};
use crate::tree::id_of;
use crate::walk::{Walk, age, children, is_draft, name_of, session_dirs};
use crate::{JsonlStore, Pruned, StoreError};

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
    /// session names, here or in the trash, if they are a day old. `now` is in ms since the epoch.
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
            let (id, deleted_at) = (one.id, one.deleted_at);
            self.remove_entry(&entry, Garbage::Session { id, deleted_at });
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
            let Ok(found) = children(&dir) else {
                // What follows says so too.
                continue;
            };
            let has_log = found.iter().any(|path| is_own_log(name_of(path)));
            // A base whose fork was not published by the time that a day has passed.
            let is_orphan = |path: &Path| !has_log && is_base(path) && is_old(&dir, self.now);
            let old = |path: &PathBuf| {
                (is_draft(path) && is_old(path, self.now) && is_old(&dir, self.now))
                    || is_orphan(path)
            };
            let old: Vec<_> = found.iter().filter(|path| old(path)).collect();
            if old.is_empty() {
                continue;
            }
            match self.lock(&dir) {
                Ok(_lock) => {
                    for path in old {
                        let what = match is_draft(path) {
                            true => Garbage::Draft,
                            false => Garbage::Base,
                        };
                        self.remove(path, path, what);
                    }
                }
                // Whoever has it may be just writing them.
                Err(StoreError::AlreadyOwned { .. } | StoreError::NotFound { .. }) => {}
                Err(error) => self.keep(dir, error.to_string()),
            }
        }
    }

    /// The lock of a session; of one that has no lock file only if something is removed, because a dry run creates nothing.
    fn lock(&self, dir: &Path) -> Result<Option<Lock>, StoreError> {
        let path = dir.join(LOCK_NAME);
        if self.collecting == Collecting::DryRun && !path.exists() {
            return Ok(None);
        }
        Lock::take(&*self.store.disk, self.store.locking, &path, &id_of(dir)).map(Some)
    }

    fn bases(&mut self) {
        let (mut dirs, problems) = session_dirs(&self.store.tree.root);
        dirs.extend(self.trashed_dirs());
        let mut bases = Bases::default();
        let mut failed = problems
            .into_iter()
            .map(|(path, error)| (path, error.to_string()))
            .collect::<Vec<_>>();
        for dir in dirs {
            let recorded = bases_in(&dir);
            if let Err(error) = &recorded {
                // Its bases then count as a whole.
                self.keep(dir.clone(), error.to_string());
            }
            if let Err(error) = bases.add(&dir, &recorded.unwrap_or_default(), &self.doomed) {
                failed.push((dir, error.to_string()));
            }
        }
        for pruned in bases.overlong() {
            let base = pruned.bases[0].clone();
            if let Some((path, reason)) = failed.first() {
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

    /// The directories of deleted sessions that stay.
    fn trashed_dirs(&self) -> Vec<PathBuf> {
        let entries = self.store.entries().unwrap_or_default().into_iter();
        entries
            .map(|entry| self.store.trash.join(entry))
            .filter(|entry| !self.doomed.contains(entry))
            .map(|entry| entry.join(SESSION))
            .collect()
    }

    fn blobs(&mut self) {
        let files = match children(&self.store.blobs) {
            Ok(files) => files,
            Err(error) => return self.keep(self.store.blobs.clone(), error.to_string()),
        };
        let (drafts, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|path| is_draft(path));
        for draft in drafts {
            if is_old(&draft, self.now) {
                self.remove(&draft, &draft, Garbage::Draft);
            }
        }
        let blob = |path: PathBuf| Some((BlobId::of_file_name(name_of(&path))?, path));
        let old = files.into_iter().filter_map(blob);
        let old: Vec<_> = old.filter(|(_, path)| is_old(path, self.now)).collect();
        if old.is_empty() {
            return;
        }
        let named = match self.named() {
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

    /// The blobs that any session names, here or in the trash; or the first file of which that cannot be told.
    fn named(&self) -> Result<BTreeSet<BlobId>, Kept> {
        let mut walk = Walk::default();
        walk.enter(&self.store.tree.root);
        for dir in self.trashed_dirs() {
            walk.enter(&dir);
        }
        if let Some((path, error)) = walk.problems.into_iter().next() {
            let reason = error.to_string();
            return Err(Kept { path, reason });
        }
        let mut named = BTreeSet::new();
        for path in walk.files {
            match references_of(&path) {
                Ok(found) => named.extend(found),
                // It was somebody's draft a moment ago, and is now there under its own name.
                Err(_) if is_draft(&path) && !path.exists() => {}
                Err(reason) => return Err(Kept { path, reason }),
            }
        }
        Ok(named)
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

/// The blobs that a file names, however damaged it is, or why that cannot be told.
fn references_of(path: &Path) -> Result<BTreeSet<BlobId>, String> {
    let bytes = whole(path).map_err(|error| error.to_string())?;
    let mut named = references_in(container_of(path, &bytes), &bytes)?;
    // A repair may hold what stands nowhere else for a moment.
    let dir = crate::disk::parent(path);
    if let Some(pending) = note::pending(dir, &bytes) {
        named.extend(references_in(container_of(path, &bytes), &pending)?);
    }
    Ok(named)
}

fn references_in(container: Container, bytes: &[u8]) -> Result<BTreeSet<BlobId>, String> {
    let mut named: BTreeSet<_> = BlobId::references_in(bytes).collect();
    if container == Container::Zstd {
        for line in stored_lines(container, bytes) {
            let line = line.map_err(|error| error.to_string())?;
            named.extend(BlobId::references_in(&line.text));
        }
    }
    Ok(named)
}
