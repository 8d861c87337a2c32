//! The container of a file, and its header line (`reference/persistence.md` §1.4, §1.5).

use memchr::memchr;

use crate::frames::{FrameLine, FrameScan, Unpacker, frames_behind, looks_compressed, scan_frame};
use crate::{FormatError, Place};

/// How the bytes are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// Lines of JSON.
    Raw,
    /// Lines of JSON in zstd frames.
    Zstd,
}

impl Container {
    /// Tells by the first bytes.
    #[must_use]
    pub fn detect(bytes: &[u8]) -> Self {
        if looks_compressed(bytes) {
            Self::Zstd
        } else {
            Self::Raw
        }
    }
}

/// The end of a file that a crash left behind. Nothing in it was committed by a `turn/end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Where the first thing that cannot be used stands.
    pub place: Place,
    /// Why it cannot be used.
    pub reason: String,
    /// How much of the file is good; a writer truncates to this before it appends. Equal to `place.byte`: a faulty line
    /// goes from its start, a frame that is torn or has a faulty line in it goes whole.
    pub keep: u64,
    /// How many of the log's last events lie behind `keep` all the same: the whole records ahead of the fault in its
    /// frame. A writer appends them again.
    pub recovered: u64,
    /// How many bytes behind `keep` there are.
    pub bytes: u64,
}

/// The length of the first frame.
fn first_frame(bytes: &[u8]) -> Result<usize, FormatError> {
    match scan_frame(bytes) {
        Ok(FrameScan::Complete(length)) => Ok(length),
        Ok(FrameScan::Incomplete) if frames_behind(bytes).next().is_some() => Err(corrupt(
            0,
            "the first frame has no end, but whole frames follow",
        )),
        Ok(FrameScan::Incomplete) => Err(empty(bytes)),
        Err(reason) => Err(corrupt(0, reason)),
    }
}

fn empty(bytes: &[u8]) -> FormatError {
    FormatError::Empty {
        bytes: bytes.len() as u64,
    }
}

fn corrupt(byte: u64, reason: &str) -> FormatError {
    FormatError::CorruptFrame {
        byte,
        reason: reason.to_owned(),
    }
}

/// The header line at the start of a file, without its line feed, from bytes that hold at least the whole line or frame.
///
/// # Errors
/// Bytes that do not hold it, or a damaged first frame.
pub fn read_header(container: Container, bytes: &[u8]) -> Result<String, FormatError> {
    if container == Container::Raw {
        let end = memchr(b'\n', bytes).ok_or_else(|| empty(bytes))?;
        return header_text(&bytes[..end]).map(str::to_owned);
    }
    let frame = &bytes[..first_frame(bytes)?];
    let mut unpacker = Unpacker::new();
    unpacker.begin();
    let line = match unpacker
        .next_line(frame)
        .map_err(|problem| unreadable(&problem))?
    {
        Some(FrameLine {
            text,
            is_whole: true,
        }) => header_text(text)?.to_owned(),
        _ => return Err(empty(bytes)),
    };
    unpacker
        .skip(frame)
        .map_err(|problem| unreadable(&problem))?;
    match unpacker.is_cut_off() {
        true => Err(unreadable("it ends too early")),
        false => Ok(line),
    }
}

fn unreadable(problem: &str) -> FormatError {
    corrupt(0, &format!("the zstd frame does not decompress: {problem}"))
}

/// The header line, and where the rows begin.
pub(crate) fn split_header(
    container: Container,
    bytes: &[u8],
) -> Result<(String, usize), FormatError> {
    if container == Container::Raw {
        let line = read_header(container, bytes)?;
        let end = line.len() + 1;
        return Ok((line, end));
    }
    let length = first_frame(bytes)?;
    let frame = &bytes[..length];
    let bad = || corrupt(0, "the first frame must hold exactly the header line");
    let mut unpacker = Unpacker::new();
    unpacker.begin();
    let header = match unpacker
        .next_line(frame)
        .map_err(|problem| unreadable(&problem))?
    {
        Some(FrameLine { text, is_whole }) => is_whole.then(|| text.to_vec()),
        None => None,
    };
    let more = unpacker
        .next_line(frame)
        .map_err(|problem| unreadable(&problem))?
        .is_some();
    unpacker
        .skip(frame)
        .map_err(|problem| unreadable(&problem))?;
    if unpacker.is_cut_off() {
        return Err(unreadable("it ends too early"));
    }
    match header {
        Some(line) if !more => Ok((header_text(&line)?.to_owned(), length)),
        _ => Err(bad()),
    }
}

fn header_text(line: &[u8]) -> Result<&str, FormatError> {
    std::str::from_utf8(line).map_err(|error| FormatError::MalformedHeader {
        reason: format!("not UTF-8 (byte {})", error.valid_up_to()),
    })
}
