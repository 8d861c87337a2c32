//! What other sessions prove about one: the children that an older parent did not record (`reference/persistence.md` §2.6).

use offshoot_session::SessionId;

/// A session that another one delegated work to. Before V4 the parent did not always log its children; whoever migrates a
/// parent passes what the children's own files say, and the missing `subagent/catalog` facts are completed from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildEvidence {
    /// The child.
    pub id: SessionId,
    /// When it was created, ms since the epoch.
    pub created_at: u64,
    /// What the child's own `subagent/descriptor` events say, in their order. Inherited ones are not the child's own.
    pub descriptors: Vec<ChildDescriptor>,
}

/// One `subagent/descriptor` of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildDescriptor {
    /// Its version: 1 knew no mode, such a child was always continuable.
    pub version: u64,
    /// `one-shot` or `continuable`.
    pub mode: Option<String>,
    /// What the parent called the child.
    pub label: Option<String>,
}
