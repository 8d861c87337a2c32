//! Which files a search looks at, patterns of their names, and how names are shown.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;
use offshoot_tool_api::ToolError;

/// Where version control keeps what is its own.
const VERSION_CONTROL: [&str; 4] = [".git", ".jj", ".hg", ".svn"];

/// A walk through what somebody who works in `root` sees of it: all files, hidden ones too, but not those that
/// `.gitignore` and `.ignore` leave out, and nothing of version control. Links are not followed, except `root` itself.
///
/// The order is that of the names, so that the same tree always gives the same result.
pub(crate) fn walk(root: &Path) -> WalkBuilder {
    let mut walk = WalkBuilder::new(root);
    walk.hidden(false)
        // A directory that is not a repository may still say what is not worth looking at.
        .require_git(false)
        .sort_by_file_name(OsStr::cmp)
        .filter_entry(|entry| entry.depth() == 0 || !is_version_control(entry.file_name()));
    walk
}

pub(crate) fn is_version_control(name: &OsStr) -> bool {
    VERSION_CONTROL.iter().any(|known| name == *known)
}

/// A pattern of file names, as in `*.rs` or `src/**/*.{ts,tsx}`.
///
/// Without a slash it means names in any directory; with one, paths from the directory where the search begins.
#[derive(Clone, Debug)]
pub(crate) struct NamePattern {
    matcher: GlobMatcher,
    by_name: bool,
}

impl NamePattern {
    /// # Errors
    /// `SEARCH_INVALID_PATTERN`, with the reason.
    pub(crate) fn new(pattern: &str) -> Result<Self, ToolError> {
        let invalid = |reason: String| {
            search_error(
                "SEARCH_INVALID_PATTERN",
                format!("`{pattern}` is not a pattern of file names: {reason}"),
            )
        };
        let mut glob = pattern.strip_prefix("./").unwrap_or(pattern).to_owned();
        if glob.is_empty() {
            return Err(invalid("it is empty".to_owned()));
        }
        if glob.split('/').any(|name| name == "..") {
            return Err(invalid(
                "it contains `..`; say where to search with `path` instead".to_owned(),
            ));
        }
        if glob.ends_with('/') {
            glob.push_str("**");
        }
        let built = GlobBuilder::new(&glob)
            .literal_separator(true)
            .empty_alternates(true)
            .build()
            .map_err(|error| invalid(error.kind().to_string()))?;
        Ok(Self {
            matcher: built.compile_matcher(),
            by_name: !glob.contains('/'),
        })
    }

    /// Whether it means the file at this path from the directory where the search begins.
    pub(crate) fn matches(&self, relative: &Path) -> bool {
        if self.by_name {
            relative
                .file_name()
                .is_some_and(|name| self.matcher.is_match(name))
        } else {
            self.matcher.is_match(relative)
        }
    }
}

/// The directory that an absolute pattern begins with, up to the first name that is not literal, and the rest of it.
pub(crate) fn split_absolute(pattern: &str) -> Option<(PathBuf, String)> {
    if !pattern.starts_with('/') {
        return None;
    }
    let mut base = PathBuf::from("/");
    let mut rest = pattern[1..].split('/').peekable();
    while let Some(name) = rest.next_if(|name| !name.contains(['*', '?', '[', '{', '\\'])) {
        if rest.peek().is_none() {
            // The last name is what is looked for, even if it is literal.
            return Some((base, name.to_owned()));
        }
        base.push(name);
    }
    Some((base, rest.collect::<Vec<_>>().join("/")))
}

/// An error of the search tools.
pub(crate) fn search_error(code: &'static str, message: impl Into<String>) -> ToolError {
    ToolError::new("SearchError", code, message)
}

/// A path as a result shows it: from the working directory if it is in there, as other tools take it, else absolute.
pub(crate) fn shown(path: &Path, cwd: Option<&Path>) -> String {
    let relative = cwd
        .and_then(|cwd| path.strip_prefix(cwd).ok())
        .filter(|relative| !relative.as_os_str().is_empty());
    printable(relative.unwrap_or(path).as_os_str())
}

/// A name on one line: what is not UTF-8 becomes U+FFFD, control characters are escaped.
pub(crate) fn printable(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    if !name.contains(char::is_control) {
        return name.into_owned();
    }
    let mut shown = String::new();
    for char in name.chars() {
        if char.is_control() {
            shown.extend(char.escape_default());
        } else {
            shown.push(char);
        }
    }
    shown
}

/// The first name of a path from the directory where the search begins; `None` for a file right there.
pub(crate) fn top_directory(relative: &Path) -> Option<&OsStr> {
    let mut parts = relative.components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(first)), Some(_)) => Some(first),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_without_a_slash_means_names_anywhere() {
        let matches = |pattern, path| NamePattern::new(pattern).unwrap().matches(Path::new(path));
        for (pattern, path, expected) in [
            ("*.rs", "a.rs", true),
            ("*.rs", "deep/in/a.rs", true),
            ("./*.rs", "deep/a.rs", true),
            ("*.rs", "a.rs.txt", false),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/deep/a.rs", false),
            ("src/*.rs", "more/src/a.rs", false),
            ("src/**/*.rs", "src/a.rs", true),
            ("src/**/*.rs", "src/deep/in/a.rs", true),
            ("**/*.{ts,tsx}", "a.tsx", true),
            ("src/", "src/deep/a.rs", true),
            ("[ab].rs", "x/b.rs", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn an_absolute_pattern_is_split_at_its_first_wildcard() {
        let split = |pattern| {
            split_absolute(pattern).map(|(base, rest)| (base.display().to_string(), rest))
        };
        let some = |base: &str, rest: &str| Some((base.to_owned(), rest.to_owned()));
        assert_eq!(split("*.rs"), None);
        assert_eq!(split("/w/src/**/*.rs"), some("/w/src", "**/*.rs"));
        assert_eq!(split("/w/a.rs"), some("/w", "a.rs"));
        assert_eq!(split("/*"), some("/", "*"));
        assert_eq!(split("/w/{a,b}/c"), some("/w", "{a,b}/c"));
    }

    #[test]
    fn names_are_shown_on_one_line() {
        use std::os::unix::ffi::OsStrExt;
        assert_eq!(printable(OsStr::new("a b.rs")), "a b.rs");
        assert_eq!(printable(OsStr::new("a\nb\u{1b}.rs")), "a\\nb\\u{1b}.rs");
        assert_eq!(printable(OsStr::from_bytes(b"caf\xE9")), "caf\u{FFFD}");
    }
}
