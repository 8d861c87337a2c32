//! A home directory that lives as long as a test.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A temporary Offshoot home, and beside it a home directory of the person who would run it.
///
/// Both begin empty and are deleted on drop. The second exists so that a command under test finds neither the
/// configuration nor the cache of whoever runs the tests.
#[derive(Debug)]
pub struct TestHome {
    _root: TempDir,
    home: PathBuf,
    user: PathBuf,
}

impl TestHome {
    /// Creates both directories.
    ///
    /// # Panics
    /// If the temporary directory of the system cannot be written.
    pub fn new() -> Self {
        let root = TempDir::with_prefix("offshoot-test-").expect("create a temporary directory");
        // The real path, as the code under test prints it, also where the temporary directory is behind a link.
        let real = root
            .path()
            .canonicalize()
            .expect("resolve the temporary directory");
        let (home, user) = (real.join("home"), real.join("user"));
        for dir in [&home, &user] {
            fs::create_dir(dir).expect("create a directory in a new temporary directory");
        }
        Self {
            _root: root,
            home,
            user,
        }
    }

    /// The Offshoot home: what `--home` is given.
    pub fn path(&self) -> &Path {
        &self.home
    }

    /// The home directory of the person: what `HOME` is set to.
    pub fn user_path(&self) -> &Path {
        &self.user
    }

    /// Everything under [`path`](Self::path), for comparing before and after.
    ///
    /// Keys are relative with `/` between names. A directory has a key that ends in `/` and no bytes; a symbolic link
    /// has `-> ` and its target as bytes and is not followed.
    ///
    /// # Panics
    /// If something there cannot be read.
    pub fn bytes_of_tree(&self) -> BTreeMap<String, Vec<u8>> {
        let mut tree = BTreeMap::new();
        collect(&self.home, "", &mut tree);
        tree
    }
}

impl Default for TestHome {
    fn default() -> Self {
        Self::new()
    }
}

fn collect(dir: &Path, prefix: &str, tree: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(dir).expect("list a directory of the test home") {
        let entry = entry.expect("read an entry of the test home");
        let path = entry.path();
        let key = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry
            .file_type()
            .expect("read the type of an entry of the test home");
        if kind.is_dir() {
            let key = format!("{key}/");
            collect(&path, &key, tree);
            tree.insert(key, Vec::new());
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).expect("read a link in the test home");
            tree.insert(key, format!("-> {}", target.display()).into_bytes());
        } else if kind.is_file() {
            tree.insert(key, fs::read(&path).expect("read a file in the test home"));
        } else {
            // A socket or a pipe: its presence is all there is to compare.
            tree.insert(key, b"(special file)".to_vec());
        }
    }
}
