//! The bases of linked forks, once the session that they were forked from is gone for good.
//!
//! A base is a hard link to the log of an ancestor, and only a recorded prefix of it counts. While the ancestor is there, the
//! rest is the ancestor's own; when it is gone, the rest is words that somebody has deleted. So they are cut away: the
//! longest prefix that any base of this file counts is written to a new file, once, and every base becomes a link to that
//! one, by rename. Nothing is ever cut in place: who has the old file open goes on reading it, and a link from elsewhere,
//! such as that of a backup, keeps its bytes.
//!
//! A crash at any moment leaves every base with the old file or the new one, and both hold what counts; whoever collects
//! next does the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use offshoot_format::base_name;

use crate::StoreError;
use crate::bases::BaseLink;
use crate::disk::{Disk, Draft, link_temporary, parent};
use crate::inode::Inode;
use crate::layout::Generation;
use crate::walk::{children, drafted, name_of};

/// A file that was replaced by its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// The bases that were links to it.
    pub bases: Vec<PathBuf>,
    /// How long it was, in bytes.
    pub was: u64,
    /// How much of it still counts, in bytes.
    pub is: u64,
}

/// The bases of all sessions, and which of their files are somebody's own log.
#[derive(Debug, Default)]
pub(crate) struct Bases {
    known: BTreeMap<Inode, Vec<BaseLink>>,
    /// Files that stay as they are: the logs of sessions that are there, and those of which it is not known how much counts.
    kept: BTreeSet<Inode>,
}

impl Bases {
    /// Adds the bases of the session in a directory, with how much of each counts, as the head of its branch says it. All of
    /// a base that the head does not name counts: it is one of a fork that is being made. Files that are `gone` are as good
    /// as not there.
    pub(crate) fn add(
        &mut self,
        dir: &Path,
        recorded: &[BaseLink],
        gone: &BTreeSet<PathBuf>,
    ) -> Result<(), StoreError> {
        let failed = |path: &Path, error| StoreError::io("read", path)(error);
        for path in children(dir).map_err(|error| failed(dir, error))? {
            let recorded = recorded.iter().filter(|base| base.path == path);
            let recorded = recorded.max_by_key(|base| base.bytes);
            let name = name_of(&path);
            let is_own = is_own_log(name);
            let is_base = is_base(drafted(name).unwrap_or(name));
            if (!is_own && !is_base) || gone.contains(&path) {
                continue;
            }
            let inode = match fs::metadata(&path) {
                Ok(meta) => Inode::of(&meta),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(&path, error)),
            };
            let Some(inode) = inode else {
                continue;
            };
            match recorded.filter(|_| !is_own) {
                Some(base) => self.known.entry(inode).or_default().push(base.clone()),
                None => {
                    self.kept.insert(inode);
                }
            }
        }
        Ok(())
    }

    /// The bases that hold more than counts and are nobody's own log, each file once.
    pub(crate) fn overlong(&self) -> Vec<Pruned> {
        let nobodys = self
            .known
            .iter()
            .filter(|(inode, _)| !self.kept.contains(inode));
        let mut overlong = Vec::new();
        for (inode, known) in nobodys {
            let counts = known.iter().map(|base| base.bytes).max().unwrap_or(0);
            // The session may have been moved since, and be known in the other place too.
            let is_it = |path: &PathBuf| {
                fs::metadata(path).is_ok_and(|meta| Inode::of(&meta).as_ref() == Some(inode))
            };
            let paths = known.iter().map(|base| base.path.clone());
            let bases: Vec<_> = paths.filter(is_it).collect();
            let was = bases.first().and_then(|base| fs::metadata(base).ok());
            let was = was.map_or(0, |meta| meta.len());
            if was > counts {
                overlong.push(Pruned {
                    bases,
                    was,
                    is: counts,
                });
            }
        }
        overlong
    }
}

/// Makes all these bases, which are links to one file, links to a new one that is its beginning.
pub(crate) fn prune(disk: &dyn Disk, pruned: &Pruned) -> Result<(), StoreError> {
    let failed = |path: &Path, error| StoreError::io("prune", path)(error);
    let Some(source) = pruned.bases.first() else {
        return Ok(());
    };
    let bytes = beginning(source, pruned.is).map_err(|error| failed(source, error))?;
    let draft = Draft::write(disk, source, &bytes).map_err(|error| failed(source, error))?;
    let replaced = pruned.bases.iter().try_for_each(|base| {
        replace(disk, draft.temporary(), base).map_err(|error| failed(base, error))
    });
    draft.discard();
    replaced
}

/// Gives a base the new file, in one step.
fn replace(disk: &dyn Disk, new: &Path, base: &Path) -> io::Result<()> {
    let second = link_temporary(disk, new, base)?;
    if let Err(error) = disk.rename(&second, base) {
        let _ignored = disk.remove(&second);
        return Err(error);
    }
    disk.sync_dir(parent(base))
}

fn beginning(path: &Path, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(len).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

/// Whether a file of this name is a session's own log: any generation, and the own part of a fork.
pub(crate) fn is_own_log(name: &str) -> bool {
    Generation::parse(name).is_some()
}

/// Whether a file of this name is a base: `base-<n>.jsonl.zstd`, and no other.
pub(crate) fn is_base(name: &str) -> bool {
    let number = name
        .strip_prefix("base-")
        .and_then(|name| name.split_once('.')?.0.parse().ok());
    number.is_some_and(|number| base_name(number) == name)
}
