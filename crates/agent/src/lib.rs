//! The agent: a driver that runs turns over one live session, and the service that front ends reach sessions through.
//!
//! [`SessionService`] creates, opens, reads and forks sessions. An [`Agent`] is the handle on one that is driven, its
//! [`Driver`] the loop itself: it claims input, builds the
//! request from the log, calls the model, runs the tools the model asked for, and writes every one of these facts as an
//! event, in the order of format V4. [`Subagents`] lets a model hand tasks to sessions of their own. [`derive_script`] turns a recorded session into the script of a model, so that it
//! runs again without a key.
//!
//! Beside a conversation there may be side sessions ([`SessionService::side`]), which explain and do not act.
//!
//! What this crate is not: it knows no HTTP, no terminal, no files but for where a path leads, and no tool, provider or
//! plugin by name. Time and names come from its [`Env`].
//!
//! ```
//! # use std::sync::Arc;
//! # use offshoot_agent::{Agent, AgentConfig, AgentSetup, Clock, Env, IdSource, SessionService};
//! # use offshoot_format::Container;
//! # use offshoot_model::{Attempt, Chunk, ContentBlock, FinishReason, ScriptModel};
//! # use offshoot_store::JsonlStore;
//! # use offshoot_tool_api::ToolRegistry;
//! # #[derive(Debug)] struct Fixed;
//! # impl Clock for Fixed { fn now(&self) -> i64 { 1_000 } }
//! # #[derive(Debug, Default)] struct Counter(std::sync::atomic::AtomicU64);
//! # impl IdSource for Counter {
//! #     fn fresh(&self) -> String { format!("id-{}", self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) }
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let home = tempfile::tempdir()?;
//! # let env = Env { clock: Arc::new(Fixed), ids: Arc::new(Counter::default()) };
//! let store = JsonlStore::new(home.path().join("sessions"), Container::Zstd);
//! let service = SessionService::new(Arc::new(store), env.clone());
//! let model = ScriptModel::new("demo", vec![Attempt::Chunks(vec![
//!     Chunk::BlockStart { index: 0, block_type: "text".into() },
//!     Chunk::BlockEnd { index: 0, block: ContentBlock::text("Four.") },
//!     Chunk::finish(FinishReason::Stop),
//! ])]);
//!
//! let attached = service.create(None)?;
//! let config = AgentConfig::new("demo", "demo-1");
//! let setup = AgentSetup::new(Arc::new(model), ToolRegistry::new(), config, env);
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! # runtime.block_on(async {
//! let agent = Agent::new(attached, setup);
//! agent.followup("how many files?")?;
//! agent.when_idle().await;
//! let log = agent.session().log();
//! assert!(log.messages().last().is_some_and(|message| message.text.contains("Four.")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok(())
//! # }
//! ```

mod agent;
mod answer;
mod approver;
mod calls;
mod cancel;
mod canonical;
mod changes;
mod compaction;
mod context;
mod core;
mod driver;
mod env;
mod error;
mod events;
mod feed;
mod history;
mod hooks;
mod inbox;
mod input;
mod live;
mod meter;
mod notices;
mod offload;
mod permission;
mod phase;
mod preamble;
mod prompt;
mod reconstruct;
mod recorder;
mod registry;
mod repeat;
mod replay;
mod request;
mod retry;
mod running;
mod service;
mod settle;
mod setup;
mod side;
mod spill;
mod step;
mod subagents;
mod subscription;
mod titles;
mod tool_order;
mod tools_told;
mod turn;
mod usage;

pub use agent::{Agent, Queue, Wake};
pub use approver::{AllowEverything, Approver, NobodyToAsk};
pub use cancel::Cancel;
pub use changes::{ChangedFile, ChangedFiles, FileChange, changed_after, observed};
pub use compaction::{
    Compacted, CompactionConfig, CompactionError, CompactionNotice, CompactionPolicy,
    InvalidCompaction, PruneConfig, Summariser,
};
pub use context::{ContextConfig, ContextSection, SystemPromptPolicy};
pub use driver::{Driver, TurnReport};
pub use env::{Clock, Env, IdSource};
pub use error::{AgentError, RequestError};
pub use events::{CancelCause, TurnEndReason};
pub use hooks::{
    AgentHook, Gate, HookError, PostExecute, PreStep, ProposedCall, Recovery, StepContext,
};
pub use inbox::{InboxTarget, Pending};
pub use input::Input;
pub use live::{FrameBody, LiveAnswer, StreamFrame};
pub use meter::{Breakdown, Pressure};
pub use notices::{AgentObserver, AgentStatus, Notice};
pub use permission::{
    Decision, PermissionConfig, PermissionRule, PermissionRules, PolicyFile, RuleError, ToolFilter,
};
pub use prompt::DEFAULT_SYSTEM_PROMPT;
pub use reconstruct::{Reconstruction, reconstruct, verify_request};
pub use recorder::{DurableListener, UnstoredListener};
pub use registry::OnSession;
pub use repeat::RepeatReminder;
pub use replay::{Asked, RecordedCall, ReplayError, derive_script, recorded_calls, script_from};
pub use request::{build_request, count_requests, request_at};
pub use retry::Retrying;
pub use service::{Attached, Fork, Found, Opened, SessionService};
pub use settle::AnswerSettler;
pub use setup::{AgentConfig, AgentSetup};
pub use side::{
    Framing, HANDBACK_MAX_CHARS, Handback, Merged, Promoted, SideError, SideRequest, SideSession,
    handback_request, is_side,
};
pub use spill::BlobSpill;
pub use subagents::{
    Delegation, Delivery, Interrupted, Mode, NewSubagent, Provider, RunEnd, Sent, SetupError,
    Started, StopReason, SubagentError, SubagentLimits, SubagentSetup, SubagentState,
    SubagentStatus, Subagents,
};
pub use subscription::{Snapshot, Subscription, Update};
pub use titles::{TitleCadence, TitleModel, rename, title_of};
pub use usage::{Cost, ModelUsage, Prices, UsageReport, branch_usage, own_usage, usage_from};
