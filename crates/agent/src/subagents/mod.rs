//! Subagents: sessions that another session hands work to (`reference/agent.md` §4).
//!
//! A model delegates with the tool `delegate`. The child is an ordinary session with a file and an agent of its own; what ties
//! it to its parent is its header (origin, parent, depth) and one `subagent/catalog` fact in the parent's log. Two things are
//! to be chosen:
//!
//! * What it knows ([`Provider`]): nothing but its task (*spawn*), or the conversation as far as its turns are completed
//!   (*fork*). The turn that delegates is open and is never part of it.
//! * How long it lives ([`Mode`]): for one task (*one-shot*), or for whatever it is sent later (*continuable*).
//!
//! [`Subagents`] is one object for all sessions of a service. [`Subagents::equip`] gives an agent the tools, bound to its
//! session; children get the same tools in the same way, so that a fork sends the same schemas as its parent. What a child is
//! made of besides (model, tools, hooks) the program says: [`SubagentSetup`].
//!
//! ```text
//! delegate ──► order ──► child: session ► setup ► own events ► agent ► catalog of the parent
//!                          │
//!                          ├─ the call waits ───────► run to its end ► collapse ► result of the call
//!                          └─ it goes on afterwards ─► activation ──► settled ──► notice for the parent
//!                                                          ▲
//! send_message ──► at work, or opened again (resume) ──────┘
//! ```
//!
//! What goes on behind its call has an activation (`activation.rs`) and a place in one table (`places.rs`), until it has come
//! to rest and its parent was told (`notice.rs`). Then there is nothing of it but its file. `message.rs` says who reaches whom,
//! `below.rs` waits for what is at work below a session and ends it.
//!
//! **Invariant:** a child that has been told its task is in the catalog of its parent, durably; and what is in a catalog is
//! durable itself. A crash in between leaves a session in which nothing has happened.
//!
//! **Invariant:** children are created in the order in which the model has asked for them, also when the calls run at the same
//! time.
//!
//! **Invariant:** a child has at most one agent here, and whoever was given its id hears of its end, once for each time that it
//! was at work.
//!
//! **Invariant:** a child in the background never outlives the agent of its parent, however that goes.
//!
//! **Invariant:** a child may do no more than its parent: its limits are those that the parent's log says, its tools pass the
//! parent's filter too, and nobody is asked to widen them unless the parent may ask.

mod activation;
mod below;
mod child;
mod collapse;
mod delegate;
mod descriptor;
mod error;
mod interrupt_tool;
mod list_tool;
mod message;
mod message_tool;
mod notice;
mod order;
mod places;
mod request;
mod resume;
mod run;
mod service;
mod setup;
mod slots;
mod status;

pub use collapse::{RunEnd, StopReason};
pub use error::SubagentError;
pub use message::{Delivery, Interrupted, Sent};
pub use request::{Delegation, Mode, Provider, Started};
pub use service::{SubagentLimits, Subagents};
pub use setup::{NewSubagent, SetupError, SubagentSetup};
pub use status::{SubagentState, SubagentStatus};
