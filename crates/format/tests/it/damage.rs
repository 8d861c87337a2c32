//! Damaged files never panic, and are never taken for less than they are.

use offshoot_format::{Container, FormatError, StoredSession, decode_as};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::support::{BOTH, FIXTURES, fixture, frames, packed, rows, text_of, whole_lines};

/// One thing that happens to a file.
#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    Truncate(Index),
    Insert(Index, Vec<u8>),
    Remove(Index, u8),
    RepeatLine(Index),
    SwapLines(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        3 => (any::<Index>(), 1..=u8::MAX).prop_map(|(at, mask)| Damage::Flip(at, mask)),
        1 => any::<Index>().prop_map(Damage::Truncate),
        2 => (any::<Index>(), vec(any::<u8>(), 1..9)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        2 => (any::<Index>(), 1..9_u8).prop_map(|(at, count)| Damage::Remove(at, count)),
        1 => any::<Index>().prop_map(Damage::RepeatLine),
        1 => any::<Index>().prop_map(Damage::SwapLines),
    ]
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let mut lines: Vec<Vec<u8>> = Vec::new();
        if let Self::RepeatLine(_) | Self::SwapLines(_) = self {
            lines = bytes
                .split_inclusive(|&byte| byte == b'\n')
                .map(<[u8]>::to_vec)
                .collect();
        }
        match self {
            Self::Flip(at, mask) => {
                let at = at.index(bytes.len());
                bytes[at] ^= mask;
            }
            Self::Truncate(at) => bytes.truncate(at.index(bytes.len())),
            Self::Insert(at, more) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, more.iter().copied());
            }
            Self::Remove(at, count) => {
                let at = at.index(bytes.len());
                let end = bytes.len().min(at + usize::from(*count));
                bytes.drain(at..end);
            }
            Self::RepeatLine(at) => {
                let at = at.index(lines.len());
                lines.insert(at, lines[at].clone());
                *bytes = lines.concat();
            }
            Self::SwapLines(at) => {
                let (at, len) = (at.index(lines.len()), lines.len());
                lines.swap(at, (at + 1) % len);
                *bytes = lines.concat();
            }
        }
    }
}

/// What is true of whatever is read, however broken the file.
fn is_sound(container: Container, bytes: &[u8], stored: &StoredSession) {
    let (keep, recovered) = match &stored.tail {
        None => (bytes.len(), 0),
        Some(tail) => (tail.keep as usize, tail.recovered),
    };
    assert!(recovered <= stored.log.end().get());
    if container == Container::Raw {
        assert_eq!(text_of(stored).as_bytes(), &bytes[..keep]);
    }
    let again = decode_as(Container::Raw, text_of(stored).as_bytes()).unwrap();
    assert_eq!(rows(&again.log), rows(&stored.log));
    assert_eq!(again.inherited, stored.inherited);
}

fn has_a_text(error: &FormatError) {
    assert!(!error.to_string().is_empty() && !error.hint().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_damage_gives_an_error_or_a_sound_log(
        which in any::<Index>(),
        damages in vec(damage(), 1..4),
        batch in 1..6_usize,
    ) {
        let (_, text) = which.get(FIXTURES);
        for container in BOTH {
            let mut bytes = packed(container, text, batch);
            if container == Container::Zstd {
                bytes = packed(container, whole_lines(text), batch);
            }
            for damage in &damages {
                damage.apply(&mut bytes);
            }
            match decode_as(container, &bytes) {
                Ok(stored) => is_sound(container, &bytes, &stored),
                Err(error) => has_a_text(&error),
            }
        }
    }

    #[test]
    fn random_bytes_are_never_a_session(bytes in vec(any::<u8>(), 0..200)) {
        for container in BOTH {
            let error = decode_as(container, &bytes).unwrap_err();
            has_a_text(&error);
        }
    }

    #[test]
    fn random_rows_behind_a_header_never_panic(rows in vec("[ -~]{0,40}", 0..6)) {
        let text = crate::support::file(&rows.iter().map(String::as_str).collect::<Vec<_>>());
        if let Ok(stored) = decode_as(Container::Raw, text.as_bytes()) {
            is_sound(Container::Raw, text.as_bytes(), &stored);
        }
    }
}

#[test]
fn one_wrong_byte_in_a_compressed_file_never_changes_an_event() {
    let text = fixture("two-calls");
    let (bytes, places) = frames(text, 5);
    let last = places.last().unwrap().start;
    for at in 0..bytes.len() {
        for mask in [0x01, 0x10, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] ^= mask;
            if let Ok(stored) = decode_as(Container::Zstd, &bytes) {
                let left = text_of(&stored);
                assert!(text.starts_with(&left), "byte {at} ^ {mask:#x}: {left}");
                // The last frame holds the last `turn/end`, so that its loss has no witness.
                assert!(
                    at >= last || left == text,
                    "byte {at} ^ {mask:#x}: {} events are left",
                    stored.log.end()
                );
            }
        }
    }
}

#[test]
fn one_wrong_byte_in_a_raw_file_never_drops_a_committed_event() {
    let text = fixture("two-calls");
    let count = text.lines().count() - 1;
    let last_row = whole_lines(text.trim_end()).len();
    for (at, byte) in text.bytes().enumerate() {
        for mask in [1 << (at % 8), byte ^ b'\n'] {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] ^= mask;
            if let Ok(stored) = decode_as(Container::Raw, &bytes) {
                is_sound(Container::Raw, &bytes, &stored);
                let left = stored.log.end().get() as usize;
                // Without the line feed ahead of it the last `turn/end` itself is no row any more.
                assert!(
                    at + 1 >= last_row || left == count,
                    "byte {at} ^ {mask:#x}: {left} events are left"
                );
            }
        }
    }
}
