//! What is told of the files that have changed behind a cut: a fork does not remember that, and finds them so.

use offshoot_agent::{ChangedFiles, FileChange};

use crate::notes::Notes;
use crate::text;
use crate::worktree::Worktree;

/// How many files are named.
const NAMED: usize = 20;

/// Says what a fork has to reckon with; nothing, if nothing was done behind the cut. One with a worktree of its own works on
/// other files than its original does.
pub(crate) fn tell(changed: &ChangedFiles, worktree: Option<&Worktree>, notes: Notes) {
    notes.say_all(told(changed, worktree.is_some()));
}

/// The same, to be said elsewhere.
pub(crate) fn told(changed: &ChangedFiles, has_own_files: bool) -> Vec<String> {
    let mut told = Vec::new();
    if !changed.files.is_empty() {
        let named = changed.files.iter().take(NAMED);
        let mut named: Vec<String> = named
            .map(|file| {
                let made = match file.change {
                    FileChange::Created => " (made there)",
                    FileChange::Changed => "",
                };
                format!("`{}`{made}", text::shorten(&file.path))
            })
            .collect();
        if let Some(more) = changed
            .files
            .len()
            .checked_sub(NAMED)
            .filter(|more| *more > 0)
        {
            named.push(format!("and {more} more"));
        }
        told.push(format!(
            "files that the original changed behind the cut, {}: {}",
            match has_own_files {
                true => "outside of the worktree of the fork",
                false => "which the fork finds as they are now",
            },
            named.join(", ")
        ));
    }
    if changed.shell_commands {
        told.push(
            "the original also ran commands behind the cut; what they changed is not known"
                .to_owned(),
        );
    }
    told
}
