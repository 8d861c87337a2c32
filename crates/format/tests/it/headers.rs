//! The header line: the version comes first, then every member (§1.7, §2.1).

use offshoot_format::{FormatError, StoredHeader, encode_header};
use offshoot_session::{Origin, SessionHeader};

use crate::support::HEADER;

fn refusal(line: &str) -> (&'static str, String) {
    let error = StoredHeader::read(line).unwrap_err();
    (error.code(), error.to_string())
}

fn with(from: &str, to: &str) -> String {
    assert!(HEADER.contains(from));
    HEADER.replace(from, to)
}

#[test]
fn a_full_header_reads_and_writes() {
    let line = concat!(
        r#"{"type":"session","version":4,"id":"a","createdAt":9007199254740991,"cwd":"/x","#,
        r#""parentSession":"b","isSeeded":true,"origin":"subagent","delegationDepth":3,"agentPreset":"p"}"#
    );
    let header = SessionHeader {
        id: "a".into(),
        created_at: 9_007_199_254_740_991,
        cwd: Some("/x".into()),
        parent: Some("b".into()),
        is_seeded: true,
        origin: Some(Origin::Subagent),
        delegation_depth: 3,
        agent_preset: Some("p".into()),
    };
    assert_eq!(StoredHeader::read(line).unwrap().into_header(), header);
    assert_eq!(encode_header(&header).unwrap(), format!("{line}\n"));
}

#[test]
fn members_come_in_any_order_and_paths_from_any_machine() {
    let line = concat!(
        r#" { "version" : 4 , "delegationDepth":0,"isSeeded":false,"createdAt":1,"cwd":"C:\\work","#,
        "\"id\":\"\",\"type\":\"session\" }\r"
    );
    let header = StoredHeader::read(line).unwrap().into_header();
    assert_eq!(
        (header.id.as_str(), header.cwd.as_deref()),
        ("", Some(r"C:\work"))
    );
}

#[test]
fn another_version_is_unsupported_whatever_else_the_line_holds() {
    for (version, direction) in [
        ("5", "it was written by a newer one"),
        ("18446744073709551616", "it was written by a newer one"),
        ("0.5", ""),
        ("-1", ""),
        ("4.5", "it was written by a newer one"),
        ("1e300", "it was written by a newer one"),
    ] {
        let expected = if direction.is_empty() {
            format!(
                "the file has format version {version}; this program reads versions 0 to 4 and has no way up from there"
            )
        } else {
            format!(
                "the file has format version {version}; this program reads versions 0 to 4: {direction}"
            )
        };
        for line in [
            with(":4,", &format!(":{version},")),
            format!(r#"{{"version":{version},"type":["alien"],"sandboxMode":1}}"#),
        ] {
            assert_eq!(
                refusal(&line),
                ("UNSUPPORTED_VERSION", expected.clone()),
                "{line}"
            );
            assert!(StoredHeader::read(&line).unwrap_err().is_unsupported());
        }
    }
}

#[test]
fn a_line_that_is_no_header_is_malformed() {
    let none = "line 1: expected a session header, found no numeric `version`";
    let no_object = "line 1: expected a session header, found JSON that is no object";
    for (line, message) in [
        (
            "",
            "line 1: expected a session header: EOF while parsing a value (byte 0)",
        ),
        (
            "hello",
            "line 1: expected a session header: expected value (byte 1)",
        ),
        (
            "{\"type\"",
            "line 1: expected a session header: EOF while parsing an object (byte 7)",
        ),
        ("[1]", no_object),
        ("[]", no_object),
        ("4", no_object),
        ("null", no_object),
        ("\"session\"", no_object),
        ("{}", none),
        (r#"{"type":"session","version":"4"}"#, none),
        (r#"{"type":"session","version":null}"#, none),
        (r#"{"type":"session","version":[4]}"#, none),
        (
            r#"{"type":"turn/start","version":4}"#,
            r#"line 1: expected `"type":"session"`"#,
        ),
        (r#"{"version":4}"#, r#"line 1: expected `"type":"session"`"#),
    ] {
        assert_eq!(
            refusal(line),
            ("MALFORMED_HEADER", message.to_owned()),
            "{line}"
        );
    }
}

#[test]
fn every_member_is_as_the_version_says() {
    for (line, part) in [
        (with(r#""id":"me","#, ""), "missing field `id`"),
        (
            with(r#""me""#, "7"),
            "invalid type: integer `7`, expected a string",
        ),
        (with(r#""createdAt":1,"#, ""), "missing field `createdAt`"),
        (
            with(":1,", ":-1,"),
            "invalid value: integer `-1`, expected u64",
        ),
        (
            with(":1,", ":-0,"),
            "invalid type: floating point `-0.0`, expected u64",
        ),
        (
            with(":1,", ":1.5,"),
            "invalid type: floating point `1.5`, expected u64",
        ),
        (
            with(":1,", ":9007199254740992,"),
            "header member `createdAt` is 9007199254740992, beyond 2^53 − 1",
        ),
        (
            with(":0}", ":-0}"),
            "invalid type: floating point `-0.0`, expected u64",
        ),
        (
            with(r#","delegationDepth":0"#, ""),
            "missing field `delegationDepth`",
        ),
        (with(r#""isSeeded":false,"#, ""), "missing field `isSeeded`"),
        (
            with("false", "0"),
            "invalid type: integer `0`, expected a boolean",
        ),
        (
            with(":0}", r#":0,"seedLength":0}"#),
            "unknown field `seedLength`, expected one of `type`",
        ),
        (
            with(":0}", r#":0,"colour":1}"#),
            "unknown field `colour`, expected one of `type`",
        ),
        (
            with(":0}", r#":0,"cwd":null}"#),
            "invalid type: null, expected a string",
        ),
        (
            with(":0}", r#":0,"cwd":"work"}"#),
            r#"header member `cwd` must be an absolute path, found "work""#,
        ),
        (
            with(":0}", r#":0,"parentSession":null}"#),
            "invalid type: null, expected a string",
        ),
        (with(":0}", r#":0,"origin":null}"#), "expected value"),
        (
            with(":0}", r#":0,"origin":"person"}"#),
            "unknown variant `person`, expected `subagent`",
        ),
        (
            with(":0}", r#":0,"agentPreset":null}"#),
            "invalid type: null, expected a string",
        ),
        (with(":0}", r#":0,"id":"you"}"#), "duplicate field `id`"),
        (
            with(":4,", ":4,\"version\":4,"),
            "duplicate field `version`",
        ),
        (
            with(":0}", r#":0,"sandboxMode":"x"}"#),
            "the header member `sandboxMode` is retired",
        ),
        (
            with(":0}", r#":0,"approvalPolicy":{}}"#),
            "the header member `approvalPolicy` is retired",
        ),
        (
            with(":0}", r#":0,"sandboxMode":null}"#),
            "the header member `sandboxMode` is retired",
        ),
        (
            with(r#""me""#, r#""\ud800""#),
            "a string has half of a surrogate pair",
        ),
    ] {
        let (code, message) = refusal(&line);
        assert_eq!(code, "MALFORMED_HEADER", "{line}");
        assert!(
            message.starts_with("line 1: ") && message.contains(part),
            "{line}: {message}"
        );
    }
}

#[test]
fn a_header_that_would_not_be_read_back_is_not_written() {
    let fine = SessionHeader::new("me".into(), 1);
    for broken in [
        SessionHeader {
            cwd: Some("work".into()),
            ..fine.clone()
        },
        SessionHeader {
            created_at: u64::MAX,
            ..fine.clone()
        },
        SessionHeader {
            delegation_depth: 1 << 53,
            ..fine
        },
    ] {
        assert!(
            matches!(
                encode_header(&broken),
                Err(FormatError::MalformedHeader { .. })
            ),
            "{broken:?}"
        );
    }
}
