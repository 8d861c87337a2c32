//! Limits that the kernel enforces on a command and everything it starts.
//!
//! A [`SandboxPolicy`] says what a command may change. Nobody can take limits back that Landlock has put on a process, so
//! they are put on a process of its own: the agent starts itself again ([`SandboxLauncher`]), that process confines itself
//! ([`sandbox_exec`]) and becomes the command. Before that it says over a pipe that it is confined, or why it is not.
//! Without these words no command counts as run: a launcher that fails in whatever way never leads to a command without
//! limits.
//!
//! | mode | files that may be changed | TCP |
//! |---|---|---|
//! | `read-only` | none | refused |
//! | `workspace-write` | in the workspace and in the [directories for temporary files](temporary_directories) | refused, unless [`Network::Allowed`] |
//! | `danger-full-access` | whatever the account may | allowed |
//!
//! In both limited modes `/dev/null`, `zero`, `full`, `random` and `urandom` may be written; signals, `ptrace` and abstract
//! Unix sockets reach only processes of the same sandbox; no device nodes can be made, and privileges cannot be gained by
//! running a program (`no_new_privs`). `.git` in the workspace stays writable, so that a model can commit: what a command
//! writes into `.git/hooks` or `.git/config` runs without limits when a person uses git there.
//!
//! # What it does not do
//! Every file that the account may read can be read, secrets included; only the memory and the environment of other
//! processes are out of reach.
//! Permissions, owners and times of files can be changed wherever the account may (`chmod` is not an access that Landlock
//! knows). UDP and Unix sockets that have a path are not limited, so a command that can reach a service like Docker's
//! can have it do anything. Files that have a second name (hard link) in the workspace can be changed through it. What
//! was open when the agent itself was started stays open. Root loses what lets it look into other processes and change
//! the kernel, and keeps its rights to files. This guards against accidents and simple mischief; for worse, use a container too.
//!
//! What a kernel lacks is in [`Support`], and is either told with every result or refused ([`Partial`]). The accesses
//! are those of Landlock ABI 7, which this was tested with; what newer ones could refuse is not refused yet.

mod child;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(not(target_os = "linux"))]
#[path = "unsupported.rs"]
mod landlock;
mod launcher;
mod policy;
mod roots;
mod support;

pub use child::sandbox_exec;
pub use launcher::SandboxLauncher;
pub use policy::{Network, Partial, SandboxPolicy, temporary_directories};
pub use support::{Missing, Support, support};

pub(crate) use launcher::{Confirmation, NotStarted};
pub(crate) use roots::workspace_roots;
pub(crate) use support::missing_in_words;
