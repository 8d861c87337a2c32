//! The lines of a file as they stand in it, of any version and also out of a damaged file.
//!
//! Nothing is judged here: who wants to know what is wrong decodes the file, who wants to see it reads its lines.

use std::borrow::Cow;

use memchr::memchr;

use crate::frames::{FrameScan, Unpacker, frames_behind, scan_frame};
use crate::{Container, FormatError};

/// A line as it stands in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLine<'a> {
    /// Its number: 1 is the header. Behind a frame that cannot be read, those are counted that can.
    pub line: u64,
    /// The offset in the file: of the line itself, or in a compressed file of the frame that holds it.
    pub byte: u64,
    /// What stands there, without the line feed; not necessarily UTF-8.
    pub text: Cow<'a, [u8]>,
    /// Whether a line feed ends it. Without one it was cut off.
    pub is_whole: bool,
}

/// Reads the lines of a file one after another, as far as they can be had. A frame that cannot be read is an error in its
/// place, and the lines behind it follow; of one that was cut off its lines are read as far as they go. At most one frame
/// is unpacked at a time.
pub fn stored_lines(
    container: Container,
    bytes: &[u8],
) -> impl Iterator<Item = Result<StoredLine<'_>, FormatError>> + '_ {
    let lines = match container {
        Container::Raw => Lines::Raw(RawLines { bytes, at: 0 }),
        Container::Zstd => Lines::Packed(PackedLines::new(bytes)),
    };
    let mut line = 0;
    lines.map(move |found| {
        let (byte, text, is_whole) = found?;
        line += 1;
        Ok(StoredLine {
            line,
            byte,
            text,
            is_whole,
        })
    })
}

/// Where a line stands, what it says, and whether it is whole.
type Line<'a> = (u64, Cow<'a, [u8]>, bool);

enum Lines<'a> {
    Raw(RawLines<'a>),
    Packed(PackedLines<'a>),
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<Line<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Raw(lines) => lines.next().map(Ok),
            Self::Packed(lines) => lines.next(),
        }
    }
}

struct RawLines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for RawLines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let (length, is_whole) = first_line(rest);
        let line = (self.at as u64, Cow::Borrowed(&rest[..length]), is_whole);
        self.at += length + 1;
        Some(line)
    }
}

struct PackedLines<'a> {
    bytes: &'a [u8],
    /// Where the next frame should begin.
    at: usize,
    unpacker: Unpacker,
    /// The text of the frame in hand, where that stands, and how much of the text has been read.
    text: Vec<u8>,
    byte: u64,
    read: usize,
}

impl<'a> PackedLines<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            unpacker: Unpacker::new(),
            text: Vec::new(),
            byte: 0,
            read: 0,
        }
    }

    /// Unpacks the next frame.
    fn unpack(&mut self) -> Result<(), FormatError> {
        self.text.clear();
        self.read = 0;
        self.byte = self.at as u64;
        let rest = &self.bytes[self.at..];
        // What follows something that is no frame, or one without end, is looked for.
        let behind = || {
            let next = frames_behind(rest).next();
            next.map_or(rest.len(), |(at, _)| at)
        };
        match scan_frame(rest) {
            Ok(FrameScan::Complete(length)) => {
                self.at += length;
                let text = self.unpacker.whole(&rest[..length], self.byte)?;
                self.text.extend_from_slice(text);
            }
            Ok(FrameScan::Incomplete) => {
                self.at += behind();
                self.text.extend_from_slice(self.unpacker.torn(rest));
            }
            Err(reason) => {
                self.at += behind();
                return Err(FormatError::CorruptFrame {
                    byte: self.byte,
                    reason: reason.to_owned(),
                });
            }
        }
        Ok(())
    }
}

impl<'a> Iterator for PackedLines<'a> {
    type Item = Result<Line<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.read >= self.text.len() {
            if self.at >= self.bytes.len() {
                return None;
            }
            if let Err(error) = self.unpack() {
                return Some(Err(error));
            }
        }
        let rest = &self.text[self.read..];
        let (length, is_whole) = first_line(rest);
        let line = (self.byte, Cow::Owned(rest[..length].to_vec()), is_whole);
        self.read += length + 1;
        Some(Ok(line))
    }
}

/// The length of the first line, and whether a line feed ends it.
fn first_line(text: &[u8]) -> (usize, bool) {
    memchr(b'\n', text).map_or((text.len(), false), |length| (length, true))
}
