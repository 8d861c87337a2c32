//! The file of a project: where it is looked for, and what it may not do.
//!
//! It comes with a directory that somebody else may have written. So it may say nothing about providers, because that
//! is where keys and conversations go, and may only make limits tighter. What it says beyond that is left out, and a
//! warning says so: a repository that one has just fetched should neither be trusted nor be able to stop the program.

use std::path::{Path, PathBuf};

use super::schema::{self, Project};
use super::setting::{KeyPath, Value};

const DIRECTORY: &str = ".offshoot";

const ONLY_LESS: &str = "a project may only allow less than you do yourself";

/// The nearest file `name` in a directory `.offshoot` at `start` or above it: within a repository up to its root; elsewhere below the
/// person's home directory up to that; and in no other place but `start` itself. `user` is the person's own file, which
/// is never a project's.
pub(super) fn find(
    name: &str,
    start: &Path,
    user: &Path,
    user_home: Option<&Path>,
) -> Option<PathBuf> {
    let start = start.canonicalize().ok()?;
    let user_home = user_home.and_then(|home| home.canonicalize().ok());
    let user = user.canonicalize().ok();
    let root = start
        .ancestors()
        .find(|dir| dir.join(".git").exists())
        .map(Path::to_owned);
    let below_home = user_home
        .as_deref()
        .is_some_and(|home| start.starts_with(home));
    for dir in start.ancestors() {
        if Some(dir) == user_home.as_deref() {
            return None;
        }
        let file = dir.join(DIRECTORY).join(name);
        if file.is_file() && file.canonicalize().ok() != user {
            return Some(file);
        }
        let is_last = match &root {
            Some(root) => dir == root,
            None => !below_home,
        };
        if is_last {
            return None;
        }
    }
    None
}

/// Why a project may not set this; `None` if it may. `below` is what is set without it.
pub(super) fn refusal(path: &KeyPath, value: &Value, below: Option<&Value>) -> Option<String> {
    let project = schema::find(path.parts()).map_or(Project::MayNot, |key| key.project);
    match project {
        Project::May => None,
        Project::MayNot
            if path
                .parts()
                .first()
                .is_some_and(|first| first == "providers") =>
        {
            Some("a project may not describe providers and models".to_owned())
        }
        Project::MayNot => Some("a project may not set it".to_owned()),
        Project::MayNarrow(words) => {
            let rank = |value: &Value| match value {
                Value::Text(word) => words.iter().position(|known| known == word),
                _ => None,
            };
            let allowed = below.and_then(rank).unwrap_or(0);
            let wider = rank(value).is_none_or(|rank| rank > allowed);
            wider.then(|| ONLY_LESS.to_owned())
        }
        Project::MayLower => {
            let count = |value: &Value| match value {
                Value::Count(count) => Some(*count),
                _ => None,
            };
            let allowed = below.and_then(count).unwrap_or(0);
            let more = count(value).is_none_or(|count| count > allowed);
            more.then(|| ONLY_LESS.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            #[expect(clippy::disallowed_methods, reason = "an input of a test is no log")]
            std::fs::write(path, "").unwrap();
        }
        dir
    }

    fn found(dir: &tempfile::TempDir, start: &str) -> Option<String> {
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join(start)).unwrap();
        let user = root.join("me/.offshoot/config.toml");
        let found = find(
            super::super::FILE,
            &root.join(start),
            &user,
            Some(&root.join("me")),
        )?;
        Some(found.strip_prefix(&root).unwrap().display().to_string())
    }

    #[test]
    fn the_nearest_file_up_to_the_root_of_the_repository_is_the_projects() {
        let dir = tree(&[
            "me/.offshoot/config.toml",
            "me/all/.offshoot/config.toml",
            "me/all/repo/.git/HEAD",
            "me/all/repo/sub/.offshoot/config.toml",
            "srv/.offshoot/config.toml",
        ]);
        let cases = [
            (
                "me/all/repo/sub/deep",
                Some("me/all/repo/sub/.offshoot/config.toml"),
            ),
            // What is above the repository is not the repository's.
            ("me/all/repo/other", None),
            ("me/all/other", Some("me/all/.offshoot/config.toml")),
            // The person's own file is not a project's.
            ("me", None),
            ("me/else", None),
            ("srv", Some("srv/.offshoot/config.toml")),
            // Anybody might have put it there.
            ("srv/below", None),
        ];
        for (start, expected) in cases {
            assert_eq!(found(&dir, start).as_deref(), expected, "{start}");
        }
    }

    #[test]
    fn a_project_may_tighten_limits_and_not_loosen_them() {
        let sandbox = KeyPath::new(["sandbox"]);
        let word = |word: &str| Value::Text(word.to_owned());
        let below = word("workspace-write");
        for (asked, refused) in [
            ("read-only", false),
            ("workspace-write", false),
            ("danger-full-access", true),
        ] {
            let said = refusal(&sandbox, &word(asked), Some(&below));
            assert_eq!(said.is_some(), refused, "{asked}");
        }
        let depth = KeyPath::new(["subagents", "max_depth"]);
        let below = Value::Count(3);
        for (asked, refused) in [(0, false), (3, false), (4, true)] {
            let said = refusal(&depth, &Value::Count(asked), Some(&below));
            assert_eq!(said.is_some(), refused, "{asked}");
        }
        let url = KeyPath::new(["providers", "openai", "base_url"]);
        assert!(refusal(&url, &word("http://127.0.0.1"), None).is_some());
        assert_eq!(
            refusal(&KeyPath::new(["effort"]), &word("high"), None),
            None
        );
    }
}
