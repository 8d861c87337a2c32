//! What lies below a directory, whatever it is called: for those who must not overlook a file because they do not know its
//! name, and for those who remove everything.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use crate::layout::LOCK_NAME;

/// Files, and what could not be looked at.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) problems: Vec<(PathBuf, io::Error)>,
    seen: BTreeSet<PathBuf>,
}

impl Walk {
    /// Adds every file below a directory. Links are followed, but no directory is entered twice.
    pub(crate) fn enter(&mut self, dir: &Path) {
        if let Ok(real) = fs::canonicalize(dir)
            && !self.seen.insert(real)
        {
            return;
        }
        let paths = match children(dir) {
            Ok(paths) => paths,
            Err(error) => return self.problems.push((dir.to_owned(), error)),
        };
        for path in paths {
            match fs::metadata(&path) {
                Ok(meta) if meta.is_dir() => self.enter(&path),
                Ok(meta) if meta.is_file() => self.files.push(path),
                Ok(_) => {}
                // It has gone since, or it is a link to nothing.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.problems.push((path, error)),
            }
        }
    }
}

/// What is in a directory, in order; nothing if there is no such directory.
pub(crate) fn children(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Whether a directory holds nothing, or nothing but a lock: that of a session which somebody was about to create.
pub(crate) fn is_husk(dir: &Path) -> io::Result<bool> {
    let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    Ok(names.iter().all(|name| name == LOCK_NAME))
}

/// Every directory that may be one of a session: those two levels below the root, whether a log is in them or not. One that
/// is reached by two names is there once.
pub(crate) fn session_dirs(root: &Path) -> (Vec<PathBuf>, Vec<(PathBuf, io::Error)>) {
    let (mut dirs, mut problems) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    let mut level = vec![root.to_owned()];
    for _ in 0..2 {
        let mut below = Vec::new();
        for dir in &level {
            match children(dir) {
                Ok(paths) => below.extend(paths.into_iter().filter(|path| path.is_dir())),
                Err(error) => problems.push((dir.clone(), error)),
            }
        }
        level = below;
    }
    for dir in level {
        let real = fs::canonicalize(&dir).unwrap_or_else(|_| dir.clone());
        if seen.insert(real) {
            dirs.push(dir);
        }
    }
    (dirs, problems)
}

/// The name that a file is to get which was being written when its process ended, or still is: that of `<name>.<12 hex>.tmp`.
pub(crate) fn drafted(name: &str) -> Option<&str> {
    let (name, hex) = name.strip_suffix(".tmp")?.rsplit_once('.')?;
    let is_hex = hex.len() == 12 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hex && !name.is_empty()).then_some(name)
}

/// Whether that is somebody's draft, of whatever it may be.
pub(crate) fn is_draft(path: &Path) -> bool {
    drafted(name_of(path)).is_some()
}

pub(crate) fn name_of(path: &Path) -> &str {
    path.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

/// How long ago a file was last changed, in ms; negative if that is in the future, as a clock that was set back has it.
pub(crate) fn age(meta: &Metadata, now: i64) -> i64 {
    now.saturating_sub(crate::read::modified(meta))
}
