//! Where the bytes of attachments come from: a log only names them.

use std::fmt;
use std::io;

/// Attachments by their id, `sha256:<hex>` of their bytes.
pub trait Attachments: Send + Sync + fmt::Debug {
    /// The bytes. It may block: adapters call it where that is allowed.
    ///
    /// # Errors
    /// There is no such attachment, or it cannot be read.
    fn bytes(&self, id: &str) -> io::Result<Vec<u8>>;
}

/// No attachments at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAttachments;

impl Attachments for NoAttachments {
    fn bytes(&self, id: &str) -> io::Result<Vec<u8>> {
        let reason = format!("there is no store of attachments to look `{id}` up in");
        Err(io::Error::new(io::ErrorKind::NotFound, reason))
    }
}
