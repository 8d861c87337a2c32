//! `multi_edit`: several replacements in one file, all or none.

use async_trait::async_trait;
use offshoot_tool_api::{
    Effects, Escalation, JsonSchema, Tool, ToolArguments, ToolContext, ToolError, ToolOutput,
    ToolSpec, schemars,
};
use serde::Deserialize;

use crate::change::Changes;
use crate::edit::edit;
use crate::files::blocking;
use crate::replacement::{Replaced, Replacement};
use crate::tool_set::ToolSet;

const DESCRIPTION: &str = "Makes several replacements in one file and returns the change as a diff. They are made in \
the given order, each in what the ones before have left. If one of them fails, the file stays as it is. The rules are \
those of edit.";

/// The tool `multi_edit`.
#[derive(Debug)]
pub(crate) struct MultiEditTool {
    spec: ToolSpec,
    changes: Changes,
}

impl MultiEditTool {
    pub(crate) fn new(set: &ToolSet) -> Self {
        Self {
            spec: ToolSpec::typed::<Arguments>("multi_edit", DESCRIPTION),
            changes: Changes::new("edit", set),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file to edit. A relative path starts at the working directory.
    file_path: String,
    /// The replacements, in the order in which they are made.
    #[schemars(length(min = 1))]
    edits: Vec<Replacement>,
}

#[async_trait]
impl Tool for MultiEditTool {
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
        let Arguments { file_path, edits } = arguments.parse()?;
        if edits.is_empty() {
            return Err(ToolError::invalid_arguments(
                "invalid argument `edits`: it is empty",
            ));
        }
        let change = self.changes.of(&file_path, cx)?;
        blocking(move || edit(change, |content| all(content, &edits))).await
    }
}

fn all(content: &[u8], edits: &[Replacement]) -> Result<Replaced, ToolError> {
    let mut done = Replaced {
        content: content.to_owned(),
        count: 0,
    };
    for (at, replacement) in edits.iter().enumerate() {
        let next = replacement.apply(&done.content).map_err(|error| {
            ToolError::new(
                error.name().to_owned(),
                error.code().to_owned(),
                format!(
                    "edit {} of {} failed, and none was made: {}",
                    at + 1,
                    edits.len(),
                    error.message()
                ),
            )
        })?;
        done = Replaced {
            content: next.content,
            count: done.count + next.count,
        };
    }
    Ok(done)
}
