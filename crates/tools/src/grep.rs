//! `grep`: lines of files by a regular expression, with the libraries of ripgrep.

use std::fs;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use offshoot_tool_api::{
    Concurrency, Effects, JsonSchema, Tool, ToolArguments, ToolContext, ToolError, ToolOutput,
    ToolSpec, schemars,
};
use serde::{Deserialize, Serialize};

use crate::files::{blocking, fs_error, here, io_error, meta, resolve};
use crate::names::{NamePattern, search_error, shown, walk};
use crate::output::{keep, kept_notice};
use crate::search::{Findings, Outcome, Query, Searched};

/// The most lines around a match.
const MAX_CONTEXT: u64 = 10;
const TIMEOUT: Duration = Duration::from_secs(60);

const DESCRIPTION: &str = "Searches files for lines that match a regular expression. Returns the lines by file with \
their numbers: `12: text` matches, `11- text` is context. At most 250 lines (or files, for the other outputs) are \
shown. Hidden files are searched, binary files are not, and what .gitignore leaves out only if `path` names it.";

/// The tool `grep`.
///
/// It only looks, and calls beside it that change something are exclusive, so it may run in parallel.
#[derive(Debug)]
pub(crate) struct GrepTool {
    spec: ToolSpec,
}

impl GrepTool {
    pub(crate) fn new() -> Self {
        let spec = ToolSpec::typed::<Arguments>("grep", DESCRIPTION);
        Self { spec }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The regular expression, in the syntax of Rust and ripgrep. It matches within one line.
    pattern: String,
    /// The file or directory to search. A relative path starts at the working directory.
    #[serde(default = "here")]
    path: String,
    /// Only files whose name matches this pattern, such as `*.rs` or `src/**/*.{ts,tsx}`; all files if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    include: Option<String>,
    /// Whether upper and lower case are the same.
    #[serde(default)]
    ignore_case: bool,
    /// How many lines to show before and after each match.
    #[serde(default)]
    #[schemars(range(max = 10))]
    context: u64,
    /// What to return: the lines, only the files that have any, or how many there are in each file.
    #[serde(default)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Output {
    #[default]
    Content,
    Files,
    Count,
}

#[async_trait]
impl Tool for GrepTool {
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
        let arguments: Arguments = arguments.parse()?;
        let context = usize::try_from(arguments.context.min(MAX_CONTEXT + 1));
        let context = context.expect("BUG: it is at most one more than the limit");
        if arguments.context > MAX_CONTEXT {
            return Err(ToolError::invalid_arguments(format!(
                "invalid argument `context`: it must be at most {MAX_CONTEXT}"
            )));
        }
        let query = Query::new(
            &arguments.pattern,
            arguments.ignore_case,
            context,
            arguments.output,
        )?;
        let include = arguments.include.as_deref().map(NamePattern::new);
        let include = include.transpose()?;
        let root = resolve(cx, "path", &arguments.path)?;
        let cx = cx.clone();
        blocking(move || {
            let findings = search(&root, include.as_ref(), query, &cx)?;
            Ok(render(&arguments, &root, findings, &cx))
        })
        .await
    }
}

fn search(
    root: &Path,
    include: Option<&NamePattern>,
    mut query: Query,
    cx: &ToolContext,
) -> Result<Findings, ToolError> {
    let kind = fs::metadata(root).map_err(|error| io_error("search", root, &error))?;
    let mut findings = Findings::default();
    for entry in walk(root).build() {
        if cx.cancel.is_cancelled() {
            return Err(ToolError::aborted());
        }
        let Ok(entry) = entry else {
            findings.unreadable += 1;
            continue;
        };
        let path = entry.path();
        // What was named itself may be a link; what is found on the way is not followed.
        let is_file = match entry.depth() {
            0 => kind.is_file(),
            _ => entry.file_type().is_some_and(|kind| kind.is_file()),
        };
        let relative = path.strip_prefix(root).unwrap_or(path);
        let included = include.is_none_or(|names| entry.depth() == 0 || names.matches(relative));
        if !is_file || !included {
            continue;
        }
        let name = shown(path, cx.cwd.as_deref());
        match query.search(path, &name, &mut findings, &cx.cancel) {
            Ok(Searched::Text) => {}
            Ok(Searched::Binary(kind)) if entry.depth() == 0 => {
                return Err(fs_error(
                    "FS_BINARY_FILE",
                    format!("cannot search `{}`: it is {kind}", root.display()),
                ));
            }
            Ok(Searched::Binary(_)) => findings.binary += 1,
            Err(_) if cx.cancel.is_cancelled() => return Err(ToolError::aborted()),
            Err(error) if entry.depth() == 0 => return Err(io_error("search", root, &error)),
            Err(_) => findings.unreadable += 1,
        }
        if findings.is_full() {
            break;
        }
    }
    if !kind.is_file() && !kind.is_dir() {
        return Err(search_error(
            "SEARCH_FAILED",
            format!(
                "cannot search `{}`: it is neither a file nor a directory",
                root.display()
            ),
        ));
    }
    Ok(findings)
}

/// Facts for front ends.
#[derive(Serialize)]
struct Facts {
    shape: Output,
    matches: usize,
    files: usize,
    truncated: bool,
}

fn render(arguments: &Arguments, root: &Path, findings: Findings, cx: &ToolContext) -> ToolOutput {
    let Outcome {
        shown,
        whole,
        is_cut,
    } = findings.outcome();
    let mut text = shown.to_owned();
    let facts = Facts {
        shape: arguments.output,
        matches: findings.matches,
        files: findings.matching,
        truncated: is_cut || findings.is_full(),
    };
    if findings.matching == 0 {
        let skipped = match findings.binary {
            0 => String::new(),
            count => format!(", {count} binary skipped"),
        };
        text = format!(
            "No lines match `{}` in {} ({} searched{skipped}).",
            arguments.pattern,
            root.display(),
            files(findings.searched)
        );
    } else if facts.truncated {
        let more = if findings.is_full() { "more than " } else { "" };
        let total = match arguments.output {
            Output::Content => format!(
                "{} matching lines in {}",
                findings.matches,
                files(findings.matching)
            ),
            Output::Files | Output::Count => files(findings.matching),
        };
        text.push_str(&format!(
            "\n(There are {more}{total}; this is the beginning. Narrow `pattern`, `path` or `include`.)"
        ));
        if is_cut && let Some(file) = keep(cx.spill.as_ref(), whole.as_bytes()) {
            text.push('\n');
            text.push_str(&kept_notice(&file));
        }
    }
    if findings.unreadable > 0 {
        text.push_str(&format!(
            "\n({} files or directories could not be read.)",
            findings.unreadable
        ));
    }
    ToolOutput::text(text).with_meta(meta(&facts))
}

fn files(count: usize) -> String {
    match count {
        1 => "1 file".to_owned(),
        _ => format!("{count} files"),
    }
}
