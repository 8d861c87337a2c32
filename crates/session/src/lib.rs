//! The heart of Offshoot: a conversation as an append-only event log that can be forked at any event.
//!
//! A [`Session`] is a header and an [`EventLog`]. The log is the only state: the surface that the model sees, the request
//! header, what is open, and what is pending are folds of its events. A fork shares its parent's events and folds up to the
//! cut, gets a marker, and, when the cut lies inside a turn, results and ends that close what was open there. Crash repair
//! is the same algorithm with another cause.
//!
//! What this crate is not: it knows no files, no clock, no randomness, no async, no provider. Ids and times are arguments.
//! Reading and writing files is `offshoot-format` and `offshoot-store`; talking to a model is `offshoot-model`.
//!
//! ```
//! use offshoot_session::{EventDraft, EventKind, ForkSource, SessionHeader, SessionId, SessionStore};
//! use serde_json::json;
//!
//! let store = SessionStore::new();
//! let parent = store.create(SessionHeader::new("parent".into(), 1_000), None, 1_000)?;
//! parent.append(EventDraft::log_only(EventKind::TurnStart, &json!({"turn": 1}))?, 1_001)?;
//! parent.append(EventDraft::log_only(EventKind::StepStart, &json!({"turn": 1, "step": 1}))?, 1_002)?;
//!
//! // Forked in the middle of a step: the child gets a marker and the ends that the cut left open.
//! let child = store.fork(ForkSource::Live(&parent), None, "child".into(), 2_000)?;
//! let own: Vec<String> = child.lock().lifecycle_events().map(|event| event.kind().to_string()).collect();
//! assert_eq!(own, ["session/end-seed", "step/end", "turn/end"]);
//! assert_eq!(parent.log().end().get(), 2, "the parent is as it was");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod body;
mod closers;
mod derive;
mod event;
mod fold;
mod fork;
mod header;
mod ids;
mod json;
mod kind;
mod live;
mod log;
mod message;
mod row;
mod session;
mod shared_vec;
mod sources;
mod surface;
mod text;

pub use body::{Body, Call, MessageHead, OffloadTarget, ResultError, SideMark, StepRef};
pub use closers::{
    CloseCause, INTERRUPTED_NOT_STARTED, OpenTail, PendingCall, TOOL_NOT_STARTED,
    TOOL_OUTCOME_UNKNOWN, open_turn_closers,
};
pub use derive::DerivedMessage;
pub use event::{Event, EventDraft, RowError, SurfaceOp};
pub use fold::{Finding, PendingInput};
pub use fork::{
    ForkError, ForkSeed, NotContinuable, build_fork_seed, fork_closers, latest_completed_boundary,
};
pub use header::{Origin, SessionHeader};
pub use ids::{LogOffset, MAX_SAFE_INTEGER, Seq, SessionId};
pub use json::Object;
pub use kind::EventKind;
pub use live::{ForkSource, LiveSession, PreparedSession, SessionStore, StoreError, StoreListener};
pub use log::{EventLog, LogError};
pub use session::{ObserverFailure, SeedError, Session, SessionObserver};
pub use shared_vec::SharedVec;
pub use sources::{decode_sources, encode_sources};
pub use surface::Surface;
pub use text::RowsText;
