//! The recorded sessions: every one loads, comes back byte for byte, and can be cut anywhere.

use std::fs;
use std::path::{Path, PathBuf};

use offshoot_format::decode;
use offshoot_test_support::corpus;

use crate::cuts::{Tried, every_cut};
use crate::support::{BOTH, encode, stored, text_of};

/// Every V4 file that is a whole session: not those whose seqs were projected away, and not the list of closers.
fn recorded() -> Vec<PathBuf> {
    let own = corpus::files("v4").into_iter().filter(|path| {
        let name = name(path);
        name.starts_with("examples__") && name != "examples__crash-closers.jsonl"
    });
    own.chain(corpus::files("v4-completed")).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn every_recorded_session_is_written_again_byte_for_byte() {
    let files = recorded();
    if files.is_empty() {
        return corpus::skip_notice("every_recorded_session_is_written_again_byte_for_byte");
    }
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let original = stored(BOTH[0], text.as_bytes());
        assert_eq!(original.tail, None, "{}", path.display());
        assert_eq!(text_of(&original), text, "{}", path.display());
        for container in BOTH {
            let bytes = encode(container, &original.header, &original.log, 5);
            let again = decode(&bytes).unwrap();
            assert_eq!(again.header, original.header, "{}", path.display());
            assert_eq!(again.inherited, original.inherited, "{}", path.display());
            assert_eq!(
                text_of(&again).split_once('\n').unwrap().1,
                text.split_once('\n').unwrap().1,
                "{}",
                path.display()
            );
        }
    }
}

#[test]
fn every_event_of_every_recorded_session_is_a_cut() {
    let files = recorded();
    if files.is_empty() {
        return corpus::skip_notice("every_event_of_every_recorded_session_is_a_cut");
    }
    let mut all = Tried::default();
    println!("{:>6} {:>6} {:>8}  file", "cuts", "nested", "findings");
    let row = |tried: Tried, name: &str| {
        let Tried {
            cuts,
            nested,
            refused,
        } = tried;
        println!("{cuts:>6} {nested:>6} {refused:>8}  {name}");
    };
    for path in &files {
        let parent = stored(BOTH[0], &fs::read(path).unwrap());
        let tried = every_cut(&name(path), &parent, 5);
        assert_eq!(tried.cuts as u64, parent.log.end().get());
        row(tried, &name(path));
        all = Tried {
            cuts: all.cuts + tried.cuts,
            nested: all.nested + tried.nested,
            refused: all.refused + tried.refused,
        };
    }
    row(all, &format!("all {} files", files.len()));
}
