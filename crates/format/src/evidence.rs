//! What other sessions prove about one: the children that an older parent did not record (`reference/persistence.md` §2.6).

#[cfg(test)]
mod tests;

use memchr::memmem;
use offshoot_session::SessionId;

use crate::FormatError;
use crate::header::StoredHeader;
use crate::json::Node;
use crate::scan::{Container, read_header};
use crate::stored::stored_lines;

const MARKER: &str = "session/end-seed";
const DESCRIPTOR: &str = "subagent/descriptor";

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

impl ChildEvidence {
    /// Reads from the file of a child, of any version, what it proves. Nothing is validated or migrated: also a file that
    /// cannot be brought up says what its session was made for.
    ///
    /// # Errors
    /// A file without a header that can be used.
    pub fn of_file(container: Container, bytes: &[u8]) -> Result<Self, FormatError> {
        let stored = StoredHeader::read(&read_header(container, bytes)?)?;
        let own_from = stored.seed_length.unwrap_or(0);
        let mut descriptors = Vec::new();
        for line in stored_lines(container, bytes)
            .skip(1)
            .filter_map(Result::ok)
            // What was cut off in the middle was never an event.
            .filter(|line| line.is_whole)
        {
            let Ok(text) = std::str::from_utf8(&line.text) else {
                continue;
            };
            let Ok(row) = Node::checked(text) else {
                continue;
            };
            let may_be = |kind: &str| memmem::find(text.as_bytes(), kind.as_bytes()).is_some();
            if may_be(MARKER) && row.names("type", MARKER) {
                let inherited = row.get("data").and_then(|data| data.get("inherited"));
                if inherited.is_some_and(|inherited| inherited.json() == "true") {
                    descriptors.clear();
                }
            } else if may_be(DESCRIPTOR) && row.names("type", DESCRIPTOR) {
                let seq = row.get("seq").and_then(|seq| seq.count());
                if let Some(data) = row.get("data").filter(|_| seq >= Some(own_from)) {
                    descriptors.push(ChildDescriptor::read(data));
                }
            }
        }
        Ok(Self {
            id: stored.header.id,
            created_at: stored.header.created_at,
            descriptors,
        })
    }
}

impl ChildDescriptor {
    fn read(data: Node<'_>) -> Self {
        let text = |name| Some(data.get(name)?.text()?.into_owned());
        Self {
            version: data
                .get("version")
                .and_then(|version| version.count())
                .unwrap_or(0),
            mode: text("mode"),
            label: text("label"),
        }
    }
}
