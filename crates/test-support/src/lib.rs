//! Helpers for tests, and for nothing else: a dev-dependency that no shipped crate may have.
//!
//! - [`ScriptedModelServer`]: a model provider on the loopback interface that answers from a script, chunk by chunk
//!   when a test wants it, and refuses to let a request with a broken transcript pass unnoticed.
//! - [`transcript`]: what makes a request acceptable to providers, in chat completions and in Messages.
//! - [`corpus`]: recorded sessions, if they are there.
//! - [`TestHome`], [`OffshootCommand`], [`CommandOutput`]: running the built binary in a home of its own.
//!
//! It is not a place for fakes of the project's own traits; those live beside the traits. Helpers here fail by
//! panicking, as test code does.
//!
//! # Example
//!
//! ```
//! use offshoot_test_support::{Reply, ScriptedModelServer};
//!
//! let server = ScriptedModelServer::start([
//!     Reply::tool_calls([("call_1", "read", r#"{"file_path":"a.txt"}"#)]),
//!     Reply::text("It says alpha."),
//! ]);
//! // Give `server.base_url()` to the code under test, then look at what it sent:
//! assert_eq!(server.requests(), []);
//! server.finish();
//! ```
#![expect(
    clippy::print_stderr,
    reason = "the notice about a skipped test belongs into the test's captured output"
)]

mod command;
pub mod corpus;
mod home;
mod server;
pub mod transcript;

pub use command::{CommandOutput, OffshootCommand};
pub use home::TestHome;
pub use server::{
    Behaviour, CapturedRequest, ClosedPort, Endpoint, Gate, Gates, Reply, ScriptedModelServer,
    ScriptedToolCall, Usage,
};
