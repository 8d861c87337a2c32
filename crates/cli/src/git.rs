//! What git says of a directory, and what a log says of git.
//!
//! When an agent starts in a repository its log is told which commit is checked out, so that a fork can have a worktree of
//! its own at the commit that belongs to its cut.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use offshoot_agent::ContextSection;
use offshoot_session::{Body, EventLog, Seq};
use serde::Deserialize;

/// The name of the section in the runtime context.
const SECTION: &str = "git";
/// What stands before the commit in it.
const COMMIT: &str = "Git commit that was checked out at the start: ";

/// What to tell of the repository that a directory is in; nothing if it is in none.
pub(crate) fn section(dir: &Path) -> Option<ContextSection> {
    // Without one git need not be started.
    let root = dir.ancestors().find(|dir| dir.join(".git").exists())?;
    let commit = run(dir, ["rev-parse", "--verify", "--quiet", "HEAD"]).ok()?;
    let branch = run(dir, ["symbolic-ref", "--short", "--quiet", "HEAD"]).ok();
    let branch = branch.map_or_else(String::new, |branch| format!("\nGit branch: {branch}"));
    let other = main_checkout(root).map_or_else(String::new, |main| {
        format!(
            "\nThis is a git worktree, with files of its own: those below `{}` are others.",
            main.display()
        )
    });
    Some(ContextSection::new(
        SECTION,
        format!("{COMMIT}{commit}{branch}{other}"),
    ))
}

/// Where the main checkout of a repository is, if `root` is that of another one.
fn main_checkout(root: &Path) -> Option<PathBuf> {
    // In the main one it is a directory, and git need not be asked.
    if root.join(".git").is_dir() {
        return None;
    }
    let common = run(root, ["rev-parse", "--git-common-dir"]).ok()?;
    let common = root.join(common).canonicalize().ok()?;
    // A submodule has its repository in that of another one, and a bare repository has no checkout.
    let main = common.ends_with(".git").then(|| common.parent())??;
    (main != root.canonicalize().ok()?).then(|| main.to_owned())
}

/// The commit that a log last names up to `cut`.
pub(crate) fn commit_at(log: &EventLog, cut: Seq) -> Option<String> {
    #[derive(Deserialize)]
    struct Stored {
        source: Source,
    }
    #[derive(Deserialize)]
    struct Source {
        #[serde(default)]
        sections: Vec<ContextSection>,
    }
    let prefix = log.prefix(cut.after());
    let mut named = None;
    for event in prefix.events() {
        let Body::UserMessage(message) = event.body() else {
            continue;
        };
        if &*message.source != "runtime-context" {
            continue;
        }
        let stored: Option<Stored> = event.parse().ok();
        let sections = stored.map(|stored| stored.source.sections);
        let git = sections.unwrap_or_default().into_iter();
        let commit = git
            .filter(|section| section.name == SECTION)
            .find_map(|section| {
                Some(
                    section
                        .text
                        .strip_prefix(COMMIT)?
                        .lines()
                        .next()?
                        .to_owned(),
                )
            });
        named = commit.or(named);
    }
    named
}

/// What git prints, or why it could not.
pub(crate) fn run<S: AsRef<OsStr>>(
    dir: &Path,
    args: impl IntoIterator<Item = S>,
) -> Result<String, String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("git could not be started: {error}"))?;
    if output.status.success() {
        let text = String::from_utf8(output.stdout);
        let text = text.map_err(|_| "git printed a path that is not UTF-8".to_owned())?;
        return Ok(text.trim_end_matches('\n').to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().lines().last().unwrap_or("git failed");
    Err(said.trim_start_matches("fatal: ").to_owned())
}
