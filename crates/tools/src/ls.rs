//! `ls`: a directory as a tree.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::fs::{self, FileType};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use offshoot_tool_api::{
    Concurrency, Effects, JsonSchema, Tool, ToolArguments, ToolContext, ToolError, ToolOutput,
    ToolSpec, schemars,
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::files::{blocking, fs_error, here, io_error, meta, resolve};
use crate::names::{is_version_control, printable, walk};

/// The most entries of one result.
const MAX_ENTRIES: usize = 500;
/// The most entries of one directory below the first.
const MAX_BELOW: usize = 50;
const DEFAULT_DEPTH: u64 = 2;
const MAX_DEPTH: u64 = 10;
const TIMEOUT: Duration = Duration::from_secs(60);

const DESCRIPTION: &str = "Lists a directory as an indented tree: directories end in `/`, links show where they lead. \
Everything is listed, hidden files too, but what .gitignore leaves out is marked and not opened. At most 500 entries \
are shown, the upper levels first; what is missing is counted.";

/// The tool `ls`.
///
/// It only looks, and calls beside it that change something are exclusive, so it may run in parallel.
#[derive(Debug)]
pub(crate) struct LsTool {
    spec: ToolSpec,
}

impl LsTool {
    pub(crate) fn new() -> Self {
        let spec = ToolSpec::typed::<Arguments>("ls", DESCRIPTION);
        Self { spec }
    }
}

fn default_depth() -> u64 {
    DEFAULT_DEPTH
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The directory to list. A relative path starts at the working directory.
    #[serde(default = "here")]
    path: String,
    /// How many levels to list; 1 is the directory itself without what is in its directories.
    #[serde(default = "default_depth")]
    #[schemars(range(min = 1, max = 10))]
    depth: u64,
}

#[async_trait]
impl Tool for LsTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self) -> Effects {
        Effects::ReadOnly
    }

    fn concurrency(&self, _arguments: &ToolArguments) -> Concurrency {
        Concurrency::Parallel
    }

    fn timeout(&self) -> Option<Duration> {
        Some(TIMEOUT)
    }

    async fn execute(
        &self,
        arguments: ToolArguments,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let Arguments { path, depth } = arguments.parse()?;
        if !(1..=MAX_DEPTH).contains(&depth) {
            return Err(ToolError::invalid_arguments(format!(
                "invalid argument `depth`: it must be between 1 and {MAX_DEPTH}"
            )));
        }
        let root = resolve(cx, "path", &path)?;
        let cancel = cx.cancel.clone();
        blocking(move || {
            let tree = Tree::of(&root, depth, &cancel)?;
            Ok(render(&root, &tree))
        })
        .await
    }
}

/// A part of a directory tree. The first directory is the one that was asked for.
struct Tree {
    directories: Vec<Directory>,
    shown: usize,
    is_cut: bool,
}

#[derive(Default)]
struct Directory {
    entries: Vec<Entry>,
    /// Entries that are not listed.
    more: usize,
    unreadable: bool,
}

struct Entry {
    name: OsString,
    kind: Kind,
    is_ignored: bool,
    /// The index of what is in it, if it is listed.
    opened: Option<usize>,
}

enum Kind {
    File,
    Directory,
    Link(PathBuf),
    Other,
}

impl Tree {
    /// Looks at one level after the other, so that the upper ones are complete if there is too much.
    fn of(root: &Path, depth: u64, cancel: &CancellationToken) -> Result<Self, ToolError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotADirectory => fs_error(
                "FS_NOT_A_DIRECTORY",
                format!("cannot list `{}`: it is not a directory", root.display()),
            ),
            _ => io_error("list", root, &error),
        };
        let mut tree = Self {
            directories: Vec::new(),
            shown: 0,
            is_cut: false,
        };
        let mut next = VecDeque::from([(root.to_owned(), depth, None::<(usize, usize)>)]);
        while let Some((path, depth, parent)) = next.pop_front() {
            if cancel.is_cancelled() {
                return Err(ToolError::aborted());
            }
            let at = tree.directories.len();
            if let Some((directory, entry)) = parent {
                tree.directories[directory].entries[entry].opened = Some(at);
            }
            let listed = match entries(&path) {
                Ok(entries) => tree.take(entries, parent.is_none()),
                Err(error) if parent.is_none() => return Err(failed(error)),
                Err(_) => Directory {
                    unreadable: true,
                    ..Directory::default()
                },
            };
            if depth > 1 {
                for (index, entry) in listed.entries.iter().enumerate() {
                    if entry.is_opened() {
                        next.push_back((path.join(&entry.name), depth - 1, Some((at, index))));
                    }
                }
            }
            tree.directories.push(listed);
        }
        Ok(tree)
    }

    fn take(&mut self, mut entries: Vec<Entry>, is_first: bool) -> Directory {
        let room = MAX_ENTRIES - self.shown;
        let most = if is_first { room } else { room.min(MAX_BELOW) };
        let more = entries.len().saturating_sub(most);
        entries.truncate(most);
        self.shown += entries.len();
        self.is_cut |= more > 0;
        Directory {
            entries,
            more,
            unreadable: false,
        }
    }
}

impl Entry {
    fn is_opened(&self) -> bool {
        matches!(self.kind, Kind::Directory) && !self.is_ignored && !is_version_control(&self.name)
    }
}

/// What is in a directory, by name.
fn entries(path: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        entries.push((entry.file_name(), entry.file_type()?));
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    let kept: HashSet<OsString> = walk(path)
        .max_depth(Some(1))
        .build()
        .flatten()
        .filter(|entry| entry.depth() == 1)
        .map(|entry| entry.file_name().to_owned())
        .collect();
    let entries = entries.into_iter().map(|(name, kind)| Entry {
        kind: Kind::of(&path.join(&name), kind),
        is_ignored: !kept.contains(&name) && !is_version_control(&name),
        name,
        opened: None,
    });
    Ok(entries.collect())
}

impl Kind {
    fn of(path: &Path, kind: FileType) -> Self {
        if kind.is_dir() {
            Self::Directory
        } else if kind.is_symlink() {
            Self::Link(fs::read_link(path).unwrap_or_default())
        } else if kind.is_file() {
            Self::File
        } else {
            Self::Other
        }
    }
}

/// Facts for front ends.
#[derive(Serialize)]
struct Facts {
    shape: &'static str,
    path: String,
    entries: usize,
    truncated: bool,
}

fn render(root: &Path, tree: &Tree) -> ToolOutput {
    let shown = root.display().to_string();
    let mut text = format!("{}/\n", shown.trim_end_matches('/'));
    push_directory(&mut text, tree, 0, 1);
    if tree.shown == 0 {
        text.push_str("(empty)\n");
    }
    if tree.is_cut {
        text.push_str("(Not everything is shown. List a directory by itself to see more of it.)\n");
    }
    text.pop();
    let facts = Facts {
        shape: "tree",
        path: shown,
        entries: tree.shown,
        truncated: tree.is_cut,
    };
    ToolOutput::text(text).with_meta(meta(&facts))
}

fn push_directory(text: &mut String, tree: &Tree, at: usize, level: usize) {
    let indent = "  ".repeat(level);
    let directory = &tree.directories[at];
    for entry in &directory.entries {
        let name = printable(&entry.name);
        let (mark, leads) = match &entry.kind {
            Kind::File => ("", String::new()),
            Kind::Directory => ("/", String::new()),
            Kind::Link(target) => ("", format!(" -> {}", printable(target.as_os_str()))),
            Kind::Other => ("", " (not a file)".to_owned()),
        };
        let ignored = if entry.is_ignored { " (ignored)" } else { "" };
        text.push_str(&format!("{indent}{name}{mark}{leads}{ignored}\n"));
        if let Some(inner) = entry.opened {
            push_directory(text, tree, inner, level + 1);
        }
    }
    if directory.more > 0 {
        text.push_str(&format!("{indent}… {} more\n", directory.more));
    }
    if directory.unreadable {
        text.push_str(&format!("{indent}(cannot be read)\n"));
    }
}
