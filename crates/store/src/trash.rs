//! Deleting a session and bringing it back: one rename each, between `<home>/sessions` and `<home>/trash`.
//!
//! ```text
//! <trash>/<entry>/trash.json     {"id":"demo","project":"--work-demo--","deletedAt":1796077038502}
//! <trash>/<entry>/session/       the session's directory, as it was: every generation, base and journal
//! ```
//!
//! The entry and its note are durable before the session is moved, and the rename is one step: so after a crash the session
//! is whole in its place or whole in the trash. An entry without `session` was half made, or emptied by a restore; nobody
//! reads it, and [`collect`](crate::JsonlStore::collect) removes it. The lock moves with the directory, so that a
//! writer that was waiting for it finds that it has the lock of something else.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use offshoot_session::SessionId;
use serde::{Deserialize, Serialize};

use crate::collect::GONE;
use crate::disk::{create_dirs, missing_dirs, parent, publish, remove_dirs, sync_dir};
use crate::layout::{LOCK_NAME, encode_id};
use crate::lock::Lock;
use crate::survey::key_of;
use crate::walk::is_husk;
use crate::{JsonlStore, StoreError};

/// The session's directory in an entry.
pub(crate) const SESSION: &str = "session";
const NOTE: &str = "trash.json";

/// A deleted session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trashed {
    /// The name of its entry in the trash: when it was deleted, in ms since the epoch, and a number.
    pub entry: String,
    /// The id.
    pub id: SessionId,
    /// When it was deleted, in ms since the epoch, by the clock of whoever did it.
    pub deleted_at: i64,
    /// Its directory in the trash.
    pub path: PathBuf,
    /// The name of the project directory that it was in.
    pub(crate) project: String,
}

/// What is in the trash.
#[derive(Debug, Default)]
pub struct Trash {
    /// The sessions that can be restored; the one that was deleted last is the first.
    pub sessions: Vec<Trashed>,
    /// What cannot: entries that do not say what they hold.
    pub problems: Vec<StoreError>,
}

/// Which of several deleted sessions of one id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The one that was deleted last.
    Newest,
    /// The one in the entry of this name.
    Entry(String),
}

/// A session that was brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Where it had been.
    pub from: Trashed,
    /// Its directory.
    pub path: PathBuf,
    /// Other deleted sessions of the same id, which are still in the trash.
    pub others: Vec<Trashed>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Note {
    id: String,
    project: String,
    deleted_at: i64,
}

impl JsonlStore {
    /// The directory of deleted sessions.
    #[must_use]
    pub fn trash_dir(&self) -> &Path {
        &self.trash
    }

    /// Moves a session with all its generations to the trash. It need not be readable. `now` is in ms since the epoch.
    ///
    /// # Errors
    /// As [`Persistence::delete`](crate::Persistence::delete). The session is in its place then, unless the error says that
    /// it could not be moved back there.
    pub fn move_to_trash(&self, id: &SessionId, now: i64) -> Result<Trashed, StoreError> {
        self.is_ours()?;
        let disk = &*self.disk;
        let found = self.tree.find(id)?;
        let dir = &found.place.dir;
        let _lock = Lock::take(disk, self.locking, &dir.join(LOCK_NAME), id)?;
        // Until now somebody else may have been moving it.
        if self.tree.find(id)?.place.dir != *dir {
            return Err(StoreError::Changed {
                path: found.place.path,
            });
        }
        let trashed = self.make_entry(id, dir, now)?;
        let moved = self.move_dir("move to the trash", dir, &trashed.path);
        // Not before it is durable that the session is not in there.
        if moved.is_err() && dir.exists() && disk.sync_dir(parent(dir)).is_ok() {
            self.remove_entry(&self.trash.join(&trashed.entry));
        }
        moved?;
        self.forget(std::slice::from_ref(dir));
        Ok(trashed)
    }

    /// Brings a deleted session back to where it was.
    ///
    /// # Errors
    /// As [`Persistence::restore`](crate::Persistence::restore).
    pub fn restore_from_trash(
        &self,
        id: &SessionId,
        choice: &Choice,
    ) -> Result<Restored, StoreError> {
        self.is_ours()?;
        let disk = &*self.disk;
        let Trash { sessions, problems } = self.trashed()?;
        let mut others: Vec<_> = sessions.into_iter().filter(|one| one.id == *id).collect();
        let wanted = match choice {
            Choice::Newest => (!others.is_empty()).then_some(0),
            Choice::Entry(entry) => others.iter().position(|one| one.entry == *entry),
        };
        let Some(wanted) = wanted else {
            return Err(self.not_in_trash(id, choice, problems));
        };
        let from = others.remove(wanted);
        let project = self.tree.root.join(&from.project);
        let path = project.join(encode_id(id)?);
        self.check_place_free(id, &path)?;
        let created = missing_dirs(&project);
        create_dirs(disk, &project)?;
        // Nobody takes the id from here on.
        let _naming = Lock::directory(&self.tree.root);
        let moved = self
            .check_place_free(id, &path)
            .and_then(|()| self.clear_husk(id, &path))
            .and_then(|_lock| self.move_dir("move out of the trash", &from.path, &path));
        moved.inspect_err(|_| remove_dirs(disk, &created))?;
        self.remove_entry(&self.trash.join(&from.entry));
        Ok(Restored { from, path, others })
    }

    /// What is in the trash, with what cannot be restored as problems.
    ///
    /// # Errors
    /// The trash cannot be read. One that does not exist is empty.
    pub fn trashed(&self) -> Result<Trash, StoreError> {
        let mut trash = Trash::default();
        for name in self.entries()? {
            let entry = self.trash.join(&name);
            if fs::symlink_metadata(entry.join(SESSION)).is_err() {
                continue;
            }
            match read_note(&entry) {
                Ok(note) => trash.sessions.push(Trashed {
                    path: entry.join(SESSION),
                    entry: name,
                    id: SessionId::new(note.id),
                    deleted_at: note.deleted_at,
                    project: note.project,
                }),
                Err(problem) => trash.problems.push(problem),
            }
        }
        let number = |entry: &str| entry_of(entry).map(|(_, number)| number);
        trash.sessions.sort_by(|a, b| {
            (b.deleted_at, number(&b.entry)).cmp(&(a.deleted_at, number(&a.entry)))
        });
        Ok(trash)
    }

    /// The names of the entries, whole or not, in order. Whatever else lies in the trash is not ours.
    pub(crate) fn entries(&self) -> Result<Vec<String>, StoreError> {
        let failed = |error| StoreError::io("list", &self.trash)(error);
        let entries = match fs::read_dir(&self.trash) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            names.extend(
                name.to_str()
                    .filter(|name| entry_of(name).is_some())
                    .map(str::to_owned),
            );
        }
        names.sort();
        Ok(names)
    }

    /// Lets the index go of what it knows of sessions that were in these directories.
    pub(crate) fn forget(&self, dirs: &[PathBuf]) {
        let Some(index) = &self.index else {
            return;
        };
        let keys = dirs.iter().filter_map(|dir| key_of(&self.tree.root, dir));
        let keys: Vec<_> = keys.map(str::to_owned).collect();
        index.remember(Vec::new(), &keys);
    }

    /// Moves a session's directory durably, or leaves it where it is.
    fn move_dir(&self, action: &'static str, from: &Path, to: &Path) -> Result<(), StoreError> {
        let disk = &*self.disk;
        disk.rename(from, to)
            .map_err(StoreError::io(action, from))?;
        // The new name first: a power cut between the two must not leave none.
        let synced = sync_dir(disk, parent(to)).and_then(|()| sync_dir(disk, parent(from)));
        let Err(failed) = synced else {
            return Ok(());
        };
        disk.rename(to, from)
            .map_err(StoreError::io("move back", to))?;
        Err(failed)
    }

    fn check_place_free(&self, id: &SessionId, dir: &Path) -> Result<(), StoreError> {
        self.tree.check_free(id)?;
        match fs::symlink_metadata(dir) {
            // A directory without a log is no session, but what is in it may be somebody's.
            Ok(meta) if !meta.is_dir() || !is_husk(dir).unwrap_or(false) => {
                Err(StoreError::AlreadyExists {
                    id: id.clone(),
                    path: dir.to_owned(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Makes room where somebody who is gone was about to create a session, and holds the lock that lay there.
    fn clear_husk(&self, id: &SessionId, dir: &Path) -> Result<Option<Lock>, StoreError> {
        let path = dir.join(LOCK_NAME);
        if fs::symlink_metadata(&path).is_err() {
            return Ok(None);
        }
        let lock = Lock::take(&*self.disk, self.locking, &path, id)?;
        self.disk
            .remove(&path)
            .map_err(StoreError::io("remove", path))?;
        Ok(Some(lock))
    }

    /// An entry with a note and nothing else, durable.
    fn make_entry(&self, id: &SessionId, dir: &Path, now: i64) -> Result<Trashed, StoreError> {
        let disk = &*self.disk;
        let project = parent(dir).file_name().and_then(|name| name.to_str());
        let Some(project) = project else {
            return Err(StoreError::InvalidName {
                name: format!("`{}`", parent(dir).display()),
                reason: "it is not text",
            });
        };
        create_dirs(disk, &self.trash)?;
        let (name, entry) = self.fresh_entry(now)?;
        let note = Note {
            id: id.to_string(),
            project: project.to_owned(),
            deleted_at: now,
        };
        let mut text = serde_json::to_vec(&note).expect("BUG: texts and a number are JSON");
        text.push(b'\n');
        let path = entry.join(NOTE);
        let taken = || StoreError::FileExists { path: path.clone() };
        let written = publish(disk, &path, &text)
            .map_err(|error| error.at(&path, taken))
            .and_then(|_| sync_dir(disk, &self.trash));
        if let Err(error) = written {
            self.remove_entry(&entry);
            return Err(error);
        }
        Ok(Trashed {
            path: entry.join(SESSION),
            entry: name,
            id: id.clone(),
            deleted_at: now,
            project: project.to_owned(),
        })
    }

    fn fresh_entry(&self, now: i64) -> Result<(String, PathBuf), StoreError> {
        let mut number = 0_u32;
        loop {
            let name = format!("{}-{number}", now.max(0));
            let entry = self.trash.join(&name);
            // What is left of an entry of that name is still to be removed, and this one would be in the way of the next.
            if self.trash.join(format!("{name}{GONE}")).exists() {
                number += 1;
                continue;
            }
            match self.disk.create_dir(&entry) {
                Ok(()) => return Ok((name, entry)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(StoreError::io("create the directory", entry)(error)),
            }
        }
    }

    /// Removes an entry that no session is in. If that fails, [`collect`](Self::collect) does it another time.
    fn remove_entry(&self, entry: &Path) {
        let _ignored = self.disk.remove(&entry.join(NOTE));
        let _ignored = self.disk.remove_dir(entry);
    }

    fn not_in_trash(
        &self,
        id: &SessionId,
        choice: &Choice,
        problems: Vec<StoreError>,
    ) -> StoreError {
        let what = match choice {
            Choice::Newest => format!("session `{id}`"),
            Choice::Entry(entry) => format!("session `{id}` in the entry `{entry}`"),
        };
        // The one that is wanted may be in an entry that does not say so.
        problems
            .into_iter()
            .next()
            .unwrap_or(StoreError::NotInTrash {
                what,
                trash: self.trash.clone(),
            })
    }
}

/// Reads `<ms>-<number>`; `None` for every other name.
pub(crate) fn entry_of(name: &str) -> Option<(u64, u32)> {
    let (at, number) = name.split_once('-')?;
    let (at, number) = (at.parse().ok()?, number.parse().ok()?);
    (format!("{at}-{number}") == name).then_some((at, number))
}

fn read_note(entry: &Path) -> Result<Note, StoreError> {
    let damaged = |reason: String| StoreError::TrashDamaged {
        path: entry.to_owned(),
        reason,
    };
    let text = fs::read(entry.join(NOTE)).map_err(|error| damaged(format!("`{NOTE}`: {error}")))?;
    let note: Note =
        serde_json::from_slice(&text).map_err(|error| damaged(format!("`{NOTE}`: {error}")))?;
    let mut parts = Path::new(&note.project).components();
    let is_name = matches!(parts.next(), Some(Component::Normal(name)) if name == &*note.project)
        && parts.next().is_none();
    if !is_name {
        return Err(damaged(format!(
            "`{}` is not the name of a project directory",
            note.project
        )));
    }
    Ok(note)
}
