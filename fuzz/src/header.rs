//! The first line.

use offshoot_format::{CURRENT_VERSION, Container, StoredHeader, encode_header, read_header};

use crate::check;

/// Any bytes as the first line of a file: what is read as a header is written as a current one, which reads as the same
/// and is written as the same.
pub fn header(bytes: &[u8]) {
    for container in [Container::Raw, Container::Zstd] {
        match read_header(container, bytes) {
            Ok(line) if container == Container::Raw => {
                let end = bytes.iter().position(|&byte| byte == b'\n');
                assert_eq!(Some(line.as_bytes()), end.map(|end| &bytes[..end]));
            }
            Ok(_) => {}
            Err(error) => check::explains(&error),
        }
    }
    let Ok(line) = std::str::from_utf8(bytes) else {
        return;
    };
    let stored = match StoredHeader::read(line) {
        Ok(stored) => stored,
        Err(error) => return check::explains(&error),
    };
    assert!(stored.version() <= CURRENT_VERSION);
    let written = encode_header(stored.header()).expect("what was read can be written");
    let text = written.trim_end_matches('\n');
    assert_eq!(written, format!("{text}\n"), "one line");
    let again = StoredHeader::read(text).expect("what was written can be read");
    assert_eq!(again.version(), CURRENT_VERSION);
    assert_eq!(again.header(), stored.header());
    assert_eq!(encode_header(again.header()), Ok(written));
}
