//! How much room sessions take (`offshoot du`). What several names share is counted once in a total.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use offshoot_session::SessionId;

use crate::inode::{Inode, links};
use crate::layout::Generation;
use crate::prune::is_base;
use crate::tree::id_of;
use crate::walk::{Walk, name_of, session_dirs};
use crate::{JsonlStore, Kept, StoreError};

/// How much room one session takes, by the lengths of its files in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionUsage {
    /// The id.
    pub id: SessionId,
    /// Its directory.
    pub path: PathBuf,
    /// The log, as far as it is this session's alone. The bases of a fork are part of its log.
    pub own: u64,
    /// Files that have other names too: logs that forks use, or that this fork uses.
    pub shared: u64,
    /// Everything else that is kept beside the log: older generations, journals, drafts.
    pub other: u64,
}

/// How much room a home takes, by the lengths of files in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The sessions, the one that takes most of its own first.
    pub sessions: Vec<SessionUsage>,
    /// All of them together; what they share counts once.
    pub in_sessions: u64,
    /// The blobs.
    pub in_blobs: u64,
    /// Deleted sessions, as far as they are not shared with sessions that are there.
    pub in_trash: u64,
    /// What could not be looked at, and why. It is not counted.
    pub unread: Vec<Kept>,
}

impl Usage {
    /// Sessions, blobs and trash together.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.in_sessions + self.in_blobs + self.in_trash
    }
}

impl JsonlStore {
    /// How much room everything here takes. What cannot be looked at is part of the answer.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let (dirs, problems) = session_dirs(&self.tree.root);
        let mut count = Count::default();
        count.unread(problems);
        let mut usage = Usage::default();
        for dir in dirs {
            let session = count.session(&dir, &mut usage.in_sessions);
            usage.sessions.extend(session);
        }
        usage.in_blobs = count.below(&self.blobs);
        usage.in_trash = count.below(&self.trash);
        usage.finish(count);
        usage
    }

    /// How much room some sessions take, without the blobs that they name.
    ///
    /// # Errors
    /// As [`JsonlStore::locate`], for the first one that is not there.
    pub fn usage_of(&self, ids: &[SessionId]) -> Result<Usage, StoreError> {
        let mut dirs = BTreeSet::new();
        for id in ids {
            dirs.insert(self.tree.find(id)?.place.dir);
        }
        let (mut usage, mut count) = (Usage::default(), Count::default());
        for dir in dirs {
            let session = count.session(&dir, &mut usage.in_sessions);
            usage.sessions.extend(session);
        }
        usage.finish(count);
        Ok(usage)
    }
}

impl Usage {
    fn finish(&mut self, count: Count) {
        self.unread = count.unread;
        let size = |one: &SessionUsage| (one.own, one.shared, one.other);
        self.sessions
            .sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| a.id.cmp(&b.id)));
    }
}

#[derive(Debug, Default)]
struct Count {
    seen: BTreeSet<Inode>,
    unread: Vec<Kept>,
}

impl Count {
    /// What is in one session's directory; `None` if it is empty, or holds only a lock.
    fn session(&mut self, dir: &Path, total: &mut u64) -> Option<SessionUsage> {
        let mut session = SessionUsage {
            id: id_of(dir),
            path: dir.to_owned(),
            own: 0,
            shared: 0,
            other: 0,
        };
        let files = self.files(dir);
        let top = files.iter().filter_map(|path| version(path)).max();
        for path in files {
            let Ok(meta) = fs::metadata(&path) else {
                continue;
            };
            let is_log = match version(&path) {
                Some(version) => Some(version) == top,
                None => is_base(name_of(&path)),
            };
            let part = match (links(&meta) > 1, is_log) {
                (true, _) => &mut session.shared,
                (false, true) => &mut session.own,
                (false, false) => &mut session.other,
            };
            *part += meta.len();
            *total += self.fresh(&meta);
        }
        let is_empty = session.own + session.shared + session.other == 0;
        (!is_empty).then_some(session)
    }

    fn below(&mut self, dir: &Path) -> u64 {
        let files = self.files(dir);
        let metas = files.iter().filter_map(|path| fs::metadata(path).ok());
        metas.map(|meta| self.fresh(&meta)).sum()
    }

    /// The length of a file that was not counted yet.
    fn fresh(&mut self, meta: &fs::Metadata) -> u64 {
        match Inode::of(meta) {
            Some(inode) if !self.seen.insert(inode) => 0,
            _ => meta.len(),
        }
    }

    fn files(&mut self, dir: &Path) -> Vec<PathBuf> {
        if !dir.exists() {
            return Vec::new();
        }
        let mut walk = Walk::default();
        walk.enter(dir);
        self.unread(walk.problems);
        walk.files
    }

    fn unread(&mut self, problems: Vec<(PathBuf, std::io::Error)>) {
        self.unread
            .extend(problems.into_iter().map(|(path, error)| Kept {
                path,
                reason: error.to_string(),
            }));
    }
}

fn version(path: &Path) -> Option<u64> {
    Generation::parse(name_of(path)).map(|generation| generation.version)
}
