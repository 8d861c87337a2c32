//! What sessions use, wherever they are: nobody is kept from deleting and restoring them meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use offshoot_format::{Container, stored_lines};

use crate::bases::bases_in;
use crate::blobs::BlobId;
use crate::collect::Kept;
use crate::generations::container_of;
use crate::inode::Inode;
use crate::note;
use crate::prune::Bases;
use crate::read::whole;
use crate::trash::SESSION;
use crate::walk::{Walk, is_draft, session_dirs};
use crate::{JsonlStore, StoreError};

/// A place where sessions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Trash,
    Sessions,
}

/// Where to look for sessions, one after the other, so that one that is moved in between is found all the same. With the
/// trash first, one that is restored later was found there, or is found in its place. But one that is deleted between the
/// first two looks is then in neither: so the trash is looked at again. A move is one step, so there is no time at which
/// a session is nowhere.
pub(super) const LOOKS: [Look; 3] = [Look::Trash, Look::Sessions, Look::Trash];

/// The directories that one look finds.
pub(super) type Found = Result<Vec<PathBuf>, StoreError>;

impl Look {
    /// The directories below which there are sessions at this moment; of the trash without those in `doomed` entries.
    pub(super) fn roots(self, store: &JsonlStore, doomed: &BTreeSet<PathBuf>) -> Found {
        if self == Self::Sessions {
            return Ok(vec![store.tree.root.clone()]);
        }
        let entries = store.entries()?.into_iter();
        let entries = entries.map(|entry| store.trash.join(entry));
        let stay = entries.filter(|entry| !doomed.contains(entry));
        Ok(stay.map(|entry| entry.join(SESSION)).collect())
    }
}

/// The blobs that any session names, or the first file of which that cannot be told. Each look is taken when the one before
/// it has been gone through.
pub(super) fn named_in(looks: impl IntoIterator<Item = Found>) -> Result<BTreeSet<BlobId>, Kept> {
    let mut named = BTreeSet::new();
    // What lies in the trash is seen twice, and does not change there.
    let mut read = BTreeSet::new();
    for roots in looks {
        let mut walk = Walk::default();
        for root in roots.map_err(|error| unlisted(&error))? {
            walk.enter(&root);
        }
        if let Some((path, error)) = walk.problems.into_iter().next() {
            let reason = error.to_string();
            return Err(Kept { path, reason });
        }
        for path in walk.files {
            let inode = fs::metadata(&path).ok().as_ref().and_then(Inode::of);
            if inode.is_some() && !read.insert((path.clone(), inode)) {
                continue;
            }
            match references_of(&path) {
                Ok(found) => named.extend(found),
                // It was somebody's draft a moment ago, and is now there under its own name.
                Err(_) if is_draft(&path) && !path.exists() => {}
                Err(reason) => return Err(Kept { path, reason }),
            }
        }
    }
    Ok(named)
}

/// The bases of all sessions.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) bases: Bases,
    /// Places of which it is not known what is in them.
    pub(super) failed: Vec<Kept>,
    /// Forks that do not say how much of their bases counts: all of it does.
    pub(super) unread: Vec<Kept>,
}

/// Gathers them as [`named_in`] does names; files that are `gone` are as good as not there.
pub(super) fn gather_bases(
    looks: impl IntoIterator<Item = (Look, Found)>,
    gone: &BTreeSet<PathBuf>,
) -> Gathered {
    let mut all = Gathered::default();
    let mut seen = BTreeSet::new();
    for (look, roots) in looks {
        let dirs = match (look, roots) {
            (_, Err(error)) => {
                all.failed.push(unlisted(&error));
                continue;
            }
            (Look::Trash, Ok(dirs)) => dirs,
            (Look::Sessions, Ok(roots)) => {
                let (dirs, problems): (Vec<_>, Vec<_>) =
                    roots.iter().map(|root| session_dirs(root)).unzip();
                let problems = problems.into_iter().flatten();
                all.failed.extend(problems.map(|(path, error)| Kept {
                    path,
                    reason: error.to_string(),
                }));
                dirs.concat()
            }
        };
        for dir in dirs {
            if !seen.insert(dir.clone()) {
                continue;
            }
            let kept = |error: StoreError| Kept {
                path: dir.clone(),
                reason: error.to_string(),
            };
            let recorded = bases_in(&dir).unwrap_or_else(|error| {
                all.unread.push(kept(error));
                Vec::new()
            });
            if let Err(error) = all.bases.add(&dir, &recorded, gone) {
                all.failed.push(kept(error));
            }
        }
    }
    all
}

fn unlisted(error: &StoreError) -> Kept {
    let path = match error {
        StoreError::Io { path, .. } => path.clone(),
        _ => PathBuf::new(),
    };
    let reason = error.to_string();
    Kept { path, reason }
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;

    use offshoot_format::{Base, BranchHeader, RunningDigest};
    use offshoot_session::{LogOffset, SessionHeader, SessionId};

    use super::*;
    use crate::Persistence as _;
    use crate::layout::Generation;

    const NOW: i64 = 9_000;

    /// A home with these files.
    fn home(files: &[(&str, &[u8])]) -> (tempfile::TempDir, JsonlStore) {
        let home = tempfile::tempdir().unwrap();
        let store = JsonlStore::new(home.path().join("sessions"), Container::Raw);
        for (name, bytes) in files {
            let path = store.root().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            File::create_new(path).unwrap().write_all(bytes).unwrap();
        }
        (home, store)
    }

    /// Runs `check` for a session that begins in either place and is moved to the other ahead of any look, or behind all.
    fn while_moved(files: &[(&str, &[u8])], check: impl Fn(&JsonlStore, &mut dyn FnMut(usize))) {
        let id = SessionId::from("demo");
        for begins_in in [Look::Sessions, Look::Trash] {
            for moment in 0..=LOOKS.len() {
                let (_home, store) = home(files);
                if begins_in == Look::Trash {
                    store.delete(&id, NOW).unwrap();
                }
                let mut ahead_of = |look| {
                    if look != moment {
                        return;
                    }
                    match begins_in {
                        Look::Sessions => store.delete(&id, NOW).unwrap(),
                        Look::Trash => store.restore(&id).unwrap(),
                    }
                };
                check(&store, &mut ahead_of);
            }
        }
    }

    #[test]
    fn what_a_session_names_is_known_whenever_it_is_deleted_or_restored() {
        let id = BlobId::of(b"x");
        let log = format!("{{\"x\":\"{id}\"}}\n");
        let files = [("--x--/demo/session.v4.jsonl", log.as_bytes())];
        while_moved(&files, |store, ahead_of| {
            let looks = LOOKS.into_iter().enumerate().map(|(number, look)| {
                ahead_of(number);
                look.roots(store, &BTreeSet::new())
            });
            assert_eq!(named_in(looks), Ok([id].into()));
        });
    }

    #[test]
    fn a_log_is_known_as_somebodys_own_whenever_its_session_is_deleted_or_restored() {
        let header = BranchHeader {
            session: SessionHeader::new("child".into(), 1),
            bases: vec![Base {
                frames: 1,
                bytes: 3,
                events: LogOffset::new(1),
                digest: RunningDigest::START,
            }],
        };
        let branch = format!("--x--/child/{}", Generation::BRANCH.file_name());
        let head = header.encode().unwrap();
        let files = [
            ("--x--/demo/session.v4.jsonl.zstd", &b"longer"[..]),
            (&branch, &head),
        ];
        let none = BTreeSet::new();
        while_moved(&files, |store, ahead_of| {
            let base = store.root().join("--x--/child/base-0.jsonl.zstd");
            let own = "--x--/demo/session.v4.jsonl.zstd";
            let trashed = store.trashed().unwrap().sessions;
            let own = match trashed.first() {
                Some(one) => one.path.join("session.v4.jsonl.zstd"),
                None => store.root().join(own),
            };
            fs::hard_link(own, &base).unwrap();
            let looks = LOOKS.into_iter().enumerate().map(|(number, look)| {
                ahead_of(number);
                (look, look.roots(store, &none))
            });
            let all = gather_bases(looks, &none);
            assert_eq!((all.failed, all.unread), (Vec::new(), Vec::new()));
            assert_eq!(all.bases.overlong(), []);
            // Nobody's own, it would be cut.
            let only = gather_bases([(Look::Sessions, Ok(vec![store.root().to_owned()]))], &none);
            let is_there = store.locate(&"demo".into()).is_ok();
            assert_eq!(only.bases.overlong().len(), usize::from(!is_there));
        });
    }
}
