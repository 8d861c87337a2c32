//! The compressed container: independent zstd frames, the first one holding exactly the header line, then one frame per
//! durable batch (`reference/persistence.md` §1.4).
//!
//! Frame borders are found in the structure, without decompressing: so a torn last frame is told apart from damage, and a
//! list can read a header without touching the body.

use std::io::Read as _;

use zstd::stream::raw::{Decoder, InBuffer, Operation as _, OutBuffer};

use crate::FormatError;

const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();

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

/// Decompresses one whole frame.
pub(crate) fn decode_frame(frame: &[u8], byte: u64) -> Result<Vec<u8>, FormatError> {
    let corrupt = |reason: String| FormatError::CorruptFrame { byte, reason };
    let mut text = Vec::new();
    zstd::stream::read::Decoder::with_buffer(frame)
        .and_then(|decoder| decoder.single_frame().read_to_end(&mut text))
        .map_err(|error| corrupt(format!("the zstd frame does not decompress: {error}")))?;
    Ok(text)
}

/// Decompresses as much as there is of a frame that was cut off.
pub(crate) fn decode_torn_frame(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let Ok(mut decoder) = Decoder::new() else {
        return text;
    };
    let mut input = InBuffer::around(bytes);
    let mut chunk = vec![0; 1 << 16];
    loop {
        let mut output = OutBuffer::around(&mut chunk[..]);
        let before = input.pos();
        let result = decoder.run(&mut input, &mut output);
        let written = output.pos();
        text.extend_from_slice(&chunk[..written]);
        // A fault in the torn frame ends what can be had of it; nothing behind it was ever acknowledged.
        if result.is_err() || (written == 0 && input.pos() == before) {
            return text;
        }
    }
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
