//! `cargo xtask ci`: every check, in an order that fails early and ends with the test runner's summary.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, anyhow};
use clap::ValueEnum;

use crate::cargo::Cargo;
use crate::{test, tidy};

/// A check. The order of the variants is the order of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Step {
    /// The code is formatted
    Fmt,
    /// No lint warns
    Clippy,
    /// What `cargo xtask tidy` checks
    Tidy,
    /// The examples in the documentation run
    Doctest,
    /// The documentation builds without a warning
    Doc,
    /// The binary builds as it is shipped
    Release,
    /// The README's first command works
    // Apart from `release`, so that its duration is the demo's own.
    Demo,
    /// All tests pass
    // Last, because whoever reads the end of the output wants the runner's summary.
    Test,
}

/// What a step does.
#[derive(Debug)]
enum Action {
    Cargo(Cargo),
    Tidy,
    Test,
}

impl Step {
    fn action(self) -> Action {
        Action::Cargo(match self {
            Self::Fmt => Cargo::new(["fmt", "--all", "--check"]),
            Self::Clippy => Cargo::new([
                "clippy",
                "--workspace",
                "--all-targets",
                "--all-features",
                "--locked",
                "--",
                "-D",
                "warnings",
            ]),
            Self::Tidy => return Action::Tidy,
            Self::Doctest => {
                Cargo::new(["test", "--doc", "--workspace", "--all-features", "--locked"])
            }
            Self::Doc => Cargo::new([
                "doc",
                "--no-deps",
                "--workspace",
                "--all-features",
                "--locked",
            ])
            .env("RUSTDOCFLAGS", "-Dwarnings"),
            Self::Release => Cargo::new(["build", "--release", "--locked"]),
            Self::Demo => Cargo::new(["run", "--release", "--", "demo"]),
            Self::Test => return Action::Test,
        })
    }

    fn run(self, root: &Path) -> Result<()> {
        match self.action() {
            Action::Cargo(call) => call.run(root),
            Action::Tidy => tidy::run(root),
            Action::Test => test::run_as_ci(root),
        }
    }

    /// The command that repeats the step alone.
    fn by_hand(self) -> String {
        match self.action() {
            Action::Cargo(call) => call.to_string(),
            Action::Tidy => "cargo xtask tidy".to_owned(),
            Action::Test => "CI=true cargo xtask test".to_owned(),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self
            .to_possible_value()
            .expect("BUG: no step is hidden from the command line");
        f.write_str(value.get_name())
    }
}

/// Runs all steps, those from `from` on, or `only` one.
pub(crate) fn run(root: &Path, from: Option<Step>, only: Option<Step>) -> Result<()> {
    let mut done = Vec::new();
    for step in chosen(from, only) {
        if step == Step::Test && !done.is_empty() {
            eprintln!("\nci: passed so far: {}", done.join(", "));
        }
        eprintln!("\nci: {step}: {}", step.by_hand());
        let clock = Stopwatch::start();
        step.run(root)
            .map_err(|error| failure(step, clock.elapsed(), &error))?;
        // After the tests nothing may follow their summary, which names their duration itself.
        if step != Step::Test {
            let took = seconds(clock.elapsed());
            eprintln!("ci: {step} passed in {took}");
            done.push(format!("{step} {took}"));
        }
    }
    Ok(())
}

fn chosen(from: Option<Step>, only: Option<Step>) -> Vec<Step> {
    let wanted = |step: &Step| match only {
        Some(only) => *step == only,
        None => from.is_none_or(|from| *step >= from),
    };
    Step::value_variants()
        .iter()
        .copied()
        .filter(wanted)
        .collect()
}

fn failure(step: Step, after: Duration, error: &Error) -> Error {
    anyhow!(
        "ci: {step} failed after {}: {error:#}\nhint: run `{}` by hand, then `cargo xtask ci --from {step}`",
        seconds(after),
        step.by_hand()
    )
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "how long a step takes is the point"
    )]
    fn start() -> Self {
        Self(Instant::now())
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_come_last() {
        assert_eq!(chosen(None, None).last(), Some(&Step::Test));
    }

    #[test]
    fn a_run_can_begin_later_or_be_one_step() {
        assert_eq!(
            chosen(Some(Step::Release), None),
            [Step::Release, Step::Demo, Step::Test]
        );
        assert_eq!(chosen(None, Some(Step::Doc)), [Step::Doc]);
    }

    #[test]
    fn a_failure_names_the_command_to_run_by_hand() {
        let failure = failure(Step::Doc, Duration::from_millis(1250), &anyhow!("no"));
        assert_eq!(
            failure.to_string(),
            "ci: doc failed after 1.2 s: no\n\
             hint: run `RUSTDOCFLAGS=-Dwarnings cargo doc --no-deps --workspace --all-features --locked` by hand, \
             then `cargo xtask ci --from doc`"
        );
    }
}
