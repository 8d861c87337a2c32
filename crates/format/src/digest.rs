//! The running digest of a log: what a fork, and the journal of an attempt, recognise a prefix by.
//!
//! It runs over the pieces in which a log grows: the frames of a compressed file as they are, the lines of a raw one with
//! their line feeds. The header is not part of it. So whoever appends knows the digest of every prefix without reading it
//! again, and whoever has remembered one in the middle goes on from there.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::frames::{FrameScan, scan_frame};
use crate::scan::Container;

/// SHA-256, chained: the digest behind a piece is that of the digest ahead of it (32 bytes) and the piece.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunningDigest([u8; 32]);

impl RunningDigest {
    /// That of a log without events.
    pub const START: Self = Self([0; 32]);

    /// Goes on over one frame, or one line with its line feed.
    pub fn push(&mut self, piece: &[u8]) {
        let digest = Sha256::new().chain_update(self.0).chain_update(piece);
        self.0 = digest.finalize().into();
    }

    /// Goes on over whole frames or lines: all that `bytes` begins with. Returns how many bytes and how many pieces they are.
    pub fn push_all(&mut self, container: Container, bytes: &[u8]) -> (usize, u64) {
        let (mut at, mut pieces) = (0, 0);
        while let Some(length) = piece(container, &bytes[at..]) {
            self.push(&bytes[at..at + length]);
            at += length;
            pieces += 1;
        }
        (at, pieces)
    }

    /// Reads 64 hex digits; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut digest = [0; 32];
        if text.len() != 64
            || !text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        {
            return None;
        }
        for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).ok()?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(Self(digest))
    }
}

/// How long the whole piece is that `bytes` begin with; `None` if there is none.
fn piece(container: Container, bytes: &[u8]) -> Option<usize> {
    match container {
        Container::Raw => memchr::memchr(b'\n', bytes).map(|end| end + 1),
        Container::Zstd => match scan_frame(bytes) {
            Ok(FrameScan::Complete(length)) => Some(length),
            _ => None,
        },
    }
}

/// 64 hex digits, lower-case.
impl fmt::Display for RunningDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RunningDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunningDigest({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_runs_over_lines_or_frames_and_goes_on_from_any_of_them() {
        let raw = b"{\"a\":1}\n{\"b\":2}\n{\"torn";
        let packed = [
            crate::frames::encode_frame(b"{\"a\":1}\n"),
            crate::frames::encode_frame(b"{\"b\":2}\n"),
        ];
        let packed = [packed.concat(), packed[0][..7].to_vec()].concat();
        for (container, bytes) in [(Container::Raw, &raw[..]), (Container::Zstd, &packed)] {
            let mut whole = RunningDigest::START;
            let (end, pieces) = whole.push_all(container, bytes);
            assert_eq!(pieces, 2);
            let first = piece(container, bytes).unwrap();
            let mut parts = RunningDigest::START;
            parts.push(&bytes[..first]);
            assert_ne!(parts, whole);
            parts.push(&bytes[first..end]);
            assert_eq!(parts, whole);
            assert_eq!(RunningDigest::parse(&whole.to_string()), Some(whole));
        }
    }

    #[test]
    fn only_64_lower_case_hex_digits_are_a_digest() {
        let text = RunningDigest::START.to_string();
        assert_eq!(text, "0".repeat(64));
        for text in [
            &text[1..],
            &text.replace('0', "A"),
            &text.replace('0', "g"),
            &text.replace('0', "+"),
        ] {
            assert_eq!(RunningDigest::parse(text), None, "{text}");
        }
    }
}
