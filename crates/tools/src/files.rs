//! What the file tools share: where a path leads, and what to say when the file system refuses.

use std::io;
use std::path::{Path, PathBuf};

use offshoot_tool_api::{ToolContext, ToolError};
use serde::Serialize;
use serde_json::value::RawValue;

/// The absolute path that an argument means, without looking at the file system.
///
/// `.` is left out; `..` stays, because behind a symbolic link it is not what the text suggests.
pub(crate) fn resolve(cx: &ToolContext, argument: &str, path: &str) -> Result<PathBuf, ToolError> {
    if path.is_empty() {
        return Err(ToolError::invalid_arguments(format!(
            "invalid argument `{argument}`: it is empty"
        )));
    }
    let path = Path::new(path);
    let absolute = match &cx.cwd {
        _ if path.is_absolute() => path.to_owned(),
        Some(cwd) => cwd.join(path),
        None => {
            return Err(ToolError::invalid_arguments(format!(
                "invalid argument `{argument}`: this session has no working directory, so the path must be absolute"
            )));
        }
    };
    Ok(absolute.components().collect())
}

/// The directory that is meant if an argument says nothing.
pub(crate) fn here() -> String {
    ".".to_owned()
}

/// An error of the file system tools.
pub(crate) fn fs_error(code: &'static str, message: impl Into<String>) -> ToolError {
    ToolError::new("FsError", code, message)
}

/// The error for a failed system call; `action` is a verb, as in `read`.
pub(crate) fn io_error(action: &str, path: &Path, error: &io::Error) -> ToolError {
    let shown = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => fs_error(
            "FS_NOT_FOUND",
            format!("cannot {action} `{shown}`: it does not exist"),
        ),
        io::ErrorKind::PermissionDenied => fs_error(
            "FS_PERMISSION_DENIED",
            format!("cannot {action} `{shown}`: permission denied"),
        ),
        io::ErrorKind::NotADirectory => fs_error(
            "FS_NOT_A_DIRECTORY",
            format!("cannot {action} `{shown}`: a part of the path is a file, not a directory"),
        ),
        io::ErrorKind::IsADirectory => is_a_directory(action, path),
        _ => fs_error("FS_IO", format!("cannot {action} `{shown}`: {error}")),
    }
}

pub(crate) fn is_a_directory(action: &str, path: &Path) -> ToolError {
    fs_error(
        "FS_IS_A_DIRECTORY",
        format!("cannot {action} `{}`: it is a directory", path.display()),
    )
}

pub(crate) fn not_a_file(action: &str, path: &Path) -> ToolError {
    fs_error(
        "FS_NOT_A_FILE",
        format!(
            "cannot {action} `{}`: it is neither a file nor a directory",
            path.display()
        ),
    )
}

/// A file result as the model reads it: where, what, and the content between tags.
pub(crate) fn tagged(path: &Path, content: &str) -> String {
    format!(
        "<path>{}</path>\n<type>file</type>\n<content>\n{content}\n</content>",
        path.display()
    )
}

/// Facts for front ends.
pub(crate) fn meta(facts: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(facts)
        .expect("BUG: facts are structs of strings and numbers, which always have a JSON form")
}

/// Runs file work where it may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime is shutting down.
        Err(_) => Err(ToolError::aborted()),
    }
}
