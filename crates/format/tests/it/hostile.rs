//! Files that nobody writes by accident: very deep, very long, very many, and numbers and strings at the edge of what JSON
//! can say. Each ends in a typed error or is read exactly; no recursion, no work that grows faster than the file
//! (`reference/persistence.md` §1.6, §12).

use std::thread;

use offshoot_format::{Container, FormatError, StoredHeader, decode_as};

use crate::support::{BOTH, HEADER, file, frame, packed, refused, row, rows, stored};

/// Runs with a stack that nothing gets far with whose recursion follows the file. (serde_json itself goes 128 levels down
/// where it reads a type, and refuses the next.)
fn on_a_small_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(256 << 10);
        thread.spawn_scoped(scope, work).unwrap().join().unwrap()
    })
}

/// What becomes of one row behind a header: `None` if the log has it byte for byte, otherwise why it is left out or the
/// file refused.
fn verdict(container: Container, row: &str) -> Option<String> {
    let text = file(&[row]);
    match decode_as(container, &packed(container, &text, 1)) {
        Ok(stored) => match stored.tail {
            None => {
                assert_eq!(rows(&stored.log), [row]);
                None
            }
            Some(tail) => {
                assert!(stored.log.is_empty());
                Some(tail.reason)
            }
        },
        Err(error) => {
            assert!(!error.hint().is_empty());
            Some(error.to_string())
        }
    }
}

#[track_caller]
fn is_exact(row: &str) {
    for container in BOTH {
        let shown = &row[..row.len().min(200)];
        assert_eq!(verdict(container, row), None, "{shown}");
    }
}

#[track_caller]
fn is_refused(row: &str, why: &str) {
    for container in BOTH {
        let shown = &row[..row.len().min(200)];
        assert_eq!(verdict(container, row).as_deref(), Some(why), "{shown}");
    }
}

/// A user message whose parts can be anything.
fn user(id: &str, content: &str, more: &str) -> String {
    format!(
        r#"{{"type":"user/message","seq":0,"time":0,"data":{{"id":{id},"role":"user","content":{content},"source":{{"kind":"user"}}{more}}},"surfaceOp":"append"}}"#
    )
}

/// An ignorable event of a type that this version does not know.
fn unknown(members: &str) -> String {
    format!(r#"{{"type":"gadget/blinked","seq":0,"time":0,"ignorable":true,{members}}}"#)
}

#[test]
fn json_of_any_depth_is_kept_where_it_is_opaque() {
    on_a_small_stack(|| {
        for depth in [200, 100_000] {
            let list = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            let object = format!("{}0{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
            for deep in [list, object] {
                is_exact(&row("todo/write", 0, &format!(r#"{{"todos":{deep}}}"#)));
                is_exact(&user(
                    r#""u""#,
                    &format!(r#"[{{"type":"x","x":{deep}}}]"#),
                    "",
                ));
                is_exact(&user(r#""u""#, "[]", &format!(r#","x":{deep}"#)));
                is_exact(&unknown(&format!(r#""data":{deep}"#)));
                is_exact(&unknown(&format!(r#""data":0,"surfaceOp":{deep}"#)));
                is_exact(&unknown(&format!(r#""data":0,"sourceEventSeqs":{deep}"#)));
            }
        }
    });
}

#[test]
fn json_of_any_depth_is_refused_where_something_else_belongs() {
    let list = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    on_a_small_stack(|| {
        for depth in [200, 100_000] {
            let deep = list(depth);
            for envelope in [
                format!(r#"{{"type":{deep},"seq":0,"time":0,"data":{{}}}}"#),
                format!(r#"{{"type":"todo/write","seq":{deep},"time":0,"data":{{}}}}"#),
                format!(r#"{{"type":"todo/write","seq":0,"time":{deep},"data":{{}}}}"#),
                format!(r#"{{"type":"todo/write","seq":0,"time":0,"data":{{}},"x":{deep}}}"#),
                format!(
                    r#"{{"type":"todo/write","seq":0,"time":0,"data":{{}},"ignorable":{deep}}}"#
                ),
                deep.clone(),
                "[".repeat(depth),
                r#"{"data":"#.repeat(depth),
            ] {
                for container in BOTH {
                    let reason = verdict(container, &envelope).unwrap();
                    assert!(
                        reason.starts_with("not a valid event row: "),
                        "{reason:.200}"
                    );
                }
            }
            for payload in [
                row("turn/start", 0, &format!(r#"{{"turn":{deep}}}"#)),
                row("turn/end", 0, &format!(r#"{{"turn":1,"reason":{deep}}}"#)),
                user(&deep, "[]", ""),
                user(r#""u""#, r#"{"a":0}"#, ""),
                user(r#""u""#, "[]", "").replace(r#""append""#, &deep),
                user(r#""u""#, "[]", "").replace(
                    r#""append""#,
                    &format!(r#""append","sourceEventSeqs":{deep}"#),
                ),
            ] {
                for container in BOTH {
                    let text = file(&[&payload]);
                    let error = refused(container, &packed(container, &text, 1));
                    assert_eq!(error.code(), "DAMAGED_LOG", "{payload:.200}");
                }
            }
            for header in [
                HEADER.replace(r#""me""#, &deep),
                HEADER.replace(
                    r#""delegationDepth""#,
                    &format!(r#""x":{deep},"delegationDepth""#),
                ),
                HEADER.replace("false", &deep),
                deep.clone(),
            ] {
                let error = StoredHeader::read(&header).unwrap_err();
                assert_eq!(error.code(), "MALFORMED_HEADER", "{header:.200}");
            }
            // The version comes first, whatever else the line holds (§1.7).
            let newer = format!(r#"{{"x":{deep},"version":5}}"#);
            let error = StoredHeader::read(&newer).unwrap_err();
            assert_eq!(error.code(), "UNSUPPORTED_VERSION");
        }
    });
}

#[test]
fn depth_is_no_danger_in_files_of_older_versions_either() {
    on_a_small_stack(|| {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for version in 0..4 {
            let seed = if version < 2 {
                ""
            } else {
                r#""isSeeded":false,"#
            };
            let header = format!(
                r#"{{"type":"session","version":{version},"id":"me","createdAt":1,{seed}"delegationDepth":0}}"#
            );
            for row in [
                row("todo/write", 0, &format!(r#"{{"todos":{deep}}}"#)),
                row("turn/start", 0, &deep),
                user(r#""u""#, &deep, ""),
                unknown(&format!(r#""data":{deep}"#)),
                format!(r#"{{"type":"text-chunks","seq0":0,"time0":0,"data":{deep}}}"#),
                format!(r#"{{"type":"text-chunks","seq0":{deep},"time0":0,"data":{{}}}}"#),
                deep.clone(),
            ] {
                let text = format!("{header}\n{row}\n");
                match decode_as(Container::Raw, text.as_bytes()) {
                    Ok(stored) => assert!(stored.log.end().get() <= 3),
                    Err(error) => assert!(!error.to_string().is_empty()),
                }
            }
        }
    });
}

#[test]
fn minus_zero_is_no_count_and_stays_as_it_is_where_it_is_opaque() {
    for (bad, why) in [
        (
            r#"{"type":"todo/write","seq":-0,"time":0,"data":{}}"#,
            "not a valid event row: invalid type: floating point `-0.0`, expected u64 (byte 29)",
        ),
        (
            r#"{"type":"todo/write","seq":0,"time":-0,"data":{}}"#,
            "not a valid event row: invalid type: floating point `-0.0`, expected i64 (byte 38)",
        ),
        (
            r#"{"type":"turn/start","seq":0,"time":0,"data":{"turn":-0}}"#,
            "line 2: `turn/start`: invalid type: floating point `-0.0`, expected u64 (byte 10)",
        ),
    ] {
        is_refused(bad, why);
    }
    let header = HEADER.replace(r#""createdAt":1"#, r#""createdAt":-0"#);
    assert_eq!(
        StoredHeader::read(&header).unwrap_err().to_string(),
        "line 1: invalid type: floating point `-0.0`, expected u64 (byte 54)"
    );
    for opaque in ["-0", "-0.0", "[-0,-0e0]", r#"{"a":-0}"#] {
        is_exact(&row("todo/write", 0, &format!(r#"{{"todos":{opaque}}}"#)));
        is_exact(&unknown(&format!(r#""data":{opaque}"#)));
    }
}

#[test]
fn counts_end_at_the_largest_safe_integer() {
    let largest = (1_u64 << 53) - 1;
    for beyond in [largest + 1, largest + 2, u64::MAX] {
        for bad in [
            format!(r#"{{"type":"todo/write","seq":{beyond},"time":0,"data":{{}}}}"#),
            format!(r#"{{"type":"todo/write","seq":0,"time":-{beyond},"data":{{}}}}"#),
        ] {
            for container in BOTH {
                let why = verdict(container, &bad).unwrap();
                assert!(why.starts_with("not a valid event row: "), "{why}");
            }
        }
        let turn = row("turn/start", 0, &format!(r#"{{"turn":{beyond}}}"#));
        is_refused(
            &turn,
            &format!(
                "line 2: `turn/start`: {beyond} is beyond 2^53 \u{2212} 1 (byte {})",
                9 + beyond.to_string().len()
            ),
        );
    }
    is_refused(
        &row("todo/write", largest, "{}").replace(&format!(r#""time":{largest}"#), r#""time":0"#),
        &format!("expected seq 0, found {largest}"),
    );
    for time in [format!("{largest}"), format!("-{largest}")] {
        is_exact(&format!(
            r#"{{"type":"todo/write","seq":0,"time":{time},"data":{{}}}}"#
        ));
    }
    for opaque in [
        "9007199254740993",
        "1e400",
        "-1e-400",
        "123456789012345678901234567890",
        "1.0",
        "1e2",
    ] {
        is_exact(&row("todo/write", 0, &format!(r#"{{"todos":{opaque}}}"#)));
    }
    for number in [
        "1e0",
        "1.0",
        "1e400",
        "18446744073709551616",
        "01",
        "+1",
        "0x1",
        "NaN",
    ] {
        for container in BOTH {
            let bad = format!(r#"{{"type":"todo/write","seq":{number},"time":0,"data":{{}}}}"#);
            assert!(verdict(container, &bad).is_some(), "{number}");
        }
    }
    let sources = |list: &str| {
        user(r#""u""#, "[]", "").replace(
            r#""append""#,
            &format!(r#""append","sourceEventSeqs":{list}"#),
        )
    };
    // A range is refused by its end, before anybody expands it.
    for list in [
        "[[0,9007199254740991]]",
        "[[0,18446744073709551615]]",
        "[9007199254740992]",
    ] {
        for container in BOTH {
            let error = refused(container, &packed(container, &file(&[&sources(list)]), 1));
            assert_eq!(error.code(), "DAMAGED_LOG", "{list}");
        }
    }
}

#[test]
fn half_a_surrogate_pair_is_kept_or_refused_but_never_replaced() {
    for half in [r"\ud83d", r"\udc00", r"\udc00\ud83d", r"a\ud83d\u0041"] {
        let text = format!(r#""{half}""#);
        is_exact(&row(
            "todo/write",
            0,
            &format!(r#"{{"todos":{text},{text}:0}}"#),
        ));
        is_exact(&user(
            r#""u""#,
            &format!(r#"[{{"type":"text","text":{text}}}]"#),
            "",
        ));
        is_exact(&unknown(&format!(r#""data":{text}"#)));
        for (bad, what) in [
            (
                format!(r#"{{"type":{text},"seq":0,"time":0,"data":{{}}}}"#),
                "not a valid event row: ",
            ),
            (
                format!(r#"{{"type":"todo/write","seq":0,"time":0,"data":{{}},{text}:0}}"#),
                "not a valid event row: ",
            ),
            (user(&text, "[]", ""), "line 2: `user/message`: "),
            (
                user(r#""u""#, "[]", "").replace(r#""kind":"user""#, &format!(r#""kind":{text}"#)),
                "line 2: `user/message`: ",
            ),
            (
                user(r#""u""#, "[]", "").replace(r#""append""#, &text),
                "line 2: `user/message`: ",
            ),
        ] {
            for container in BOTH {
                let why = verdict(container, &bad).unwrap();
                assert!(why.starts_with(what), "{bad}: {why}");
            }
        }
        let calls = |id: &str, name: &str, arguments: &str| {
            file(&[
                &row("turn/start", 0, r#"{"turn":1}"#),
                &row("step/start", 1, r#"{"turn":1,"step":1}"#),
                &format!(
                    r#"{{"type":"assistant/message","seq":2,"time":2,"data":{{"turn":1,"step":1,"message":{{"id":"a","role":"assistant","content":[{{"type":"tool-call","id":{id},"name":{name},"arguments":{arguments}}}],"source":{{"kind":"model","provider":"p","model":"m"}}}},"stream":[]}},"surfaceOp":"append"}}"#
                ),
                &row(
                    "tool/call",
                    3,
                    &format!(
                        r#"{{"turn":1,"step":1,"callId":{id},"name":{name},"arguments":{arguments}}}"#
                    ),
                ),
            ])
        };
        for container in BOTH {
            for kept in [
                calls(r#""c""#, &text, r#""{}""#),
                calls(r#""c""#, r#""n""#, &text),
            ] {
                let stored = stored(container, &packed(container, &kept, 2));
                assert_eq!(rows(&stored.log), kept.lines().skip(1).collect::<Vec<_>>());
                assert_eq!(stored.closers().len(), 3);
            }
            let error = refused(
                container,
                &packed(container, &calls(&text, r#""n""#, r#""{}""#), 2),
            );
            assert_eq!(
                (error.code(), error.place().unwrap().line),
                ("DAMAGED_LOG", 4)
            );
        }
        for header in [
            HEADER.replace(r#""me""#, &text),
            HEADER.replace(r#""isSeeded""#, &format!(r#""cwd":"/{half}","isSeeded""#)),
            HEADER.replace(r#""isSeeded""#, &format!(r#"{text}:0,"isSeeded""#)),
        ] {
            let error = StoredHeader::read(&header).unwrap_err();
            assert_eq!(error.code(), "MALFORMED_HEADER", "{header}");
        }
    }
}

#[test]
fn a_member_that_is_there_twice_is_refused_where_it_is_read_and_kept_where_it_is_opaque() {
    is_exact(&row(
        "todo/write",
        0,
        r#"{"todos":1,"todos":[2],"todos":1}"#,
    ));
    is_exact(&unknown(r#""data":{"a":1,"a":2}"#));
    is_exact(&user(
        r#""u""#,
        r#"[{"type":"text","text":"a","text":"b"}]"#,
        "",
    ));
    for member in [
        r#""type":"todo/write""#,
        r#""seq":0"#,
        r#""time":0"#,
        r#""data":{}"#,
        r#""ignorable":true"#,
    ] {
        let bad = format!(
            r#"{{"type":"todo/write","seq":0,"time":0,"data":{{}},"ignorable":true,{member}}}"#
        );
        let name = member.split('"').nth(1).unwrap();
        for container in BOTH {
            let why = verdict(container, &bad).unwrap();
            assert!(
                why.starts_with(&format!("not a valid event row: duplicate field `{name}`")),
                "{why}"
            );
        }
    }
    for bad in [
        row("turn/start", 0, r#"{"turn":1,"turn":1}"#),
        user(r#""u""#, "[]", r#","id":"u""#),
        user(r#""u""#, "[]", r#","content":[]"#),
    ] {
        for container in BOTH {
            let error = refused(container, &packed(container, &file(&[&bad]), 1));
            assert!(error.to_string().contains("duplicate field"), "{error}");
        }
    }
    for member in [
        r#""id":"me""#,
        r#""version":4"#,
        r#""type":"session""#,
        r#""isSeeded":false"#,
    ] {
        let header = HEADER.replace('}', &format!(",{member}}}"));
        let error = StoredHeader::read(&header).unwrap_err();
        assert!(
            matches!(&error, FormatError::MalformedHeader { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("duplicate field"), "{error}");
    }
}

#[test]
fn a_line_of_a_hundred_megabytes_is_one_row() {
    let long = row(
        "todo/write",
        0,
        &format!(r#"{{"todos":"{}"}}"#, "a".repeat(100 << 20)),
    );
    let text = file(&[&long, &row("turn/start", 1, r#"{"turn":1}"#)]);
    let stored = stored(Container::Raw, text.as_bytes());
    assert!(rows(&stored.log)[0] == long, "kept to the byte");
    assert_eq!((stored.log.end().get(), stored.tail), (2, None));
    drop(stored.log);
    // Cut off in the middle, it is a torn line like any other.
    let torn = self::stored(Container::Raw, &text.as_bytes()[..50 << 20])
        .tail
        .unwrap();
    assert_eq!(
        (torn.reason.as_str(), torn.place.line),
        ("the line was cut off", 2)
    );
}

/// A frame without checksum whose content stands in it as it is; at most 255 bytes.
fn tiny_frame(text: &str) -> Vec<u8> {
    let size = u8::try_from(text.len()).unwrap();
    let [low, middle, _, _] = (u32::from(size) << 3 | 1).to_le_bytes();
    let head = [0x28, 0xb5, 0x2f, 0xfd, 0x20, size, low, middle, 0];
    [&head, text.as_bytes()].concat()
}

#[test]
fn a_million_tiny_frames_cost_no_more_than_their_bytes() {
    const EMPTY: usize = 1_000_000;
    const ROWS: usize = 20_000;
    let mut bytes = frame(format!("{HEADER}\n"));
    bytes.extend(tiny_frame("").repeat(EMPTY / 2));
    for seq in 0..ROWS {
        let row = row("todo/write", seq as u64, "{}");
        bytes.extend(tiny_frame(&format!("{row}\n")));
    }
    bytes.extend(tiny_frame("").repeat(EMPTY / 2));
    let whole = stored(Container::Zstd, &bytes);
    assert_eq!((whole.log.end().get(), whole.tail), (ROWS as u64, None));
    // Torn, every frame could be the start of one that swallows the rest.
    bytes.extend(&tiny_frame("{}")[..6]);
    let torn = stored(Container::Zstd, &bytes);
    assert_eq!(torn.log.end().get(), ROWS as u64);
    assert_eq!(torn.tail.unwrap().bytes, 6);
}

#[test]
fn a_damaged_length_ahead_of_very_many_frames_is_found_without_trying_them_all_over() {
    let mut bytes = frame(format!("{HEADER}\n"));
    let start = bytes.len();
    // A block that claims more than there is behind it.
    let mut overlong = tiny_frame("{}");
    overlong[6..9].copy_from_slice(&((100_000_u32 << 3) | 1).to_le_bytes()[..3]);
    bytes.extend(overlong);
    // Each looks like a frame that goes on to the end, but has only its start.
    let starts = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0xff];
    bytes.extend(starts.repeat(16_000));
    let torn = stored(Container::Zstd, &bytes);
    assert_eq!(torn.log.end().get(), 0);
    assert_eq!(torn.tail.unwrap().keep, start as u64);
}
