//! What a file is that is not text, told from its first bytes.

use std::fmt;

/// How much of the beginning of a file is looked at.
pub(crate) const SAMPLE_BYTES: usize = 8192;

/// What is not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Image(&'static str),
    Known(&'static str),
    Unknown,
}

impl fmt::Display for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(format) => write!(f, "an image ({format})"),
            Self::Known(format) => write!(f, "a binary file ({format})"),
            Self::Unknown => f.write_str("a binary file"),
        }
    }
}

/// First bytes that no text has.
const SIGNATURES: &[(&[u8], Binary)] = &[
    (b"\x89PNG\r\n\x1A\n", Binary::Image("PNG")),
    (b"\xFF\xD8\xFF", Binary::Image("JPEG")),
    (b"GIF87a", Binary::Image("GIF")),
    (b"GIF89a", Binary::Image("GIF")),
    (b"II*\0", Binary::Image("TIFF")),
    (b"MM\0*", Binary::Image("TIFF")),
    (b"\0\0\x01\0", Binary::Image("ICO")),
    (b"%PDF-", Binary::Known("PDF")),
    (b"\x7FELF", Binary::Known("ELF")),
    (b"PK\x03\x04", Binary::Known("ZIP")),
    (b"\x1F\x8B", Binary::Known("gzip")),
    (b"\x28\xB5\x2F\xFD", Binary::Known("zstd")),
    (b"\xFD7zXZ\0", Binary::Known("xz")),
    (b"SQLite format 3\0", Binary::Known("SQLite database")),
    (b"\0asm", Binary::Known("WebAssembly")),
    (b"\xCF\xFA\xED\xFE", Binary::Known("Mach-O")),
    (b"\xFF\xFE", Binary::Known("UTF-16 text")),
    (b"\xFE\xFF", Binary::Known("UTF-16 text")),
];

/// What a content is that begins like this; `None` if it may be text.
///
/// Text has no zero bytes, and it is what has no known signature; that some of its bytes are not UTF-8 does not matter.
pub(crate) fn binary(sample: &[u8]) -> Option<Binary> {
    let sample = &sample[..sample.len().min(SAMPLE_BYTES)];
    if sample.starts_with(b"RIFF") && sample.get(8..12) == Some(b"WEBP") {
        return Some(Binary::Image("WebP"));
    }
    let known = SIGNATURES
        .iter()
        .find(|(signature, _)| sample.starts_with(signature));
    match known {
        Some((_, kind)) => Some(*kind),
        None => sample.contains(&0).then_some(Binary::Unknown),
    }
}
