//! The compressed container: independent zstd frames, the first one holding exactly the header line, then one frame per
//! durable batch (`reference/persistence.md` §1.4).
//!
//! Frame borders are found in the structure, without decompressing: so a torn last frame is told apart from damage, and a
//! list can read a header without touching the body. Session files have no skippable frames, so such a frame is damage.

use std::io;

use memchr::memmem;
use zstd::stream::raw::{Decoder, InBuffer, Operation as _, OutBuffer};

use crate::FormatError;

const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();

/// No block of any frame is larger.
const MAX_BLOCK: usize = 128 << 10;

/// What stands at the start of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameScan {
    /// A whole frame of this many bytes.
    Complete(usize),
    /// The beginning of a frame that goes on behind these bytes.
    Incomplete,
}

/// Whether these bytes begin like a compressed file.
#[must_use]
pub fn looks_compressed(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Finds the end of the frame that starts at byte 0.
///
/// # Errors
/// The reason why no frame can start like this, whatever follows.
pub fn scan_frame(bytes: &[u8]) -> Result<FrameScan, &'static str> {
    let seen = bytes.len().min(MAGIC.len());
    if bytes[..seen] != MAGIC[..seen] {
        return Err("expected the start of a zstd frame");
    }
    let Some(&descriptor) = bytes.get(4) else {
        return Ok(FrameScan::Incomplete);
    };
    if descriptor & 0x18 != 0 {
        return Err("the zstd frame header sets reserved bits");
    }
    let single_segment = descriptor & 0x20 != 0;
    let checksum = if descriptor & 0x04 != 0 { 4 } else { 0 };
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 0x03)];
    let content_size = match descriptor >> 6 {
        0 => usize::from(single_segment),
        1 => 2,
        2 => 4,
        _ => 8,
    };
    let mut at = 5 + usize::from(!single_segment) + dictionary + content_size;
    loop {
        let Some(header) = bytes.get(at..at + 3) else {
            return Ok(FrameScan::Incomplete);
        };
        let header = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let size = (header >> 3) as usize;
        if size > MAX_BLOCK {
            return Err("a zstd block is larger than 128 KiB");
        }
        at += 3 + match (header >> 1) & 3 {
            0 | 2 => size,
            1 => 1,
            _ => return Err("a zstd block has the reserved type"),
        };
        if header & 1 == 1 {
            break;
        }
    }
    at += checksum;
    Ok(if at <= bytes.len() {
        FrameScan::Complete(at)
    } else {
        FrameScan::Incomplete
    })
}

/// Decompresses frames one after another, in one context and one buffer: a session may have very many small frames.
pub(crate) struct Unpacker {
    decoder: Decoder<'static>,
    text: Vec<u8>,
}

impl Unpacker {
    pub(crate) fn new() -> Self {
        Self {
            decoder: Decoder::new().expect("BUG: a context needs nothing but memory"),
            text: Vec::new(),
        }
    }

    /// The text of one whole frame, which stands at `byte` of its file.
    pub(crate) fn whole(&mut self, frame: &[u8], byte: u64) -> Result<&[u8], FormatError> {
        let problem = match self.run(frame) {
            Ok(true) => return Ok(&self.text),
            Ok(false) => "it ends too early".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(FormatError::CorruptFrame {
            byte,
            reason: format!("the zstd frame does not decompress: {problem}"),
        })
    }

    /// As much text as there is in a frame that was cut off. A fault in it ends what can be had: nothing behind that was
    /// ever acknowledged.
    pub(crate) fn torn(&mut self, bytes: &[u8]) -> &[u8] {
        self.run(bytes).ok();
        &self.text
    }

    /// Fills the buffer; says whether the frame came to its end.
    fn run(&mut self, bytes: &[u8]) -> io::Result<bool> {
        self.text.clear();
        self.decoder.reinit()?;
        let mut input = InBuffer::around(bytes);
        loop {
            let (read, written) = (input.pos(), self.text.len());
            self.text.reserve(1 << 16);
            let mut output = OutBuffer::around_pos(&mut self.text, written);
            let missing = self.decoder.run(&mut input, &mut output)?;
            if missing == 0 {
                return Ok(true);
            }
            if (input.pos(), output.pos()) == (read, written) {
                return Ok(false);
            }
        }
    }
}

/// The texts of the whole frames that lie somewhere behind the start of a frame without end.
///
/// The start of a frame is no UTF-8 and every frame of ours has a checksum, so that nothing in a real torn frame looks
/// like one.
pub(crate) fn frames_within(torn: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    frames_behind(torn).map(|(_, text)| text)
}

/// [`frames_within`] with the offset of each.
pub(crate) fn frames_behind(torn: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> + '_ {
    let mut unpacker = Unpacker::new();
    let mut at = 1;
    std::iter::from_fn(move || {
        loop {
            at += memmem::find(torn.get(at..)?, &MAGIC)?;
            let rest = &torn[at..];
            if let Ok(FrameScan::Complete(length)) = scan_frame(rest)
                && let Ok(text) = unpacker.whole(&rest[..length], 0)
            {
                let found = at;
                at += length;
                return Some((found, text.to_vec()));
            }
            at += 1;
        }
    })
}

/// Compresses one frame, with a checksum.
pub(crate) fn encode_frame(text: &[u8]) -> Vec<u8> {
    let compress = || {
        let mut compressor = zstd::bulk::Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL)?;
        compressor.include_checksum(true)?;
        compressor.compress(text)
    };
    compress().expect("BUG: compressing into memory has nothing to fail on")
}
