//! `docs/cli.md` says all that there is: every command, flag, variable and error code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use offshoot_test_support::TestHome;

use crate::support::run;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn docs() -> String {
    fs::read_to_string(repository().join("docs/cli.md")).unwrap()
}

/// The section of a heading, without what stands below the next one of its level or above.
fn section<'a>(docs: &'a str, heading: &str) -> &'a str {
    let start = docs
        .find(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("docs/cli.md has no `{heading}`"));
    let body = &docs[start + heading.len() + 2..];
    let level = heading.split(' ').next().unwrap();
    let end = (1..=level.len())
        .filter_map(|n| body.find(&format!("\n{} ", "#".repeat(n))))
        .min();
    &body[..end.unwrap_or(body.len())]
}

const COMMANDS: [&str; 22] = [
    "demo", "run", "chat", "compact", "models", "config", "ls", "show", "fork", "side", "merge",
    "promote", "record", "replay", "check", "export", "convert", "salvage", "rm", "restore", "gc",
    "du",
];

/// What `--help` says of a command and of the commands below it.
fn help_of(home: &TestHome, command: &str) -> String {
    let help = run(home, [command, "--help"]).success().stdout_text();
    let below = help.split("Commands:\n").nth(1).unwrap_or_default().lines();
    let below = below
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help");
    let below = below.map(|name| run(home, [command, name, "--help"]).success().stdout_text());
    let below: String = below.collect();
    help + &below
}

#[test]
fn every_command_and_flag_of_the_help_is_described() {
    let home = TestHome::new();
    let docs = docs();
    let help = run(&home, ["--help"]).success().stdout_text();
    let commands = help.split("Commands:\n").nth(1).unwrap().lines();
    let commands: Vec<&str> = commands
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert_eq!(commands, COMMANDS);
    for command in COMMANDS {
        let body = section(&docs, &format!("## offshoot {command}"));
        let help = help_of(&home, command);
        let flags = help
            .lines()
            .filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")));
        for flag in
            flags.filter(|flag| !["--home", "--json", "--unsafe-no-lock", "--help"].contains(flag))
        {
            assert!(
                body.contains(&format!("`{flag}")),
                "`{flag}` is missing in docs/cli.md, `offshoot {command}`"
            );
        }
    }
    let everywhere = section(&docs, "## Everywhere");
    for flag in [
        "--home",
        "--json",
        "--unsafe-no-lock",
        "--help",
        "--version",
    ] {
        assert!(
            everywhere.contains(&format!("`{flag}")),
            "`{flag}` is missing in docs/cli.md"
        );
    }
}

#[test]
fn no_flag_is_described_that_does_not_exist() {
    let home = TestHome::new();
    for command in COMMANDS {
        let docs = docs();
        let body = section(&docs, &format!("## offshoot {command}")).to_owned();
        let help = help_of(&home, command);
        for row in body.lines().filter_map(|line| line.strip_prefix("| `--")) {
            let flag = format!("--{}", row.split(['`', ' ']).next().unwrap());
            assert!(
                help.contains(&flag),
                "docs/cli.md tells of `{flag}` for `offshoot {command}`"
            );
        }
    }
}

#[test]
fn every_environment_variable_that_is_read_is_described() {
    let docs = docs();
    let environment = section(&docs, "## Environment");
    let sources = sources(&repository().join("crates/cli/src"));
    let read: BTreeSet<String> = words(&sources)
        .filter(|word| {
            let is_address_or_key = word.ends_with("_API_KEY") || word.ends_with("_BASE_URL");
            word.starts_with("OFFSHOOT_")
                || (is_address_or_key && !word.starts_with('_') && *word != "MISSING_API_KEY")
        })
        .map(str::to_owned)
        .collect();
    assert!(read.len() >= 14, "{read:?}");
    for variable in read {
        assert!(
            environment.contains(&format!("`{variable}`")),
            "{variable} is missing in docs/cli.md"
        );
    }
}

/// Error codes are written in one way: a string of capitals on the right of a match arm, or the first argument of a
/// failure, or a constant of `codes.rs`.
#[test]
fn every_error_code_is_in_the_table_and_the_table_has_no_other() {
    let docs = docs();
    let described: BTreeSet<String> = section(&docs, "## Error codes")
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .flat_map(|codes| codes.split(", "))
        .filter_map(|code| Some(code.strip_prefix('`')?.strip_suffix('`')?.to_owned()))
        .collect();
    let mut defined = BTreeSet::new();
    for (file, starts) in [
        ("agent/src/error.rs", &["=> \""][..]),
        ("agent/src/side/error.rs", &["=> \""]),
        ("store/src/error.rs", &["=> \""]),
        ("format/src/error.rs", &["=> \""]),
        ("session/src", &["=> \"", "    \"NOT_CONTINUABLE\""]),
        (
            "cli/src",
            &[
                "Failure::new(\"",
                "Failure::new(\n",
                "Self::new(\"",
                "code: Some(\"",
                ": &str = \"",
            ],
        ),
        ("model/src/codes.rs", &["&str = \""]),
    ] {
        let text = sources(&repository().join("crates").join(file));
        for start in starts {
            for found in text.match_indices(start) {
                let rest = &text[found.0..];
                let code = rest.split('"').nth(1).unwrap_or_default();
                let is_code = code.len() > 3
                    && code
                        .bytes()
                        .all(|byte| byte.is_ascii_uppercase() || byte == b'_');
                if is_code {
                    defined.insert(code.to_owned());
                }
            }
        }
    }
    assert!(defined.len() > 40, "{defined:?}");
    let missing: Vec<_> = defined.difference(&described).collect();
    assert!(missing.is_empty(), "missing in docs/cli.md: {missing:?}");
    let extra: Vec<_> = described.difference(&defined).collect();
    assert!(extra.is_empty(), "nowhere but in docs/cli.md: {extra:?}");
}

#[test]
fn every_code_of_a_scenario_is_described() {
    let docs = fs::read_to_string(repository().join("docs/scenarios.md")).unwrap();
    let sources = sources(&repository().join("crates/replay/src"));
    let mut codes = BTreeSet::new();
    for start in ["=> \"", "&str = \"", "Flaw::new(\""] {
        for (at, _) in sources.match_indices(start) {
            let code = sources[at..].split('"').nth(1).unwrap_or_default();
            let is_code = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
            if code.len() > 3 && code.bytes().all(is_code) {
                codes.insert(code);
            }
        }
    }
    assert!(codes.len() > 15, "{codes:?}");
    for code in codes {
        assert!(docs.contains(&format!("`{code}`")), "{code}");
    }
}

/// A file, or all files of a directory and below, in one text.
fn sources(path: &Path) -> String {
    if path.is_file() {
        return fs::read_to_string(path).unwrap();
    }
    let entries = fs::read_dir(path).unwrap();
    entries
        .map(|entry| sources(&entry.unwrap().path()))
        .collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}
