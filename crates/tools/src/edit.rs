//! `edit`: one replacement in a file.

use async_trait::async_trait;
use offshoot_tool_api::{
    Effects, Escalation, JsonSchema, Tool, ToolArguments, ToolContext, ToolError, ToolOutput,
    ToolSpec, schemars,
};
use serde::Deserialize;

use crate::change::{Change, Changes};
use crate::changed::{Changed, Current};
use crate::files::{blocking, fs_error};
use crate::kind::binary;
use crate::place::Missing;
use crate::replacement::{Replaced, Replacement};
use crate::tool_set::ToolSet;

const DESCRIPTION: &str = "Replaces a text in a file with another and returns the change as a diff. The text must be \
exactly as in the file, including its indentation, and must occur once unless `replace_all` is set. The file must have \
been read before, in its current version.";

/// The tool `edit`.
#[derive(Debug)]
pub(crate) struct EditTool {
    spec: ToolSpec,
    changes: Changes,
}

impl EditTool {
    pub(crate) fn new(set: &ToolSet) -> Self {
        Self {
            spec: ToolSpec::typed::<Arguments>("edit", DESCRIPTION),
            changes: Changes::new("edit", set),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file to edit. A relative path starts at the working directory.
    file_path: String,
    /// The text to replace, exactly as it is in the file, without the line numbers of read.
    old_string: String,
    /// The text to put in its place; empty to remove it.
    new_string: String,
    /// Whether to replace every occurrence.
    #[serde(default)]
    replace_all: bool,
}

#[async_trait]
impl Tool for EditTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self) -> Effects {
        Effects::Mutating
    }

    fn escalation(&self, arguments: &ToolArguments, cx: &ToolContext) -> Option<Escalation> {
        let Arguments { file_path, .. } = arguments.parse().ok()?;
        self.changes.escalation(&file_path, cx)
    }

    async fn execute(
        &self,
        arguments: ToolArguments,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let Arguments {
            file_path,
            old_string,
            new_string,
            replace_all,
        } = arguments.parse()?;
        let change = self.changes.of(&file_path, cx)?;
        blocking(move || {
            let replacement = Replacement::new(old_string, new_string, replace_all);
            edit(change, |content| replacement.apply(content))
        })
        .await
    }
}

/// Edits a file that exists.
pub(crate) fn edit(
    change: Change,
    replace: impl FnOnce(&[u8]) -> Result<Replaced, ToolError>,
) -> Result<ToolOutput, ToolError> {
    let mut count = 0;
    let changed = change.make(Missing::Refuse, |current| {
        let content = match current {
            Current::Content(content) => content,
            Current::TooLarge(bytes) => {
                return Err(fs_error(
                    "FS_TOO_LARGE",
                    format!("the file has {bytes} bytes, too many to edit; use bash, for example with sed"),
                ));
            }
            // Refused already, if the file was not there.
            Current::Absent => &Vec::new(),
        };
        if let Some(kind) = binary(content) {
            return Err(fs_error(
                "FS_BINARY_FILE",
                format!("the file is {kind}, and edit changes text only"),
            ));
        }
        let replaced = replace(content)?;
        count = replaced.count;
        Ok(replaced.content)
    })?;
    Ok(edited(&changed, count))
}

fn edited(changed: &Changed, count: usize) -> ToolOutput {
    let diff = changed.diff();
    let replacements = match count {
        1 => "1 replacement".to_owned(),
        _ => format!("{count} replacements"),
    };
    let path = changed.path.display();
    let text = if diff.is_empty() {
        format!("Edited {path}: {replacements}, which leave the file as it was.")
    } else {
        format!("Edited {path}: {replacements}.\n\n{diff}")
    };
    ToolOutput::text(text).with_meta(changed.facts(None, diff))
}
