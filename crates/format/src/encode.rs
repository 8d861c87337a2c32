//! Writing: a header, then batches of rows. Rows are the events' own text; nothing is serialised again.

use std::borrow::Borrow;

use offshoot_session::{Event, SessionHeader};

use crate::frames::encode_frame;
use crate::header::encode_header;
use crate::{Container, FormatError};

impl Container {
    /// The bytes that a new file starts with.
    ///
    /// # Errors
    /// A header that would not be read back.
    pub fn header(self, header: &SessionHeader) -> Result<Vec<u8>, FormatError> {
        Ok(self.pack(encode_header(header)?.into_bytes()))
    }

    /// The bytes of one durable batch; none for no event.
    pub fn batch<E: Borrow<Event>>(self, events: impl IntoIterator<Item = E>) -> Vec<u8> {
        let mut text = Vec::new();
        for event in events {
            text.extend_from_slice(event.borrow().text().as_bytes());
            text.push(b'\n');
        }
        if text.is_empty() {
            text
        } else {
            self.pack(text)
        }
    }

    fn pack(self, text: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Raw => text,
            Self::Zstd => encode_frame(&text),
        }
    }
}
