//! The built-in tools: [`ReadTool`], [`WriteTool`] and [`BashTool`] (`reference/agent.md` §3.3).
//!
//! Each is a [`Tool`] that knows nothing of the agent that calls it. Relative paths start at the directory of the
//! call's context, never at that of the process. What is not here: asking for permission, which the agent does by a
//! tool's effects, and any confinement. A command run by [`BashTool`] may do whatever this process may.
//!
//! # Example
//!
//! ```
//! use offshoot_tool_api::{ToolArguments, ToolContext, ToolRegistry};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut registry = ToolRegistry::new();
//! for tool in offshoot_tools::builtin() {
//!     registry.register(tool)?;
//! }
//! let dir = tempfile::tempdir()?;
//! let cx = ToolContext::new("call-1").in_directory(dir.path());
//!
//! let write = registry.get("write").expect("it is built in");
//! let arguments = ToolArguments::from_model(r#"{"file_path":"notes/a.txt","content":"alpha\n"}"#);
//! write.execute(arguments, &cx).await?;
//!
//! let bash = registry.get("bash").expect("it is built in");
//! let arguments = ToolArguments::from_model(r#"{"command":"cat notes/a.txt"}"#);
//! assert_eq!(bash.execute(arguments, &cx).await?.text, "alpha\n");
//! # Ok(())
//! # }
//! ```

mod bash;
mod files;
mod process;
mod read;
mod write;

use std::sync::Arc;

use offshoot_tool_api::Tool;

pub use bash::BashTool;
pub use read::ReadTool;
pub use write::WriteTool;

/// All built-in tools, in the order in which a model should see them.
pub fn builtin() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(ReadTool::new()),
        Arc::new(WriteTool::new()),
        Arc::new(BashTool::new()),
    ]
}
