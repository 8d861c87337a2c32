//! The file that a call is about, under every name that counts.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

/// A file as a call names it, under every name that counts: as it is written without `.` and `..`, and where that leads.
#[derive(Clone, Debug)]
pub(crate) struct NamedFile {
    names: Vec<Name>,
    /// Whether the links in every name could be followed.
    certain: bool,
}

/// A name of a file, and that of the session's directory by the same way of naming.
#[derive(Clone, Debug)]
struct Name {
    path: PathBuf,
    cwd: Option<PathBuf>,
}

impl NamedFile {
    pub(crate) fn new(path: &str, cwd: Option<&Path>) -> Self {
        let given = cwd.map_or_else(|| PathBuf::from(path), |cwd| cwd.join(path));
        let clean_cwd = cwd.map(without_dots);
        let real_cwd = cwd.and_then(resolved).or_else(|| clean_cwd.clone());
        let clean = without_dots(&given);
        // A tool may follow links before it goes up a directory, or after that.
        let real = [resolved(&given), resolved(&clean)];
        let certain = real.iter().all(Option::is_some);
        let mut names = vec![Name {
            path: clean,
            cwd: clean_cwd,
        }];
        names.extend(real.into_iter().flatten().map(|path| Name {
            path,
            cwd: real_cwd.clone(),
        }));
        Self { names, certain }
    }

    /// The names by which two calls are about the same file; `None` if nobody can tell where they lead.
    pub(crate) fn identity(&self) -> Option<Vec<PathBuf>> {
        let names = self.names.iter().map(|name| name.path.clone());
        self.certain.then(|| names.collect())
    }
}

/// Removes `.` and `..` from a path, without looking at the disk.
fn without_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

/// Where a path leads; of one that does not exist, the part that does. A link that leads nowhere leads to what is not known.
fn resolved(path: &Path) -> Option<PathBuf> {
    let mut missing = Vec::new();
    let mut there = path;
    loop {
        match fs::canonicalize(there) {
            Ok(real) => {
                let names = missing.into_iter().rev();
                return Some(names.fold(real, |real, name| real.join(name)));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => return None,
        }
        if fs::symlink_metadata(there).is_ok() {
            return None;
        }
        missing.push(there.file_name()?);
        there = there.parent()?;
    }
}

/// Which files are meant: a pattern with `*`, `**`, `?`, `[…]` and `{…,…}`, where `*` and `?` stay within a directory.
///
/// One that begins with `/` or `**` is about absolute paths; any other is about files below the session's directory.
#[derive(Clone, Debug)]
pub(crate) struct PathPattern {
    matcher: GlobMatcher,
    absolute: bool,
}

impl PathPattern {
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        if pattern.is_empty() || pattern.starts_with('~') {
            let problem = "`path` must be a pattern such as `src/**` or `/etc/*`; `~` is not known";
            return Err(problem.to_owned());
        }
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let glob = GlobBuilder::new(pattern).literal_separator(true).build();
        let glob = glob.map_err(|error| format!("`path` is no pattern: {error}"))?;
        Ok(Self {
            matcher: glob.compile_matcher(),
            absolute: pattern.starts_with('/') || pattern.starts_with("**"),
        })
    }

    /// Whether the file is meant under every name that it has.
    pub(crate) fn matches_every_name(&self, file: &NamedFile) -> bool {
        file.certain && file.names.iter().all(|name| self.matches(name))
    }

    /// Whether the file is meant under any name that it has.
    pub(crate) fn matches_any_name(&self, file: &NamedFile) -> bool {
        file.names.iter().any(|name| self.matches(name))
    }

    fn matches(&self, Name { path, cwd }: &Name) -> bool {
        if self.absolute {
            return self.matcher.is_match(path);
        }
        cwd.as_ref()
            .and_then(|cwd| path.strip_prefix(cwd).ok())
            .is_some_and(|path| self.matcher.is_match(path))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn file(path: &str) -> NamedFile {
        NamedFile::new(path, Some(Path::new("/srv/demo")))
    }

    #[test]
    fn a_pattern_is_about_the_sessions_directory_unless_it_says_otherwise() {
        for (pattern, path, expected) in [
            ("src/**", "src/a/b.rs", true),
            ("src/**", "/srv/demo/src/a.rs", true),
            ("src/**", "./src/./a.rs", true),
            ("src/**", "/src/a.rs", false),
            ("src/*", "src/a/b.rs", false),
            ("./a.rs", "a.rs", true),
            ("*.rs", "a.rs", true),
            ("*.rs", "x/a.rs", false),
            ("**/.env", "/somewhere/else/.env", true),
            ("**/.env", ".env", true),
            ("/etc/**", "/etc/hosts", true),
            ("/etc/**", "etc/hosts", false),
            ("**", "/anything", true),
        ] {
            let pattern = PathPattern::new(pattern).unwrap();
            assert_eq!(
                pattern.matches_every_name(&file(path)),
                expected,
                "{pattern:?} {path}"
            );
            assert_eq!(
                pattern.matches_any_name(&file(path)),
                expected,
                "{pattern:?} {path}"
            );
        }
        // Where a way leads that does not exist is not known.
        let up = file("nothing/../src/a.rs");
        let pattern = PathPattern::new("src/**").unwrap();
        assert!(!pattern.matches_every_name(&up) && pattern.matches_any_name(&up));
        assert!(!pattern.matches_any_name(&file("src/../a.rs")));
        for pattern in ["", "~/x", "a[", "{a"] {
            PathPattern::new(pattern).unwrap_err();
        }
    }

    #[test]
    fn a_file_behind_a_link_has_two_names() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["work/src", "other"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        symlink(root.join("other"), root.join("work/src/link")).unwrap();
        symlink(root.join("nowhere"), root.join("work/src/dangling")).unwrap();
        let cwd = root.join("work");
        let named = |path| NamedFile::new(path, Some(&cwd));
        let inside = PathPattern::new("src/**").unwrap();
        let outside = PathPattern::new("**/other/**").unwrap();
        let through = named("src/link/new/file");
        let names = [
            cwd.join("src/link/new/file"),
            root.join("other/new/file"),
            root.join("other/new/file"),
        ];
        assert_eq!(through.identity(), Some(names.to_vec()));
        assert!(!inside.matches_every_name(&through) && inside.matches_any_name(&through));
        assert!(!outside.matches_every_name(&through) && outside.matches_any_name(&through));
        let dangling = named("src/dangling");
        assert!(!inside.matches_every_name(&dangling) && inside.matches_any_name(&dangling));
        assert_eq!(dangling.identity(), None);
        assert!(inside.matches_every_name(&named("src/new/file")));
        // What a system finds behind the link is not what the name says.
        let up = named("src/link/../secret");
        assert_ne!(up.identity(), named("src/secret").identity());
        assert!(!inside.matches_every_name(&up) && inside.matches_any_name(&up));
        // The directory itself may be known by a link.
        symlink(&cwd, root.join("alias")).unwrap();
        let aliased = NamedFile::new("src/a", Some(&root.join("alias")));
        assert!(inside.matches_every_name(&aliased));
    }
}
