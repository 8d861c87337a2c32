//! Server-sent events: bytes in, frames out.
//!
//! The event stream format of the HTML standard, without reconnection. Bytes may arrive in any pieces; the frames are
//! the same. Bytes that are not UTF-8 become U+FFFD, as the standard says.

use memchr::memchr2;
use thiserror::Error;

/// One dispatched event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseFrame {
    /// The last `event` field.
    pub event: Option<String>,
    /// The `data` fields, joined by line feeds.
    pub data: String,
    /// The last `id` field.
    pub id: Option<String>,
}

/// How a stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEnd {
    /// What stood after the last blank line. The standard says to discard it, since it may be cut; a caller that can
    /// tell a whole frame from a part may use it.
    pub pending: Option<SseFrame>,
    /// Whether the stream stopped inside a frame.
    pub unterminated: bool,
}

/// Why a stream cannot be split further.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SseError {
    /// One frame is too large to be meant seriously.
    #[error("an event is larger than {limit} bytes")]
    FrameTooLarge {
        /// The bound, in bytes.
        limit: usize,
    },
}

/// Splits bytes into frames.
#[derive(Clone, Debug)]
pub struct SseSplitter {
    limit: usize,
    /// The line that is not yet ended.
    line: Vec<u8>,
    /// A line feed right after a carriage return belongs to the same line end, also across two pieces.
    after_carriage_return: bool,
    at_start: bool,
    frame: SseFrame,
    has_data: bool,
    /// Bytes since the last blank line, line ends not counted.
    frame_bytes: usize,
    comments: u64,
}

impl Default for SseSplitter {
    fn default() -> Self {
        Self::with_limit(Self::DEFAULT_LIMIT)
    }
}

impl SseSplitter {
    /// The bound that [`default`](Self::default) sets on a frame: 16 MiB.
    pub const DEFAULT_LIMIT: usize = 16 << 20;

    /// A splitter that refuses frames of more than `limit` bytes, comments and field names included.
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_carriage_return: false,
            at_start: true,
            frame: SseFrame::default(),
            has_data: false,
            frame_bytes: 0,
            comments: 0,
        }
    }

    /// How many comment lines came so far. They carry nothing but show that the server is alive.
    #[must_use]
    pub fn comments(&self) -> u64 {
        self.comments
    }

    /// Takes the next bytes and appends the frames they complete to `frames`.
    ///
    /// # Errors
    /// When a frame exceeds the limit. The frames before it have been appended; every later call fails too.
    pub fn push(&mut self, bytes: &[u8], frames: &mut Vec<SseFrame>) -> Result<(), SseError> {
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.after_carriage_return) && *first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                return self.extend_line(rest);
            };
            self.extend_line(&rest[..end])?;
            self.after_carriage_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            frames.extend(self.end_line());
        }
        Ok(())
    }

    /// Says that no more bytes come.
    #[must_use]
    pub fn finish(mut self) -> SseEnd {
        if !self.line.is_empty() {
            // Never a blank line, hence never a dispatch.
            let _frame = self.end_line();
        }
        SseEnd {
            unterminated: self.frame_bytes > 0,
            pending: self.has_data.then_some(self.frame),
        }
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        self.frame_bytes = self.frame_bytes.saturating_add(bytes.len());
        if self.frame_bytes > self.limit {
            return Err(SseError::FrameTooLarge { limit: self.limit });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Option<SseFrame> {
        let bytes = std::mem::take(&mut self.line);
        let mut line = bytes.as_slice();
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        let frame = if line.is_empty() {
            self.dispatch()
        } else {
            self.field(&String::from_utf8_lossy(line));
            None
        };
        // Keeps the allocation for the next line.
        self.line = bytes;
        self.line.clear();
        frame
    }

    fn dispatch(&mut self) -> Option<SseFrame> {
        self.frame_bytes = 0;
        let frame = std::mem::take(&mut self.frame);
        std::mem::take(&mut self.has_data).then_some(frame)
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "" => self.comments += 1,
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
            }
            "event" => self.frame.event = Some(value.to_owned()),
            "id" if !value.contains('\0') => self.frame.id = Some(value.to_owned()),
            _ => {}
        }
    }
}
