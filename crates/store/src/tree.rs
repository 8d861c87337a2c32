//! Walking the directories: `<root>/<project>/<session>/<log>` (`reference/persistence.md` §1.2).
//!
//! What is there is what the directories say; an index only remembers what was in them. Whatever cannot be searched is remembered as a problem of
//! its own and never keeps anything else from being found.

use std::fs::{self, FileType};
use std::io;
use std::path::{Path, PathBuf};

use offshoot_format::{ChildEvidence, Container};
use offshoot_session::{SessionHeader, SessionId};

use crate::StoreError;
use crate::layout::{Generation, UNDER_WAY, decode_id, encode_id, flat_log, session_dir};
use crate::read::bytes_of;

/// Where a session's log is, or will be.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    pub(crate) path: PathBuf,
}

/// A log that exists, by its name.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) place: Place,
    pub(crate) generation: Generation,
}

/// What one directory or file below the root turned out to be.
#[derive(Debug)]
pub(crate) enum Item {
    /// A session's directory, with the logs of its highest version: one, or two if it is there raw and packed.
    Session(Vec<Found>),
    /// Something that may hold sessions and cannot be used.
    Problem {
        id: SessionId,
        path: PathBuf,
        error: StoreError,
    },
}

/// A place that may hold a session.
#[derive(Debug)]
pub(crate) enum Spot {
    /// A directory that nobody has looked into.
    Directory(PathBuf),
    /// What is known to be none without looking.
    Problem(Item),
}

/// What is in a session's directory.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// The logs of the highest version, by name.
    pub(crate) logs: Vec<Found>,
    /// Whether something beside the log changes what a reader sees of it.
    pub(crate) is_under_way: bool,
}

impl Found {
    /// The log of this name in a directory; `None` if no log has such a name.
    pub(crate) fn named(dir: &Path, name: &str) -> Option<Self> {
        Some(Self {
            generation: Generation::parse(name)?,
            place: Place {
                dir: dir.to_owned(),
                path: dir.join(name),
            },
        })
    }

    /// The name of the log; `None` if it is not UTF-8.
    pub(crate) fn name(&self) -> Option<&str> {
        self.place.path.file_name()?.to_str()
    }

    /// What this log proves about the session that delegated work to it; nothing if it cannot be read.
    pub(crate) fn evidence(&self) -> Option<ChildEvidence> {
        let (bytes, _) = bytes_of(self).ok()?;
        ChildEvidence::of_file(self.generation.container, &bytes.bytes).ok()
    }
}

/// The directories below one root.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
}

/// What a search for one id came to.
struct Search {
    found: Vec<Found>,
    flat: Option<PathBuf>,
    unsearched: Option<StoreError>,
}

impl Tree {
    /// The one log of a session.
    pub(crate) fn find(&self, id: &SessionId) -> Result<Found, StoreError> {
        let Search {
            mut found,
            flat,
            unsearched,
        } = self.search(id)?;
        if found.len() > 1 {
            let paths = found.into_iter().map(|found| found.place.path).collect();
            return Err(StoreError::Ambiguous {
                id: id.clone(),
                paths,
            });
        }
        match (found.pop(), flat, unsearched) {
            (Some(found), ..) => Ok(found),
            (None, Some(path), _) => Err(StoreError::ObsoleteLayout { path }),
            (None, None, Some(error)) => Err(error),
            (None, None, None) => Err(StoreError::NotFound {
                id: id.clone(),
                root: self.root.clone(),
            }),
        }
    }

    /// Whether a new session may have this id. Where nobody may look, nobody can be in the way either.
    pub(crate) fn check_free(&self, id: &SessionId) -> Result<(), StoreError> {
        let Search {
            mut found, flat, ..
        } = self.search(id)?;
        match (found.pop(), flat) {
            (Some(found), _) => Err(StoreError::AlreadyExists {
                id: id.clone(),
                path: found.place.path,
            }),
            (None, Some(path)) => Err(StoreError::ObsoleteLayout { path }),
            (None, None) => Ok(()),
        }
    }

    fn search(&self, id: &SessionId) -> Result<Search, StoreError> {
        let name = encode_id(id)?;
        let mut search = Search {
            found: Vec::new(),
            flat: None,
            unsearched: None,
        };
        for project in entries(&self.root).map_err(StoreError::io("list", &self.root))? {
            let found = match project.kind {
                Ok(Kind::Directory) => top_generations(&project.path.join(&name)),
                Ok(Kind::Other) => continue,
                Err(error) => Err(StoreError::io("list", &project.path)(error)),
            };
            match found {
                Ok(found) => search.found.extend(found),
                Err(error) => search.unsearched = search.unsearched.or(Some(error)),
            }
            let flat =
                [".jsonl", ".jsonl.zstd"].map(|end| project.path.join(format!("{name}{end}")));
            search.flat = search.flat.or(flat.into_iter().find(|flat| flat.is_file()));
        }
        if search.found.len() > 1 {
            search.found = without_aliases(search.found);
        }
        Ok(search)
    }

    /// How the logs that are there are packed; `None` if there is none. DSH refuses a root in which both kinds are, so a
    /// new log follows the old ones.
    ///
    /// Looks only until it has found a compressed one: a home that is as it should be costs one look.
    pub(crate) fn packing(&self) -> Result<Option<Container>, StoreError> {
        let mut raw = None;
        for project in entries(&self.root).map_err(StoreError::io("list", &self.root))? {
            if !matches!(project.kind, Ok(Kind::Directory)) {
                continue;
            }
            // In whatever order they come: nobody wants to wait for all of them to look at one.
            for session in fs::read_dir(&project.path).into_iter().flatten().flatten() {
                let Ok(found) = top_generations(&session.path()) else {
                    continue;
                };
                match found.first().map(|found| found.generation.container) {
                    Some(Container::Zstd) => return Ok(Some(Container::Zstd)),
                    Some(Container::Raw) => raw = Some(Container::Raw),
                    None => {}
                }
            }
        }
        Ok(raw)
    }

    /// Everything below the root that is a session or that should not be passed over in silence.
    pub(crate) fn items(&self) -> Result<Vec<Item>, StoreError> {
        let items = self.spots()?.into_iter().filter_map(|spot| match spot {
            Spot::Directory(dir) => session_item(dir),
            Spot::Problem(item) => Some(item),
        });
        Ok(items.collect())
    }

    /// The same without looking into any directory of a session.
    pub(crate) fn spots(&self) -> Result<Vec<Spot>, StoreError> {
        let mut spots = Vec::new();
        let mut projects = Vec::new();
        for project in entries(&self.root).map_err(StoreError::io("list", &self.root))? {
            match project.kind {
                Ok(Kind::Directory) => projects.push(project.path),
                Ok(Kind::Other) => {}
                Err(error) => spots.push(Spot::Problem(unlisted(project.path, error))),
            }
        }
        for project in without_linked_twins(projects) {
            match entries(&project) {
                Ok(entries) => spots.extend(entries.into_iter().filter_map(session_spot)),
                Err(error) => spots.push(Spot::Problem(unlisted(project, error))),
            }
        }
        Ok(spots)
    }

    /// The header says where a file belongs; a file elsewhere is somebody's copy, not the session.
    pub(crate) fn check_place(
        &self,
        found: &Found,
        header: &SessionHeader,
    ) -> Result<(), StoreError> {
        let Place { dir, path } = &found.place;
        let expected = session_dir(&self.root, header)?;
        // The same directory under another name is the same place.
        if expected == *dir || real(&expected).is_some_and(|expected| real(dir) == Some(expected)) {
            return Ok(());
        }
        Err(StoreError::Misplaced {
            path: path.clone(),
            expected,
            found: header.id.clone(),
        })
    }
}

fn session_spot(entry: Entry) -> Option<Spot> {
    let path = entry.path;
    match entry.kind {
        Ok(Kind::Directory) => Some(Spot::Directory(path)),
        Ok(Kind::Other) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let id = decode_id(flat_log(&name)?);
            Some(Spot::Problem(Item::Problem {
                id,
                error: StoreError::ObsoleteLayout { path: path.clone() },
                path,
            }))
        }
        Err(error) => Some(Spot::Problem(unlisted(path, error))),
    }
}

/// What a directory is; `None` if it holds no log.
fn session_item(dir: PathBuf) -> Option<Item> {
    match top_generations(&dir) {
        Ok(found) if found.is_empty() => None,
        Ok(found) => Some(Item::Session(found)),
        Err(error) => Some(Item::Problem {
            id: id_of(&dir),
            path: dir,
            error,
        }),
    }
}

fn unlisted(path: PathBuf, error: io::Error) -> Item {
    Item::Problem {
        id: id_of(&path),
        error: StoreError::io("list", &path)(error),
        path,
    }
}

/// The id that a directory's name stands for.
pub(crate) fn id_of(dir: &Path) -> SessionId {
    decode_id(&dir.file_name().unwrap_or_default().to_string_lossy())
}

/// The logs of the highest version in a session's directory; none if there is no such directory.
fn top_generations(dir: &Path) -> Result<Vec<Found>, StoreError> {
    Ok(contents(dir)?.logs)
}

/// What is in a session's directory; nothing if there is no such directory.
pub(crate) fn contents(dir: &Path) -> Result<Contents, StoreError> {
    let failed = |error| StoreError::io("list", dir)(error);
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if is_absence(&error) => return Ok(Contents::default()),
        Err(error) => return Err(failed(error)),
    };
    let mut found: Vec<Found> = Vec::new();
    let mut is_under_way = false;
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let Some(name) = name.to_str() else {
            continue;
        };
        is_under_way |= UNDER_WAY.contains(&name);
        found.extend(Found::named(dir, name));
    }
    let top = found.iter().map(|found| found.generation.version).max();
    found.retain(|found| Some(found.generation.version) == top);
    found.sort_by(|a, b| a.place.path.cmp(&b.place.path));
    Ok(Contents {
        logs: found,
        is_under_way,
    })
}

pub(crate) fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

enum Kind {
    Directory,
    Other,
}

struct Entry {
    path: PathBuf,
    /// An entry that cannot be looked at may be anything.
    kind: io::Result<Kind>,
}

/// What is in a directory, by name; nothing if it does not exist.
fn entries(dir: &Path) -> io::Result<Vec<Entry>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let kind = |kind: FileType| match kind.is_dir() {
        true => Kind::Directory,
        false => Kind::Other,
    };
    let entry = |entry: fs::DirEntry| {
        let path = entry.path();
        // Only a link has to be looked at: what else an entry is, the directory itself knows.
        let kind = match entry.file_type() {
            Ok(link) if link.is_symlink() => fs::metadata(&path).map(|meta| kind(meta.file_type())),
            other => other.map(kind),
        };
        Entry { path, kind }
    };
    let mut entries: Vec<Entry> = entries
        .map(|one| one.map(entry))
        .collect::<io::Result<_>>()?;
    // They differ in the last name only, so their bytes are in the order of their names.
    entries.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    Ok(entries)
}

fn real(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

/// One log reached by two paths is one log.
fn without_aliases(found: Vec<Found>) -> Vec<Found> {
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut kept = Vec::new();
    for one in found {
        let path = real(&one.place.path).unwrap_or_else(|| one.place.path.clone());
        if !seen.contains(&path) {
            seen.push(path);
            kept.push(one);
        }
    }
    kept
}

/// A project directory that is reached by two names is one project: the first name counts.
fn without_linked_twins(projects: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut seen = std::collections::BTreeSet::new();
    let mut kept = projects;
    kept.retain(|project| real(project).is_none_or(|real| seen.insert(real)));
    kept
}
