//! On how many threads a file is read makes no difference: not to what is read, and not to what is wrong.

use std::fs;
use std::sync::LazyLock;

use offshoot_format::{Container, FormatError, Threads, decode_on};
use offshoot_test_support::corpus;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::support::{BOTH, FIXTURES, file, frames, row, rows};

/// Everything that reading comes to, as text.
fn outcome(threads: Threads, container: Container, bytes: &[u8]) -> Result<String, FormatError> {
    let stored = decode_on(threads, container, bytes, &[])?;
    let head = (
        stored.version,
        &stored.header,
        &stored.header_line,
        stored.inherited,
        &stored.tail,
    );
    Ok(format!("{head:?}\n{}", rows(&stored.log).join("\n")))
}

#[track_caller]
fn same(name: &str, container: Container, bytes: &[u8]) {
    let (one, two) = (
        outcome(Threads::One, container, bytes),
        outcome(Threads::Two, container, bytes),
    );
    assert_eq!(one, two, "{name} as {container:?}");
}

/// More rows than travel together at a time, in turns, so that each has its witness.
fn long() -> String {
    let mut lines = Vec::new();
    for turn in 1..=300_u64 {
        let seq = 4 * (turn - 1);
        lines.push(row("turn/start", seq, &format!(r#"{{"turn":{turn}}}"#)));
        for more in 1..=2 {
            let text = "word ".repeat((turn % 7 * 100) as usize);
            let data = format!(r#"{{"text":"{text}"}}"#);
            lines.push(row("feedback/record", seq + more, &data));
        }
        let data = format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#);
        lines.push(row("turn/end", seq + 3, &data));
    }
    file(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Files by name, each as its lines and as frames of some of them.
static FILES: LazyLock<Vec<(String, [Vec<u8>; 2])>> = LazyLock::new(|| {
    let both = |text: &str, batch| [text.as_bytes().to_vec(), frames(text, batch).0];
    let mut files = vec![
        ("long".to_owned(), both(&long(), 7)),
        ("long, one frame".to_owned(), both(&long(), usize::MAX)),
    ];
    for (name, text) in FIXTURES {
        files.push(((*name).to_owned(), both(text, 3)));
    }
    for version in ["v0", "v1", "v2", "v3", "v4"] {
        for dir in [version.to_owned(), format!("{version}-completed")] {
            for path in corpus::files(&dir) {
                let text = fs::read_to_string(&path).unwrap();
                files.push((path.display().to_string(), both(&text, 5)));
            }
        }
    }
    files
});

#[test]
fn every_file_is_read_alike() {
    for (name, both) in &*FILES {
        for (container, bytes) in BOTH.into_iter().zip(both) {
            same(name, container, bytes);
        }
    }
}

#[test]
fn the_first_fault_is_told_whatever_comes_behind_it() {
    let text = long();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    // Behind each of them stand faults of every kind, some of which would be found sooner.
    let faults = [
        r#"{"type":"turn/start","seq":"#,
        r#"{"type":"later/type","seq":600,"time":1,"data":{}}"#,
        r#"{"type":"turn/start","seq":600,"time":1,"data":{"turn":7}}"#,
        r#"{"type":"turn/start","seq":600,"time":1,"data":{}}"#,
        r#"{"type":"tool/code-dispatch","seq":600,"time":1,"data":{}}"#,
        r#"{"type":"plan/mode","seq":77,"time":1,"data":{}}"#,
    ];
    for first in faults {
        for second in faults {
            let mut lines = lines.clone();
            lines[600] = first;
            lines[900] = second;
            let text = file(&lines);
            same(first, Container::Raw, text.as_bytes());
            same(first, Container::Zstd, &frames(&text, 40).0);
            let mut packed = frames(&text, 40);
            let damaged = packed.1[20].end - 1;
            packed.0[damaged] ^= 1;
            same(first, Container::Zstd, &packed.0);
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_told_by_their_line() {
    let text = long();
    for (line, place) in [(2, "line 2: "), (700, "line 700: ")] {
        let start: usize = text
            .split_inclusive('\n')
            .take(line - 1)
            .map(str::len)
            .sum();
        let mut bytes = text.clone().into_bytes();
        bytes[start + 40] = 0xff;
        same("no UTF-8", Container::Raw, &bytes);
        let error = outcome(Threads::Two, Container::Raw, &bytes).unwrap_err();
        let told = error.to_string();
        assert!(told.starts_with(place), "{told}");
        assert!(told.contains("not UTF-8 (byte 40 of the line)"), "{told}");
    }
}

proptest! {
    #[test]
    fn whatever_happened_to_a_file_is_told_alike(
        which in any::<Index>(),
        zstd in any::<bool>(),
        cut in any::<Option<Index>>(),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 0..3),
    ) {
        let (name, both) = &FILES[which.index(FILES.len())];
        let container = BOTH[usize::from(zstd)];
        let mut bytes = both[usize::from(zstd)].clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        same(name, container, &bytes);
    }
}
