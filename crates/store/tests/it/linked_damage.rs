//! Linked forks that a crash has torn, or that are not what they were.

use std::fs;

use offshoot_format::{Container, FrameScan, read_header, scan_frame};
use offshoot_store::{JsonlStore, Persistence as _};

use crate::linked::{BRANCH, fork, home_with, read, source_bytes, turn_start};
use crate::support::{NOW, events, file_bytes, header, texts, write};

#[test]
fn a_crash_in_the_own_part_of_a_branch_is_repaired_there() {
    crash_in_the_own_part(&[3, 9, 16], 9);
}

#[test]
fn a_crash_in_a_branch_whose_base_is_shorter_than_its_header_is_repaired_there() {
    crash_in_the_own_part(&[1, 16], 0);
}

fn crash_in_the_own_part(frames: &[usize], cut: u64) {
    let home = home_with(frames);
    let store = home.store(Container::Zstd);
    let expected = fork(&store, "child", "demo", cut);
    let base = fs::read(home.log("demo", Container::Zstd)).unwrap();
    let path = home.dir("child").join(BRANCH);
    let clean = fs::read(&path).unwrap();
    let next = turn_start(&store.read(&"child".into()).unwrap().stored.log);
    let frame = Container::Zstd.batch([&*next]);
    for end in [1, frame.len() / 2, frame.len() - 2] {
        write(&path, [&clean[..], &frame[..end]].concat());
        let seen = store.read(&"child".into()).unwrap().stored;
        let tail = seen.tail.unwrap();
        assert_eq!(tail.bytes, end as u64);
        assert_eq!(
            (tail.keep, tail.place.byte),
            (clean.len() as u64, clean.len() as u64)
        );
        let opened = store.open(&"child".into(), NOW).unwrap();
        let rows = texts(opened.session.log().events());
        assert!(rows.starts_with(&expected), "{end}");
        assert_eq!(opened.repair.unwrap().torn_bytes, end as u64);
        drop(opened.writer);
        assert_eq!(read(&store, "child"), rows, "{end}");
        assert!(fs::read(&path).unwrap().starts_with(&clean));
    }
    assert_eq!(fs::read(home.log("demo", Container::Zstd)).unwrap(), base);
}

#[test]
fn damage_in_the_own_part_is_told_with_its_place_in_the_branch_file() {
    damage_in_the_own_part(&[3, 9, 16], 9);
    damage_in_the_own_part(&[1, 16], 0);
}

fn damage_in_the_own_part(frames: &[usize], cut: u64) {
    let home = home_with(frames);
    let store = home.store(Container::Zstd);
    fork(&store, "child", "demo", cut);
    let path = home.dir("child").join(BRANCH);
    let clean = fs::read(&path).unwrap();
    let start = match scan_frame(&clean).unwrap() {
        FrameScan::Complete(length) => length,
        FrameScan::Incomplete => panic!("no header"),
    };
    let mut damaged = clean;
    damaged[start + 12] ^= 0xFF;
    write(&path, &damaged);
    let error = store.read(&"child".into()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&format!("`: byte {start}: ")), "{text}");
    assert!(text.starts_with(&format!("`{}`", path.display())), "{text}");
}

fn refused(store: &JsonlStore) -> (String, &'static str) {
    let error = store.read(&"child".into()).unwrap_err();
    let again = store.open(&"child".into(), NOW).unwrap_err();
    assert_eq!(error.to_string(), again.to_string());
    (error.to_string(), error.code())
}

#[test]
fn a_base_that_is_not_what_it_was_refuses_the_branch_and_nothing_else() {
    let home = home_with(&[3, 9, 16]);
    let store = home.store(Container::Zstd);
    fork(&store, "child", "demo", 9);
    let base = home.dir("child").join("base-0.jsonl.zstd");
    let whole = fs::read(&base).unwrap();
    let replace = |bytes: Option<&[u8]>| {
        fs::remove_file(&base).unwrap();
        if let Some(bytes) = bytes {
            write(&base, bytes);
        }
    };
    let mut flipped = whole.clone();
    let at = source_bytes(&[3]).len() + 20;
    flipped[at] ^= 1;
    let other = file_bytes(Container::Zstd, &header("demo"), &[&events(9), &events(9)]);
    let mut told = Vec::new();
    for bytes in [
        &flipped[..],
        &whole[..source_bytes(&[3, 9]).len() - 1],
        &whole[..3],
        &other,
        b"",
    ] {
        replace(Some(bytes));
        told.push(refused(&store));
    }
    replace(None);
    told.push(refused(&store));
    write(&base, &whole);
    let told: Vec<String> = told
        .into_iter()
        .map(|(text, code)| format!("{code}: {}", home.shorten(&text)))
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    BASE_DAMAGED: `<root>/--work-demo--/child/branch.o1.jsonl.zstd`: its base `base-0.jsonl.zstd` cannot be used: its bytes are not those that the session was forked from
    BASE_DAMAGED: `<root>/--work-demo--/child/branch.o1.jsonl.zstd`: its base `base-0.jsonl.zstd` cannot be used: it is shorter than the part that belongs to the session
    BASE_DAMAGED: `<root>/--work-demo--/child/branch.o1.jsonl.zstd`: its base `base-0.jsonl.zstd` cannot be used: it is shorter than the part that belongs to the session
    BASE_DAMAGED: `<root>/--work-demo--/child/branch.o1.jsonl.zstd`: its base `base-0.jsonl.zstd` cannot be used: its bytes are not those that the session was forked from
    BASE_DAMAGED: `<root>/--work-demo--/child/branch.o1.jsonl.zstd`: its base `base-0.jsonl.zstd` cannot be used: it is shorter than the part that belongs to the session
    BASE_DAMAGED: `<root>/--work-demo--/child/branch.o1.jsonl.zstd`: its base `base-0.jsonl.zstd` cannot be used: it is not there
    "#);
    assert_eq!(read(&store, "demo"), texts(&events(16)));
    // More behind the part that counts is the source's own affair.
    write(&base, [&whole[..], b"anything"].concat());
    read(&store, "child");
}

#[test]
fn a_branch_of_a_newer_version_or_with_a_wrong_header_is_listed_with_its_reason() {
    let home = home_with(&[3, 9, 16]);
    let store = home.store(Container::Zstd);
    fork(&store, "child", "demo", 9);
    let path = home.dir("child").join(BRANCH);
    let line = read_header(Container::Zstd, &fs::read(&path).unwrap()).unwrap();
    let cases = [
        line.replace(r#""version":1"#, r#""version":2"#),
        line.replace(r#""type":"offshoot-branch""#, r#""type":"session""#),
        line.replace(r#""version":4"#, r#""version":3"#),
        line.replace("base-0", "../demo/session.v4"),
        line.replace(r#""frames":2"#, r#""frames":0"#),
        line.replace(r#""events":9"#, r#""events":-1"#),
        line.replace(r#""digest":""#, r#""digest":"x"#),
        line.replace(r#""bases":["#, r#""bases":[],"x":["#),
    ];
    let mut told = Vec::new();
    for case in cases {
        assert_ne!(case, line);
        write(
            &path,
            zstd::encode_all(format!("{case}\n").as_bytes(), 3).unwrap(),
        );
        let listed = crate::support::all(&store);
        let entry = listed.iter().find(|entry| entry.path == path).unwrap();
        let error = entry.header.as_ref().unwrap_err();
        told.push(format!(
            "{}: {}",
            error.code(),
            home.shorten(&error.to_string())
        ));
        assert_eq!(listed.len(), 2, "the other session is there");
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    UNSUPPORTED_BRANCH: `<root>/--work-demo--/child/branch.o1.jsonl.zstd`: the file is a branch of version 2, and this program reads version 1
    MALFORMED_HEADER: `<root>/--work-demo--/child/branch.o1.jsonl.zstd`: line 1: expected `"type":"offshoot-branch"`
    MALFORMED_HEADER: `<root>/--work-demo--/child/branch.o1.jsonl.zstd`: line 1: the session header of a branch has version 3
    MALFORMED_HEADER: `<root>/--work-demo--/child/branch.o1.jsonl.zstd`: line 1: base 0 is `../demo/session.v4.jsonl.zstd`, expected `base-0.jsonl.zstd`
    MALFORMED_HEADER: `<root>/--work-demo--/child/branch.o1.jsonl.zstd`: line 1: base 0 has a number that is not from 1 to 2^53 − 1
    MALFORMED_HEADER: `<root>/--work-demo--/child/branch.o1.jsonl.zstd`: line 1: invalid value: integer `-1`, expected u64 (byte 255)
    MALFORMED_HEADER: `<root>/--work-demo--/child/branch.o1.jsonl.zstd`: line 1: the digest of base 0 is not 64 hex digits
    MALFORMED_HEADER: `<root>/--work-demo--/child/branch.o1.jsonl.zstd`: line 1: unknown field `x`, expected one of `type`, `version`, `session`, `bases` (byte 198)
    "#);
}

#[test]
fn a_branch_beside_a_self_contained_file_is_neither() {
    let home = home_with(&[3, 9, 16]);
    let store = home.store(Container::Zstd);
    fork(&store, "child", "demo", 9);
    home.put_log("child", Container::Zstd, b"");
    assert_eq!(
        store.read(&"child".into()).unwrap_err().code(),
        "SESSION_AMBIGUOUS"
    );
}
