//! One replacement in the content of a file: exact, unique, and true to how the file ends its lines.

use std::borrow::Cow;

use memchr::memmem;
use offshoot_tool_api::{JsonSchema, ToolError, schemars};
use serde::Deserialize;

use crate::files::fs_error;
use crate::near_miss;

/// How many places are named if there are too many.
const MAX_PLACES: usize = 10;

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Replacement {
    /// The text to replace, exactly as it is in the file, without the line numbers of read.
    old_string: String,
    /// The text to put in its place; empty to remove it.
    new_string: String,
    /// Whether to replace every occurrence.
    #[serde(default)]
    replace_all: bool,
}

/// A content in which something was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replaced {
    pub(crate) content: Vec<u8>,
    pub(crate) count: usize,
}

impl Replacement {
    pub(crate) fn new(old_string: String, new_string: String, replace_all: bool) -> Self {
        Self {
            old_string,
            new_string,
            replace_all,
        }
    }

    /// Replaces in `content`.
    ///
    /// In a file whose lines end in CRLF, LF stands for CRLF. Elsewhere a text with LF that does not occur is looked for
    /// with CRLF. Bytes that are not UTF-8 stay as they are.
    ///
    /// # Errors
    /// `INVALID_ARGS` if nothing is asked for, `FS_EDIT_NO_MATCH` and `FS_EDIT_AMBIGUOUS`, with what to do about it.
    pub(crate) fn apply(&self, content: &[u8]) -> Result<Replaced, ToolError> {
        if self.old_string.is_empty() {
            return Err(ToolError::invalid_arguments(
                "invalid argument `old_string`: it is empty; to replace a whole file use write",
            ));
        }
        if self.old_string == self.new_string {
            return Err(ToolError::invalid_arguments(
                "invalid argument `new_string`: it is the same as `old_string`",
            ));
        }
        let exact = (Cow::from(&self.old_string), Cow::from(&self.new_string));
        let crlf = || (with_crlf(&self.old_string), with_crlf(&self.new_string));
        let (old, new) = match LineEnds::of(content) {
            LineEnds::Crlf => crlf(),
            LineEnds::Lf => exact,
            LineEnds::Mixed if memmem::find(content, exact.0.as_bytes()).is_some() => exact,
            LineEnds::Mixed => crlf(),
        };
        let (old, new) = (old.as_bytes(), new.as_bytes());
        let places: Vec<usize> = memmem::find_iter(content, old).collect();
        match places.len() {
            0 => Err(fs_error(
                "FS_EDIT_NO_MATCH",
                format!(
                    "`old_string` does not occur in the file. {}",
                    near_miss::explain(content, &self.old_string)
                ),
            )),
            1 => Ok(()),
            _ if self.replace_all => Ok(()),
            count => Err(fs_error(
                "FS_EDIT_AMBIGUOUS",
                format!(
                    "`old_string` occurs {count} times, {}. Add lines around it so that it is unique, or set \
                     `replace_all` to replace all of them.",
                    in_lines(content, &places)
                ),
            )),
        }?;

        let mut replaced = Vec::with_capacity(content.len() + places.len() * new.len());
        let mut done = 0;
        for place in &places {
            replaced.extend_from_slice(&content[done..*place]);
            replaced.extend_from_slice(new);
            done = place + old.len();
        }
        replaced.extend_from_slice(&content[done..]);
        Ok(Replaced {
            content: replaced,
            count: places.len(),
        })
    }
}

/// How the lines of a content end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEnds {
    Lf,
    Crlf,
    Mixed,
}

impl LineEnds {
    fn of(content: &[u8]) -> Self {
        let all = memchr::memchr_iter(b'\n', content).count();
        let crlf = memmem::find_iter(content, b"\r\n").count();
        match crlf {
            0 => Self::Lf,
            _ if crlf == all => Self::Crlf,
            _ => Self::Mixed,
        }
    }
}

fn with_crlf(text: &str) -> Cow<'_, str> {
    if text.contains('\n') {
        text.replace("\r\n", "\n").replace('\n', "\r\n").into()
    } else {
        text.into()
    }
}

fn in_lines(content: &[u8], places: &[usize]) -> String {
    let mut lines: Vec<String> = places
        .iter()
        .take(MAX_PLACES)
        .map(|place| (memchr::memchr_iter(b'\n', &content[..*place]).count() + 1).to_string())
        .collect();
    lines.dedup();
    let word = if lines.len() == 1 { "line" } else { "lines" };
    if places.len() > MAX_PLACES {
        lines.push("…".to_owned());
    }
    format!("in {word} {}", lines.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replace(content: &str, old: &str, new: &str, all: bool) -> Result<(String, usize), String> {
        let replacement = Replacement::new(old.to_owned(), new.to_owned(), all);
        match replacement.apply(content.as_bytes()) {
            Ok(done) => Ok((String::from_utf8(done.content).unwrap(), done.count)),
            Err(error) => Err(format!("{}: {}", error.code(), error.message())),
        }
    }

    fn replaced(content: &str, count: usize) -> Result<(String, usize), String> {
        Ok((content.to_owned(), count))
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        assert_eq!(
            replace("a\nb\nc", "b", "B\nB", false),
            replaced("a\nB\nB\nc", 1)
        );
        assert_eq!(replace("a\n", "a\n", "", false), replaced("", 1));
        assert_eq!(replace("xaxax", "xax", "-", false), replaced("-ax", 1));
        assert_eq!(replace("aaaa", "aa", "b", true), replaced("bb", 2));
    }

    #[test]
    fn bytes_that_are_not_text_stay() {
        let replacement = Replacement::new("beta".to_owned(), "gamma".to_owned(), false);
        let done = replacement.apply(b"caf\xE9 beta\xFF").unwrap();
        assert_eq!(done.content, b"caf\xE9 gamma\xFF");
    }

    #[test]
    fn a_file_with_crlf_keeps_crlf() {
        let crlf = "a\r\nb\r\nc\r\n";
        assert_eq!(
            replace(crlf, "a\nb\n", "x\ny\nz\n", false),
            replaced("x\r\ny\r\nz\r\nc\r\n", 1)
        );
        assert_eq!(
            replace(crlf, "b", "x\ny", false),
            replaced("a\r\nx\r\ny\r\nc\r\n", 1)
        );
        assert_eq!(
            replace(crlf, "a\r\nb", "x\r\ny", false),
            replaced("x\r\ny\r\nc\r\n", 1)
        );
    }

    #[test]
    fn in_a_mixed_file_what_is_there_decides() {
        let mixed = "a\r\nb\nc\nd\r\n";
        assert_eq!(
            replace(mixed, "b\nc", "x\ny", false),
            replaced("a\r\nx\ny\nd\r\n", 1)
        );
        assert_eq!(
            replace(mixed, "a\nb", "x\ny", false),
            replaced("x\r\ny\nc\nd\r\n", 1)
        );
    }

    #[test]
    fn several_occurrences_are_named_by_line() {
        assert_eq!(
            replace("x\ny x\nz\nx", "x", "-", false).unwrap_err(),
            "FS_EDIT_AMBIGUOUS: `old_string` occurs 3 times, in lines 1, 2, 4. Add lines around it so that it is \
             unique, or set `replace_all` to replace all of them."
        );
        let many = replace(&"x\n".repeat(11), "x", "-", false).unwrap_err();
        assert!(
            many.contains("11 times, in lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …."),
            "{many}"
        );
        let close = replace("x x", "x", "-", false).unwrap_err();
        assert!(close.contains("2 times, in line 1."), "{close}");
    }

    #[test]
    fn asking_for_nothing_is_refused() {
        assert_eq!(
            replace("a", "", "b", false).unwrap_err(),
            "INVALID_ARGS: invalid argument `old_string`: it is empty; to replace a whole file use write"
        );
        assert_eq!(
            replace("a", "a", "a", false).unwrap_err(),
            "INVALID_ARGS: invalid argument `new_string`: it is the same as `old_string`"
        );
    }
}
