//! Searching one file after the other, and what was found so far.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use offshoot_tool_api::ToolError;
use tokio_util::sync::CancellationToken;

use crate::grep::Output;
use crate::kind::{Binary, SAMPLE_BYTES, binary};
use crate::names::search_error;

/// The most matching lines, or files, that are shown.
const MAX_SHOWN: usize = 250;
/// The most bytes that are shown.
const MAX_SHOWN_BYTES: usize = 50 * 1024;
/// Where a search ends although there is more: so many lines of results.
const MAX_FOUND: usize = 10_000;
const MAX_FOUND_BYTES: usize = 4 * 1024 * 1024;
/// How much of a long line is shown, around the match if there is one.
const MAX_LINE_CHARS: usize = 500;
/// How much of it stands before the match.
const CHARS_BEFORE: usize = 100;

/// A regular expression and how to search with it.
#[derive(Debug)]
pub(crate) struct Query {
    matcher: RegexMatcher,
    searcher: Searcher,
    output: Output,
}

/// What a file turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Searched {
    Text,
    Binary(Binary),
}

impl Query {
    /// # Errors
    /// `SEARCH_INVALID_PATTERN`, with the reason.
    pub(crate) fn new(
        pattern: &str,
        ignore_case: bool,
        context: usize,
        output: Output,
    ) -> Result<Self, ToolError> {
        // Lines may end in CRLF: `$` means the end of the text of a line.
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(ignore_case)
            .multi_line(true)
            .crlf(true)
            .build(pattern)
            .map_err(|error| {
                search_error(
                    "SEARCH_INVALID_PATTERN",
                    format!("`{pattern}` is not a regular expression: {error}"),
                )
            })?;
        let context = if output == Output::Content {
            context
        } else {
            0
        };
        let searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .binary_detection(BinaryDetection::quit(0))
            .before_context(context)
            .after_context(context)
            .build();
        Ok(Self {
            matcher,
            searcher,
            output,
        })
    }

    /// Searches a file, which results call `name`.
    ///
    /// # Errors
    /// It cannot be read, or the search was cancelled.
    pub(crate) fn search(
        &mut self,
        path: &Path,
        name: &str,
        findings: &mut Findings,
        cancel: &CancellationToken,
    ) -> io::Result<Searched> {
        let file = Watched {
            file: File::open(path)?,
            cancel,
        };
        let mut reader = BufReader::with_capacity(SAMPLE_BYTES, file);
        match binary(reader.fill_buf()?) {
            // The searcher reads this as text.
            None | Some(Binary::Known("UTF-16 text")) => {}
            Some(kind) => return Ok(Searched::Binary(kind)),
        }
        findings.searched += 1;
        let mut sink = Lines {
            matcher: &self.matcher,
            output: self.output,
            name,
            count: 0,
            is_headed: false,
            findings,
        };
        self.searcher
            .search_reader(&self.matcher, reader, &mut sink)?;
        let count = sink.count;
        if count > 0 {
            findings.matching += 1;
            match self.output {
                Output::Content => {}
                Output::Files => findings.add_file(name),
                Output::Count => findings.add_file(&format!("{name}: {count}")),
            }
        }
        Ok(Searched::Text)
    }
}

/// Everything that was found so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    whole: String,
    lines: usize,
    /// How much of it is shown.
    shown: usize,
    /// Matching lines.
    pub(crate) matches: usize,
    /// Files with matching lines.
    pub(crate) matching: usize,
    /// Files that were searched.
    pub(crate) searched: usize,
    pub(crate) binary: usize,
    pub(crate) unreadable: usize,
}

/// What is shown of the findings.
pub(crate) struct Outcome<'a> {
    pub(crate) shown: &'a str,
    pub(crate) whole: &'a str,
    pub(crate) is_cut: bool,
}

impl Findings {
    /// Whether it is enough.
    pub(crate) fn is_full(&self) -> bool {
        self.lines >= MAX_FOUND || self.whole.len() >= MAX_FOUND_BYTES
    }

    pub(crate) fn outcome(&self) -> Outcome<'_> {
        let shown = self.whole[..self.shown].trim_end_matches('\n');
        Outcome {
            shown,
            whole: &self.whole,
            is_cut: self.shown < self.whole.len(),
        }
    }

    fn add_file(&mut self, line: &str) {
        let is_shown = self.matching <= MAX_SHOWN;
        self.add(line, is_shown);
    }

    /// Adds a line; what was once left out is followed by nothing that is shown.
    fn add(&mut self, line: &str, is_shown: bool) {
        let may_show = is_shown && self.shown == self.whole.len();
        self.whole.push_str(line);
        self.whole.push('\n');
        self.lines += 1;
        if may_show && self.whole.len() <= MAX_SHOWN_BYTES {
            self.shown = self.whole.len();
        }
    }
}

/// Takes the lines of one file.
struct Lines<'a> {
    matcher: &'a RegexMatcher,
    output: Output,
    name: &'a str,
    count: usize,
    is_headed: bool,
    findings: &'a mut Findings,
}

impl Lines<'_> {
    fn add(&mut self, number: Option<u64>, mark: char, line: &str) {
        // Context after the last line that is shown belongs to it.
        let is_shown = self.findings.matches <= MAX_SHOWN;
        if !self.is_headed {
            self.is_headed = true;
            if self.findings.matching > 0 {
                self.findings.add("", is_shown);
            }
            self.findings.add(self.name, is_shown);
        }
        let number = number.unwrap_or_default();
        self.findings
            .add(&format!("{number}{mark} {line}"), is_shown);
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.count += 1;
        self.findings.matches += 1;
        match self.output {
            Output::Files => return Ok(false),
            Output::Count => return Ok(true),
            Output::Content => {}
        }
        let line = text_of(found.bytes());
        let line = excerpt(&line, || {
            let at = self.matcher.find(found.bytes()).ok().flatten();
            let before = at.map_or(0, |at| at.start());
            String::from_utf8_lossy(&found.bytes()[..before])
                .chars()
                .count()
        });
        self.add(found.line_number(), ':', &line);
        Ok(!self.findings.is_full())
    }

    fn context(&mut self, _searcher: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        let text = excerpt(&text_of(line.bytes()), || 0);
        self.add(line.line_number(), '-', &text);
        Ok(true)
    }

    fn context_break(&mut self, _searcher: &Searcher) -> io::Result<bool> {
        self.findings.add("--", true);
        Ok(true)
    }
}

fn text_of(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    String::from_utf8_lossy(bytes).into_owned()
}

/// A part of a long line, with marks where something is missing.
fn excerpt(line: &str, match_at: impl FnOnce() -> usize) -> String {
    let length = line.chars().count();
    if length <= MAX_LINE_CHARS {
        return line.to_owned();
    }
    let start = match_at()
        .saturating_sub(CHARS_BEFORE)
        .min(length - MAX_LINE_CHARS);
    let mut part = String::new();
    if start > 0 {
        part.push_str("[…] ");
    }
    part.extend(line.chars().skip(start).take(MAX_LINE_CHARS));
    if start + MAX_LINE_CHARS < length {
        part.push_str(" […]");
    }
    part
}

/// A file whose reading ends when the call is cancelled.
struct Watched<'a> {
    file: File,
    cancel: &'a CancellationToken,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        self.file.read(buffer)
    }
}
