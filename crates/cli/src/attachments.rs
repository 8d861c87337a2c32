//! The pictures of a home, for whoever sends them.

use std::io;

use offshoot_model::Attachments;
use offshoot_store::{BlobId, Blobs};

/// Attachments are blobs of the home.
#[derive(Debug)]
pub(crate) struct HomeAttachments(Blobs);

impl HomeAttachments {
    pub(crate) const fn new(blobs: Blobs) -> Self {
        Self(blobs)
    }
}

impl Attachments for HomeAttachments {
    fn bytes(&self, id: &str) -> io::Result<Vec<u8>> {
        let named = BlobId::parse(id).ok_or_else(|| {
            let reason = format!("`{id}` is not the name of an attachment");
            io::Error::new(io::ErrorKind::InvalidInput, reason)
        })?;
        self.0.get(&named).map_err(io::Error::other)
    }
}
