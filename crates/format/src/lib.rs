//! DeepSeek Harness session files: bytes in, valid sessions out, and back.
//!
//! Reads formats V0 to V4 and writes V4, raw or as zstd frames. Reading goes through five gates: the container and its
//! frames, the version, the rows with their admission rules, the way up of an older file (`chain.rs` and `stages/`), and
//! the relationships between events. What a crash leaves at the end of a file is told apart from damage to what was
//! committed; nothing is dropped without saying so.
//!
//! What this crate is not: it does not know where bytes are, opens nothing, and repairs nothing.
//!
//! ```
//! use offshoot_format::{Container, decode};
//! use offshoot_session::{EventDraft, EventKind, Session, SessionHeader};
//!
//! let mut session = Session::new(SessionHeader::new("demo".into(), 1_000))?;
//! session.append(EventDraft::log_only(EventKind::TurnStart, &serde_json::json!({"turn": 1}))?, 1_001)?;
//!
//! let mut bytes = Container::Zstd.header(session.header())?;
//! bytes.extend(Container::Zstd.batch(session.log().events().map(|event| &**event)));
//!
//! let stored = decode(&bytes)?;
//! assert_eq!(stored.log.end().get(), 1);
//! assert_eq!(stored.closers().len(), 1, "the turn is open: a reader closes it in memory");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod admission;
mod branch;
mod chain;
mod chunks;
mod codec;
mod decode;
mod digest;
mod encode;
mod error;
mod evidence;
mod feed;
mod frames;
mod growing;
mod header;
mod json;
mod loose;
mod record;
mod refs;
mod relationships;
mod rows;
mod salvage;
mod scan;
mod shapes;
mod stages;
mod status;
mod stored;
mod suffix;
mod version;

pub use branch::{Assembled, BRANCH_VERSION, Base, BranchHeader, Gathered, Part, base_name};
pub use chunks::pack_chunk_rows;
pub use decode::{Frame, StoredSession, decode, decode_as, decode_on, decode_with};
pub use digest::RunningDigest;
pub use error::{FormatError, Place};
pub use evidence::{ChildDescriptor, ChildEvidence};
pub use feed::Threads;
pub use frames::{FrameScan, MAX_LINE, looks_compressed, scan_frame};
pub use growing::{GrowingLog, Rest};
pub use header::{CURRENT_VERSION, StoredHeader, encode_header};
pub use loose::read_rows;
pub use salvage::{Gap, Loss, Salvage, salvage, salvage_ahead_of};
pub use scan::{Container, TornTail, read_header};
pub use status::Status;
pub use stored::{StoredLine, stored_lines};
pub use suffix::{Suffix, decode_suffix};
