//! `write`: a whole file, new or replaced.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use offshoot_tool_api::{
    Effects, Tool, ToolArguments, ToolContext, ToolError, ToolOutput, ToolSpec,
};
use serde::{Deserialize, Serialize};

use crate::files::{blocking, io_error, is_a_directory, meta, not_a_file, resolve, tagged};

/// Up to this many bytes of old and new text together, the result shows both to front ends.
const MAX_DIFF_BYTES: u64 = 32 * 1024;
/// As many symbolic links as Linux follows.
const MAX_LINKS: usize = 40;

const DESCRIPTION: &str = "Writes a file, replacing all of its content if it exists. Missing parent directories are \
created. Read a file before you replace it, so that nothing is lost that should stay.";

const PARAMETERS: &str = r#"{"type":"object","properties":{"file_path":{"type":"string","description":"The file to write. A relative path starts at the working directory."},"content":{"type":"string","description":"The complete new content of the file."}},"required":["file_path","content"],"additionalProperties":false}"#;

/// The tool `write`.
///
/// The new content replaces the old in one step, so that no reader and no crash sees half of it. A symbolic link stays
/// one: the file it leads to is replaced. That file keeps its permissions, but loses its other hard links.
#[derive(Debug)]
pub struct WriteTool {
    spec: ToolSpec,
}

impl WriteTool {
    /// Creates the tool.
    pub fn new() -> Self {
        let spec = ToolSpec::new("write", DESCRIPTION, PARAMETERS);
        Self {
            spec: spec.expect("BUG: the schema is a constant JSON object"),
        }
    }
}

impl Default for WriteTool {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    file_path: String,
    content: String,
}

#[async_trait]
impl Tool for WriteTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self) -> Effects {
        Effects::Mutating
    }

    async fn execute(
        &self,
        arguments: ToolArguments,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let Arguments { file_path, content } = arguments.parse()?;
        let path = resolve(cx, "file_path", &file_path)?;
        if cx.cancel.is_cancelled() {
            return Err(ToolError::aborted());
        }
        blocking(move || write(&path, &content)).await
    }
}

/// Facts about a write for front ends.
#[derive(Serialize)]
struct Facts {
    operation: &'static str,
    path: String,
    diffs: Vec<Diff>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Diff {
    path: String,
    old_text: String,
    new_text: String,
}

fn write(path: &Path, content: &str) -> Result<ToolOutput, ToolError> {
    let failed = |error| io_error("write", path, &error);
    let target = follow_links(path).map_err(failed)?;
    let old = match fs::metadata(&target) {
        Ok(old) if old.is_dir() => return Err(is_a_directory("write", path)),
        Ok(old) if !old.is_file() => return Err(not_a_file("write", path)),
        Ok(old) => Some(old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };

    let shown = path.display().to_string();
    let (operation, said, diffs) = match &old {
        None => ("create", "Created file", Vec::new()),
        Some(old) => {
            // Replacing needs the right to write into the directory only. A file that is protected against writing
            // shall stay as it is.
            OpenOptions::new()
                .write(true)
                .open(&target)
                .map_err(failed)?;
            let diff = old_text(&target, old.len(), content).map(|old_text| Diff {
                path: shown.clone(),
                old_text,
                new_text: content.to_owned(),
            });
            ("update", "Updated file", diff.into_iter().collect())
        }
    };
    replace(&target, content, old.map(|old| old.permissions())).map_err(failed)?;
    Ok(ToolOutput::text(tagged(path, said)).with_meta(meta(&Facts {
        operation,
        path: shown,
        diffs,
    })))
}

/// The file that a write to `path` changes: `path` itself, or what it leads to, which need not exist.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&target) {
            // An absolute link replaces what it is joined to.
            Ok(link) => target = target.parent().unwrap_or(Path::new("/")).join(link),
            // Not a link, or not there.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::NotFound
                ) =>
            {
                return Ok(target);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// The old content, if it is text and small enough to be shown beside the new.
fn old_text(path: &Path, length: u64, content: &str) -> Option<String> {
    if length + content.len() as u64 > MAX_DIFF_BYTES {
        return None;
    }
    String::from_utf8(fs::read(path).ok()?).ok()
}

/// Publishes the content in one step: a temporary file beside the target takes its place when it is complete.
fn replace(target: &Path, content: &str, permissions: Option<Permissions>) -> io::Result<()> {
    let parent = target.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent)?;
    let mut new = tempfile::Builder::new()
        .prefix(".offshoot-write-")
        // Less the umask, as for any new file.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(parent)?;
    new.write_all(content.as_bytes())?;
    if let Some(permissions) = permissions {
        new.as_file().set_permissions(permissions)?;
    }
    new.as_file().sync_all()?;
    new.persist(target)?;
    Ok(())
}
