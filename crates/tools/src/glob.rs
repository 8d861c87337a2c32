//! `glob`: files by the pattern of their names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use offshoot_tool_api::{
    Concurrency, Effects, JsonSchema, Tool, ToolArguments, ToolContext, ToolError, ToolOutput,
    ToolSpec, schemars,
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::files::{blocking, fs_error, here, io_error, meta, resolve};
use crate::names::{NamePattern, printable, shown, split_absolute, top_directory, walk};
use crate::output::{keep, kept_notice};

/// The most paths of one result.
const MAX_PATHS: usize = 100;
/// How many directories are named of those in which there is more.
const MAX_DIRECTORIES: usize = 5;
const TIMEOUT: Duration = Duration::from_secs(60);

const DESCRIPTION: &str = "Finds files by name. A pattern without a slash, such as `*.rs`, means files of that name in \
any directory; one with a slash, such as `src/**/*.ts`, means paths from `path` on. Returns up to 100 paths, the most \
recently modified first, and how many more there are. Hidden files are found; files that .gitignore leaves out are not.";

/// The tool `glob`.
///
/// It only looks, and calls beside it that change something are exclusive, so it may run in parallel.
#[derive(Debug)]
pub(crate) struct GlobTool {
    spec: ToolSpec,
}

impl GlobTool {
    pub(crate) fn new() -> Self {
        let spec = ToolSpec::typed::<Arguments>("glob", DESCRIPTION);
        Self { spec }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The pattern, with `*`, `**`, `?`, `[…]` and `{…,…}`.
    pattern: String,
    /// The directory to search. A relative path starts at the working directory.
    #[serde(default = "here")]
    path: String,
}

#[async_trait]
impl Tool for GlobTool {
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
        let Arguments { pattern, path } = arguments.parse()?;
        let (root, names) = match split_absolute(&pattern) {
            Some((root, rest)) => (root, rest),
            None => (resolve(cx, "path", &path)?, pattern.clone()),
        };
        let names = NamePattern::new(&names)?;
        let cx = cx.clone();
        blocking(move || {
            let found = find(&root, &names, &cx.cancel)?;
            Ok(render(&pattern, &root, &found, &cx))
        })
        .await
    }
}

struct Found {
    /// From the directory where the search began, newest first.
    paths: Vec<PathBuf>,
    unreadable: usize,
}

fn find(root: &Path, names: &NamePattern, cancel: &CancellationToken) -> Result<Found, ToolError> {
    let kind = fs::metadata(root).map_err(|error| io_error("search", root, &error))?;
    if !kind.is_dir() {
        return Err(fs_error(
            "FS_NOT_A_DIRECTORY",
            format!("cannot search `{}`: it is not a directory", root.display()),
        ));
    }
    let mut dated = Vec::new();
    let mut unreadable = 0;
    for entry in walk(root).build() {
        if cancel.is_cancelled() {
            return Err(ToolError::aborted());
        }
        let Ok(entry) = entry else {
            unreadable += 1;
            continue;
        };
        let is_directory = entry.file_type().is_none_or(|kind| kind.is_dir());
        let Ok(relative) = entry.path().strip_prefix(root) else {
            continue;
        };
        if is_directory || !names.matches(relative) {
            continue;
        }
        let modified = entry.metadata().ok().and_then(|data| data.modified().ok());
        dated.push((
            modified.unwrap_or(SystemTime::UNIX_EPOCH),
            relative.to_owned(),
        ));
    }
    dated.sort_by(|(a_time, a), (b_time, b)| b_time.cmp(a_time).then_with(|| a.cmp(b)));
    let paths = dated.into_iter().map(|(_, path)| path).collect();
    Ok(Found { paths, unreadable })
}

/// Facts for front ends, with the names of recorded sessions.
#[derive(Serialize)]
struct Facts<'a> {
    shape: &'static str,
    paths: &'a [String],
    truncated: bool,
    total: usize,
}

fn render(pattern: &str, root: &Path, found: &Found, cx: &ToolContext) -> ToolOutput {
    let total = found.paths.len();
    let whole: Vec<String> = found
        .paths
        .iter()
        .map(|path| shown(&root.join(path), cx.cwd.as_deref()))
        .collect();
    let listed = &whole[..total.min(MAX_PATHS)];
    let mut text = if total == 0 {
        format!(
            "No files match `{pattern}` in {}. (What .gitignore leaves out was not searched.)",
            root.display()
        )
    } else {
        listed.join("\n")
    };
    if total > listed.len() {
        text.push_str(&format!(
            "\n\n(Showing {} of {total} files, the newest first.{} Narrow `pattern` or `path`.)",
            listed.len(),
            elsewhere(&found.paths[listed.len()..])
        ));
        if let Some(file) = keep(cx.spill.as_ref(), whole.join("\n").as_bytes()) {
            text.push('\n');
            text.push_str(&kept_notice(&file));
        }
    }
    if found.unreadable > 0 {
        text.push_str(&format!(
            "\n({} directories could not be read.)",
            found.unreadable
        ));
    }
    let facts = Facts {
        shape: "paths",
        paths: listed,
        truncated: total > listed.len(),
        total,
    };
    ToolOutput::text(text).with_meta(meta(&facts))
}

/// In which directories most of the paths are that are not shown.
fn elsewhere(rest: &[PathBuf]) -> String {
    let mut counts = BTreeMap::new();
    for directory in rest.iter().filter_map(|path| top_directory(path)) {
        *counts.entry(directory).or_insert(0_usize) += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.truncate(MAX_DIRECTORIES);
    if counts.is_empty() {
        return String::new();
    }
    let named: Vec<String> = counts
        .into_iter()
        .map(|(directory, count)| format!("{}/ {count}", printable(directory)))
        .collect();
    format!(" Most of the others are in: {}.", named.join(", "))
}
