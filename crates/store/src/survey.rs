//! Looking over a home for a list: one look at each directory and each log, and no more than the header of a log that is
//! not known in this revision.
//!
//! Every revision is taken before what it stands for is read. What changed so shortly before that another change might not
//! show is read again the next time, and not remembered.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use offshoot_format::CURRENT_VERSION;
use offshoot_session::{Origin, SessionHeader, SessionId};

use crate::index::{Directory, Log, Row, Rows};
use crate::layout::Form;
use crate::listing::{Listed, Status};
use crate::logbytes::LogBytes;
use crate::persistence::{Persistence as _, fill_with};
use crate::read::{bytes_of, header_of, may_have_moved, modified};
use crate::summary::{Fault, Summary};
use crate::threads::in_threads;
use crate::tree::{Contents, Found, Item, Spot, Tree, contents, id_of};
use crate::{JsonlStore, Revision, StoreError};

/// Where a listed session was found, and in which revision.
#[derive(Debug)]
pub(crate) struct Source {
    found: Found,
    revision: Option<Revision>,
    /// Whether what is read of it in this revision may be remembered.
    is_lasting: bool,
    /// The session that delegated work to it.
    child_of: Option<SessionId>,
    /// Of an older log: the files of the children that may prove something about it.
    children: Vec<(Found, Revision)>,
    /// What those were when the body was read that the index has.
    evidence: Vec<Revision>,
}

impl JsonlStore {
    /// Every session and every problem below the root, in the order of their directories.
    pub(crate) fn survey(&self, now: i64) -> Result<Vec<Listed>, StoreError> {
        let spots = self.tree.spots()?;
        let known = self
            .index
            .as_ref()
            .map(|index| index.rows())
            .unwrap_or_default();
        let look = Look {
            tree: &self.tree,
            known: &known,
            now,
        };
        let seen = in_threads(spots, |spot| look.at(spot));
        let gone = look.gone(&seen);
        // Only who has the rows alone can change them without copying them.
        drop(known);
        let mut fresh = Vec::new();
        let mut rows = Vec::with_capacity(seen.len());
        for one in seen {
            fresh.extend(one.key.zip(one.fresh));
            rows.extend(one.listed);
        }
        if let Some(index) = &self.index {
            index.remember(fresh, &gone);
        }
        mind_children(&mut rows, now);
        mark_duplicates(&mut rows);
        Ok(rows)
    }

    /// See [`crate::Persistence::fill`].
    pub(crate) fn fill_listed(&self, rows: &mut [Listed], budget: u64) {
        let mut fresh = Vec::new();
        fill_with(rows, budget, |row| {
            let Some(source) = &row.source else {
                // Not from this store's own list.
                let read = self.read(&row.id).map(|read| Summary::of(&read.stored));
                return (read.map_err(|error| Fault::of(&error)), row.size);
            };
            let (bytes, meta) = match bytes_of(&source.found) {
                Ok(read) => read,
                // It is another one by now, or gone: whoever looks it up finds out.
                Err(error) if may_have_moved(&error) => {
                    let read = self.read(&row.id).map(|read| Summary::of(&read.stored));
                    return (read.map_err(|error| Fault::of(&error)), 0);
                }
                Err(error) => return (Err(Fault::of(&error)), 0),
            };
            let body = self.body(&row.id, source, &bytes);
            if source.revision == Some(Revision::of(&meta)) {
                fresh.extend(self.row_of(row, source, &body));
            }
            (body, bytes.bytes.len() as u64)
        });
        if let Some(index) = &self.index {
            index.remember(fresh, &[]);
        }
    }

    /// What the events of a listed session say.
    fn body(&self, id: &SessionId, source: &Source, bytes: &LogBytes) -> Result<Summary, Fault> {
        let children = source.children.iter().map(|(found, _)| found);
        let children: Vec<_> = children.filter_map(Found::evidence).collect();
        let stored = self.admit_with(id, &source.found, bytes, &children);
        stored
            .map(|stored| Summary::of(&stored))
            .map_err(|error| Fault::of(&error))
    }

    /// The row in which a body is remembered; `None` if it must not be.
    fn row_of(
        &self,
        listed: &Listed,
        source: &Source,
        body: &Result<Summary, Fault>,
    ) -> Option<(String, Row)> {
        // A branch may be refused because of its bases.
        let is_of_the_file = match body {
            Ok(_) => true,
            Err(fault) => {
                fault.status != Status::Unreadable
                    && source.found.generation.form == Form::SelfContained
            }
        };
        // Something may have been put beside the log since the directory was looked at.
        let is_plain = source.is_lasting
            && contents(&source.found.place.dir).is_ok_and(|contents| !contents.is_under_way);
        if !is_of_the_file || !is_plain {
            return None;
        }
        let key = key_of(&self.tree.root, &source.found.place.dir)?;
        let known = self.index.as_ref()?.rows();
        let log = Log {
            name: source.found.name()?.to_owned(),
            revision: source.revision?,
            header: listed.header.as_ref().ok()?.clone(),
            body: Some(body.clone()),
            evidence: source.children.iter().map(|(_, one)| *one).collect(),
        };
        let dir = known.get(key).and_then(|row| row.dir.clone());
        Some((
            key.to_owned(),
            Row {
                dir,
                log: Some(log),
            },
        ))
    }

    /// See [`crate::Persistence::note_summary`]. The writer is there, so nobody else changes the file, and nobody has to
    /// wait until a change would show.
    pub(crate) fn note_body(&self, id: &SessionId, summary: &Summary) -> Option<()> {
        let index = self.index.as_ref()?;
        let found = self.tree.find(id).ok()?;
        let dir = &found.place.dir;
        let is_plain = contents(dir).is_ok_and(|contents| !contents.is_under_way);
        if !is_plain || found.generation.version != CURRENT_VERSION {
            return None;
        }
        let revision = Revision::of(&fs::metadata(&found.place.path).ok()?);
        let log = Log {
            name: found.name()?.to_owned(),
            revision,
            header: header_of(&found).ok()?,
            body: Some(Ok(summary.clone())),
            evidence: Vec::new(),
        };
        let row = Row {
            dir: None,
            log: Some(log),
        };
        index.remember(vec![(key_of(&self.tree.root, dir)?.to_owned(), row)], &[]);
        Some(())
    }
}

/// One look over a home.
struct Look<'a> {
    tree: &'a Tree,
    known: &'a Rows,
    now: i64,
}

/// What looking at one place came to.
struct Seen {
    /// `None` if nothing is there.
    listed: Option<Listed>,
    key: Option<String>,
    /// The row, if it is not in the index as it is.
    fresh: Option<Row>,
}

impl Look<'_> {
    fn at(&self, spot: Spot) -> Seen {
        let dir = match spot {
            Spot::Directory(dir) => dir,
            Spot::Problem(item) => {
                return Seen {
                    listed: Some(problem(item)),
                    key: None,
                    fresh: None,
                };
            }
        };
        let key = key_of(&self.tree.root, &dir).map(str::to_owned);
        let known = key.as_ref().and_then(|key| self.known.get(key));
        let (contents, directory) = self.look_into(&dir, known.and_then(|row| row.dir.as_ref()));
        let Contents { logs, is_under_way } = match contents {
            Ok(contents) => contents,
            Err(error) => {
                let item = Item::Problem {
                    id: id_of(&dir),
                    path: dir,
                    error,
                };
                return Seen {
                    listed: Some(problem(item)),
                    key,
                    fresh: None,
                };
            }
        };
        let known_log = known.and_then(|row| row.log.as_ref());
        let (listed, log) = match logs.is_empty() {
            true => (None, Part::Unknown),
            false => {
                let beside = match (&directory, is_under_way) {
                    (_, true) => Beside::UnderWay,
                    (Part::Known(_), false) => Beside::Unchanged,
                    _ => Beside::Unknown,
                };
                let (listed, log) = self.session(logs, beside, known_log);
                (Some(listed), log)
            }
        };
        let is_fresh = matches!(directory, Part::Fresh(_)) || matches!(log, Part::Fresh(_));
        let fresh = is_fresh.then(|| Row {
            dir: directory.into_value(),
            log: log.into_value(),
        });
        Seen { listed, key, fresh }
    }

    /// What is in a directory: as it is remembered, if it has not changed since.
    fn look_into<'k>(
        &self,
        dir: &Path,
        known: Option<&'k Directory>,
    ) -> (Result<Contents, StoreError>, Part<'k, Directory>) {
        let revision = fs::metadata(dir).ok().map(|meta| Revision::of(&meta));
        if let Some(known) = known.filter(|known| Some(known.revision) == revision) {
            let logs = known.logs.iter().filter_map(|name| Found::named(dir, name));
            let contents = Contents {
                logs: logs.collect(),
                is_under_way: false,
            };
            return (Ok(contents), Part::Known(known));
        }
        let found = contents(dir);
        let lasting = revision.filter(|revision| revision.is_settled(self.now));
        let part = match (&found, lasting) {
            (Ok(contents), Some(revision)) if !contents.is_under_way => {
                let names = contents.logs.iter().filter_map(Found::name);
                Part::Fresh(Directory {
                    revision,
                    logs: names.map(str::to_owned).collect(),
                })
            }
            _ => Part::Unknown,
        };
        (found, part)
    }

    /// One session: its log, or the first of several that are as good.
    fn session<'k>(
        &self,
        mut logs: Vec<Found>,
        beside: Beside,
        known: Option<&'k Log>,
    ) -> (Listed, Part<'k, Log>) {
        let twins: Vec<PathBuf> = match logs.len() {
            1 => Vec::new(),
            _ => logs.iter().map(|log| log.place.path.clone()).collect(),
        };
        let found = logs.swap_remove(0);
        let path = found.place.path.clone();
        let meta = fs::metadata(&path).ok();
        let revision = meta.as_ref().map(Revision::of);
        let is_settled = revision.is_some_and(|revision| revision.is_settled(self.now));
        let known = known.filter(|known| {
            let same = revision.is_some_and(|now| now.has_same_content(&known.revision));
            same && Some(&*known.name) == found.name()
        });
        let header = match known {
            Some(known) => Ok(known.header.clone()),
            None => header_of(&found),
        };
        // A branch says what its bases say, and the directory tells whether those are the same.
        let is_branch = found.generation.form != Form::SelfContained;
        let is_told = match is_branch {
            true => beside == Beside::Unchanged,
            false => beside != Beside::UnderWay,
        };
        let part = match (known, &header, found.name(), revision) {
            // What was known is wrong for good, also when the directory is known again.
            (Some(known), ..) if !is_told && is_branch && known.body.is_some() => {
                Part::Fresh(Log {
                    body: None,
                    ..known.clone()
                })
            }
            (Some(known), ..) => Part::Known(known),
            (None, Ok(header), Some(name), Some(revision)) if is_settled => Part::Fresh(Log {
                name: name.to_owned(),
                revision,
                header: header.clone(),
                body: None,
                evidence: Vec::new(),
            }),
            _ => Part::Unknown,
        };
        let header = header.and_then(|header| {
            self.tree.check_place(&found, &header)?;
            Ok(header)
        });
        let id = match &header {
            Ok(header) => header.id.clone(),
            Err(_) => id_of(&found.place.dir),
        };
        let source = Source {
            revision,
            is_lasting: is_settled && beside != Beside::UnderWay,
            child_of: header.as_ref().ok().and_then(delegator).cloned(),
            children: Vec::new(),
            evidence: known
                .map(|known| known.evidence.clone())
                .unwrap_or_default(),
            found,
        };
        let header = match twins.is_empty() {
            true => header,
            false => Err(StoreError::Ambiguous {
                id: id.clone(),
                paths: twins,
            }),
        };
        let listed = Listed {
            id,
            path,
            modified: meta.as_ref().map_or(0, modified),
            size: meta.map_or(0, |meta| meta.len()),
            header,
            body: known
                .filter(|_| is_told)
                .and_then(|known| known.body.clone()),
            source: Some(Box::new(source)),
        };
        (listed, part)
    }

    /// The rows of directories that are not there any more.
    fn gone(&self, seen: &[Seen]) -> Vec<String> {
        let keys = seen.iter().filter_map(|one| one.key.as_deref());
        let keys: HashSet<&str> = keys.filter(|key| self.known.contains_key(*key)).collect();
        if keys.len() == self.known.len() {
            return Vec::new();
        }
        let gone = self.known.keys().filter(|key| !keys.contains(&***key));
        gone.cloned().collect()
    }
}

/// What lies beside a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    /// Something that changes what a reader sees of the log.
    UnderWay,
    /// What lay there when the index was written.
    Unchanged,
    /// Nothing that matters to a log that is whole in itself.
    Unknown,
}

/// A half of a row.
enum Part<'a, T> {
    /// As the index has it.
    Known(&'a T),
    /// To be remembered.
    Fresh(T),
    /// Not to be remembered.
    Unknown,
}

impl<T: Clone> Part<'_, T> {
    fn into_value(self) -> Option<T> {
        match self {
            Self::Known(known) => Some(known.clone()),
            Self::Fresh(fresh) => Some(fresh),
            Self::Unknown => None,
        }
    }
}

/// The name of a directory's row; `None` if the directory's own is not UTF-8.
pub(crate) fn key_of<'a>(root: &Path, dir: &'a Path) -> Option<&'a str> {
    dir.strip_prefix(root).ok()?.to_str()
}

fn problem(item: Item) -> Listed {
    let (id, path, error) = match item {
        Item::Problem { id, path, error } => (id, path, error),
        Item::Session(_) => unreachable!("BUG: a session is no problem"),
    };
    let modified = fs::metadata(&path).map_or(0, |meta| modified(&meta));
    Listed::new(id, path, modified, Err(error))
}

/// The session that delegated work to the one of this header.
pub(crate) fn delegator(header: &SessionHeader) -> Option<&SessionId> {
    header
        .parent
        .as_ref()
        .filter(|_| header.origin == Some(Origin::Subagent))
}

/// What an older log says depends on what its children prove. So each gets to know its own, and what is known of it counts
/// only for as long as they are what they were.
fn mind_children(rows: &mut [Listed], now: i64) {
    let is_older = |source: &Source| source.found.generation.version < CURRENT_VERSION;
    let sources = || rows.iter().filter_map(|row| row.source.as_deref());
    if !sources().any(is_older) {
        return;
    }
    let mut children: HashMap<SessionId, Vec<(Found, Revision)>> = HashMap::new();
    for source in sources() {
        if let (Some(parent), Some(revision)) = (&source.child_of, source.revision) {
            let siblings = children.entry(parent.clone()).or_default();
            siblings.push((source.found.clone(), revision));
        }
    }
    for row in rows {
        let Some(source) = row.source.as_deref_mut().filter(|source| is_older(source)) else {
            continue;
        };
        source.children = children.get(&row.id).cloned().unwrap_or_default();
        let revisions = || source.children.iter().map(|(_, revision)| revision);
        if !revisions().eq(&source.evidence) {
            row.body = None;
        }
        source.is_lasting &= revisions().all(|revision| revision.is_settled(now));
    }
}

/// One id in two projects: neither is better than the other, so both say so.
fn mark_duplicates(rows: &mut [Listed]) {
    let mut paths: HashMap<&SessionId, Vec<&PathBuf>> = HashMap::with_capacity(rows.len());
    for row in rows.iter().filter(|row| row.source.is_some()) {
        paths.entry(&row.id).or_default().push(&row.path);
    }
    if paths.values().all(|paths| paths.len() == 1) {
        return;
    }
    let twice = paths.into_iter().filter(|(_, paths)| paths.len() > 1);
    let owned = |paths: Vec<&PathBuf>| paths.into_iter().cloned().collect();
    let twice: HashMap<SessionId, Vec<PathBuf>> = twice
        .map(|(id, paths)| (id.clone(), owned(paths)))
        .collect();
    for row in rows {
        if let Some(paths) = twice.get(&row.id).filter(|_| row.header.is_ok()) {
            row.header = Err(StoreError::Ambiguous {
                id: row.id.clone(),
                paths: paths.clone(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use offshoot_format::Container;

    use super::*;
    use crate::Query;

    /// Whoever opened a file would not believe what the index says here.
    #[test]
    fn a_list_with_an_index_opens_no_session_file() {
        let home = tempfile::tempdir().unwrap();
        let cache = tempfile::tempdir().unwrap();
        let store = || {
            let store = JsonlStore::new(home.path().join("sessions"), Container::Zstd);
            store.with_cache(cache.path())
        };
        for id in ["one", "two"] {
            let header = SessionHeader::new(id.into(), 1);
            store().create(&header).unwrap().flush().unwrap();
        }
        let query = Query {
            now: 9_000_000_000_000,
            ..Query::default()
        };
        let filled = store().list_filled(&query, u64::MAX).unwrap();
        assert_eq!(filled.unread, 0);
        let mut false_rows = Vec::new();
        for (key, row) in &*store().index.unwrap().rows() {
            let mut row = Row::clone(row);
            let log = row.log.as_mut().unwrap();
            log.header.agent_preset = Some("of the index".into());
            let body = log.body.as_mut().unwrap().as_mut().unwrap();
            body.title = Some("of the index".into());
            false_rows.push((key.clone(), row));
        }
        store().index.unwrap().remember(false_rows, &[]);
        let mut rows = store().list(&query).unwrap().rows;
        rows.sort_by(|a, b| a.path.cmp(&b.path));
        let told: Vec<_> = rows
            .iter()
            .map(|row| {
                let header = row.header.as_ref().unwrap();
                let title = row.summary().unwrap().title.as_deref();
                (row.id.as_str(), header.agent_preset.as_deref(), title)
            })
            .collect();
        let said = Some("of the index");
        assert_eq!(told, [("one", said, said), ("two", said, said)]);
    }
}
