//! Bounded runs: enough to notice a change that breaks an invariant at once, short enough for every change.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use offshoot_fuzz::{TARGETS, branch, chain, closers, frames, header, row, salvage};
use offshoot_test_support::corpus;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Our own files, then recorded ones of every version, if there are any. Only small ones: a test shall try many.
static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    const SMALL: usize = 12_000;
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/format/tests/fixtures");
    let mut paths: Vec<PathBuf> = fs::read_dir(fixtures)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    for version in 0..=4 {
        paths.extend(corpus::files(format!("v{version}-completed")));
    }
    let files = paths.iter().map(|path| fs::read(path).unwrap());
    files.filter(|file| file.len() < SMALL).collect()
});

/// One thing that happens to a file.
#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    Truncate(Index),
    /// Puts a line of another file somewhere.
    Splice(Index, Index, Index),
    RemoveLine(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<Index>(), 1..=u8::MAX).prop_map(|(at, mask)| Damage::Flip(at, mask)),
        any::<Index>().prop_map(Damage::Truncate),
        any::<[Index; 3]>().prop_map(|[at, file, line]| Damage::Splice(at, file, line)),
        any::<Index>().prop_map(Damage::RemoveLine),
    ]
}

fn lines(file: &[u8]) -> Vec<&[u8]> {
    file.split_inclusive(|&byte| byte == b'\n').collect()
}

fn damaged(file: &[u8], damage: &Damage) -> Vec<u8> {
    if file.is_empty() {
        return Vec::new();
    }
    let mut changed = file.to_vec();
    let mut list = lines(file);
    match damage {
        Damage::Flip(at, mask) => changed[at.index(file.len())] ^= mask,
        Damage::Truncate(at) => changed.truncate(at.index(file.len())),
        Damage::Splice(at, other, line) => {
            let other = lines(&FILES[other.index(FILES.len())]);
            list.insert(at.index(list.len()), other[line.index(other.len())]);
            changed = list.concat();
        }
        Damage::RemoveLine(at) => {
            list.remove(at.index(list.len()));
            changed = list.concat();
        }
    }
    changed
}

/// A file with little damage, as it is or with its rows numbered anew (see `files.rs`).
fn damaged_file() -> impl Strategy<Value = Vec<u8>> {
    (any::<Index>(), vec(damage(), 1..4), any::<bool>()).prop_map(|(which, damages, anew)| {
        let mut file = FILES[which.index(FILES.len())].clone();
        for damage in &damages {
            file = damaged(&file, damage);
        }
        let header = file.iter().position(|&byte| byte == b'\n');
        match header.filter(|_| anew) {
            None => file,
            Some(header) => {
                let version = &file[..header];
                let digit = br#""version":"#.as_slice();
                let at = version.windows(digit.len()).position(|part| part == digit);
                let version = at.and_then(|at| version.get(at + digit.len()));
                let version = version.map_or(4, |digit| digit.wrapping_sub(b'0') % 5);
                [&[5 + version], &file[header + 1..]].concat()
            }
        }
    })
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn arbitrary_bytes_break_no_target(bytes in vec(any::<u8>(), 0..300)) {
        for (_, body) in TARGETS {
            body(&bytes);
        }
    }

    #[test]
    fn rows_and_headers_with_wrong_bytes_break_nothing(
        which in any::<[Index; 2]>(),
        flips in vec((any::<Index>(), 1..=u8::MAX), 0..3),
    ) {
        let lines = lines(&FILES[which[0].index(FILES.len())]);
        let mut line = lines[which[1].index(lines.len())].trim_ascii_end().to_vec();
        for (at, mask) in flips {
            if !line.is_empty() {
                let at = at.index(line.len());
                line[at] ^= mask;
            }
        }
        row(&line);
        header(&line);
    }
}

proptest! {
    #![proptest_config(config(120))]

    #[test]
    fn damaged_files_break_nothing(file in damaged_file()) {
        chain(&file);
        salvage(&file);
    }

    #[test]
    fn linked_forks_are_what_their_pieces_are(bytes in vec(any::<u8>(), 0..300)) {
        branch(&bytes);
    }

    #[test]
    fn sessions_are_closed_wherever_they_are_cut(bytes in vec(any::<u8>(), 0..400)) {
        closers(&bytes);
    }

    #[test]
    fn torn_frames_are_torn_and_nothing_else(
        bytes in vec(any::<u8>(), 0..200),
        mode in select(vec![0_u8, 7, 31]),
    ) {
        frames(&bytes);
        frames(&[&[0x28, 0xb5, 0x2f, 0xfd, mode << 5], &*bytes].concat());
    }
}
