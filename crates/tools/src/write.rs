//! `write`: a whole file, new or replaced.

use async_trait::async_trait;
use offshoot_tool_api::{
    Effects, Escalation, JsonSchema, Tool, ToolArguments, ToolContext, ToolError, ToolOutput,
    ToolSpec, schemars,
};
use serde::Deserialize;

use crate::change::Changes;
use crate::changed::Changed;
use crate::files::{blocking, tagged};
use crate::place::Missing;
use crate::tool_set::ToolSet;

const DESCRIPTION: &str = "Writes a file, replacing all of its content if it exists. Missing parent directories are \
created. A file that exists must have been read before, in its current version, so that nothing is lost that should \
stay. To change a part of a file use edit.";

/// The tool `write`.
///
/// The new content replaces the old in one step, so that no reader and no crash sees half of it. A symbolic link stays
/// one: the file it leads to is replaced. That file keeps its permissions, but loses its other hard links.
#[derive(Debug)]
pub(crate) struct WriteTool {
    spec: ToolSpec,
    changes: Changes,
}

impl WriteTool {
    pub(crate) fn new(set: &ToolSet) -> Self {
        Self {
            spec: ToolSpec::typed::<Arguments>("write", DESCRIPTION),
            changes: Changes::new("write", set),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file to write. A relative path starts at the working directory.
    file_path: String,
    /// The complete new content of the file.
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

    fn escalation(&self, arguments: &ToolArguments, cx: &ToolContext) -> Option<Escalation> {
        let Arguments { file_path, .. } = arguments.parse().ok()?;
        self.changes.escalation(&file_path, cx)
    }

    async fn execute(
        &self,
        arguments: ToolArguments,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let Arguments { file_path, content } = arguments.parse()?;
        let change = self.changes.of(&file_path, cx)?;
        blocking(move || {
            let changed = change.make(Missing::Create, |_| Ok(content.into_bytes()))?;
            Ok(written(&changed))
        })
        .await
    }
}

fn written(changed: &Changed) -> ToolOutput {
    let (operation, said) = if changed.is_new() {
        ("create", "Created file")
    } else {
        ("update", "Updated file")
    };
    ToolOutput::text(tagged(&changed.path, said))
        .with_meta(changed.facts(Some(operation), changed.diff()))
}
