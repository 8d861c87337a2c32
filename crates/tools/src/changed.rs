//! A change that was made to a file, and what is told about it.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::diff;
use crate::files::meta;
use crate::observations::FileDigest;

/// Up to this many bytes of old and new text together, front ends get both whole besides the diff.
const MAX_TEXT_BYTES: usize = 8 * 1024;

/// What is there before a change.
#[derive(Debug)]
pub(crate) enum Current {
    Absent,
    Content(Vec<u8>),
    /// A file of so many bytes, too large to be looked at.
    TooLarge(u64),
}

/// A change that was made.
#[derive(Debug)]
pub(crate) struct Changed {
    /// As the model named it, but absolute.
    pub(crate) path: PathBuf,
    pub(crate) old: Current,
    pub(crate) new: Vec<u8>,
    /// The version that is there now.
    pub(crate) digest: FileDigest,
}

/// Facts about a change for front ends, and for finding out later which files a session has changed.
#[derive(Serialize)]
struct Facts {
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<&'static str>,
    path: String,
    diffs: Vec<Texts>,
    change: &'static str,
    digest: String,
    diff: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Texts {
    path: String,
    old_text: String,
    new_text: String,
}

impl Changed {
    /// Whether there was no file before.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self.old, Current::Absent)
    }

    /// The unified diff, cut if it is long.
    pub(crate) fn diff(&self) -> String {
        match &self.old {
            Current::Absent => diff::unified(&self.path, b"", &self.new),
            Current::Content(old) => diff::unified(&self.path, old, &self.new),
            Current::TooLarge(bytes) => format!("[too large for a diff: {bytes} bytes]\n"),
        }
    }

    /// The `meta` of the result with its [`diff`](Self::diff). `operation` is what recorded sessions say of `write` only.
    pub(crate) fn facts(&self, operation: Option<&'static str>, diff: String) -> Box<RawValue> {
        meta(&Facts {
            operation,
            path: self.path.display().to_string(),
            diffs: self.texts().into_iter().collect(),
            change: if self.is_new() { "created" } else { "changed" },
            digest: self.digest.to_string(),
            diff,
        })
    }

    /// Old and new, if both are text and small enough to be shown side by side.
    fn texts(&self) -> Option<Texts> {
        let Current::Content(old) = &self.old else {
            return None;
        };
        if old.len() + self.new.len() > MAX_TEXT_BYTES {
            return None;
        }
        Some(Texts {
            path: self.path.display().to_string(),
            old_text: String::from_utf8(old.clone()).ok()?,
            new_text: String::from_utf8(self.new.clone()).ok()?,
        })
    }
}
