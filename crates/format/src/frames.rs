//! The compressed container: independent zstd frames, the first one holding exactly the header line, then one frame per
//! durable batch (`reference/persistence.md` §1.4).
//!
//! Frame borders are found in the structure, without decompressing: so a torn last frame is told apart from damage, and a
//! list can read a header without touching the body. Session files have no skippable frames, so such a frame is damage.

use memchr::{memchr, memmem};
use zstd::stream::raw::{Decoder, InBuffer, Operation as _, OutBuffer};

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
    scan_from(bytes, 0, |_| true)
}

/// [`scan_frame`] for the frame that starts at `start`. `visit` is told where each block begins, and says whether it is
/// worth following.
fn scan_from(
    bytes: &[u8],
    start: usize,
    mut visit: impl FnMut(usize) -> bool,
) -> Result<FrameScan, &'static str> {
    let head = &bytes[start..];
    let seen = head.len().min(MAGIC.len());
    if head[..seen] != MAGIC[..seen] {
        return Err("expected the start of a zstd frame");
    }
    let Some(&descriptor) = head.get(4) else {
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
    let mut at = start + 5 + usize::from(!single_segment) + dictionary + content_size;
    loop {
        let Some(header) = bytes.get(at..at + 3).filter(|_| visit(at)) else {
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
        FrameScan::Complete(at - start)
    } else {
        FrameScan::Incomplete
    })
}

/// How long a line may be in a compressed file, in bytes. A raw file bounds its lines by its own size; a small compressed
/// one could stand for more than there is memory.
pub const MAX_LINE: usize = 1 << 30;

/// How long something may be that does not even begin like a row.
const MAX_JUNK: usize = 1 << 20;

/// How much is unpacked at a time.
const STEP: usize = 64 << 10;

/// Unpacks frames one after another and hands out their lines, in one context and one buffer: a session may have very many
/// small frames, and a frame may stand for very many lines.
pub(crate) struct Unpacker {
    decoder: Decoder<'static>,
    /// What is unpacked and not handed out yet begins at `start`; no line feed lies ahead of `searched`.
    text: Vec<u8>,
    start: usize,
    searched: usize,
    /// How much of the frame has been read, whether there is more to unpack, and whether it stopped ahead of its end.
    read: usize,
    ended: bool,
    cut_off: bool,
    /// How much text the frame has had so far.
    unpacked: usize,
}

/// A line of a frame, without its line feed.
pub(crate) struct FrameLine<'a> {
    pub(crate) text: &'a [u8],
    /// Whether a line feed ends it.
    pub(crate) is_whole: bool,
}

impl Unpacker {
    pub(crate) fn new() -> Self {
        Self {
            decoder: Decoder::new().expect("BUG: a context needs nothing but memory"),
            text: Vec::new(),
            start: 0,
            searched: 0,
            read: 0,
            ended: false,
            cut_off: false,
            unpacked: 0,
        }
    }

    /// Begins with another frame.
    pub(crate) fn begin(&mut self) {
        // A decoder that had to stop in the middle can always be used again.
        self.decoder.reinit().ok();
        self.text.clear();
        (self.start, self.searched, self.read, self.unpacked) = (0, 0, 0, 0);
        (self.ended, self.cut_off) = (false, false);
    }

    /// The next line of the frame that was begun; `None` behind the last one. A frame that was cut off ends with what there
    /// is of its last line.
    ///
    /// # Errors
    /// Why the frame does not unpack; nothing more can be had of it then.
    pub(crate) fn next_line(&mut self, frame: &[u8]) -> Result<Option<FrameLine<'_>>, String> {
        loop {
            if let Some(length) = memchr(b'\n', &self.text[self.searched..]) {
                let (from, to) = (self.start, self.searched + length);
                (self.start, self.searched) = (to + 1, to + 1);
                let text = &self.text[from..to];
                return Ok(Some(FrameLine {
                    text,
                    is_whole: true,
                }));
            }
            self.searched = self.text.len();
            if self.ended {
                let from = self.start;
                self.start = self.text.len();
                let text = &self.text[from..];
                let is_whole = false;
                return Ok((!text.is_empty()).then_some(FrameLine { text, is_whole }));
            }
            self.text.drain(..self.start);
            (self.start, self.searched) = (0, self.text.len());
            self.check_length()?;
            self.unpack(frame)?;
        }
    }

    /// Unpacks the rest of the frame and forgets it: whether it is sound.
    pub(crate) fn skip(&mut self, frame: &[u8]) -> Result<(), String> {
        while !self.ended {
            self.text.clear();
            (self.start, self.searched) = (0, 0);
            self.unpack(frame)?;
        }
        Ok(())
    }

    /// Whether the frame stopped ahead of its end.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut_off
    }

    fn check_length(&self) -> Result<(), String> {
        let length = self.text.len();
        let is_row = self.text.first() == Some(&b'{');
        if length > MAX_LINE {
            return Err(format!("a line in it is longer than {MAX_LINE} bytes"));
        }
        if length > MAX_JUNK && !is_row {
            return Err(format!(
                "{MAX_JUNK} bytes in it have no line feed and are no row"
            ));
        }
        Ok(())
    }

    fn unpack(&mut self, frame: &[u8]) -> Result<(), String> {
        let mut input = InBuffer::around(&frame[self.read..]);
        let written = self.text.len();
        self.text.reserve(STEP);
        let mut output = OutBuffer::around_pos(&mut self.text, written);
        let missing = self.decoder.run(&mut input, &mut output);
        let (read, text) = (input.pos(), output.pos());
        self.unpacked += text - written;
        self.read += read;
        match missing {
            Err(error) => return Err(error.to_string()),
            Ok(0) => self.ended = true,
            Ok(_) if (read, text) == (0, written) => (self.ended, self.cut_off) = (true, true),
            Ok(_) => {}
        }
        Ok(())
    }
}

/// What the search for frames in the middle of something came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// A whole frame that unpacks.
    Frame {
        /// Where it starts.
        at: usize,
        /// How long it is.
        length: usize,
    },
    /// So much looks like a frame and is none that nobody makes this by accident. The search was given up.
    Suspicious,
}

/// The whole frames that lie somewhere behind the start of a frame without end.
///
/// The start of a frame is no UTF-8 and every frame of ours has a checksum, so that nothing in a real torn frame looks
/// like one. What it costs to look is bounded by the size of the file: blocks that lead nowhere are not followed twice, and
/// only so much is unpacked in vain.
pub(crate) fn frames_behind(torn: &[u8]) -> impl Iterator<Item = Hidden> + '_ {
    let mut unpacker = Unpacker::new();
    let mut in_vain = torn.len().saturating_mul(8).max(64 << 20);
    let mut dead = vec![0u64; torn.len() / 64 + 1];
    let mut path = Vec::new();
    let mut at = 1;
    std::iter::from_fn(move || {
        loop {
            at += memmem::find(torn.get(at..)?, &MAGIC)?;
            path.clear();
            let scanned = scan_from(torn, at, |block| {
                path.push(block);
                dead[block / 64] & (1 << (block % 64)) == 0
            });
            if let Ok(FrameScan::Complete(length)) = scanned {
                let frame = &torn[at..at + length];
                unpacker.begin();
                if unpacker.skip(frame).is_ok() && !unpacker.is_cut_off() {
                    let found = at;
                    at += length;
                    return Some(Hidden::Frame { at: found, length });
                }
                let Some(left) = in_vain.checked_sub(unpacker.unpacked + length) else {
                    at = torn.len();
                    return Some(Hidden::Suspicious);
                };
                in_vain = left;
            } else {
                for block in path.drain(..) {
                    dead[block / 64] |= 1 << (block % 64);
                }
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
