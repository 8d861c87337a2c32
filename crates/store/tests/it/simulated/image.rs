//! What a power cut leaves.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::write;

/// A home after a power cut: each path with the file that it names, or a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Image(pub(super) BTreeMap<PathBuf, Entry>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Entry {
    Dir,
    File { inode: u64, bytes: Arc<Vec<u8>> },
}

/// Paths, and what is there.
pub(crate) type Files = Vec<(PathBuf, Arc<Vec<u8>>)>;

impl Image {
    /// What lies in directories of these names, with the names below them.
    pub(crate) fn below(&self, names: &[&str]) -> Files {
        let inside = |path: &&PathBuf| {
            path.iter()
                .any(|part| names.iter().any(|name| part == *name))
        };
        let paths = self.0.keys().filter(inside);
        let bytes = |path: &PathBuf| match &self.0[path] {
            Entry::Dir => Arc::default(),
            Entry::File { bytes, .. } => Arc::clone(bytes),
        };
        paths.map(|path| (path.clone(), bytes(path))).collect()
    }

    /// Makes it real below a directory. Names of one file are hard links again.
    pub(crate) fn write_below(&self, top: &Path) {
        let mut first_names: HashMap<u64, PathBuf> = HashMap::new();
        for (path, entry) in &self.0 {
            let path = top.join(path);
            match entry {
                Entry::Dir => fs::create_dir(&path).unwrap(),
                Entry::File { inode, bytes } => match first_names.get(inode) {
                    Some(first) => fs::hard_link(first, &path).unwrap(),
                    None => {
                        write(&path, &**bytes);
                        first_names.insert(*inode, path);
                    }
                },
            }
        }
    }
}
