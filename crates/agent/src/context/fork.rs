//! What a fork has to know of its original: which files that has changed behind the cut.
//!
//! The list is not kept anywhere between the fork and its first request. Whoever stores a fork and goes on with it has it
//! at hand; in another process it is folded from the original's log, which then also tells what was done in the meantime.
//! If that log is gone, or is another one by now, the fork says that it does not know. What was said once is in the log of
//! the fork and is repeated from there.

use std::fmt::Write as _;
use std::sync::Arc;

use offshoot_session::{EventLog, Seq, SessionHeader, SessionId};

use super::runtime::ContextSection;
use crate::changes::{ChangedFiles, FileChange, changed_after};
use crate::driver::Driver;

/// How many files are named.
const NAMED: usize = 50;

/// What is known of what a session was forked from.
#[derive(Clone, Debug)]
pub(crate) enum ForkOrigin {
    /// It was not forked.
    None,
    /// It was forked just now.
    Known {
        cut: Seq,
        changed: Arc<ChangedFiles>,
    },
    /// It was forked by somebody else, at another time.
    Source { parent: SessionId, cut: Seq },
}

impl ForkOrigin {
    pub(crate) fn of(header: &SessionHeader, log: &EventLog) -> Self {
        let cut = log
            .inherited_marker()
            .and_then(|marker| marker.before().last());
        match (&header.parent, cut) {
            (Some(parent), Some(cut)) => Self::Source {
                parent: parent.clone(),
                cut,
            },
            _ => Self::None,
        }
    }

    const fn cut(&self) -> Option<Seq> {
        match self {
            Self::None => None,
            Self::Known { cut, .. } | Self::Source { cut, .. } => Some(*cut),
        }
    }
}

pub(super) fn is_about_forks(section: &ContextSection) -> bool {
    section.name.starts_with("fork:")
}

impl Driver {
    /// What the conversation knows of the originals that it was forked from.
    pub(super) fn forks(&mut self, log: &EventLog) -> Vec<ContextSection> {
        let mut sections = self.surroundings.forks.clone();
        let Some(cut) = self.origin.cut() else {
            return sections;
        };
        let name = format!("fork:{cut}");
        // Once: later it is what the log says, or there was nothing to say.
        let is_said = sections.iter().any(|section| section.name == name);
        if !is_said && !self.surroundings.has_requested {
            let changed = self.changed_in_original(log);
            if let Some(text) = said(cut, changed.as_deref()) {
                sections.push(ContextSection { name, text });
            }
        }
        sections
    }

    fn changed_in_original(&mut self, log: &EventLog) -> Option<Arc<ChangedFiles>> {
        if let ForkOrigin::Source { parent, cut } = &self.origin {
            let read = self.core.read_stored(parent)?;
            let (original, cut) = (&read.stored.log, *cut);
            let same = original.get(cut)?.text() == log.get(cut)?.text();
            let cwd = read.stored.header.cwd.as_deref();
            let changed = same.then(|| changed_after(original, cut, cwd))?;
            // Nothing that happens from now on is news of the first request.
            self.origin = ForkOrigin::Known {
                cut,
                changed: Arc::new(changed),
            };
        }
        match &self.origin {
            ForkOrigin::Known { changed, .. } => Some(Arc::clone(changed)),
            _ => None,
        }
    }
}

/// `None` if there is nothing to say.
fn said(cut: Seq, changed: Option<&ChangedFiles>) -> Option<String> {
    let mut text = format!(
        "This conversation was branched off from another one, behind event {cut}. The files are not branched off with it."
    );
    let Some(changed) = changed else {
        text.push_str(
            " What the other conversation has done since is not known: its log cannot be read. Look at files again before \
             you rely on what you remember of them.",
        );
        return Some(text);
    };
    if changed.is_empty() {
        return None;
    }
    if !changed.files.is_empty() {
        text.push_str(" The other one has since changed these:\n");
        for file in changed.files.iter().take(NAMED) {
            let how = match file.change {
                FileChange::Created => " (new)",
                FileChange::Changed => "",
            };
            let _ = write!(text, "\n- {}{how}", file.path);
        }
        if let Some(more) = changed
            .files
            .len()
            .checked_sub(NAMED)
            .filter(|more| *more > 0)
        {
            let _ = write!(text, "\n- and {more} more");
        }
        text.push_str("\n\nThey are as it left them: read them again before you rely on what you remember of them.");
    }
    if changed.shell_commands {
        text.push_str(if changed.files.is_empty() {
            " The other one has since run shell commands; what those have changed is not known."
        } else {
            " It has also run shell commands since; what those have changed is not known."
        });
    }
    Some(text)
}
