//! Checks of the Markdown files: the crate table names the crates there are, and links lead somewhere.

use std::collections::BTreeMap;

use super::Problem;
use super::tree::{TextFile, Tree};
use crate::metadata::Metadata;

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// What the first column of the crate table is called.
const CRATE_COLUMN: &str = "crate";

pub(super) fn check(metadata: &Metadata, tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    match tree.text(ARCHITECTURE) {
        Some(architecture) => {
            let crates: Vec<(&str, &str)> = metadata
                .members()
                .map(|package| (package.folder(), package.name.as_str()))
                .collect();
            problems.extend(crate_table(architecture, &crates));
        }
        None => eprintln!("note: there is no {ARCHITECTURE}, so its crate table was not checked"),
    }
    for file in tree.texts().filter(|file| file.extension() == Some("md")) {
        problems.extend(links(file, tree));
    }
    problems
}

/// Compares the table with the crates, which are pairs of a folder and a package name.
fn crate_table(file: &TextFile, crates: &[(&str, &str)]) -> Vec<Problem> {
    let Some(table) = CrateTable::read(file) else {
        return vec![Problem::new(
            &file.path,
            1,
            format!("no table has `{CRATE_COLUMN}` over its first column"),
            "add the table of all crates",
        )];
    };
    let mut problems = Vec::new();
    for (name, line) in &table.rows {
        if !crates
            .iter()
            .any(|(folder, package)| name == folder || name == package)
        {
            problems.push(Problem::new(
                &file.path,
                *line,
                format!("the table names `{name}`, and there is no such crate"),
                "take it out of the table",
            ));
        }
    }
    for (folder, package) in crates {
        if !table.rows.contains_key(*folder) && !table.rows.contains_key(*package) {
            problems.push(Problem::new(
                &file.path,
                table.line,
                format!("the table does not name the crate `{folder}`"),
                "say in a row what it is for",
            ));
        }
    }
    problems
}

/// The names in the first column of all tables whose first column holds crates.
struct CrateTable {
    /// Where the first one begins.
    line: usize,
    /// The line of each name.
    rows: BTreeMap<String, usize>,
}

impl CrateTable {
    fn read(file: &TextFile) -> Option<Self> {
        let mut table: Option<Self> = None;
        let mut inside = false;
        let mut before_is_cell = false;
        for (number, line) in file.lines() {
            let Some(cell) = first_cell(line) else {
                (inside, before_is_cell) = (false, false);
                continue;
            };
            if !before_is_cell {
                inside = cell.eq_ignore_ascii_case(CRATE_COLUMN);
                if inside {
                    table.get_or_insert(Self {
                        line: number,
                        rows: BTreeMap::new(),
                    });
                }
            } else if let (true, Some(table)) = (inside, &mut table) {
                for name in code_spans(cell) {
                    let name = name.trim_end_matches('/');
                    let name = name.strip_prefix("crates/").unwrap_or(name);
                    table.rows.entry(name.to_owned()).or_insert(number);
                }
            }
            before_is_cell = true;
        }
        table
    }
}

fn first_cell(line: &str) -> Option<&str> {
    let row = line.trim_start().strip_prefix('|')?;
    Some(row.split('|').next().unwrap_or(row).trim())
}

fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn links(file: &TextFile, tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut fence: Option<&str> = None;
    for (number, line) in file.lines() {
        let start = line.trim_start();
        if let Some(mark) = ["```", "~~~"]
            .into_iter()
            .find(|mark| start.starts_with(mark))
        {
            match fence {
                None => fence = Some(mark),
                Some(open) if open == mark => fence = None,
                Some(_) => {}
            }
            continue;
        }
        if fence.is_some() {
            continue;
        }
        for target in link_targets(&without_code(line)) {
            if let Some(what) = broken(&file.path, &target, tree) {
                problems.push(Problem::new(
                    &file.path,
                    number,
                    format!("the link to `{target}` {what}"),
                    "mend or remove it",
                ));
            }
        }
    }
    problems
}

/// The line with its code spans cut out: what stands in one is no link.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// Where `[text](target "title")` and `[name]: target` lead.
fn link_targets(line: &str) -> Vec<String> {
    let definition = line
        .trim_start()
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
        .map(|(_, target)| target);
    let inline = line.split("](").skip(1);
    definition
        .into_iter()
        .chain(inline)
        .filter_map(|rest| {
            let rest = rest.trim_start();
            match rest.strip_prefix('<') {
                Some(rest) => rest.split('>').next(),
                None => rest.split([')', ' ']).next(),
            }
        })
        .map(|target| target.replace("%20", " "))
        .collect()
}

/// What is wrong with a link in the file at `path`, if it is relative and something is.
fn broken(path: &str, target: &str, tree: &Tree) -> Option<&'static str> {
    let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
    let target = target.split(['#', '?']).next().unwrap_or_default();
    if is_elsewhere || target.is_empty() {
        return None;
    }
    let from_root = target.starts_with('/');
    let mut place: Vec<&str> = path.split('/').collect();
    place.pop();
    if from_root {
        place.clear();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if place.pop().is_none() {
                    return Some("leaves the repository");
                }
            }
            part => place.push(part),
        }
    }
    (!tree.has(&place.join("/"))).then_some("leads nowhere")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> TextFile {
        TextFile {
            path: ARCHITECTURE.to_owned(),
            text: text.to_owned(),
        }
    }

    fn shown(problems: Vec<Problem>) -> Vec<String> {
        problems.iter().map(Problem::to_string).collect()
    }

    const CRATES: &[(&str, &str)] = &[
        ("session", "offshoot-session"),
        ("cli", "offshoot"),
        ("xtask", "xtask"),
    ];

    #[test]
    fn a_table_that_names_every_crate_by_folder_or_package_is_right() {
        let table = "\
| Crate | owns |
|---|---|
| [`session`](crates/session) | `events` |
| `offshoot`, `xtask/` | - |

| term | meaning |
|---|---|
| `fork` | - |
";
        assert_eq!(shown(crate_table(&file(table), CRATES)), [""; 0]);
    }

    #[test]
    fn a_missing_and_a_surplus_crate_are_found() {
        let table = "# A\n\n| crate | owns |\n|---|---|\n| `crates/session/` | |\n| `host` | |\n| `cli` | |\n";
        assert_eq!(
            shown(crate_table(&file(table), CRATES)),
            [
                "ARCHITECTURE.md:6: the table names `host`, and there is no such crate; take it out of the table",
                "ARCHITECTURE.md:3: the table does not name the crate `xtask`; say in a row what it is for",
            ]
        );
        assert_eq!(
            shown(crate_table(&file("# A\n"), CRATES)),
            [
                "ARCHITECTURE.md:1: no table has `crate` over its first column; add the table of all crates"
            ]
        );
    }

    #[test]
    fn broken_links_are_found() {
        let text = "\
See [a](docs/a.md), [b](docs/b.md#part) and [`c`](../c.md \"C\").
`[not](a/link)` [web](https://example.com/x) [here](#part) [mail](mailto:a@example.com)
```
[not](a/link)
```
[ref]: docs/d.md
![image](<docs/a b.png>)
";
        let tree = Tree::of(&[(ARCHITECTURE, text), ("docs/a.md", "")]);
        let readme = tree.text(ARCHITECTURE).expect("the test wrote it");
        assert_eq!(
            shown(links(readme, &tree)),
            [
                "ARCHITECTURE.md:1: the link to `docs/b.md#part` leads nowhere; mend or remove it",
                "ARCHITECTURE.md:1: the link to `../c.md` leaves the repository; mend or remove it",
                "ARCHITECTURE.md:6: the link to `docs/d.md` leads nowhere; mend or remove it",
                "ARCHITECTURE.md:7: the link to `docs/a b.png` leads nowhere; mend or remove it",
            ]
        );
    }

    #[test]
    fn links_start_where_their_file_is() {
        let tree = Tree::of(&[("docs/a.md", ""), ("docs/sub/b.md", ""), ("README.md", "")]);
        for target in [
            "../a.md",
            "./b.md",
            "../../README.md",
            "/docs/a.md",
            "../",
            "b.md#x",
        ] {
            assert_eq!(broken("docs/sub/b.md", target, &tree), None, "{target}");
        }
        assert_eq!(
            broken("docs/sub/b.md", "a.md", &tree),
            Some("leads nowhere")
        );
    }
}
