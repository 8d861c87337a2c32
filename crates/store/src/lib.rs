//! Where sessions are kept: the [`Persistence`] trait and its backend of JSONL files; one in memory ([`MemoryStore`]) for
//! tests and for programs that keep nothing. What every backend has to do is a suite of tests (`testing`, behind the
//! feature of that name).
//!
//! A log is created by linking a finished file into place and changed only by appending. A batch is durable when
//! [`SessionWriter::append`] returns, or was taken back when it fails. One process writes a session at a time, held by a
//! kernel lock; anybody reads and forks it meanwhile. [`WriteBehind`] puts a queue in front of a writer: appending then
//! never waits for the disk. What a model streams is kept in a journal until an event holds it. Opening a session for
//! writing repairs what a crash has left, in one durable batch.
//!
//! What this crate is not: it knows no agents, no HTTP and no async runtime, reads no clock, and validates nothing itself:
//! that is `offshoot-format`.
//!
//! ```
//! use std::sync::Arc;
//! use offshoot_format::Container;
//! use offshoot_session::{EventDraft, EventKind, Session, SessionHeader};
//! use offshoot_store::{JsonlStore, Persistence};
//!
//! # let home = tempfile::tempdir()?;
//! let store = JsonlStore::new(home.path().join("sessions"), Container::Zstd);
//! let mut session = Session::new(SessionHeader::new("demo".into(), 1_000))?;
//! let mut writer = store.create(session.header())?;
//! let event = session.append(EventDraft::log_only(EventKind::TurnStart, &serde_json::json!({"turn": 1}))?, 1_001)?;
//! writer.append(&[event])?;
//! drop(writer); // the process ends in the middle of the turn
//!
//! let opened = store.open(&"demo".into(), 2_000)?;
//! let kinds: Vec<&str> = opened.session.log().events().map(|event| event.kind().as_str()).collect();
//! assert_eq!(kinds, ["turn/start", "turn/end", "session/end-seed"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bases;
mod behind;
mod blobs;
mod checkpoints;
mod collect;
mod disk;
mod error;
mod export;
mod follow;
mod fork;
mod generations;
mod index;
mod inode;
mod inspect;
mod journal;
mod jsonl;
mod layout;
mod listing;
mod lock;
mod logbytes;
mod memory;
mod note;
mod opening;
mod persistence;
mod prefix;
mod prune;
mod read;
mod remains;
mod repair;
mod revision;
mod salvage;
mod summary;
mod survey;
#[cfg(feature = "testing")]
pub mod testing;
mod threads;
mod trash;
mod tree;
mod usage;
mod walk;
mod writer;

pub use behind::{
    Clock, Closed, Completion, Inlet, Stored, Unstored, WriteBehind, WriteListener, WriterThread,
};
pub use blobs::{BlobId, BlobWriter, Blobs};
pub use collect::{Collected, Collecting, Garbage, Kept, Removed, Scope};
pub use disk::{Disk, LogFile, RealDisk};
pub use error::StoreError;
pub use export::{Exported, export_file};
pub use follow::{Follower, News, Notice, WITNESS};
pub use fork::ForkLayout;
pub use generations::{Converted, convert};
pub use inspect::{Inspection, Inspector, InspectorLimits, InspectorWork, LiveSessions, LiveView};
pub use journal::{AttemptStart, Settle, Settlement, StrayJournal};
pub use jsonl::JsonlStore;
pub use layout::{HOME_LAYOUT, HOME_MARKER, home_marker};
pub use listing::{Filled, Listed, Page, Query, Status, Within};
pub use lock::Locking;
pub use logbytes::LogBytes;
pub use memory::MemoryStore;
pub use persistence::{OpenSession, Persistence, ReadSession, Repair, SessionWriter, StoredFork};
pub use prefix::Prefix;
pub use prune::Pruned;
pub use remains::{Remains, stream_beside};
pub use revision::{Revision, SETTLED_AFTER};
pub use salvage::{Salvaged, salvage_into};
pub use summary::{Fault, Noticed, Summary, Torn};
pub use trash::{Choice, Restored, Trash, Trashed};
pub use usage::{SessionUsage, Usage};
