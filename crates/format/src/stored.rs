//! The lines of a file as they stand in it, of any version and also out of a damaged file.
//!
//! Nothing is judged here: who wants to know what is wrong decodes the file, who wants to see it reads its lines.

use std::borrow::Cow;

use memchr::memchr;

use crate::frames::{FrameLine, FrameScan, Hidden, Unpacker, frames_behind, scan_frame};
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

/// Where the frame begins that has no end: it was cut off, or its length is damaged and whole frames follow.
pub(crate) fn endless_frame(container: Container, bytes: &[u8]) -> Option<u64> {
    let mut at = 0;
    while container == Container::Zstd && at < bytes.len() {
        match scan_frame(&bytes[at..]) {
            Ok(FrameScan::Complete(length)) => at += length,
            Ok(FrameScan::Incomplete) => return Some(at as u64),
            Err(_) => break,
        }
    }
    None
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
    /// The frame in hand, and where it stands.
    frame: Option<&'a [u8]>,
    byte: u64,
}

impl<'a> PackedLines<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            unpacker: Unpacker::new(),
            frame: None,
            byte: 0,
        }
    }

    /// Begins with the next frame.
    fn next_frame(&mut self) -> Result<(), FormatError> {
        self.byte = self.at as u64;
        let rest = &self.bytes[self.at..];
        // What follows something that is no frame, or one without end, is looked for.
        let behind = || match frames_behind(rest).next() {
            Some(Hidden::Frame { at, .. }) => at,
            Some(Hidden::Suspicious) | None => rest.len(),
        };
        let frame = match scan_frame(rest) {
            Ok(FrameScan::Complete(length)) => {
                self.at += length;
                // Nothing of a frame is read before all of it is known to be sound.
                let frame = &rest[..length];
                self.unpacker.begin();
                let sound = self.unpacker.skip(frame);
                let problem = sound.err().or_else(|| {
                    let cut_off = self.unpacker.is_cut_off();
                    cut_off.then(|| "it ends too early".to_owned())
                });
                if let Some(problem) = problem {
                    let reason = format!("the zstd frame does not decompress: {problem}");
                    return Err(self.corrupt(reason));
                }
                frame
            }
            Ok(FrameScan::Incomplete) => {
                self.at += behind();
                rest
            }
            Err(reason) => {
                self.at += behind();
                return Err(self.corrupt(reason));
            }
        };
        self.unpacker.begin();
        self.frame = Some(frame);
        Ok(())
    }

    fn corrupt(&self, reason: impl Into<String>) -> FormatError {
        FormatError::CorruptFrame {
            byte: self.byte,
            reason: reason.into(),
        }
    }
}

impl<'a> Iterator for PackedLines<'a> {
    type Item = Result<Line<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(frame) = self.frame else {
                if self.at >= self.bytes.len() {
                    return None;
                }
                match self.next_frame() {
                    Ok(()) => continue,
                    Err(error) => return Some(Err(error)),
                }
            };
            match self.unpacker.next_line(frame) {
                Ok(Some(FrameLine { text, is_whole })) => {
                    return Some(Ok((self.byte, Cow::Owned(text.to_vec()), is_whole)));
                }
                // A fault in a frame that was cut off is its end; another one is too long to be read.
                Ok(None) => self.frame = None,
                Err(problem) => {
                    self.frame = None;
                    if scan_frame(frame) != Ok(FrameScan::Incomplete) {
                        return Some(Err(self.corrupt(problem)));
                    }
                }
            }
        }
    }
}

/// The length of the first line, and whether a line feed ends it.
fn first_line(text: &[u8]) -> (usize, bool) {
    memchr(b'\n', text).map_or((text.len(), false), |length| (length, true))
}
