//! What was read of the sessions of a home before, kept in the cache folder.
//!
//! It is disposable: every row names the revisions that it was made from, and whoever uses it looks at those first. So
//! whatever is wrong with the file (missing, unreadable, torn, of another version, written by two at once) is as if the
//! row were absent, which costs the time of reading the session again and is no error. Nothing here is made durable.
//!
//! One file per home, named from the path of its sessions: `<cache>/<hash>/index.v2.jsonl`. The first line says whose it
//! is, every other one holds a row, with a checksum in front of it. What is new is appended; of two rows of a session the
//! last counts. The file is written anew and renamed into place when more than half of the lines are out of date; and when a
//! session is gone: its title is a person's words, and they are not kept of what was deleted.

mod row;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use offshoot_format::RunningDigest;

use crate::disk::{Disk, create_dirs, create_temporary, parent};
use crate::read::whole;
use crate::threads::in_threads;

pub(crate) use row::{Directory, Log, Row, checksum};

/// To be changed whenever a row, or how a summary is made, is not what it was.
const NAME: &str = "index.v2.jsonl";
/// What earlier versions of the program wrote. They are not read, and not kept either: there are titles in them.
const OUTDATED: &[&str] = &["index.v1.jsonl"];
/// Lines out of date that are left alone, whatever the number of rows.
const LEFTOVERS: usize = 200;

/// The rows by the session's directory, as a path below the root.
pub(crate) type Rows = HashMap<String, Arc<Row>>;

/// The index of one home.
#[derive(Debug)]
pub(crate) struct Index {
    path: PathBuf,
    title: String,
    disk: Arc<dyn Disk>,
    state: Mutex<Option<State>>,
}

#[derive(Debug)]
struct State {
    rows: Arc<Rows>,
    /// How many lines of the file are rows, current or not; `None` if the file is not one that can be appended to.
    lines: Option<usize>,
}

impl Index {
    /// The index in a cache folder for the sessions below `root`. Nothing is read or written yet. `None` if the folder
    /// lies below the root, where nothing may be written.
    pub(crate) fn new(cache: &Path, root: &Path, disk: Arc<dyn Disk>) -> Option<Self> {
        let (cache, root) = (absolute(cache)?, absolute(root)?);
        if cache.starts_with(&root) {
            return None;
        }
        let mut digest = RunningDigest::START;
        digest.push(root.as_os_str().as_encoded_bytes());
        let hash: String = digest.to_string().chars().take(32).collect();
        let title = serde_json::json!({
            "offshoot-index": 2,
            // What another program makes of the same bytes may be something else.
            "program": env!("CARGO_PKG_VERSION"),
            "root": root.to_string_lossy(),
        });
        Some(Self {
            path: cache.join(hash).join(NAME),
            title: format!("{title}\n"),
            disk,
            state: Mutex::new(None),
        })
    }

    /// The folder of this home in the cache.
    pub(crate) fn folder(&self) -> &Path {
        parent(&self.path)
    }

    /// All rows. The file is read once.
    pub(crate) fn rows(&self) -> Arc<Rows> {
        Arc::clone(&self.state().get_or_insert_with(|| self.load()).rows)
    }

    /// Takes in new rows, and lets go of those of directories that are not there any more.
    pub(crate) fn remember(&self, fresh: Vec<(String, Row)>, gone: &[String]) {
        if fresh.is_empty() && gone.is_empty() {
            return;
        }
        let mut state = self.state();
        let state = state.get_or_insert_with(|| self.load());
        let rows = Arc::make_mut(&mut state.rows);
        let before = rows.len();
        for key in gone {
            rows.remove(key);
        }
        let is_less = rows.len() < before;
        if fresh.is_empty() && !is_less {
            return;
        }
        let mut added = String::new();
        let count = fresh.len();
        for (key, row) in fresh {
            row.write(&key, &mut added);
            rows.insert(key, Arc::new(row));
        }
        let lines = state.lines.map(|lines| lines + count);
        let fits = lines.filter(|lines| !is_less && *lines <= 2 * rows.len() + LEFTOVERS);
        // What cannot be written is read again another time.
        state.lines = match fits {
            Some(lines) if added.is_empty() || self.append(&added) => Some(lines),
            _ => self.rewrite(&state.rows).then_some(state.rows.len()),
        };
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Option<State>> {
        // Rows are taken in one by one, each of them whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load(&self) -> State {
        let text = whole(&self.path).unwrap_or_default();
        let Some(lines) = text.strip_prefix(self.title.as_bytes()) else {
            return State {
                rows: Arc::default(),
                lines: None,
            };
        };
        let lines = lines.split(|byte| *byte == b'\n');
        let lines: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
        let count = lines.len();
        let mut rows = Rows::with_capacity(count);
        // In their order: the last one of a session counts.
        let read = in_threads(lines, |line| {
            let (key, row) = Row::read(line)?;
            Some((key, Arc::new(row)))
        });
        rows.extend(read.into_iter().flatten());
        State {
            rows: Arc::new(rows),
            lines: Some(count),
        }
    }

    /// Whether it worked. An earlier append may have been cut off, so this one begins on a line of its own.
    fn append(&self, lines: &str) -> bool {
        let bytes = format!("\n{lines}");
        let file = self.disk.open_log(&self.path);
        file.and_then(|mut file| file.append(bytes.as_bytes()))
            .is_ok()
    }

    /// Whether it worked. Of two that do this at once, the last one wins.
    fn rewrite(&self, rows: &Rows) -> bool {
        let mut text = self.title.clone();
        for (key, row) in rows {
            row.write(key, &mut text);
        }
        let dir = parent(&self.path);
        if create_dirs(&*self.disk, dir).is_err() {
            return false;
        }
        self.remove_leftovers(dir);
        let Ok((temporary, mut file)) = create_temporary(&*self.disk, &self.path) else {
            return false;
        };
        let renamed = file
            .append(text.as_bytes())
            .and_then(|()| self.disk.rename(&temporary, &self.path));
        if renamed.is_err() {
            let _ignored = self.disk.remove(&temporary);
        }
        renamed.is_ok()
    }

    /// Whoever was killed while writing has left a file that nobody wants. One that is being written at this moment may go
    /// too: then its writer has worked for nothing.
    fn remove_leftovers(&self, dir: &Path) {
        for name in OUTDATED {
            let _ignored = self.disk.remove(&dir.join(name));
        }
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|end| end == "tmp") {
                let _ignored = self.disk.remove(&path);
            }
        }
    }
}

fn absolute(path: &Path) -> Option<PathBuf> {
    std::path::absolute(path).ok()
}
