//! Checks of single files: size, module documentation, white space, machine paths, registry hosts.

use super::Problem;
use super::tree::{TextFile, Tree};

/// Lines that a Rust file may have.
const LINES: usize = 600;

/// Lines that a Rust file on the list below may have.
const LINES_AT_MOST: usize = 700;

/// Files that may be longer than [`LINES`], each with the reason why splitting it would make it worse.
const LONG_FILES: &[(&str, &str)] = &[];

/// Folders at the top of a file system whose mention means that somebody's own machine got into the repository.
const MACHINE_FOLDERS: &[&str] = &["home", "root", "work"];

/// The working directory in recorded sessions, below `work`.
const RECORDED_PROJECT: &str = "demo";

/// Hosts of package registries, in two halves so that this file passes its own check.
const REGISTRY_HOSTS: &[(&str, &str)] = &[
    ("index.crates", ".io"),
    ("static.crates", ".io"),
    ("crates.io", "-index"),
    ("npmjs", ".org"),
    ("npmjs", ".com"),
    ("yarnpkg", ".com"),
    ("pypi", ".org"),
    ("pythonhosted", ".org"),
];

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = lengths(tree, LONG_FILES);
    for file in tree.texts() {
        problems.extend(root_documentation(file));
        problems.extend(white_space(file));
        problems.extend(machine_paths(file));
        problems.extend(registry_hosts(file));
    }
    problems
}

fn lengths(tree: &Tree, long_files: &[(&str, &str)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.texts().filter(|file| file.is_rust()) {
        let lines = file.text.lines().count();
        let excused = long_files.iter().any(|(path, _)| *path == file.path);
        let limit = if excused { LINES_AT_MOST } else { LINES };
        if lines > limit {
            problems.push(Problem::new(
                &file.path,
                limit + 1,
                format!("{lines} lines, {limit} are allowed"),
                "split the file by what it is about",
            ));
        } else if excused && lines <= LINES {
            problems.push(Problem::new(
                &file.path,
                1,
                format!("{lines} lines need no exception"),
                "take the file off LONG_FILES in xtask",
            ));
        }
    }
    for (path, _) in long_files.iter().filter(|(path, _)| !tree.has(path)) {
        problems.push(Problem::new(
            *path,
            1,
            "LONG_FILES in xtask names a file that does not exist",
            "take it off the list",
        ));
    }
    problems
}

fn root_documentation(file: &TextFile) -> Option<Problem> {
    let is_root = ["src/lib.rs", "src/main.rs"]
        .iter()
        .any(|root| file.path == *root || file.path.ends_with(&format!("/{root}")));
    (is_root && !file.text.starts_with("//!")).then(|| {
        Problem::new(
            &file.path,
            1,
            "the crate does not say what it is",
            "begin the file with `//!` documentation",
        )
    })
}

fn white_space(file: &TextFile) -> Vec<Problem> {
    if is_recorded(file) {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for (number, line) in file.lines() {
        if line.ends_with([' ', '\t', '\r']) {
            problems.push(Problem::new(
                &file.path,
                number,
                "white space at the end of the line",
                "remove it",
            ));
        }
        if file.is_rust() && line.contains('\t') {
            problems.push(Problem::new(
                &file.path,
                number,
                "a tab",
                r"indent with spaces, write `\t` in strings",
            ));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        problems.push(Problem::new(
            &file.path,
            file.text.lines().count(),
            "the last line does not end",
            "add a newline",
        ));
    }
    problems
}

/// Files that keep somebody's exact bytes: snapshots, logs, and what lies in a folder of test data.
fn is_recorded(file: &TextFile) -> bool {
    let exact = matches!(file.extension(), Some("snap" | "jsonl"));
    let mut folders = file.path.split('/').rev().skip(1);
    exact || folders.any(|folder| matches!(folder, "fixtures" | "golden" | "data" | "regressions"))
}

fn machine_paths(file: &TextFile) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in file.lines() {
        if let Some(path) = machine_path(line) {
            problems.push(Problem::new(
                &file.path,
                number,
                format!("the machine path `{path}`"),
                "name the place relative to the repository or by a variable",
            ));
        }
    }
    problems
}

/// The first absolute path below one of [`MACHINE_FOLDERS`], with its first component.
fn machine_path(line: &str) -> Option<&str> {
    MACHINE_FOLDERS.iter().find_map(|folder| {
        let start = format!("/{folder}/");
        line.match_indices(&start).find_map(|(at, _)| {
            // Otherwise it is the middle of a relative path, of a URL, or of one that begins with a variable.
            let begins =
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-~}*>)]/".contains(c));
            let rest = &line[at + start.len()..];
            let component = rest
                .find(|c: char| !(c.is_alphanumeric() || "._-".contains(c)))
                .unwrap_or(rest.len());
            let recorded = *folder == "work" && rest[..component] == *RECORDED_PROJECT;
            (begins && !recorded).then(|| &line[at..at + start.len() + component])
        })
    })
}

fn registry_hosts(file: &TextFile) -> Vec<Problem> {
    let is_lock = file.path.rsplit('/').next() == Some("Cargo.lock");
    let mut problems = Vec::new();
    for (number, line) in file.lines() {
        if is_lock && line.contains("registry+") {
            continue;
        }
        let host = REGISTRY_HOSTS
            .iter()
            .map(|(start, end)| format!("{start}{end}"))
            .find(|host| line.contains(host.as_str()));
        if let Some(host) = host {
            problems.push(Problem::new(
                &file.path,
                number,
                format!("the registry host `{host}`"),
                "leave the choice of a registry to the machine",
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    fn shown(problems: impl IntoIterator<Item = Problem>) -> Vec<String> {
        problems
            .into_iter()
            .map(|problem| problem.to_string())
            .collect()
    }

    #[test]
    fn a_long_file_is_found_and_its_exception_ends_at_the_hard_limit() {
        let (fits, long, too_long) = ("\n".repeat(600), "\n".repeat(601), "\n".repeat(701));
        let tree = Tree::of(&[
            ("a.rs", &fits),
            ("b.rs", &long),
            ("c.rs", &long),
            ("d.rs", &too_long),
            ("e.rs", &fits),
            ("f.md", &too_long),
        ]);
        let excused = [("c.rs", ""), ("d.rs", ""), ("e.rs", ""), ("gone.rs", "")];
        assert_eq!(
            shown(lengths(&tree, &excused)),
            [
                "b.rs:601: 601 lines, 600 are allowed; split the file by what it is about",
                "d.rs:701: 701 lines, 700 are allowed; split the file by what it is about",
                "e.rs:1: 600 lines need no exception; take the file off LONG_FILES in xtask",
                "gone.rs:1: LONG_FILES in xtask names a file that does not exist; take it off the list",
            ]
        );
    }

    #[test]
    fn every_exception_has_a_reason() {
        assert!(LONG_FILES.iter().all(|(_, reason)| !reason.is_empty()));
    }

    #[test]
    fn a_crate_root_without_documentation_is_found() {
        assert!(root_documentation(&file("crates/a/src/lib.rs", "use b;\n")).is_some());
        assert!(root_documentation(&file("xtask/src/main.rs", "// no\n")).is_some());
        assert!(root_documentation(&file("crates/a/src/lib.rs", "//! A.\n")).is_none());
        assert!(root_documentation(&file("crates/a/src/b.rs", "use c;\n")).is_none());
    }

    #[test]
    fn stray_white_space_is_found() {
        assert_eq!(
            shown(white_space(&file("a.rs", "a \nb\r\nc\td\ne"))),
            [
                "a.rs:1: white space at the end of the line; remove it",
                "a.rs:2: white space at the end of the line; remove it",
                r"a.rs:3: a tab; indent with spaces, write `\t` in strings",
                "a.rs:4: the last line does not end; add a newline",
            ]
        );
        assert_eq!(shown(white_space(&file("Makefile", "a:\n\tb\n"))), [""; 0]);
    }

    #[test]
    fn recorded_bytes_may_look_as_they_like() {
        for path in [
            "crates/a/tests/it/snapshots/b.snap",
            "crates/a/tests/data/torn",
            "crates/a/tests/it/golden/v4/c.txt",
            "d.jsonl",
        ] {
            assert_eq!(shown(white_space(&file(path, "a \nb"))), [""; 0], "{path}");
        }
        assert!(!white_space(&file("crates/a/src/data.rs", "a \n")).is_empty());
    }

    #[test]
    fn machine_paths_are_found() {
        for (folder, rest) in [("home", "ada/x"), ("root", ".cache/x"), ("work", "main/x")] {
            let first = rest.split('/').next().unwrap_or_default();
            for before in ["\"", "at ", "`", "", "file:", "("] {
                let line = format!("{before}/{folder}/{rest}");
                assert_eq!(
                    machine_path(&line),
                    Some(format!("/{folder}/{first}").as_str()),
                    "{line}"
                );
            }
        }
        let late = format!("/{0}/demo and /{0}/other", "work");
        assert_eq!(machine_path(&late), Some(&late[15..]));
    }

    #[test]
    fn other_paths_are_left_alone() {
        for line in [
            "\"/work/demo/notes.md\"",
            "\"cwd\":\"/work/demo\"",
            "https://example.com/home/ada",
            "$HOME/root/x and ${X}/work/x and ../work/x and ~/work/x",
            "/homes/x",
        ] {
            assert_eq!(machine_path(line), None, "{line}");
        }
    }

    #[test]
    fn registry_hosts_are_found_except_where_cargo_writes_them() {
        for (start, end) in REGISTRY_HOSTS {
            let url = format!("see https://{start}{end}/x\n");
            assert_eq!(registry_hosts(&file("README.md", &url)).len(), 1, "{url}");
        }
        let source = format!(
            "source = \"registry+https://x/{}{}\"\n",
            "crates.io", "-index"
        );
        assert_eq!(shown(registry_hosts(&file("Cargo.lock", &source))), [""; 0]);
        assert_eq!(registry_hosts(&file("deny.toml", &source)).len(), 1);
    }
}
