//! What a tool is.
//!
//! A [`Tool`] describes itself to the model ([`ToolSpec`]), says what it may do to the world ([`Effects`]) and whether
//! a call may run beside others ([`Concurrency`]), and turns [`ToolArguments`] into a [`ToolOutput`] or a
//! [`ToolError`]. A [`ToolRegistry`] holds the tools of one agent in the order in which the model sees them.
//!
//! This crate is not a driver and contains no tool: scheduling, approval and logging belong to the agent, the built-in
//! tools to their own crate. It is small so that both sides can be built apart. The rules it gives types to are those
//! of `reference/agent.md` §1.9, §3.1 and §3.2.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//!
//! use async_trait::async_trait;
//! use offshoot_tool_api::{
//!     Effects, Tool, ToolArguments, ToolContext, ToolError, ToolOutput, ToolRegistry, ToolSpec,
//! };
//! use serde::Deserialize;
//!
//! #[derive(Debug)]
//! struct Shout(ToolSpec);
//!
//! #[derive(Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct ShoutArguments {
//!     text: String,
//! }
//!
//! #[async_trait]
//! impl Tool for Shout {
//!     fn spec(&self) -> &ToolSpec {
//!         &self.0
//!     }
//!
//!     fn effects(&self) -> Effects {
//!         Effects::ReadOnly
//!     }
//!
//!     async fn execute(
//!         &self,
//!         arguments: ToolArguments,
//!         _cx: &ToolContext,
//!     ) -> Result<ToolOutput, ToolError> {
//!         let ShoutArguments { text } = arguments.parse()?;
//!         Ok(ToolOutput::text(text.to_uppercase()))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let schema = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
//! let mut tools = ToolRegistry::new();
//! tools.register(Arc::new(Shout(ToolSpec::new("shout", "Says it louder.", schema)?)))?;
//!
//! let tool = tools.get("shout").expect("it was registered above");
//! let arguments = ToolArguments::from_model(r#"{"text":"hello"}"#);
//! let output = tool.execute(arguments, &ToolContext::new("call-1")).await?;
//! assert_eq!(output.text, "HELLO");
//!
//! let wrong = ToolArguments::from_model(r#"{"text":3}"#);
//! let error = tool.execute(wrong, &ToolContext::new("call-2")).await.unwrap_err();
//! assert_eq!(error.code(), "INVALID_ARGS");
//! # Ok(())
//! # }
//! ```

mod arguments;
mod error;
mod instructions;
mod limits;
mod permission;
mod registry;
mod spill;
mod tool;

pub use arguments::ToolArguments;
pub use error::ToolError;
pub use instructions::{InstructionFile, Instructions};
pub use limits::{Bounded, HeadTail, Omitted, OutputLimits, bound};
pub use permission::{
    ApprovalPolicy, Escalation, Limits, PermissionAnswer, PermissionQuestion, SandboxMode,
};
pub use registry::{RegistryError, ToolRegistry};
/// Derives the schema of a tool's arguments; see [`ToolSpec::typed`].
pub use schemars::{self, JsonSchema};
pub use spill::{Spill, SpillFile};
pub use tool::{
    Concurrency, Effects, SpecError, Tool, ToolContext, ToolOutput, ToolRecord, ToolSpec,
};
