//! Where the whole of a result is kept of which only a part is shown.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use offshoot_tool_api::Spill;

/// Keeps a whole result. `None` if there is no place for it: then it is cut, and the call works all the same.
pub(crate) fn keep(spill: Option<&Arc<dyn Spill>>, whole: &[u8]) -> Option<PathBuf> {
    let written = |spill: &Arc<dyn Spill>| -> io::Result<PathBuf> {
        let mut file = spill.begin()?;
        file.write_all(whole)?;
        file.finish()
    };
    written(spill?).ok()
}

/// Tells the model where the whole result is.
pub(crate) fn kept_notice(file: &Path) -> String {
    format!(
        "[The whole output is in `{}`: use read or grep on it.]",
        file.display()
    )
}
