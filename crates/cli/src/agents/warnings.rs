//! What a person should know before an agent works here.

use std::path::PathBuf;

use offshoot_session::LiveSession;
use offshoot_tools::sandbox::{Support, support};

use crate::config::Config;
use crate::notes::Notes;

/// Warns if commands cannot be confined as the sandbox mode says: they are not run then, unless no limit is wanted.
pub(crate) fn warn_of_kernel(config: &Config, notes: Notes) {
    let mode = config.text(&["sandbox"]).map(|(mode, _)| mode);
    if mode != Some("danger-full-access")
        && let Support::Unavailable { reason } = support()
    {
        notes.say(&format!(
            "warning: commands cannot be confined here, so none is run: {reason}; files are read and changed within the limits \
             all the same"
        ));
    }
}

/// Warns if the sandbox lets commands change what Offshoot itself keeps: no kernel leaves a directory out of one that may be
/// changed.
pub(crate) fn warn_of_home_in_reach(config: &Config, session: &LiveSession, notes: Notes) {
    if config.text(&["sandbox"]).map(|(mode, _)| mode) != Some("workspace-write") {
        return;
    }
    let Ok(home) = config.home().canonicalize() else {
        return;
    };
    let also = config.list(&["workspace"]).into_iter().map(PathBuf::from);
    let roots = session.header().cwd.map(PathBuf::from).into_iter();
    let holds_it = |root: &PathBuf| {
        let root = root.canonicalize();
        root.is_ok_and(|root| home.starts_with(root))
    };
    if let Some(root) = roots.chain(also).find(holds_it) {
        notes.say(&format!(
            "warning: the home `{}` is in the workspace `{}`, so commands can change sessions, rules and settings; work in a \
             directory below, keep the home elsewhere with --home, or use --sandbox read-only",
            home.display(),
            root.display()
        ));
    }
}
