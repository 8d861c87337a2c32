//! A git worktree for a fork, so that it and its parent do not work on the same files.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::Failure;
use crate::git::run as git;

/// A worktree that was made for a fork. Unless the fork keeps it, it goes away again.
#[derive(Debug, Serialize)]
#[must_use]
pub(crate) struct Worktree {
    #[serde(skip)]
    repository: PathBuf,
    #[serde(rename = "path")]
    root: PathBuf,
    /// Where in it the fork works: as deep as its parent does.
    pub(crate) cwd: PathBuf,
    /// What is checked out, in full.
    commit: String,
    /// Whether the log names it, last of all before the cut; else it is what is checked out now.
    at_cut: bool,
    #[serde(skip)]
    keeps: bool,
}

impl Worktree {
    /// Adds a worktree at `path` to the repository in which `cwd` lies, at the commit `known` or, if none is known, the one
    /// that is checked out there now. No branch is made.
    ///
    /// # Errors
    /// No repository, a place that is taken, or whatever git says.
    pub(crate) fn add(cwd: &Path, path: &Path, known: Option<&str>) -> Result<Self, Failure> {
        let root = std::path::absolute(path).map_err(|error| failed(path, &error.to_string()))?;
        let repository = git(cwd, ["rev-parse", "--show-toplevel"]).map_err(|said| {
            failed(path, &said).hint("--worktree needs a session that works in a git repository")
        })?;
        let repository = PathBuf::from(repository);
        let prefix =
            git(cwd, ["rev-parse", "--show-prefix"]).map_err(|said| failed(path, &said))?;
        let resolve = |name: &str| {
            git(
                cwd,
                [
                    "rev-parse",
                    "--verify",
                    "--quiet",
                    &format!("{name}^{{commit}}"),
                ],
            )
        };
        // A commit may be gone by now.
        let at_cut = known.and_then(|known| resolve(known).ok());
        let (commit, at_cut) = match at_cut {
            Some(commit) => (commit, true),
            None => {
                let head = resolve("HEAD").map_err(|_| {
                    failed(path, "the repository has no commit yet").hint("commit something first")
                })?;
                (head, false)
            }
        };
        let add = [
            OsStr::new("worktree"),
            OsStr::new("add"),
            OsStr::new("--quiet"),
            OsStr::new("--detach"),
            OsStr::new("--"),
            root.as_os_str(),
            OsStr::new(&commit),
        ];
        git(&repository, add).map_err(|said| failed(path, &said))?;
        let made = Self {
            cwd: match prefix.as_str() {
                "" => root.clone(),
                prefix => root.join(prefix.trim_end_matches('/')),
            },
            repository,
            root,
            commit,
            at_cut,
            keeps: false,
        };
        // What git does not know of at that commit, such as an empty directory, it does not make.
        fs::create_dir_all(&made.cwd).map_err(|error| failed(path, &error.to_string()))?;
        Ok(made)
    }

    /// The fork is stored: the worktree is its.
    pub(crate) const fn keep(&mut self) {
        self.keeps = true;
    }

    /// What to know about it.
    pub(crate) fn said(&self) -> String {
        let short = self.commit.get(..12).unwrap_or(&self.commit);
        let which = match self.at_cut {
            true => "the last one that the log names before the cut",
            false => "the one that is checked out now: the log names none before the cut",
        };
        format!(
            "works in the git worktree `{}` at commit {short}, {which}; changes that were not committed are not in it",
            self.root.display()
        )
    }
}

impl Drop for Worktree {
    fn drop(&mut self) {
        if !self.keeps {
            let remove = [
                OsStr::new("worktree"),
                OsStr::new("remove"),
                OsStr::new("--force"),
                OsStr::new("--"),
                self.root.as_os_str(),
            ];
            // Whatever keeps it from going: the error that is being told counts more.
            drop(git(&self.repository, remove));
        }
    }
}

fn failed(path: &Path, reason: &str) -> Failure {
    let message = format!(
        "no git worktree could be made at `{}`: {reason}",
        path.display()
    );
    Failure::new("WORKTREE_FAILED", message)
}
