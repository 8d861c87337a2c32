//! `cargo xtask`: everything that is done to this repository more than once.
//!
//! One module per task, each with a `run` that gets the root of the repository. `cargo xtask ci` runs what a person
//! would run by hand, in the same words; it has no step that cannot be repeated alone.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a terminal tool: findings go to standard output, progress to standard error"
)]

mod cargo;
mod ci;
mod fuzz;
mod metadata;
mod test;
mod tidy;
mod torture;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use crate::cargo::Cargo;
use crate::ci::Step;

#[derive(Debug, Parser)]
#[command(
    bin_name = "cargo xtask",
    about = "Tests, checks and upkeep of this repository"
)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run the tests of all crates
    ///
    /// What follows is handed to the test runner: `cargo xtask test -p offshoot-session fork`.
    Test {
        /// For the test runner; with -p only that package is tested
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run every check, stopping at the first that fails; the tests come last
    Ci {
        /// Begin with this step
        #[arg(long, value_enum, value_name = "STEP")]
        from: Option<Step>,
        /// Run this step alone
        #[arg(long, value_enum, value_name = "STEP", conflicts_with = "from")]
        only: Option<Step>,
    },
    /// Measure what the log costs; prints the tables of docs/performance.md
    Bench {
        /// Only these parts: reading, opening, appending, forks, listing, forking, closing, writing
        parts: Vec<String>,
    },
    /// Look for bytes that break the session format, with libFuzzer
    ///
    /// Needs a C++ compiler. What is found lies in fuzz/artifacts, and the exit code tells of it.
    Fuzz {
        /// How long each target runs
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        minutes: u32,
        /// The targets; all if none is named
        #[arg(value_name = "TARGET")]
        targets: Vec<String>,
    },
    /// Kill processes that write sessions, and look whether anything that they had acknowledged is lost
    ///
    /// The tests run the same for a short time. Prints what was done; the exit code tells of a loss.
    Torture {
        /// How many processes are killed
        #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
        rounds: u32,
        /// What the run depends on, apart from the moments at which the kills arrive
        #[arg(long, value_name = "N")]
        seed: Option<u32>,
    },
    /// Check what the compiler does not: crate edges, file sizes, links, machine paths
    Tidy,
    /// Format all crates
    Fmt {
        /// For `cargo fmt`, for instance --check
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let root = repository()?;
    match task {
        Task::Test { args } => test::run(&root, &args),
        Task::Ci { from, only } => ci::run(&root, from, only),
        Task::Bench { parts } => bench(&root, &parts),
        Task::Fuzz { minutes, targets } => fuzz::run(&root, minutes, &targets),
        Task::Torture { rounds, seed } => torture::run(&root, rounds, seed),
        Task::Tidy => tidy::run(&root),
        Task::Fmt { args } => Cargo::new(["fmt", "--all"]).args(&args).run(&root),
    }
}

/// Runs the named parts of the two benchmarks, or all of both.
fn bench(root: &Path, parts: &[String]) -> Result<()> {
    let (turns, log): (Vec<String>, Vec<String>) = parts
        .iter()
        .cloned()
        .partition(|part| PARTS_OF_RUNNING.contains(&part.as_str()));
    for (package, name, named) in [
        ("offshoot-store", "log", log),
        ("offshoot", "running", turns),
    ] {
        if !named.is_empty() || parts.is_empty() {
            Cargo::new(["bench", "--locked", "-p", package, "--bench", name, "--"])
                .args(&named)
                .run(root)?;
        }
    }
    Ok(())
}

/// The parts of the benchmark of turns; the others are of the log.
const PARTS_OF_RUNNING: [&str; 4] = ["running", "turns", "start", "memory"];

/// The root of the repository. The variable that `cargo run` sets comes first: a binary that was built before the
/// checkout was moved still knows the old place.
fn repository() -> Result<PathBuf> {
    let manifest =
        env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = Path::new(&manifest)
        .parent()
        .context("xtask lies directly below the root of the repository")?;
    Ok(root.to_owned())
}
