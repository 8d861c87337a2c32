//! Instructions that a project keeps in files: `AGENTS.md` of the user, then of every directory from the project's root down
//! to where the session works (`reference/agent.md` §3.7).
//!
//! The root is the nearest directory upwards with a `.git` in it; without one only the directory itself counts. What cannot
//! be read is not there, and neither is a link that leads out of the project: whoever clones a project does not mean to show
//! a model the rest of the disk.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use offshoot_tool_api::{InstructionFile, Instructions};

use crate::observations::FileDigest;

/// How much of a file is read at most, in bytes.
const MAX_SOURCE: u64 = 1024 * 1024;

/// Reads the instructions of a project.
#[derive(Clone, Debug)]
pub struct ProjectInstructions {
    /// The user's own file, whatever it is called.
    user: Option<PathBuf>,
    names: Vec<String>,
}

impl ProjectInstructions {
    /// `AGENTS.md` of the project, and `user`, which applies everywhere.
    #[must_use]
    pub fn new(user: Option<PathBuf>) -> Self {
        Self {
            user,
            names: vec!["AGENTS.md".to_owned()],
        }
    }

    /// Looks in each directory for files of these names, in this order, instead of `AGENTS.md` alone.
    #[must_use]
    pub fn named(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.names = names.into_iter().collect();
        self
    }
}

impl Instructions for ProjectInstructions {
    fn files(&self, cwd: Option<&Path>) -> Vec<InstructionFile> {
        let mut found = Found::default();
        if let Some(user) = &self.user {
            let name = user.file_name().unwrap_or_default().to_string_lossy();
            let scope = Scope {
                dir: "~",
                name: &name,
                path: user.display().to_string(),
            };
            found.add(user, &scope, None);
        }
        let Some(cwd) = cwd.filter(|cwd| cwd.is_absolute()) else {
            return found.files;
        };
        let root = root_of(cwd);
        let below = cwd.strip_prefix(root).unwrap_or(Path::new(""));
        let mut dir = root.to_owned();
        self.look_in(root, &dir, &mut found);
        for part in below.components() {
            dir.push(part);
            self.look_in(root, &dir, &mut found);
        }
        found.files
    }
}

impl ProjectInstructions {
    fn look_in(&self, root: &Path, dir: &Path, found: &mut Found) {
        let relative = dir.strip_prefix(root).unwrap_or(dir).to_string_lossy();
        let dir_name = if relative.is_empty() { "." } else { &*relative };
        for name in &self.names {
            let path = match dir_name {
                "." => name.clone(),
                dir => format!("{dir}/{name}"),
            };
            let scope = Scope {
                dir: dir_name,
                name,
                path,
            };
            found.add(&dir.join(name), &scope, Some(root));
        }
    }
}

struct Scope<'a> {
    dir: &'a str,
    name: &'a str,
    path: String,
}

#[derive(Default)]
struct Found {
    files: Vec<InstructionFile>,
    /// The files themselves: none is shown twice, whatever names it has.
    seen: HashSet<PathBuf>,
    /// What was found in each directory: copies of the same text are shown once.
    texts: HashSet<(PathBuf, String)>,
}

impl Found {
    fn add(&mut self, path: &Path, scope: &Scope<'_>, within: Option<&Path>) {
        let Ok(real) = path.canonicalize() else {
            return;
        };
        let is_outside = within.is_some_and(|root| {
            root.canonicalize()
                .map_or(true, |root| !real.starts_with(root))
        });
        if is_outside || self.seen.contains(&real) {
            return;
        }
        let Ok(bytes) = read(&real) else {
            return;
        };
        let digest = FileDigest::of(&bytes).to_string();
        let dir = path.parent().unwrap_or(path).to_owned();
        if !self.texts.insert((dir, digest.clone())) {
            return;
        }
        self.seen.insert(real);
        self.files.push(InstructionFile {
            scope: format!("{}\0{}", scope.dir, scope.name),
            path: scope.path.clone(),
            text: String::from_utf8_lossy(&bytes).into_owned(),
            digest,
        });
    }
}

fn root_of(cwd: &Path) -> &Path {
    cwd.ancestors()
        .find(|dir| dir.join(".git").exists())
        .unwrap_or(cwd)
}

/// Nobody waits for a pipe or a device.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_SOURCE).read_to_end(&mut bytes)?;
    Ok(bytes)
}
