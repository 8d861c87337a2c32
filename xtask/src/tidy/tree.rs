//! The files of the repository, read once for all checks.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// What git tracks, and what it would track: a problem should show before the commit, not after.
#[derive(Debug, Default)]
pub(super) struct Tree {
    paths: BTreeSet<String>,
    texts: Vec<TextFile>,
}

/// A file in UTF-8.
#[derive(Debug)]
pub(super) struct TextFile {
    /// Relative to the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

impl TextFile {
    /// Lines with their numbers, which start at 1. A carriage return is part of its line.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.split_terminator('\n'))
    }

    pub(super) fn extension(&self) -> Option<&str> {
        Path::new(&self.path).extension()?.to_str()
    }

    pub(super) fn is_rust(&self) -> bool {
        self.extension() == Some("rs")
    }
}

impl Tree {
    pub(super) fn load(root: &Path) -> Result<Self> {
        let output = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root)
            .stderr(Stdio::inherit())
            .output()
            .context("start `git ls-files`")?;
        ensure!(
            output.status.success(),
            "`git ls-files` failed ({}); tidy needs a git checkout",
            output.status
        );
        let listed = String::from_utf8(output.stdout)
            .context("file names of this repository are in UTF-8")?;

        let mut tree = Self::default();
        for path in listed.split_terminator('\0') {
            let full = root.join(path);
            // Deleted but not yet staged, or a folder with a repository of its own.
            if !full.is_file() || tree.paths.contains(path) {
                continue;
            }
            let bytes = fs::read(&full).with_context(|| format!("read `{path}`"))?;
            tree.add(path, bytes);
        }
        Ok(tree)
    }

    fn add(&mut self, path: &str, bytes: Vec<u8>) {
        self.paths.insert(path.to_owned());
        if bytes.contains(&0) {
            return;
        }
        if let Ok(text) = String::from_utf8(bytes) {
            self.texts.push(TextFile {
                path: path.to_owned(),
                text,
            });
        }
    }

    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &TextFile> {
        self.texts.iter()
    }

    pub(super) fn text(&self, path: &str) -> Option<&TextFile> {
        self.texts.iter().find(|file| file.path == path)
    }

    /// Whether this is a file of the repository, or a folder with one in it. The empty path is the root.
    pub(super) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        path.is_empty()
            || self.paths.contains(path)
            || self
                .paths
                .range(folder.clone()..)
                .next()
                .is_some_and(|next| next.starts_with(&folder))
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.add(path, text.as_bytes().to_vec());
        }
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_files_and_the_folders_above_them() {
        let tree = Tree::of(&[("docs/a/b.md", ""), ("docs-old.md", "")]);
        for there in ["docs/a/b.md", "docs/a", "docs/", ""] {
            assert!(tree.has(there), "{there}");
        }
        for absent in ["docs/a/b", "docs/b", "doc"] {
            assert!(!tree.has(absent), "{absent}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_known_but_not_read() {
        let mut tree = Tree::default();
        tree.add("a.bin", vec![b'a', 0]);
        tree.add("b.bin", vec![0xff]);
        assert_eq!(tree.len(), 2);
        assert_eq!(tree.texts().count(), 0);
    }
}
