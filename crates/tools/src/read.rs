//! `read`: a window of numbered lines of a text file.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use offshoot_tool_api::{
    Concurrency, Effects, JsonSchema, Tool, ToolArguments, ToolContext, ToolError, ToolOutput,
    ToolSpec, schemars,
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::files::{
    blocking, fs_error, io_error, is_a_directory, meta, not_a_file, resolve, tagged,
};
use crate::kind::{SAMPLE_BYTES, binary};
use crate::observations::{Digesting, FileDigest, Observations};
use crate::place::canonical;
use crate::tool_set::ToolSet;

/// The most lines of one call, and how many are read if the model does not say.
const MAX_LINES: usize = 2000;
/// The most characters of one line.
const MAX_LINE_CHARS: usize = 2000;
/// The most bytes of numbered lines.
const MAX_BYTES: usize = 51_200;
/// What stands at the end of a line that was cut.
const CUT_MARK: &str = " [... line cut at 2000 characters]";

const DESCRIPTION: &str = "Reads a text file and returns its lines with their numbers. Without `offset` and `limit` \
it starts at the first line and returns up to 2000 lines; the last line of the result says whether there is more. \
Long lines are cut at 2000 characters. Images and binary files are refused with what they are. Read a file before you \
edit or replace it.";

/// The tool `read`.
#[derive(Debug)]
pub(crate) struct ReadTool {
    spec: ToolSpec,
    observations: Arc<Observations>,
}

impl ReadTool {
    pub(crate) fn new(set: &ToolSet) -> Self {
        Self {
            spec: ToolSpec::typed::<Arguments>("read", DESCRIPTION),
            observations: Arc::clone(&set.observations),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file to read. A relative path starts at the working directory.
    file_path: String,
    /// The number of the first line to return; lines count from 1.
    #[serde(default = "Window::first_line")]
    #[schemars(range(min = 1))]
    offset: u64,
    /// How many lines to return at most.
    #[serde(default = "Window::all_lines")]
    #[schemars(range(min = 1, max = 2000))]
    limit: u64,
}

/// Which lines are wanted.
#[derive(Clone, Copy)]
struct Window {
    /// Counted from 1.
    offset: usize,
    limit: usize,
}

impl Window {
    fn first_line() -> u64 {
        1
    }

    fn all_lines() -> u64 {
        MAX_LINES as u64
    }

    fn new(arguments: &Arguments) -> Result<Self, ToolError> {
        let offset = usize::try_from(arguments.offset);
        let limit = usize::try_from(arguments.limit);
        let offset = offset.ok().filter(|offset| *offset >= 1).ok_or_else(|| {
            ToolError::invalid_arguments("invalid argument `offset`: lines count from 1")
        })?;
        let limit = limit
            .ok()
            .filter(|limit| (1..=MAX_LINES).contains(limit))
            .ok_or_else(|| {
                ToolError::invalid_arguments(format!(
                    "invalid argument `limit`: it must be between 1 and {MAX_LINES}"
                ))
            })?;
        Ok(Self { offset, limit })
    }
}

#[async_trait]
impl Tool for ReadTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self) -> Effects {
        Effects::ReadOnly
    }

    fn concurrency(&self, _arguments: &ToolArguments) -> Concurrency {
        Concurrency::Parallel
    }

    async fn execute(
        &self,
        arguments: ToolArguments,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let arguments: Arguments = arguments.parse()?;
        let window = Window::new(&arguments)?;
        let path = resolve(cx, "file_path", &arguments.file_path)?;
        let cancel = cx.cancel.clone();
        let observations = Arc::clone(&self.observations);
        blocking(move || {
            let (lines, digest) = read_window(&path, window, &cancel)?;
            let output = render(&path, window, lines, digest)?;
            // Only what was shown was seen.
            let file = canonical(&path).map_err(|error| io_error("read", &path, &error))?;
            observations.record(&file, digest);
            Ok(output)
        })
        .await
    }
}

/// A line of the window, as front ends get it.
#[derive(Debug, Serialize)]
struct Line {
    number: usize,
    text: String,
}

/// The window and what is known about the rest.
#[derive(Debug, Default)]
struct Lines {
    shown: Vec<Line>,
    total: usize,
    /// Whether the window ended early because of its bytes.
    full: bool,
}

/// Facts about a read for front ends.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Facts<'a> {
    path: String,
    offset: usize,
    lines: &'a [Line],
    total_lines: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    lang: Option<String>,
    digest: String,
}

/// Reads the whole file, because the model is told how long it is, but keeps only the window.
fn read_window(
    path: &Path,
    window: Window,
    cancel: &CancellationToken,
) -> Result<(Lines, FileDigest), ToolError> {
    let failed = |error| io_error("read", path, &error);
    // Before opening: opening a named pipe would wait for somebody to write into it.
    let kind = fs::metadata(path).map_err(failed)?.file_type();
    if kind.is_dir() {
        return Err(is_a_directory("read", path));
    }
    if !kind.is_file() {
        return Err(not_a_file("read", path));
    }
    let file = Digesting::new(File::open(path).map_err(failed)?);
    let mut reader = BufReader::with_capacity(SAMPLE_BYTES, file);
    if let Some(kind) = binary(reader.fill_buf().map_err(failed)?) {
        return Err(fs_error(
            "FS_BINARY_FILE",
            format!(
                "cannot read `{}`: it is {kind}, and read shows text only",
                path.display()
            ),
        ));
    }

    let mut lines = Lines::default();
    let mut room = MAX_BYTES;
    let mut line = PartialLine::default();
    loop {
        if cancel.is_cancelled() {
            return Err(ToolError::aborted());
        }
        let buffer = reader.fill_buf().map_err(failed)?;
        if buffer.is_empty() {
            break;
        }
        for piece in buffer.split_inclusive(|byte| *byte == b'\n') {
            line.push(piece);
            if piece.ends_with(b"\n") {
                lines.take(std::mem::take(&mut line), window, &mut room);
            }
        }
        let length = buffer.len();
        reader.consume(length);
    }
    if !line.is_empty() {
        lines.take(line, window, &mut room);
    }
    Ok((lines, reader.into_inner().finish()))
}

/// A line that is being read; its excess is dropped at once.
#[derive(Default)]
struct PartialLine {
    kept: Vec<u8>,
    length: usize,
}

impl PartialLine {
    /// Room for [`MAX_LINE_CHARS`] of the widest characters, one more to notice the excess, and a line end.
    const MAX_KEPT: usize = (MAX_LINE_CHARS + 1) * 4 + 2;

    fn push(&mut self, bytes: &[u8]) {
        let room = Self::MAX_KEPT - self.kept.len();
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.length += bytes.len();
    }

    fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn into_text(self) -> String {
        let mut bytes = self.kept.as_slice();
        if self.length == bytes.len() {
            bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        }
        let mut text = String::from_utf8_lossy(bytes).into_owned();
        if let Some((cut, _)) = text.char_indices().nth(MAX_LINE_CHARS) {
            text.truncate(cut);
            text.push_str(CUT_MARK);
        }
        text
    }
}

impl Lines {
    fn take(&mut self, line: PartialLine, window: Window, room: &mut usize) {
        self.total += 1;
        let number = self.total;
        let wanted = number >= window.offset && self.shown.len() < window.limit && !self.full;
        if !wanted {
            return;
        }
        let line = Line {
            number,
            text: line.into_text(),
        };
        let cost = line.to_string().len() + 1;
        if cost > *room {
            self.full = true;
            return;
        }
        *room -= cost;
        self.shown.push(line);
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.number, self.text)
    }
}

fn render(
    path: &Path,
    window: Window,
    lines: Lines,
    digest: FileDigest,
) -> Result<ToolOutput, ToolError> {
    let Lines { shown, total, full } = lines;
    if window.offset > total.max(1) {
        return Err(fs_error(
            "FS_OFFSET_OUT_OF_RANGE",
            format!(
                "cannot read `{}` from line {}: it has only {total} lines",
                path.display(),
                window.offset
            ),
        ));
    }
    let last = shown.last().map_or(0, |line| line.number);
    let footer = if last == total {
        format!("(End of file - total {total} lines)")
    } else {
        let reason = if full {
            format!("Output is limited to {MAX_BYTES} bytes. ")
        } else {
            String::new()
        };
        format!(
            "({reason}Showing lines {}-{last} of {total}. Use offset={} to continue.)",
            window.offset,
            last + 1
        )
    };
    let numbered: Vec<String> = shown.iter().map(ToString::to_string).collect();
    let text = tagged(path, &format!("{}\n\n{footer}", numbered.join("\n")));
    let facts = Facts {
        path: path.display().to_string(),
        offset: window.offset,
        lines: &shown,
        total_lines: total,
        lang: language(path),
        digest: digest.to_string(),
    };
    Ok(ToolOutput::text(text).with_meta(meta(&facts)))
}

/// What to highlight the lines as: the extension, unless it says that there is nothing to highlight.
fn language(path: &Path) -> Option<String> {
    let extension = path.extension()?.to_str()?.to_lowercase();
    (extension != "txt").then_some(extension)
}
