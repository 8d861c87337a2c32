//! `todo_write`: the list of what is to be done, as the model keeps it.

use std::collections::HashSet;

use async_trait::async_trait;
use offshoot_tool_api::{
    Effects, JsonSchema, Tool, ToolArguments, ToolContext, ToolError, ToolOutput, ToolSpec,
    schemars,
};
use serde::{Deserialize, Serialize};

use crate::files::meta;

const DESCRIPTION: &str = "Writes the list of what is to be done for the current task, for yourself and for the person \
who watches. Every call replaces the whole list. Use it for work of several steps: keep the step that you work on, and \
only that one, `in_progress`, and mark it `completed` as soon as it is done.";

/// The tool `todo_write` (`reference/agent.md` §3.3).
///
/// The list is an event of the log, `todo/write`, and is nowhere else: it changes nothing outside the conversation.
#[derive(Debug)]
pub(crate) struct TodoWriteTool {
    spec: ToolSpec,
}

impl TodoWriteTool {
    pub(crate) fn new() -> Self {
        let spec = ToolSpec::typed::<TodoList>("todo_write", DESCRIPTION);
        Self { spec }
    }
}

// The arguments, and also the payload of the event.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TodoList {
    /// The whole list, in the order of the work; empty to clear it.
    todos: Vec<Todo>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Todo {
    /// What is to be done, in a few words. No two may be the same.
    content: String,
    /// How far it is. At most one may be `in_progress`.
    status: Status,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
}

#[async_trait]
impl Tool for TodoWriteTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effects(&self) -> Effects {
        Effects::ReadOnly
    }

    async fn execute(
        &self,
        arguments: ToolArguments,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let list: TodoList = arguments.parse()?;
        list.check()?;
        if cx.cancel.is_cancelled() {
            return Err(ToolError::aborted());
        }
        let text = format!(
            "Updated todo list: {} pending, {} in progress, {} completed.",
            list.count(Status::Pending),
            list.count(Status::InProgress),
            list.count(Status::Completed)
        );
        Ok(ToolOutput::text(text).with_record("todo/write", meta(&list)))
    }
}

impl TodoList {
    fn check(&self) -> Result<(), ToolError> {
        let mut contents = HashSet::new();
        for (at, todo) in self.todos.iter().enumerate() {
            let content = todo.content.trim();
            if content.is_empty() {
                return Err(invalid(&format!(
                    "the content of number {} is empty",
                    at + 1
                )));
            }
            if !contents.insert(content) {
                return Err(invalid(&format!("`{content}` is there twice")));
            }
        }
        match self.count(Status::InProgress) {
            0 | 1 => Ok(()),
            count => Err(invalid(&format!(
                "{count} are in progress, but only one may be"
            ))),
        }
    }

    fn count(&self, status: Status) -> usize {
        self.todos
            .iter()
            .filter(|todo| todo.status == status)
            .count()
    }
}

fn invalid(reason: &str) -> ToolError {
    ToolError::invalid_arguments(format!("invalid argument `todos`: {reason}"))
}
