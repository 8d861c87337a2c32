//! Writing: a header, then batches of rows. Rows are the events' own text; nothing is serialised again.

use std::borrow::Borrow;

use offshoot_session::{Event, SessionHeader};

use crate::frames::encode_frame;
use crate::header::encode_header;
use crate::{Container, FormatError};

/// How much text goes into one batch of many, in bytes.
const PUBLISHED_BATCH: usize = 1 << 20;

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

    /// The bytes of a log that is written at once, in pieces of about 1 MiB of text, each with the number of its events: so
    /// that whoever needs only the end of the file, or only its beginning, need not take it whole.
    pub fn batches<E: Borrow<Event>>(
        self,
        events: impl IntoIterator<Item = E>,
    ) -> impl Iterator<Item = (Vec<u8>, u64)> {
        let mut events = events.into_iter().peekable();
        std::iter::from_fn(move || {
            let (mut size, mut count) = (0, 0);
            let piece: Vec<E> = std::iter::from_fn(|| {
                let event = events.next_if(|_| size < PUBLISHED_BATCH)?;
                size += event.borrow().text().len() + 1;
                count += 1;
                Some(event)
            })
            .collect();
            (count > 0).then(|| (self.batch(piece), count))
        })
    }

    fn pack(self, text: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Raw => text,
            Self::Zstd => encode_frame(&text),
        }
    }
}
