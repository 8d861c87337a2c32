//! Writing the files of a scenario.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::run::RunError;

/// Puts a text into a file, all of it or nothing. Returns whether that has changed anything: a file that says it already is
/// not touched.
#[expect(
    clippy::disallowed_methods,
    reason = "no log that anybody goes on with: expectations and recordings are replaced when somebody asks for it"
)]
pub(crate) fn publish(path: &Path, text: &str) -> Result<bool, RunError> {
    let failed = |source| RunError::io(path, source);
    match fs::read(path) {
        Ok(there) if there == text.as_bytes() => return Ok(false),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(failed)?;
    }
    let mut aside = OsString::from(path);
    aside.push(".new");
    let aside = Path::new(&aside);
    let written = fs::write(aside, text).and_then(|()| fs::rename(aside, path));
    if let Err(error) = written {
        // What is left of it would belong to nothing.
        drop(fs::remove_file(aside));
        return Err(failed(error));
    }
    Ok(true)
}
