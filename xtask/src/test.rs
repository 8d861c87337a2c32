//! `cargo xtask test`: the tests of all crates, with cargo-nextest where it is installed.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::cargo::Cargo;

/// The nextest profile of `.config/nextest.toml` for runs that nobody watches.
const CI_PROFILE: &str = "ci";

/// Runs the tests. `args` go to the test runner.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    run_with(root, args, env::var_os("CI").is_some())
}

/// Runs all tests as continuous integration does, whatever the environment says.
pub(crate) fn run_as_ci(root: &Path) -> Result<()> {
    run_with(root, &[], true)
}

fn run_with(root: &Path, args: &[String], ci: bool) -> Result<()> {
    let corpus = corpus(root);
    if !corpus.is_dir() {
        eprintln!(
            "note: there is no corpus of recorded sessions at `{}`, so its tests will be skipped",
            corpus.display()
        );
    }
    if !has_c_compiler() {
        eprintln!(
            "note: there is no C compiler `cc`; zstd and the TLS library are built with one, so install gcc or clang"
        );
    }
    let runner = if Cargo::new(["nextest", "--version"]).works(root) {
        Runner::Nextest
    } else {
        eprintln!(
            "note: falling back to `cargo test`; `cargo install cargo-nextest --locked` gets the usual test runner"
        );
        Runner::CargoTest
    };
    let call = call(runner, args, ci);
    eprintln!("running `{call}`");
    call.run(root)
}

/// `CC` may name another one, with flags.
fn has_c_compiler() -> bool {
    let named = env::var("CC").unwrap_or_default();
    let compiler = named.split_whitespace().next().unwrap_or("cc");
    Command::new(compiler)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runner {
    Nextest,
    CargoTest,
}

/// The corpus is optional. The tests themselves look for it by the same rule (`test-support`, which is too heavy to
/// be built for one note).
pub(crate) fn corpus(root: &Path) -> PathBuf {
    match env::var_os("OFFSHOOT_CORPUS").filter(|place| !place.is_empty()) {
        Some(place) => place.into(),
        None => root.parent().unwrap_or(root).join("shared").join("corpus"),
    }
}

fn call(runner: Runner, args: &[String], ci: bool) -> Cargo {
    let mut call = match runner {
        Runner::Nextest => Cargo::new(["nextest", "run"]),
        Runner::CargoTest => Cargo::new(["test"]),
    };
    // Beside `--workspace`, cargo would ignore the package.
    if !args.iter().any(|arg| names_packages(arg)) {
        call = call.args(&["--workspace".into()]);
    }
    call = call.args(&["--all-features".into(), "--locked".into()]);
    match runner {
        Runner::Nextest if ci && !args.iter().any(|arg| names_profile(arg)) => {
            call = call.args(&["--profile".into(), CI_PROFILE.into()]);
        }
        Runner::CargoTest if ci => call = call.args(&["--no-fail-fast".into()]),
        _ => {}
    }
    if ci {
        // Snapshot tests then compare and write nothing.
        call = call.env("CI", "true");
    }
    call.args(args)
}

fn names_packages(arg: &str) -> bool {
    is_option(arg, "-p", "--package")
}

fn names_profile(arg: &str) -> bool {
    is_option(arg, "-P", "--profile")
}

fn is_option(arg: &str, short: &str, long: &str) -> bool {
    let value_joined = arg
        .strip_prefix(long)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
    value_joined || (arg.starts_with(short) && !arg.starts_with("--"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(runner: Runner, args: &[&str], ci: bool) -> String {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        call(runner, &args, ci).to_string()
    }

    #[test]
    fn runs_all_crates_unless_packages_are_named() {
        assert_eq!(
            shown(Runner::Nextest, &[], false),
            "cargo nextest run --workspace --all-features --locked"
        );
        for package in [
            &["-p", "offshoot-session", "fork"][..],
            &["--package=offshoot-session"],
            &["-poffshoot-session"],
        ] {
            assert_eq!(
                shown(Runner::Nextest, package, false),
                format!(
                    "cargo nextest run --all-features --locked {}",
                    package.join(" ")
                )
            );
        }
        assert_eq!(
            shown(Runner::CargoTest, &["fork"], false),
            "cargo test --workspace --all-features --locked fork"
        );
    }

    #[test]
    fn a_profile_that_is_named_wins_over_that_of_ci() {
        assert_eq!(
            shown(Runner::Nextest, &[], true),
            "CI=true cargo nextest run --workspace --all-features --locked --profile ci"
        );
        assert_eq!(
            shown(Runner::Nextest, &["--profile", "default"], true),
            "CI=true cargo nextest run --workspace --all-features --locked --profile default"
        );
        assert_eq!(
            shown(Runner::CargoTest, &[], true),
            "CI=true cargo test --workspace --all-features --locked --no-fail-fast"
        );
    }
}
