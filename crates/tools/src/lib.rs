//! The built-in tools (`reference/agent.md` §3.3): `read`, `write`, `edit`, `multi_edit`, `bash` with `job_output`,
//! `job_kill` and `job_list`, `glob`, `grep`, `ls`, `todo_write` and, with the feature `web`, `web_fetch`.
//!
//! Each is a [`Tool`] that knows nothing of the agent that calls it. A [`ToolSet`] makes those of one session and holds
//! what they share: which version of each file the session has seen ([`Observations`]). Relative paths start at the
//! directory of the call's context, never at that of the process. Files may be looked at everywhere; they are changed only
//! within the limits of the call, which the kernel enforces for commands ([`sandbox`]), and a call that wants more says so
//! before it runs. What is not here: asking, which the
//! agent does.
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
mod change;
mod changed;
mod diff;
mod edit;
mod environment;
mod files;
mod glob;
mod grep;
mod instructions;
mod job_tools;
mod jobs;
mod kind;
mod ls;
mod multi_edit;
mod names;
mod near_miss;
mod observations;
mod output;
mod place;
mod process;
mod reach;
mod read;
mod replacement;
pub mod sandbox;
mod search;
mod shell;
mod todo_write;
mod tool_set;
mod transcript;
#[cfg(feature = "web")]
mod web_address;
#[cfg(feature = "web")]
mod web_fetch;
#[cfg(feature = "web")]
mod web_page;
mod write;

use std::sync::Arc;

use offshoot_tool_api::Tool;

pub use environment::EnvironmentFilter;
pub use instructions::ProjectInstructions;
pub use jobs::{JobEnd, JobExit, Jobs};
pub use observations::{DigestError, FileDigest, Observations};
pub use shell::ShellOptions;
pub use tool_set::ToolSet;
#[cfg(feature = "web")]
pub use web_address::WebReach;

/// All built-in tools of a session that has seen nothing, without `web_fetch`; see [`ToolSet`] for more.
pub fn builtin() -> Vec<Arc<dyn Tool>> {
    ToolSet::default().tools()
}
