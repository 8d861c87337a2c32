//! Bad input: a specific error, nothing written, and the other sessions still there.

use std::fmt::Write as _;

use offshoot_format::Container;
use offshoot_session::{Seq, build_fork_seed};
use offshoot_store::{Collecting, HOME_MARKER, Persistence as _, StoreError};

use crate::support::{Home, NOW, TWO_CALLS, all, events, file_bytes, header, write};

/// The log of session `bad`: its header line and these rows.
fn raw(rows: &[&str]) -> Vec<u8> {
    let mut text = String::from_utf8(file_bytes(Container::Raw, &header("bad"), &[])).unwrap();
    for row in rows {
        text.push_str(row);
        text.push('\n');
    }
    text.into_bytes()
}

fn row(n: usize) -> &'static str {
    TWO_CALLS.lines().nth(n).unwrap()
}

const TURN_END: &str =
    r#"{"type":"turn/end","seq":2,"time":132,"data":{"turn":1,"reason":{"kind":"completed"}}}"#;

fn cases() -> Vec<(&'static str, Vec<u8>)> {
    let mut not_utf8 = raw(&[row(0)]);
    not_utf8.extend(b"{\"type\":\"step/start\xff\"}\n");
    not_utf8.extend(TURN_END.as_bytes());
    not_utf8.push(b'\n');
    let unknown = r#"{"type":"future/thing","seq":1,"time":101,"data":{}}"#;
    let whole = file_bytes(Container::Raw, &header("bad"), &[&events(16)]);
    vec![
        ("an empty file", Vec::new()),
        ("no line feed", b"{\"type\":\"session\"".to_vec()),
        ("a header that is no JSON", b"hello\n".to_vec()),
        ("a header that is no object", b"[4]\n".to_vec()),
        (
            "a header of another thing",
            b"{\"type\":\"note\",\"version\":4}\n".to_vec(),
        ),
        (
            "a header that is not UTF-8",
            b"{\"type\":\"\xff\"}\n".to_vec(),
        ),
        (
            "a newer version",
            b"{\"type\":\"session\",\"version\":7,\"id\":\"bad\"}\n".to_vec(),
        ),
        (
            "an older version",
            b"{\"type\":\"session\",\"version\":3,\"id\":\"bad\"}\n".to_vec(),
        ),
        (
            "bad JSON in a committed turn",
            raw(&[row(0), "{oops", TURN_END]),
        ),
        ("an unknown required event", raw(&[row(0), unknown])),
        (
            "a seq gap in a committed turn",
            raw(&[row(0), row(2), TURN_END]),
        ),
        (
            "a duplicate seq in a committed turn",
            raw(&[row(0), row(1), row(1), TURN_END]),
        ),
        ("a row that is not UTF-8 in a committed turn", not_utf8),
        (
            "packed bytes under a raw name",
            file_bytes(Container::Zstd, &header("bad"), &[]),
        ),
        (
            "another session's header",
            file_bytes(Container::Raw, &header("other"), &[]),
        ),
        (
            "a header that breaks a rule",
            String::from_utf8(whole)
                .unwrap()
                .replacen("\"isSeeded\":false", "\"isSeeded\":true", 1)
                .into_bytes(),
        ),
    ]
}

fn tell(out: &mut String, home: &Home, error: &StoreError) {
    let hint = error.hint().unwrap_or_else(|| "-".into());
    let text = format!("  {} | {error}\n  hint: {hint}\n", error.code());
    out.push_str(&home.shorten(&text));
}

#[test]
fn bad_logs_are_refused_by_name_nothing_is_written_and_the_others_are_still_listed() {
    let mut told = String::new();
    for (name, bytes) in cases() {
        let home = Home::new();
        let good = file_bytes(Container::Zstd, &header("good"), &[&events(16)]);
        home.put_log("good", Container::Zstd, good);
        home.put_log("bad", Container::Raw, bytes);
        let before = home.tree();

        let store = home.store(Container::Zstd);
        let read = store.read(&"bad".into()).unwrap_err();
        let open = store.open(&"bad".into(), NOW).unwrap_err();
        assert_eq!(read.to_string(), open.to_string());
        writeln!(told, "{name}").unwrap();
        tell(&mut told, &home, &read);

        let ids: Vec<_> = all(&store).into_iter().map(|one| one.id).collect();
        assert_eq!(ids, ["bad".into(), "good".into()], "{name}");
        assert!(store.read(&"good".into()).is_ok());
        assert_eq!(home.tree(), before, "{name}");
    }
    insta::assert_snapshot!(told);
}

#[test]
fn packed_logs_with_damaged_frames_are_refused_by_name_and_nothing_is_written() {
    let first = events(3);
    let whole = file_bytes(Container::Zstd, &header("bad"), &[&first, &events(16)[3..]]);
    let header_end = file_bytes(Container::Zstd, &header("bad"), &[]).len();
    let frame_end = file_bytes(Container::Zstd, &header("bad"), &[&first]).len();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x01;
        bytes
    };
    let cases = [
        ("the magic of the header frame", flipped(0)),
        ("the checksum of the header frame", flipped(header_end - 1)),
        ("the magic of a body frame", flipped(header_end)),
        ("the checksum of a body frame", flipped(frame_end - 1)),
        ("raw bytes under a packed name", raw(&[row(0)])),
        ("a torn header frame", whole[..header_end - 1].to_vec()),
        ("garbage at the end", [&whole[..], b"garbage"].concat()),
    ];
    let mut told = String::new();
    for (name, bytes) in cases {
        let home = Home::new();
        home.put_log("bad", Container::Zstd, bytes);
        let before = home.tree();
        let store = home.store(Container::Zstd);
        let read = store.read(&"bad".into()).unwrap_err();
        let open = store.open(&"bad".into(), NOW).unwrap_err();
        assert_eq!(read.to_string(), open.to_string());
        writeln!(told, "{name}").unwrap();
        tell(&mut told, &home, &read);
        assert_eq!(all(&store).len(), 1);
        assert_eq!(home.tree(), before, "{name}");
    }
    insta::assert_snapshot!(told);
}

#[test]
fn a_closed_step_with_unanswered_calls_is_read_but_not_continued_and_nothing_is_written() {
    let step_end = r#"{"type":"step/end","seq":7,"time":111,"data":{"turn":1,"step":1}}"#;
    let turn_end =
        r#"{"type":"turn/end","seq":8,"time":112,"data":{"turn":1,"reason":{"kind":"failed"}}}"#;
    let mut rows: Vec<_> = (0..7).map(row).collect();
    rows.extend([step_end, turn_end]);
    let home = Home::new();
    home.put_log("bad", Container::Raw, raw(&rows));
    let before = home.tree();

    let store = home.store(Container::Raw);
    let mut told = String::new();
    tell(
        &mut told,
        &home,
        &store.open(&"bad".into(), NOW).unwrap_err(),
    );
    insta::assert_snapshot!(told);
    let read = store.read(&"bad".into()).unwrap();
    assert_eq!(read.stored.log.findings().count(), 1);
    assert_eq!(all(&store).len(), 1);
    // Not even the lock: the session was never going to be written.
    assert_eq!(home.tree(), before);
}

#[test]
fn a_time_that_no_marker_can_carry_is_refused_before_anything_is_written() {
    let home = Home::new();
    home.put_log("bad", Container::Raw, raw(&[row(0)]));
    let before = home.tree();
    let store = home.store(Container::Raw);
    let failure = store.open(&"bad".into(), i64::MAX).unwrap_err();
    assert_eq!(failure.code(), "INVALID_SEED");
    assert_eq!(home.tree(), before);
}

#[test]
fn a_home_of_a_newer_layout_is_read_and_not_written_to() {
    let home = Home::ours();
    let bytes = file_bytes(Container::Zstd, &header("demo"), &[&events(16)]);
    home.put_log("demo", Container::Zstd, bytes);
    let marker = home.root().parent().unwrap().join(HOME_MARKER);
    write(&marker, "{\"layout\":2}\n");
    let before = home.tree();
    let store = home.store(Container::Zstd);
    let read = store.read(&"demo".into()).unwrap();
    let seed = build_fork_seed(&read.stored.log, Seq::new(9)).unwrap();
    let child = header("demo").forked("child".into(), 2);
    let refused = [
        store.create(&header("new")).err(),
        store.fork(&child, &seed, &read.shareable).err(),
        store.open(&"demo".into(), NOW).err(),
        store.delete(&"demo".into(), NOW).err(),
        store.restore(&"demo".into()).err(),
        store.collect(0, Collecting::Remove, NOW).err(),
    ];
    for error in refused {
        assert_eq!(error.unwrap().code(), "NEWER_HOME");
    }
    assert_eq!(home.tree(), before);
}
