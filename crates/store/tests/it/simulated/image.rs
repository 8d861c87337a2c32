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
    File { inode: u64, bytes: Arc<[u8]> },
}

/// Paths, and what is there.
pub(crate) type Files = Vec<(PathBuf, Arc<[u8]>)>;

impl Image {
    /// What lies in directories of these names, with the names below them. Those of drafts, which are other ones each time,
    /// are all alike.
    pub(crate) fn below(&self, names: &[&str]) -> Files {
        let inside = |path: &&PathBuf| {
            path.iter()
                .any(|part| names.iter().any(|name| part == *name))
        };
        let paths = self.0.keys().filter(inside);
        let bytes = |path: &PathBuf| match &self.0[path] {
            Entry::Dir => Arc::from([]),
            Entry::File { bytes, .. } => Arc::clone(bytes),
        };
        paths.map(|path| (undrafted(path), bytes(path))).collect()
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
                        write(&path, bytes);
                        first_names.insert(*inode, path);
                    }
                },
            }
        }
    }
}

/// `<name>.<process and number>.tmp` without what is between the dots.
fn undrafted(path: &Path) -> PathBuf {
    match path.extension() {
        Some(extension) if extension == "tmp" => path.with_extension("").with_extension("tmp"),
        _ => path.to_owned(),
    }
}
