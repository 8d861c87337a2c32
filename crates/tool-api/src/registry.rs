//! The tools of one agent, in the order in which the model sees them.

use std::sync::Arc;

use thiserror::Error;

use crate::{Tool, ToolSpec};

/// Tools by name, in registration order.
///
/// The order is part of the request prefix that providers cache, so it never depends on hashing.
#[derive(Clone, Debug, Default)]
pub struct ToolRegistry {
    // A dozen entries: a scan is as fast as a map and keeps the order for free.
    tools: Vec<Arc<dyn Tool>>,
}

impl ToolRegistry {
    /// A registry without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool behind those already there.
    ///
    /// # Errors
    /// If the name is empty or taken. The registry is then as it was.
    pub fn register(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let name = &tool.spec().name;
        if name.is_empty() {
            return Err(RegistryError::EmptyName);
        }
        if self.get(name).is_some() {
            return Err(RegistryError::DuplicateName { name: name.clone() });
        }
        self.tools.push(tool);
        Ok(())
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.spec().name == name)
    }

    /// All tools, in registration order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<dyn Tool>> {
        self.tools.iter()
    }

    /// All descriptions, in registration order.
    pub fn specs(&self) -> impl ExactSizeIterator<Item = &ToolSpec> {
        self.tools.iter().map(|tool| tool.spec())
    }
}

/// Why a tool was not registered.
#[derive(Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Another tool has the name.
    #[error("register tool `{name}`: another tool already has this name")]
    DuplicateName {
        /// The name in question.
        name: String,
    },
    /// The tool has no name.
    #[error("register a tool: its name is empty")]
    EmptyName,
}
