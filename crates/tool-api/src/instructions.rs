//! Where the instructions come from that a project keeps in files.

use std::fmt;
use std::path::Path;

/// Finds the instructions that apply to a directory. The agent asks before every step, so that it notices changes: an answer
/// should come fast, and cannot fail. What cannot be read is not there.
pub trait Instructions: Send + Sync + fmt::Debug {
    /// The files that apply to `cwd`, from the most general to the most specific one. `None`: the session does not say where
    /// it works.
    fn files(&self, cwd: Option<&Path>) -> Vec<InstructionFile>;
}

/// A file with instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionFile {
    /// Which place it has in the project: its directory, from the project's root or `~` for the user's own, a NUL, and its
    /// name. It stays the same when the content changes, and in a copy of the project elsewhere.
    pub scope: String,
    /// What it is called when it is shown.
    pub path: String,
    /// What it says.
    pub text: String,
    /// `sha256:<hex>` of its content.
    pub digest: String,
}
