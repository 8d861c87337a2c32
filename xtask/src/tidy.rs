//! `cargo xtask tidy`: what the house rules ask for and no compiler checks.
//!
//! Every check is a function from what was read to a list of [`Problem`]s. Nothing is changed on disk.

mod crates;
mod docs;
mod sources;
mod tests_layout;
mod tree;

use std::fmt;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::metadata::Metadata;
use crate::tidy::tree::Tree;

/// One thing that is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    /// Relative to the root of the repository.
    path: String,
    /// From 1.
    line: usize,
    what: String,
    fix: String,
}

impl Problem {
    fn new(
        path: impl Into<String>,
        line: usize,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            path: path.into(),
            line,
            what: what.into(),
            fix: fix.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            what,
            fix,
        } = self;
        write!(f, "{path}:{line}: {what}; {fix}")
    }
}

/// Runs all checks and prints one line per problem.
pub(crate) fn run(root: &Path) -> Result<()> {
    let tree = Tree::load(root)?;
    let metadata = Metadata::load(root)?;

    let mut problems = crates::check(&metadata, &tree);
    problems.extend(sources::check(&tree));
    problems.extend(tests_layout::check(&metadata, &tree));
    problems.extend(docs::check(&metadata, &tree));
    problems.sort();

    for problem in &problems {
        println!("{problem}");
    }
    let found = problems.len();
    ensure!(
        found == 0,
        "tidy found {found} problem{}",
        if found == 1 { "" } else { "s" }
    );
    println!("tidy: {} files, no problems", tree.len());
    Ok(())
}
