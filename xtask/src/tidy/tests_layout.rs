//! One integration test binary per crate, with every file in it compiled.

use super::Problem;
use super::tree::Tree;
use crate::metadata::{Metadata, Target};

const ROOT: &str = "tests/it/main.rs";

pub(super) fn check(metadata: &Metadata, tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in metadata.members() {
        for path in package.targets.iter().filter_map(Target::integration_test) {
            problems.extend(second_binary(&metadata.relative(path)));
        }
    }
    problems.extend(forgotten_modules(tree));
    problems
}

fn second_binary(root_file: &str) -> Option<Problem> {
    (!root_file.ends_with(&format!("/{ROOT}"))).then(|| {
        Problem::new(
            root_file,
            1,
            "an integration test binary besides `tests/it`, which costs a link of its own",
            "make it a module of `tests/it/main.rs`",
        )
    })
}

/// Files beside a `tests/it/main.rs` that it does not declare: their tests never run.
fn forgotten_modules(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for root in tree.texts() {
        let Some(folder) = root
            .path
            .ends_with(&format!("/{ROOT}"))
            .then(|| root.path.trim_end_matches("main.rs"))
        else {
            continue;
        };
        for file in tree.texts() {
            let Some(module) = file.path.strip_prefix(folder).and_then(module_name) else {
                continue;
            };
            let declaration = format!("mod {module};");
            if !root.lines().any(|(_, line)| line.trim() == declaration) {
                problems.push(Problem::new(
                    &file.path,
                    1,
                    "no test in this file runs",
                    format!("write `{declaration}` in `{}`", root.path),
                ));
            }
        }
    }
    problems
}

/// The name of the module that a file beside the root file makes, if it makes one.
fn module_name(file: &str) -> Option<&str> {
    let module = file.strip_suffix("/mod.rs").or(file.strip_suffix(".rs"))?;
    (module != "main" && !module.contains('/')).then_some(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_integration_test_binary_is_found() {
        assert!(second_binary("crates/a/tests/it/main.rs").is_none());
        for path in [
            "crates/a/tests/fork.rs",
            "crates/a/tests/slow/main.rs",
            "crates/a/benches/x.rs",
        ] {
            assert!(second_binary(path).is_some(), "{path}");
        }
    }

    #[test]
    fn a_test_file_that_nobody_declares_is_found() {
        let tree = Tree::of(&[
            (
                "crates/a/tests/it/main.rs",
                "//! A.\nmod fork;\nmod wire;\n// mod old;\n",
            ),
            ("crates/a/tests/it/fork.rs", ""),
            ("crates/a/tests/it/wire/mod.rs", ""),
            ("crates/a/tests/it/wire/sse.rs", ""),
            ("crates/a/tests/it/old.rs", ""),
            ("crates/a/tests/it/deep/mod.rs", ""),
            ("crates/a/tests/it/data/x.jsonl", ""),
            ("crates/b/tests/it/other.rs", ""),
        ]);
        let found: Vec<String> = forgotten_modules(&tree)
            .iter()
            .map(Problem::to_string)
            .collect();
        assert_eq!(
            found,
            [
                "crates/a/tests/it/old.rs:1: no test in this file runs; \
                 write `mod old;` in `crates/a/tests/it/main.rs`",
                "crates/a/tests/it/deep/mod.rs:1: no test in this file runs; \
                 write `mod deep;` in `crates/a/tests/it/main.rs`",
            ]
        );
    }
}
